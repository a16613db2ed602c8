"""Check "hashes": files compared with the hashes of the manifest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from pact_eval._files import sha256_of_file
from pact_eval._json import describe
from pact_eval.audit.context import DataContext
from pact_eval.audit.findings import Check, CheckResult, Collector
from pact_eval.data.files import (
    ROLES,
    STORAGE_FORMAT,
    DataFile,
    FileFacts,
    Manifest,
    is_file,
    lies_inside,
    make_manifest,
    named_files,
)
from pact_eval.data.index import Index
from pact_eval.errors import Place, counted
from pact_eval.hub import located

_Read = tuple[DataFile, FileFacts]

# What a manifest may say of *the* training and *the* evaluation file: role, type, and the code of
# a value that differs.
_OF_ONE_FILE: Final[Mapping[str, tuple[str, type, str]]] = {
    "training_rows": ("train", int, "rows-mismatch"),
    "train_sha256": ("train", str, "hash-mismatch"),
    "eval_rows": ("eval", int, "rows-mismatch"),
    "eval_record_fingerprint": ("eval", str, "fingerprint-mismatch"),
}
_ROLE_IN_WORDS = {"train": "training", "eval": "evaluation"}


def check_hashes(context: DataContext, findings: Collector) -> CheckResult:
    """Compare the files with the manifest.

    A file in the manifest's folder is known by its path there, any other file by its bare name. The
    audited file itself is compared, never a copy of it next to the manifest.

    Args:
        context: the dataset as it was read, and the manifest. Its absent keys are not checked,
            except `file_sha256`.
        findings: collects what differs.
    """
    index, manifest = context.index, context.source.manifest
    if manifest is None:
        place = Place(context.source.manifest_missing or "")
        findings.add("manifest-missing", place, "a manifest with the hashes of the files", "none")
        return findings.result("no manifest")
    value, expected = manifest.value.get("file_sha256"), "an object of file names and hex digests"
    hashes: dict[str, str] = {}
    if isinstance(value, dict) and all(isinstance(digest, str) for digest in value.values()):
        hashes = {name: str(digest) for name, digest in value.items()}
    else:
        actual = "none" if value is None else describe(value)
        _malformed(manifest, f"file_sha256: {expected}", actual, findings)
    named, unnamed = _match_files(index, manifest, hashes)
    for name, digest in hashes.items():
        _check_file(manifest, name, digest, named.get(name), findings)
    for file, facts in unnamed:
        inside = located(file.path).is_relative_to(manifest.folder.resolve())
        code = "file-unhashed" if inside else "file-not-in-manifest"
        expected = f"a hash under file_sha256 in {manifest.name}"
        findings.add(code, Place(file.name), expected, f"none; the file has {facts.sha256}")
    _check_unlisted(manifest, named, findings)
    _check_rows(named, manifest, findings)
    compared = [hashes[name] for name, (file, _) in named.items() if file.role == "train"]
    _check_facts(list(named.values()) or unnamed, manifest, compared, findings)
    _check_format(manifest, findings)
    return findings.result(f"{counted(len(hashes), 'file')} in {manifest.name}")


def _malformed(manifest: Manifest, expected: str, actual: str, findings: Collector) -> None:
    findings.add("manifest-malformed", Place(manifest.name), expected, actual)


def _match_files(
    index: Index, manifest: Manifest, hashes: Mapping[str, str]
) -> tuple[dict[str, _Read], list[_Read]]:
    """Return the audited files by their names in the manifest, and those that it does not name."""
    inside = [name for name in hashes if lies_inside(manifest.folder, name)]
    places = {located(manifest.folder / name): name for name in inside}
    bare = {Path(name).name: name for name in hashes}
    named: dict[str, _Read] = {}
    unnamed: list[_Read] = []
    for file, facts in zip(index.files, index.facts, strict=True):
        path = located(file.path)
        is_inside = path.is_relative_to(manifest.folder.resolve())
        name = places.get(path) if is_inside else bare.get(file.path.name)
        if name is None or name in named:
            unnamed.append((file, facts))
        else:
            named[name] = (file, facts)
    return named, unnamed


def _check_file(
    manifest: Manifest, name: str, expected: str, read: _Read | None, findings: Collector
) -> None:
    path = manifest.folder / name
    if read is None and not lies_inside(manifest.folder, name):
        place = Place(manifest.name)
        findings.add("path-outside", place, "names inside the folder of the manifest", name)
    elif read is None and not is_file(path):
        requirement = f"the file that {manifest.name} names"
        findings.add("listed-file-missing", Place(name), requirement, "none")
    else:
        digest = sha256_of_file(path) if read is None else read[1].sha256
        if digest != expected.lower():
            findings.add("hash-mismatch", Place(name), f"SHA-256 {expected}", digest)


def _check_unlisted(manifest: Manifest, named: Mapping[str, _Read], findings: Collector) -> None:
    """Find dataset files of the folder that the manifest does not name, if it names any."""
    known = {located(manifest.folder / name) for name in named_files(manifest.value)}
    audited = {located(file.path) for file, _ in named.values()}
    for path in sorted(manifest.folder.rglob("*.jsonl")) if known else ():
        if located(path) not in known | audited:
            place = Place(str(path.relative_to(manifest.folder)))
            expected = f"every dataset file of the folder in {manifest.name}"
            actual = "none of its keys names it; it was not audited"
            findings.add("file-not-in-manifest", place, expected, actual)


def _check_rows(named: Mapping[str, _Read], manifest: Manifest, findings: Collector) -> None:
    for key in ("rows", "roles"):
        value = manifest.value.get(key)
        if value is None:
            continue
        if not isinstance(value, dict):
            _malformed(manifest, f"{key}: an object", describe(value), findings)
            continue
        unknown = [name for name in value if name not in named_files(manifest.value)]
        if unknown:
            expected = f"{key} of the dataset files under file_sha256"
            _malformed(manifest, expected, ", ".join(unknown), findings)
        for name, (file, facts) in named.items() if key == "rows" else ():
            n_rows = value.get(name)
            if n_rows is not None and n_rows != facts.rows:
                expected = f"{n_rows} records (rows)"
                findings.add("rows-mismatch", Place(file.name), expected, f"{facts.rows:,}")


def _check_facts(
    audited: Sequence[_Read], manifest: Manifest, compared: Sequence[str], findings: Collector
) -> None:
    """Compare what the manifest says of *the* training and *the* evaluation file it names."""
    computed = make_manifest([file for file, _ in audited], [facts for _, facts in audited])
    for key, (role, kind, code) in _OF_ONE_FILE.items():
        expected = manifest.value.get(key)
        if expected is None or (key == "train_sha256" and expected in compared):
            continue  # absent, or compared under file_sha256 already
        if not isinstance(expected, kind) or isinstance(expected, bool):
            requirement = f"{key}: {'an integer' if kind is int else 'text'}"
            _malformed(manifest, requirement, describe(expected), findings)
        elif key not in computed:
            n = sum(file.role == role for file, _ in audited)
            requirement = f"{key}: one file for {_ROLE_IN_WORDS[role]}"
            _malformed(manifest, requirement, f"{n} such files", findings)
        elif computed[key] is None or str(computed[key]) != str(expected).lower():
            place = Place(next(file.name for file, _ in audited if file.role == role))
            none = "none: a line is not JSON"
            actual = none if computed[key] is None else str(computed[key])
            findings.add(code, place, f"{key} {expected}", actual)


def _check_format(manifest: Manifest, findings: Collector) -> None:
    stated = manifest.value.get("storage_format")
    if stated != STORAGE_FORMAT:
        actual = "none" if stated is None else str(stated)
        expected = f"storage_format {STORAGE_FORMAT}"
        findings.add("storage-format-unknown", Place(manifest.name), expected, actual)
    roles = manifest.value.get("roles")
    known = isinstance(roles, dict) and all(role in ROLES for role in roles.values())
    if roles is not None and not known:
        _malformed(manifest, f"roles among {', '.join(ROLES)}", str(roles), findings)


CHECK: Final[Check[DataContext]] = Check(
    name="hashes",
    question="Are the files those that the manifest describes?",
    run=check_hashes,
    needs=("manifest",),
    cost=0.01,
    codes={
        "hash-mismatch": ("error", "A file's SHA-256 is not the one in the manifest."),
        "fingerprint-mismatch": ("error", "The records are not those that the manifest names."),
        "rows-mismatch": ("error", "A file has more or fewer records than the manifest says."),
        "listed-file-missing": ("error", "The manifest names a file that the folder lacks."),
        "path-outside": ("error", "A file name in the manifest leads out of the folder."),
        "manifest-malformed": ("error", "A value of the manifest is missing or of another type."),
        "manifest-missing": ("warning", "There is no manifest to compare the files with."),
        "file-unhashed": ("error", "A dataset file next to the manifest has no hash in it."),
        "file-not-in-manifest": ("warning", "A file is not in the manifest."),
        "storage-format-unknown": ("warning", "The manifest names an unknown format."),
    },
)
