"""Provenance: what is typed, what is kept, what is refused, and the arm of a run behind a link."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from run_frames import edit_run, rows, write_run

from pact_eval._json import Json
from pact_eval.errors import RunError
from pact_eval.evaluation.experiment import Experiment
from pact_eval.preregistration.registration import run_facts
from pact_eval.runs.folder import open_run
from pact_eval.runs.provenance import Provenance


def test_unknown_keys_are_kept_at_every_level(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", rows(1, families=2), arm="pact", seed=17)
    edit_run(folder, cluster={"node": 3}, settings={"new": True})
    value = json.loads((folder / "run.json").read_bytes())
    provenance = open_run(folder).provenance
    assert provenance.recorded["cluster"] == {"node": 3}
    assert provenance.recorded["settings"]["new"] is True
    assert provenance.recorded == value
    assert (provenance.arm, provenance.seed, provenance.data.sha256) == ("pact", 17, "0" * 64)


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        ({"seed": "17"}, "run.json: seed: expected an integer, got"),
        ({"arm": 3}, "run.json: arm: expected text, got"),
        ({"settings": []}, "run.json: settings: expected an object, got"),
        ({"settings": {"data": {"sha256": 1}}}, "settings: data: sha256: expected text, got"),
        ({"engine": {"check": {"largest_logit_difference": "x"}}}, "expected a number, got"),
        ({"wall_seconds": 10**400}, "wall_seconds: expected a number that fits a float"),
        ({"versions": {"torch": 2}}, "versions: torch: expected text, got"),
    ],
)
def test_damaged_types_are_one_clear_error(damage: dict[str, Json], words: str) -> None:
    with pytest.raises(RunError, match=words):
        Provenance.of(damage)


@pytest.mark.posix
def test_the_arm_of_a_run_behind_a_link_is_the_same_everywhere(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "pact-17", rows(1, families=2))
    link = tmp_path / "latest"
    link.symlink_to(folder)
    (run,) = Experiment.read([link]).runs
    assert run.arm == "pact-17"
    assert run_facts(open_run(link)).arm == "pact-17"
