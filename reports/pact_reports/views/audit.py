"""Audits of data and of adapters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final, Literal

from pact_eval._choices import Severity
from pact_eval._json import Json
from pact_eval.audit.adapter.audit import AdapterAudit, AdapterFacts
from pact_eval.audit.adapter.compare import AdapterComparison, AdapterDifference, WeightsComparison
from pact_eval.audit.balance import Balance
from pact_eval.audit.dataset import DataAudit
from pact_eval.audit.findings import (
    CODES,
    SEVERITIES,
    CheckResult,
    Finding,
    count,
    failed,
    failed_checks,
    plain_check,
)
from pact_eval.audit.shortcuts import Probe, Shortcuts
from pact_eval.data.diff import WordDiff
from pact_eval.data.records import LETTERS
from pact_eval.errors import counted
from pact_eval.evaluation.conclusions.conclusion import Unchecked, unchecked_list
from pact_eval.evaluation.conclusions.data import DataConclusion, DataLeak
from pact_eval.numbers import UNDEFINED, value_text
from pact_eval.plain_text import first_of, one_line
from pact_reports.cases import Annotation, Case, CaseStatus, CiReport, Rule
from pact_reports.table import Cell, Column, Line, Part, Table, Tone, make_table
from pact_reports.tables.cells import estimate_cell, leak_lines
from pact_reports.views.datasets import files_table, labelled_json, labelled_remarks
from pact_reports.views.presenter import Brief, Fact, Presenter
from pact_reports.writers.json import attributes, checks_json, conclusion_json, file_json, to_json


def present_data_audit(audit: DataAudit, fail_on: Severity = "error") -> Presenter:
    """Present the audit of a dataset.

    Args:
        audit: what was found.
        fail_on: the lowest severity that fails.
    """
    return Presenter(
        first=lambda: Brief([*_facts_of(audit)]),
        tables=partial(data_audit_tables, audit, fail_on),
        to_json=partial(_json, audit, fail_on),
        headline=lambda: [data_verdict(audit, fail_on)],
        leak=lambda: DataLeak.joined(audit.leaks),
        remarks=lambda: (
            Line(remark) for data in audit.labelled or () for remark in labelled_remarks(data)
        ),
        ci=partial(_data_report, audit, fail_on),
        tool="pact-audit",
    )


def _json(audit: DataAudit, fail_on: Severity) -> dict[str, Json]:
    settings, manifest = audit.settings, audit.source.manifest
    conclusion = conclusion_json(DataConclusion.of_audit(audit))
    return {
        "settings": {
            **attributes(settings, *_SETTINGS),
            "tokenizer": None if settings.tokenizer is None else settings.tokenizer.name,
        },
        "manifest": None if manifest is None else manifest.name,
        "files": [
            file_json(file, facts) | {"families": families}
            for file, facts, families in zip(audit.files, audit.facts, audit.families, strict=True)
        ],
        **({"labelled": labelled_json(audit.labelled)} if audit.labelled else {}),
        **checks_json(audit.checks, fail_on),
        "answer": {"data": {**conclusion, "text": data_verdict(audit, fail_on)}},
        "conclusion": conclusion,
        "leaks": to_json(audit.leaks),
        "fail_on": fail_on,
        "tampered": audit.tampered,
    }


def present_adapter_audit(
    *audits: AdapterAudit,
    comparison: AdapterComparison | None = None,
    fail_on: Severity = "error",
) -> Presenter:
    """Present the audit of one adapter or of two.

    Args:
        audits: of each adapter.
        comparison: the differences between two.
        fail_on: the lowest severity that fails.
    """

    def adapter(audit: AdapterAudit) -> Json:
        return {
            "folder": str(audit.folder),
            "headline": adapter_verdict(audit, fail_on),
            **attributes(audit, "facts", "leaks"),
            "scale": audit.facts.scale,
            **checks_json(audit.checks, fail_on),
            "tampered": adapter_tampered(audit),
        }

    return Presenter(
        tables=partial(adapter_parts, audits, comparison, fail_on=fail_on),
        to_json=lambda: {
            "headline": adapter_verdict(audits[0], fail_on),
            "adapters": [*map(adapter, audits)],
            "fail_on": fail_on,
            "comparison": to_json(comparison),
        },
        ci=partial(_adapters_report, audits, fail_on),
        tool="pact-audit",
    )


_SETTINGS: Final = ("only", "max_edit_words", "near_duplicate", "keep", "k", "seed")
_TAMPERED: Final = "hashes differ from those in the manifest"
_TONE: Final[Mapping[Severity, Tone]] = {"error": "bad", "warning": "caution", "note": "info"}
_WORDS_KEPT: Final = 6


_MOST_FILES: Final = 3
_MOST_CODES: Final = 5
"""Files and kinds of findings on the first screen."""


def _facts_of(audit: DataAudit) -> Iterator[Fact]:
    """Yield the first screen on a dataset, below the verdict: findings, files, checks.

    Of each kind of finding: its meaning, how often it was found, and the first place. Of the first
    error it is also told what is there.
    """
    found = [
        (check, code)
        for severity in SEVERITIES
        for check in audit.checks
        for code in check.codes(severity)
    ]
    for number, (check, code) in enumerate(found[:_MOST_CODES]):
        n, severity = check.counts[code], CODES[code].severity
        text = CODES[code].meaning.removesuffix(".") + f": {'once' if n == 1 else f'{n:,} times'}"
        first = next((finding for finding in check.findings if finding.code == code), None)
        if first is not None:
            text = one_line(f"{text}, {'' if n == 1 else 'first '}{first.place}")
            if severity == "error" and not number and first.actual != "none":
                text += one_line(f": {_short(first.actual, _VALUE_WIDTH)}")
        yield Fact(severity, text, _TONE[severity])
    if len(found) > _MOST_CODES:
        yield Fact("...", f"{counted(len(found) - _MOST_CODES, 'more kind')} of findings")
    files = [
        f"{one_line(file.name)} ({facts.rows:,} records, {file.role})"
        for file, facts in zip(audit.files, audit.facts, strict=True)
    ]
    yield Fact("files", first_of(files, _MOST_FILES))
    checked = [plain_check(check.check) for check in audit.checks if check.skipped is None]
    yield Fact("checked", ", ".join(checked))
    skipped = [Unchecked(check.check, check.skipped) for check in audit.checks if check.skipped]
    yield Fact("not checked", unchecked_list(skipped).removeprefix("not checked: "))


def data_audit_tables(audit: DataAudit, fail_on: Severity) -> Iterator[Part]:
    """Yield what the first screen on a dataset leaves out.

    Args:
        audit: what was found.
        fail_on: the severity that fails.

    Yields:
        Files with their hashes, findings, what was measured, the table of checks.
    """
    yield files_table(audit.files, audit.facts, audit.families)
    yield from findings(audit.checks)
    for check in audit.checks:
        if isinstance(check.measured, Balance):
            yield _balance_table(check.measured)
            if len(audit.checks) == 1:
                yield _groups_table(check.measured)
        elif isinstance(check.measured, Shortcuts):
            yield _shortcuts_table(check.measured)
    yield checks_table(audit.checks, fail_on)


def data_verdict(audit: DataAudit, fail_on: Severity) -> str:
    """Write the verdict on a dataset; a finding of a severity or a worse one fails it."""
    tampered = _TAMPERED if audit.tampered else None
    return verdict(audit.checks, subject="data", fail_on=fail_on, tampered=tampered)


def findings(checks: Sequence[CheckResult]) -> Iterator[Line]:
    """Lay out the findings, worst first, and count the omitted ones."""
    if any(check.counts for check in checks):
        yield Line("Findings\n", "strong")
    for severity in SEVERITIES:
        for check in checks:
            for code in check.codes(severity):
                yield from _findings_of(check, code, severity)


def _findings_of(check: CheckResult, code: str, severity: Severity) -> Iterator[Line]:
    head = f"{severity} {CODES[code].check}/{code}"
    shown = [finding for finding in check.findings if finding.code == code]
    for finding in shown:
        yield Line(one_line(f"{head}  {finding.place}"), _TONE[severity])
        lines = [
            one_line(f"  expected  {finding.expected}"),
            one_line(f"  found     {finding.actual}"),
        ]
        if finding.comparison is not None:
            left, right = _sides(finding.comparison)
            lines += [f"  text      {left}", f"  other     {right}"]
        yield Line("\n".join(lines) + "\n")
    rest = check.counts[code] - len(shown)
    if rest and shown:
        yield Line(f"  ... and {rest:,} more of {code}\n", "faint")
    elif rest:
        yield Line(f"{head}: {rest:,}", _TONE[severity])


def _sides(diff: WordDiff) -> tuple[str, str]:
    """Write two texts, long common passages shortened, differing words in double brackets."""
    sides: tuple[list[str], list[str]] = ([], [])
    last = len(diff.segments) - 1
    for number, segment in enumerate(diff.segments):
        for side, words in zip(sides, (segment.left, segment.right), strict=True):
            if segment.kind != "same":
                side += [f"[[{one_line(words)}]]"] if words else []
                continue
            parts = one_line(words).split(" ")
            if len(parts) > 2 * _WORDS_KEPT:
                head = parts[:_WORDS_KEPT] if number else []
                tail = parts[-_WORDS_KEPT:] if number < last else []
                parts = [*head, "...", *tail]
            side.append(" ".join(parts))
    left, right = (" ".join(side) for side in sides)
    return left, right


def checks_table(checks: Sequence[CheckResult], fail_on: Severity) -> Table:
    """Lay out one row per check: result, counts and measurements.

    Args:
        checks: results in the order of the rows.
        fail_on: a finding of this severity, or of a worse one, fails a check.
    """

    def result(check: CheckResult) -> Cell:
        if failed([check], fail_on):
            return Cell("failed", tone="bad")
        if check.skipped is not None:
            return Cell("not checked", tone="faint")
        return Cell("passed", tone="good")

    def found(check: CheckResult, severity: Severity) -> Cell:
        n = check.count(severity)
        return Cell(f"{n:,}" if n else "", tone=_TONE[severity])

    return make_table(
        "checks",
        checks,
        (Column("check", "left"), lambda check: check.check),
        (Column("result", "left"), result),
        *((f"{severity}s", partial(found, severity=severity)) for severity in SEVERITIES),
        (Column("scope and measurements", "left", width=0.5), lambda check: check.basis),
    )


def verdict(
    checks: Sequence[CheckResult], *, subject: str, fail_on: Severity, tampered: str | None
) -> str:
    """Write a one-line verdict on the audited subject.

    Args:
        checks: all results.
        subject: what was audited: "data" or "adapter".
        fail_on: the severity that fails.
        tampered: what a hash that does not match shows, or None if all match.
    """
    counts = {severity: count(checks, severity) for severity in SEVERITIES}
    tally = ", ".join(counted(n, severity) for severity, n in counts.items() if n)
    failing = [plain_check(check.check) for check in failed_checks(checks, fail_on)]
    if tampered is not None:
        return f"TAMPERED: {tampered} ({tally})."
    if failing:
        return f"NOT TO BE TRUSTED: {tally} ({', '.join(failing)})."
    if counts["error"] or counts["warning"]:
        return f"The {subject} passed with doubts: {tally}."
    if all(check.skipped for check in checks):
        return f"The {subject} was not checked."
    return f"The {subject} is sound as far as checked{f' ({tally})' if tally else ''}."


def _shortcuts_table(shortcuts: Shortcuts) -> Table:
    """Lay out the bag-of-words predictions from each view."""

    def gain(probe: Probe) -> Cell:
        if probe.reason:
            return Cell(UNDEFINED, reason=probe.reason)
        return estimate_cell(probe.gain, "percent", reasons=False)

    return make_table(
        "shortcuts",
        shortcuts.probes,
        (Column("text", "left"), lambda probe: probe.view),
        ("accuracy", lambda probe: value_text(probe.accuracy.value, "percent")),
        ("baseline", lambda probe: value_text(probe.baseline, "percent")),
        ("ceiling", lambda probe: value_text(probe.ceiling, "percent")),
        ("normalised gain", gain),
        title="Shortcuts: what a bag of words predicts",
        caption="Normalised gain: 0 is the baseline, 100 the ceiling.",
    )


def _balance_table(balance: Balance) -> Table:
    """Lay out the positions of the references by kind; in brackets the number by chance."""
    kinds: dict[str, list[str]] = {}
    for position in balance.positions:
        shown = f"{position.references:,} ({position.expected:,.0f})"
        kinds.setdefault(f"{position.file}: {position.kind}", []).append(shown)
    letters, notes = _letter_columns([*kinds.values()])
    return make_table(
        "balance",
        kinds.items(),
        (Column("file: kind", "left"), lambda row: row[0]),
        *((letter, lambda row, cell=cell: cell(row[1])) for letter, cell in letters),
        title="Balance: references at each letter, and by chance",
        notes=notes,
    )


def _groups_table(balance: Balance) -> Table:
    """Lay out records, families and references by file and kind, domain, source family."""
    rows = [(group, [f"{n:,}" for n in group.references]) for group in balance.groups]
    letters, notes = _letter_columns([cells for _, cells in rows])
    return make_table(
        "groups",
        rows,
        (Column("file", "left"), lambda row: row[0].file),
        (Column("by", "left"), lambda row: row[0].by.replace("_", " ")),
        (Column("name", "left"), lambda row: row[0].name),
        ("records", lambda row: row[0].records),
        ("families", lambda row: row[0].families),
        *((letter, lambda row, cell=cell: cell(row[1])) for letter, cell in letters),
        notes=notes,
    )


def _letter_columns(
    rows: Sequence[Sequence[str]],
) -> tuple[list[tuple[str, Callable[[Sequence[str]], str]]], tuple[str, ...]]:
    """Return the columns of the positions that have a letter, and a note on the others."""
    notes: tuple[str, ...] = ()
    widest = max(map(len, rows), default=0)
    if widest > len(LETTERS):
        beyond = f"Positions {len(LETTERS) + 1} to {widest}"
        notes = (f"{beyond} have no letter and are not shown: --json.",)

    def cell(row: Sequence[str], at: int) -> str:
        return row[at] if at < len(row) else ""

    return [(letter, partial(cell, at=at)) for at, letter in enumerate(LETTERS[:widest])], notes


_UNKNOWN: Final = "unknown"
_ADAPTER_TAMPERED: Final = {
    "base-differs": "the base's weights are not those that the adapter names",
    "training-base-differs": "the base's weights are not those of the training",
    "training-edited": "the training record was edited, or belongs to another adapter",
    "training-other-weights": "the training record belongs to other weights",
}
_HASH_WIDTH: Final = 17  # enough to distinguish files; --json has all of it
_VALUE_WIDTH: Final = 100


def adapter_parts(
    audits: Sequence[AdapterAudit], comparison: AdapterComparison | None, *, fail_on: Severity
) -> Iterator[Part]:
    """Lay out the audit of one adapter or of two.

    Args:
        audits: one or two audits.
        comparison: what differs between the two.
        fail_on: the severity that fails.

    Yields:
        Facts, findings, checks and verdict of each; then the differences.
    """
    for number, audit in enumerate(audits):
        if number:
            yield Line("")
        facts = (one_line(f"  {name + ':':<14}{value}") for name, value in _facts(audit.facts))
        yield from leak_lines(DataLeak.joined(audit.leaks))
        yield from (Line(one_line(str(audit.folder)), "strong"), Line("\n".join(facts)))
        if comparison is None:
            yield make_table(
                "files",
                audit.facts.files,
                (Column("file", "left"), lambda file: file.name),
                ("bytes", lambda file: "" if file.size_bytes is None else file.size_bytes),
                (Column("SHA-256", "left"), lambda file: file.sha256 or "not opened"),
            )
        yield from findings(audit.checks)
        yield checks_table(audit.checks, fail_on)
        yield Line(adapter_verdict(audit, fail_on), "strong")
    if comparison is not None:
        yield _differences(comparison, audits)
        yield Line(_weights_line(comparison.weights))


def adapter_verdict(audit: AdapterAudit, fail_on: Severity) -> str:
    """Write the verdict on an adapter; a finding of a severity or a worse one fails it."""
    return verdict(audit.checks, subject="adapter", fail_on=fail_on, tampered=_tampering(audit))


def adapter_tampered(audit: AdapterAudit) -> bool:
    """Return whether a hash does not match: that of the base, or of the training record."""
    return _tampering(audit) is not None


def _tampering(audit: AdapterAudit) -> str | None:
    """Explain the first hash that does not match."""
    codes = {code for check in audit.checks for code in check.counts}
    return next((text for code, text in _ADAPTER_TAMPERED.items() if code in codes), None)


def _facts(facts: AdapterFacts) -> Iterator[tuple[str, str]]:
    settings = facts.settings
    if facts.hub is not None:
        yield "from the Hub", str(facts.hub.name)
    if settings is not None:
        rule = "alpha/sqrt(r), rsLoRA" if settings.use_rslora else "alpha/r"
        scale = _UNKNOWN if facts.scale is None else f"{facts.scale:g}"
        rank, alpha = settings.rank or _UNKNOWN, settings.alpha or _UNKNOWN
        dora = ", DoRA" if settings.use_dora else ""
        yield "LoRA", f"rank {rank}, alpha {alpha}, scale {scale} ({rule}){dora}"
        targets = settings.targets
        yield "targets", targets if isinstance(targets, str) else ", ".join(targets or [_UNKNOWN])
    if facts.n_parameters is not None and facts.dtypes is not None:
        dtypes = ", ".join(sorted(facts.dtypes)) or "no dtype"
        where = f"{facts.n_modules:,} modules in {facts.n_layers:,} layers"
        yield "tensors", f"{where}, {facts.n_parameters:,} parameters, {dtypes}"
    revision = facts.base_revision or "not named"
    yield "base model", f"{facts.base_model or _UNKNOWN}, revision {revision}"
    stated = ", stated by the user" if facts.contract_stated_by == "user" else ""
    yield "contract", f"{facts.contract_task or _UNKNOWN}{stated}"
    yield "fingerprint", facts.contract_fingerprint or _UNKNOWN
    if settings is not None:
        yield "written by", f"PEFT {settings.peft_version or _UNKNOWN}"


def _differences(comparison: AdapterComparison, audits: Sequence[AdapterAudit]) -> Part:
    if not comparison.differences:
        return Line("The adapters do not differ: facts, configurations and files are the same.")

    def value(row: AdapterDifference, side: Literal["left", "right"]) -> str:
        limit = _HASH_WIDTH if row.topic == "file" else _VALUE_WIDTH
        found: str | None = getattr(row, side)
        return "(none)" if found is None else _short(found, limit)

    left, right = (Column(str(audit.folder), "left", width=0.4) for audit in audits)
    return make_table(
        "differences",
        comparison.differences,
        (
            Column("differs", "left"),
            lambda row: row.name if row.topic == "fact" else f"{row.topic}: {row.name}",
        ),
        (left, partial(value, side="left")),
        (right, partial(value, side="right")),
    )


def _short(value: str, limit: int) -> str:
    return value if len(value) <= limit else f"{value[: limit - 1]}…"


def _weights_line(weights: WeightsComparison | None) -> str:
    if weights is None:
        return "Tensors were not compared: those of one adapter cannot be read."
    if weights.identical_bytes:
        return "The weights are the same, byte for byte."
    parts = [f"{weights.different:,} of {weights.compared:,} tensors compared differ"]
    if weights.largest_name is not None:
        parts.append(
            f"most {weights.largest_name}, by {100 * weights.largest_difference:.1f}% of the norm"
        )
    others = {
        "only in the first": len(weights.only_left),
        "only in the second": len(weights.only_right),
        "of another shape": len(weights.reshaped),
        "not compared": weights.not_compared,
    }
    parts += [f"{n:,} {what}" for what, n in others.items() if n]
    return one_line("; ".join(parts)) + "."


def _data_report(audit: DataAudit, fail_on: Severity) -> CiReport:
    """Return the cases of a dataset's audit."""
    paths = {file.name: file.source for file in audit.files}
    manifest, first = audit.source.manifest, audit.files[0].source
    folder = first.parent if manifest is None else manifest.folder

    def path_of(name: str) -> Path:
        return paths.get(name) or _existing(folder, name) or first

    cases = [_check_case(check, path_of, fail_on) for check in audit.checks]
    return _ci_report("pact-audit data", data_verdict(audit, fail_on), cases, audit.checks)


def _adapters_report(audits: Sequence[AdapterAudit], fail_on: Severity) -> CiReport:
    """Return the cases of the audits of one adapter, or of two."""
    cases: list[Case] = []
    for audit in audits:
        folder, prefix = audit.folder, f"{audit.folder}: " if len(audits) > 1 else ""

        def path_of(name: str, folder: Path = folder) -> Path:
            return _existing(folder, name) or _existing(Path(), name) or folder

        cases += [_check_case(check, path_of, fail_on, prefix) for check in audit.checks]
    answer = " ".join(adapter_verdict(audit, fail_on) for audit in audits)
    checks = (check for audit in audits for check in audit.checks)
    return _ci_report("pact-audit adapter", answer, cases, checks)


def _ci_report(
    command: str, answer: str, cases: Sequence[Case], checks: Iterable[CheckResult]
) -> CiReport:
    """Return cases with the rules of all codes that checks found or counted."""
    codes = dict.fromkeys(code for check in checks for code in check.counts)
    rules = {code: Rule(CODES[code].meaning, CODES[code].severity) for code in codes}
    return CiReport(command, answer, tuple(cases), rules)


def _existing(folder: Path, name: str) -> Path | None:
    """Return a path in a folder if something is there; a name may be any text."""
    try:
        return folder / name if (folder / name).exists() else None
    except (OSError, ValueError):
        return None


def _check_case(
    check: CheckResult, path_of: Callable[[str], Path], fail_on: Severity, prefix: str = ""
) -> Case:
    status: CaseStatus = "passed" if check.skipped is None else "skipped"
    status = "failed" if failed([check], fail_on) else status
    kept = Counter(finding.code for finding in check.findings)
    more = {code: n - kept[code] for code, n in check.counts.items() if n > kept[code]}
    annotations = tuple(_annotation(finding, path_of) for finding in check.findings)
    return Case(f"{prefix}{check.check}", status, check.basis, annotations, more)


def _annotation(finding: Finding, path_of: Callable[[str], Path]) -> Annotation:
    place, path = finding.place, path_of(finding.place.file)
    # A finding on something that is not a file is shown at another file.
    parts = [f"{place.file}: "] if Path(place.file).name != path.name else []
    parts += [] if place.record_id is None else [f"{place.record_id}: "]
    parts.append(f"expected {finding.expected}, found {finding.actual}")
    return Annotation(finding.code, finding.severity, "".join(parts), path, place.line)
