"""Check "bytes": are the files those that the manifest describes?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from pact_eval.audit.findings import CheckResult, Collector, Place
from pact_eval.audit.index import Index
from pact_eval.dataset_files import (
    ROLES,
    STORAGE_FORMAT,
    DataFile,
    FileFacts,
    Manifest,
    lies_inside,
    make_manifest,
    named_files,
)
from pact_eval.model_files import sha256_of_file
from pact_eval.strict_json import Json, describe

__all__ = ["TAMPERED", "check_bytes"]

TAMPERED = frozenset({"hash-mismatch", "fingerprint-mismatch"})
"""Codes that say that something is not what was hashed: the exit code is that of tampering."""

_Known = Sequence[tuple[DataFile, FileFacts]]

_OF_ONE_FILE = {
    "training_rows": int,
    "train_sha256": str,
    "eval_rows": int,
    "eval_record_fingerprint": str,
}


def check_bytes(index: Index, manifest: Manifest, findings: Collector) -> CheckResult:
    """Hold the files against the manifest.

    Args:
        index: the dataset as it was read.
        manifest: what it should be. A key that is absent is not checked, but for `file_sha256`.
        findings: collects what differs.

    Returns:
        The result.
    """
    hashes = _hashes(manifest, findings)
    facts = {file.path.resolve(): each for file, each in zip(index.files, index.facts, strict=True)}
    for name, expected in hashes.items():
        _check_file(manifest, name, expected, facts, findings)
    for path, each in facts.items():
        if path not in {(manifest.folder / name).resolve() for name in hashes}:
            name = next(file.name for file in index.files if file.path.resolve() == path)
            findings.add(
                "file-not-in-manifest",
                Place(name),
                f"a hash under file_sha256 in {manifest.name}",
                f"none; the file has {each.sha256}",
            )
    for name in _strangers(manifest):
        findings.add(
            "file-not-in-manifest",
            Place(name),
            f"every dataset file of the folder in {manifest.name}",
            "none of its keys names it; it was not audited",
        )
    _check_rows(index, manifest, findings)
    _check_facts(index, manifest, hashes, findings)
    _check_format(manifest, findings)
    return findings.result(f"{len(hashes):,} files in {manifest.name}")


def _hashes(manifest: Manifest, findings: Collector) -> dict[str, str]:
    value = manifest.value.get("file_sha256")
    if not isinstance(value, dict) or not all(isinstance(each, str) for each in value.values()):
        findings.add(
            "manifest-malformed",
            Place(manifest.name),
            "file_sha256: an object of file names and hex digests",
            "none" if value is None else describe(value),
        )
        return {}
    return {name: str(digest) for name, digest in value.items()}


def _check_file(
    manifest: Manifest,
    name: str,
    expected: str,
    facts: Mapping[Path, FileFacts],
    findings: Collector,
) -> None:
    if not lies_inside(manifest.folder, name):
        place = Place(manifest.name)
        findings.add("path-outside", place, "names inside the folder of the manifest", name)
        return
    path = (manifest.folder / name).resolve()
    if not path.is_file():
        findings.add(
            "listed-file-missing", Place(name), f"the file that {manifest.name} names", "none"
        )
        return
    known = facts.get(path)
    digest = known.sha256 if known is not None else sha256_of_file(path)
    if digest != expected.lower():
        findings.add("hash-mismatch", Place(name), f"SHA-256 {expected}", digest)


def _strangers(manifest: Manifest) -> Iterator[str]:
    """Yield the dataset files of the folder that the manifest does not name, where it names any."""
    named = set(named_files(manifest.value))
    if named:
        yield from sorted({p.name for p in manifest.folder.glob("*.jsonl")} - named)


def _check_rows(index: Index, manifest: Manifest, findings: Collector) -> None:
    rows = manifest.value.get("rows")
    if rows is None:
        return
    if not isinstance(rows, dict):
        place = Place(manifest.name)
        findings.add("manifest-malformed", place, "rows: an object", describe(rows))
        return
    for file, facts in zip(index.files, index.facts, strict=True):
        expected = rows.get(file.name)
        if expected is not None and expected != facts.rows:
            findings.add(
                "rows-mismatch", Place(file.name), f"{expected} records (rows)", f"{facts.rows:,}"
            )


def _check_facts(
    index: Index, manifest: Manifest, hashes: Mapping[str, str], findings: Collector
) -> None:
    """Compare what the manifest says of *the* training and *the* evaluation file it names."""
    named = {(manifest.folder / name).resolve() for name in hashes}
    known = [
        (file, facts)
        for file, facts in zip(index.files, index.facts, strict=True)
        if not named or file.path.resolve() in named
    ]
    found = make_manifest([file for file, _ in known], [facts for _, facts in known])
    for key, kind in _OF_ONE_FILE.items():
        expected = manifest.value.get(key)
        if expected is None or (key == "train_sha256" and expected in hashes.values()):
            continue  # absent, or compared under file_sha256 already
        role = "train" if key.startswith("train") else "eval"
        if not isinstance(expected, kind) or isinstance(expected, bool):
            place = Place(manifest.name)
            wanted = f"{key}: {'a whole number' if kind is int else 'text'}"
            findings.add("manifest-malformed", place, wanted, describe(expected))
        elif key not in found:
            _no_such_file(known, manifest, key, role, findings)
        elif found[key] is None:
            _mismatch(known, role, key, expected, "none: a line is no JSON", findings)
        elif str(found[key]) != str(expected).lower():
            _mismatch(known, role, key, expected, str(found[key]), findings)


def _no_such_file(
    known: _Known, manifest: Manifest, key: str, role: str, findings: Collector
) -> None:
    n = sum(file.role == role for file, _ in known)
    findings.add(
        "manifest-malformed",
        Place(manifest.name),
        f"{key}: one file for {'training' if role == 'train' else 'evaluation'}",
        f"{n} such files",
    )


def _mismatch(
    known: _Known, role: str, key: str, expected: Json, found: str, findings: Collector
) -> None:
    place = Place(next(file.name for file, _ in known if file.role == role))
    code = {
        "train_sha256": "hash-mismatch",
        "eval_record_fingerprint": "fingerprint-mismatch",
    }.get(key, "rows-mismatch")
    findings.add(code, place, f"{key} {expected}", found)


def _check_format(manifest: Manifest, findings: Collector) -> None:
    found = manifest.value.get("storage_format")
    if found != STORAGE_FORMAT:
        place = Place(manifest.name)
        shown = "none" if found is None else str(found)
        findings.add("storage-format-unknown", place, f"storage_format {STORAGE_FORMAT}", shown)
    roles = manifest.value.get("roles")
    if roles is not None and not (
        isinstance(roles, dict) and all(role in ROLES for role in roles.values())
    ):
        place = Place(manifest.name)
        findings.add("manifest-malformed", place, f"roles among {', '.join(ROLES)}", str(roles))
