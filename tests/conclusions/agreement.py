"""What is printed of runs agrees with itself: statuses, intervals and p-values of every surface.

Nothing is known of the runs. Each check yields a sentence per contradiction.
"""

from __future__ import annotations

import html
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from conclusions import surfaces as printed

from pact_eval.drift.run_comparison import RunComparison, compare_runs
from pact_eval.evaluation import diagnostics, notes
from pact_eval.evaluation.diagnostics import Diagnostic, diagnose
from pact_eval.evaluation.experiment import Experiment, RunReport
from pact_eval.stats.estimate import Estimate
from pact_eval.thresholds.conclusion import with_acting
from pact_reports.page.assembly import make_page
from pact_reports.request import Request
from pact_reports.views import comparison as run_comparison
from pact_reports.views import report as evaluation_presenter
from pact_reports.views import report as run_report
from pact_reports.views.presenter import Presenter
from pact_reports.writers.terminal import to_text

LEVEL: Final = 0.05
CHANGES: Final = 0.1
ROUNDING: Final = 1e-6
UNBROKEN: Final = 5_000
"""Columns of a terminal in which no line is broken."""

RANGES: Final[Mapping[str, tuple[float, float]]] = {
    **dict.fromkeys(
        ("accuracy", "pair_accuracy", "margin_not_positive", "margin_below_trained", "ece", "aurc",
         "view_tv", "flip_rate", "confident_errors", "accuracy_of_asked"),
        (0.0, 1.0),
    ),
    "ensemble_gain": (-1.0, 1.0),
    "brier": (0.0, 2.0),
    **dict.fromkeys(
        ("nll_nats", "score_mae", "score_rps", "score_level_mae"), (0.0, math.inf)
    ),
}  # fmt: skip
"""By name of a metric: what it can be. A difference lies within the width of this."""

NUMBER: Final = r"[+\-−]?\d[\d,]*(?:\.\d+)?"
INTERVAL: Final = re.compile(
    rf"(?:(?P<value>{NUMBER})%? (?:points )?)?\[(?P<low>{NUMBER}), (?P<high>{NUMBER})\]"
)
BLOCKS: Final = "h\\d|p|tr|t[dh]|li|section|div|table|figure|figcaption|summary|span|caption"
GAP: Final = re.compile(
    rf"(?i:(?P<word>\b\w+-confident)[:. (]+)?(?i:says|mean confidence) (?P<confidence>{NUMBER})%, "
    rf"(?:is|accuracy) (?P<accuracy>{NUMBER})%(?: right)?"
    rf"(?:[ ,(]+gap (?P<value>{NUMBER})(?: \[(?P<low>{NUMBER}), (?P<high>{NUMBER})\])?)?"
)
"""A confidence beside an accuracy, with the gap if it is printed."""
P_VALUE: Final = re.compile(r"\bp (?P<sign>[=<]) (?P<value>0?\.\d+|\d\.\d+)")


@dataclass(frozen=True)
class Surfaces:
    """Everything that is printed of one run, or of two.

    Attributes:
        experiment: the runs.
    """

    experiment: Experiment

    @cached_property
    def reports(self) -> list[dict[str, Any]]:
        """The object of `report --json` of each run."""
        return [_json(report) for report in self._reports]

    @cached_property
    def _reports(self) -> list[Presenter]:
        return [run_report.present_run_report(report) for report in self._asked]

    @cached_property
    def _asked(self) -> list[RunReport]:
        return [with_acting(self.experiment.report(run)) for run in self.experiment.runs]

    @cached_property
    def report_texts(self) -> list[tuple[str, str]]:
        """What `report` prints of each run, in short and with `--full`."""
        return [(_text(report, full=False), _text(report)) for report in self._reports]

    @cached_property
    def python_texts(self) -> list[str]:
        """What Python prints of the evaluation of each run."""
        presenters = [
            evaluation_presenter.present_evaluation(report.evaluation) for report in self._asked
        ]
        return [to_text(*presenter.parts(), width=UNBROKEN) for presenter in presenters]

    @cached_property
    def _compared(self) -> tuple[RunComparison, ...]:
        return compare_runs(self.experiment)

    @cached_property
    def comparison(self) -> dict[str, Any]:
        """The object of `compare --json`."""
        return _json(run_comparison.present_run_comparison(*self._compared))

    @cached_property
    def comparison_texts(self) -> tuple[str, str]:
        """What `compare` prints, in short and with `--full`."""
        presenter = run_comparison.present_run_comparison(*self._compared)
        return _text(presenter, full=False), _text(presenter)

    @cached_property
    def source(self) -> str:
        """The page."""
        return make_page(Request(self.experiment, figures=(), tables=("splits",)))

    def finding(self, section: str, run: str = "") -> str:
        """The finding of a section of the page, on one of its runs or on all."""
        start = self.source.index(f'<section id="{section}"')
        body = self.source[start : self.source.index("</section>", start)]
        said = re.findall(
            r'<li>(?:<span class="of-run">(.*?)</span> )?<strong class="\w+">(.*?)</strong>', body
        )
        texts = {re.sub(r"<[^>]*>", "", name): text for name, text in said}
        return html.unescape(re.sub(r"<[^>]*>", "", texts[run if run in texts else ""]))

    @cached_property
    def headline(self) -> str:
        """The first sentence of the page."""
        (text,) = re.findall(r'<h1 class="answer">(.*?)</h1>', self.source)
        return html.unescape(re.sub(r"<[^>]*>", "", text))

    @cached_property
    def page(self) -> str:
        """The text of the page, without tags; cells and paragraphs are lines."""
        body = self.source[self.source.index("<body") :]
        body = re.sub(r"<(svg|script|style).*?</\1>", "", body, flags=re.DOTALL)
        body = re.sub(rf"</?(?:{BLOCKS})\b[^>]*>", "\n", body)
        return html.unescape(re.sub(r"<[^>]*>", "", body))

    @cached_property
    def _page_intervals(self) -> list[list[str]]:
        return [[found["low"], found["high"]] for found in INTERVAL.finditer(self.page)]

    def page_has(self, low: float, high: float) -> bool:
        """Return whether the page has an interval, in % or in points of either sign."""
        ends = [100 * low, 100 * high]
        return math.isnan(low) or any(
            _prints(texts, ends) or _prints(texts, [-ends[1], -ends[0]])
            for texts in self._page_intervals
        )


def _json(presenter: Presenter) -> dict[str, Any]:
    return presenter.json()


def _text(presenter: Presenter, *, full: bool = True) -> str:
    parts = [part for block in presenter.printed(full=full) for part in block]
    return to_text(*parts, width=UNBROKEN)


def contradictions(surfaces: Surfaces) -> Iterator[str]:
    """Yield every contradiction in what is printed."""
    for number, report in enumerate(surfaces.reports):
        yield from _of_estimates(report, f"report {number}")
        for group in report["groups"]:
            for name, estimate in group["metrics"].items():
                yield from _of_range(estimate, RANGES.get(name), f"{group['name']} {name}")
        yield from _of_probabilities(report["answer"]["probabilities"])
        yield from _of_gap(report["answer"]["probabilities"], report["groups"][0])
        yield from _of_order(report["answer"]["order"])
        yield from _of_where(report["answer"]["where"], report)
        texts = (*surfaces.report_texts[number], surfaces.python_texts[number])
        for text in texts:
            yield from _of_text(text)
        for text in texts[1:]:
            yield from _of_printed(text, report)
        yield from _of_printed(texts[0], report)
        yield from _of_answers(surfaces, number)
    if len(surfaces.reports) > 1:
        yield from _of_comparison(surfaces)
    yield from _of_text(surfaces.page)
    yield from _of_page(surfaces)
    yield from _of_diagnostics(surfaces)


def estimates(value: Any, path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield every object with an interval in a JSON value, with its path."""
    if isinstance(value, Mapping):
        if {"low", "high"} <= value.keys():
            yield path, dict(value)
        for key, inner in value.items():
            yield from estimates(inner, f"{path}.{key}")
    elif isinstance(value, list):
        for at, inner in enumerate(value):
            yield from estimates(inner, f"{path}[{at}]")


def excludes_zero(estimate: Mapping[str, Any]) -> bool:
    """Return whether there is an interval, and 0 is outside."""
    return estimate["low"] is not None and not estimate["low"] <= 0 <= estimate["high"]


def _of_estimates(value: Any, where: str) -> Iterator[str]:
    """The value is inside its interval; an ECE is not, because it is biased."""
    for path, estimate in estimates(value):
        low, value, high = estimate["low"], estimate.get("value"), estimate["high"]
        if (low is None) != (high is None):
            yield f"{where}{path}: one end only: {low}, {high}"
        if low is None or value is None:
            continue
        biased = (
            "noise_floor" in estimate or "floor" in estimate or path.endswith(".ece.difference")
        )
        if not low <= high or (not biased and not low - ROUNDING <= value <= high + ROUNDING):
            yield f"{where}{path}: {value} [{low}, {high}]"


def _of_range(
    estimate: Mapping[str, Any], limits: tuple[float, float] | None, where: str
) -> Iterator[str]:
    """Value and interval are possible."""
    for key in ("low", "value", "high"):
        number = estimate[key]
        if limits is None or number is None:
            continue
        if not limits[0] - ROUNDING <= number <= limits[1] + ROUNDING:
            yield f"{where}: {key} {number} is not in {limits}"


def _of_probabilities(conclusion: Mapping[str, Any]) -> Iterator[str]:
    """The direction is that of the gap; an ECE above 0 has a small p-value."""
    status, gap, ece = conclusion["status"], conclusion["gap"], conclusion["ece"]
    where = f"probabilities {status}"
    signs = {"over-confident": 1, "under-confident": -1}
    if gap["low"] is not None:
        shown = (gap["low"] > 0) - (gap["high"] < 0)
        if status in signs and shown != signs[status]:
            yield f"{where}: gap [{gap['low']}, {gap['high']}]"
        if status not in (*signs, "cannot tell") and shown and not _adjusted(conclusion):
            yield f"{where}: gap [{gap['low']}, {gap['high']}] excludes 0"
    p_value = ece.get("p_value")
    if p_value is not None and ece["low"] is not None and (p_value < LEVEL) != (ece["low"] > 0):
        yield f"{where}: ECE from {ece['low']}, p = {p_value}"
    if (
        status == "no error shown"
        and p_value is not None
        and p_value < LEVEL
        and not _adjusted(conclusion)
    ):
        yield f"{where}: p = {p_value}"


def _of_gap(conclusion: Mapping[str, Any], everything: Mapping[str, Any]) -> Iterator[str]:
    """The gap is confidence minus accuracy, with an interval and a p-value that agree with it."""
    gap, confidence, accuracy = (conclusion[name] for name in ("gap", "confidence", "accuracy"))
    where = f"probabilities {conclusion['status']}: gap"
    if confidence is None or accuracy is None or gap["value"] is None:
        return
    if abs(accuracy - everything["metrics"]["accuracy"]["value"]) > ROUNDING:
        yield f"{where}: accuracy {accuracy}, of all items {everything['metrics']['accuracy']}"
    if abs(gap["value"] - (confidence - accuracy)) > ROUNDING:
        yield f"{where}: {gap['value']} of {confidence} and {accuracy}"
    yield from _of_range(gap, (confidence - 1, confidence), where)
    tested = gap["low"] is not None and gap["p_value"] is not None
    if tested and (gap["p_value"] <= LEVEL) != excludes_zero(gap):
        yield f"{where}: p = {gap['p_value']}, [{gap['low']}, {gap['high']}]"


def _of_printed_gaps(text: str) -> Iterator[str]:
    """A printed gap is the printed confidence minus the printed accuracy; words have its sign."""
    printed_to = 0.1 + 1e-9  # of two numbers with one decimal
    for found in GAP.finditer(text):
        confidence, accuracy = _number(found["confidence"]), _number(found["accuracy"])
        difference = confidence - accuracy
        value, low, high = (
            _number(found[name]) if found[name] else difference for name in ("value", "low", "high")
        )
        sign = {"over-confident": 1, "under-confident": -1}.get((found["word"] or "").lower(), 0)
        if not (
            abs(value - difference) <= printed_to
            and low - printed_to <= difference <= high + printed_to
            and confidence - 100 - printed_to <= low <= high <= confidence + printed_to
            and sign * difference >= 0
        ):
            yield f"printed gap: {found[0]}"


def _adjusted(conclusion: Mapping[str, Any]) -> bool:
    """Return whether an adjusted p-value above 5% is given."""
    return any(
        "adjusted" in path and isinstance(number, float) and number > LEVEL
        for path, number in _numbers(conclusion)
    )


def _numbers(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _numbers(inner, f"{path}.{key}")
    elif isinstance(value, list):
        for inner in value:
            yield from _numbers(inner, path)
    else:
        yield path, value


def _of_order(conclusion: Mapping[str, Any]) -> Iterator[str]:
    """Intervals of flips and of preferences are on the side that the status says."""
    status, flips = conclusion["status"], conclusion["flip_rate"]
    where = f"order {status}"
    if (status == "stable" and not flips["high"] <= CHANGES) or (
        status == "unstable" and not flips["low"] > CHANGES
    ):
        yield f"{where}: flips [{flips['low']}, {flips['high']}]"
    if bool(conclusion["followed"]) != status.startswith("follows"):
        yield f"{where}: {conclusion['followed']}"
    for slot in conclusion["followed"]:
        if slot["preference"]["low"] is not None and not excludes_zero(slot["preference"]):
            yield f"{where}: preference [{slot['preference']['low']}, {slot['preference']['high']}]"
        p_values = [number for path, number in _numbers(slot) if "p_value" in path]
        if max(p_values) > LEVEL:
            yield f"{where}: p = {p_values}"


def _of_where(conclusion: Mapping[str, Any], report: Mapping[str, Any]) -> Iterator[str]:
    """Groups that are named have small p-values, and the numbers of the table of their column."""
    groups, elsewhere = conclusion["groups"], conclusion["elsewhere"]
    where = f"where {conclusion['status']}"
    if (conclusion["status"] == "found") != bool(groups):
        yield f"{where}: {groups}"
    table = {group["name"]: group["metrics"]["accuracy"] for group in report["groups"]}
    for group in (*groups, *conclusion["column_bars"]):
        yield from _of_range(group["accuracy"], (0.0, 1.0), where)
        named = table.get(group["value"]) if group["column"] == report["by"] else None
        if named is not None:
            yield from _of_two(group["accuracy"], named, f"{where}: {group['value']}")
    for group in groups:
        if not group["p"] <= LEVEL:
            yield f"{where}: {group['value']} p = {group['p']}"
        if f"{100 * group['accuracy']['value']:.1f}% right" not in conclusion["text"]:
            yield f"{where}: {group['accuracy']['value']} is not in {conclusion['text']}"
    everything = report["groups"][0]["items"]
    if elsewhere is not None and elsewhere["items"] >= everything:
        yield f"{where}: elsewhere has all items"


def _of_two(first: Mapping[str, Any], second: Mapping[str, Any], where: str) -> Iterator[str]:
    """Two estimates of one number are the same."""
    for end in ("low", "value", "high"):
        numbers = [-1.0 if one[end] is None else one[end] for one in (first, second)]
        if abs(numbers[0] - numbers[1]) > ROUNDING:
            yield f"{where}: {end} {first[end]}, in the table {second[end]}"


def _of_comparison(surfaces: Surfaces) -> Iterator[str]:
    """Marks and statuses follow intervals; a difference of metrics is possible."""
    values = surfaces.comparison
    margin = surfaces.experiment.settings.margin
    yield from _of_estimates(values, "compare")
    for conclusion in values["answer"]["better"]:
        yield from _of_better(conclusion, margin)
        yield from _of_power(conclusion)
    for comparison in values["comparisons"]:
        for group in comparison["comparison"]["groups"]:
            for name, metric in group["metrics"].items():
                where = f"compare {group['name']} {name}"
                for side in ("a", "b"):
                    yield from _of_range(metric[side], RANGES.get(name), where)
                width = RANGES.get(name, (0, math.inf))
                reach = width[1] - width[0]
                yield from _of_range(metric["difference"], (-reach, reach), where)
                yield from _of_evidence(
                    metric["difference"],
                    metric["evidence"],
                    where,
                    better=metric["spec"]["better"],
                )
    brief, full = surfaces.comparison_texts
    for text in (brief, full):
        yield from _of_text(text)
        yield from _of_printed(text, [values, surfaces.reports])
    yield from _of_stars(full)
    yield from _of_first_line(surfaces)


def _of_first_line(surfaces: Surfaces) -> Iterator[str]:
    """The first line, the page, its headline and that of JSON say the statuses of JSON."""
    (conclusion,) = surfaces.comparison["answer"]["better"]
    brief, full = surfaces.comparison_texts
    accuracy = [claim for claim in conclusion["claims"] if claim["metric"] == "accuracy"]
    statuses = {claim["k"]: claim["status"] for claim in accuracy}
    views = tuple(statuses)
    finding = surfaces.finding("better")
    said = {
        "first line": printed.headline_statuses(brief.partition("\n")[0], views) if views else {},
        "page": printed.better_statuses(finding, views) if views else {},
        "headline": printed.headline_statuses(surfaces.headline, views) if views else {},
    }
    turned = {"better": "worse", "worse": "better"}
    if re.match(r"b is", finding):
        said["page"] = {k: turned.get(status, status) for k, status in said["page"].items()}
    for where, found in said.items():
        if found != statuses:
            texts = (brief.splitlines()[0], finding, surfaces.headline)
            yield f"{where}: {statuses}, printed {found}: {' / '.join(texts)}"
    if full.partition("\n")[0] != brief.partition("\n")[0]:
        yield f"--full lacks: {brief.splitlines()[0]}"
    if surfaces.headline != surfaces.comparison["headline"]:
        yield f"page {surfaces.headline!r}, JSON {surfaces.comparison['headline']!r}"
    first = brief.splitlines()[0]
    if not first.startswith(surfaces.comparison["headline"]):
        yield f"headline {surfaces.comparison['headline']!r}, first line {first!r}"


def _of_better(conclusion: Mapping[str, Any], margin: float | None) -> Iterator[str]:
    """A status follows the interval or an adjusted p-value, and the sentence says it."""
    for claim in conclusion["claims"]:
        difference, status = claim["difference"], claim["status"]
        where = f"better: {claim['metric']} of {claim['k']} views {status}"
        ends = f"[{difference['low']}, {difference['high']}]"
        p_value = claim["evidence"].get("adjusted_p_value")
        sign = (difference["low"] or 0) > 0, (difference["high"] or 0) < 0
        if status in ("better", "worse") and sign != (status == "better", status == "worse"):
            yield f"{where}: {ends}"
        if status in ("better", "worse") and p_value is not None and p_value > LEVEL:
            yield f"{where}: adjusted p = {p_value}"
        if status == "not shown" and excludes_zero(difference) and not (p_value or 0) > LEVEL:
            yield f"{where}: {ends}"
        if status == "equivalent" and not (
            margin is not None and -margin < difference["low"] and difference["high"] < margin
        ):
            yield f"{where}: {ends}, margin {margin}"
        yield from _of_evidence(difference, claim["evidence"], where)
    finding = conclusion["text"].partition(": ")[0]
    said = re.search(r"is (more|less) accurate than", finding)
    if (conclusion["status"] in ("better", "worse")) != bool(said):
        yield f"better: status {conclusion['status']}, but: {finding}"


def _of_power(conclusion: Mapping[str, Any]) -> Iterator[str]:
    """A difference that is as large as what the items could show is not called not shown."""
    smallest, claims = conclusion["detectable"], conclusion["claims"]
    if smallest is None or not claims:
        return
    difference = claims[0]["difference"]
    if claims[0]["status"] == "not shown" and abs(difference["value"]) >= smallest:
        yield f"power: {smallest} is detectable, {difference['value']} is not shown"


def _of_evidence(
    difference: Mapping[str, Any], evidence: Mapping[str, Any], where: str, *, better: int = 1
) -> Iterator[str]:
    """A p-value is at most 5% if and only if the interval excludes 0.

    A difference in a metric with a direction is marked if and only if it is shown: the adjusted
    p-value, if there is one, is at most 5% as well.
    """
    p_value, adjusted = evidence["p_value"], evidence["adjusted_p_value"]
    shown, text = excludes_zero(difference), f"[{difference['low']}, {difference['high']}]"
    if difference["low"] is None or p_value is None:
        shown = False
    elif (p_value <= LEVEL) != shown and abs(p_value - LEVEL) > ROUNDING:
        yield f"{where}: p = {p_value}, {text}"
    if bool(evidence["marked"]) != bool(shown and better and not (adjusted or 0) > LEVEL):
        yield f"{where}: marked {evidence['marked']}, p = {p_value}, adjusted {adjusted}, {text}"


def _of_stars(text: str) -> Iterator[str]:
    """A star in a table of differences is there if and only if the printed interval excludes 0."""
    for line in text.splitlines():
        cells = line.split("|")
        if "A - B" in line or len(cells) < 3:
            continue
        for cell in cells:
            found = INTERVAL.search(cell)
            if found is None or not found["value"] or "A - B" in cell:
                continue
            low, high = _number(found["low"]), _number(found["high"])
            if "*" in cell and low <= 0 <= high:
                yield f"stars: {line.strip()}"


def _of_text(text: str) -> Iterator[str]:
    """Printed intervals and gaps are possible; what is not shown has no small p-value beside it."""
    yield from _of_printed_gaps(text)
    for found in INTERVAL.finditer(text):
        low, high = _number(found["low"]), _number(found["high"])
        if low > high:
            yield f"printed: {found[0]}"
    undefined = re.search(r"\bnan\b|\bNone\b(?! shown)|\binf\b|Traceback", text)
    if undefined:
        yield f"printed: {text[max(0, undefined.start() - 80) : undefined.end() + 20]}"
    for line in text.splitlines():
        for sentence in re.split(r"(?<=[a-z)])[.;] ", line):
            lowered = sentence.lower()
            small = [p for p in P_VALUE.finditer(sentence) if float(p["value"]) <= LEVEL]
            quiet = re.search(r"not shown|no .{0,40}\bshown|may explain it", lowered)
            if small and quiet and not re.search("adjust|is more|is less|miscal", lowered):
                yield f"said: {sentence.strip()[:300]}"


def _of_printed(text: str, values: Any) -> Iterator[str]:
    """Every printed interval is one of the JSON object."""
    known = [
        (estimate.get("value"), estimate["low"], estimate["high"])
        for _, estimate in estimates(values)
        if estimate["low"] is not None
    ]
    for line in text.splitlines():
        for found in INTERVAL.finditer(line):
            ends = [found["low"], found["high"]]
            if not any(
                _prints(ends, [scale * low, scale * high])
                or _prints(ends, [-scale * high, -scale * low])
                for _, low, high in known
                for scale in (1, 100)
            ):
                yield f"printed, not in JSON: {line.strip()[:200]}: {found[0]}"


def _prints(texts: list[str], numbers: list[float]) -> bool:
    return all(
        abs(_number(text) - number) <= 0.5 * 10.0 ** -len(text.partition(".")[2]) + 1e-9
        for text, number in zip(texts, numbers, strict=True)
    )


def _number(text: str) -> float:
    return float(text.replace("−", "-").replace(",", ""))


def _of_answers(surfaces: Surfaces, number: int) -> Iterator[str]:
    """Every surface says the status of JSON in its own words, and the sentence of JSON."""
    answers = surfaces.reports[number]["answer"]
    (brief, full), python = surfaces.report_texts[number], surfaces.python_texts[number]
    statuses = {question: answer["status"] for question, answer in answers.items()}
    for question, status in printed.fact_statuses(brief).items():
        if statuses[question] != status:
            yield f"in short: {question} is {statuses[question]}, printed {status}"
    for question in ("where", "order", "probabilities"):
        for name, text in (("--full", full), ("Python", python)):
            if answers[question]["text"].lower() not in text.lower():
                yield f"{name} lacks: {answers[question]['text']}"


def _of_page(surfaces: Surfaces) -> Iterator[str]:
    """The page has the statuses, and every interval of the answers."""
    main = [run.arm for run in surfaces.experiment.runs].index(surfaces.experiment.main_arm)
    answers = surfaces.reports[main]["answer"]
    name = surfaces.experiment.main_arm
    words = {
        "order": printed.order_status(surfaces.finding("order-of-answers", name)),
        "probabilities": printed.probabilities_status(surfaces.finding("calibration", name)),
    }
    if surfaces.experiment.settings.target_error is not None:
        words["acting"] = printed.acting_status(surfaces.finding("acting", name))
    for question, word in words.items():
        if question in answers and answers[question]["status"] != word:
            yield f"page: {question} is {answers[question]['status']}, printed {word}"
    for path, estimate in _expected(surfaces):
        ends = (estimate["low"], estimate["high"])
        if ends[0] is not None and not surfaces.page_has(*ends):
            yield f"page lacks {path} {ends}"


def _expected(surfaces: Surfaces) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the intervals of JSON that a page must have, with their names."""
    for report in surfaces.reports:
        yield "accuracy", report["groups"][0]["metrics"]["accuracy"]
        if report["answer"]["order"]["status"] in ("stable", "unstable"):
            yield "flips", report["answer"]["order"]["flip_rate"]
    better = surfaces.comparison["answer"]["better"] if len(surfaces.reports) > 1 else ()
    for conclusion in better:
        for claim in conclusion["claims"]:
            yield f"{claim['metric']} {claim['k']}", claim["difference"]


def _of_diagnostics(surfaces: Surfaces) -> Iterator[str]:
    """What is critical or a warning has an interval beyond its limit, and the page has both."""
    for diagnostic in diagnose(surfaces.experiment):
        where = f"{diagnostic.severity}: {diagnostic}"
        estimate, beyond = _tested(diagnostic)
        alarms = diagnostic.severity != "info"
        if alarms and (not beyond or (estimate is not None and math.isnan(estimate.low))):
            yield where
        if estimate is not None and not surfaces.page_has(estimate.low, estimate.high):
            yield f"page lacks the interval of {where}"
        if diagnostic.severity not in surfaces.page.lower():
            yield f"page lacks {where}"


def _tested(diagnostic: Diagnostic) -> tuple[Estimate | None, bool]:
    """Return the interval behind a diagnostic, and whether it is beyond the limit."""
    number = diagnostic.numbers
    match diagnostic.kind:
        case "confident-errors":
            return number["rate"], number["rate"].low > diagnostics.CONFIDENT_WRONG
        case "same-answer":
            return number["rate"], number["rate"].low > diagnostics.SAME_ANSWER
        case "chance":
            limit = number["chance"] + diagnostics.NEAR_CHANCE
            return number["accuracy"], number["accuracy"].high < limit
        case "answer-mass":
            return number["mass"], number["mass"].high < notes.LOW_ANSWER_MASS
        case _:
            return None, True
