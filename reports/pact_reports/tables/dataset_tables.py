"""Tables about dataset files: how one was split, and how two differ."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from rich.box import ASCII2, SIMPLE_HEAD
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from pact_eval.data import DatasetDiff, FieldKind, Role, SplitPart
from pact_reports.plain_text import cell, lines

__all__ = ["diff_report", "split_table"]

_KINDS: tuple[FieldKind, ...] = ("choice", "boolean", "score")
_PURPOSE: Mapping[Role, str] = {
    "train": "train",
    "selection": "select checkpoints",
    "calibration": "fit temperatures",
    "eval": "report only",
}


def split_table(parts: Sequence[SplitPart], *, plain: bool) -> Table:
    """Lay out the parts of a split: source families, records, pairs, kinds, role."""
    table = Table(box=ASCII2 if plain else SIMPLE_HEAD, pad_edge=False, header_style="bold")
    table.add_column("file")
    for title in ("source families", "records", "pairs", *_KINDS):
        table.add_column(title, justify="right")
    table.add_column("role")
    for part in parts:
        table.add_row(
            cell(str(part.path)),
            f"{len(part.source_families):,}",
            f"{part.records:,}",
            f"{part.families:,}",
            *(f"{part.kinds.get(kind, 0):,}" for kind in _KINDS),
            _PURPOSE[part.role],
        )
    return table


def diff_report(diff: DatasetDiff, *, most: int, plain: bool) -> Iterator[RenderableType]:
    """Lay out the difference of two dataset files.

    Args:
        diff: the difference.
        most: records shown of those added, removed and changed.
        plain: ASCII rules, for output that is piped.

    Yields:
        Lists of records, a table of changed records, and one line that sums up.
    """
    for title, places in (("added", diff.added), ("removed", diff.removed)):
        if places:
            listed = [f"  line {place.line}: {place.id}" for place in places[:most]]
            yield lines([f"{title}:", *listed, *_rest(len(places), most)])
    if diff.changed:
        table = Table(box=ASCII2 if plain else SIMPLE_HEAD, pad_edge=False, header_style="bold")
        for title in ("changed", "lines", "fields", "reference"):
            table.add_column(title)
        for change in diff.changed[:most]:
            at = f"{change.old_line}, {change.new_line}"
            flip = "" if change.references is None else " -> ".join(change.references)
            table.add_row(cell(change.id), at, cell(", ".join(change.fields)), cell(flip))
        yield table
        yield from (Text(line) for line in _rest(len(diff.changed), most))
    order = "; in another order" if diff.reordered else ""
    yield Text(
        f"{diff.old_records:,} records, now {diff.new_records:,}: {len(diff.added):,} added, "
        f"{len(diff.removed):,} removed, {len(diff.changed):,} changed, {diff.flipped:,} "
        f"references flipped, {diff.unchanged:,} the same{order}.",
        style="bold",
    )


def _rest(n: int, most: int) -> list[str]:
    return [f"  ... and {n - most:,} more"] if n > most else []
