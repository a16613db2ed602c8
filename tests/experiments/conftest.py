"""The undisturbed experiment that several tests read."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from commands import runner
from experiments.plans import write_whole_plan
from filelock import FileLock

from pact_cli.main import main


@pytest.fixture(scope="session")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The plan of an experiment that ran to its end: hypotheses, ablated contexts, page, figures.

    Workers of pytest-xdist share it. Tests that change something work on a copy.
    """
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent
    folder /= "whole"
    with FileLock(f"{folder}.lock"):
        if not folder.exists():
            plan = write_whole_plan(folder)
            runner(main)("experiment", plan, "--jobs", 2)
    return folder / "plan.toml"
