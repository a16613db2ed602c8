"""The probe of a node: what it finds here, and what is wrong."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from filelock import FileLock

from pact_eval.experiments.shared_folder import LOCK, open_probe


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "plan.toml").write_text("a plan")
    (tmp_path / "plan").mkdir()
    return tmp_path / "plan"


def test_a_node_that_shares_the_folder_answers(folder: Path) -> None:
    with FileLock(folder / LOCK), open_probe(folder.with_suffix(".toml"), folder, ()) as probe:
        assert probe.answer("node-1") == ""
        assert probe.unseen(["node-1", "node-2"], seconds=0) == {"node-2"}
    assert not (folder / "probe").exists()


def test_what_is_wrong_on_a_node(folder: Path, tmp_path: Path) -> None:
    plan = folder.with_suffix(".toml")
    with FileLock(folder / LOCK), open_probe(plan, folder, ("torch",)) as probe:
        gone = replace(probe, folder=tmp_path / "other")
        assert f"does not see {tmp_path / 'other/probe/stamp'}" in gone.problem_here()
        assert "has another folder" in replace(probe, stamp="other").problem_here()
        old = replace(probe, versions={"torch": "0.1"})
        assert "expected 0.1" in old.answer("node-1")
        plan.write_text("another plan")
        assert probe.problem_here() == ""  # who edits the plan stops no step
        assert "has another file" in probe.answer("node-1")


def test_a_lock_that_two_nodes_can_hold_is_no_lock(folder: Path) -> None:
    # Nobody holds the lock here, as on storage where locks of another node have no effect.
    with open_probe(folder.with_suffix(".toml"), folder, ()) as probe:
        assert "file lock" in probe.answer("node-1")
        assert probe.unseen(["node-1"], seconds=0) == {"node-1"}
