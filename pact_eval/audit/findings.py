"""Checks of datasets and adapters, and their findings, with a code and a place.

A check answers one question. Its file holds its entry, a `Check`, and the function that looks at a
dataset or an adapter folder, adds findings to a `Collector` and returns the collector's
`CheckResult`. The first few findings of each code are kept in full and all of them are counted, so
a file in which every line is bad costs no memory. A check that sees records or families one by one,
some of them in other processes, is a subclass of `Collector`.

To add a check of datasets, write such a file, import it in `dataset.py`, and list its name in
`DATA_CHECK_NAMES` (`_choices.py`); for adapters, list it in `adapter/audit.py`. `--only`, the
result, the JSON and the terminal report then have it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from typing import Any, Final, Generic, Protocol, Self, TypeVar

from pact_eval._choices import Severity
from pact_eval._typing import BoolArray
from pact_eval.data.diff import WordDiff
from pact_eval.data.index import Index, Located
from pact_eval.errors import Place

SEVERITIES: Final[tuple[Severity, ...]] = ("error", "warning", "note")
"""Worst first."""

_OTHER_FILES: Final = "hashes differ from those in the manifest"
TAMPERED: Final[Mapping[str, str]] = {
    "hash-mismatch": _OTHER_FILES,
    "fingerprint-mismatch": _OTHER_FILES,
    "base-differs": "the base's weights are not those that the adapter names",
    "training-base-differs": "the base's weights are not those of the training",
    "training-edited": "the training record was edited, or belongs to another adapter",
    "training-other-weights": "the training record belongs to other weights",
}
"""Codes of content that is not what was hashed, with what they show; they give the exit code of
tampering."""


@dataclass(frozen=True, slots=True)
class Code:
    """Meaning of the code of a finding.

    Attributes:
        check: the check that it belongs to.
        severity: error, warning or note.
        meaning: one sentence for the documentation.
    """

    check: str
    severity: Severity
    meaning: str


CODES: Final[dict[str, Code]] = {}
"""Every code of the checks that are loaded. A code keeps its name once it is released."""


_PLAIN_CHECKS: Final = {
    "certificates": "evidence",
    "families": "pairs",
    "separation": "overlap of files",
}


def plain_check(name: str) -> str:
    """Name a check in sentences: those with a technical name have another one there.

    Examples:
        >>> plain_check("separation"), plain_check("schema")
        ('overlap of files', 'schema')
    """
    return _PLAIN_CHECKS.get(name, name)


def codes_of(check: str, severity: Severity) -> tuple[str, ...]:
    """Return the codes of a check of a severity, in the order of its entry."""
    codes = CODES.items()
    return tuple(name for name, code in codes if (code.check, code.severity) == (check, severity))


@dataclass(frozen=True, slots=True)
class Finding:
    """One finding of a check.

    Attributes:
        code: a key of `CODES`, which gives its check and its severity.
        place: where it was found.
        expected: what a sound dataset has there.
        actual: what is there instead.
        comparison: two texts word by word, if the finding is about a difference.

    Examples:
        >>> finding = Finding("reference-same", Place("eval.jsonl", 2, "a-cf"),
        ...                   "another reference than the base record's", "true in both")
        >>> finding.severity, finding.check
        ('error', 'families')
    """

    code: str
    place: Place
    expected: str
    actual: str
    comparison: WordDiff | None = None

    @property
    def severity(self) -> Severity:
        """Error, warning or note, as the code says."""
        return CODES[self.code].severity

    @property
    def check(self) -> str:
        """The check that the code belongs to."""
        return CODES[self.code].check


@dataclass(frozen=True, slots=True)
class Leak:
    """Records of one file that also occur in files that a model is made from.

    Attributes:
        file: name of the file.
        sha256: SHA-256 of its bytes.
        sources: names of the other files: to train on, to select checkpoints, to calibrate.
        items: ids of the records, in the order of the file.
        families: their families, in the same order.
    """

    file: str
    sha256: str
    sources: tuple[str, ...]
    items: tuple[str, ...]
    families: tuple[str, ...]


def leak_of(index: Index, number: int, rows: BoolArray, sources: Sequence[str]) -> Leak:
    """Return the leak of a file of an index: those of its records that are among the rows."""
    leaked = index.frame.filter(rows & (index.frame["file"].to_numpy() == number))
    families = leaked["family"].unique(maintain_order=True)
    sha256 = index.facts[number].sha256
    name = index.files[number].name
    return Leak(name, sha256, tuple(sources), tuple(leaked["id"]), tuple(families))


@dataclass(frozen=True)
class CheckResult:
    """The result of one check.

    Attributes:
        check: its name.
        scope: what it looked at, in words with counts ("1,338 families").
        findings: the first findings of each code, worst codes first.
        counts: number of findings by code, all of them.
        measured: the check's own numbers, a small frozen object; None if it measures nothing.
        skipped: why the question of the check is not answered, or None: the check did not run, or
            had nothing to compare.
        leaks: one per file with records that a model may have learnt; of the check "separation".
    """

    check: str
    scope: str
    findings: tuple[Finding, ...] = ()
    counts: Mapping[str, int] = field(default_factory=dict)
    measured: Any = None
    skipped: str | None = None
    leaks: tuple[Leak, ...] = ()

    def count(self, severity: Severity) -> int:
        """Return the number of findings of a severity."""
        return sum(self.counts[code] for code in self.codes(severity))

    @property
    def basis(self) -> str:
        """Why it did not run, what it looked at, and what it measured, if that has a `text`."""
        measured = getattr(self.measured, "text", "")
        return ": ".join(text for text in (self.skipped, self.scope, measured) if text)

    def codes(self, severity: Severity) -> list[str]:
        """Return the codes of a severity that were found, in the order of the check's entry."""
        return [code for code in codes_of(self.check, severity) if code in self.counts]


class Collector:
    """Collector of the findings of one check.

    Args:
        check: its name; codes of other checks are refused.
        keep: findings of each code that are kept in full.

    Attributes:
        numbers: what a subclass counts besides findings.

    Examples:
        >>> collector = Collector("schema", keep=1)
        >>> for line in (3, 5):
        ...     collector.add("malformed", Place("train.jsonl", line), "a record", "a list")
        >>> result = collector.result("5 lines")
        >>> len(result.findings), dict(result.counts)
        (1, {'malformed': 2})
    """

    def __init__(self, check: str, keep: int) -> None:
        self.check = check
        self.keep = keep
        self.numbers: Counter[str] = Counter()
        self._counts: Counter[str] = Counter()
        self._kept: list[Finding] = []

    def add(
        self,
        code: str,
        place: Place,
        expected: str,
        actual: str,
        comparison: WordDiff | None = None,
    ) -> None:
        """Count a finding, and keep it if it is among the first of its code.

        Raises:
            ValueError: the code is unknown or belongs to another check.
        """
        if code not in CODES or CODES[code].check != self.check:
            raise ValueError(f"{code} is not a code of the check {self.check}")
        if self.wants(code):
            self._kept.append(Finding(code, place, expected, actual, comparison))
        self._counts[code] += 1

    def part(self) -> Self:
        """Return a collector that has seen nothing, for a part of the dataset."""
        part = copy(self)
        part.numbers, part._counts, part._kept = Counter(), Counter(), []
        return part

    def join(self, part: Collector) -> None:
        """Take over the findings of a part of the same check, as if added here."""
        seen = Counter(self._counts)
        for finding in part._kept:
            if seen[finding.code] < self.keep:
                self._kept.append(finding)
            seen[finding.code] += 1
        self._counts.update(part._counts)
        self.numbers.update(part.numbers)

    @property
    def errors(self) -> int:
        """Number of errors so far."""
        return sum(n for code, n in self._counts.items() if CODES[code].severity == "error")

    def wants(self, code: str) -> bool:
        """Return whether the next finding of a code would be kept in full.

        A finding that is only counted needs no costly comparison.
        """
        return self._counts[code] < self.keep

    def result(
        self,
        scope: str,
        measured: Any = None,
        *,
        skipped: str | None = None,
        leaks: Iterable[Leak] = (),
    ) -> CheckResult:
        """Return everything that was collected, with other attributes of a `CheckResult`."""
        order = [code for severity in SEVERITIES for code in codes_of(self.check, severity)]
        kept = sorted(self._kept, key=lambda finding: order.index(finding.code))
        counts = dict(self._counts)
        return CheckResult(self.check, scope, tuple(kept), counts, measured, skipped, tuple(leaks))


class FamilyCollector(Collector):
    """Collector of a check that looks at one family after the other."""

    def family(self, members: Sequence[Located]) -> None:
        """Look at the members of one family of one file, in the order of the file."""


class Context(Protocol):
    """Subject of checks: a dataset, or an adapter folder."""

    def lacks(self, need: str) -> str | None:
        """Say why something that a check needs is not available; None if it is."""

    def collector(self, check: str) -> Collector:
        """Return the collector of a check, with what it has seen before the check runs."""


C = TypeVar("C", bound=Context)


@dataclass(frozen=True)
class Check(Generic[C]):
    """One entry of a registry.

    Attributes:
        name: one word, as in `--only NAME`.
        question: what the check answers.
        run: looks at the context, adds to the collector and returns its result.
        codes: severity and meaning of each code that its findings can carry.
        needs: what the context must have; without it the check is skipped, with the reason.
        look: for a context, a collector that sees every family before the check runs; None if the
            check does not look at families. Checks that run together share one pass over them.
        apart: whether it works on one core for long: of a large dataset, it runs in a process of
            its own, while other checks run.
        cost: time that it takes for 100,000 records, relative to reading them; for the time left.
    """

    name: str
    question: str
    run: Callable[[C, Collector], CheckResult]
    codes: Mapping[str, tuple[Severity, str]]
    needs: tuple[str, ...] = ()
    look: Callable[[C], FamilyCollector] | None = None
    apart: bool = False
    cost: float = 1.0

    def __post_init__(self) -> None:
        """Add the codes to `CODES`.

        Raises:
            ValueError: another check has one of them.
        """
        taken = [code for code in self.codes if code in CODES and CODES[code].check != self.name]
        if taken:
            raise ValueError(f"check {self.name}: codes are taken: {', '.join(taken)}")
        for code, (severity, meaning) in self.codes.items():
            CODES[code] = Code(self.name, severity, meaning)

    def result(self, context: C) -> CheckResult:
        """Run the check, or say why it cannot run."""
        reason, collector = self.lacks(context), context.collector(self.name)
        return (
            self.run(context, collector) if reason is None else collector.result("", skipped=reason)
        )

    def lacks(self, context: C) -> str | None:
        """Say why the check cannot run; None if it can."""
        reasons = map(context.lacks, self.needs)
        return next((reason for reason in reasons if reason is not None), None)


def count(checks: Iterable[CheckResult], severity: Severity) -> int:
    """Return the number of findings of a severity over some checks."""
    return sum(check.count(severity) for check in checks)


def tampering(checks: Iterable[CheckResult]) -> str | None:
    """Say what a hash that does not match shows; None if all match."""
    codes = {code for check in checks for code in check.counts}
    return next((text for code, text in TAMPERED.items() if code in codes), None)


def failed_checks(checks: Iterable[CheckResult], fail_on: Severity) -> list[CheckResult]:
    """Return the checks with a finding of a severity, or of a worse one.

    Examples:
        >>> checks = [CheckResult("schema", "3 lines", counts={"reference-like-key": 1})]
        >>> len(failed_checks(checks, "error")), len(failed_checks(checks, "note"))
        (0, 1)
    """
    worst = SEVERITIES[: SEVERITIES.index(fail_on) + 1]
    return [check for check in checks if any(check.count(severity) for severity in worst)]


def failed(checks: Iterable[CheckResult], fail_on: Severity) -> bool:
    """Return whether there is a finding of a severity, or of a worse one."""
    return bool(failed_checks(checks, fail_on))
