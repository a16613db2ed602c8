from __future__ import annotations

import polars as pl
import pytest

from pact_eval._choices import Allowance
from pact_eval.calibration.fitting import fit_calibrator
from pact_eval.calibration.likelihood import CalibrationItems
from pact_eval.calibration.notes import UNKNOWN_FAMILIES
from pact_eval.calibration.runs import Members, check_decoding, check_disjoint
from pact_eval.calibration.temperatures import neutral_calibrator
from pact_eval.errors import InputError
from pact_eval.runs.predictions import Predictions


def run(families: list[str], source: str = "s1") -> Predictions:
    n = len(families)
    return Predictions.from_frame(
        pl.DataFrame(
            {
                "id": [f"{family}-{index}" for index, family in enumerate(families)],
                "family": families,
                "source_family": source,
                "domain": "d",
                "kind": "boolean",
                "variant": "base",
                "reference": [index % 2 for index in range(n)],
                "n_choices": 2,
                "view": 0,
                "code_order": [[0, 1]] * n,
                "logits": [[0.0, 2.0]] * n,
                "prompt_tokens": 300,
                "answer_mass": 1.0,
            }
        )
    )


def test_the_families_of_a_calibrator_are_in_its_file() -> None:
    fitted = run(["f1", "f1", "f2"])
    items = CalibrationItems.from_predictions(fitted, "ensemble")
    calibrator = fit_calibrator(items, mode="scalar").calibrator
    assert Members.of_fit(calibrator) == Members.of_run(fitted)
    with pytest.raises(InputError, match="would flatter it"):
        check_disjoint(Members.of_fit(calibrator), Members.of_run(fitted))


def test_source_families_that_meet_are_a_warning() -> None:
    fitted, applied = run(["f1", "f2"]), run(["f3", "f4"])
    (note,) = check_disjoint(Members.of_run(fitted), Members.of_run(applied))
    assert (note.kind, note.numbers) == ("SharedSourceFamilies", {"names": ["s1"]})


def test_families_that_are_unknown_are_a_warning() -> None:
    applied = Members.of_run(run(["f3", "f4"], "s2"))
    unnamed = Members.of_run(run(["", "f1"], ""))
    for fitted in (Members.of_fit(neutral_calibrator()), unnamed):
        assert check_disjoint(fitted, applied) == (UNKNOWN_FAMILIES,)
    assert check_disjoint(unnamed, unnamed_but_other())[0] == UNKNOWN_FAMILIES


def unnamed_but_other() -> Members:
    return Members.of_run(run(["", "f9"], ""))


def test_another_decoding_is_refused_unless_it_is_allowed() -> None:
    items = CalibrationItems.from_predictions(run(["f1", "f1", "f2"]), "ensemble")
    calibrator = fit_calibrator(items, mode="scalar").calibrator
    check_decoding(calibrator, "ensemble", allow=(), where="the run")
    allowed: tuple[Allowance, ...] = ("other-decoding",)
    check_decoding(calibrator, "single", allow=allowed, where="the run")
    check_decoding(neutral_calibrator(), "single", allow=(), where="the run")
    with pytest.raises(InputError, match="the run: .*another run"):
        check_decoding(calibrator, "single", allow=(), where="the run")


def test_a_calibrator_decodes_a_run() -> None:
    predictions = run(["f1", "f2"])
    log_probs = neutral_calibrator().decode(predictions, "single")
    assert (log_probs == predictions.log_probs("single")).all()
