"""The undisturbed experiment that several tests read."""

from __future__ import annotations

from pathlib import Path

import pytest
from commands import runner
from experiments.plans import write_whole_plan

from pact_cli.main import main


@pytest.fixture(scope="session")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The plan of an experiment that ran to its end: hypotheses, ablated contexts, page, figures.

    Tests that change something work on a copy.
    """
    plan = write_whole_plan(tmp_path_factory.mktemp("whole"))
    runner(main)("experiment", plan, "--slots", 2)
    return plan
