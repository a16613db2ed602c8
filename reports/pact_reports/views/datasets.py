"""Files of records that commands compare, split, ablate, convert and describe."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final, cast

from pact_eval._json import Json
from pact_eval.data.ablation import AblatedFile
from pact_eval.data.diff import DatasetDiff
from pact_eval.data.files import DataFile, FileFacts, Role
from pact_eval.data.labelled.columns import ColumnReading
from pact_eval.data.labelled.plain import ConvertedFile
from pact_eval.data.labelled.reader import LabelledData
from pact_eval.data.records import Defaults, FieldKind
from pact_eval.data.splits import SplitPart, WrittenManifest
from pact_eval.errors import RecordError, counted
from pact_eval.hub import hub_json, short_name
from pact_eval.plain_text import error_text, one_line
from pact_eval.preregistration.registration import Lock
from pact_reports.table import Column, Line, Part, Table, make_table, table_row
from pact_reports.views.presenter import Presenter
from pact_reports.writers.json import file_json, to_json

_KINDS: Final[tuple[FieldKind, ...]] = ("choice", "boolean", "score")
_PURPOSE: Final[Mapping[Role, str]] = {
    "train": "train",
    "selection": "select checkpoints",
    "calibration": "fit temperatures",
    "eval": "report only",
}


def present_dataset_diff(difference: DatasetDiff, most: int = 20) -> Presenter:
    """Present a difference.

    Args:
        difference: of two files.
        most: records shown in each list; JSON has all.
    """
    counts: dict[str, Json] = {"unchanged": difference.unchanged, "flipped": difference.flipped}
    return Presenter(
        tables=partial(diff_parts, difference, most=most),
        to_json=lambda: cast("dict[str, Json]", to_json(difference)) | counts,
    )


def present_split(parts: Sequence[SplitPart]) -> Presenter:
    """Present the parts of a split: source families, records, pairs, kinds, role."""
    table = make_table(
        "split",
        parts,
        (Column("file", "left"), lambda part: str(part.path)),
        ("source families", lambda part: f"{len(part.source_families):,}"),
        ("records", lambda part: f"{part.records:,}"),
        ("pairs", lambda part: f"{part.families:,}"),
        *((kind, lambda part, kind=kind: f"{part.kinds.get(kind, 0):,}") for kind in _KINDS),
        (Column("role", "left"), lambda part: _PURPOSE[part.role]),
    )
    return Presenter(
        tables=lambda: [table],
        to_json=lambda: {"parts": to_json(parts)},
    )


def present_ablated_file(written: AblatedFile) -> Presenter:
    """Present a file of ablated contexts, and the pairs that have none."""
    counts = f"{written.records:,} ablated contexts of {written.families:,} families"
    error = RecordError(str(written.source), written.problems)
    return Presenter(
        tables=lambda: [Line(f"{counts} in {written.path}", unbroken=True)],
        to_json=lambda: {"ablated": to_json(written)},
        remarks=lambda: (Line(line, unbroken=True) for line in error_text(error).splitlines()),
        tool="pact-audit",
    )


def present_converted_file(written: ConvertedFile) -> Presenter:
    """Present a converted file: how it was read, and what was written."""
    return Presenter(
        tables=lambda: (
            Line(one_line(f"wrote {written.path} ({written.facts.rows:,} records)")),
            Line(one_line(f"wrote {written.manifest}")),
        ),
        to_json=lambda: {
            "written": str(written.path),
            "manifest": str(written.manifest),
            "sha256": written.facts.sha256,
            "labelled": labelled_json([written.data])[0],
        },
        remarks=lambda: map(Line, labelled_remarks(written.data)),
        tool="pact-audit",
    )


def present_written_manifest(written: WrittenManifest) -> Presenter:
    """Present a manifest: its path, its files, and whether it was written."""
    done = "wrote" if written.changed else "unchanged:"
    return Presenter(
        tables=lambda: (
            Line(one_line(f"{done} {written.path}")),
            files_table(written.files, written.facts),
        ),
        to_json=lambda: {
            "manifest": str(written.path),
            "changed": written.changed,
            "files": [
                file_json(file, facts)
                for file, facts in zip(written.files, written.facts, strict=True)
            ],
        },
        tool="pact-audit",
    )


def present_lock(lock: Lock, path: Path | None = None) -> Presenter:
    """Present a registration; JSON is the content of its file.

    Args:
        lock: the registration.
        path: its file.
    """
    place = "" if path is None else f"{path}: "
    return Presenter(
        tables=lambda: [
            Line(f"{place}registered at {lock.registered_at.isoformat()}", unbroken=True)
        ],
        to_json=lambda: lock.recorded,
    )


_HASH: Final = 16  # digits that distinguish files; --json has all of them


def files_table(
    files: Sequence[DataFile], facts: Sequence[FileFacts], families: Sequence[int] | None = None
) -> Table:
    """Lay out the files of a dataset: role, records, families if they were counted, hash."""
    return make_table(
        "files",
        zip(files, facts, families or [0] * len(files), strict=True),
        (Column("file", "left"), lambda row: row[0].name),
        (Column("for", "left"), lambda row: row[0].role),
        ("records", lambda row: f"{row[1].rows:,}"),
        *([] if families is None else [("families", lambda row: f"{row[2]:,}")]),
        (Column("SHA-256", "left"), lambda row: f"{row[1].sha256[:_HASH]}…"),
    )


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
            rows.append(table_row(*(change.id, lines, ", ".join(change.fields), flip)))
        columns = (Column(title, "left") for title in ("changed", "lines", "fields", "reference"))
        notes = tuple(_rest(len(diff.changed), most))
        parts.append(Table("changed", columns=tuple(columns), rows=tuple(rows), notes=notes))
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


_FORMS: Final = {
    "text": "texts of options",
    "letter": "letters or names of options",
    "position-0": "positions from 0",
    "position-1": "positions from 1",
}


def labelled_remarks(data: LabelledData) -> tuple[str, ...]:
    """Say how a labelled file was read: its shape first, what its defaults cost last."""
    shape = f'"{data.shape.name}" ({data.shape.title})'
    counts = f"{counted(data.n_entries, 'entry')}, {counted(len(data.records), 'record')}"
    remarks = [f"{one_line(short_name(data.path))}: {data.container}, shape {shape}: {counts}"]
    if data.columns is not None:
        remarks.append(_columns_text(data.columns))
        if data.metadata:
            metadata = _list_options(data.metadata)
            remarks.append(one_line(f"Kept, and not read as options: {metadata}"))
    remarks += [one_line(remark) for remark in data.remarks]
    remarks += [f"Left out: {count:,} questions {why}" for why, count in data.left_out.items()]
    return (*remarks, *default_remarks(data.defaults))


def default_remarks(defaults: Defaults) -> tuple[str, ...]:
    """Say what defaults cost; nothing if the records name everything.

    Examples:
        >>> from pact_eval.data.records import Defaults
        >>> default_remarks(Defaults((), pairs=False, source_families=False, families=False))
        ()
        >>> default_remarks(Defaults(("variant",), True, False, False))
        ('Not in the file: pairs, so there are no pair metrics',)
    """
    costs = [
        ("pairs", "there are no pair metrics", defaults.pairs),
        ("sources", "no leak by source can be found", defaults.source_families),
        ("groups", "intervals take entries as independent", defaults.families),
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
    options = "" if "options" in columns.roles else "; options: " + _list_options(columns.options)
    form = f"; answers are {_FORMS[columns.form]}" if "options" in columns.roles else ""
    asked = "question" in columns.roles and "state" in columns.roles
    default_question = "" if asked else f'; question: "{columns.question}" (--question changes it)'
    return one_line(f"Columns: {roles}{form}{options}{default_question}")


def _list_options(options: Sequence[str], most: int = 8) -> str:
    shown = ", ".join(
        option if len(option) <= 30 else f"{option[:27]}..." for option in options[:most]
    )
    return f"{shown}, ... ({len(options)} in all)" if len(options) > most else shown
