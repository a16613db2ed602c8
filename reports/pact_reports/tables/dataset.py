"""Dataset files: a split, a difference of two files, and a manifest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from pact_eval.data.diff import DatasetDiff
from pact_eval.data.files import DataFile, FileFacts, Role
from pact_eval.data.manifest import WrittenManifest
from pact_eval.data.records import FieldKind
from pact_eval.data.splits import SplitPart
from pact_eval.plain_text import one_line
from pact_reports.table import Cell, Column, Line, Part, Row, Table

_KINDS: Final[tuple[FieldKind, ...]] = ("choice", "boolean", "score")
_PURPOSE: Final[Mapping[Role, str]] = {
    "train": "train",
    "selection": "select checkpoints",
    "calibration": "fit temperatures",
    "eval": "report only",
}
_HASH: Final = 16  # digits that distinguish files; --json has all of them


def split_table(parts: Sequence[SplitPart]) -> Table:
    """Lay out the parts of a split: source families, records, pairs, kinds, role."""
    rows = []
    for part in parts:
        counts = (len(part.source_families), part.records, part.families)
        kinds = (part.kinds.get(kind, 0) for kind in _KINDS)
        cells = (Cell(f"{n:,}") for n in (*counts, *kinds))
        rows.append(Row((Cell(str(part.path)), *cells, Cell(_PURPOSE[part.role]))))
    titles = ("source families", "records", "pairs", *_KINDS)
    columns = (Column("file", "left"), *map(Column, titles), Column("role", "left"))
    return Table("split", "", "", columns, tuple(rows))


def files_table(
    files: Sequence[DataFile], facts: Sequence[FileFacts], families: Sequence[int] | None = None
) -> Table:
    """Lay out the files of a dataset: role, records, families if they were counted, hash."""
    rows = []
    for at, (file, fact) in enumerate(zip(files, facts, strict=True)):
        counts = [fact.rows, *([] if families is None else [families[at]])]
        cells = (Cell(f"{n:,}") for n in counts)
        shown = Cell(f"{fact.sha256[:_HASH]}…")
        rows.append(Row((Cell(file.name), Cell(file.role), *cells, shown)))
    counted = ["records", *([] if families is None else ["families"])]
    columns = (
        Column("file", "left"),
        Column("for", "left"),
        *map(Column, counted),
        Column("SHA-256", "left"),
    )
    return Table("files", "", "", columns, tuple(rows))


def manifest_parts(written: WrittenManifest) -> tuple[Part, ...]:
    """Lay out a manifest, and whether it was written."""
    done = "wrote" if written.changed else "unchanged:"
    heading = Line(one_line(f"{done} {written.path}"))
    return (heading, files_table(written.files, written.facts))


def diff_parts(diff: DatasetDiff, *, most: int) -> tuple[Part, ...]:
    """Lay out the difference of two dataset files.

    Args:
        diff: the difference.
        most: number of records shown of those added, removed and changed.

    Returns:
        Lists of records, a table of changed records, and a summary in one line.
    """
    parts: list[Part] = []
    for title, places in (("added", diff.added), ("removed", diff.removed)):
        if places:
            listed = [one_line(f"  line {place.line}: {place.id}") for place in places[:most]]
            parts.append(Line("\n".join([f"{title}:", *listed, *_rest(len(places), most)])))
    if diff.changed:
        rows = []
        for change in diff.changed[:most]:
            flip = "" if change.references is None else " -> ".join(change.references)
            lines = f"{change.old_line}, {change.new_line}"
            rows.append(Row(tuple(map(Cell, (change.id, lines, ", ".join(change.fields), flip)))))
        columns = (Column(title, "left") for title in ("changed", "lines", "fields", "reference"))
        notes = tuple(_rest(len(diff.changed), most))
        parts.append(Table("changed", "", "", tuple(columns), tuple(rows), notes=notes))
    order = "; in another order" if diff.reordered else ""
    parts.append(
        Line(
            f"{diff.old_records:,} records, now {diff.new_records:,}: {len(diff.added):,} added, "
            f"{len(diff.removed):,} removed, {len(diff.changed):,} changed, {diff.flipped:,} "
            f"references flipped, {diff.unchanged:,} the same{order}.",
            "strong",
        )
    )
    return tuple(parts)


def _rest(n: int, most: int) -> list[str]:
    return [f"  ... and {n - most:,} more"] if n > most else []
