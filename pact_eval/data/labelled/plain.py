"""Labelled files as files of the full format: for readers that go back to lines, and for users.

Audit and split read every record several times, by its place in a file. They read the conversion in
a temporary folder; places, names and hashes stay those of the labelled file.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from pact_eval._files import is_url, new_files, nothing_is_written, sha256_of_file
from pact_eval._json import Json, dumps, dumps_indented
from pact_eval.data.files import MANIFEST_NAME, DataFile, FileFacts, make_manifest, role_of_name
from pact_eval.data.index import index_of_records
from pact_eval.data.labelled.reader import LabelledData, read_labelled
from pact_eval.data.labelled.reading import AUTOMATIC, Reading, is_labelled
from pact_eval.errors import InputError
from pact_eval.hub import hub_json
from pact_eval.results import Result


@dataclass(frozen=True, repr=False)
class ConvertedFile(Result):
    """A labelled file that was written in the full format.

    Attributes:
        data: the labelled file, as it was read.
        path: the file that was written.
        manifest: the manifest next to it.
        facts: hash and rows of the file.
    """

    data: LabelledData
    path: Path
    manifest: Path
    facts: FileFacts = field(repr=False)


@contextmanager
def plain_files(
    files: Sequence[DataFile],
    reading: Reading = AUTOMATIC,
    *,
    is_spoiled: Callable[[DataFile], bool] = lambda _: False,
) -> Iterator[tuple[tuple[DataFile, ...], tuple[LabelledData, ...]]]:
    """Give files in the full format for the block: those that are labelled, converted.

    Args:
        files: dataset files.
        reading: how labelled ones are read.
        is_spoiled: whether a file is not what its manifest says: the reader of records finds out
            what is wrong with it, whatever it looks like now.

    Yields:
        The files, in their order, and what was read of the labelled ones.

    Raises:
        InputError: a file cannot be read.
        ShapeError: nothing decides how one is read.
        RecordError: an entry is malformed; all problems of the file together.
    """
    labelled = [
        number
        for number, file in enumerate(files)
        if file.path.is_file() and is_labelled(file.path, reading) and not is_spoiled(file)
    ]
    if not labelled:
        yield tuple(files), ()
        return
    plain, read = [*files], []
    with tempfile.TemporaryDirectory(prefix="pact-labelled-") as folder:
        for number in labelled:
            file = files[number]
            data = read_labelled(file.path, reading)
            path = Path(folder, f"{number}.jsonl")
            _write(path, data.values)
            lines = tuple(record.line for record in data.records)
            plain[number] = replace(file, path=path, origin=file.path, lines=lines)
            read.append(data)
        yield tuple(plain), tuple(read)


def _write(path: Path, values: Sequence[Mapping[str, Json]]) -> None:
    with path.open("w", encoding="utf-8", newline="\n") as file:
        file.writelines(f"{dumps({**value})}\n" for value in values)


def convert(source: Path, out: Path, reading: Reading = AUTOMATIC) -> ConvertedFile:
    """Write a labelled file in the full format, and the manifest next to it.

    Args:
        source: the labelled file.
        out: file to write, whose name ends in `.jsonl`; its folder is made. A file that is there
            already must have the same content.
        reading: how the labelled file is read.

    Returns:
        What was written. Its manifest names the labelled file, its hash and its shape.

    Raises:
        InputError: a file cannot be read or written, is there with other content, or is in the
            full format already.
        ShapeError: nothing decides how the file is read.
        RecordError: an entry is malformed; all problems together.
    """
    if is_url(out):
        raise nothing_is_written(str(out))
    if out.suffix.lower() != ".jsonl":
        raise InputError(f"{out}: expected a name that ends in .jsonl, got {out.suffix or 'none'}")
    manifest_path = out.parent / MANIFEST_NAME
    if not is_labelled(source, reading):
        message = f"{source}: expected a labelled file, it is in the full format already; copy it"
        raise InputError(message)
    data = read_labelled(source, reading)
    origin: Json = {
        "name": source.name,
        "sha256": sha256_of_file(source),
        **hub_json(source),
        "shape": data.shape.name,
        "entries": data.n_entries,
        "defaults": [*data.defaults.names],
        **({"reading": reading.to_json()} if reading.named else {}),
    }
    with new_files([out, manifest_path]) as (records, manifest):
        _write(records, data.values)
        file = DataFile(out.name, role_of_name(out), records)
        facts = index_of_records([file]).facts[0]
        described = make_manifest([file], [facts], {"converted_from": origin})
        manifest.write_bytes(dumps_indented(described).encode())
    return ConvertedFile(data, out, manifest_path, facts)
