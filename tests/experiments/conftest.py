"""The undisturbed experiment that several tests read, and steps as forks."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from commands import runner
from experiments.plans import write_whole_plan
from filelock import FileLock
from forked_processes import forked_steps

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
            with forked_steps():
                runner(main)("experiment", plan, "--slots", 2)
    return folder / "plan.toml"


@pytest.fixture
def forks() -> Iterator[None]:
    """Steps are forks: for tests of what an experiment does, not of its processes."""
    with forked_steps():
        yield
