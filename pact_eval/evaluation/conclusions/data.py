"""Conclusion on the data, from an audit of the dataset, and the findings of the audit.

The findings are kept by check and by code. A leak counts if it is of a dataset that a run scored.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar, Final, Literal

from pact_eval._choices import Severity as AuditSeverity
from pact_eval._files import read_json
from pact_eval.audit.dataset import DataAudit
from pact_eval.audit.findings import CODES, CheckResult, Finding, Leak, plain_check, tampering
from pact_eval.errors import InputError, Place, counted
from pact_eval.evaluation.conclusions.conclusion import (
    Conclusion,
    Question,
    Sentence,
    Unchecked,
    unchecked_list,
)
from pact_eval.numbers import value_text
from pact_eval.plain_text import lower_first, one_line
from pact_eval.results import Note
from pact_eval.runs.custody import Custody
from pact_eval.schema import Section, convert
from pact_eval.stats.estimate import Estimate

Sound = Literal["leak", "problems", "doubts", "sound as far as checked", "not checked"]

_MANIFEST: Final = "files of the manifest"

TRAINING_NOT_STATED: Final = Unchecked("training data", "not stated")
"""Of a run whose adapter has no training record, of a server, an import and a base model alone."""
_NOT_AN_AUDIT: Final = "expected the output of `pact-audit data --json` of this version"


@dataclass(frozen=True)
class DataLeak(Note):
    """Items of the runs that also occur in files that a model is made from.

    Attributes:
        items: ids of the records, in the order of the dataset.
        families: their families, in the same order.
        files: names of the other files: to train on, to select checkpoints, to calibrate.
        accuracy: of the judged run, as a fraction; None without a run.
        accuracy_without: the same without these families; None without a run.
        judged: name of the judged run; None without a run, or with one run only.
        left_out: whether the families are left out of all numbers.

    Examples:
        >>> str(DataLeak(("a-base", "a-cf"), ("a",), ("train.jsonl",)))
        '2 items (1 group) are also in train.jsonl'
    """

    items: tuple[str, ...]
    families: tuple[str, ...]
    files: tuple[str, ...]
    accuracy: Estimate | None = None
    accuracy_without: Estimate | None = None
    judged: str | None = None
    left_out: bool = False

    def __str__(self) -> str:
        alone = len(self.items) == len(self.families)
        items = counted(len(self.items), "item")
        groups = "" if alone else f" ({counted(len(self.families), 'group')})"
        verb = "is" if len(self.items) == 1 else "are"
        also = f"{verb} also in {', '.join(map(one_line, self.files))}"
        if self.left_out:
            their = "" if alone else "the groups of "
            return f"left out of all numbers: {their}{items}{groups} that {also}"
        text = f"{items}{groups} {also}"
        if self.accuracy is None or self.accuracy_without is None:
            return text
        judged = "" if self.judged is None else f" of {one_line(self.judged)}"
        accuracy = f"accuracy{judged} {value_text(self.accuracy.value, 'percent')}%"
        if math.isnan(self.accuracy_without.value):
            return f"{text}; {accuracy}, all of it on these{'' if alone else ' groups'}"
        without = value_text(self.accuracy_without.value, "percent")
        return f"{text}; {accuracy}, {without}% without them"


@dataclass(frozen=True, kw_only=True, repr=False)
class DataConclusion(Conclusion):
    """Conclusion on whether the data is sound; leak, changed files and checks give the status.

    `items` are those of the leak, unless they are left out.

    Attributes:
        status: leak if items of a run are also in a file that a model is made from, or in the
            training record of its adapter; problems if the audit has errors or a file is not the
            one of its manifest, doubts if the audit has warnings; not checked without an audit.
        records: number of records audited.
        checks: what the audit found, by check.
        leak: what leaks, or leaked and is left out of all numbers; the status is not leak then.
        changed: manifests whose file is not the one that was scored, as the user allowed.

    Examples:
        >>> conclusion = DataConclusion.without_audit("give --data")
        >>> conclusion.status, conclusion.tone, conclusion.unchecked[0].reason
        ('not checked', 'open', 'give --data')
    """

    question: ClassVar[Question] = "data"
    status: Sound = field(init=False)
    items: tuple[str, ...] = field(init=False)
    records: int = 0
    checks: tuple[CheckResult, ...] = ()
    leak: DataLeak | None = None
    changed: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        checks, left_out = self.checks, self.leak is not None and self.leak.left_out
        if left_out:  # what "separation" finds is the leak
            checks = tuple(check for check in checks if check.check != "separation")
        status: Sound = "not checked"
        if self.leak is not None and not left_out:
            status = "leak"
        elif self.changed or any(check.count("error") for check in checks):
            status = "problems"
        elif any(check.count("warning") for check in checks):
            status = "doubts"
        elif any(check.skipped is None for check in checks):
            status = "sound as far as checked"
        leaked = self.leak.items if self.leak is not None and not left_out else ()
        object.__setattr__(self, "status", status)
        object.__setattr__(self, "items", leaked)

    @property
    def errors(self) -> int:
        """Number of findings that are errors."""
        return sum(check.count("error") for check in self.checks)

    @property
    def warnings(self) -> int:
        """Number of findings that are warnings."""
        return sum(check.count("warning") for check in self.checks)

    @property
    def failed(self) -> tuple[str, ...]:
        """Names of the checks with errors, or else with warnings."""
        worst: AuditSeverity = "error" if self.errors else "warning"
        return tuple(check.check for check in self.checks if check.count(worst))

    @property
    def open_reasons(self) -> tuple[str, ...]:
        """Reasons for unchecked parts, each once."""
        of_custody = (TRAINING_NOT_STATED.name, _MANIFEST)
        return _join_names(
            (f"{part.name} {part.reason}" if part.name in of_custody else part.reason,)
            for part in self.unchecked
        )

    @property
    def parts(self) -> Iterator[str]:
        """The basis of the status: leak, changed files, counts, open questions.

        Examples:
            >>> list(DataConclusion.without_audit("give --data").parts)
            ['give --data']
        """
        if self.leak is not None:
            yield str(self.leak)
        for manifest in self.changed:
            yield f"a scored file is not the one of {manifest}"
        if self.status == "not checked" or not self.checks:
            yield from self.open_reasons
            return
        yield f"{self.records:,} records"
        yield f"{self.errors:,} errors, {self.warnings:,} warnings"
        if self.failed:
            yield f"checks: {', '.join(map(plain_check, self.failed))}"
        if self.unchecked:
            yield unchecked_list(self.unchecked)

    @property
    def words(self) -> Sentence:
        """The conclusion with leaks and open questions.

        Examples:
            >>> str(DataConclusion.without_audit("give --data").words)
            'Not checked: give --data.'
        """
        return Sentence(self.status.capitalize(), f"{'; '.join(map(one_line, self.parts))}.")

    @property
    def line(self) -> str:
        """The same on a line or two; of data that was not audited, the first reason alone."""
        if self.status == "not checked":
            return f"{self.status}: {one_line(self.open_reasons[0])}"
        return super().line

    @property
    def tampered(self) -> bool:
        """Whether a file is not the one that its manifest names."""
        if self.changed or not self.checks:
            return bool(self.changed)
        return tampering(self.checks) is not None

    @classmethod
    def without_audit(cls, reason: str) -> DataConclusion:
        """Return the conclusion on data that was not audited, with the reason."""
        return cls(unchecked=(Unchecked("audit", reason),))

    @classmethod
    def of_audit(
        cls, audit: DataAudit, data_sha256: Sequence[str | None] | None = None
    ) -> DataConclusion:
        """Conclude from an audit of the dataset of the runs.

        Args:
            audit: the audit.
            data_sha256: the hashes of the datasets that the runs recorded: only their leaks count.
                If one is unknown or not audited, and without hashes, those of every file count.
        """
        audited = {facts.sha256 for facts in audit.facts}
        if data_sha256 is not None and not audited.issuperset(data_sha256):
            data_sha256 = None
        rows = sum(facts.rows for facts in audit.facts)
        return cls._of(rows, audit.checks, leak_of(audit.leaks, data_sha256))

    @classmethod
    def _of(
        cls, records: int, checks: Sequence[CheckResult], leak: DataLeak | None
    ) -> DataConclusion:
        skipped = [(check.check, check.skipped) for check in checks]
        unchecked = tuple(Unchecked(name, why) for name, why in skipped if why is not None)
        return cls(records=records, checks=tuple(checks), leak=leak, unchecked=unchecked)

    @classmethod
    def read(cls, path: Path, data_sha256: Sequence[str | None]) -> DataConclusion:
        """Read the JSON that `pact-audit data --json` printed.

        Args:
            path: the file.
            data_sha256: the hashes of the datasets that the runs recorded; None for unknown ones.

        Returns:
            The conclusion; "not checked", with the reason, if no audited file is the dataset of a
            run.

        Raises:
            InputError: the file cannot be read, or is not such JSON.
        """
        try:
            audit = convert(read_json(path), _WrittenAudit)
            checks = [*map(_read_check, audit.checks)]
        except ValueError as error:
            raise InputError(f"{path}: {_NOT_AN_AUDIT}: {error}; audit again") from None
        hashes = {file.sha256 for file in audit.files}
        other = [sha256 for sha256 in data_sha256 if sha256 is not None and sha256 not in hashes]
        if other:
            reason = f"{path.name} is about other files than the runs ({other[0][:12]})"
            return cls.without_audit(reason)
        rows = sum(file.rows for file in audit.files)
        return cls._of(rows, checks, leak_of(audit.leaks, data_sha256))

    def of_items(self, families: Mapping[str, str]) -> DataConclusion:
        """Limit the leak to the items of runs; without any, it is a problem of other items.

        Args:
            families: the family of each item of the runs, by its id.
        """
        leaked = set(self.items)
        items = tuple(item for item in families if item in leaked)
        if self.leak is None or not items:
            return replace(self, leak=None)
        theirs = tuple(dict.fromkeys(families[item] for item in items))
        return replace(self, leak=replace(self.leak, items=items, families=theirs))

    def with_custody(self, custody: Sequence[Custody]) -> DataConclusion:
        """Add the records of runs on their training data and dataset file.

        Args:
            custody: of each run.
        """
        trained = [one.trained_on for one in custody if one.trained_on is not None]
        leak = _joined(self.leak, [(one.items, one.families, one.files) for one in trained])
        changed = _join_names((one.other_data.manifest,) for one in custody if one.other_data)
        unchecked = [*self.unchecked]
        if any(one.training is None for one in custody):
            unchecked.append(TRAINING_NOT_STATED)
        reasons = _join_names((one.unchecked,) for one in custody if one.unchecked)
        unchecked += [Unchecked(_MANIFEST, reason) for reason in reasons]
        return replace(self, leak=leak, changed=changed, unchecked=tuple(unchecked))

    def leaving_out(self) -> DataConclusion:
        """Return the conclusion on the data without the families of the leak.

        The findings of "separation" do not count: they are the leak.
        """
        if self.leak is None:
            return self
        return replace(self, leak=replace(self.leak, left_out=True))


def leak_prefix(leak: DataLeak | None) -> str:
    """Return the prefix of a headline on leaked data, so it is not quoted without it.

    Examples:
        >>> leak_prefix(DataLeak(("i", "j"), ("f",), ("train.jsonl",))) + "a is better"
        'Leak of 2 items; a is better'
    """
    if leak is None or leak.left_out:
        return ""
    return f"Leak of {counted(len(leak.items), 'item')}; "


def after_leak(sentence: str, leak: DataLeak | None) -> str:
    """Begin a sentence with the leak; its first word is ours, and goes on in small letters.

    Examples:
        >>> after_leak("No change is shown.", DataLeak(("i",), ("f",), ("train.jsonl",)))
        'Leak of 1 item; no change is shown.'
        >>> after_leak("No change is shown.", None)
        'No change is shown.'
    """
    prefix = leak_prefix(leak)
    return f"{prefix}{lower_first(sentence)}" if prefix else sentence


def leak_of(
    leaks: Sequence[Leak], data_sha256: Sequence[str | None] | None = None
) -> DataLeak | None:
    """Join the leaks of the datasets of runs; None without any.

    Args:
        leaks: what an audit found.
        data_sha256: as for `DataConclusion.of_audit`.
    """
    unknown = data_sha256 is None or None in data_sha256
    theirs = [leak for leak in leaks if unknown or leak.sha256 in (data_sha256 or ())]
    return _joined(None, [(leak.items, leak.families, leak.sources) for leak in theirs])


_Names = tuple[str, ...]


def _joined(
    first: DataLeak | None, others: Sequence[tuple[_Names, _Names, _Names]]
) -> DataLeak | None:
    """Join a leak with other items, their families and the files that have them too."""
    if not others:
        return first
    first = first or DataLeak((), (), ())
    items, families, files = (
        _join_names(names)
        for names in zip((first.items, first.families, first.files), *others, strict=True)
    )
    return replace(first, items=items, families=families, files=files)


def _join_names(names: Iterable[tuple[str, ...]]) -> tuple[str, ...]:
    """Return all names once, in order."""
    return tuple(dict.fromkeys(chain.from_iterable(names)))


class _WrittenFile(Section, frozen=True):
    sha256: str
    rows: int


class _WrittenCode(Section, frozen=True):
    count: int


class _WrittenFinding(Section, frozen=True):
    code: str
    file: str
    line: int | None = None
    id: Any = None


class _WrittenCheck(Section, frozen=True):
    check: str
    scope: str
    codes: dict[str, _WrittenCode]
    findings: tuple[_WrittenFinding, ...] | None = None
    measured: dict[str, Any] | None = None
    skipped: str | None = None


class _WrittenAudit(Section, frozen=True):
    """What a conclusion needs of the JSON of an audit."""

    files: tuple[_WrittenFile, ...]
    checks: tuple[_WrittenCheck, ...]
    leaks: tuple[Leak, ...]


def _read_check(written: _WrittenCheck) -> CheckResult:
    """Return the result of a check, with the places of its findings.

    Raises:
        ValueError: this version has no such check, or its check no such code.
    """
    for code in written.codes:
        if code not in CODES or CODES[code].check != written.check:
            raise ValueError(f"checks: {written.check}: expected one of its codes, got {code}")
    findings = []
    for found in written.findings or ():
        place = Place(found.file, found.line, found.id if isinstance(found.id, str) else None)
        findings.append(Finding(found.code, place, expected="", actual=""))
    counts = {code: entry.count for code, entry in written.codes.items()}
    return CheckResult(
        written.check, written.scope, tuple(findings), counts, written.measured, written.skipped
    )
