"""The items of the groups that a conclusion on `where` draws."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pact_eval.evaluation.conclusions.where import WhereGroup
from pact_eval.evaluation.item_columns import group_labels, item_columns
from pact_eval.evaluation.items import ScoredItems


def items_of_groups(
    items: ScoredItems, groups: Sequence[WhereGroup]
) -> Mapping[str, frozenset[str]]:
    """Return the ids of the items of groups of one column.

    Args:
        items: all items that were searched.
        groups: groups of one column.

    Returns:
        The ids by the value of each group; none of items that were read from a file.
    """
    if not groups or items.views is None:
        return {}
    name = groups[0].column
    values = next(values for column, values in item_columns(items) if column == name)
    labels = group_labels(values, name, items.family)
    if labels is None or groups[0].value not in labels.names:
        labels = items.labels[name]  # bins that the user named
    ids = items.predictions.ids
    codes = {value: code for code, value in enumerate(labels.names.tolist())}
    return {
        group.value: frozenset(map(str, ids[labels.codes == codes[group.value]].tolist()))
        for group in groups
    }
