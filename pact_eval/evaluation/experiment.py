"""Several runs as one experiment: the only reader of more than one run.

    Experiment.read(runs, settings)
      .runs, .ablated      each run with its arm, seed, calibrator and scored items
      .same_items          whether all runs have the same items and can be compared
      .evaluation(run)     ) computed once: report, tables, figures and page
      .comparisons         ) show the same objects

`read` opens the `run.json` of every folder. Predictions and calibrators are read when first needed.
The items of every run are put in the order of the first run.
"""

from __future__ import annotations

import contextlib
import glob
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import zip_longest
from pathlib import Path
from typing import Final

from pact_eval._choices import Decoding
from pact_eval.calibration.temperatures import CalibrationWarning
from pact_eval.errors import InputError
from pact_eval.evaluation.arms.arm_differences import choose_arm
from pact_eval.evaluation.conclusions.conclusion import Conclusion
from pact_eval.evaluation.conclusions.data import DataConclusion, DataLeak
from pact_eval.evaluation.conclusions.order import (
    OrderAudit,
    OrderConclusion,
    OrderEffect,
    Ties,
    flip_floor,
    order_audit,
    order_conclusion,
    order_effect,
)
from pact_eval.evaluation.conclusions.probabilities import (
    CorpMiscalibration,
    ProbabilitiesConclusion,
    probabilities_conclusion,
)
from pact_eval.evaluation.conclusions.where import WhereConclusion, where_conclusion
from pact_eval.evaluation.experiment_run import ExperimentRun
from pact_eval.evaluation.item_columns import item_columns
from pact_eval.evaluation.items import ScoredItems, read_items, streamable_items
from pact_eval.evaluation.joins import (
    Incompatibility,
    ItemMismatch,
    LeftOutItems,
    MatchedByLine,
    SameRun,
    SameWeights,
    SkippedRun,
    check_comparable,
    contract_notices,
    matched_by_line,
    other_training,
    same_runs,
    same_weights,
    select_role,
    unsealed,
)
from pact_eval.evaluation.notes import numeric_noise, run_notes
from pact_eval.evaluation.per_answer import QuestionAnswers, question_answers
from pact_eval.evaluation.report import (
    HEADLINE,
    DecodedRates,
    Evaluation,
    ReportDigest,
    SweepPoint,
    accuracy_of_asked,
    evaluate_items,
    other_decoding,
    report_digest,
    sweep,
)
from pact_eval.evaluation.resampled_groups import ResampledGroup, default_resamples, resample_items
from pact_eval.evaluation.run_comparisons import RunComparisons
from pact_eval.evaluation.run_records import conclude_on_data, item_texts
from pact_eval.evaluation.settings import Settings
from pact_eval.evaluation.spending import Spent, spent
from pact_eval.evaluation.wrong_items import (
    SUREST,
    ItemLists,
    WrongItems,
    changed_items,
    wrong_items,
)
from pact_eval.metrics.decoding import tied_answers
from pact_eval.results import Framed, Note, Writable, short_repr
from pact_eval.runs.folder import (
    RunFolder,
    RunSource,
    first_items,
    open_run,
    open_runs,
    unanswered_ids,
    unanswered_items,
)
from pact_eval.runs.places import run_folders, url_of
from pact_eval.runs.seal import check_counts
from pact_eval.stats.estimate import ClusterText, Estimate
from pact_eval.stats.letter_preference import SlotPreferences, slot_preferences

ITEMS_IN_MEMORY: Final = 100_000
"""Runs with more items are read in slices, without texts and logits. The numbers are the same."""


def _refuse_same_label(runs: Sequence[ExperimentRun], new: ExperimentRun) -> None:
    for run in runs:
        if (run.arm, run.seed) == (new.arm, new.seed):
            raise InputError(
                f"{run.place} and {new.place} have the same arm and seed ({new.label}); score or "
                "import one of them again with another --arm or --train-seed"
            )


def _refuse_no_seed(runs: Sequence[ExperimentRun], new: ExperimentRun) -> None:
    if new.seed is None:
        message = f"{new.place}: the run has no seed; score or import it again with --train-seed"
        raise InputError(message)
    for run in runs:
        if (run.arm, run.seed) == (new.arm, new.seed):
            message = f"arm {new.arm}: two runs with seed {new.seed}: {run.place} and {new.place}"
            raise InputError(message)


@dataclass(frozen=True, repr=False)
class Experiment:
    """Several runs with the same settings, in the given order.

    Attributes:
        runs: the runs on full contexts.
        ablated: the runs on ablated contexts.
        settings: decoding, grouping and bootstrap.
        skipped: runs that were left out because they have another role.
        left_out: items that a run left unanswered; None if there are none.
        leak_left_out: whether the families of a leak are left out.
    """

    runs: tuple[ExperimentRun, ...]
    ablated: tuple[ExperimentRun, ...] = ()
    settings: Settings = field(default_factory=Settings)
    skipped: tuple[SkippedRun, ...] = ()
    left_out: LeftOutItems | None = None
    leak_left_out: bool = False

    def __repr__(self) -> str:
        return short_repr(self)

    @classmethod
    def read(
        cls,
        sources: Sequence[RunSource],
        settings: Settings | None = None,
        *,
        unique_labels: bool = True,
    ) -> Experiment:
        """Open several runs for evaluation; runs of other roles are left out, see `select_role`.

        Args:
            sources: run folders, or URLs of object stores, also with a pattern in the last part; or
                runs that are read already. A `calibration.json` in a folder is the calibrator of
                that run.
            settings: decoding, grouping and bootstrap; None uses the defaults.
            unique_labels: refuse two runs of the same arm and seed.

        Raises:
            RunError: a folder is not a complete run.
            InputError: two runs have the same arm and seed, or do not belong together
                (`check_comparable`).
        """
        kept, skipped = select_role(open_runs(sources))
        refuse = _refuse_same_label if unique_labels else None
        return cls._of(kept, settings or Settings(), skipped, refuse=refuse)

    @classmethod
    def read_each(
        cls, sources: Sequence[RunSource], settings: Settings | None = None
    ) -> tuple[tuple[Experiment, ...], tuple[SkippedRun, ...]]:
        """Open runs that are reported in turn, and so need not belong together.

        Args:
            sources: as for `read`.
            settings: as for `read`.

        Returns:
            One experiment per run, and the runs that are left out; see `select_role`.

        Raises:
            RunError: a folder is not a complete run.
        """
        kept, skipped = select_role(open_runs(sources))
        settings = settings or Settings()
        return tuple(cls._of([run], settings) for run in kept), skipped

    @classmethod
    def _of(
        cls,
        kept: Sequence[RunFolder],
        settings: Settings,
        skipped: tuple[SkippedRun, ...] = (),
        *,
        arms: Sequence[str] = (),
        refuse: Callable[[Sequence[ExperimentRun], ExperimentRun], None]
        | None = _refuse_same_label,
    ) -> Experiment:
        """Return the runs as an experiment; refuse runs that do not belong together.

        Args:
            kept: the runs, of one role.
            settings: as for `read`.
            skipped: runs of other roles.
            arms: names of the arms of the runs; none for those that are recorded.
            refuse: raises if a run on full contexts cannot follow the others.
        """
        runs: list[ExperimentRun] = []
        ablated: list[ExperimentRun] = []
        without, left_out = _items_unanswered(kept)
        for opened, arm in zip_longest(kept, arms):
            members = ablated if opened.ablated else runs
            run = ExperimentRun(
                opened,
                arm=arm or "",
                first=members[0] if members else None,
                settings=settings,
                without=without,
            )
            if refuse is not None and members is runs:
                refuse(runs, run)
            members.append(run)
        experiment = cls(tuple(runs), tuple(ablated), settings, skipped, left_out)
        _ = experiment.unlike  # raises
        return experiment.without_leaks() if settings.without_leaks else experiment

    @classmethod
    def read_arms(cls, arguments: Sequence[str], settings: Settings | None = None) -> Experiment:
        """Open the runs of arms that are named on the command line.

        Args:
            arguments: `NAME=PATTERN`, where the pattern is a folder or a glob pattern. An arm has
                the runs of all patterns with its name. The name replaces the recorded arm.
            settings: as for `read`.

        Raises:
            InputError: an argument is not `NAME=PATTERN`, a pattern matches nothing, a run has no
                seed, two runs of an arm have the same seed, or runs do not belong together
                (`check_comparable`).
            RunError: a folder is not a complete run with references.
        """
        settings = settings or Settings()
        arms = [
            (name, open_run(folder))
            for name, pattern in map(_named_pattern, arguments)
            for folder in _folders(pattern)
        ]
        kept, skipped = select_role([opened for _, opened in arms])
        for opened in kept:
            opened.require_references()
        names = [name for name, opened in arms if opened.role == kept[0].role]
        return cls._of(kept, settings, skipped, arms=names, refuse=_refuse_no_seed)

    def without_leaks(self) -> Experiment:
        """Return the runs without the families that are also in files that a model is made from.

        Raises:
            InputError: no item is left.
        """
        leak = self._data.leak
        if leak is None:
            return self
        kept: list[list[ExperimentRun]] = [[], []]
        for of_type, members in zip(kept, (self.runs, self.ablated), strict=True):
            for run in members:
                first = of_type[0] if of_type else None
                of_type.append(run.without_families(leak.families, first))
        runs, ablated = map(tuple, kept)
        return replace(self, runs=runs, ablated=ablated, leak_left_out=True)

    @cached_property
    def _data(self) -> DataConclusion:
        return conclude_on_data(self.runs, self.settings)

    @cached_property
    def data(self) -> DataConclusion:
        """Whether the data of the runs is sound; of a leak, with the accuracy of the main arm.

        Raises:
            InputError: a dataset or an audit of the settings cannot be used.
        """
        conclusion = self._data
        if self.leak_left_out:
            return conclusion.leaving_out()
        if conclusion.leak is None:
            return conclusion
        row = self.runs.index(self.arms[self.main_arm][0])
        accuracy = self._accuracy(row)
        try:
            without = self.without_leaks()._accuracy(row)
        except InputError:
            without = Estimate.point(math.nan, reason=ClusterText("every item leaks"))
        leak = replace(
            conclusion.leak,
            accuracy=accuracy,
            accuracy_without=without,
            judged=self.runs[row].name if len(self.runs) > 1 else None,
        )
        return replace(conclusion, leak=leak)

    def data_of(self, run: ExperimentRun) -> DataConclusion:
        """Conclude on the data of one run, without the accuracies of a leak.

        Args:
            run: a run on full contexts.

        Raises:
            InputError: a dataset or an audit of the settings cannot be used.
        """
        conclusion = conclude_on_data((run,), self.settings)
        return conclusion.leaving_out() if self.leak_left_out else conclusion

    def _accuracy(self, row: int) -> Estimate:
        return self.evaluation(self.runs[row]).groups[0].estimates["accuracy"]

    @property
    def leaks(self) -> tuple[DataLeak, ...]:
        """Leaks, including those that are left out; empty without any."""
        return () if self.data.leak is None else (self.data.leak,)

    @property
    def all_runs(self) -> tuple[ExperimentRun, ...]:
        """Runs on full contexts, then runs on ablated contexts."""
        return (*self.runs, *self.ablated)

    @cached_property
    def same_items(self) -> bool:
        """Whether all runs on full contexts have the same items and can be compared."""
        return not self.mismatches

    @cached_property
    def mismatches(self) -> tuple[ItemMismatch, ...]:
        """One value for each run on full contexts whose items differ from those of the first."""
        mismatches = (run.mismatch for run in self.runs)
        return tuple(mismatch for mismatch in mismatches if mismatch is not None)

    def require_two_runs(self) -> None:
        """Refuse runs on ablated contexts, and fewer than two runs.

        Raises:
            RunError: a run is on ablated contexts, which have no references.
            InputError: there are fewer than two runs.
        """
        for run in self.ablated:
            run.run.require_references()
        if len(self.runs) < 2:
            others = "".join(
                f"; {skipped_run.run} has the role {skipped_run.role}"
                for skipped_run in self.skipped
            )
            raise InputError(f"expected two or more runs of one role, got {len(self.runs)}{others}")

    def require(self, metric: str) -> None:
        """Refuse runs that do not know what a metric needs; see `ExperimentRun.require`."""
        for run in self.runs:
            try:
                run.require(metric)
            except InputError as error:
                raise InputError(f"{run.label}: {error}") from None

    def require_same_items(self) -> None:
        """Refuse runs that cannot be compared item by item.

        Raises:
            InputError: the items of a run differ from those of the first run of its type.
        """
        for run in self.all_runs:
            if run.mismatch is not None:
                raise InputError(str(run.mismatch))

    def shared_items(self) -> ScoredItems:
        """Return the items of the first run if every run has the same items.

        Raises:
            InputError: there is no run, or the item sets differ.
        """
        if not self.runs:
            raise InputError("no run on full contexts")
        if not self.same_items:
            raise InputError("the item sets of the runs differ, so they cannot be compared")
        return self.scored(self.runs[0], self.settings.decoding)

    @cached_property
    def unlike(self) -> tuple[Incompatibility, ...]:
        """Runs that differ from an earlier run of their type, as the user allowed.

        Raises:
            InputError: they differ in what a comparison holds fixed, and it is not allowed.
        """
        return tuple(
            unlike
            for members in (self.runs, self.ablated)
            for unlike in check_comparable([run.run for run in members], allow=self.settings.allow)
        )

    @cached_property
    def same_weights(self) -> tuple[SameWeights, ...]:
        """Runs of different training seeds whose adapters have the same weights."""
        return same_weights([run.run for run in self.runs])

    @cached_property
    def same_runs(self) -> tuple[SameRun, ...]:
        """Runs with the predictions of an earlier run."""
        return same_runs([run.run for run in self.runs])

    @cached_property
    def matched_by_line(self) -> tuple[MatchedByLine, ...]:
        """Runs whose items are matched with those of the first run by their line alone."""
        return matched_by_line([run.run for run in self.runs])

    @property
    def notices(self) -> tuple[Note, ...]:
        """Runs left out, not alike, the same twice, of a contract that is not the adapter's, ...

        Reads no predictions.
        """
        left_out = () if self.left_out is None else (self.left_out,)
        opened = [run.run for run in self.all_runs]
        notices = (*self.skipped, *self.unlike, *self.same_weights, *self.same_runs)
        notices = (*notices, *self.matched_by_line, *left_out)
        return (*notices, *contract_notices(opened), *unsealed(opened), *other_training(opened))

    @property
    def applied_warnings(self) -> tuple[CalibrationWarning | Note, ...]:
        """Warnings on runs left out or not alike, and on calibrators if the settings apply them.

        Raises:
            InputError: a calibrator cannot be read, belongs to another run, or was fitted on
                families of its run.
        """
        if not self.settings.calibrated:
            return self.notices
        decoding = self.settings.decoding
        of_runs = (
            warning for run in self.all_runs for warning in run.calibrator_warnings(decoding)
        )
        return (*self.notices, *of_runs)

    @cached_property
    def warnings(
        self,
    ) -> tuple[CalibrationWarning | Note, ...]:
        """Warnings on runs left out or not alike, on calibrators, and on different items.

        Raises:
            InputError: a calibrator cannot be read, belongs to another run, or was fitted on
                families of its run.
        """
        warnings: list[CalibrationWarning | Note] = [*self.notices]
        decoding = self.settings.decoding if self.settings.calibrated else None
        for run in self.runs:
            warnings += run.calibrator_warnings(decoding)
            warnings += [run.mismatch] if run.mismatch is not None else []
        return tuple(warnings)

    @cached_property
    def arms(self) -> dict[str, tuple[ExperimentRun, ...]]:
        """The runs of each arm, sorted by seed.

        The method of the settings comes first, then the others in the order of their first runs.
        """
        arms: dict[str, list[ExperimentRun]] = {}
        if any(run.arm == self.settings.method for run in self.runs):
            arms[str(self.settings.method)] = []
        for run in self.runs:
            arms.setdefault(run.arm, []).append(run)
        return {
            arm: tuple(sorted(runs, key=lambda run: (run.seed is not None, run.seed or 0)))
            for arm, runs in arms.items()
        }

    @property
    def main_arm(self) -> str:
        """The arm that the others are compared with.

        This is the method of the settings; without one, the first arm with a seed, or else the
        first arm.

        Raises:
            InputError: no run has the named arm, or there is no run.
        """
        if not self.runs and self.settings.method is None:
            raise InputError("no run on full contexts")
        seeded = {arm: runs[-1].seed is not None for arm, runs in self.arms.items()}
        return choose_arm(seeded, self.settings.method)

    def evaluation(
        self,
        run: ExperimentRun,
        decoding: Decoding | None = None,
        *,
        calibrated: bool | None = None,
    ) -> Evaluation:
        """Return the numbers of `pact-eval report` for a run; computed once.

        Args:
            run: a run on full or ablated contexts.
            decoding: single or ensemble; None uses that of the settings.
            calibrated: apply the run's calibrator; None uses the choice of the settings.

        Raises:
            InputError: the run does not have this decoding, or has no calibrator.
        """
        settings = self.settings
        decoding, calibrated = self._choice(run, decoding, calibrated)

        def evaluated() -> Evaluation:
            return evaluate_items(
                self.items(run, decoding, calibrated=calibrated),
                by=settings.by,
                rng=settings.rng(),
                resamples=settings.resamples,
                noise=numeric_noise(run.provenance),
                notes=(
                    *run_notes(run.provenance),
                    *run.score_notes(decoding, calibrated=calibrated),
                ),
                shuffled=run.provenance.shuffled,
            )

        return run.once(("evaluation", decoding, calibrated, settings), evaluated)

    @cached_property
    def comparisons(self) -> RunComparisons:
        """What compares the runs, and the arms, with each other."""
        return RunComparisons(self)

    def where(self, run: ExperimentRun) -> WhereConclusion:
        """Conclude in which groups of items a run is wrong, or wrongly sure; computed once.

        Args:
            run: a run on full contexts.

        Raises:
            InputError: the run does not have the decoding of the settings, or has no calibrator.
        """
        settings = self.settings

        def concluded() -> WhereConclusion:
            items = self.items(run, letters=False)
            path = None if items.views is not None else run.run.predictions_file
            columns = item_columns(items, path)
            return where_conclusion(
                run.label, items, columns, seed=settings.seed, by=str(settings.by)
            )

        return run.once(("where", settings), concluded)

    def report(self, run: ExperimentRun | None = None) -> RunReport:
        """Return what `pact-eval report` shows of a run.

        Args:
            run: a run on full or ablated contexts; None takes the first.

        Raises:
            InputError: there is no run.
        """
        if not self.all_runs:
            raise InputError("expected a run, got none")
        return RunReport(self, run or self.all_runs[0])

    def _choice(
        self, run: ExperimentRun, decoding: Decoding | None, calibrated: bool | None
    ) -> tuple[Decoding, bool]:
        """Return the decoding that is asked for, or that of the settings if the run has it."""
        settings = self.settings
        if decoding is None and calibrated is None:
            run.applied(settings.decoding, calibrated=settings.calibrated)
        return (
            settings.decoding if decoding is None else decoding,
            settings.calibrated if calibrated is None else calibrated,
        )

    def items(
        self,
        run: ExperimentRun,
        decoding: Decoding | None = None,
        *,
        calibrated: bool | None = None,
        letters: bool = True,
    ) -> ScoredItems:
        """Return the items of a run; those of a large run without their texts, by `read_items`.

        Args:
            run: a run on full or ablated contexts.
            decoding: as for `evaluation`.
            calibrated: as for `evaluation`.
            letters: also read the letters of a large run.

        Raises:
            InputError: the run does not have this decoding, or has no calibrator.
        """
        decoding, calibrated = self._choice(run, decoding, calibrated)
        path, settings = run.run.predictions_file, self.settings
        in_memory = calibrated or run.shortened or run.in_memory
        if in_memory or streamable_items(path) <= ITEMS_IN_MEMORY:
            items = run.scored(decoding, calibrated=calibrated).over(settings.unit)
            return items.grouped(settings.by, settings.bins)
        items = read_items(
            path,
            decoding,
            by=settings.by,
            bins=settings.bins,
            unit=settings.unit,
            letters=letters,
            known=run.provenance.known,
            repeats=run.provenance.repeats,
        )
        items = replace(items, ece_bins=settings.ece_bins)
        views = items.n_items * max(items.k, items.repeats)
        check_counts(run.folder, run.provenance, items=items.n_items, views=views)
        return items

    def scored(
        self, run: ExperimentRun, decoding: Decoding, *, calibrated: bool = False
    ) -> ScoredItems:
        """Return the items of a run with as many rows each as in every run, to compare them.

        Runs may have asked each prompt several times, or once; see `ScoredItems.with_repeats`.

        Args:
            run: a run of the experiment.
            decoding: single or ensemble.
            calibrated: apply the run's calibrator.

        Raises:
            InputError: the run does not have this decoding, or has no calibrator.
        """
        items = run.scored(decoding, calibrated=calibrated)
        if decoding == "ensemble" or run.ablated:
            return items
        repeated = (one.provenance for one in self.all_runs if one.provenance.repeats)
        rows = math.lcm(*(provenance.k or 1 for provenance in repeated))
        return items.once(("rows", rows), lambda: items.with_repeats(rows))

    def resampled(
        self, run: ExperimentRun, decoding: Decoding, *, calibrated: bool
    ) -> ResampledGroup:
        """Return all items of a run with the resamples of every metric, which are drawn once.

        Args:
            run: a run on full contexts.
            decoding: single or ensemble.
            calibrated: apply the run's calibrator.

        Raises:
            InputError: the run does not have this decoding, or has no calibrator.
        """
        settings = self.settings
        items = self.scored(run, decoding, calibrated=calibrated).over(settings.unit)
        return resample_items(items, settings)[0]

    def rates(self, run: ExperimentRun) -> tuple[DecodedRates, ...]:
        """Return accuracy and pair accuracy of a run at view 0, and over K views if it has them.

        The decoding that is not that of the settings is never calibrated.

        Args:
            run: a run on full contexts.

        Raises:
            InputError: the run does not have the decoding of the settings, or has no calibrator.
        """
        settings, evaluation = self.settings, self.evaluation(run)
        estimates = evaluation.groups[0].estimates
        chosen = DecodedRates.of(settings.decoding, evaluation.k, estimates, evaluation.repeats)
        if settings.decoding == "single":

            def rate_of_asked() -> Estimate | None:
                without = unanswered_items(run.run)
                if without.is_empty():  # the items of a large run are read again
                    return None
                return accuracy_of_asked(self.items(run), without)

            of_asked = run.once(("asked", settings), rate_of_asked)
            chosen = replace(chosen, accuracy_of_asked=of_asked)
        if evaluation.k == 1 or run.provenance.known != "probabilities":
            return (chosen,)
        decoding = other_decoding(settings.decoding)

        def other_rates() -> DecodedRates:
            items = self.items(run, decoding, calibrated=False)
            group = resample_items(items, settings, names=HEADLINE)[0]
            of_all = {name: group.estimate(name) for name in HEADLINE}
            return DecodedRates.of(decoding, items.k, of_all, items.repeats)

        other = run.once(("rates", decoding, settings), other_rates)
        return tuple(sorted((chosen, other), key=lambda rates: rates.k))

    def order_effect(self, run: ExperimentRun) -> OrderEffect:
        """Return whether the answers of a run follow the order in which they are shown.

        Args:
            run: a run on full or ablated contexts.
        """
        return order_effect(self.evaluation(run.in_orders()), run.provenance)

    def order(self, run: ExperimentRun) -> OrderConclusion:
        """Conclude whether a run follows the order of its answers; computed once.

        The letters of the first `ITEMS_IN_MEMORY` items are tested. No temperature is applied.

        Args:
            run: a run on full or ablated contexts.
        """
        settings = self.settings

        def concluded() -> OrderConclusion:
            effect, (items, left) = self.order_effect(run), self.items_of_orders(run)
            changed = items.predictions.ids[items.values["flip_rate"] == 1]
            recorded = run.provenance
            # Another order is another epoch, and sampling alone may change every answer.
            floor = 1.0 if recorded.shuffled else flip_floor(items, effect.floor)
            of_one_order = recorded.repeats and not recorded.shuffled
            return order_conclusion(
                run.label,
                effect,
                self._slots(run),
                flip_floor=floor,
                items=tuple(map(str, changed)),
                repeats=of_one_order and (recorded.k or 1) > 1,
                untested=left,
                ties=Ties.of(items),
            )

        return run.once(("order conclusion", settings.seed), concluded)

    def _slots(self, run: ExperimentRun) -> SlotPreferences:
        """Test the letters and the last position of a run; computed once."""
        settings = self.settings

        def tested() -> SlotPreferences:
            items, _ = self.items_of_orders(run)
            views = items.predictions
            return slot_preferences(
                views.code_order,
                tied_answers(views.log_probs_by_view),
                items.cluster,
                rng=settings.rng(),
                groups={
                    group: column == group
                    for column in (views.n_choices, views.kind)
                    for group in sorted(set(column.tolist()))
                },
            )

        return run.once(("slots", settings.unit, settings.seed), tested)

    def items_of_orders(self, run: ExperimentRun) -> tuple[ScoredItems, int]:
        """Return the items whose orders are tested, with their views, and how many are left out.

        Of a large run, the first items are enough: the test has power for any preference that
        matters, and the views of all items would not fit into memory.
        """
        run, unit = run.in_orders(), self.settings.unit
        path = run.run.predictions_file
        in_memory = run.shortened or run.in_memory
        items = 0 if in_memory else streamable_items(path)
        if items <= ITEMS_IN_MEMORY:
            return run.asked_once().scored("single").over(unit), 0

        def first() -> ScoredItems:
            views = first_items(run.run, ITEMS_IN_MEMORY)
            return ScoredItems.of(views, "single", None).over(unit)

        return run.once(("first items", unit), first), items - ITEMS_IN_MEMORY

    def probabilities(
        self,
        run: ExperimentRun,
        decoding: Decoding | None = None,
        *,
        calibrated: bool | None = None,
    ) -> ProbabilitiesConclusion:
        """Conclude whether the probabilities of a run are right.

        Args:
            run: a run on full contexts.
            decoding: single or ensemble; None uses that of the settings.
            calibrated: apply the run's calibrator; None uses the choice of the settings.

        Raises:
            InputError: the run does not have this decoding, or has no calibrator.
        """
        group = self.evaluation(run, decoding, calibrated=calibrated).groups[0]
        items, corp = self.items(run, decoding, calibrated=calibrated), CorpMiscalibration.of(group)
        return probabilities_conclusion(run.label, items, group.estimates["ece"], corp)

    def order_audit(self, run: ExperimentRun) -> OrderAudit:
        """Audit what the order of the answers does to a run; computed once.

        The views of the run are read into memory. No temperature is applied.

        Args:
            run: a run on full or ablated contexts.
        """
        settings, effect = self.settings, self.order_effect(run)
        run = run.in_orders()

        def audit() -> OrderAudit:
            ensemble = None
            # The views of an item may rule out all of its answers.
            with contextlib.suppress(InputError):
                ensemble = run.scored("ensemble").over(settings.unit)
            single = run.asked_once().scored("single").over(settings.unit)
            return order_audit(
                effect,
                self._slots(run),
                single,
                ensemble,
                rng=settings.rng(),
                resamples=settings.resamples or default_resamples(len(single)),
            )

        key = ("order", settings.unit, settings.seed, settings.resamples)
        return run.once(key, audit)

    def sweep(self, run: ExperimentRun, ks: range | None = None) -> tuple[SweepPoint, ...]:
        """Evaluate a run at several numbers of views.

        Args:
            run: a run on full contexts.
            ks: numbers of views; None uses 1 to K.

        Raises:
            InputError: the run has fewer views, or no calibrator.
            RunError: the run is on ablated contexts, which have no references.
        """
        run.run.require_references()
        settings, predictions = self.settings, run.predictions
        swept = range(1, predictions.k + 1) if ks is None else ks
        calibrator = run.applied(settings.decoding, calibrated=settings.calibrated)
        return run.once(
            ("sweep", swept, settings),
            lambda: sweep(predictions, swept, settings, calibrator),
        )


@dataclass(frozen=True, eq=False, repr=False)
class RunReport(Framed, Writable):
    """Report of `pact-eval report` on a run. Each part is computed when it is first needed.

    Attributes:
        experiment: the run, with the settings of all numbers.
        run: the run, on full or ablated contexts.
        acting: whether it may act alone, which `pact_eval.thresholds` concludes; None if that was
            not asked.
    """

    experiment: Experiment
    run: ExperimentRun
    acting: Conclusion | None = None

    @property
    def warnings(self) -> tuple[CalibrationWarning | Note, ...]:
        """Warnings on runs left out, and on the calibrator if it is applied."""
        return self.experiment.applied_warnings

    @cached_property
    def evaluation(self) -> Evaluation:
        """Every metric by group, with notes and `warnings`."""
        return replace(
            self.experiment.evaluation(self.run),
            warnings=(*self.experiment.leaks, *self.warnings),
            conclusions=self.conclusions,
            run=self.run.name,
            wrong=self.wrong,
        )

    @property
    def rates(self) -> tuple[DecodedRates, ...]:
        """Accuracy and pair accuracy at view 0 and over K views; empty for ablated contexts."""
        return () if self.run.ablated else self.experiment.rates(self.run)

    @property
    def order(self) -> OrderEffect:
        """Effect of the order of the answers, next to noise."""
        return self.experiment.order_effect(self.run)

    @property
    def conclusions(self) -> tuple[Conclusion, ...]:
        """Conclusions on the run alone: where, data, order, probabilities, and acting if asked."""
        if self.run.ablated:
            return (self.experiment.data,)
        experiment, run = self.experiment, self.run
        acting = () if self.acting is None else (self.acting,)
        return (
            experiment.where(run),
            experiment.data,
            experiment.order(run),
            experiment.probabilities(run),
            *acting,
        )

    @cached_property
    def wrong(self) -> WrongItems | None:
        """The three surest wrong answers; None for ablated contexts."""
        if self.run.ablated:
            return None
        experiment, settings = self.experiment, self.experiment.settings
        items = experiment.items(self.run, letters=False)
        return wrong_items(self.run, items, item_texts(self.run, settings.data), SUREST)

    @cached_property
    def questions(self) -> tuple[QuestionAnswers, ...]:
        """Precision, recall and F1 of every answer, for questions whose answers are the same."""
        if self.run.ablated:
            return ()
        experiment = self.experiment
        texts = item_texts(self.run, experiment.settings.data)
        return question_answers(self.run, experiment.items(self.run, letters=False), texts)

    @cached_property
    def spent(self) -> Spent | None:
        """Price and latency of the requests; None if the log does not say."""
        return spent(self.run)

    def item_lists(self, most: int) -> ItemLists:
        """Return items that are worth a look: wrong answers, and answers that change.

        Args:
            most: number of items of each kind to return.

        Raises:
            InputError: the dataset of the settings does not have the items.
        """
        experiment, run = self.experiment, self.run
        texts = item_texts(run, experiment.settings.data, required=True)
        wrong = None if run.ablated else experiment.items(run, letters=False)
        return ItemLists(
            None if wrong is None else wrong_items(run, wrong, texts, most),
            changed_items(experiment.items_of_orders(run)[0], texts, most),
            bool(texts.records),
        )

    @property
    def order_audit(self) -> OrderAudit:
        """Audit of the order of the answers, slot by slot; reads the views into memory."""
        return self.experiment.order_audit(self.run)

    @cached_property
    def digest(self) -> ReportDigest:
        """Digest of the sealed run, calibrator and settings."""
        return report_digest([self.run], self.experiment.settings)


@dataclass(frozen=True, repr=False)
class RunEvaluation(Evaluation, Writable):
    """What `pact_eval.evaluate` returns: an evaluation, shown as the report on its run.

    Attributes:
        report: has the rates at view 0, what the order of answers does, and the digest too.
    """

    report: RunReport = field(kw_only=True, repr=False, compare=False)

    @classmethod
    def of(cls, report: RunReport) -> RunEvaluation:
        """Return the evaluation of a report."""
        numbers = replace(report.evaluation, questions=report.questions)
        return cls(**vars(numbers), report=report)


def _named_pattern(argument: str) -> tuple[str, str]:
    name, equals, pattern = argument.partition("=")
    if not equals or not name or not pattern:
        raise InputError(f"expected NAME=PATTERN, got {argument!r}")
    return name, pattern


def _folders(pattern: str) -> list[Path]:
    """Return the folder with exactly this name; without one, the folders that match the pattern."""
    if url_of(pattern) is not None:
        return run_folders([pattern])
    if Path(pattern).exists():
        return [Path(pattern)]
    folders = sorted(Path(path) for path in glob.glob(pattern))  # noqa: PTH207 - may be absolute
    if not folders:
        raise InputError(f"{pattern}: no such run folder")
    return folders


def _items_unanswered(runs: Sequence[RunFolder]) -> tuple[frozenset[str], LeftOutItems | None]:
    """Return the items that any of several runs left unanswered."""
    if len(runs) < 2:
        return frozenset(), None
    unanswered = {run.place: unanswered_ids(run) for run in runs}
    named = {name: len(ids) for name, ids in unanswered.items() if ids}
    if not named:
        return frozenset(), None
    without = frozenset().union(*unanswered.values())
    return without, LeftOutItems(len(without), named)
