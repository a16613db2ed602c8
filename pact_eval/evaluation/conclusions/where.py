"""Where a run is wrong: groups of items that differ in accuracy or calibration.

`group_search` finds and tests them. Accuracies and confidences are those of all items of a group,
so that they are the same on every surface. They include the half that the search chose the group
by, which makes a group look somewhat further off than it is; `tested` is its mean in the half of
the test.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Final, Literal

import numpy as np
import polars as pl

from pact_eval._choices import ClusterUnit
from pact_eval._typing import BoolArray
from pact_eval.errors import counted
from pact_eval.evaluation.conclusions.conclusion import Conclusion, Question, Sentence, Tone
from pact_eval.evaluation.group_search import (
    FEWEST_IN_HALF,
    MOST_DETECTABLE,
    CheckedGroup,
    DetectableGroup,
    Measure,
    search_groups,
)
from pact_eval.evaluation.item_columns import group_labels, item_columns
from pact_eval.evaluation.items import ScoredItems
from pact_eval.evaluation.labels import Labels, ordered_groups
from pact_eval.numbers import p_value_text, value_text
from pact_eval.plain_text import short_names
from pact_eval.runs.predictions import FIRST_REPEAT
from pact_eval.stats.estimate import Estimate
from pact_eval.stats.linearised import mean_inference
from pact_eval.stats.rates import few_clusters, rate_estimate, without_interval

WhereStatus = Literal["found", "nothing found", "too few to tell", "no groups"]
"""found: a group is shown to differ. nothing found: none of those that were searched is. too few to
tell: no group has enough families, or of none a difference that matters would usually be found. no
groups: no column divides the items."""

NEEDED_FAMILIES: Final = 4 * FEWEST_IN_HALF
"""So many families of a group nearly always leave five in each half."""

MOST_BARS: Final = 20
"""So many groups of a column are drawn at most, those with the most items."""

_MOST_NAMED: Final = 2
_NUMBERS: Final = ("no", "", "two", "three", "four", "five", "six", "seven", "eight", "nine")


@dataclass(frozen=True)
class WhereGroup:
    """A group of items: all with one value of a column.

    Attributes:
        column: the column; "" for the items outside all groups that differ.
        value: the value that its items have.
        items: number of items, however often each was asked.
        families: units of intervals that they form.
        accuracy: share of right answers, with its interval; of all items of the group.
        confidence: mean confidence, a fraction; NaN if it is not known.
        gap: confidence minus accuracy, with its interval.
        p: one-sided p-value of the test, after adjustment; NaN without a test.
        tested_items: items of the group in the half of the test; 0 without a test.
        differs: what was tested; None without a test.
        tested: mean of that in the group, in the half of the test.
        tested_others: of the items outside the group there, and outside the groups before it.
        direction: over-confident or under-confident if the interval of the gap in the half of the
            test excludes 0; else "".
        better: whether it is shown to be more often right, or less far off, than the others, and
            not to be more over-confident than they are.
        also: names of groups of other columns that are the same items.
    """

    column: str
    value: str
    items: int
    families: int
    accuracy: Estimate
    confidence: float
    gap: Estimate
    p: float = math.nan
    tested_items: int = 0
    differs: Measure | None = None
    tested: float = math.nan
    tested_others: float = math.nan
    direction: str = ""
    better: bool = False
    also: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Column and value, and the other names of the same items.

        Example:
            "kind boolean (= number of answers 2)"
        """
        name = _name(self.column, self.value)
        return f"{name} (= {', '.join(self.also)})" if self.also else name

    @property
    def rates(self) -> str:
        """How many of its answers are right, and how sure they are.

        Example:
            "57.0% right, 90.1% sure"
        """
        right = f"{value_text(self.accuracy.value, 'percent')}% right"
        if math.isnan(self.confidence):
            return right
        return f"{right}, {value_text(self.confidence, 'percent')}% sure"


@dataclass(frozen=True, kw_only=True, repr=False)
class WhereConclusion(Conclusion):
    """Conclusion on the groups of items in which a run is wrong, or wrongly sure.

    Attributes:
        status: see `WhereStatus`.
        run: label of the run.
        groups: the groups that differ, in the order in which the search found them.
        elsewhere: the items outside all of them; None if there are none.
        column_bars: the groups of one column: of the first group that differs, or else of the
            column that the user named, or kind.
        columns: columns that were searched.
        left_out: columns that have no groups, such as ids.
        searched: number of groups that were searched.
        tested: number of groups that were tested.
        others: number of other values of the column, if all groups that differ are of one; else 0.
        detectable: what would have been found; None if no group was searched.
        most_families: families of the group that has most, beside others; 0 without groups.
        unit: units of the intervals.
        items: ids of the items of the groups that differ and are not better; if all of these groups
            are better, of the other items. Empty if nothing is found, or for a run in a file.
    """

    question: ClassVar[Question] = "where"

    status: WhereStatus
    run: str
    groups: tuple[WhereGroup, ...] = ()
    elsewhere: WhereGroup | None = None
    column_bars: tuple[WhereGroup, ...] = ()
    columns: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    searched: int = 0
    tested: int = 0
    others: int = 0
    detectable: DetectableGroup | None = None
    most_families: int = 0
    unit: ClusterUnit = "family"

    @property
    def only_better(self) -> bool:
        """Whether all groups that differ are better than the others."""
        return bool(self.groups) and all(group.better for group in self.groups)

    @property
    def tone(self) -> Tone:
        """Tone of the status; that some groups are better than the others is not bad news."""
        return "open" if self.only_better else super().tone

    @property
    def words(self) -> Sentence:
        """The finding with its numbers: of the first two groups.

        Examples:
            "1 group differs: books: 57.0% right, 90.1% sure; the other two: 82.0% right (tested, p
            = 0.003)."
            "Nothing found in 12 groups: one of 200 items whose accuracy is 22 points off would ..."
        """
        if self.status == "found":
            one, better = len(self.groups) == 1, " better" if self.only_better else ""
            verb = ("is" if one else "are") if better else "differs" if one else "differ"
            return Sentence(f"{counted(len(self.groups), 'group')} {verb}{better}", self._found)
        power, finding = self.detectable, self.status.capitalize()
        if self.status == "nothing found":
            finding += f" in {counted(self.searched, 'group')}"
        if self.status == "no groups":
            why = "no column divides the items; one such as topic in the file would"
        elif power is None:
            units = "independent items" if self.unit == "family" else "sources"
            most = f"the largest has {self.most_families:,}"
            why = f"a group needs about {NEEDED_FAMILIES} {units}, {most}"
        else:
            points, size = value_text(power.points, "percent"), counted(power.items, "item")
            why = f"a group of {size} would have to differ by {points} points of accuracy"
            if self.status == "nothing found":
                why = f"one of {size} whose accuracy is {points} points off would usually be found"
                why += ", a smaller one only if it is further off" if power.large else ""
        return Sentence(finding, f"{why}.")

    @property
    def line(self) -> str:
        """The same on a line, which begins with the groups.

        Example:
            "group books: 57.0% right, 90.1% sure; the other two: 82.0% right (tested, p = 0.003)"
        """
        return self.words.numbers.removesuffix(".") if self.status == "found" else super().line

    @property
    def only_there(self) -> str:
        """Direction in which all groups are off, if no gap is shown elsewhere; else ""."""
        if self.elsewhere is None or not self.elsewhere.gap.low <= 0 <= self.elsewhere.gap.high:
            return ""
        directions = {group.direction for group in self.groups}
        return directions.pop() if len(directions) == 1 else ""

    @property
    def _found(self) -> str:
        groups = self.groups[:_MOST_NAMED]
        # Of these, it is shown that their confidence is further off than that of the others.
        sure = [
            one.differs == "confidence gap" and bool(one.direction) and not one.better
            for one in groups
        ]
        parts = []
        for group, told in zip(groups, sure, strict=True):
            direction = f"{group.direction.upper()}, " if told else ""
            parts.append(f"{group.name}: {direction}{group.rates}")
        if left := len(self.groups) - len(groups):
            parts.append(counted(left, "more group"))
        if self.elsewhere is not None:
            number = f"{self.others:,}" if self.others > 9 else _NUMBERS[self.others]
            place = f"the other {number}".rstrip() if self.others else "elsewhere"
            parts.append(f"{place}: {self.elsewhere.rates}")
        tests = " and ".join(dict.fromkeys(p_value_text(group.p) for group in groups))
        only = ""
        if self.only_there:
            direction = "" if all(sure) else f"{self.only_there} "
            only = f"; {direction}only there, as far as it is shown"
        return f"{'; '.join(parts)} (tested, {tests}){only}."


def _name(column: str, value: str) -> str:
    (short_column,), (short_value,) = short_names([column]), short_names([value])
    return f"{short_column} {short_value}"


def where_conclusion(
    run: str,
    items: ScoredItems,
    columns: Iterable[tuple[str, pl.Series]],
    *,
    seed: int,
    by: str = "kind",
) -> WhereConclusion:
    """Conclude in which groups a run differs from its other items.

    Args:
        run: label of the run.
        items: its items under a decoding, with references.
        columns: by name, a value of every item; see `item_columns`.
        seed: of the halves and the permutations.
        by: column whose groups are drawn if none differs.

    Examples:
        >>> import polars as pl
        >>> from pact_eval.runs.predictions import Predictions
        >>> hard = [at % 2 == 0 for at in range(80)]
        >>> right = [at % 20 < 2 if hard[at] else at % 20 < 18 for at in range(80)]
        >>> frame = pl.DataFrame({
        ...     "id": [f"i{at:02}" for at in range(80)], "source_family": "s", "domain": "d",
        ...     "kind": "boolean", "variant": "base", "reference": [int(flag) for flag in right],
        ...     "n_choices": 2, "view": 0, "code_order": [[0, 1]] * 80, "logits": [[0.0, 2.0]] * 80,
        ...     "prompt_tokens": 9, "answer_mass": 1.0}).with_columns(family="id")
        >>> items = ScoredItems.of(Predictions.from_frame(frame), "single")
        >>> topic = pl.Series(["hard" if flag else "easy" for flag in hard])
        >>> conclusion = where_conclusion("run", items, [("topic", topic)], seed=0)
        >>> conclusion.words.finding, [(group.name, group.rates) for group in conclusion.groups]
        ('1 group differs', [('topic hard', '10.0% right, 88.1% sure')])
    """
    labels = {name: _labels(items, name, values, by) for name, values in columns}
    named = {name: groups for name, groups in labels.items() if groups is not None}
    search = search_groups(items, named, seed=seed)

    def any_of(groups: Iterable[WhereGroup]) -> BoolArray:
        inside = np.zeros(len(items), dtype=np.bool_)
        for group in groups:
            inside |= named[group.column].has(group.value)
        return inside

    found = tuple(_tested(items, named, one, search.in_test) for one in search.tests if one.shown)
    outside = ~any_of(found)
    worse = [group for group in found if not group.better]
    ids: list[str] = []
    if found and items.views is not None:  # those of items that were read from a file are not known
        behind = (any_of(worse) if worse else outside)[:: items.asked]
        ids = items.predictions.ids[:: items.asked][behind].tolist()
        ids = [name.removesuffix(FIRST_REPEAT) for name in ids] if items.asked > 1 else ids
    power = search.detectable
    status: WhereStatus = "nothing found"
    if found:
        status = "found"
    elif not named:
        status = "no groups"
    elif power is None or power.points > MOST_DETECTABLE:
        status = "too few to tell"
    of_found = {group.column for group in found}
    column = found[0].column if found else by if by in named else next(iter(named), "")
    return WhereConclusion(
        status=status,
        run=run,
        groups=found,
        elsewhere=_group(items, outside) if found and outside.any() else None,
        column_bars=_bars(items, column, named[column], found) if column else (),
        columns=tuple(named),
        left_out=tuple(name for name, groups in labels.items() if groups is None),
        searched=search.searched,
        tested=len(search.tests),
        others=len(named[column]) - len(found) if len(of_found) == 1 else 0,
        detectable=power,
        most_families=search.most_families,
        unit=items.unit,
        items=tuple(ids),
    )


def _labels(items: ScoredItems, name: str, values: pl.Series, by: str) -> Labels | None:
    """Return the groups of a column: those of its table, if the user named it and its bins."""
    if name == by and values.dtype.is_numeric() and len(items.labels[by]) > 1:
        return items.labels[by]
    asked = items.asked
    labels = group_labels(values.gather_every(asked), name, items.families.codes[::asked])
    return None if labels is None else replace(labels, codes=np.repeat(labels.codes, asked))


def _group(items: ScoredItems, inside: BoolArray, column: str = "", value: str = "") -> WhereGroup:
    """Return the numbers of a group of some items.

    Args:
        items: all items.
        inside: (n,) whether an item is in the group; one or more are.
        column: of the group.
        value: that its items have in the column.
    """
    rows = np.flatnonzero(inside)
    families, cluster = np.unique(items.cluster[rows], return_inverse=True)
    right, confidence = items.correct[rows], items.confidence[rows]
    rate = rate_estimate(np.bincount(cluster, right), np.bincount(cluster))
    gap, few = Estimate(*3 * (math.nan,), rows.size, families.size), few_clusters(families.size)
    if np.isfinite(confidence).all():
        gap = mean_inference(confidence - right, cluster, families.size).estimate()
    return WhereGroup(
        column=column,
        value=value,
        items=rows.size // items.asked,
        families=families.size,
        accuracy=without_interval(rate, few),
        confidence=float(confidence.mean()),
        gap=without_interval(gap, few),
    )


def _tested(
    items: ScoredItems, columns: Mapping[str, Labels], checked: CheckedGroup, in_test: BoolArray
) -> WhereGroup:
    """Return a group that was tested, with the other names of its items.

    Args:
        items: all items.
        columns: their values, by the name of the column.
        checked: the group, with its test.
        in_test: (n,) whether an item is in the half of the tests.
    """
    test, inside = checked.test, columns[checked.column].has(checked.value)
    own, others = (_group(items, side & in_test).gap for side in (inside, ~inside))
    direction = ""
    if own.excludes_zero:
        direction = "over-confident" if own.value > 0 else "under-confident"
    better = test.inside > test.outside
    if checked.measure == "confidence gap":
        better = abs(test.inside) < abs(test.outside)
    also = [
        _name(name, str(labels.names[code]))
        for name, labels in columns.items()
        for code in np.unique(labels.codes[inside])[:1]
        if name != checked.column and np.array_equal(labels.codes == code, inside)
    ]
    return replace(
        _group(items, inside, checked.column, checked.value),
        p=checked.adjusted,
        tested_items=checked.items,
        differs=checked.measure,
        tested=test.inside,
        tested_others=test.outside,
        direction=direction,
        better=better and not (direction == "over-confident" and own.value > others.value),
        also=tuple(also),
    )


def _bars(
    items: ScoredItems, column: str, labels: Labels, found: Sequence[WhereGroup]
) -> tuple[WhereGroup, ...]:
    """Return the groups of the column that is drawn, in the order of the report."""
    tested = {group.value: group for group in found if group.column == column}
    sizes = np.bincount(labels.codes, minlength=len(labels))
    largest = np.argsort(-sizes, kind="stable")[:MOST_BARS]
    names = ordered_groups([str(labels.names[code]) for code in np.sort(largest)])
    return tuple(
        tested.get(name) or _group(items, labels.has(name), column, name) for name in names
    )


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
    values = dict(item_columns(items))[name]
    labels = group_labels(values, name, items.families.codes)
    if labels is None or groups[0].value not in labels.names:
        labels = items.labels[name]  # bins that the user named
    ids = items.predictions.ids
    return {
        group.value: frozenset(map(str, ids[labels.has(group.value)].tolist())) for group in groups
    }
