"""Audits of data and of adapters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from pact_eval._choices import Severity
from pact_eval._json import Json
from pact_eval.audit.adapter.audit import AdapterAudit, AdapterFacts
from pact_eval.audit.adapter.compare import AdapterComparison, WeightsComparison
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
from pact_eval.evaluation.conclusions.data import DataConclusion, leak_of
from pact_eval.numbers import UNDEFINED, value_text
from pact_eval.plain_text import first_of, one_line
from pact_reports.cases import Annotation, Case, CaseStatus, CiReport, Rule
from pact_reports.table import Cell, Column, Line, Part, Table, Tone, make_table, table_row
from pact_reports.tables.cells import estimate_cell, leak_lines
from pact_reports.views.datasets import files_table, labelled_json, labelled_remarks
from pact_reports.views.presenter import Brief, Fact, Presenter
from pact_reports.writers.json import attributes, checks_json, conclusion_json, file_json, to_json

_SETTINGS: Final = ("only", "max_edit_words", "near_duplicate", "keep", "k", "seed")
_TONE: Final[Mapping[Severity, Tone]] = {"error": "bad", "warning": "caution", "note": "info"}
_WORDS_KEPT: Final = 6
_MOST_FILES: Final = 3
_MOST_CODES: Final = 5
"""Files and kinds of findings on the first screen."""
_UNKNOWN: Final = "unknown"
_HASH_WIDTH: Final = 17  # enough to distinguish files; --json has all of it
_VALUE_WIDTH: Final = 100


def present_data_audit(audit: DataAudit, fail_on: Severity = "error") -> Presenter:
    """Present the audit of a dataset.

    Args:
        audit: what was found.
        fail_on: the lowest severity that fails.
    """
    return Presenter(
        first=lambda: Brief([*_facts_of(audit)]),
        tables=lambda: _data_tables(audit, fail_on),
        to_json=partial(_json, audit, fail_on),
        headline=lambda: [verdict(audit, fail_on)],
        leak=lambda: leak_of(audit.leaks),
        remarks=lambda: (
            Line(remark) for data in audit.labelled or () for remark in labelled_remarks(data)
        ),
        ci=lambda: _cases([audit], fail_on),
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
        "answer": {"data": {**conclusion, "text": verdict(audit, fail_on)}},
        "conclusion": conclusion,
        "leaks": to_json(audit.leaks),
        "fail_on": fail_on,
        "tampered": audit.tampering is not None,
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
    return Presenter(
        tables=lambda: adapter_parts(audits, comparison, fail_on=fail_on),
        to_json=lambda: {
            "headline": verdict(audits[0], fail_on),
            "adapters": [
                {
                    "folder": str(audit.folder),
                    "headline": verdict(audit, fail_on),
                    "facts": to_json(audit.facts),
                    "scale": audit.facts.scale,
                    **checks_json(audit.checks, fail_on),
                    "tampered": audit.tampering is not None,
                    "leaks": to_json(audit.leaks),
                }
                for audit in audits
            ],
            "fail_on": fail_on,
            "comparison": to_json(comparison),
        },
        ci=lambda: _cases(audits, fail_on),
        tool="pact-audit",
    )


def verdict(audit: DataAudit | AdapterAudit, fail_on: Severity) -> str:
    """Write a one-line verdict on the audited data or adapter.

    Args:
        audit: what was found.
        fail_on: a finding of this severity, or of a worse one, fails it.
    """
    checks, subject = audit.checks, "data" if isinstance(audit, DataAudit) else "adapter"
    counts = {severity: count(checks, severity) for severity in SEVERITIES}
    tally = ", ".join(counted(n, severity) for severity, n in counts.items() if n)
    failing = [plain_check(check.check) for check in failed_checks(checks, fail_on)]
    if audit.tampering is not None:
        return f"TAMPERED: {audit.tampering} ({tally})."
    if failing:
        return f"NOT TO BE TRUSTED: {tally} ({', '.join(failing)})."
    if counts["error"] or counts["warning"]:
        return f"The {subject} passed with doubts: {tally}."
    if all(check.skipped for check in checks):
        return f"The {subject} was not checked."
    return f"The {subject} is sound as far as checked{f' ({tally})' if tally else ''}."


def _facts_of(audit: DataAudit) -> Iterator[Fact]:
    """Yield the first screen on a dataset, below the verdict: findings, files, checks.

    A kind of finding has its meaning, how often it was found, and the first place; the first error
    also has what is there.
    """
    found = [
        (severity, check, code)
        for severity in SEVERITIES
        for check in audit.checks
        for code in check.codes(severity)
    ]
    for number, (severity, check, code) in enumerate(found[:_MOST_CODES]):
        meaning, n = CODES[code].meaning.removesuffix("."), check.counts[code]
        text = f"{meaning}: {'once' if n == 1 else f'{n:,} times'}"
        first = next((finding for finding in check.findings if finding.code == code), None)
        if first is not None:
            text += f", {'' if n == 1 else 'first '}{first.place}"
            if severity == "error" and not number and first.actual != "none":
                text += f": {_short(first.actual, _VALUE_WIDTH)}"
            text = one_line(text)
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


def _data_tables(audit: DataAudit, fail_on: Severity) -> Iterator[Part]:
    """Yield what the first screen on a dataset leaves out: files, findings, numbers, checks."""
    yield files_table(audit.files, audit.facts, audit.families)
    yield from findings(audit.checks)
    for check in audit.checks:
        if isinstance(check.measured, Balance):
            yield _balance_table(check.measured)
        elif isinstance(check.measured, Shortcuts):
            yield make_table(
                "shortcuts",
                check.measured.probes,
                (Column("text", "left"), lambda probe: probe.view),
                ("accuracy", lambda probe: value_text(probe.accuracy.value, "percent")),
                ("baseline", lambda probe: value_text(probe.baseline, "percent")),
                ("ceiling", lambda probe: value_text(probe.ceiling, "percent")),
                ("normalised gain", _gain_cell),
                title="Shortcuts: what a bag of words predicts",
                caption="Normalised gain: 0 is the baseline, 100 the ceiling.",
            )
    yield checks_table(audit.checks, fail_on=fail_on)


def _gain_cell(probe: Probe) -> Cell:
    if probe.reason:
        return Cell(UNDEFINED, reason=probe.reason)
    return estimate_cell(probe.gain, "percent", reasons=False)


def _balance_table(balance: Balance) -> Table:
    """Lay out the positions of the references by kind; in brackets the number by chance."""
    kinds: dict[str, list[str]] = {}
    for position in balance.positions:
        shown = f"{position.references:,} ({position.expected:,.0f})"
        kinds.setdefault(f"{position.file}: {position.kind}", []).append(shown)
    widest = max(map(len, kinds.values()), default=0)
    beyond = f"Positions {len(LETTERS) + 1} to {widest} have no letter and are not shown: --json."
    rows = (
        table_row(kind, *[*cells, *[""] * (widest - len(cells))][: len(LETTERS)])
        for kind, cells in kinds.items()
    )
    return Table(
        name="balance",
        title="Balance: references at each letter, and by chance",
        columns=(Column("file: kind", "left"), *map(Column, LETTERS[:widest])),
        rows=tuple(rows),
        notes=(beyond,) if widest > len(LETTERS) else (),
    )


def findings(checks: Sequence[CheckResult]) -> Iterator[Line]:
    """Lay out the findings, worst first, and count the omitted ones."""
    if any(check.counts for check in checks):
        yield Line("Findings\n", "strong")
    for severity, check in ((severity, check) for severity in SEVERITIES for check in checks):
        for code in check.codes(severity):
            head, tone = f"{severity} {check.check}/{code}", _TONE[severity]
            shown = [finding for finding in check.findings if finding.code == code]
            for finding in shown:
                yield Line(one_line(f"{head}  {finding.place}"), tone)
                lines = [
                    ("expected", one_line(finding.expected)),
                    ("found", one_line(finding.actual)),
                ]
                if finding.comparison is not None:
                    lines += zip(("text", "other"), _sides(finding.comparison), strict=True)
                yield Line("".join(f"  {name:<10}{text}\n" for name, text in lines))
            rest = check.counts[code] - len(shown)
            if rest and shown:
                yield Line(f"  ... and {rest:,} more of {code}\n", "faint")
            elif rest:
                yield Line(f"{head}: {rest:,}", tone)


def _sides(diff: WordDiff) -> tuple[str, str]:
    """Write two texts, long common passages shortened, differing words in double brackets."""
    sides: tuple[list[str], list[str]] = ([], [])
    last = len(diff.segments) - 1
    for number, segment in enumerate(diff.segments):
        for side, text in zip(sides, (segment.left, segment.right), strict=True):
            words = one_line(text).split(" ")
            if segment.kind == "same" and len(words) > 2 * _WORDS_KEPT:
                side += words[:_WORDS_KEPT] if number else []
                side.append("...")
                side += words[-_WORDS_KEPT:] if number < last else []
            elif segment.kind == "same":
                side += words
            elif text:
                side.append(f"[[{one_line(text)}]]")
    return " ".join(sides[0]), " ".join(sides[1])


def checks_table(checks: Sequence[CheckResult], *, fail_on: Severity) -> Table:
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

    def number(check: CheckResult, severity: Severity) -> Cell:
        n = check.count(severity)
        return Cell(f"{n:,}" if n else "", tone=_TONE[severity])

    return make_table(
        "checks",
        checks,
        (Column("check", "left"), lambda check: check.check),
        (Column("result", "left"), result),
        *((f"{severity}s", partial(number, severity=severity)) for severity in SEVERITIES),
        (Column("scope and measurements", "left", width=0.5), lambda check: check.basis),
    )


def adapter_parts(
    audits: Sequence[AdapterAudit], comparison: AdapterComparison | None, *, fail_on: Severity
) -> tuple[Part, ...]:
    """Lay out the audit of one adapter or of two.

    Args:
        audits: one or two audits.
        comparison: what differs between the two.
        fail_on: the severity that fails.

    Returns:
        Facts, findings, checks and verdict of each; then the differences.
    """
    parts: list[Part] = []
    for number, audit in enumerate(audits):
        if number:
            parts.append(Line(""))
        facts = (one_line(f"  {name + ':':<14}{value}") for name, value in _facts(audit.facts))
        parts += leak_lines(leak_of(audit.leaks))
        parts += [Line(one_line(str(audit.folder)), "strong"), Line("\n".join(facts))]
        if comparison is None:
            files = make_table(
                "files",
                audit.facts.files,
                (Column("file", "left"), lambda file: file.name),
                ("bytes", lambda file: "" if file.size_bytes is None else f"{file.size_bytes:,}"),
                (Column("SHA-256", "left"), lambda file: file.sha256 or "not opened"),
            )
            parts.append(files)
        parts += findings(audit.checks)
        parts.append(checks_table(audit.checks, fail_on=fail_on))
        parts.append(Line(verdict(audit, fail_on), "strong"))
    if comparison is not None:
        parts.append(_differences(comparison, audits))
        parts.append(Line(_weights_line(comparison.weights)))
    return tuple(parts)


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
    rows = []
    for row in comparison.differences:
        name = row.name if row.topic == "fact" else f"{row.topic}: {row.name}"
        limit = _HASH_WIDTH if row.topic == "file" else _VALUE_WIDTH
        values = ("(none)" if value is None else value for value in (row.left, row.right))
        rows.append(table_row(name, *(_short(value, limit) for value in values)))
    folders = (Column(str(audit.folder), "left", width=0.4) for audit in audits)
    return Table("differences", columns=(Column("differs", "left"), *folders), rows=tuple(rows))


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
    for n, what in (
        (len(weights.only_left), "only in the first"),
        (len(weights.only_right), "only in the second"),
        (len(weights.reshaped), "of another shape"),
        (weights.not_compared, "not compared"),
    ):
        if n:
            parts.append(f"{n:,} {what}")
    return one_line("; ".join(parts)) + "."


def _cases(audits: Sequence[DataAudit | AdapterAudit], fail_on: Severity) -> CiReport:
    """Return the cases of the audits of a dataset, of one adapter, or of two."""
    cases: list[Case] = []
    for audit in audits:
        prefix = f"{_folder(audit)}: " if len(audits) > 1 else ""
        for check in audit.checks:
            status: CaseStatus = "passed" if check.skipped is None else "skipped"
            status = "failed" if failed([check], fail_on) else status
            kept = Counter(finding.code for finding in check.findings)
            more = {code: n - kept[code] for code, n in check.counts.items() if n > kept[code]}
            annotations = tuple(_annotation(finding, audit) for finding in check.findings)
            cases.append(Case(f"{prefix}{check.check}", status, check.basis, annotations, more))
    return CiReport(
        f"pact-audit {'data' if isinstance(audits[0], DataAudit) else 'adapter'}",
        " ".join(verdict(audit, fail_on) for audit in audits),
        tuple(cases),
        {
            code: Rule(CODES[code].meaning, CODES[code].severity)
            for audit in audits
            for check in audit.checks
            for code in check.counts
        },
    )


def _folder(audit: DataAudit | AdapterAudit) -> Path:
    if isinstance(audit, AdapterAudit):
        return audit.folder
    manifest = audit.source.manifest
    return audit.files[0].source.parent if manifest is None else manifest.folder


def _annotation(finding: Finding, audit: DataAudit | AdapterAudit) -> Annotation:
    """Return a finding at a file that exists; one on something else is shown at another file."""
    place, folder = finding.place, _folder(audit)
    path = folder
    if isinstance(audit, DataAudit):
        files = {file.name: file.source for file in audit.files}
        path = files.get(place.file) or _existing(folder, place.file) or audit.files[0].source
    else:
        path = _existing(folder, place.file) or _existing(Path(), place.file) or folder
    parts = [f"{place.file}: "] if Path(place.file).name != path.name else []
    parts += [] if place.record_id is None else [f"{place.record_id}: "]
    parts.append(f"expected {finding.expected}, found {finding.actual}")
    return Annotation(finding.code, finding.severity, "".join(parts), path, place.line)


def _existing(folder: Path, name: str) -> Path | None:
    """Return a path in a folder if something is there; a name may be any text."""
    try:
        return folder / name if (folder / name).exists() else None
    except (OSError, ValueError):
        return None
