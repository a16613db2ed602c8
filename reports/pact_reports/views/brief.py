"""The first screen of a report on a run: twelve lines, if findings leave room."""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from pact_eval.evaluation.arm_names import KEYS, ArmNames
from pact_eval.evaluation.conclusions.conclusion import Conclusion
from pact_eval.evaluation.conclusions.data import DataConclusion, DataLeak, leak_prefix
from pact_eval.evaluation.conclusions.headline import bad_news, mass_news
from pact_eval.evaluation.conclusions.order import NO_REPEATS
from pact_eval.evaluation.experiment import RunReport
from pact_eval.evaluation.notes import Incomplete, LowAnswerMass, Unanswered, Unverified, gap_words
from pact_eval.evaluation.registry import ABLATED_CONFIDENCE, ABLATED_GAP, ANSWER_MASS
from pact_eval.evaluation.report import DecodedRates, Evaluation
from pact_eval.numbers import interval_text, rate_text, sample_text, value_text, views_words
from pact_eval.plain_text import one_line, short_names
from pact_eval.stats.estimate import Estimate
from pact_reports.views.presenter import Brief, Fact, data_fact, tone_of

_CALIBRATION: Final = {
    "raw": None,
    "calibrated": "calibrated",
    "as shipped": "temperatures as shipped",
}
_QUESTIONS: Final = (*("where", "probabilities", "order", "data", "acting", "better"),)
"""The order in which facts answer questions: the model, then what its numbers rest on."""


def brief_report(report: RunReport, names: ArmNames = KEYS, read: str = "") -> Brief:
    """Say what a run is worth.

    Args:
        report: of a run, on full or ablated contexts.
        names: display names of arms.
        read: how its log was read, if it was read now.
    """
    evaluation = report.evaluation
    if report.run.ablated:
        return _brief_ablated(report, names)
    place = one_line(shlex.quote(report.run.place))
    gaps = [note for note in evaluation.notes if isinstance(note, Incomplete | Unverified)]
    notes = [note for note in evaluation.notes if not isinstance(note, LowAnswerMass)]
    return Brief(
        facts=[
            *_conclusions(report),
            Fact("wrong", "" if report.wrong is None else report.wrong.words),
            *_rates(report.rates, evaluation),
            Fact("answer mass", _low_mass(evaluation), "bad"),
            Fact("requests", "" if report.spent is None else report.spent.words),
            Fact("not known", not_known_text(report.conclusions), spare=True),
            Fact("run", run_text(report, names)),
            Fact("log", gap_words(gaps), "caution"),
            Fact("read", one_line(read)),
        ],
        notes=[note for note in notes if note not in gaps],
        more=f"All metrics: pact-eval report {place} --full, or --html page.html",
    )


def _low_mass(evaluation: Evaluation) -> str:
    """Write a low answer mass with its interval, which its note lacks; "" for one that is not."""
    low = LowAnswerMass.of(evaluation.mean_answer_mass)
    if low is None:
        return ""
    return f"{rate_text(evaluation.groups[0].estimates[ANSWER_MASS])}: {low.remark}"


def _rates(rates: Sequence[DecodedRates], evaluation: Evaluation) -> Iterator[Fact]:
    of_asked = rates[0].accuracy_of_asked
    over_orders = evaluation.groups[0].estimates["order_accuracy"]
    if of_asked is not None:
        yield Fact("all items", f"{rate_text(of_asked)} right if unanswered items count as wrong")
    if len(rates) > 1:
        accuracy = _by_views([(rate.accuracy, rate) for rate in rates[1:]])
        if not math.isnan(over_orders.value):
            accuracy += f", {value_text(over_orders.value, 'percent')}% (mean of orders)"
        yield Fact("accuracy", accuracy, spare=True)
    if not math.isnan(rates[0].pair_accuracy.value):
        pairs = [(rate.pair_accuracy, rate) for rate in rates]
        yield Fact("pair accuracy", _by_views(pairs), spare=True)


def _by_views(rates: Iterable[tuple[Estimate, DecodedRates]]) -> str:
    return ", ".join(
        f"{rate_text(estimate)} ({views_words(rate.k, rate.repeats)})" for estimate, rate in rates
    )


def _conclusions(report: RunReport) -> Iterator[Fact]:
    for conclusion in sorted(report.conclusions, key=lambda one: _QUESTIONS.index(one.question)):
        if isinstance(conclusion, DataConclusion):
            yield data_fact(conclusion)
            continue
        name = "acting alone" if conclusion.question == "acting" else conclusion.question
        yield Fact(name, conclusion.line, tone_of(conclusion))


def run_text(report: RunReport, names: ArmNames) -> str:
    """Name the sample of a run and what is unusual in how it was made; the last line has its place.

    Example:
        "324 items in 162 groups that belong together, in 4 orders; pact, seed 17"
    """
    evaluation, provenance = report.evaluation, report.run.provenance
    everything = evaluation.groups[0]
    sample = sample_text(everything.items, everything.clusters, evaluation.unit)
    seed = report.run.seed
    arm = None if provenance.arm is None else names.arm(report.run.arm)
    facts = (
        None if arm == report.run.name else arm,
        None if seed is None else f"seed {seed}",
        provenance.quantisation,
        provenance.contract.short_remark,
        _CALIBRATION[evaluation.calibration],
    )
    unusual = ", ".join(fact for fact in facts if fact)
    return one_line("; ".join(filter(None, (f"{sample}{_orders(evaluation)}", unusual))))


def _orders(evaluation: Evaluation) -> str:
    """Say in how many orders, or how often, each item was asked, and whether answers are means."""
    together = evaluation.decoding == "ensemble"
    if evaluation.repeats > 1:
        asked = f", asked {evaluation.repeats} times"
    elif evaluation.k > 1:
        asked = f", in {evaluation.k} orders"
    else:
        return ""
    return f"{asked}, probabilities averaged" if together else asked


def _brief_ablated(report: RunReport, names: ArmNames) -> Brief:
    """Say how sure a run is without the evidence, and how far its answers move."""
    evaluation = report.evaluation
    estimates = evaluation.groups[0].estimates
    gap = interval_text(estimates[ABLATED_GAP], "nats")
    flips, tv = (rate_text(estimates[name]) for name in ("flip_rate", "view_tv"))
    moved = "" if evaluation.k == 1 else f"{flips} of answers change with the order; view TV {tv}"
    return Brief(
        facts=[
            data_fact(report.experiment.data),
            Fact("expected", "no answer is correct here: lower confidence and gap are better"),
            Fact(
                "answer gap",
                f"{gap} in log odds of the two answers that the contexts cannot tell apart",
            ),
            Fact("order", moved),
            Fact("answer mass", rate_text(estimates["answer_mass"])),
            Fact("run", run_text(report, names)),
        ],
        notes=evaluation.notes,
        more=f"All metrics: pact-eval report {one_line(shlex.quote(report.run.place))} --full",
    )


def report_line(evaluation: Evaluation, leak: DataLeak | None = None) -> str:
    """Write how many answers of a run are right, and what else is bad news.

    Args:
        evaluation: of a run, with its conclusions; without the evidence, no answer is right.
        leak: of its data; it comes first.

    Examples:
        "letters answers 63.5% [58.6, 68.1] right, and FOLLOWS THE LETTER A."
        "ablated is 88.4% [77.2, 92.5] confident on contexts without the evidence."
    """
    (name,) = short_names([evaluation.run or "The run"])
    if evaluation.contexts == "ablated":
        sure = rate_text(evaluation.groups[0].estimates[ABLATED_CONFIDENCE])
        return f"{leak_prefix(leak)}{name} is {sure} confident on contexts without the evidence."
    answered = next((note for note in evaluation.notes if isinstance(note, Unanswered)), None)
    of_them = "" if answered is None else f" of the {answered.answered:,} answered items"
    accuracy = rate_text(evaluation.groups[0].estimates["accuracy"])
    news = [*bad_news(evaluation.conclusions), *mass_news(evaluation.mean_answer_mass)]
    if len(news) > 1:
        listed = f", {', '.join(news[:-1])} and {news[-1]}"
    else:
        listed = f", and {news[0]}" if news else ""
    return f"{leak_prefix(leak)}{name} answers {accuracy}{of_them} right{listed}."


def not_known_text(conclusions: Sequence[Conclusion]) -> str:
    """Name what was not checked, with the reasons; "" if all was.

    The lines on data and on acting alone name theirs. That a log has no repeats is no news.
    """
    parts = dict.fromkeys(
        part
        for conclusion in conclusions
        if conclusion.question not in ("data", "acting")
        for part in conclusion.unchecked
        if part.reason != NO_REPEATS
    )
    return ", ".join(f"{one_line(part.name)} ({one_line(part.reason)})" for part in parts)
