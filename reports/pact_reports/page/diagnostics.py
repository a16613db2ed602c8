"""Diagnostics in words: a title, its relevance, and a sentence with the number and threshold."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from pact_eval.evaluation import diagnostics as d
from pact_eval.evaluation.conclusions.conclusion import SEVERITIES, Severity
from pact_eval.evaluation.metric_specs import Unit
from pact_eval.evaluation.notes import LOW_ANSWER_MASS, VERY_LOW_ANSWER_MASS
from pact_eval.evaluation.registry import CONFIDENT, metric_spec
from pact_eval.preregistration.diagnostics import RegistrationProblem, WeakVerdict
from pact_reports.arm_names import KEYS, ArmNames
from pact_reports.markup import Html, data_text, element, joined
from pact_reports.numbers import has_width, interval_text, value_text
from pact_reports.page.item_links import items_href
from pact_reports.sentences.better import better_words
from pact_reports.sentences.calibration import calibration_sentence
from pact_reports.sentences.conclusions import conclusion_line
from pact_reports.sentences.data import leak_sentence
from pact_reports.sentences.notes import (
    named_note,
    note_sentence,
    same_weights_sentence,
    unlike_sentence,
)
from pact_reports.tables.scorecard import difference_text

if TYPE_CHECKING:
    from pact_eval.stats.estimate import Estimate

_OPEN_RUNS: Final = 4
_SHOWN: Final = 4
# A severity after the number one, and after any other number.
_COUNTED: Final[Mapping[Severity, tuple[str, str]]] = {
    "critical": ("critical", "critical"),
    "warning": ("warning", "warnings"),
    "info": ("informational", "informational"),
}


@dataclass(frozen=True)
class Explanation:
    """Display of a type of diagnostic.

    Attributes:
        title: a few words.
        why: a sentence on why it matters.
        sentence: a function from a diagnostic of the type to a sentence on the finding.
        items: a function from a diagnostic and the index of its run to a link that lists the items
            concerned; None if it is not about some items.
    """

    title: str
    why: str
    sentence: Callable[[Any], str]
    items: Callable[[Any, int], str] | None = None


def _different_data(diagnostic: d.DifferentData) -> str:
    return (
        f"{diagnostic.folder}: scored a dataset with SHA-256 {diagnostic.sha256[:16]}..., which is "
        f"not the hash of any file given ({', '.join(diagnostic.files)}): the texts may differ "
        "from those that the model read"
    )


def _registration(diagnostic: RegistrationProblem) -> str:
    reasons = "; ".join(diagnostic.registration.reasons)
    return (
        f"the registration says {diagnostic.registration.status}{f': {reasons}' if reasons else ''}"
    )


def _answer_mass(diagnostic: d.LowAnswerMass) -> str:
    return (
        f"the share of the next-token probability on the answer letters is {_rate(diagnostic.mass)}"
        f"; {_percent(LOW_ANSWER_MASS, 0)} or more is expected, an interval below "
        f"{_percent(VERY_LOW_ANSWER_MASS, 0)} is critical"
    )


def _confident_errors(diagnostic: d.ConfidentErrors) -> str:
    least = _percent(CONFIDENT, 0)
    rate = (
        f"{_rate(diagnostic.rate)}; an interval above {_percent(d.CONFIDENT_WRONG, 0)} is critical"
    )
    if diagnostic.repeats > 1:
        return (
            f"{diagnostic.confident:,} of {diagnostic.items:,} items have a repeat with a "
            f"confidence of {least} or more; in {diagnostic.wrong:,} of them such a repeat is "
            f"wrong; of these answers, {rate}"
        )
    return (
        f"of {diagnostic.items:,} answers, {diagnostic.confident:,} have a confidence of {least} "
        f"or more, and {diagnostic.wrong:,} of these are wrong: {rate}"
    )


def _chance(diagnostic: d.NearChance) -> str:
    accuracy = diagnostic.accuracy
    says = (
        f"accuracy on {diagnostic.group} ({accuracy.n:,} items, {accuracy.clusters:,} families) is "
        f"{_rate(accuracy)}; chance is {_percent(diagnostic.chance)}"
    )
    if diagnostic.below_chance:
        return f"{says}, above the whole interval: answers or references may be inverted"
    if diagnostic.severity == "warning":
        return f"{says}, and all of the interval is less than {100 * d.NEAR_CHANCE:g} points above"
    return f"{says}, and the interval is not above it"


def _same_answer(diagnostic: d.SameAnswer) -> str:
    return (
        f"both members get the same answer in {diagnostic.same:,} of {diagnostic.pairs:,} pairs "
        f"whose references differ: {_rate(diagnostic.rate)}; an interval above "
        f"{_percent(d.SAME_ANSWER, 0)} is a warning"
    )


def _verdict(diagnostic: WeakVerdict) -> str:
    doubtful, reasons = diagnostic.doubtful, []
    if doubtful:
        example = f"{'such as ' if len(doubtful) > 1 else ''}{difference_text(doubtful[0])}"
        reasons.append(
            f"by value only in {len(doubtful):,} of the {diagnostic.judged:,} comparisons that "
            f"hold ({example})"
        )
    if diagnostic.seeds:
        (seed,) = diagnostic.seeds
        basis = "one run without a seed" if seed is None else f"seed {seed} alone"
        reasons.append(f"it rests on {basis}")
    result = diagnostic.result
    return f"{result.hypothesis.id} is {result.verdict}, but {'; and '.join(reasons)}"


def _better(diagnostic: d.LeadDiagnostic) -> str:
    return str(better_words(diagnostic.conclusion)).rstrip(".")


def _calibration(diagnostic: d.CalibrationNotBetter) -> str:
    difference, spec = diagnostic.difference, metric_spec(diagnostic.score)
    before, after = (value_text(x.value, spec.unit) for x in (diagnostic.before, diagnostic.after))
    group = "all items" if diagnostic.group == "all" else f"{diagnostic.group} items"
    word = " nats" if spec.unit == "nats" else ""
    number = (
        f"{spec.title} of {group} ({difference.n:,} items, {difference.clusters:,} families) is "
        f"{before}{word} before T(x) and {after} after: {_drawn(difference, spec.unit, word)}"
    )
    if not has_width(difference):
        return f"{number}; lower is expected"
    if diagnostic.severity == "warning":
        return f"{number}, all of it above 0: T(x) raises {spec.title}"
    if difference.excludes_zero:
        return f"{number}, which is above 0, but not after Holm's adjustment for all groups"
    return f"{number}, which covers 0: neither a rise nor a fall is shown"


def _on_run(diagnostic: d.FollowsOrder | d.Unstable | d.OrderUnknown | d.Miscalibrated) -> str:
    return conclusion_line(diagnostic.conclusion).rstrip(".")


def _few_families(diagnostic: d.FewFamilies) -> str:
    accuracy = diagnostic.accuracy
    families = "family" if accuracy.clusters == 1 else "families"
    range_ = ""
    if has_width(accuracy):
        low, high = (value_text(end, "percent") for end in (accuracy.low, accuracy.high))
        range_ = f", with an interval of the accuracy from {low} to {high} %"
    return (
        f"{accuracy.n:,} items of {accuracy.clusters:,} {families}{range_}; intervals are wide "
        f"with fewer than {d.FEW_FAMILIES:,} families"
    )


def _note(diagnostic: d.ReportNote) -> str:
    every = "" if diagnostic.run is not None else "every run: "
    return f"{every}{note_sentence(diagnostic.note).rstrip('.')}"


def _settings(diagnostic: d.DifferentValues) -> str:
    if not diagnostic.values:
        return "part of the run was scored with other versions of the tools (it was resumed)"
    values = "; ".join(
        f"{_short(value)} ({_some(runs)})" for value, runs in diagnostic.values.items()
    )
    text = f"{diagnostic.name} differs between runs: {values}"
    if diagnostic.name == "k":
        text += "; view TV, flip rate and ensemble gain depend on K, compare them at equal K only"
    return text


EXPLANATIONS: Final[Mapping[type[d.Diagnostic], Explanation]] = {
    d.Leak: Explanation(
        "Leak",
        "A model that has seen an item may repeat its answer, so the accuracy on these items says "
        "nothing about new ones.",
        lambda diagnostic: leak_sentence(diagnostic.leak),
        items=lambda diagnostic, run: items_href(run, ids=diagnostic.leak.items),
    ),
    d.DifferentItems: Explanation(
        "Runs on different items",
        "The numbers of runs that answered different questions cannot be compared.",
        lambda diagnostic: str(diagnostic.mismatch),
    ),
    d.RunsNotAlike: Explanation(
        "Runs that do not belong together",
        "A difference between them may come from what else differs, not from the adapter.",
        lambda diagnostic: unlike_sentence(diagnostic.unlike),
    ),
    d.OneRunTwice: Explanation(
        "One run under two seeds",
        "Means and deviations over seeds count this run twice.",
        lambda diagnostic: same_weights_sentence(diagnostic.same),
    ),
    d.DifferentData: Explanation(
        "Not the dataset that was scored",
        "The contexts shown with the items may differ from those that the model read.",
        _different_data,
    ),
    RegistrationProblem: Explanation(
        "Registration does not hold",
        "Criteria that were changed, or registered after the runs, prove nothing.",
        _registration,
    ),
    d.ContractMismatch: Explanation(
        "Different prompt contract",
        "The adapter was trained on prompts of another form than those it was scored on.",
        lambda diagnostic: f"scored with --allow-contract-mismatch: {diagnostic.mismatch}",
    ),
    d.ContractStated: Explanation(
        "Contract not stated by the adapter",
        "The files of the adapter do not show that these prompts are those of its training.",
        lambda diagnostic: diagnostic.remark,
    ),
    d.LowAnswerMass: Explanation(
        "Low answer mass",
        "Probabilities are shares of the answer letters: a model that prefers other tokens is "
        "judged on what it rarely says.",
        _answer_mass,
    ),
    d.ConfidentErrors: Explanation(
        "Confident errors",
        "Users act on answers with a confidence of 90% or more; if confidence means what it says, "
        "at most one in ten of them is wrong.",
        _confident_errors,
        items=lambda _, run: items_href(run, outcome="confident"),
    ),
    d.NearChance: Explanation(
        "Near chance",
        "If the model may be guessing on a field kind, the accuracy over all kinds hides it.",
        _chance,
        items=lambda diagnostic, run: items_href(run, kind=diagnostic.group),
    ),
    d.FollowsOrder: Explanation(
        "Follows a letter or position",
        "The letter next to an answer has no meaning: one that is chosen for its own sake decides "
        "in place of the context.",
        _on_run,
        items=lambda _, run: items_href(run, outcome="flips"),
    ),
    d.Unstable: Explanation(
        "Answers change with the order",
        "The letter next to an answer has no meaning: an answer that changes with it does not come "
        "from the context.",
        _on_run,
        items=lambda _, run: items_href(run, outcome="flips"),
    ),
    d.Miscalibrated: Explanation(
        "Probabilities are wrong",
        "Decisions by a threshold rest on probabilities that mean what they say.",
        _on_run,
    ),
    d.SameAnswer: Explanation(
        "Both members of a pair get the same answer",
        "Their references differ: a model that answers both alike did not see the edited fact.",
        _same_answer,
        items=lambda _, run: items_href(run, pair="pair-same"),
    ),
    WeakVerdict: Explanation(
        "Supported, but not shown",
        "The verdict rests on the values: a value may hold by chance, of items or of training.",
        _verdict,
    ),
    d.MethodIsWorse: Explanation(
        "The method is worse",
        "On such items the other arm has the higher accuracy.",
        _better,
    ),
    d.CalibrationNotBetter: Explanation(
        "Calibration does not help",
        "A temperature is fitted to lower NLL. If NLL does not fall, the two splits differ, or "
        "there was nothing to improve.",
        _calibration,
    ),
    d.CalibratorMisuse: Explanation(
        "Calibrator used beyond its fit",
        "A temperature is known only for data like those of its fit, which must not share a family "
        "with the run.",
        lambda diagnostic: calibration_sentence(diagnostic.note),
    ),
    d.DifferenceNotShown: Explanation(
        "Difference not shown",
        "An interval that covers 0 does not say which of the two is better.",
        _better,
    ),
    d.OneSeed: Explanation(
        "One seed",
        "The variation between trainings is unknown: another seed may reverse a small difference.",
        lambda diagnostic: (
            f"{diagnostic.arm} was trained with seed {diagnostic.seed} only; two or more seeds "
            "show a spread"
        ),
    ),
    d.FewFamilies: Explanation(
        "Few families",
        "The members of a family are not independent, so the families are the sample size.",
        _few_families,
    ),
    d.OrderUnknown: Explanation(
        "Order not checked",
        "Items shown in one order carry no information about order effects.",
        _on_run,
    ),
    d.ReportNote: Explanation(
        "Notes of the report",
        "What the report of a run says in addition to its numbers.",
        _note,
    ),
    d.DifferentSettings: Explanation(
        "Runs scored with different settings",
        "Part of a difference may come from how the runs were scored.",
        _settings,
    ),
    d.MissingProvenance: Explanation(
        "Incomplete provenance",
        "A number cannot be reproduced without a record of what made it.",
        lambda diagnostic: f"run.json has no {', no '.join(diagnostic.missing)}",
    ),
    d.DifferentVersions: Explanation(
        "Different versions of tools",
        "Another version of a library may give other logits for the same adapter.",
        _settings,
    ),
}
"""Every type of diagnostic, in the order in which types of the same severity are shown."""


def sentence(diagnostic: d.Diagnostic, names: ArmNames = KEYS) -> str:
    """Return the finding of a diagnostic as a sentence, with its number and threshold.

    Args:
        diagnostic: what was found.
        names: display names of arms.
    """
    return EXPLANATIONS[type(diagnostic)].sentence(_named(diagnostic, names))


def _named(diagnostic: d.Diagnostic, names: ArmNames) -> d.Diagnostic:
    """Return a diagnostic with the display names of the arms and runs in its sentence."""
    match diagnostic:
        case d.OneSeed():
            return replace(diagnostic, arm=names.arm(diagnostic.arm))
        case d.MethodIsWorse() | d.DifferenceNotShown():
            pair = diagnostic.conclusion
            named = replace(pair, left=names.arm(pair.left), right=names.arm(pair.right))
            return replace(diagnostic, conclusion=named)
        case d.DifferentSettings() | d.DifferentVersions():
            values = {
                value: tuple(map(names.run, runs)) for value, runs in diagnostic.values.items()
            }
            return replace(diagnostic, values=values)
        case d.ReportNote():
            return replace(diagnostic, note=named_note(diagnostic.note, names))
        case _:
            return diagnostic


def anchor(severity: Severity, type_: type[d.Diagnostic]) -> str:
    """Return the id of the sentences of a type of diagnostic.

    Examples:
        >>> anchor("warning", d.Unstable)
        'diagnostic-warning-unstable'
    """
    return f"diagnostic-{severity}-{type_.kind}"


def by_type(
    diagnostics: Sequence[d.Diagnostic],
) -> Iterator[tuple[Severity, type[d.Diagnostic], list[d.Diagnostic]]]:
    """Group diagnostics, the most severe first and diagnostics of the same type together."""
    for severity in SEVERITIES:
        for type_ in EXPLANATIONS:
            group = [e for e in diagnostics if e.severity == severity and type(e) is type_]
            if group:
                yield severity, type_, group


def diagnostics_html(
    diagnostics: Sequence[d.Diagnostic], labels: Sequence[str], names: ArmNames
) -> Html | None:
    """Write diagnostics in sentences, the most severe first.

    Args:
        diagnostics: the diagnostics, in any order.
        labels: labels of the runs, in the order of the item browser.
        names: display names of arms.
    """
    if not diagnostics:
        return None
    items = [_type_html(*group, labels, names) for group in by_type(diagnostics)]
    return element(
        "section",
        element("h3", "Diagnostics in words"),
        element("ul", *items, class_="diagnostics"),
        id="diagnostics-in-words",
    )


def counts_text(diagnostics: Sequence[d.Diagnostic]) -> str:
    """Count diagnostics by severity, in a sentence.

    Example:
        >>> seeds = [d.OneSeed("warning", None, arm, 17) for arm in ("pact", "ce_only")]
        >>> counts_text([*seeds, d.FewFamilies("info", "base", None)])
        '3 diagnostics: 2 warnings, 1 informational.'
    """
    counts = Counter(diagnostic.severity for diagnostic in diagnostics)
    words = [
        f"{counts[severity]:,} {one if counts[severity] == 1 else several}"
        for severity, (one, several) in _COUNTED.items()
        if counts[severity]
    ]
    n = len(diagnostics)
    return f"{n:,} {'diagnostic' if n == 1 else 'diagnostics'}: {', '.join(words)}."


def _type_html(
    severity: Severity,
    type_: type[d.Diagnostic],
    diagnostics: Sequence[d.Diagnostic],
    labels: Sequence[str],
    names: ArmNames,
) -> Html:
    explained = EXPLANATIONS[type_]
    lines = [_line(diagnostic, labels, names) for diagnostic in diagnostics]
    more = None
    if len(lines) > _OPEN_RUNS:
        rest = lines[_OPEN_RUNS:]
        more = element("details", element("summary", f"{len(rest):,} more"), element("ul", *rest))
    return element(
        "li",
        element("span", severity.capitalize(), class_=f"severity {severity}"),
        " ",
        element("strong", explained.title),
        element("p", explained.why, class_="why"),
        element("ul", *lines[:_OPEN_RUNS]),
        more,
        class_=severity,
        data_diagnostic=type_.kind,
        id=anchor(severity, type_),
    )


def _line(diagnostic: d.Diagnostic, labels: Sequence[str], names: ArmNames) -> Html:
    explained = EXPLANATIONS[type(diagnostic)]
    about = None if diagnostic.run is None else joined([data_text(names.run(diagnostic.run)), ": "])
    link = None
    if explained.items is not None and diagnostic.run in labels:
        # The link has the number of the run, since labels may have characters shown as escapes.
        link = joined(
            [
                " ",
                element(
                    "a", "show them", href=explained.items(diagnostic, labels.index(diagnostic.run))
                ),
            ]
        )
    return element("li", about, data_text(sentence(diagnostic, names)), link)


def _drawn(estimate: Estimate, unit: Unit, word: str) -> str:
    """Write an estimate with its interval, and name the interval."""
    text = interval_text(estimate, unit, word)
    level = 95 if estimate.method is None else 100 * estimate.method.confidence
    return f"{text} ({level:.4g}% interval over families)" if has_width(estimate) else text


def _rate(estimate: Estimate) -> str:
    return _drawn(estimate, "percent", " %")


def _percent(fraction: float, decimals: int = 1) -> str:
    return f"{100 * fraction:.{decimals}f}%"


def _short(value: str) -> str:
    return value if len(value) <= 24 else f"{value[:12]}…"


def _some(runs: Sequence[str]) -> str:
    # Separate by semicolons, because labels contain commas.
    shown = "; ".join(runs[:_SHOWN])
    return f"{shown} and {len(runs) - _SHOWN:,} more" if len(runs) > _SHOWN else shown
