"""Runs that the tests of figures share: two arms over two seeds, and a base model."""

from __future__ import annotations

import pytest
from reports.figures.figure_runs import simulated

from pact_eval.evaluation import RunCollection
from pact_reports.figures import FigureRequest


@pytest.fixture(scope="package")
def collection(tmp_path_factory: pytest.TempPathFactory) -> RunCollection:
    folder = tmp_path_factory.mktemp("figures")
    return simulated(folder, arms=("pact", "other"), seeds=(17, 18), families=24)


@pytest.fixture(scope="package")
def request_(collection: RunCollection) -> FigureRequest:
    return FigureRequest(collection, resamples=200)
