"""What tables are made from: the runs, and what a reader chose."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Final

from pact_eval.data import MANIFEST_NAME, DataFile, dataset_files, read_manifest
from pact_eval.errors import InputError
from pact_eval.evaluation import (
    Experiment,
    ExperimentRun,
    Settings,
)
from pact_eval.preregistration import (
    JudgedHypotheses,
    MetricTable,
    collection_metrics,
    judge_experiment,
    read_hypotheses,
)
from pact_eval.runs import Decoding
from pact_reports.table import Table

__all__ = ["TableRequest", "TableSpec", "default_method", "files_of"]

# As `pact-eval scorecard` takes where nobody says.
_SCORECARD_RESAMPLES: Final = 2_000


@dataclass(frozen=True)
class TableRequest:
    """What tables are made from.

    Attributes:
        collection: the runs.
        decoding: single (view 0) or ensemble (K views) for all that rests on one distribution.
        method: arm that the others are compared with; None takes `default_method`.
        criteria: file of hypotheses for the scorecard.
        data: folders of datasets whose splits are counted.
        resamples: bootstrap resamples; None takes `default_resamples`.
        bootstrap_seed: seed of the bootstrap; every table starts from it.
    """

    collection: Experiment
    decoding: Decoding = "single"
    method: str | None = None
    criteria: Path | None = None
    data: tuple[Path, ...] = ()
    resamples: int | None = None
    bootstrap_seed: int = 0

    @classmethod
    def of(
        cls, experiment: Experiment, *, criteria: Path | None = None, data: tuple[Path, ...] = ()
    ) -> TableRequest:
        """Return the request with the settings of an experiment."""
        settings = experiment.settings
        return cls(
            collection=experiment,
            decoding=settings.decoding,
            method=settings.method,
            criteria=criteria,
            data=data,
            resamples=settings.resamples,
            bootstrap_seed=settings.seed,
        )

    @cached_property
    def experiment(self) -> Experiment:
        """The runs under the settings that were chosen: what is computed on them is shared."""
        settings = Settings(
            decoding=self.decoding,
            resamples=self.resamples,
            seed=self.bootstrap_seed,
            method=self.method,
        )
        return replace(self.collection, settings=settings)

    def shares_a_seed(self, a: str, b: str) -> bool:
        """Return whether runs of two arms can be matched by seed."""
        seeds = [{run.seed for run in self.collection.arms[arm]} for arm in (a, b)]
        return {None} in seeds or bool(seeds[0] & seeds[1])

    @property
    def comparable(self) -> tuple[ExperimentRun, ...]:
        """The runs on whole contexts, all on the same items.

        Raises:
            InputError: there are none, or they hold other items.
        """
        if not self.collection.runs:
            message = "no run on whole contexts"
            raise InputError(message)
        if not self.collection.same_items:
            message = "the runs hold other items, so that their numbers do not compare"
            raise InputError(message)
        return self.collection.runs

    @cached_property
    def metrics(self) -> MetricTable:
        """Every metric of every run under every decoding, for all items and by kind.

        Raises:
            InputError: as `comparable`.
        """
        return collection_metrics(self.comparable, by="kind")

    @cached_property
    def judged(self) -> JudgedHypotheses:
        """The criteria judged on all runs, those on ablated contexts too.

        Raises:
            InputError: no criteria were given, they or the runs cannot be read, or runs on contexts
                of one sort hold other items.
            RecordError: the criteria cannot be understood.
        """
        if self.criteria is None:
            message = "no criteria were given (--criteria HYPOTHESES.toml)"
            raise InputError(message)
        settings = Settings(
            resamples=self.resamples or _SCORECARD_RESAMPLES, seed=self.bootstrap_seed
        )
        return judge_experiment(self.criteria, replace(self.collection, settings=settings))

    def check(self) -> None:
        """Refuse choices that cannot be met, so that none is left out in silence.

        Raises:
            InputError: no run is of the method, the criteria are missing, or a folder holds no
                dataset.
            RecordError: the criteria cannot be understood.
        """
        if self.method is not None:
            _ = self.main_arm
        if self.criteria is not None:
            read_hypotheses(self.criteria)
        for folder in self.data:
            files_of(folder)

    @property
    def main_arm(self) -> str:
        """The arm that the others are compared with.

        Raises:
            InputError: no run is of the arm that was named, or there is no run.
        """
        arms = self.collection.arms
        if self.method is not None:
            if self.method not in arms:
                message = f"no run of arm {self.method!r}; there are {', '.join(arms) or 'none'}"
                raise InputError(message)
            return self.method
        if not arms:
            message = "no run on whole contexts"
            raise InputError(message)
        return default_method(self.collection)


def default_method(collection: Experiment) -> str:
    """Return the arm that others are compared with where nobody says: the first with a seed."""
    arms = collection.arms
    seeded = (arm for arm, runs in arms.items() if any(run.seed is not None for run in runs))
    return next(seeded, next(iter(arms)))


def files_of(folder: Path) -> tuple[DataFile, ...]:
    """Return the files of a dataset, as its manifest names them if it has one.

    Raises:
        InputError: there is no dataset, or nothing tells what a file is for.
    """
    path = folder / MANIFEST_NAME
    manifest = read_manifest(path).value if path.exists() else None
    return dataset_files(folder, manifest)


@dataclass(frozen=True)
class TableSpec:
    """One table that is known.

    Attributes:
        title: what it shows.
        needs: what it cannot be made without, in words.
        build: makes it; an InputError is the reason why there is none.
    """

    title: str
    needs: str
    build: Callable[[TableRequest], Table]
