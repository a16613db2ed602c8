from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from calibration.simulated import constant, simulate

from pact_eval._json import Json
from pact_eval.calibration.fitting import fit_calibrator
from pact_eval.calibration.temperatures import (
    ItemFacts,
    calibrator_as_shipped,
    calibrator_from_json,
    calibrator_sha256,
    calibrator_to_json,
    neutral_calibrator,
    read_calibrator,
    write_calibrator,
)
from pact_eval.errors import InputError, TamperedError
from pact_eval.runs.provenance import Provenance

PUBLISHED: dict[str, Any] = {
    "mode": "contextual",
    "weights": {
        "bias": [1.002400279045105, 0.5413248538970947, 0.5413248538970947],
        "log_choices": -0.42360827326774597,
        "log_tokens": -0.4758784770965576,
    },
}


def test_the_published_form_is_read() -> None:
    calibrator = calibrator_from_json(PUBLISHED)
    assert calibrator.mode == "contextual"
    assert calibrator.weights.bias[0] == 1.002400279045105
    # bias[0] serves all kinds.
    kinds = calibrator.temperatures(ItemFacts(["choice", "boolean", "score"], [3] * 3, [500.0] * 3))
    assert len(set(kinds.tolist())) == 1
    assert calibrator.fit is None
    assert calibrator_from_json(PUBLISHED | {"records": 226}).weights == calibrator.weights


def test_a_file_comes_back_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "calibrator.json"
    fit = fit_calibrator(simulate(80, np.random.default_rng(2), constant(2.0)), mode="contextual")
    written = fit.calibrator.with_provenance(run={"arm": "pact", "seed": 18})
    write_calibrator(path, written)
    assert read_calibrator(path) == written
    assert [entry.name for entry in tmp_path.iterdir()] == ["calibrator.json"]
    raw = json.loads(path.read_text(encoding="utf-8"))
    assert list(raw) == ["format", "mode", "weights", "fit", "sha256"]
    assert raw["format"] == "pact-calibrator-2"
    assert raw["fit"]["items"] == 80
    assert raw["fit"]["families"] == sorted(f"family-{index}" for index in range(40))


def test_edited_weights_are_told(tmp_path: Path) -> None:
    # A temperature of 1.0 that was edited to 0.1 moved every NLL, without a word.
    path = tmp_path / "c.json"
    write_calibrator(path, neutral_calibrator())
    edited = json.loads(path.read_text())
    edited["weights"]["bias"] = [0.1, 0.1, 0.1]
    path.write_text(json.dumps(edited))
    with pytest.raises(TamperedError, match=r"c\.json: changed since"):
        read_calibrator(path)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"mode": "vector"},
            "expected one of scalar, per-kind, per-question, contextual, got v",
        ),
        ({"mode": 3}, "mode: expected one of .* got an integer"),
        ({"weights": [1, 2]}, "weights: expected .* got a list"),
        ({"weights": {"bias": [0, 0, 0]}}, "weights: expected log_choices, log_tokens, found none"),
        ({"format": "pact-calibrator-1"}, 'expected "pact-calibrator-2", got "pact-calibrator-1"'),
        ({"format": "pact-calibrator-2"}, "expected sha256, found none"),
        ({"format": "pact-calibrator-2", "notes": 1}, "expected only .*, sha256, fit, got notes"),
        ({"format": "pact-calibrator-2", "fit": 1}, "fit: expected an object, got an integer"),
        ({"mode": "scalar"}, "mode scalar has no slopes"),
        ({"mode": "per-question"}, "weights: expected questions with mode per-question"),
    ],
)
def test_what_is_no_calibrator_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        calibrator_from_json(PUBLISHED | changes, "c.json")
    assert str(caught.value).startswith("c.json: ")


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("bias", [0.0, 0.0], r"weights: bias: expected a list of 3 values, got 2 values"),
        ("bias", 0.5, "weights: bias: expected a list of 3 values, got a number"),
        ("bias", [0.0, True, 0.0], r"weights: bias\[1\]: expected a number, got true/false"),
        ("log_choices", None, "weights: log_choices: expected a number, got null"),
        ("questions", {"a": 1.0}, "weights: expected no questions with mode contextual"),
        ("questions", [1.0], "weights: questions: expected an object, got a list"),
        ("questions", {"a": "1"}, "weights: questions: a: expected a number, got text"),
        ("questions", {"a": 10**400}, "weights: questions: a: expected a number that fits a float"),
        ("log_tokens", 10**400, "weights: log_tokens: expected a number that fits a float"),
    ],
)
def test_weights_that_are_none_are_refused(name: str, value: Any, message: str) -> None:
    weights = PUBLISHED["weights"] | {name: value}
    with pytest.raises(InputError, match=message):
        calibrator_from_json(PUBLISHED | {"weights": weights})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "not valid JSON"),
        ("[]", "expected an object, got a list"),
        ('{"mode": "scalar", "mode": "scalar"}', "duplicate key"),
        ('{"mode": "scalar"}', "expected weights, found none"),
        ('{"mode": "scalar", "weights": {"bias": [NaN, 0, 0]}}', "finite number, got NaN"),
        ("\ufeff{}", "byte order mark"),
    ],
)
def test_files_that_are_no_calibrators_are_refused(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "c.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=message) as caught:
        read_calibrator(path)
    assert str(caught.value).startswith(str(path))


def test_files_that_cannot_be_read_or_written(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        read_calibrator(tmp_path / "none.json")
    with pytest.raises(InputError, match="cannot be written"):
        write_calibrator(tmp_path / "none" / "c.json", neutral_calibrator())


def shipped(temperatures: dict[str, float], name: str = "decision-template") -> Provenance:
    contract: dict[str, Json] = {"name": name, "temperatures": {**temperatures}}
    return Provenance.of({"settings": {"contract": contract}})


def test_shipped_temperatures_by_kind() -> None:
    calibrator = calibrator_as_shipped(shipped({"score": 3.0, "choice": 0.001}), "run")
    temperatures = calibrator.temperatures(ItemFacts(["choice", "boolean", "score"], [3, 2, 4]))
    assert temperatures == pytest.approx([0.001, 1.0, 3.0])
    assert temperatures[1] == 1.0
    assert (calibrator.mode, calibrator.name) == ("per-kind", "as shipped")


def test_only_templates_ship_temperatures_and_none_below_the_floor() -> None:
    with pytest.raises(InputError, match=r"run: expected temperatures of 0.001 or more, .*0\.0009"):
        calibrator_as_shipped(shipped({"score": 0.0009, "choice": 2.0}), "run")
    with pytest.raises(InputError, match="run: .* contract nimble"):
        calibrator_as_shipped(shipped({}, "nimble"), "run")
    with pytest.raises(InputError, match="contract of an import"):
        calibrator_as_shipped(Provenance.of({}), "run")


def test_the_hash_is_that_of_the_file() -> None:
    calibrator = neutral_calibrator("per-kind")
    content = calibrator_to_json(calibrator)
    assert content["sha256"] == calibrator_sha256(calibrator)
    assert content["fit"] == {}
    again = calibrator_from_json(content)
    assert again.fit is None
    assert again == calibrator


@pytest.mark.parametrize("name", ["fit", "sha256"])
def test_a_released_file_without_its_format_was_changed(name: str) -> None:
    with pytest.raises(TamperedError, match=r'c\.json: .*no "format"'):
        calibrator_from_json(PUBLISHED | {name: {}}, "c.json")


def test_the_fit_of_the_published_form_is_none_of_ours() -> None:
    with pytest.raises(InputError, match="expected mode, weights, found none"):
        calibrator_from_json({})
    weights = PUBLISHED["weights"] | {"more": 1.0}
    with pytest.raises(
        InputError,
        match="weights: expected only bias, log_choices, log_tokens, questions, got more",
    ):
        calibrator_from_json(PUBLISHED | {"weights": weights})
