"""Calibrators of run folders: what is fitted, applied, noted and written."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from messages import assert_says
from run_frames import edit_run, opposed, other_items, rows, write_run

from pact_eval._json import Json
from pact_eval.calibration.fitting import fit_calibrator
from pact_eval.calibration.runs import Members, calibrator_for, check_disjoint, fit_on_run
from pact_eval.calibration.selection import left_out_nll
from pact_eval.calibration.temperatures import (
    UNKNOWN_FAMILIES,
    UNKNOWN_RUN,
    CalibrationWarning,
    neutral_calibrator,
    read_calibrator,
    write_calibrator,
)
from pact_eval.errors import GateError, InputError
from pact_eval.runs.folder import read_run


def members(*families: str, complete: bool = True) -> Members:
    return Members(frozenset(families), frozenset(), complete=complete)


@pytest.mark.parametrize(
    ("names", "shown"), [("abc", "(a, b, c)"), ("dcba", "(a, b, c and 1 more)")]
)
def test_at_most_three_families_are_named(names: str, shown: str) -> None:
    with pytest.raises(InputError) as refused:
        check_disjoint(members(*names), members(*names, "z"))
    assert_says(refused.value, f"on {len(names)} of the {len(names) + 1} families", shown)


@pytest.mark.parametrize("fitted", [True, False])
@pytest.mark.parametrize("applied", [True, False])
def test_both_must_state_every_family(fitted: bool, applied: bool) -> None:
    notes = check_disjoint(members("a", complete=fitted), members("b", complete=applied))
    assert notes == (() if fitted and applied else (UNKNOWN_FAMILIES,))


@pytest.mark.parametrize(
    ("fit", "expected"),
    [
        ({}, Members(frozenset(), frozenset(), complete=False)),
        ({"families": []}, Members(frozenset(), frozenset(), complete=False)),
        ({"families": "abc"}, Members(frozenset(), frozenset(), complete=False)),
        (
            {"families": ["f", 3], "source_families": ["s"]},
            Members(frozenset({"f"}), frozenset({"s"}), complete=True),
        ),
    ],
)
def test_the_members_of_a_file(fit: dict[str, Json], expected: Members) -> None:
    assert Members.of_fit(replace(neutral_calibrator(), fit=fit)) == expected


@pytest.fixture
def fitted_folder(tmp_path: Path) -> Path:
    return write_run(tmp_path / "fitted", rows(1, families=60), arm="a", seed=1)


@pytest.fixture
def holdout(tmp_path: Path) -> Path:
    return write_run(tmp_path / "holdout", other_items(rows(2, families=60)), arm="a", seed=1)


def test_a_fit_on_a_run_against_the_fit_on_its_items(fitted_folder: Path, holdout: Path) -> None:
    fitted = fit_on_run(fitted_folder, [holdout], mode="per-kind", decoding="ensemble")
    direct = fit_calibrator(fitted.items, mode="per-kind")
    assert fitted.choice is None
    assert fitted.calibrator.weights == direct.calibrator.weights
    assert fitted.items.decoding == "ensemble"
    assert [*fitted.effects] == [fitted_folder, holdout]
    assert fitted.effects[fitted_folder].groups[0].after.nll_nats == pytest.approx(direct.nll_after)
    assert fitted.effects[holdout].groups[0].items == len(fitted.items) == 120
    assert fitted.effects[holdout] != fitted.effects[fitted_folder]
    assert fitted.warnings == (CalibrationWarning(str(holdout), UNKNOWN_RUN),)
    assert not fitted.served
    recorded = fitted.calibrator.fit or {}
    assert recorded["chosen"] is None
    run = recorded["run"]
    assert isinstance(run, dict)
    assert (run["arm"], run["seed"], run["data_sha256"]) == ("a", 1, "0" * 64)


def test_members_are_those_of_the_rows_and_of_the_file(fitted_folder: Path) -> None:
    predictions = read_run(fitted_folder).predictions
    own = Members.of_run(predictions)
    assert (
        Members.of_fit(fit_on_run(fitted_folder, mode="scalar", decoding="single").calibrator)
        == own
    )
    family = np.where(np.arange(len(predictions)) == 0, "", predictions.family)
    unnamed = Members.of_run(replace(predictions, family=family))
    assert (own.complete, unnamed.complete) == (True, False)
    assert "" not in unnamed.families
    neutral = neutral_calibrator()
    assert not Members.of_fit(neutral).complete
    assert (
        neutral.apply(predictions.log_probs("single"), predictions)
        == predictions.log_probs("single")
    ).all()


def test_source_families_of_a_holdout_are_a_warning(fitted_folder: Path, tmp_path: Path) -> None:
    frame = other_items(rows(2)).with_columns(source_family=rows(2)["source_family"])
    near = write_run(tmp_path / "near", frame, arm="a", seed=1)
    fitted = fit_on_run(fitted_folder, [near], mode="scalar", decoding="single")
    unknown, shared = fitted.warnings
    assert unknown == CalibrationWarning(str(near), UNKNOWN_RUN)
    assert isinstance(shared, CalibrationWarning)
    assert shared.note.numbers == {"names": [f"s{number}" for number in range(6)]}
    assert_says(str(shared), "in this run: 6 (s0, s1, s2 and 3 more)")


def test_a_calibrator_is_written_into_each_run_that_it_was_applied_to(
    fitted_folder: Path, holdout: Path, tmp_path: Path
) -> None:
    fitted = fit_on_run(fitted_folder, [holdout], mode="scalar", decoding="single")
    own, other = fitted_folder / "calibration.json", holdout / "calibration.json"
    assert fitted.write(force=True) == (own, other)
    assert read_calibrator(own) == read_calibrator(other) == fitted.calibrator
    own.unlink()
    other.unlink()
    elsewhere = tmp_path / "elsewhere.json"
    assert fitted.write(elsewhere, force=True) == (elsewhere, other)
    assert elsewhere.exists()
    assert other.exists()
    assert not own.exists()


def test_nothing_is_written_if_left_out_nll_does_not_fall(tmp_path: Path) -> None:
    """Two source families, one too sure and one too unsure: each is worse off by the other's T."""
    folder = write_run(tmp_path / "opposed", opposed(rows(1, families=60)), arm="a", seed=1)
    fitted = fit_on_run(folder, mode="scalar", decoding="single")
    assert fitted.left_out == left_out_nll(fitted.items, mode="scalar")
    assert not fitted.helps
    with pytest.raises(GateError, match="does not help"):
        fitted.write()
    assert not (folder / "calibration.json").exists()
    (path,) = fitted.write(force=True)
    recorded = (read_calibrator(path).fit or {})["left_out_nll"]
    assert fitted.left_out is not None
    assert recorded == {
        "raw": fitted.left_out.raw,
        "fitted": fitted.left_out.fitted,
        "unit": "source families",
    }


def test_nothing_is_written_if_one_file_is_of_another_fit(
    fitted_folder: Path, holdout: Path
) -> None:
    fitted = fit_on_run(fitted_folder, [holdout], mode="scalar", decoding="single")
    write_calibrator(holdout / "calibration.json", neutral_calibrator())
    with pytest.raises(InputError, match=r"another fit.* Use --overwrite to replace it$"):
        fitted.write(force=True)
    assert not (fitted_folder / "calibration.json").exists()
    fitted.write(overwrite=True, force=True)
    assert read_calibrator(holdout / "calibration.json") == fitted.calibrator


def test_rounded_probabilities_are_noted_for_the_run_that_has_them(
    fitted_folder: Path, holdout: Path
) -> None:
    edit_run(holdout, rounding={"decimals": 2, "views_with_zeros": 0})
    fitted = fit_on_run(fitted_folder, [holdout], mode="scalar", decoding="single")
    (note,) = (note for note in fitted.effects[holdout].notes if note.kind == "RoundedItems")
    predictions = read_run(holdout).predictions
    of_reference = np.exp(predictions.log_probs("single"))[
        np.arange(len(predictions)), predictions.reference
    ]
    censored = int((of_reference == 0).sum())
    assert note.numbers == {"decimals": 2, "censored": censored, "items": 120}
    lost = f"{censored} of 120 correct answers were rounded to 0: they count as 0.005 or less"
    assert_says(str(note), "to 2 decimals", lost if censored else "no correct answer")
    assert fitted.effects[fitted_folder].notes == ()
    edit_run(fitted_folder, censored={"views": 1})
    (note,) = (
        fit_on_run(fitted_folder, mode="scalar", decoding="single").effects[fitted_folder].notes
    )
    assert note.numbers == {"decimals": None, "censored": 0, "items": 120}
    assert_says(str(note), "the log lists only the most probable tokens; 0 of 120")


def test_a_calibrator_read_for_a_run_comes_with_its_notes(
    fitted_folder: Path, holdout: Path
) -> None:
    fitted = fit_on_run(fitted_folder, mode="scalar", decoding="single")
    (path,) = fitted.write(force=True)
    run = read_run(holdout)
    calibrator, notes = calibrator_for(path, run.provenance, run.predictions)
    assert calibrator == fitted.calibrator
    assert notes == (UNKNOWN_RUN,)
    trained = calibrator.with_provenance(trained_on={"families": 3})
    write_calibrator(path, trained)
    unknown, learnt = calibrator_for(path, run.provenance, run.predictions)[1]
    assert unknown == UNKNOWN_RUN
    assert (learnt.kind, learnt.numbers) == ("FittedOnTraining", {"families": 3})
    own = read_run(fitted_folder)
    with pytest.raises(InputError, match="60 of the 60 families"):
        calibrator_for(path, own.provenance, own.predictions)
