"""Diagnostics: what a careful reader would ask about some runs besides the conclusions.

`CATALOGUE` has every kind with its topic, its title and why it matters, in the order of display. A
rule yields `Diagnostic` values: severity, run, sentence, and the numbers that raised it. `diagnose`
applies every rule to an experiment. `pact_eval.preregistration` adds those on verdicts.
Differences, order, probabilities and data have conclusions, and no rule here.

A number that chance moves is critical or a warning only if its interval over families is beyond the
threshold. The 5% of these intervals are shared by the runs (and kinds) of an experiment, as
Bonferroni does, so a page of many harmless runs raises no more alarms than a page of one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple

import numpy as np

from pact_eval import metrics
from pact_eval._json import Json, dumps
from pact_eval._typing import BoolArray, FloatArray, IntArray
from pact_eval.errors import InputError
from pact_eval.evaluation.arm_names import KEYS, ArmNames
from pact_eval.evaluation.comparison import Comparison, compare
from pact_eval.evaluation.conclusions.conclusion import Question, Severity
from pact_eval.evaluation.experiment import Experiment
from pact_eval.evaluation.experiment_run import ExperimentRun
from pact_eval.evaluation.items import ScoredItems
from pact_eval.evaluation.notes import (
    LOW_ANSWER_MASS,
    VERY_LOW_ANSWER_MASS,
    Incomplete,
    LowAnswerMass,
    Unverified,
    named,
)
from pact_eval.evaluation.registry import CONFIDENT, confident_errors, metric_spec
from pact_eval.evaluation.resampled_groups import sign_of
from pact_eval.numbers import Unit, has_width, interval_text, value_text
from pact_eval.results import Note
from pact_eval.runs.provenance import UNNAMED, Provenance
from pact_eval.stats.estimate import LEVEL, Estimate
from pact_eval.stats.multiplicity import shown_increases
from pact_eval.stats.rates import rate_estimate

CONFIDENT_WRONG: Final = 0.1
"""A rate of errors above this among answers with confidence 0.9 or more is critical."""
NEAR_CHANCE: Final = 0.1
"""An accuracy on a kind that is less than this above chance is a warning."""
SAME_ANSWER: Final = 0.25
"""A rate above this of pairs with different references and the same answer is a warning."""
PROPER_SCORES: Final = ("nll_nats", "brier")
"""Scores that say whether temperatures help."""

_SHOWN: Final = 4


Topic = Question | Literal["runs"]
"""The question that a diagnostic belongs to; runs: how they were made."""


class Kind(NamedTuple):
    """Display of a kind of diagnostic: its topic, a title of a few words, and why it matters."""

    topic: Topic
    title: str
    why: str


CATALOGUE: Final[Mapping[str, Kind]] = {
    "other-items": Kind(
        "better", "Runs on different items", "Answers to different questions cannot be compared."
    ),
    "unlike-runs": Kind(
        "better",
        "Runs that do not belong together",
        "A difference may come from what else differs.",
    ),
    "same-weights": Kind(
        "better", "One run under two seeds", "Means and deviations over seeds count this run twice."
    ),
    "same-run": Kind("better", "One run twice", "A comparison of a run with itself says nothing."),
    "matched-by-line": Kind(
        "better", "Items matched by their line", "In another order, other items are compared."
    ),
    "other-data": Kind(
        "data", "Not the dataset that was scored", "The model may have read other contexts."
    ),
    "contract": Kind(
        "runs", "Different prompt contract", "The adapter was trained on prompts of another form."
    ),
    "contract-stated": Kind(
        "runs", "Contract not stated by the adapter", "Its training may have had other prompts."
    ),
    "answer-mass": Kind(
        "probabilities", "Low answer mass", "Probabilities are shares of what it rarely says."
    ),
    "confident-errors": Kind(
        "probabilities",
        "Confident errors",
        "Users act on answers with a confidence of 90% or more.",
    ),
    "chance": Kind(
        "where",
        "Near chance",
        "Guesses on a field kind do not show in the accuracy over all kinds.",
    ),
    "same-answer": Kind(
        "where", "Both members of a pair get the same answer", "It did not see the edited fact."
    ),
    "verdict": Kind(
        "better", "Supported, but not shown", "A value may hold by chance, of items or of training."
    ),
    "calibration": Kind(
        "probabilities", "Calibration does not help", "The two splits differ, or nothing was wrong."
    ),
    "calibrator": Kind(
        "probabilities", "Calibrator used beyond its fit", "Other data may need other temperatures."
    ),
    "one-seed": Kind("better", "One seed", "Another seed may reverse a small difference."),
    "notes": Kind("runs", "Notes of the report", "What a report says beside its numbers."),
    "settings": Kind(
        "better", "Runs scored with different settings", "They may explain part of a difference."
    ),
    "provenance": Kind(
        "runs", "Incomplete provenance", "A number is reproduced by a record of what made it."
    ),
    "versions": Kind(
        "runs", "Different versions of tools", "Another version may give other logits."
    ),
}
"""Every kind of diagnostic, in the order in which kinds of the same severity are shown."""


@dataclass(frozen=True)
class Diagnostic:
    """One finding on the runs.

    Attributes:
        kind: its key in `CATALOGUE`.
        severity: critical, warning or info.
        run: label of its run; None if it concerns several runs.
        text: the finding in a sentence without a full stop, with its number and threshold.
        items: the items that it is about, as keywords of `items_href`; empty if it is not about
            some items.
        numbers: what the text rests on, by name: estimates, counts and names.
    """

    kind: str
    severity: Severity
    run: str | None
    text: str
    items: Mapping[str, Any] = field(default_factory=dict)
    numbers: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class DifferentData(Note):
    """No file of records has the SHA-256 of the dataset that a run scored.

    Attributes:
        severity: critical.
        run: label of the run.
        folder: its folder.
        sha256: SHA-256 that the run recorded.
        files: the files that were given.
    """

    severity: Severity
    run: str
    folder: str
    sha256: str
    files: tuple[str, ...]

    def __str__(self) -> str:
        return (
            f"{self.folder}: scored a dataset with SHA-256 {self.sha256[:16]}..., which is not the "
            f"hash of any file given ({', '.join(self.files)}): the texts may differ from those "
            "that the model read"
        )


def diagnose(experiment: Experiment, names: ArmNames = KEYS) -> tuple[Diagnostic, ...]:
    """Apply every rule to the runs of an experiment.

    Args:
        experiment: the runs, under the decoding of its settings.
        names: display names of arms in the texts.

    Returns:
        The diagnostics, in the order of the rules.

    Raises:
        InputError: a run does not have the decoding.
    """
    diagnostics = [*_on_experiment(experiment, names)]
    for run in experiment.runs:
        diagnostics += _on_run(experiment, run)
    diagnostics += _on_notes(experiment, names)
    return tuple(diagnostics)


def _on_experiment(experiment: Experiment, names: ArmNames) -> Iterator[Diagnostic]:
    about: tuple[tuple[str, Severity, Sequence[Note]], ...] = (
        ("unlike-runs", "critical", experiment.unlike),
        ("same-weights", "critical", experiment.same_weights),
        ("same-run", "critical", experiment.same_runs),
        ("matched-by-line", "warning", experiment.matched_by_line),
        ("other-items", "critical", experiment.mismatches),
    )
    for kind, severity, notes in about:
        for note in notes:
            yield Diagnostic(kind, severity, None, str(note))
    for run in experiment.runs:
        for fit in run.fit_notes:
            yield Diagnostic("calibrator", "warning", run.label, str(fit))
        yield from on_provenance(run.label, run.provenance)
    yield from on_settings({run.label: run.provenance for run in experiment.runs}, names)
    for arm, runs in experiment.arms.items():
        if len(runs) == 1 and runs[0].seed is not None:
            only = f"{names.arm(arm)} was trained with seed {runs[0].seed} only"
            text = f"{only}; two or more seeds show a spread"
            yield Diagnostic("one-seed", "warning", None, text)


def _on_run(experiment: Experiment, run: ExperimentRun) -> Iterator[Diagnostic]:
    settings, views, runs = experiment.settings, run.predictions, len(experiment.runs)
    items = run.scored(settings.decoding, calibrated=settings.calibrated)
    evaluation = experiment.evaluation(run)
    cluster = items.cluster[:: items.asked]
    yield from on_answer_mass(run.label, views.answer_mass_by_item, cluster, runs)
    yield from on_confident_errors(run.label, items, runs)
    kinds = evaluation.groups[1:] if views.known not in UNNAMED else ()
    for group in kinds:
        rows = items.predictions.kind == group.name
        accuracy = _rate(items.correct, items.cluster, runs * len(kinds), rows)
        chance = float((1 / views.n_choices[views.kind == group.name]).mean())
        yield from on_chance(run.label, group.name, accuracy, chance)
    yield from on_same_answer(run.label, items, runs)
    change = calibration_change(experiment, run)
    if change is not None and run.calibrator is not None:
        yield from on_calibration(run.label, change, runs)
        for note in run.use_notes(experiment.settings.decoding):
            yield Diagnostic("calibrator", "info", run.label, str(note))


def _rate(
    values: FloatArray | BoolArray, cluster: IntArray, tests: int, rows: BoolArray
) -> Estimate:
    """Estimate the mean of (n,) values in [0, 1] over some rows, with one of `tests` intervals."""
    counted = np.bincount(cluster[rows])
    positive = np.bincount(cluster[rows], values[rows].astype(np.float64))
    return rate_estimate(np.minimum(positive, counted), counted, confidence=1 - LEVEL / tests)


def calibration_change(experiment: Experiment, run: ExperimentRun) -> Comparison | None:
    """Compare a run after T(x) with the same run before T(x), with the same resamples.

    Returns:
        After minus before; None without a calibrator that can be applied.
    """
    settings = experiment.settings
    calibrated = calibrated_items(experiment, run)
    if calibrated is None:
        return None
    return compare(calibrated, run.scored(settings.decoding), settings)


def made_worse(experiment: Experiment, run: ExperimentRun) -> frozenset[str]:
    """Return the metrics of all items that T(x) is shown to make worse."""
    change = calibration_change(experiment, run)
    metrics_of_all = {} if change is None else change.groups[0].metrics
    return frozenset(
        name
        for name, comparison in metrics_of_all.items()
        if comparison.marked and sign_of(comparison.difference) == -comparison.spec.better
    )


def calibrated_items(experiment: Experiment, run: ExperimentRun) -> ScoredItems | None:
    """Return the items of a run after T(x); None without a calibrator that can be applied."""
    if run.calibrator is None:
        return None
    try:
        return run.scored(experiment.settings.decoding, calibrated=True)
    except InputError:
        # The calibrator needs prompt lengths that the run does not record.
        return None


def on_other_data(different: DifferentData) -> Diagnostic:
    """Return the finding on a run whose dataset is not among the files of records."""
    return Diagnostic("other-data", different.severity, different.run, str(different))


def on_answer_mass(
    run: str, mass: FloatArray, cluster: IntArray, tests: int = 1
) -> Iterator[Diagnostic]:
    """Check how much of the next-token probability is on the answer letters.

    Args:
        run: label of the run.
        mass: (n,) mean answer mass of each item, fractions; NaN if unknown.
        cluster: (n,) codes of families.
        tests: runs that are looked at.

    Examples:
        >>> next(on_answer_mass("pact", np.full(40, 0.3), np.arange(40))).severity
        'critical'
        >>> next(on_answer_mass("pact", np.full(3, 0.3), np.arange(3))).severity
        'info'
    """
    estimate = _rate(mass, cluster, tests, ~np.isnan(mass))
    if LowAnswerMass.of(estimate.value) is None:
        return
    severity: Severity = "info"
    if estimate.high < LOW_ANSWER_MASS:
        severity = "warning"
    if estimate.high < VERY_LOW_ANSWER_MASS:
        severity = "critical"
    text = (
        "the share of the next-token probability on the answer letters is "
        f"{_rate_text(estimate)}; {LOW_ANSWER_MASS:.0%} or more is expected, an interval "
        f"below {VERY_LOW_ANSWER_MASS:.0%} is critical"
    )
    numbers = {"mass": estimate}
    yield Diagnostic("answer-mass", severity, run, text, numbers=numbers)


def on_confident_errors(run: str, items: ScoredItems, tests: int = 1) -> Iterator[Diagnostic]:
    """Check for wrong answers with confidence 0.9 or more.

    Args:
        run: label of the run.
        items: its items; of repeats, one row per answer.
        tests: runs that are looked at.
    """
    confident = metrics.is_confident(items.confidence, CONFIDENT)
    wrong = confident_errors(items)
    if not wrong.any():
        return
    rate = _rate(wrong, items.cluster, tests, confident)
    severity: Severity = "critical" if rate.low > CONFIDENT_WRONG else "info"
    repeats = items.asked
    n_wrong, n = (int(flags.reshape(-1, repeats).any(axis=1).sum()) for flags in (wrong, confident))
    total, sure = wrong.size // repeats, f"a confidence of {CONFIDENT:.0%} or more"
    errors = f"{_rate_text(rate)}; an interval above {CONFIDENT_WRONG:.0%} is critical"
    text = f"of {total:,} answers, {n:,} have {sure}, and {n_wrong:,} of these are wrong: {errors}"
    if repeats > 1:
        repeated = f"{n:,} of {total:,} items have a repeat with {sure}"
        text = f"{repeated}; in {n_wrong:,} of them it is wrong; of these answers, {errors}"
    numbers = {"wrong": n_wrong, "confident": n, "items": total, "rate": rate}
    yield Diagnostic("confident-errors", severity, run, text, {"outcome": "confident"}, numbers)


def on_chance(run: str, group: str, accuracy: Estimate, chance: float) -> Iterator[Diagnostic]:
    """Check whether the interval of the accuracy on a field kind is above chance.

    It is a warning if the whole interval is less than `NEAR_CHANCE` above it.

    Args:
        run: label of the run.
        group: the field kind.
        accuracy: with its interval over families.
        chance: mean of 1 / C over its items.
    """
    near = accuracy.high < chance + NEAR_CHANCE
    if not near and not accuracy.low <= chance:
        return
    end = ", and the interval is not above it"
    if accuracy.high < chance:
        end = ", above the whole interval: answers or references may be inverted"
    elif near:
        end = f", and all of the interval is less than {100 * NEAR_CHANCE:g} points above"
    text = (
        f"accuracy on {group} ({accuracy.n:,} items, {accuracy.clusters:,} families) is "
        f"{_rate_text(accuracy)}; chance is {chance:.1%}{end}"
    )
    numbers = {"accuracy": accuracy, "chance": chance}
    severity: Severity = "warning" if near else "info"
    yield Diagnostic("chance", severity, run, text, {"kind": group}, numbers)


def on_same_answer(run: str, items: ScoredItems, tests: int = 1) -> Iterator[Diagnostic]:
    """Check whether pairs with different references get the same answer for both members.

    Args:
        run: label of the run.
        items: its items.
        tests: runs that are looked at.
    """
    base, other = items.pairs.base, items.pairs.counterfactual
    reference, answer = items.predictions.reference, items.predicted
    differ = reference[base] != reference[other]
    same = answer[base] == answer[other]
    rate = _rate(same, items.cluster[base], tests, differ)
    if not rate.value >= SAME_ANSWER:
        return
    severity: Severity = "warning" if rate.low > SAME_ANSWER else "info"
    n_same, pairs = int(same[differ].sum()), int(differ.sum())
    text = (
        f"both members get the same answer in {n_same:,} of {pairs:,} pairs whose references "
        f"differ: {_rate_text(rate)}; an interval above {SAME_ANSWER:.0%} is a warning"
    )
    numbers = {"same": n_same, "pairs": pairs, "rate": rate}
    yield Diagnostic("same-answer", severity, run, text, {"pair": "pair-same"}, numbers)


def on_calibration(run: str, change: Comparison, tests: int = 1) -> Iterator[Diagnostic]:
    """Check whether T(x) lowers NLL, and whether a proper score of all items or a kind gets worse.

    Changes of NLL and Brier are paired by item, and are tested as `calibrate` tests them
    (`shown_increases`): all of them together. The ECE of a holdout is mostly noise: it would call a
    temperature useless that removes ten points of error.

    Args:
        run: label of the run.
        change: the run after T(x) compared with the same run before T(x).
        tests: runs that are looked at.
    """
    # A single kind is all items.
    groups = change.groups[:1] if len(change.groups) == 2 else change.groups
    metrics_of = {
        (group.name, name): group.metrics[name] for group in groups for name in PROPER_SCORES
    }
    worse = shown_increases(
        {place: metric.difference for place, metric in metrics_of.items()},
        {place: metric.evidence.p_value for place, metric in metrics_of.items()},
        looks=tests,
    )
    for (group, score), metric in metrics_of.items():
        # Only all items have to be better: a kind may have nothing to improve.
        no_better = (group, score) == ("all", "nll_nats") and not metric.difference.high < 0
        if (group, score) not in worse and not no_better:
            continue
        severity: Severity = "warning" if (group, score) in worse else "info"
        spec, difference = metric_spec(score), metric.difference
        before, after = (value_text(side.value, spec.unit) for side in (metric.b, metric.a))
        word = " nats" if spec.unit == "nats" else ""
        found = ", which covers 0: neither a rise nor a fall is shown"
        if not has_width(difference):
            found = "; lower is expected"
        elif severity == "warning":
            found = f", all of it above 0: T(x) raises {spec.title}"
        elif difference.excludes_zero:
            found = ", which is above 0, but not after Holm's adjustment for all groups"
        text = (
            f"{spec.title} of {group} items ({difference.n:,} items, {difference.clusters:,} "
            f"families) is {before}{word} before T(x) and {after} after: "
            f"{_in_words(difference, spec.unit, word)}{found}"
        )
        numbers = {"group": group, "score": score, "difference": difference}
        yield Diagnostic("calibration", severity, run, text, numbers=numbers)


def on_provenance(run: str, provenance: Provenance) -> Iterator[Diagnostic]:
    """Check whether a run records how it was made, by the contract that its adapter states.

    Examples:
        >>> from pact_eval.runs.provenance import (Provenance, UNNAMED)
        >>> recorded = {"arm": "x", "seed": 1, "settings": {"adapter": {}}}
        >>> next(on_provenance("x", Provenance.of(recorded))).text
        'run.json has no SHA-256 of the adapter'
    """
    contract, adapter = provenance.contract, provenance.adapter
    is_base = provenance.base is not None or provenance.base_model is not None
    lacks = {
        "arm": provenance.arm is None,
        # A base model without an adapter has no training seed.
        "seed": provenance.seed is None and (adapter is not None or not is_base),
        "SHA-256 of the adapter": adapter is not None and adapter.sha256 is None,
        "adapter, base model or contract, since its predictions were imported": (
            provenance.source not in (None, "score")
        ),
    }
    missing = [what for what, is_missing in lacks.items() if is_missing]
    if missing:
        text = f"run.json has no {', no '.join(missing)}"
        yield Diagnostic("provenance", "info", run, text, numbers={"missing": missing})
    if contract.mismatch is not None:
        text = f"scored with --allow other-contract: {contract.mismatch}"
        yield Diagnostic("contract", "critical", run, text)
    elif contract.remark is not None:
        yield Diagnostic("contract-stated", "info", run, contract.remark)
    if provenance.resumed_with_versions:
        text = "part of the run was scored with other versions of the tools (it was resumed)"
        yield Diagnostic("versions", "info", run, text)


def on_settings(
    provenances: Mapping[str, Provenance], names: ArmNames = KEYS
) -> Iterator[Diagnostic]:
    """Check whether runs were scored with the same settings and the same versions of every tool.

    The settings are K, letter orders, precision, base and contract. A run that does not record one
    differs from none.

    Args:
        provenances: by label of the run.
        names: display names of the arms.
    """
    recorded: dict[tuple[str, str], dict[str, list[str]]] = {}
    for run, made in provenances.items():
        settings: dict[str, Json] = {
            "k": made.k,
            "order_seed": made.order_seed,
            "dtype": made.dtype,
            "base.sha256": made.base.sha256 if made.base else None,
            "contract.fingerprint": made.contract.fingerprint,
        }
        for kind, facts in (("settings", settings), ("versions", made.versions)):
            for name, value in facts.items():
                values = recorded.setdefault((kind, name), {})
                if value is not None:
                    text = value if isinstance(value, str) else dumps(value)
                    values.setdefault(text, []).append(names.run(run))
    for (kind, name), values in sorted(recorded.items(), key=lambda one: one[0][0]):
        if len(values) < 2:
            continue
        listed = "; ".join(
            f"{value if len(value) <= 24 else f'{value[:12]}…'} ({_some(runs)})"
            for value, runs in values.items()
        )
        text = f"{name} differs between runs: {listed}"
        if name == "k":
            text += "; view TV, flip rate and ensemble gain depend on K, compare them at equal K"
        severity: Severity = "warning" if kind == "settings" else "info"
        yield Diagnostic(kind, severity, None, text, numbers={"name": name, "values": values})


def _on_notes(experiment: Experiment, names: ArmNames) -> Iterator[Diagnostic]:
    """Return the notes of the report; a note that all runs share is returned once.

    Low answer mass has a rule of its own.
    """
    # By their text: a note that counts by status holds a mapping, which has no hash.
    labels: dict[str, tuple[Note, list[str | None]]] = {}
    for run in experiment.runs:
        for note in experiment.evaluation(run).notes:
            if not isinstance(note, LowAnswerMass):
                labels.setdefault(repr(note), (note, []))[1].append(run.label)
    for note, runs in labels.values():
        text, numbers = str(named(note, names)).rstrip("."), {"note": note}
        if len(runs) == len(experiment.runs) > 1:
            runs = [None]
            text = f"every run: {text}"
        severity: Severity = "warning" if isinstance(note, Incomplete | Unverified) else "info"
        for label in runs:
            yield Diagnostic("notes", severity, label, text, numbers=numbers)


def _in_words(estimate: Estimate, unit: Unit, word: str) -> str:
    """Write an estimate with its interval, and name the interval."""
    text = interval_text(estimate, unit, word)
    level = 95 if estimate.method is None else 100 * estimate.method.confidence
    return f"{text} ({level:.4g}% interval over families)" if has_width(estimate) else text


def _rate_text(estimate: Estimate) -> str:
    return _in_words(estimate, "percent", " %")


def _some(runs: Sequence[str]) -> str:
    # Separate by semicolons, because labels contain commas.
    shown = "; ".join(runs[:_SHOWN])
    return f"{shown} and {len(runs) - _SHOWN:,} more" if len(runs) > _SHOWN else shown
