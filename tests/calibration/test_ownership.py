"""Whose calibrator is it: identities, allowances and files that may be replaced."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from messages import assert_says

from pact_eval._choices import Allowance
from pact_eval._json import Json
from pact_eval.calibration.runs import check_decoding, check_owner, refuse_overwriting
from pact_eval.calibration.temperatures import (
    UNKNOWN_RUN,
    Calibrator,
    Weights,
    neutral_calibrator,
    read_calibrator,
    write_calibrator,
)
from pact_eval.errors import InputError
from pact_eval.runs.identity import RunIdentity
from pact_eval.runs.provenance import Provenance

RUN: dict[str, Json] = {"arm": "pact", "seed": 18, "adapter_sha256": "a" * 64}
FIT: dict[str, Json] = {
    "run": RUN,
    "decoding": "single",
    "families": ["f1", "f2"],
    "source_families": ["s1"],
}


def run_of(adapter: str | None, base: str | None = "b" * 64) -> Provenance:
    settings: dict[str, Json] = {
        "adapter": None if adapter is None else {"sha256": adapter},
        "base": None if base is None else {"sha256": base},
    }
    return Provenance.of({"settings": settings})


def test_the_same_model_owns_it_without_a_note() -> None:
    here = run_of("a" * 64)
    assert check_owner(RunIdentity.of(here), here, allow=(), where="run") == ()


@pytest.mark.parametrize("fitted", [RunIdentity(), RunIdentity(prompts_sha256="c" * 64)])
def test_a_fit_or_run_without_a_model_is_noted(fitted: RunIdentity) -> None:
    unknown = run_of(None, None)
    model = run_of("a" * 64)
    assert check_owner(fitted, model, allow=(), where="run") == (UNKNOWN_RUN,)
    assert check_owner(RunIdentity.of(model), unknown, allow=(), where="run") == (UNKNOWN_RUN,)
    assert check_owner(RunIdentity.of(model), model, allow=(), where="run") == ()


def test_differences_are_refused_unless_each_is_allowed() -> None:
    fitted, here = RunIdentity.of(run_of("a" * 64, "b" * 64)), run_of("e" * 64, "f" * 64)
    adapter: tuple[Allowance, ...] = ("other-adapter",)
    both: tuple[Allowance, ...] = ("other-base", "other-adapter")
    with pytest.raises(InputError) as refused:
        check_owner(fitted, here, allow=(), where="run B")
    assert_says(
        refused.value,
        "run B: the calibrator belongs to another run",
        "fitted on aaaaaaaaaaaa, applied to eeeeeeeeeeee",
        "fitted on bbbbbbbbbbbb, applied to ffffffffffff",
        "--allow other-adapter --allow other-base",
    )
    with pytest.raises(InputError) as partly:
        check_owner(fitted, here, allow=adapter, where="run B")
    assert "other-adapter" not in str(partly.value)
    assert_says(partly.value, "calibrator", "base model", "--allow other-base")
    (note,) = check_owner(fitted, here, allow=both, where="run B")
    assert (note.kind, note.numbers) == ("OtherRun", {"facts": ["adapter", "base"]})
    assert str(note) == "fitted on a run of another adapter and another base, as allowed"


@pytest.mark.parametrize("recorded", ["", None, 3, "single"])
def test_only_another_recorded_decoding_is_refused(recorded: Json) -> None:
    calibrator = neutral_calibrator().with_provenance(decoding=recorded)
    other: tuple[Allowance, ...] = ("other-base",)
    check_decoding(calibrator, "single", allow=(), where="run")
    if recorded == "single":
        with pytest.raises(InputError) as refused:
            check_decoding(calibrator, "ensemble", allow=other, where="run")
        assert_says(refused.value, "decoding: fitted on single, applied to ensemble")
        allowed: tuple[Allowance, ...] = ("other-decoding",)
        check_decoding(calibrator, "ensemble", allow=allowed, where="run")


def hot(**changes: Json) -> Calibrator:
    return Calibrator("scalar", Weights((1.0, 1.0, 1.0)), {**FIT, **changes})


@pytest.mark.parametrize(
    ("before", "may_replace"),
    [
        ({"mode": "per-kind", "items": 7}, True),
        ({"decoding": "ensemble"}, False),
        ({"families": ["f1"]}, False),
        ({"source_families": ["s2"]}, False),
        ({"run": {**RUN, "seed": 19}}, False),
        ({"run": None}, False),
    ],
)
def test_a_later_fit_on_the_same_items_replaces_an_earlier_one(
    tmp_path: Path, before: dict[str, Any], may_replace: bool
) -> None:
    path = tmp_path / "calibration.json"
    cold = Calibrator("scalar", Weights((0.2, 0.2, 0.2)), {**FIT, **before})
    write_calibrator(path, cold)
    if may_replace:
        refuse_overwriting(path, hot())
    else:
        with pytest.raises(InputError) as refused:
            refuse_overwriting(path, hot())
        assert_says(refused.value, str(path), "another fit", "--overwrite", "--out")
    # The same weights say the same, whatever they were fitted on.
    refuse_overwriting(path, Calibrator("scalar", cold.weights, {"run": {"seed": 3}}))
    assert read_calibrator(path) == cold


def test_fits_without_a_recorded_run_are_not_the_same(tmp_path: Path) -> None:
    path = tmp_path / "calibration.json"
    write_calibrator(path, Calibrator("scalar", Weights((0.2, 0.2, 0.2))))
    with pytest.raises(InputError) as refused:
        refuse_overwriting(path, Calibrator("scalar", Weights((0.3, 0.3, 0.3))))
    assert_says(refused.value, "its run is not recorded")
    # Biases of kinds are weights too, and so is the form.
    for other in (
        Calibrator("scalar", Weights((0.2, 0.2, 0.3))),
        Calibrator("per-kind", Weights((0.2, 0.2, 0.2))),
    ):
        with pytest.raises(InputError):
            refuse_overwriting(path, other)


def test_the_owner_of_a_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "calibration.json"
    write_calibrator(path, hot())
    with pytest.raises(InputError) as refused:
        refuse_overwriting(path, Calibrator("scalar", Weights((0.3, 0.3, 0.3))))
    assert_says(
        refused.value, "(arm pact, seed 18, decoding single, adapter aaaaaaaaaaaa...)", "nothing"
    )
    write_calibrator(path, hot(run={"seed": 0}, decoding=None))
    with pytest.raises(InputError) as partly:
        refuse_overwriting(path, Calibrator("scalar", Weights((0.3, 0.3, 0.3))))
    assert_says(partly.value, "another fit (seed 0)")


@pytest.mark.parametrize("text", ["{}", "not JSON", ""])
def test_a_file_that_is_no_calibrator_is_not_replaced(tmp_path: Path, text: str) -> None:
    path = tmp_path / "calibration.json"
    refuse_overwriting(path, hot())
    path.write_text(text, "utf-8")
    with pytest.raises(InputError, match="another file"):
        refuse_overwriting(path, hot())
