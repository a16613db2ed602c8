"""Audits of data and of adapters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
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
from pact_reports.table import (
    Cell,
    Column,
    Line,
    Part,
    Table,
    Tone,
    columns_and_rows,
    right_columns,
    table_row,
)
from pact_reports.tables.cells import estimate_cell, leak_lines
from pact_reports.views.brief import Brief, Fact
from pact_reports.views.datasets import files_table, labelled_json, labelled_remarks
from pact_reports.views.presenter import Presenter
from pact_reports.writers.json import attributes, checks_json, conclusion_json, file_json, to_json


def present_data_audit(audit: DataAudit, fail_on: Severity = "error") -> Presenter:
    """Present the audit of a dataset.

    Args:
        audit: what was found.
        fail_on: the lowest severity that fails.
    """
    return Presenter(
        first=lambda: Brief([*_facts_of(audit)]),
        tables=partial(data_audit_tables, audit, fail_on=fail_on),
        to_json=partial(_json, audit, fail_on),
        headline=lambda: [data_verdict(audit, fail_on)],
        leak=lambda: leak_of(audit.leaks),
        remarks=lambda: (
            Line(remark) for data in audit.labelled or () for remark in labelled_remarks(data)
        ),
        ci=partial(data_report, audit, fail_on),
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
    return Presenter(
        tables=partial(adapter_parts, audits, comparison, fail_on=fail_on),
        to_json=lambda: {
            "headline": adapter_verdict(audits[0], fail_on),
            "adapters": [
                {
                    "folder": str(audit.folder),
                    "headline": adapter_verdict(audit, fail_on),
                    "facts": to_json(audit.facts),
                    "scale": audit.facts.scale,
                    **checks_json(audit.checks, fail_on),
                    "tampered": adapter_tampered(audit),
                    "leaks": to_json(audit.leaks),
                }
                for audit in audits
            ],
            "fail_on": fail_on,
            "comparison": to_json(comparison),
        },
        ci=partial(adapters_report, audits, fail_on),
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
    """Yield the first screen on a dataset, below the verdict: findings, files, checks."""
    found = [
        (check, code)
        for severity in SEVERITIES
        for check in audit.checks
        for code in check.codes(severity)
    ]
    for number, (check, code) in enumerate(found[:_MOST_CODES]):
        severity = CODES[code].severity
        told = severity == "error" and not number
        yield Fact(severity, _say_code(check, code, found=told), _TONE[severity])
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


def _say_code(check: CheckResult, code: str, *, found: bool) -> str:
    """Write the meaning of a code, how often it was found, and the first place; and what is there.

    Args:
        check: that found it.
        code: of the finding.
        found: whether to write what is there.
    """
    meaning, n = CODES[code].meaning.removesuffix("."), check.counts[code]
    text = f"{meaning}: {'once' if n == 1 else f'{n:,} times'}"
    first = next((finding for finding in check.findings if finding.code == code), None)
    if first is None:
        return text
    text += f", {'' if n == 1 else 'first '}{first.place}"
    told = found and first.actual != "none"
    return one_line(f"{text}: {_short(first.actual, _VALUE_WIDTH)}" if told else text)


def data_audit_tables(audit: DataAudit, *, fail_on: Severity) -> Iterator[Part]:
    """Yield what the first screen on a dataset leaves out.

    Args:
        audit: what was found.
        fail_on: the severity that fails.

    Returns:
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
    yield checks_table(audit.checks, fail_on=fail_on)


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
                yield from _findings_of(check, code)


def _findings_of(check: CheckResult, code: str) -> Iterator[Line]:
    severity = CODES[code].severity
    head = f"{severity} {CODES[code].check}/{code}"
    shown = [finding for finding in check.findings if finding.code == code]
    for finding in shown:
        yield Line(one_line(f"{head}  {finding.place}"), _TONE[severity])
        yield Line("\n".join(_finding(finding)) + "\n")
    rest = check.counts[code] - len(shown)
    if rest and shown:
        yield Line(f"  ... and {rest:,} more of {code}\n", "faint")
    elif rest:
        yield Line(f"{head}: {rest:,}", _TONE[severity])


def _finding(finding: Finding) -> Iterator[str]:
    yield one_line(f"  expected  {finding.expected}")
    yield one_line(f"  found     {finding.actual}")
    if finding.comparison is not None:
        left, right = _sides(finding.comparison)
        yield f"  text      {left}"
        yield f"  other     {right}"


def _sides(diff: WordDiff) -> tuple[str, str]:
    """Write two texts, long common passages shortened, differing words in double brackets."""
    sides: tuple[list[str], list[str]] = ([], [])
    last = len(diff.segments) - 1
    for number, segment in enumerate(diff.segments):
        for side, words in zip(sides, (segment.left, segment.right), strict=True):
            if segment.kind == "same":
                side.append(_shorten(words, first=number == 0, last=number == last))
            elif words:
                side.append(f"[[{one_line(words)}]]")
    left, right = (" ".join(side) for side in sides)
    return left, right


def _shorten(words: str, *, first: bool, last: bool) -> str:
    parts = one_line(words).split(" ")
    if len(parts) <= 2 * _WORDS_KEPT:
        return " ".join(parts)
    head = [] if first else parts[:_WORDS_KEPT]
    tail = [] if last else parts[-_WORDS_KEPT:]
    return " ".join([*head, "...", *tail])


def checks_table(checks: Sequence[CheckResult], *, fail_on: Severity) -> Table:
    """Lay out one row per check: result, counts and measurements.

    Args:
        checks: results in the order of the rows.
        fail_on: a finding of this severity, or of a worse one, fails a check.
    """
    layout = columns_and_rows(
        checks,
        (Column("check", "left"), lambda check: check.check),
        (Column("result", "left"), lambda check: _result(check, fail_on)),
        *(
            (f"{severity}s", lambda check, severity=severity: _count_cell(check, severity))
            for severity in SEVERITIES
        ),
        (Column("scope and measurements", "left", width=0.5), lambda check: check.basis),
    )
    return Table("checks", "", "", *layout)


def _count_cell(check: CheckResult, severity: Severity) -> Cell:
    n = check.count(severity)
    return Cell(f"{n:,}" if n else "", tone=_TONE[severity])


def _result(check: CheckResult, fail_on: Severity) -> Cell:
    if failed([check], fail_on):
        return Cell("failed", tone="bad")
    if check.skipped is not None:
        return Cell("not checked", tone="faint")
    return Cell("passed", tone="good")


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
    layout = columns_and_rows(
        shortcuts.probes,
        (Column("text", "left"), lambda probe: probe.view),
        ("accuracy", lambda probe: value_text(probe.accuracy.value, "percent")),
        ("baseline", lambda probe: value_text(probe.baseline, "percent")),
        ("ceiling", lambda probe: value_text(probe.ceiling, "percent")),
        ("normalised gain", _gain_cell),
    )
    caption = "Normalised gain: 0 is the baseline, 100 the ceiling."
    return Table("shortcuts", "Shortcuts: what a bag of words predicts", caption, *layout)


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
    return Table(
        name="balance",
        title="Balance: references at each letter, and by chance",
        columns=(Column("file: kind", "left"), *map(Column, LETTERS[:widest])),
        rows=tuple(table_row(kind, *_at_letters(cells, widest)) for kind, cells in kinds.items()),
        notes=_beyond_letters(widest),
    )


def _groups_table(balance: Balance) -> Table:
    """Lay out records, families and references by file and kind, domain, source family."""
    widest = max((len(group.references) for group in balance.groups), default=0)
    rows = []
    for group in balance.groups:
        names = (group.file, group.by.replace("_", " "), group.name)
        counts = [f"{n:,}" for n in (group.records, group.families)]
        shown = _at_letters([f"{n:,}" for n in group.references], widest)
        rows.append(table_row(*(*names, *counts, *shown)))
    heads = tuple(Column(title, "left") for title in ("file", "by", "name"))
    columns = (*heads, *right_columns("records", "families", *LETTERS[:widest]))
    return Table("groups", "", "", columns, tuple(rows), notes=_beyond_letters(widest))


def _at_letters(cells: Sequence[str], widest: int) -> list[str]:
    """Return the cells of the positions that have a letter, filled up to the widest row."""
    return [*cells, *[""] * (widest - len(cells))][: len(LETTERS)]


def _beyond_letters(widest: int) -> tuple[str, ...]:
    if widest <= len(LETTERS):
        return ()
    return (f"Positions {len(LETTERS) + 1} to {widest} have no letter and are not shown: --json.",)


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
            parts.append(_files_table(audit.facts))
        parts += findings(audit.checks)
        parts.append(checks_table(audit.checks, fail_on=fail_on))
        parts.append(Line(adapter_verdict(audit, fail_on), "strong"))
    if comparison is not None:
        parts.append(_differences(comparison, audits))
        parts.append(Line(_weights_line(comparison.weights)))
    return tuple(parts)


def adapter_verdict(audit: AdapterAudit, fail_on: Severity) -> str:
    """Write the verdict on an adapter; a finding of a severity or a worse one fails it."""
    tampered = next(_tampering(audit), None)
    return verdict(audit.checks, subject="adapter", fail_on=fail_on, tampered=tampered)


def adapter_tampered(audit: AdapterAudit) -> bool:
    """Return whether a hash does not match: that of the base, or of the training record."""
    return next(_tampering(audit), None) is not None


def _tampering(audit: AdapterAudit) -> Iterator[str]:
    """Explain each hash that does not match."""
    codes = {code for check in audit.checks for code in check.counts}
    return (text for code, text in _ADAPTER_TAMPERED.items() if code in codes)


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


def _files_table(facts: AdapterFacts) -> Table:
    layout = columns_and_rows(
        facts.files,
        (Column("file", "left"), lambda file: file.name),
        ("bytes", lambda file: "" if file.size_bytes is None else f"{file.size_bytes:,}"),
        (Column("SHA-256", "left"), lambda file: file.sha256 or "not opened"),
    )
    return Table("files", "", "", *layout)


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
    return Table("differences", "", "", (Column("differs", "left"), *folders), tuple(rows))


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


def data_report(audit: DataAudit, fail_on: Severity) -> CiReport:
    """Return the cases of a dataset's audit.

    Args:
        audit: what was found.
        fail_on: the lowest severity that fails a check.
    """
    answer = data_verdict(audit, fail_on)
    paths = {file.name: file.source for file in audit.files}
    manifest = audit.source.manifest
    folder = paths[audit.files[0].name].parent if manifest is None else manifest.folder
    first = audit.files[0].source

    def path_of(name: str) -> Path:
        return paths.get(name) or _existing(folder, name) or first

    return CiReport(
        "pact-audit data",
        answer,
        _check_cases(audit.checks, path_of, fail_on),
        _check_rules(audit.checks),
    )


def adapters_report(audits: Sequence[AdapterAudit], fail_on: Severity) -> CiReport:
    """Return the cases of the audits of one adapter, or of two.

    Args:
        audits: what was found, by adapter.
        fail_on: the lowest severity that fails a check.
    """
    cases: list[Case] = []
    for audit in audits:
        folder, prefix = audit.folder, f"{audit.folder}: " if len(audits) > 1 else ""

        def path_of(name: str, folder: Path = folder) -> Path:
            return _existing(folder, name) or _existing(Path(), name) or folder

        cases += _check_cases(audit.checks, path_of, fail_on, prefix)
    rules = _check_rules(check for audit in audits for check in audit.checks)
    answer = " ".join(adapter_verdict(audit, fail_on) for audit in audits)
    return CiReport("pact-audit adapter", answer, tuple(cases), rules)


def _existing(folder: Path, name: str) -> Path | None:
    """Return a path in a folder if something is there; a name may be any text."""
    try:
        return folder / name if (folder / name).exists() else None
    except (OSError, ValueError):
        return None


def _check_cases(
    checks: Iterable[CheckResult],
    path_of: Callable[[str], Path],
    fail_on: Severity,
    prefix: str = "",
) -> tuple[Case, ...]:
    cases = []
    for check in checks:
        status: CaseStatus = "passed" if check.skipped is None else "skipped"
        status = "failed" if failed([check], fail_on) else status
        kept = Counter(finding.code for finding in check.findings)
        more = {code: n - kept[code] for code, n in check.counts.items() if n > kept[code]}
        annotations = tuple(_annotation(finding, path_of) for finding in check.findings)
        cases.append(Case(f"{prefix}{check.check}", status, check.basis, annotations, more))
    return tuple(cases)


def _annotation(finding: Finding, path_of: Callable[[str], Path]) -> Annotation:
    place, path = finding.place, path_of(finding.place.file)
    # A finding on something that is not a file is shown at another file.
    parts = [f"{place.file}: "] if Path(place.file).name != path.name else []
    parts += [] if place.record_id is None else [f"{place.record_id}: "]
    parts.append(f"expected {finding.expected}, found {finding.actual}")
    return Annotation(finding.code, finding.severity, "".join(parts), path, place.line)


def _check_rules(checks: Iterable[CheckResult]) -> dict[str, Rule]:
    return {
        code: Rule(CODES[code].meaning, CODES[code].severity)
        for check in checks
        for code in check.counts
    }
