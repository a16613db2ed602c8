"""Reading of labelled files in sentences: shape, columns, and the cost of defaults."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from pact_eval._json import Json
from pact_eval.hub.snapshots import hub_json, short_name
from pact_eval.plain_text import one_line

if TYPE_CHECKING:
    from pact_eval.data.defaults import Defaults
    from pact_eval.data.labelled.columns import ColumnReading
    from pact_eval.data.labelled.reader import LabelledData

_FORMS: Final = {
    "text": "texts of options",
    "letter": "letters or names of options",
    "position-0": "positions from 0",
    "position-1": "positions from 1",
}


def labelled_remarks(data: LabelledData) -> tuple[str, ...]:
    """Say how a labelled file was read: its shape first, what its defaults cost last."""
    shape = f'"{data.shape.name}" ({data.shape.title})'
    counts = f"{_counted(data.n_entries, 'entry', 'entries')}, " + _counted(
        len(data.records), "record", "records"
    )
    remarks = [f"{one_line(short_name(data.path))}: {data.container}, shape {shape}: {counts}"]
    if data.columns is not None:
        remarks.append(_columns_text(data.columns))
        if data.metadata:
            remarks.append(one_line(f"Kept, and not read as options: {_listed(data.metadata)}"))
    remarks += [one_line(remark) for remark in data.remarks]
    remarks += [f"Left out: {count:,} questions {why}" for why, count in data.left_out.items()]
    return (*remarks, *default_remarks(data.defaults))


def default_remarks(defaults: Defaults) -> tuple[str, ...]:
    """Say what defaults cost; nothing if the records name everything.

    Examples:
        >>> from pact_eval.data.defaults import Defaults
        >>> default_remarks(Defaults((), pairs=False, source_families=False, families=False))
        ()
        >>> default_remarks(Defaults(("variant",), True, False, False))
        ('Not in the file: pairs, so there are no pair metrics',)
    """
    costs = [
        ("pairs", "there are no pair metrics", defaults.pairs),
        ("source families", "no leak by source family can be found", defaults.source_families),
        ("families", "intervals take entries as independent", defaults.families),
    ]
    lacking = [(name, cost) for name, cost, lacks in costs if lacks]
    if not lacking:
        return ()
    return ("Not in the file: " + "; ".join(f"{name}, so {cost}" for name, cost in lacking),)


def labelled_json(files: Sequence[LabelledData]) -> list[Json]:
    """Return how labelled files were read, for JSON."""
    return [
        {
            "file": str(data.path),
            **hub_json(data.path),
            "container": data.container,
            "entries": data.n_entries,
            "records": len(data.records),
            "left_out": {**data.left_out},
            "defaults": [*data.defaults.names],
            "metadata": [*data.metadata],
            **data.to_json(),
        }
        for data in files
    ]


def _columns_text(columns: ColumnReading) -> str:
    roles = ", ".join(f"{role} = {'+'.join(names)}" for role, names in columns.roles.items())
    options = "" if "options" in columns.roles else "; options: " + _listed(columns.options)
    form = f"; answers are {_FORMS[columns.form]}" if "options" in columns.roles else ""
    default_question = (
        ""
        if "question" in columns.roles and "state" in columns.roles
        else (f'; question: "{columns.question}" (--question changes it)')
    )
    return one_line(f"Columns: {roles}{form}{options}{default_question}")


def _listed(options: Sequence[str], most: int = 8) -> str:
    shown = ", ".join(
        option if len(option) <= 30 else f"{option[:27]}..." for option in options[:most]
    )
    return f"{shown}, ... ({len(options)} in all)" if len(options) > most else shown


def _counted(number: int, one: str, several: str) -> str:
    return f"{number:,} {one if number == 1 else several}"
