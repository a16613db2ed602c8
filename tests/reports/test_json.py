"""What results become in JSON, by hand."""

from __future__ import annotations

import json

import numpy as np

from pact_eval.metrics import reliability
from pact_reports.writers.json import to_json


def test_arrays_are_lists_of_numbers() -> None:
    value = to_json({"a": np.array([[0.5, np.nan], [np.inf, 1.0]]), "b": np.array(["x"])})
    assert value == {"a": [[0.5, None], [None, 1.0]], "b": ["x"]}


def test_numbers_of_numpy_are_numbers() -> None:
    assert to_json([np.int64(3), np.float64("nan"), np.bool_(True)]) == [3, None, True]


def test_results_with_arrays_are_json() -> None:
    bins = reliability([0.75], [True], bins=2)
    value = json.loads(json.dumps(to_json(bins), allow_nan=False))
    assert value["edges"] == [0.0, 0.5, 1.0]
    assert value["mean_confidence"] == [None, 0.75]
