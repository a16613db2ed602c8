"""Split a training file by source family into three files, and write the manifest of a dataset.

A checkpoint that was selected, or a temperature that was fitted, on records like those it is
reported on flatters itself. Source families are what must not be shared, so they are what is
dealt out; a family is never split.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import polars as pl

from pact_eval._files import new_files, read_lines, sha256_of_file, write_atomically
from pact_eval._json import Json, dumps_indented
from pact_eval.data.files import (
    MANIFEST_NAME,
    DataFile,
    FileFacts,
    Role,
    dataset_files,
    is_file,
    lies_inside,
    make_manifest,
    read_manifest,
)
from pact_eval.data.index import Index, index_of_records
from pact_eval.data.labelled.plain import plain_files
from pact_eval.data.labelled.reader import LabelledData
from pact_eval.data.labelled.reading import AUTOMATIC, Reading
from pact_eval.data.records import FieldKind
from pact_eval.errors import InputError, Problem, RecordError, RoleError
from pact_eval.hub import hub_json

_NAMES_SHOWN: Final = 10

_PARTS: Final[tuple[Role, ...]] = ("train", "selection", "calibration")


@dataclass(frozen=True)
class SplitPart:
    """One file that a training file was split into.

    Attributes:
        role: what it is for.
        path: its path.
        source_families: the source families in it, by name.
        records: number of records.
        families: number of families.
        kinds: records of each kind.
    """

    role: Role
    path: Path
    source_families: tuple[str, ...]
    records: int
    families: int
    kinds: Mapping[FieldKind, int]


@dataclass(frozen=True, slots=True)
class HeldOut:
    """Source families that a split holds out of the training.

    Attributes:
        select: number of random source families for selection, 0 or more.
        calibrate: number for calibration, 0 or more.
        seed: decides which.
        selection: names for selection; if there are any, none is drawn for it.
        calibration: names for calibration, likewise.
    """

    select: int = 2
    calibrate: int = 2
    seed: int = 17
    selection: tuple[str, ...] = ()
    calibration: tuple[str, ...] = ()

    @property
    def drawn(self) -> tuple[Role, ...]:
        """Roles of the drawn source families: selection and calibration alternate."""
        left: dict[Role, int] = {
            "selection": 0 if self.selection else self.select,
            "calibration": 0 if self.calibration else self.calibrate,
        }
        rounds = range(max(left.values()))
        return tuple(role for number in rounds for role in left if number < left[role])

    def to_json(self) -> dict[str, Json]:
        """Return the content of a manifest."""
        numbers: dict[str, Json] = {
            "select": len(self.selection) or self.select,
            "calibrate": len(self.calibration) or self.calibrate,
            "seed": self.seed,
        }
        named = {"selection": self.selection, "calibration": self.calibration}
        return numbers | {role: list(names) for role, names in named.items() if names}


def assign_roles(source_families: Iterable[str], held_out: HeldOut) -> dict[str, Role]:
    """Deal source families out to training, selection and calibration.

    The names are shuffled. The first is for selection, the second for calibration, the third for
    selection, and so on, as in the released code of the paper.

    Args:
        source_families: their names; neither order nor repetition matters.
        held_out: which of them are not trained on.

    Returns:
        The role of each source family, by name.

    Raises:
        RoleError: a named source family is unknown or has both roles.
        InputError: no source family would be left to train on.

    Examples:
        >>> assign_roles("abcd", HeldOut(select=1, calibrate=1, seed=17))
        {'a': 'selection', 'b': 'train', 'c': 'calibration', 'd': 'train'}
        >>> assign_roles("abcd", HeldOut(calibrate=1, selection=("d",)))
        {'a': 'calibration', 'b': 'train', 'c': 'train', 'd': 'selection'}
    """
    names = sorted(set(source_families))
    selection, calibration = held_out.selection, held_out.calibration
    unknown = sorted({*selection, *calibration} - {*names})
    if unknown:
        more = f" and {len(names) - _NAMES_SHOWN:,} more" if len(names) > _NAMES_SHOWN else ""
        known = f"{', '.join(names[:_NAMES_SHOWN])}{more}"
        raise RoleError(f"no source family is named {', '.join(unknown)}; the file has {known}")
    both = sorted({*selection} & {*calibration})
    if both:
        raise RoleError(f"for selection and for calibration: {', '.join(both)}; give each one role")
    named: dict[str, Role] = dict.fromkeys(selection, "selection")
    named |= dict.fromkeys(calibration, "calibration")
    drawn = held_out.drawn
    if len(named) + len(drawn) >= len(names):
        roles = [*named.values(), *drawn]
        raise InputError(
            f"expected more than {len(roles)} source families (select "
            f"{roles.count('selection')}, calibrate {roles.count('calibration')}, and some to "
            f"train on), got {len(names)}"
        )
    shuffled = list(names)
    random.Random(held_out.seed).shuffle(shuffled)
    unnamed = [name for name in shuffled if name not in named]
    trained: dict[str, Role] = dict.fromkeys(names, "train")
    return trained | named | dict(zip(unnamed, drawn, strict=False))


def split_training_file(
    source: Path,
    out: Path,
    held_out: HeldOut,
    reading: Reading = AUTOMATIC,
    on_labelled: Callable[[Sequence[LabelledData]], None] = lambda _files: None,
) -> tuple[SplitPart, ...]:
    """Split a training file into files for training, selection and calibration.

    Lines are copied byte for byte, in their order; those of a labelled file are written in the full
    format. Next to them a manifest says what each file is for, and what they were made of.

    Args:
        source: the training file.
        out: folder to write; a file of ours that is there already must have the same content.
        held_out: the source families that are not trained on.
        reading: how a labelled file is read.
        on_labelled: gets what was read of a labelled file.

    Returns:
        The parts that are not empty.

    Raises:
        RoleError: a named source family is unknown or has both roles.
        InputError: there are too few source families, or a file to write has other content.
        ShapeError: nothing decides how a labelled file is read.
        RecordError: a line is not a record, or a family belongs to two source families.
    """
    with plain_files([DataFile(str(source), "train", source)], reading) as (files, read):
        on_labelled(read)
        return _split(files[0], out, held_out)


def _split(file: DataFile, out: Path, held_out: HeldOut) -> tuple[SplitPart, ...]:
    source, index = file.source, index_of_records([file])
    _check_families(index, source)
    roles = assign_roles(index.frame["source_family"], held_out)
    parts = [_part(index, role, roles, out) for role in _PARTS if role in roles.values()]
    origin: Json = {
        "name": source.name,
        "sha256": index.facts[0].sha256,
        **hub_json(source),
        **held_out.to_json(),
    }
    with new_files([*(part.path for part in parts), out / MANIFEST_NAME]) as (*paths, manifest):
        places = {part.role: path for part, path in zip(parts, paths, strict=True)}
        with ExitStack() as opened:
            parts_of = {role: opened.enter_context(at.open("wb")) for role, at in places.items()}
            lines = read_lines(file.path)
            for name, (_, raw) in zip(index.frame["source_family"], lines, strict=True):
                parts_of[roles[name]].write(raw if raw.endswith(b"\n") else raw + b"\n")
        described = make_manifest(
            [DataFile(part.path.name, part.role, part.path) for part in parts],
            [FileFacts(sha256_of_file(places[part.role]), part.records, None) for part in parts],
            {"split_from": origin},
        )
        manifest.write_bytes(dumps_indented(described).encode())
    return tuple(parts)


def _check_families(index: Index, source: Path) -> None:
    split = index.frame.with_columns(
        first=pl.col("source_family").first().over("family"),
        first_line=pl.col("line").first().over("family"),
    ).filter(pl.col("source_family") != pl.col("first"))
    rows = split.select("line", "id", "family", "source_family", "first", "first_line")
    problems = [
        Problem(
            line,
            record_id,
            f"family {family}: expected one source family, got {name} here and {first} at line "
            f"{first_line}",
        )
        for line, record_id, family, name, first, first_line in rows.iter_rows()
    ]
    if problems:
        raise RecordError(str(source), problems)


def _part(index: Index, role: Role, roles: Mapping[str, Role], out: Path) -> SplitPart:
    names = [name for name, of in roles.items() if of == role]
    frame = index.frame.filter(pl.col("source_family").is_in(names))
    return SplitPart(
        role=role,
        path=out / f"{role}.jsonl",
        source_families=tuple(names),
        records=frame.height,
        families=frame["family"].n_unique(),
        kinds=Counter(frame["kind"]),
    )


@dataclass(frozen=True)
class WrittenManifest:
    """A manifest that was written.

    Attributes:
        path: its path.
        files: the dataset's files.
        facts: what it says of each.
        changed: whether it differs from the one that was there; False leaves the file untouched.
    """

    path: Path
    files: tuple[DataFile, ...]
    facts: tuple[FileFacts, ...]
    changed: bool


def write_manifest(folder: Path) -> WrittenManifest:
    """Write or update `manifest.json` in a dataset's folder.

    Args:
        folder: every `*.jsonl` in it, and every dataset file that an older manifest names, belongs
            to the dataset.

    Returns:
        What was written. Keys of an older manifest that are not ours are kept.

    Raises:
        InputError: there is no dataset, or nothing tells what a file is for.
        RecordError: a line is not a record, or an id appears twice: nothing is written for such
            data.
    """
    path = folder / MANIFEST_NAME
    previous = read_manifest(path).value if path.exists() else None
    index = index_of_records(dataset_files(folder, previous, unnamed=True))
    kept = previous
    if previous is not None and isinstance(hashes := previous.get("file_sha256"), dict):
        there = [name for name in hashes if lies_inside(folder, name) and is_file(folder / name)]
        kept = {**previous, "file_sha256": {name: sha256_of_file(folder / name) for name in there}}
    manifest = make_manifest(index.files, index.facts, kept)
    changed = manifest != previous
    if changed:
        write_atomically(path, dumps_indented(manifest))
    return WrittenManifest(path, index.files, index.facts, changed)
