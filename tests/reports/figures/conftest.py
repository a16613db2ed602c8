"""Runs that the tests of figures share: two arms over two seeds, and a base model."""

from __future__ import annotations

import pytest
from reports.figures.figure_runs import simulated

from pact_eval.evaluation.experiment import Experiment
from pact_reports.figures.style import Looks


@pytest.fixture(scope="package")
def experiment(tmp_path_factory: pytest.TempPathFactory) -> Experiment:
    folder = tmp_path_factory.mktemp("figures")
    return simulated(folder, arms=("pact", "other"), seeds=(17, 18), families=24)


@pytest.fixture(scope="package")
def looks(experiment: Experiment) -> Looks:
    return Looks.of(experiment)
