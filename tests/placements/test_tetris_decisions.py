"""Decisions as records: what the audit, the encoder and a search by hand say of them."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import pytest
from messages import assert_says
from numpy.typing import NDArray

from pact_eval.api import audit_dataset
from pact_eval.data.files import ROLES
from pact_eval.data.records import read_records
from tetris.decisions import candidates, descriptions
from tetris.game import new_game, pieces
from tetris.letters import released_order
from tetris.record import Recorded, Recording, file_name, record_games
from tetris.search import LOST, Search, search

DATA_NAME = file_name("eval")
RECORDING = Recording(moves=40, most=8, explore=0.2, source="bag", seed=3)


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Recorded]:
    folder = tmp_path_factory.mktemp("tetris")
    return folder, record_games(folder, RECORDING)["eval"]


def positions(n: int) -> Iterator[Search]:
    """Positions of random play on two sequences, which fill and lose boards."""
    for seed in (0, 1):
        rng = np.random.default_rng(seed)
        sequence = pieces("bag", rng=rng)
        game = new_game(sequence)
        for _ in range(n // 2):
            result = search(game)
            yield result
            row = int(rng.integers(len(result.move)))
            game = game.play(result.boards[row], int(result.cleared[row]), next(sequence))
            if game.over:
                game = new_game(sequence)


def features_by_hand(board: NDArray[np.bool_]) -> dict[str, int]:
    """Height, holes and bumps of a board, cell by cell."""
    columns = [board[:, x].tolist() for x in range(10)]
    heights = [max((y + 1 for y in range(20) if cells[y]), default=0) for cells in columns]
    return {
        "height": sum(heights),
        "holes": sum(
            not filled
            for cells, top in zip(columns, heights, strict=True)
            for filled in cells[:top]
        ),
        "bumps": sum(abs(one - other) for one, other in itertools.pairwise(heights)),
    }


def test_descriptions_now_and_then_against_the_boards() -> None:
    """Now from the boards, cell by cell; then from the search: counted above the lowest."""
    for result in positions(20):
        kept = candidates(result, 26)
        boards = [features_by_hand(result.boards[row]) for row in kept.rows]
        lowest = {name: min(board[name] for board in boards) for name in boards[0]}
        goes_on = result.two_ply[kept.rows] > LOST
        later = result.later[kept.rows]
        for at, text in enumerate(descriptions(result, kept)):
            now, then = text.split("; ")
            numbers = {name: min(9, boards[at][name] - lowest[name]) for name in lowest}
            assert now == f"now rows {result.cleared[kept.rows[at]]}, " + words(numbers)
            if not goes_on[at]:
                assert_says(then, "no place", "next piece")
                continue
            rows, holes, height, bumps, _top = later[at] - [0, *later[goes_on, 1:].min(0)]
            after = {"height": min(9, height), "holes": min(9, holes), "bumps": min(9, bumps)}
            assert then == f"then rows {rows}, " + words(after)


def words(numbers: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {number}" for name, number in numbers.items())


def test_no_two_candidates_have_one_description() -> None:
    """In 6 of 200 decisions another answer read like the reference."""
    dropped = 0
    for result in positions(60):
        for most in (6, 8, 26):
            kept = candidates(result, most)
            texts = descriptions(result, kept)
            assert len(set(texts)) == len(texts) == len(kept.rows)
            assert kept.values[kept.best] == result.two_ply.max()
            assert (np.diff(kept.rows) > 0).all()  # canonical order
            assert kept.pruned == len(result.move) - len(kept.rows)
            dropped += min(most, len(result.move)) - len(kept.rows)
    assert dropped > 0


def test_the_released_order_against_a_sort_by_hand() -> None:
    for result in positions(20):
        order = released_order(result)
        everything = sorted(
            range(len(result.move)),
            key=lambda row: (result.cleared[row] == 0, -result.two_ply[row], row),
        )
        assert order.tolist() == everything[:6]


def test_recording_again_gives_the_same_bytes(
    dataset: tuple[Path, Recorded], tmp_path: Path
) -> None:
    folder, done = dataset
    records = read_records(folder / DATA_NAME)
    assert len(records) == done.moves == 40
    assert all(entry.n_choices <= 8 and entry.field.kind == "choice" for entry in records)
    record_games(tmp_path, RECORDING, ROLES)
    assert (tmp_path / DATA_NAME).read_bytes() == (folder / DATA_NAME).read_bytes()
    # The other splits are of other games, so no two files share a source family.
    games = {
        role: {record.source_family for record in read_records(tmp_path / file_name(role))}
        for role in ROLES
    }
    assert all(games.values())
    assert len(set[str]().union(*games.values())) == sum(map(len, games.values()))


def test_the_audit_finds_no_error_but_the_missing_pairs(dataset: tuple[Path, Recorded]) -> None:
    checks = audit_dataset(dataset[0]).checks
    assert sum(check.count("error") for check in checks) == 40
    assert sum(check.counts.get("family-size", 0) for check in checks) == 40
    assert not any("descriptions-alike" in check.counts for check in checks)
