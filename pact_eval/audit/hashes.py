"""Check "hashes": files compared with the hashes of the manifest."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from pact_eval._files import sha256_of_file
from pact_eval._json import Json, describe
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

_OF_ONE_FILE = {
    "training_rows": int,
    "train_sha256": str,
    "eval_rows": int,
    "eval_record_fingerprint": str,
}


_ROLE_IN_WORDS = {"train": "training", "eval": "evaluation"}


def check_hashes(index: Index, manifest: Manifest, findings: Collector) -> CheckResult:
    """Compare the files with the manifest.

    A file in the manifest's folder is known by its path there, any other file by its bare name. The
    audited file itself is compared, never a copy of it next to the manifest.

    Args:
        index: the dataset as it was read.
        manifest: what it should be. Absent keys are not checked, except `file_sha256`.
        findings: collects what differs.

    Returns:
        The result.
    """
    hashes = _hashes(manifest, findings)
    named, unnamed = _match_files(index, manifest, hashes)
    for name, expected in hashes.items():
        _check_file(manifest, name, expected, named.get(name), findings)
    for file, facts in unnamed:
        inside = located(file.path).is_relative_to(manifest.folder.resolve())
        findings.add(
            "file-unhashed" if inside else "file-not-in-manifest",
            Place(file.name),
            f"a hash under file_sha256 in {manifest.name}",
            f"none; the file has {facts.sha256}",
        )
    for name in _unlisted_files(manifest, named):
        findings.add(
            "file-not-in-manifest",
            Place(name),
            f"every dataset file of the folder in {manifest.name}",
            "none of its keys names it; it was not audited",
        )
    _check_rows(named, manifest, findings)
    compared = [hashes[name] for name, (file, _) in named.items() if file.role == "train"]
    _check_facts(list(named.values()) or unnamed, manifest, compared, findings)
    _check_format(manifest, findings)
    return findings.result(f"{counted(len(hashes), 'file')} in {manifest.name}")


def _match_files(
    index: Index, manifest: Manifest, hashes: Mapping[str, str]
) -> tuple[dict[str, _Read], list[_Read]]:
    """Return the audited files by their names in the manifest, and those that it does not name."""
    places = {
        located(manifest.folder / name): name
        for name in hashes
        if lies_inside(manifest.folder, name)
    }
    bare = {Path(name).name: name for name in hashes}
    named: dict[str, _Read] = {}
    unnamed: list[_Read] = []
    for file, facts in zip(index.files, index.facts, strict=True):
        path = located(file.path)
        inside = path.is_relative_to(manifest.folder.resolve())
        name = places.get(path) if inside else bare.get(file.path.name)
        if name is None or name in named:
            unnamed.append((file, facts))
        else:
            named[name] = (file, facts)
    return named, unnamed


def _hashes(manifest: Manifest, findings: Collector) -> dict[str, str]:
    value = manifest.value.get("file_sha256")
    if not isinstance(value, dict) or not all(isinstance(digest, str) for digest in value.values()):
        findings.add(
            "manifest-malformed",
            Place(manifest.name),
            "file_sha256: an object of file names and hex digests",
            "none" if value is None else describe(value),
        )
        return {}
    return {name: str(digest) for name, digest in value.items()}


def _check_file(
    manifest: Manifest, name: str, expected: str, read: _Read | None, findings: Collector
) -> None:
    if read is not None:
        digest = read[1].sha256
    elif not lies_inside(manifest.folder, name):
        place = Place(manifest.name)
        findings.add("path-outside", place, "names inside the folder of the manifest", name)
        return
    else:
        path = manifest.folder / name
        if not is_file(path):
            requirement = f"the file that {manifest.name} names"
            findings.add("listed-file-missing", Place(name), requirement, "none")
            return
        digest = sha256_of_file(path)
    if digest != expected.lower():
        findings.add("hash-mismatch", Place(name), f"SHA-256 {expected}", digest)


def _unlisted_files(manifest: Manifest, named: Mapping[str, _Read]) -> Iterator[str]:
    """Yield dataset files of the folder that the manifest does not name, if it names any."""
    named_paths = {located(manifest.folder / name) for name in named_files(manifest.value)}
    read = {located(file.path) for file, _ in named.values()}
    if named_paths:
        for path in sorted(manifest.folder.rglob("*.jsonl")):
            if located(path) not in named_paths | read:
                yield str(path.relative_to(manifest.folder))


def _check_rows(named: Mapping[str, _Read], manifest: Manifest, findings: Collector) -> None:
    for key in ("rows", "roles"):
        value = manifest.value.get(key)
        if value is None:
            continue
        place = Place(manifest.name)
        if not isinstance(value, dict):
            findings.add("manifest-malformed", place, f"{key}: an object", describe(value))
            continue
        unknown = [name for name in value if name not in named_files(manifest.value)]
        if unknown:
            requirement = f"{key} of the dataset files under file_sha256"
            findings.add("manifest-malformed", place, requirement, ", ".join(unknown))
        for name, (file, facts) in named.items():
            expected = value.get(name)
            if key == "rows" and expected is not None and expected != facts.rows:
                requirement = f"{expected} records (rows)"
                findings.add("rows-mismatch", Place(file.name), requirement, f"{facts.rows:,}")


def _check_facts(
    audited: Sequence[_Read], manifest: Manifest, compared: Sequence[str], findings: Collector
) -> None:
    """Compare what the manifest says of *the* training and *the* evaluation file it names."""
    computed = make_manifest([file for file, _ in audited], [facts for _, facts in audited])
    place = Place(manifest.name)
    for key, kind in _OF_ONE_FILE.items():
        expected = manifest.value.get(key)
        if expected is None or (key == "train_sha256" and expected in compared):
            continue  # absent, or compared under file_sha256 already
        role = "train" if key.startswith("train") else "eval"
        if not isinstance(expected, kind) or isinstance(expected, bool):
            requirement = f"{key}: {'an integer' if kind is int else 'text'}"
            findings.add("manifest-malformed", place, requirement, describe(expected))
        elif key not in computed:
            requirement = f"{key}: one file for {_ROLE_IN_WORDS[role]}"
            n = sum(file.role == role for file, _ in audited)
            findings.add("manifest-malformed", place, requirement, f"{n} such files")
        elif computed[key] is None:
            _mismatch(audited, role, key, expected, "none: a line is not JSON", findings)
        elif str(computed[key]) != str(expected).lower():
            _mismatch(audited, role, key, expected, str(computed[key]), findings)


def _mismatch(
    audited: Sequence[_Read], role: str, key: str, expected: Json, actual: str, findings: Collector
) -> None:
    place = Place(next(file.name for file, _ in audited if file.role == role))
    code = {"train_sha256": "hash-mismatch", "eval_record_fingerprint": "fingerprint-mismatch"}.get(
        key, "rows-mismatch"
    )
    findings.add(code, place, f"{key} {expected}", actual)


def _check_format(manifest: Manifest, findings: Collector) -> None:
    stated_format = manifest.value.get("storage_format")
    if stated_format != STORAGE_FORMAT:
        place = Place(manifest.name)
        shown = "none" if stated_format is None else str(stated_format)
        findings.add("storage-format-unknown", place, f"storage_format {STORAGE_FORMAT}", shown)
    roles = manifest.value.get("roles")
    if roles is not None and not (
        isinstance(roles, dict) and all(role in ROLES for role in roles.values())
    ):
        place = Place(manifest.name)
        findings.add("manifest-malformed", place, f"roles among {', '.join(ROLES)}", str(roles))


def _run(context: DataContext) -> CheckResult:
    source, findings = context.source, context.collector("hashes")
    if source.manifest is not None:
        return check_hashes(context.index, source.manifest, findings)
    place = Place(source.manifest_missing or "")
    findings.add("manifest-missing", place, "a manifest with the hashes of the files", "none")
    return findings.result("no manifest")


CHECK: Final[Check[DataContext]] = Check(
    name="hashes",
    question="Are the files those that the manifest describes?",
    run=_run,
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
