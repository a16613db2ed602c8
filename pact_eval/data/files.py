"""The files of a dataset, their roles, and the manifest next to them.

A manifest (`manifest.json`) is one JSON object:

    file_sha256              {file name: SHA-256 of its bytes}
    roles, rows              {dataset file: what it is for}, {dataset file: number of records};
                             manifests made elsewhere lack them
    training_rows, train_sha256
                             the same of the training file
    eval_rows, eval_record_fingerprint
                             the same of the evaluation file; the fingerprint is the SHA-256 of the
                             JSON of the list of its records with sorted keys, so it outlives
                             another order of keys and other white space
    storage_format           "nimble-self-contained-v1"

Keys that are not ours (a licence, a source) are kept when a manifest is written anew.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from pact_eval._files import read_json
from pact_eval._json import Json, describe
from pact_eval.errors import InputError
from pact_eval.hub import stays_inside

Role = Literal["train", "selection", "calibration", "eval"]
"""What a file of a dataset is for: to train on, to select checkpoints, to calibrate, to report."""

ROLES: Final[tuple[Role, ...]] = ("train", "selection", "calibration", "eval")
MANIFEST_NAME: Final = "manifest.json"
STORAGE_FORMAT: Final = "nimble-self-contained-v1"

_ROLE_WORDS: Final[Mapping[Role, tuple[str, ...]]] = {
    "train": ("train", "training"),
    "selection": ("selection", "select"),
    "calibration": ("calibration", "calibrate", "calib"),
    "eval": ("eval", "evaluation", "holdout", "test", "validation", "valid", "dev"),
}


@dataclass(frozen=True, slots=True)
class DataFile:
    """One file of a dataset.

    Attributes:
        name: as messages call it.
        role: train, selection, calibration or eval.
        path: its path.
        origin: the labelled file that `path` was converted from; None for any other file.
        lines: of a converted file, the line of the labelled file for each of its lines.
    """

    name: str
    role: Role
    path: Path
    origin: Path | None = None
    lines: tuple[int, ...] = ()

    @property
    def source(self) -> Path:
        """The file of the user: whose hash counts."""
        return self.origin or self.path


@dataclass(frozen=True, slots=True)
class FileFacts:
    """Facts of a file for the manifest.

    Attributes:
        sha256: of its bytes.
        rows: lines that are not blank.
        fingerprint: for an eval file, the SHA-256 of the JSON of the list of its records with
            sorted keys; None for other files, and if a line is not JSON.
    """

    sha256: str
    rows: int
    fingerprint: str | None


@dataclass(frozen=True)
class Manifest:
    """A manifest as written in its file.

    Attributes:
        name: as messages call it.
        folder: the folder that its file names start from.
        value: the JSON object.
    """

    name: str
    folder: Path
    value: Mapping[str, Json]


def read_manifest(path: Path) -> Manifest:
    """Read a manifest; what it says is not checked here.

    Raises:
        InputError: it is missing, cannot be read, or is not a JSON object.
    """
    value = read_json(path, missing="no such manifest")
    if not isinstance(value, dict):
        raise InputError(f"{path}: expected one JSON object, got {describe(value)}")
    return Manifest(path.name, path.parent, value)


def dataset_files(
    folder: Path,
    manifest: Mapping[str, Json] | None,
    *,
    unnamed: bool = False,
    otherwise: Callable[[Path], Role] | None = None,
) -> tuple[DataFile, ...]:
    """Find the files of a dataset and tell what each is for.

    The manifest's `roles` decide; without them the file whose hash is the manifest's
    `train_sha256`, and then the words of the file names: train; selection; calibration; eval,
    holdout, test, validation, dev.

    Args:
        folder: its folder.
        manifest: the manifest, if there is one. The dataset is the `.jsonl` files that it names;
            where it names none, or there is no manifest, every `*.jsonl` right in the folder.
        unnamed: take the files of the folder that the manifest does not name as well.
        otherwise: the role of a file if neither manifest nor name says it; None refuses such files.

    Returns:
        The files that exist, by role and name.

    Raises:
        InputError: there is no such folder or no file in it, or nothing tells what one is for.
    """
    if not folder.is_dir():
        what = "expected a folder, got a file" if folder.exists() else "no such folder"
        raise InputError(f"{folder}: {what}")
    names = set(named_files(manifest or {}))
    if unnamed or not names:
        names |= set(_find_names(folder))
    paths = {name: folder / name for name in names if lies_inside(folder, name)}
    files = [
        DataFile(name, _role(path, name, manifest or {}, otherwise), path)
        for name, path in paths.items()
        if is_file(path)
    ]
    if not files:
        raise InputError(f"{folder}: expected a dataset, found no .jsonl file")
    return tuple(sorted(files, key=lambda file: (ROLES.index(file.role), file.name)))


def evaluation_file(folder: Path) -> DataFile:
    """Return the evaluation file of a dataset: the one that its manifest names.

    Without a manifest, the only dataset file of the folder is the evaluation file.

    Args:
        folder: the folder of the dataset.

    Raises:
        InputError: the manifest does not name one evaluation file; or there is no manifest, and
            not one dataset file.
    """
    path = folder / MANIFEST_NAME
    if not path.exists():
        names = _find_names(folder)
        if len(names) == 1:
            return DataFile(names[0], "eval", folder / names[0])
        found = ", ".join(str(folder / name) for name in names) or "none"
        raise InputError(
            f"{folder}: no {MANIFEST_NAME}, and expected one .jsonl file, found {found}; give "
            f"--data FILE, or write a manifest: pact-audit manifest {folder}"
        )
    files = dataset_files(folder, read_manifest(path).value)
    evaluation_files = [file for file in files if file.role == "eval"]
    if len(evaluation_files) != 1:
        found = ", ".join(str(file.path) for file in evaluation_files) or "none"
        raise InputError(f"{path}: expected one evaluation file, found {found}; give --data FILE")
    return evaluation_files[0]


def dataset_file(place: Path) -> Path:
    """Return a dataset file, or the evaluation file of a folder.

    Args:
        place: the file or the folder.

    Raises:
        InputError: as for `evaluation_file`.
    """
    return evaluation_file(place).path if place.is_dir() else place


def is_file(path: Path) -> bool:
    """Tell whether there is such a file; a name that no file can have is none."""
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


def _find_names(folder: Path) -> list[str]:
    """Return the names of the dataset files right in a folder.

    Raises:
        InputError: one of them is not a file of this folder: a link out of it, a pipe, a folder.
    """
    paths = sorted(path for path in folder.iterdir() if path.suffix.lower() == ".jsonl")
    for path in paths:
        if not path.is_file() or not lies_inside(folder, path.name):
            message = f"{path}: expected a file of this folder, got a link out of it, or no file"
            raise InputError(message)
    return [path.name for path in paths]


def named_files(manifest: Mapping[str, Json]) -> list[str]:
    """Return the dataset files that a manifest names: the `.jsonl` files under `file_sha256`."""
    hashes = manifest.get("file_sha256")
    if not isinstance(hashes, dict):
        return []
    return [name for name in hashes if name.lower().endswith(".jsonl")]


def lies_inside(folder: Path, name: str) -> bool:
    """Tell whether a name in a manifest leads to a place inside the manifest's folder.

    A file of a snapshot of the Hub may be a link to a blob of its repository.

    Examples:
        >>> lies_inside(Path("data"), "parts/a.jsonl"), lies_inside(Path("data"), "../a.jsonl")
        (True, False)
    """
    try:
        return stays_inside(folder, folder / name)
    except (OSError, ValueError):  # a name that no file can have
        return False


def _role(
    path: Path, name: str, manifest: Mapping[str, Json], otherwise: Callable[[Path], Role] | None
) -> Role:
    roles, hashes = manifest.get("roles"), manifest.get("file_sha256")
    named = roles.get(name) if isinstance(roles, dict) else None
    for role in ROLES:
        if role == named:
            return role
    training = manifest.get("train_sha256")
    if training is not None and isinstance(hashes, dict) and hashes.get(name) == training:
        return "train"
    by_name = _role_in_words(path)
    if by_name is not None:
        return by_name
    if otherwise is not None:
        return otherwise(path)
    raise InputError(
        f"{path}: the role of this file is unknown; name it train, selection, calibration or "
        "eval (holdout, test), set its role under roles in the manifest, or give --train and --eval"
    )


def role_of_name(path: Path, otherwise: Role = "eval") -> Role:
    """Tell what a file is for by the words of its name.

    Args:
        path: the file.
        otherwise: its role if they do not say.

    Examples:
        >>> role_of_name(Path("my-train.jsonl")), role_of_name(Path("records.jsonl"))
        ('train', 'eval')
    """
    return _role_in_words(path) or otherwise


def _role_in_words(path: Path) -> Role | None:
    words = re.findall(r"[a-z]+", path.stem.lower())
    return next((role for word in words for role in ROLES if word in _ROLE_WORDS[role]), None)


def make_manifest(
    files: Sequence[DataFile],
    facts: Sequence[FileFacts],
    previous: Mapping[str, Json] | None = None,
) -> dict[str, Json]:
    """Describe the files of a dataset.

    Args:
        files: its files.
        facts: the facts of each.
        previous: a manifest whose other keys, and hashes of other files, are kept; they must be
            true.

    Returns:
        The manifest. `train_sha256` and `training_rows` are present if there is one training file,
        `eval_rows` and `eval_record_fingerprint` if there is one evaluation file.

    Examples:
        >>> train = DataFile("train.jsonl", "train", Path("train.jsonl"))
        >>> manifest = make_manifest([train], [FileFacts("ab12", 3, None)])
        >>> manifest["training_rows"], manifest["roles"]
        (3, {'train.jsonl': 'train'})
    """
    ours = ("training_rows", "train_sha256", "eval_rows", "eval_record_fingerprint")
    manifest: dict[str, Json] = {"storage_format": STORAGE_FORMAT}
    manifest |= {key: value for key, value in (previous or {}).items() if key not in ours}
    kept = manifest.get("file_sha256")
    hashes = kept if isinstance(kept, dict) else {}
    described = [*zip(files, facts, strict=True)]
    manifest["file_sha256"] = {
        **{name: sha for name, sha in hashes.items() if not name.lower().endswith(".jsonl")},
        **{file.name: of_file.sha256 for file, of_file in described},
    }
    manifest["roles"] = {file.name: file.role for file in files}
    manifest["rows"] = {file.name: of_file.rows for file, of_file in described}
    train, evaluation = (
        [of_file for file, of_file in described if file.role == role] for role in ("train", "eval")
    )
    if len(train) == 1:
        manifest |= {"training_rows": train[0].rows, "train_sha256": train[0].sha256}
    if len(evaluation) == 1:
        rows, fingerprint = evaluation[0].rows, evaluation[0].fingerprint
        manifest |= {"eval_rows": rows, "eval_record_fingerprint": fingerprint}
    return manifest
