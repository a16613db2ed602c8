"""Diagnostics in words: a title, why it matters, and a sentence with the number and threshold."""

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
from pact_reports.sentences.calibration import calibration_sentence
from pact_reports.sentences.conclusions import better_words, conclusion_line
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
    """How a type of diagnostic is shown.

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


def _different_data(found: d.DifferentData) -> str:
    return (
        f"{found.folder}: scored a dataset with SHA-256 {found.sha256[:16]}..., which is not the "
        f"hash of any file given ({', '.join(found.files)}): the texts may differ from those that "
        "the model read"
    )


def _registration(found: RegistrationProblem) -> str:
    reasons = "; ".join(found.registration.reasons)
    return f"the registration says {found.registration.status}{f': {reasons}' if reasons else ''}"


def _answer_mass(found: d.LowAnswerMass) -> str:
    return (
        f"{_percent(found.mean)} of the next-token probability is on the answer letters; "
        f"{_percent(LOW_ANSWER_MASS, 0)} or more is expected, less than "
        f"{_percent(VERY_LOW_ANSWER_MASS, 0)} is critical"
    )


def _confident_errors(found: d.ConfidentErrors) -> str:
    least, share = _percent(CONFIDENT, 0), _percent(found.share)
    critical = f"more than {_percent(d.CONFIDENT_WRONG, 0)} is critical"
    if found.repeats > 1:
        return (
            f"{found.confident:,} of {found.items:,} items have a repeat with a confidence of "
            f"{least} or more; in {found.wrong:,} of them such a repeat is wrong ({share} of these "
            f"answers; {critical})"
        )
    return (
        f"{found.wrong:,} of the {found.confident:,} answers with a confidence of {least} or more "
        f"are wrong ({share}; {found.items:,} answers in all); {critical}"
    )


def _chance(found: d.NearChance) -> str:
    accuracy = found.accuracy
    says = (
        f"accuracy on {found.group} ({accuracy.n:,} items, {accuracy.clusters:,} families) is "
        f"{_drawn(accuracy, 'percent', ' %')}; chance is {_percent(found.chance)}"
    )
    if found.below_chance:
        return f"{says}, above the whole interval: answers or references may be inverted"
    return f"{says}, and the interval is not above it"


def _same_answer(found: d.SameAnswer) -> str:
    return (
        f"both members get the same answer in {found.same:,} of {found.pairs:,} pairs "
        f"({_percent(found.same / found.pairs)}) whose references differ; "
        f"{_percent(d.SAME_ANSWER, 0)} or more is a warning"
    )


def _verdict(found: WeakVerdict) -> str:
    doubtful, reasons = found.doubtful, []
    if doubtful:
        example = f"{'such as ' if len(doubtful) > 1 else ''}{difference_text(doubtful[0])}"
        reasons.append(
            f"by value only in {len(doubtful):,} of the {found.judged:,} comparisons that hold "
            f"({example})"
        )
    if found.seeds:
        (seed,) = found.seeds
        one = "one run without a seed" if seed is None else f"seed {seed} alone"
        reasons.append(f"it rests on {one}")
    result = found.result
    return f"{result.hypothesis.id} is {result.verdict}, but {'; and '.join(reasons)}"


def _better(found: d.LeadDiagnostic) -> str:
    return str(better_words(found.conclusion)).rstrip(".")


def _calibration(found: d.CalibrationNotBetter) -> str:
    difference, spec = found.difference, metric_spec(found.score)
    group = "all items" if found.group == "all" else f"{found.group} items"
    word = " nats" if spec.unit == "nats" else ""
    number = (
        f"{spec.title} of {group} ({difference.n:,} items, {difference.clusters:,} families) is "
        f"{value_text(found.before.value, spec.unit)}{word} before T(x) and "
        f"{value_text(found.after.value, spec.unit)} after: {_drawn(difference, spec.unit, word)}"
    )
    if not has_width(difference):
        return f"{number}; lower is expected"
    if found.severity == "warning":
        return f"{number}, all of it above 0: T(x) raises {spec.title}"
    if difference.excludes_zero:
        return f"{number}, which is above 0, but not after Holm's adjustment for all groups"
    return f"{number}, which covers 0: neither a rise nor a fall is shown"


def _on_run(found: d.FollowsOrder | d.Unstable | d.OrderUnknown | d.Miscalibrated) -> str:
    return conclusion_line(found.conclusion).rstrip(".")


def _few_families(found: d.FewFamilies) -> str:
    accuracy = found.accuracy
    families = "family" if accuracy.clusters == 1 else "families"
    range_ = ""
    if has_width(accuracy):
        low, high = (value_text(end, "percent") for end in (accuracy.low, accuracy.high))
        range_ = f", with an interval of the accuracy from {low} to {high} %"
    return (
        f"{accuracy.n:,} items of {accuracy.clusters:,} {families}{range_}; intervals are wide "
        f"with fewer than {d.FEW_FAMILIES:,} families"
    )


def _note(found: d.ReportNote) -> str:
    every = "" if found.run is not None else "every run: "
    return f"{every}{note_sentence(found.note).rstrip('.')}"


def _settings(found: d.DifferentValues) -> str:
    if not found.values:
        return "part of the run was scored with other versions of the tools (it was resumed)"
    values = "; ".join(f"{_short(value)} ({_some(runs)})" for value, runs in found.values.items())
    said = f"{found.name} differs between runs: {values}"
    if found.name == "k":
        said += "; view TV, flip rate and ensemble gain depend on K, compare them at equal K only"
    return said


EXPLANATIONS: Final[Mapping[type[d.Diagnostic], Explanation]] = {
    d.Leak: Explanation(
        "Leak",
        "A model that has seen an item may repeat its answer, so the accuracy on these items says "
        "nothing about new ones.",
        lambda found: leak_sentence(found.leak),
        items=lambda found, run: items_href(run, ids=found.leak.items),
    ),
    d.DifferentItems: Explanation(
        "Runs on different items",
        "The numbers of runs that answered different questions cannot be compared.",
        lambda found: str(found.mismatch),
    ),
    d.RunsNotAlike: Explanation(
        "Runs that do not belong together",
        "A difference between them may come from what else differs, not from the adapter.",
        lambda found: unlike_sentence(found.unlike),
    ),
    d.OneRunTwice: Explanation(
        "One run under two seeds",
        "Means and deviations over seeds count this run twice.",
        lambda found: same_weights_sentence(found.same),
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
        lambda found: f"scored with --allow-contract-mismatch: {found.mismatch}",
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
        items=lambda found, run: items_href(run, kind=found.group),
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
        lambda found: calibration_sentence(found.note),
    ),
    d.DifferenceNotShown: Explanation(
        "Difference not shown",
        "An interval that covers 0 does not say which of the two is better.",
        _better,
    ),
    d.OneSeed: Explanation(
        "One seed",
        "The variation between trainings is unknown: another seed may reverse a small difference.",
        lambda found: (
            f"{found.arm} was trained with seed {found.seed} only; two or more seeds show a spread"
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
        lambda found: f"run.json has no {', no '.join(found.missing)}",
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


def _named(found: d.Diagnostic, names: ArmNames) -> d.Diagnostic:
    """Return a diagnostic with the display names of the arms and runs in its sentence."""
    match found:
        case d.OneSeed():
            return replace(found, arm=names.arm(found.arm))
        case d.MethodIsWorse() | d.DifferenceNotShown():
            pair = found.conclusion
            called = replace(pair, left=names.arm(pair.left), right=names.arm(pair.right))
            return replace(found, conclusion=called)
        case d.DifferentSettings() | d.DifferentVersions():
            values = {value: tuple(map(names.run, runs)) for value, runs in found.values.items()}
            return replace(found, values=values)
        case d.ReportNote():
            return replace(found, note=named_note(found.note, names))
        case _:
            return found


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
            found = [e for e in diagnostics if e.severity == severity and type(e) is type_]
            if found:
                yield severity, type_, found


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
    items = [_type_html(*each, labels, names) for each in by_type(diagnostics)]
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
    counts = Counter(each.severity for each in diagnostics)
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
    found: Sequence[d.Diagnostic],
    labels: Sequence[str],
    names: ArmNames,
) -> Html:
    explained = EXPLANATIONS[type_]
    lines = [_line(each, labels, names) for each in found]
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


def _line(found: d.Diagnostic, labels: Sequence[str], names: ArmNames) -> Html:
    explained = EXPLANATIONS[type(found)]
    about = None if found.run is None else joined([data_text(names.run(found.run)), ": "])
    link = None
    if explained.items is not None and found.run in labels:
        # The link has the number of the run, since labels may have characters shown as escapes.
        link = joined(
            [" ", element("a", "show them", href=explained.items(found, labels.index(found.run)))]
        )
    return element("li", about, data_text(sentence(found, names)), link)


def _drawn(estimate: Estimate, unit: Unit, word: str) -> str:
    """Write an estimate with its interval, and name the interval."""
    text = interval_text(estimate, unit, word)
    return f"{text} (95% interval over families)" if has_width(estimate) else text


def _percent(fraction: float, decimals: int = 1) -> str:
    return f"{100 * fraction:.{decimals}f}%"


def _short(value: str) -> str:
    return value if len(value) <= 24 else f"{value[:12]}…"


def _some(runs: Sequence[str]) -> str:
    # Separate by semicolons, because labels contain commas.
    shown = "; ".join(runs[:_SHOWN])
    return f"{shown} and {len(runs) - _SHOWN:,} more" if len(runs) > _SHOWN else shown
