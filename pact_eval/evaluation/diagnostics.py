"""Diagnostics: problems with runs that a careful reader would ask about, as typed values.

Each type of diagnostic is a frozen dataclass with its severity, its run and the numbers that raised
it. The thresholds are constants of this module. `diagnose` applies every rule to an experiment.

A number that chance moves is critical or a warning only if its interval over families is beyond the
threshold. The 5% of these intervals are shared by the runs (and kinds) of an experiment, as
Bonferroni does, so a page of many harmless runs raises no more alarms than a page of one.
`pact_reports.page` turns diagnostics into sentences. `pact_eval.preregistration` adds those on
registrations and verdicts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, ClassVar, Final

import numpy as np

from pact_eval import metrics
from pact_eval._json import Json, dumps
from pact_eval._typing import BoolArray, FloatArray, IntArray
from pact_eval.errors import InputError
from pact_eval.evaluation import notes as report_notes
from pact_eval.evaluation.alignment import ItemMismatch
from pact_eval.evaluation.comparison import Comparison, GroupComparison, compare
from pact_eval.evaluation.conclusions.better import BetterConclusion
from pact_eval.evaluation.conclusions.conclusion import Severity
from pact_eval.evaluation.conclusions.data import DataConclusion, DataLeak
from pact_eval.evaluation.conclusions.order import OrderConclusion
from pact_eval.evaluation.conclusions.probabilities import ProbabilitiesConclusion
from pact_eval.evaluation.experiment import Experiment
from pact_eval.evaluation.experiment_run import ExperimentRun
from pact_eval.evaluation.items import ScoredItems
from pact_eval.evaluation.joins import SameWeights, UnlikeRuns
from pact_eval.evaluation.marks import sign_of
from pact_eval.evaluation.notes import Note
from pact_eval.evaluation.registry import CONFIDENT
from pact_eval.runs.provenance import Provenance
from pact_eval.stats.estimate import LEVEL, Estimate
from pact_eval.stats.multiplicity import shown_increases
from pact_eval.stats.proportions import rate_estimate

if TYPE_CHECKING:  # runs without a calibrator need not load scipy.optimize
    from pact_eval.calibration.notes import CalibrationNote

CONFIDENT_WRONG: Final = 0.1
"""A rate of errors above this among answers with confidence 0.9 or more is critical."""
NEAR_CHANCE: Final = 0.1
"""An accuracy on a kind that is less than this above chance is a warning."""
SAME_ANSWER: Final = 0.25
"""A rate above this of pairs with different references and the same answer is a warning."""
FEW_FAMILIES: Final = 100
"""With fewer families, intervals of rates reach about 10 points to either side."""
PROPER_SCORES: Final = ("nll_nats", "brier")
"""Scores that say whether temperatures help."""

_ROUNDING: Final = 1e-9
_OF_GAPS: Final = (report_notes.Incomplete, report_notes.Unverified)
_SETTINGS: Final[Mapping[str, Callable[[Provenance], Json]]] = {
    "k": lambda provenance: provenance.k,
    "order_seed": lambda provenance: provenance.order_seed,
    "dtype": lambda provenance: provenance.dtype,
    "base.sha256": lambda provenance: provenance.base.sha256 if provenance.base else None,
    "contract.fingerprint": lambda provenance: provenance.contract.fingerprint,
}


@dataclass(frozen=True)
class Diagnostic:
    """One finding on the runs.

    Attributes:
        severity: critical, warning or info.
        run: label of its run; None if it concerns several runs.
        kind: name of the type of diagnostic.
    """

    severity: Severity
    run: str | None
    kind: ClassVar[str] = ""


@dataclass(frozen=True)
class Leak(Diagnostic):
    """Items are also in files that a model is made from; info if they are left out."""

    leak: DataLeak
    kind: ClassVar[str] = "leak"


@dataclass(frozen=True)
class DifferentItems(Diagnostic):
    """The items of a run, or their references, differ from those of the first run."""

    mismatch: ItemMismatch
    kind: ClassVar[str] = "other-items"


@dataclass(frozen=True)
class RunsNotAlike(Diagnostic):
    """Runs are compared that differ in data, contract, prompts or base model."""

    unlike: UnlikeRuns
    kind: ClassVar[str] = "unlike-runs"


@dataclass(frozen=True)
class OneRunTwice(Diagnostic):
    """Runs of different training seeds have the same adapter weights."""

    same: SameWeights
    kind: ClassVar[str] = "same-weights"


@dataclass(frozen=True)
class DifferentData(Diagnostic):
    """No file of records has the SHA-256 of the dataset that a run scored.

    Attributes:
        folder: folder of the run.
        sha256: SHA-256 that the run recorded.
        files: the files that were given.
    """

    folder: str
    sha256: str
    files: tuple[str, ...]
    kind: ClassVar[str] = "other-data"


@dataclass(frozen=True)
class ContractMismatch(Diagnostic):
    """An adapter was scored with a prompt contract that it was not trained on."""

    mismatch: str
    kind: ClassVar[str] = "contract"


@dataclass(frozen=True)
class ContractStated(Diagnostic):
    """The files of an adapter state no prompt contract; `remark` says who did."""

    remark: str
    kind: ClassVar[str] = "contract-stated"


@dataclass(frozen=True)
class LowAnswerMass(Diagnostic):
    """Little of the next-token probability is on the answer letters.

    Attributes:
        mass: mean share of items and views, with its interval.
    """

    mass: Estimate
    kind: ClassVar[str] = "answer-mass"


@dataclass(frozen=True)
class ConfidentErrors(Diagnostic):
    """Wrong answers with confidence 0.9 or more.

    Attributes:
        wrong: number of items with such an answer; of repeats, in any of them.
        confident: number of items with an answer of that confidence.
        items: number of all items.
        rate: share of wrong answers among those of that confidence, with its interval.
        repeats: answers per item; 1 if the views are not repeats.
    """

    wrong: int
    confident: int
    items: int
    rate: Estimate
    repeats: int = 1
    kind: ClassVar[str] = "confident-errors"


@dataclass(frozen=True)
class NearChance(Diagnostic):
    """The interval of the accuracy on a field kind is not above chance, or close to it.

    Attributes:
        group: the field kind.
        accuracy: with its interval over families.
        chance: mean of 1 / C over its items.
    """

    group: str
    accuracy: Estimate
    chance: float
    kind: ClassVar[str] = "chance"

    @property
    def below_chance(self) -> bool:
        """Whether the whole interval is below chance, as if answers were inverted."""
        return self.accuracy.high < self.chance


@dataclass(frozen=True)
class FollowsOrder(Diagnostic):
    """A letter or a position is chosen for its own sake, or avoided."""

    conclusion: OrderConclusion
    kind: ClassVar[str] = "follows-order"


@dataclass(frozen=True)
class Unstable(Diagnostic):
    """Answers change with the order, and no letter is preferred."""

    conclusion: OrderConclusion
    kind: ClassVar[str] = "unstable"


@dataclass(frozen=True)
class OrderUnknown(Diagnostic):
    """Unknown effect of the order on the answers."""

    conclusion: OrderConclusion
    kind: ClassVar[str] = "order-unknown"


@dataclass(frozen=True)
class Miscalibrated(Diagnostic):
    """Probabilities are shown to be wrong."""

    conclusion: ProbabilitiesConclusion
    kind: ClassVar[str] = "miscalibrated"


@dataclass(frozen=True)
class SameAnswer(Diagnostic):
    """Both members of a pair get the same answer.

    Attributes:
        same: number of such pairs whose references differ.
        pairs: number of pairs whose references differ.
        rate: the share of the first among the second, with its interval.
    """

    same: int
    pairs: int
    rate: Estimate
    kind: ClassVar[str] = "same-answer"


@dataclass(frozen=True)
class LeadDiagnostic(Diagnostic):
    """A finding on whether the main arm is better than another."""

    conclusion: BetterConclusion


@dataclass(frozen=True)
class MethodIsWorse(LeadDiagnostic):
    """The main arm is shown to be less accurate."""

    kind: ClassVar[str] = "worse"


@dataclass(frozen=True)
class DifferenceNotShown(LeadDiagnostic):
    """No difference in accuracy is shown."""

    kind: ClassVar[str] = "undecided"


@dataclass(frozen=True)
class CalibrationNotBetter(Diagnostic):
    """A proper score is shown to be worse after T(x) (a warning), or NLL is not shown to be lower.

    Attributes:
        group: "all", or the field kind.
        score: "nll_nats" or "brier".
        before: the score, raw.
        after: the score after T(x).
        difference: after minus before, with its paired interval over families.
    """

    group: str
    score: str
    before: Estimate
    after: Estimate
    difference: Estimate
    kind: ClassVar[str] = "calibration"


@dataclass(frozen=True)
class CalibratorMisuse(Diagnostic):
    """A calibrator is applied outside the data of its fit, or source families are shared."""

    note: CalibrationNote
    kind: ClassVar[str] = "calibrator"


@dataclass(frozen=True)
class OneSeed(Diagnostic):
    """An arm was trained with one seed only."""

    arm: str
    seed: int
    kind: ClassVar[str] = "one-seed"


@dataclass(frozen=True)
class FewFamilies(Diagnostic):
    """Intervals are computed from few families; `accuracy` is over all items."""

    accuracy: Estimate
    kind: ClassVar[str] = "few-families"


@dataclass(frozen=True)
class ReportNote(Diagnostic):
    """A note of the report; `run` is None if every run has it."""

    note: Note
    kind: ClassVar[str] = "notes"


@dataclass(frozen=True)
class DifferentValues(Diagnostic):
    """Runs were scored with different settings or tools.

    Attributes:
        name: name of the setting or tool; "" if one run was resumed with other versions.
        values: by value, the labels of the runs.
    """

    name: str
    values: Mapping[str, tuple[str, ...]]


@dataclass(frozen=True)
class DifferentSettings(DifferentValues):
    """Runs were scored with different values of a setting."""

    kind: ClassVar[str] = "settings"


@dataclass(frozen=True)
class MissingProvenance(Diagnostic):
    """`run.json` does not record how the run was made; `missing` names what it lacks."""

    missing: tuple[str, ...]
    kind: ClassVar[str] = "provenance"


@dataclass(frozen=True)
class DifferentVersions(DifferentValues):
    """Runs were scored with different versions of a tool."""

    kind: ClassVar[str] = "versions"


@dataclass(frozen=True)
class MatchedRuns:
    """The method's run and a run of another arm at the same seed.

    Attributes:
        method: arm of the first run.
        control: arm of the second run.
        seed: seed of both runs, or of the only run that has one.
        result: the comparison over all items.
    """

    method: str
    control: str
    seed: int | None
    result: GroupComparison


def matched_runs(experiment: Experiment, method: str) -> tuple[MatchedRuns, ...]:
    """Compare the runs of an arm with those of every other arm at shared seeds.

    Args:
        experiment: the runs, all on the same items.
        method: name of the arm.

    Raises:
        InputError: the item sets differ, or no other arm has a seed in common with the method.
    """
    experiment.require_same_items()
    comparisons = experiment.comparisons
    matched = tuple(
        MatchedRuns(
            method, arm, match.seed, comparisons.seeds(method, arm).seeds[match.seed].groups[0]
        )
        for arm, matches in comparisons.against(method).items()
        for match in matches
    )
    if not matched:
        message = f"no other arm has a seed in common with {method}"
        raise InputError(message)
    return matched


def on_data(conclusion: DataConclusion, experiment: Experiment) -> tuple[Leak, ...]:
    """Check whether the data leaks.

    Args:
        conclusion: on the data of the runs.
        experiment: the runs; the first of the main arm is named.
    """
    leak = conclusion.leak
    if leak is None:
        return ()
    if leak.left_out:
        return (Leak("info", None, leak),)
    return (Leak(conclusion.severity, experiment.arms[experiment.main_arm][0].label, leak),)


def diagnose(experiment: Experiment) -> tuple[Diagnostic, ...]:
    """Apply every rule to the runs of an experiment.

    Args:
        experiment: the runs, under the decoding of its settings.

    Returns:
        The diagnostics, in the order of the rules.

    Raises:
        InputError: a run does not have the decoding.
    """
    diagnostics = [*_on_experiment(experiment)]
    if experiment.same_items:
        diagnostics += on_better(experiment.comparisons.better_than(experiment.main_arm).values())
    for run in experiment.runs:
        diagnostics += _on_run(experiment, run)
    for run in experiment.runs[:1] if experiment.same_items else experiment.runs:
        accuracy = experiment.evaluation(run, calibrated=False).groups[0].estimates["accuracy"]
        diagnostics += on_few_families(run.label, accuracy)
    diagnostics += _on_notes(experiment)
    return tuple(diagnostics)


def _on_experiment(experiment: Experiment) -> Iterator[Diagnostic]:
    for unlike in experiment.unlike:
        yield RunsNotAlike("critical", None, unlike)
    for same in experiment.same_weights:
        yield OneRunTwice("critical", None, same)
    for run in experiment.runs:
        if run.mismatch is not None:
            yield DifferentItems("critical", None, run.mismatch)
        for note in run.fit_notes:
            yield CalibratorMisuse("warning", run.label, note)
        yield from on_contract(run.label, run.provenance)
        yield from on_provenance(run.label, run.provenance)
    provenances = {run.label: run.provenance for run in experiment.runs}
    yield from on_settings(provenances)
    yield from on_versions(provenances)
    for arm, runs in experiment.arms.items():
        if len(runs) == 1 and runs[0].seed is not None:
            yield OneSeed("warning", None, arm, runs[0].seed)


def _on_run(experiment: Experiment, run: ExperimentRun) -> Iterator[Diagnostic]:
    views, items = run.predictions, run.scored(experiment.settings.decoding)
    evaluation, runs = experiment.evaluation(run, calibrated=False), len(experiment.runs)
    cluster = items.cluster[:: 1 if items.repeat is None else items.repeats]
    yield from on_answer_mass(run.label, views.answer_mass_by_item, cluster, runs)
    yield from on_order(experiment.order(run), runs)
    if run.provenance.known != "answers":
        yield from on_probabilities(experiment.probabilities(run, calibrated=False), runs)
    yield from on_confident_errors(run.label, items, runs)
    kinds = evaluation.groups[1:] if views.known != "outcomes" else ()
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
            yield CalibratorMisuse("info", run.label, note)


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
    return compare(
        calibrated,
        run.scored(settings.decoding),
        by=settings.by,
        rng=settings.rng(),
        resamples=settings.resamples,
    )


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


def on_answer_mass(
    run: str, mass: FloatArray, cluster: IntArray, tests: int = 1
) -> tuple[LowAnswerMass, ...]:
    """Check how much of the next-token probability is on the answer letters.

    Args:
        run: label of the run.
        mass: (n,) mean answer mass of each item, fractions; NaN if unknown.
        cluster: (n,) codes of families.
        tests: runs that are looked at.

    Examples:
        >>> on_answer_mass("pact", np.full(40, 0.3), np.arange(40))[0].severity
        'critical'
        >>> on_answer_mass("pact", np.full(3, 0.3), np.arange(3))[0].severity
        'info'
    """
    estimate = _rate(mass, cluster, tests, ~np.isnan(mass))
    if report_notes.LowAnswerMass.of(estimate.value) is None:
        return ()
    severity: Severity = "info"
    if estimate.high < report_notes.LOW_ANSWER_MASS:
        severity = "warning"
    if estimate.high < report_notes.VERY_LOW_ANSWER_MASS:
        severity = "critical"
    return (LowAnswerMass(severity, run, estimate),)


def on_order(
    conclusion: OrderConclusion, tests: int = 1
) -> tuple[FollowsOrder | Unstable | OrderUnknown, ...]:
    """Check whether the answers of a run follow their order.

    Args:
        conclusion: on the order; its p-values are of one run.
        tests: runs that are looked at.
    """
    match conclusion.status:
        case "follows a letter" | "follows a position":
            p_value = min(slot.adjusted_p_value for slot in conclusion.followed)
            return (FollowsOrder(_shown(p_value, tests), conclusion.run, conclusion),)
        case "unstable":
            return (Unstable("warning", conclusion.run, conclusion),)
        case "cannot tell":
            return (OrderUnknown("info", conclusion.run, conclusion),)
        case "stable":
            return ()


def on_probabilities(
    conclusion: ProbabilitiesConclusion, tests: int = 1
) -> tuple[Miscalibrated, ...]:
    """Check whether the probabilities of a run are shown to be wrong; arguments as `on_order`."""
    if conclusion.tone != "bad":
        return ()
    return (Miscalibrated(_shown(conclusion.p_value, tests), conclusion.run, conclusion),)


def _shown(p_value: float, tests: int) -> Severity:
    return "warning" if p_value * tests <= LEVEL else "info"


def on_confident_errors(
    run: str, items: ScoredItems, tests: int = 1
) -> tuple[ConfidentErrors, ...]:
    """Check for wrong answers with confidence 0.9 or more.

    Args:
        run: label of the run.
        items: its items; of repeats, one row per answer.
        tests: runs that are looked at.
    """
    confident = metrics.is_confident(items.confidence, CONFIDENT)
    wrong = confident & ~items.correct
    if not wrong.any():
        return ()
    rate = _rate(wrong, items.cluster, tests, confident)
    severity: Severity = "critical" if rate.low > CONFIDENT_WRONG else "info"
    repeats = 1 if items.repeat is None else items.repeats
    n_wrong, n_confident = (
        int(flags.reshape(-1, repeats).any(axis=1).sum()) for flags in (wrong, confident)
    )
    n_items = wrong.size // repeats
    return (ConfidentErrors(severity, run, n_wrong, n_confident, n_items, rate, repeats),)


def on_chance(run: str, group: str, accuracy: Estimate, chance: float) -> tuple[NearChance, ...]:
    """Check whether the interval of the accuracy on a field kind is above chance.

    It is a warning if the whole interval is less than `NEAR_CHANCE` above it.
    """
    near = accuracy.high < chance + NEAR_CHANCE
    if not near and not accuracy.low <= chance:
        return ()
    return (NearChance("warning" if near else "info", run, group, accuracy, chance),)


def on_same_answer(run: str, items: ScoredItems, tests: int = 1) -> tuple[SameAnswer, ...]:
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
        return ()
    severity: Severity = "warning" if rate.low > SAME_ANSWER else "info"
    return (SameAnswer(severity, run, int(same[differ].sum()), int(differ.sum()), rate),)


def on_few_families(run: str, accuracy: Estimate) -> tuple[FewFamilies, ...]:
    """Check whether intervals are computed from few families."""
    return (FewFamilies("info", run, accuracy),) if accuracy.clusters < FEW_FAMILIES else ()


def on_calibration(
    run: str, change: Comparison, tests: int = 1
) -> tuple[CalibrationNotBetter, ...]:
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
    diagnostics = []
    for place, metric in metrics_of.items():
        # Only all items have to be better: a kind may have nothing to improve.
        no_better = place == ("all", "nll_nats") and not metric.difference.high < 0
        if place in worse or no_better:
            severity: Severity = "warning" if place in worse else "info"
            sides = metric.b, metric.a, metric.difference
            diagnostics.append(CalibrationNotBetter(severity, run, *place, *sides))
    return tuple(diagnostics)


def on_better(conclusions: Iterable[BetterConclusion]) -> Iterator[LeadDiagnostic]:
    """Check whether the main arm is worse than another, or not shown to be better."""
    for conclusion in conclusions:
        if conclusion.status == "worse":
            yield MethodIsWorse("warning", None, conclusion)
        elif conclusion.status == "not shown":
            yield DifferenceNotShown("info", None, conclusion)


def on_contract(run: str, provenance: Provenance) -> tuple[Diagnostic, ...]:
    """Check whether an adapter was scored with the contract that its files state."""
    contract = provenance.contract
    if contract.mismatch is not None:
        return (ContractMismatch("critical", run, contract.mismatch),)
    remark = contract.remark
    return () if remark is None else (ContractStated("info", run, remark),)


def on_provenance(run: str, provenance: Provenance) -> tuple[MissingProvenance, ...]:
    """Check whether a run records how it was made.

    Examples:
        >>> from pact_eval.runs.provenance import Provenance
        >>> recorded = {"arm": "x", "seed": 1, "settings": {"adapter": {}}}
        >>> on_provenance("x", Provenance.of(recorded))[0].missing
        ('SHA-256 of the adapter',)
    """
    missing = []
    adapter = provenance.adapter
    is_base = provenance.base is not None or provenance.base_model is not None
    if provenance.arm is None:
        missing.append("arm")
    # A base model without an adapter has no training seed.
    if provenance.seed is None and (adapter is not None or not is_base):
        missing.append("seed")
    if adapter is not None and adapter.sha256 is None:
        missing.append("SHA-256 of the adapter")
    if provenance.source not in (None, "score"):
        missing.append("adapter, base model or contract, since its predictions were imported")
    return (MissingProvenance("info", run, tuple(missing)),) if missing else ()


def on_settings(provenances: Mapping[str, Provenance]) -> tuple[DifferentSettings, ...]:
    """Check whether runs were scored with the same K, letter orders, precision, base and contract.

    Args:
        provenances: by label of the run.
    """
    by_name = {name: _by_value(provenances, get) for name, get in _SETTINGS.items()}
    return tuple(
        DifferentSettings("warning", None, name, values)
        for name, values in by_name.items()
        if len(values) > 1
    )


def on_versions(provenances: Mapping[str, Provenance]) -> tuple[DifferentVersions, ...]:
    """Check whether runs were scored with the same versions of every tool.

    Args:
        provenances: by label of the run.

    Examples:
        >>> from pact_eval.runs.provenance import Provenance
        >>> a, b = (Provenance.of({"versions": {"torch": v}}) for v in ("2.12", "2.13"))
        >>> on_versions({"a": a, "b": b})[0].values
        {'2.12': ('a',), '2.13': ('b',)}
    """
    diagnostics = []
    names = dict.fromkeys(
        name for provenance in provenances.values() for name in provenance.versions
    )
    for name in names:
        values = _by_value(provenances, partial(_version, name=name))
        if len(values) > 1:
            diagnostics.append(DifferentVersions("info", None, name, values))
    for run, provenance in provenances.items():
        if provenance.resumed_with_versions:
            diagnostics.append(DifferentVersions("info", run, "", {}))
    return tuple(diagnostics)


def _version(provenance: Provenance, name: str) -> Json:
    return provenance.versions.get(name)


def _on_notes(experiment: Experiment) -> Iterator[ReportNote]:
    """Return the notes of the report; a note that all runs share is returned once."""
    # By their text: a note that counts by status holds a mapping, which has no hash.
    labels: dict[str, tuple[Note, list[str | None]]] = {}
    for run in experiment.runs:
        for note in _notes(experiment, run):
            labels.setdefault(repr(note), (note, []))[1].append(run.label)
    for note, runs in labels.values():
        if len(runs) == len(experiment.runs) > 1:
            runs = [None]
        severity: Severity = "warning" if isinstance(note, _OF_GAPS) else "info"
        for label in runs:
            yield ReportNote(severity, label, note)


def _notes(experiment: Experiment, run: ExperimentRun) -> tuple[Note, ...]:
    """Return the notes of a run except the one on answer mass, which has a separate diagnostic."""
    notes = experiment.evaluation(run, calibrated=False).notes
    return tuple(note for note in notes if not isinstance(note, report_notes.LowAnswerMass))


def _by_value(
    provenances: Mapping[str, Provenance], get: Callable[[Provenance], Json]
) -> dict[str, tuple[str, ...]]:
    """Return the labels of the runs by value; runs without one are left out."""
    groups: dict[str, list[str]] = {}
    for run, provenance in provenances.items():
        value = get(provenance)
        if value is not None:
            groups.setdefault(value if isinstance(value, str) else dumps(value), []).append(run)
    return {value: tuple(runs) for value, runs in groups.items()}
