"""The audit of a dataset: every check, in order, over one index."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from pact_eval.audit.balance import check_balance
from pact_eval.audit.certificates import CertificateCheck
from pact_eval.audit.codes import DATA_CHECKS, CheckName
from pact_eval.audit.families import FamilyCheck
from pact_eval.audit.file_bytes import TAMPERED, check_bytes
from pact_eval.audit.findings import CheckResult, Collector
from pact_eval.audit.form import FormCheck
from pact_eval.audit.lengths import check_lengths
from pact_eval.audit.separation import check_separation
from pact_eval.audit.shortcuts import check_shortcuts
from pact_eval.data import (
    MANIFEST_NAME,
    DataFile,
    FileFacts,
    Index,
    Manifest,
    Role,
    build_index,
    dataset_files,
    read_manifest,
)
from pact_eval.errors import Place
from pact_eval.prompts import NIMBLE

__all__ = ["DataAudit", "DataAuditSettings", "DatasetSource", "NamedTokenizer", "audit_data"]


@dataclass(frozen=True)
class DatasetSource:
    """Which files are audited, and against which manifest.

    Attributes:
        files: the dataset's files.
        manifest: what they should be, or None.
        manifest_missing: name of a manifest that should be there and is not, or None.
    """

    files: tuple[DataFile, ...]
    manifest: Manifest | None
    manifest_missing: str | None = None

    @classmethod
    def of_folder(cls, folder: Path, manifest: Path | None = None) -> DatasetSource:
        """Take the dataset of a folder.

        Args:
            folder: its folder.
            manifest: its manifest; None takes `manifest.json`, where there is one.

        Raises:
            InputError: there is no dataset in it, the manifest cannot be read, or nothing tells
                what a file is for.
        """
        path = manifest or folder / MANIFEST_NAME
        found = read_manifest(path) if manifest is not None or path.exists() else None
        if found is not None:  # what is audited is this folder, wherever the manifest lies
            found = replace(found, folder=folder)
        files = dataset_files(folder, None if found is None else found.value)
        return cls(files, found, MANIFEST_NAME if found is None else None)

    @classmethod
    def of_files(
        cls, train: Sequence[Path], evaluation: Sequence[Path], manifest: Path | None
    ) -> DatasetSource:
        """Take files by name.

        Raises:
            InputError: the manifest cannot be read.
        """
        found = None if manifest is None else read_manifest(manifest)
        return cls((), found).joined_by(train, evaluation)

    def joined_by(self, train: Sequence[Path], evaluation: Sequence[Path]) -> DatasetSource:
        """Return this dataset with further training and evaluation files."""
        named: tuple[tuple[Role, Sequence[Path]], ...] = (("train", train), ("eval", evaluation))
        more = [DataFile(str(path), role, path) for role, paths in named for path in paths]
        return replace(self, files=(*self.files, *more))


@dataclass(frozen=True)
class NamedTokenizer:
    """A tokenizer and what findings call it.

    Attributes:
        name: its folder.
        tokenizer: a Hugging Face tokenizer with a chat template.
    """

    name: str
    tokenizer: Any


@dataclass(frozen=True)
class DataAuditSettings:
    """What the checks allow.

    Attributes:
        only: the checks to run; None runs all of them. Where a line is no record, or a file is
            empty, the check "form" runs all the same.
        max_edit_words: most words that an edit may touch.
        near_duplicate: cosine from which two contexts are near duplicates, in (0, 1].
        keep: findings kept whole of each code; all are counted.
        k: views a record whose prompts are measured.
        seed: of the samples that large datasets are judged on, and of the resamples.
        tokenizer: the base model's, or None: prompts are not measured then.
    """

    only: Collection[CheckName] | None = None
    max_edit_words: int = 8
    near_duplicate: float = 0.8
    keep: int = 5
    k: int = 1
    seed: int = 0
    tokenizer: NamedTokenizer | None = None


@dataclass(frozen=True)
class DataAudit:
    """What the audit of a dataset says.

    Attributes:
        files: what was read.
        facts: hash, rows and fingerprint of each file.
        families: number of families of each file.
        checks: the results, in the order of `DATA_CHECKS`; those that were not asked for are left
            out.
    """

    files: tuple[DataFile, ...]
    facts: tuple[FileFacts, ...]
    families: tuple[int, ...]
    checks: tuple[CheckResult, ...]

    @property
    def tampered(self) -> bool:
        """Whether a hash does not match."""
        return any(code in TAMPERED for check in self.checks for code in check.counts)


def audit_data(
    source: DatasetSource,
    settings: DataAuditSettings,
    *,
    progress: Callable[[str], None] = lambda _: None,
) -> DataAudit:
    """Audit a dataset.

    Args:
        source: the files and their manifest.
        settings: what the checks allow, and which of them run.
        progress: called with the name of what is being done.

    Returns:
        The audit.

    Raises:
        InputError: a file cannot be read.
        PromptError: the tokenizer's chat template cannot render a record.
    """
    progress("reading")
    form = FormCheck(Collector("form", settings.keep))
    index = build_index(source.files, form)
    wanted = [name for name in DATA_CHECKS if settings.only is None or name in settings.only]
    if "form" not in wanted and form.unread(index):
        wanted.insert(0, "form")  # no other check can vouch for lines that could not be read
    results: dict[CheckName, CheckResult] = {}
    for name in wanted:
        progress(name)
        if name == "form":
            results[name] = form.result(index)
        elif name in ("families", "certificates"):
            if name not in results:
                results |= _family_checks(index, settings)
        else:
            results[name] = _check(name, source, index, settings)
    return DataAudit(
        files=index.files,
        facts=index.facts,
        families=tuple(
            index.frame.filter(file=number)["family"].n_unique()
            for number in range(len(index.files))
        ),
        checks=tuple(results[name] for name in wanted),
    )


def _check(
    name: CheckName, source: DatasetSource, index: Index, settings: DataAuditSettings
) -> CheckResult:
    """Run a check that looks at the whole index."""
    findings = Collector(name, settings.keep)
    rng = np.random.default_rng(settings.seed)
    if name == "bytes":
        return _bytes(source, index, findings)
    if len(index) == 0:
        return findings.skipped("no record could be read")
    if name == "separation":
        return check_separation(index, findings, threshold=settings.near_duplicate, rng=rng)
    if name == "balance":
        return check_balance(index, findings)
    if name == "shortcuts":
        return check_shortcuts(index, findings, rng=rng)
    if settings.tokenizer is None:
        return findings.skipped("no --tokenizer given")
    return check_lengths(
        index,
        findings,
        tokenizer=settings.tokenizer.tokenizer,
        name=settings.tokenizer.name,
        contract=NIMBLE,
        k=settings.k,
    )


def _bytes(source: DatasetSource, index: Index, findings: Collector) -> CheckResult:
    if source.manifest is not None:
        return check_bytes(index, source.manifest, findings)
    if source.manifest_missing is None:
        return findings.skipped("no --manifest given")
    place = Place(source.manifest_missing)
    findings.add("manifest-missing", place, "a manifest with the hashes of the files", "none")
    return findings.result("no manifest")


def _family_checks(index: Index, settings: DataAuditSettings) -> dict[CheckName, CheckResult]:
    """Run the two checks that look at one family after the other, in one pass."""
    families = FamilyCheck(Collector("families", settings.keep), settings.max_edit_words)
    certificates = CertificateCheck(Collector("certificates", settings.keep), index)
    for members in index.families():
        pair = families.family(members)
        if pair is not None:
            certificates.pair(*pair)
    return {"families": families.result(), "certificates": certificates.result()}
