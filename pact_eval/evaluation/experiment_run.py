"""One run of an experiment: its calibrator, its scored items, and which item asks which question.

Predictions and calibrators are read when they are first needed. What is computed of a run is kept
with it, so that all outputs show the same objects.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Final, TypeVar

import numpy as np
import polars as pl

from pact_eval._choices import Decoding
from pact_eval._typing import IntArray, TextArray
from pact_eval.calibration.effect import calibration_notes
from pact_eval.calibration.runs import calibrator_for, check_decoding, is_fitted_on
from pact_eval.calibration.temperatures import (
    FITTED_HERE,
    CalibrationNote,
    CalibrationWarning,
    Calibrator,
    TemperatureSummary,
    calibrator_as_shipped,
)
from pact_eval.errors import InputError, missing_probabilities
from pact_eval.evaluation.items import ScoredItems
from pact_eval.evaluation.joins import ItemMismatch, in_order_of, known_by_line, mismatch
from pact_eval.evaluation.notes import (
    RoundedProbabilities,
    SeveralRight,
    rounded_scores,
    several_right,
)
from pact_eval.evaluation.registry import find_metric
from pact_eval.evaluation.settings import Settings
from pact_eval.runs.folder import Run, RunFolder, read_any_run
from pact_eval.runs.identity import QUESTION, question_texts, several_questions
from pact_eval.runs.places import naming_urls
from pact_eval.runs.predictions import Predictions
from pact_eval.runs.provenance import Provenance
from pact_eval.runs.rows import PREFIX, collected
from pact_eval.runs.seal import CALIBRATION_NAME

Result = TypeVar("Result")


@dataclass(eq=False, repr=False)
class ExperimentRun:
    """One run of an experiment; its predictions and calibrator are read when they are first needed.

    Attributes:
        run: the folder and its provenance; a `Run` also has its predictions.
        arm: its recipe: the recorded arm, or without one the name of the resolved folder;
            or the name that the command line gives it.
        first: the first run of its type in the experiment, whose items give the order.
        settings: name the calibrator, what it may differ in, and the bins of ECE.
        views: number of views, or (n, k) the views of each item, that are used; None uses all.
        without: ids of the items that are left out.
        name: name of the resolved folder.
        seed: seed of the training; None for a base model, or if the run does not record one.
        label: arm and seed, for legends and rows: "pact, seed 17", or "base" without a seed.
    """

    run: RunFolder
    arm: str = ""
    first: ExperimentRun | None = None
    settings: Settings = field(default_factory=Settings)
    views: int | IntArray | None = None
    without: frozenset[str] = frozenset()
    name: str = field(init=False)
    seed: int | None = field(init=False)
    label: str = field(init=False)
    _cache: dict[Hashable, Any] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        self.arm = self.run.provenance.named(self.arm) if self.arm else self.run.arm
        self.name, self.seed = self.run.name, self.run.seed
        self.label = self.arm if self.seed is None else f"{self.arm}, seed {self.seed}"

    def __repr__(self) -> str:
        return f"ExperimentRun({self.label!r}, {self.place!r})"

    @property
    def folder(self) -> Path:
        """The run folder as it was given; the copy of a URL."""
        return self.run.folder

    @property
    def place(self) -> str:
        """The run folder as outputs call it: the path or the URL that was given."""
        return self.run.place

    @property
    def title(self) -> str:
        """The run folder, and how the model was quantised unless the name says it."""
        return self.run.title

    @property
    def provenance(self) -> Provenance:
        """Content of `run.json`."""
        return self.run.provenance

    @cached_property
    def ablated(self) -> bool:
        """Whether the run is on ablated contexts, which have no references."""
        return self.run.ablated

    @property
    def shortened(self) -> bool:
        """Whether only some views or items are used; see `with_views` and `LeftOutItems`."""
        return self.views is not None or bool(self.without)

    @property
    def in_memory(self) -> bool:
        """Whether its rows are in memory already."""
        return isinstance(self.run, Run)

    @property
    def predictions(self) -> Predictions:
        """The scored views, in the order of the experiment's first run of their type.

        Raises:
            RunError: the file is damaged.
        """
        return self._read[0]

    @property
    def mismatch(self) -> ItemMismatch | None:
        """Mismatch of the items with those of the first run; None if they are the same."""
        return self._read[1]

    @cached_property
    def _read(self) -> tuple[Predictions, ItemMismatch | None]:
        own = read_any_run(self.run).predictions
        if self.without:
            kept = [row for row, item in enumerate(own.ids) if item not in self.without]
            own = own.taken(np.array(kept, dtype=np.int64))
        different = None
        if self.first is not None:
            first = self.first.predictions
            different = mismatch(first, own, names=(self.first.place, self.place))
            if different and known_by_line(self.first.run) and known_by_line(self.run):
                different = replace(different, by_line=True)
            own = own if different else in_order_of(first, own)
        return own if self.views is None else own.with_views(self.views), different

    @property
    def calibrator(self) -> Calibrator | None:
        """The calibrator in the run folder, or what its template ships; None if there is none.

        Raises:
            InputError: it cannot be read, belongs to another run, or was fitted on families of
                this run.
        """
        return self._calibrator[0]

    @cached_property
    def _calibrator(self) -> tuple[Calibrator | None, tuple[CalibrationNote, ...]]:
        settings = self.settings
        if settings.shipped:
            return calibrator_as_shipped(self.provenance, self.place), ()
        path = settings.calibration or self.folder / CALIBRATION_NAME
        if settings.calibration is None and not path.exists():
            return None, ()
        if settings.calibration is None and is_fitted_on(path, self.predictions):
            return None, (FITTED_HERE,)
        with naming_urls():
            return calibrator_for(path, self.provenance, self.predictions, allow=settings.allow)

    @cached_property
    def temperature(self) -> TemperatureSummary | None:
        """Mean and range of T(x) over the items; None without a calibrator.

        Raises:
            InputError: the calibrator needs what the run does not record.
        """
        if self.calibrator is None:
            return None
        return TemperatureSummary.of(self.calibrator.temperatures(self.predictions))

    @property
    def fit_notes(self) -> tuple[CalibrationNote, ...]:
        """Notes on the run and the data that its calibrator was fitted on."""
        return self._calibrator[1]

    def use_notes(self, decoding: Decoding) -> tuple[CalibrationNote, ...]:
        """Return notes on the use of the calibrator outside the data of its fit.

        Args:
            decoding: decoding to which it is applied.
        """
        if self.calibrator is None:
            return ()
        return calibration_notes(self.calibrator, self.predictions, decoding)

    def calibrator_warnings(
        self, decoding: Decoding | None = None
    ) -> tuple[CalibrationWarning, ...]:
        """Return warnings about applying the calibrator to this run.

        Args:
            decoding: decoding to which it is applied; None leaves out `use_notes`.
        """
        notes = (*self.fit_notes, *(() if decoding is None else self.use_notes(decoding)))
        return tuple(CalibrationWarning(self.place, note) for note in notes)

    def applied(self, decoding: Decoding | None = None, *, calibrated: bool) -> Calibrator | None:
        """Return the calibrator to apply, or None for raw distributions.

        Args:
            decoding: the decoding that the user chose; None for outputs that show every decoding,
                which use the same calibrator for all of them.
            calibrated: whether one is applied.

        Raises:
            InputError: `calibrated` is true and there is no calibrator, or it was fitted on another
                decoding.
        """
        if calibrated and self.calibrator is None:
            if self.fit_notes:
                raise InputError(f"{self.place}: {self.fit_notes[0]}")
            raise InputError(
                f"{self.place}: expected {CALIBRATION_NAME} in the run folder, found none; "
                "`pact-eval calibrate CALIB_RUN --holdout RUN` writes it there"
            )
        if not calibrated or self.calibrator is None:
            return None
        if decoding is not None:
            allow = self.settings.allow
            check_decoding(self.calibrator, decoding, allow=allow, where=self.place)
        return self.calibrator

    def scored(self, decoding: Decoding = "single", *, calibrated: bool = False) -> ScoredItems:
        """Return the items under a decoding; computed once.

        Args:
            decoding: single or ensemble.
            calibrated: apply the run's calibrator.

        Raises:
            InputError: the run does not have this decoding, or has no calibrator.
        """
        calibrator = self.applied(calibrated=calibrated)

        def score() -> ScoredItems:
            items = ScoredItems.of(self.predictions, decoding, calibrator)
            return replace(items, ece_bins=self.settings.ece_bins)

        return self.once(("scored", decoding, calibrated), score)

    def asked_once(self) -> ExperimentRun:
        """Return the run with one row per item: of repeats, the first."""
        return self.with_views(1) if self.provenance.repeats else self

    def in_orders(self) -> ExperimentRun:
        """Return the run with repeats in several orders as its views; any other run as it is."""
        if not self.provenance.shuffled:
            return self

        def as_views() -> ExperimentRun:
            run = read_any_run(self.run)
            views = replace(
                run,
                provenance=run.provenance.as_views(),
                predictions=replace(run.predictions, repeats=False),
            )
            return replace(self, run=views)

        return self.once("in orders", as_views)

    def score_notes(
        self, decoding: Decoding, *, calibrated: bool
    ) -> tuple[RoundedProbabilities | SeveralRight, ...]:
        """Return notes on scores that are known in part: several right answers, and rounding.

        Rounding that changes no number in print is not noted.

        Args:
            decoding: single or ensemble.
            calibrated: apply the run's calibrator.
        """
        notes: list[RoundedProbabilities | SeveralRight] = []
        recorded = self.provenance
        if recorded.several_right:
            notes += several_right(self.scored(decoding, calibrated=calibrated))
        if (recorded.rounded_to is not None or recorded.censored) and not self.ablated:
            rounded = self._note_rounding(decoding, calibrated=calibrated)
            notes += [rounded] if rounded.ends else []
        return tuple(notes)

    def _note_rounding(self, decoding: Decoding, *, calibrated: bool) -> RoundedProbabilities:
        """Return the note on probabilities that are rounded or not all listed."""
        calibrator = self.applied(decoding, calibrated=calibrated)
        views, temperature = self.scored(decoding, calibrated=calibrated).predictions, None
        if calibrator is not None:
            temperature = calibrator.temperatures(views)
        return self.once(
            ("rounded", decoding, calibrated),
            lambda: rounded_scores(views, decoding, self.provenance.rounded_to, temperature),
        )

    def require(self, metric: str) -> None:
        """Refuse a run that does not know what a metric needs.

        Args:
            metric: name of the metric.

        Raises:
            InputError: only the answers are known, or their confidences.
        """
        if not find_metric(metric).defined_for(self.provenance.known):
            raise missing_probabilities("this output", self.provenance.known)

    def with_views(self, views: int | IntArray) -> ExperimentRun:
        """Return the run as if it had been scored with some of its views only.

        Args:
            views: how many of the first views, or (n, k) the views of each item, in the order of
                `predictions`.
        """
        if not isinstance(views, int):
            return replace(self, views=views)
        if views >= self.predictions.k:
            return self
        return self.once(("views", views), lambda: replace(self, views=views))

    def without_families(
        self, families: Collection[str], first: ExperimentRun | None
    ) -> ExperimentRun:
        """Return the run without some families.

        Args:
            families: names of the families.
            first: the first run of its type, without them; None if this is the first.

        Raises:
            InputError: no item is left.
        """
        views = read_any_run(self.run).predictions
        leaves = np.isin(views.family, list(families))
        if leaves.all():
            raise InputError(f"{self.place}: no item is left without the families that leak")
        without = self.without | frozenset(views.ids[leaves].tolist())
        return replace(self, first=first, without=without)

    @contextmanager
    def naming_errors(self) -> Iterator[None]:
        """Name the run in a `ValueError` of its values, which becomes an `InputError`."""
        try:
            yield
        except InputError:
            raise
        except ValueError as error:  # views without a common answer have no ensemble
            raise InputError(f"{self.label}: {error}") from None

    def once(self, key: Hashable, compute: Callable[[], Result]) -> Result:
        """Return what was computed under this key; computed at the first call."""
        if key not in self._cache:
            with self.naming_errors():
                self._cache[key] = compute()
        result: Result = self._cache[key]
        return result


_OWN: Final = ("id", "family", "source_family")


def questions_of(metadata: pl.DataFrame | None, rows: int, place: str) -> TextArray:
    """Return (n,) the name of the question of each item.

    Args:
        metadata: further columns of the items; None without any.
        rows: number of items.
        place: the run, for messages.

    Raises:
        InputError: there are items, and no column of questions.
    """
    if rows and (metadata is None or QUESTION not in metadata.columns):
        raise InputError(f"{place}: no column {QUESTION} says which item asks what; logs have one")
    return question_texts(pl.Series([]) if metadata is None or not rows else metadata[QUESTION])


def has_several_questions(run: ExperimentRun) -> bool:
    """Return whether the items of a run are of several questions; see `several_questions`."""
    facts = item_facts(run, QUESTION)
    if QUESTION not in facts.columns:
        return False
    return several_questions(question_texts(facts[QUESTION]), facts["family"].to_numpy())


def item_facts(run: ExperimentRun, *columns: str) -> pl.DataFrame:
    """Return id and families of the answered items of a run, and the further columns that it has.

    Args:
        run: a run; the rows of a large one are not read.
        columns: names of further columns.
    """
    if run.in_memory:
        views = run.predictions
        own = {"id": views.ids, "family": views.family, "source_family": views.source_family}
        facts = pl.DataFrame({name: values.tolist() for name, values in own.items()})
        known = () if views.metadata is None else views.metadata.columns
        kept = [name for name in columns if name in known]
        return facts if views.metadata is None else facts.hstack(views.metadata.select(kept))
    path = run.run.predictions_file
    scan = pl.scan_parquet(path, glob=False)
    names = scan.collect_schema().names()
    kept = [PREFIX + name for name in columns if PREFIX + name in names]
    rows = collected(path, scan.filter(pl.col("view") == 0).select(*_OWN, *kept))
    return without_prefix(rows)


def without_prefix(rows: pl.DataFrame) -> pl.DataFrame:
    """Return rows of a file with the own names of further columns."""
    return rows.rename({name: name.removeprefix(PREFIX) for name in rows.columns})
