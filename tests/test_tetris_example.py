"""The Tetris example: boards by hand, a search by its definition, and what the audit says."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pact_eval.api import audit_dataset
from pact_eval.data.splits import write_manifest
from pact_eval.experiments.plan import check_plan

EXAMPLES = Path(__file__).parents[1] / "examples"


@pytest.fixture(scope="module")
def tetris() -> Any:
    spec = importlib.util.spec_from_file_location("tetris_example", EXAMPLES / "tetris.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look for their module
    spec.loader.exec_module(module)
    return module


def test_placements_on_an_empty_board_against_known_counts(tetris: Any) -> None:
    empty = np.zeros((20, 10), dtype=bool)
    counts = {piece: len(list(tetris.drops(empty, piece))) for piece in tetris.SHAPES}
    assert counts == {"I": 17, "O": 9, "T": 34, "S": 17, "Z": 17, "J": 34, "L": 34}


def test_a_cleared_row_against_a_board_drawn_by_hand(tetris: Any) -> None:
    board = np.zeros((20, 10), dtype=bool)
    board[0, :9] = True
    board[1, 0] = True
    drops = {name: (after, rows) for name, after, rows in tetris.drops(board, "I")}
    after, rows = drops["r1c9"]
    assert rows == 1
    assert np.argwhere(after).tolist() == [[0, 0], [0, 9], [1, 9], [2, 9]]
    assert tetris.features(after, rows).tolist() == [1, 0, 4, 4, 3]


def test_the_released_order_puts_rows_first(tetris: Any) -> None:
    board = np.zeros((20, 10), dtype=bool)
    board[:2, :9] = True
    found = tetris.search(board, "I", "O")
    order = tetris.released_order(found)
    assert [placement.rows > 0 for placement in order] == [True] + [False] * 5
    values = [placement.value for placement in order[1:]]
    assert values == sorted(values, reverse=True)


def test_the_audit_finds_no_error_but_the_missing_pairs(tetris: Any, tmp_path: Path) -> None:
    for seed, name in enumerate(("train", "holdout")):
        rng = np.random.default_rng(seed)
        tetris.write_decisions(tmp_path / f"{name}.jsonl", 8, rng=rng)
    write_manifest(tmp_path)
    checks = audit_dataset(tmp_path, only=["hashes", "schema", "families"]).checks
    assert sum(check.count("error") for check in checks) == 16
    assert sum(check.counts.get("family-size", 0) for check in checks) == 16
    assert not any("descriptions-alike" in check.counts for check in checks)


def test_the_plan_is_valid(tmp_path: Path) -> None:
    text = (EXAMPLES / "tetris.toml").read_text("utf-8")
    plan = tmp_path / "plan.toml"
    plan.write_text(text.replace("../fixtures", str(EXAMPLES.parent / "fixtures")), "utf-8")
    checked, problems = check_plan(plan)
    assert not problems
    assert [training.name for training in checked.trainings()] == [
        "one_order-17",
        "one_order-18",
        "two_orders-17",
        "two_orders-18",
    ]


@pytest.mark.slow
def test_random_placements_against_the_page_of_the_example(tetris: Any) -> None:
    page = (EXAMPLES / "tetris.md").read_text("utf-8")
    policy = tetris.POLICIES["random placement"]
    games = np.array([tetris.play(policy, number, 400)[:3] for number in range(20)])
    assert " | ".join(["random placement", *map(tetris.mean_of, games.T)]) in page


def test_the_interval_of_a_mean_against_a_hand_computation(tetris: Any) -> None:
    """Of 1, 2 and 3: the mean is 2, the deviation 1, and t of two degrees of freedom 4.3027."""
    assert tetris.mean_of(np.array([1.0, 2.0, 3.0])) == "2.0 [-0.5, 4.5]"
