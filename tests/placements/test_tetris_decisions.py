"""Decisions as records: what the audit, the encoder and a search by hand say of them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from pact_eval.api import audit_dataset
from pact_eval.data.records import read_records
from tetris.decisions import candidates, descriptions, record
from tetris.evaluate import BASELINES, play_games
from tetris.game import new_game, pieces
from tetris.record import DATA_NAME, Recorded, record_games
from tetris.search import search


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Recorded]:
    folder = tmp_path_factory.mktemp("tetris")
    done = record_games(folder, moves=40, most=8, explore=0.2, source="bag", seed=3)
    return folder, done


def test_pruning_keeps_the_highest_values_in_canonical_order() -> None:
    game = new_game(pieces("bag", rng=np.random.default_rng(0)))
    result = search(game)
    kept = candidates(result, 5)
    assert sorted(kept.values) == sorted(result.two_ply)[-5:]
    assert (np.diff(kept.rows) > 0).all()
    assert kept.values[kept.best] == result.two_ply.max()
    assert kept.pruned == len(result.move) - 5


def test_descriptions_are_distances_from_the_best_candidate() -> None:
    game = new_game(pieces("bag", rng=np.random.default_rng(0)))
    result = search(game)
    kept = candidates(result, 26)
    later = result.later[kept.rows]
    for row, text in enumerate(descriptions(result, kept)):
        _rows, holes, height, bumps, _top = np.minimum(later[row] - later.min(0), 9).tolist()
        assert text == f"height {height}, holes {holes}, bumps {bumps}"


def test_a_dataset_is_read_as_choice_records(dataset: tuple[Path, Recorded]) -> None:
    folder, done = dataset
    records = read_records(folder / DATA_NAME)
    pruned = [read_record.provenance["pruned"] for read_record in records]
    assert len(records) == done.moves == 40
    assert sum(int(count) for count in pruned if isinstance(count, int)) == done.pruned
    assert all(
        read_record.n_choices <= 8 and read_record.field.kind == "choice" for read_record in records
    )


def test_recording_again_gives_the_same_bytes(
    dataset: tuple[Path, Recorded], tmp_path: Path
) -> None:
    folder, _ = dataset
    record_games(tmp_path, moves=40, most=8, explore=0.2, source="bag", seed=3)
    assert (tmp_path / DATA_NAME).read_bytes() == (folder / DATA_NAME).read_bytes()


def test_the_recorded_record_is_the_one_that_a_policy_is_asked(
    dataset: tuple[Path, Recorded],
) -> None:
    folder, _ = dataset
    first = read_records(folder / DATA_NAME)[0]
    sequence = pieces("bag", rng=np.random.default_rng(3))
    game = new_game(sequence)
    asked_record = record(game, search(game), candidates(search(game), 8))
    assert asked_record.field.instructions == first.field.instructions
    assert json.dumps(asked_record.state).startswith('"Piece ')


def test_the_audit_finds_no_error_but_the_missing_pairs(dataset: tuple[Path, Recorded]) -> None:
    checks = audit_dataset(dataset[0]).checks
    assert sum(check.count("error") for check in checks) == 40
    assert sum(check.counts.get("family-size", 0) for check in checks) == 40


def test_the_two_ply_search_beats_chance_on_the_same_sequences() -> None:
    played = {
        name: play_games(BASELINES[name], games=2, cap=60, most=8, source="bag")
        for name in ("random", "two-ply")
    }
    assert (played["two-ply"].placed == 60).all()
    assert (played["two-ply"].top_picks == 1).all()
    assert (played["random"].placed < 60).all()
    assert (played["two-ply"].points > played["random"].points).all()
