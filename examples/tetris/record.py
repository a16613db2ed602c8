"""Datasets of decisions: positions on the way of the two-ply search, with random moves between."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from pact_eval._json import Json
from pact_eval.data.manifest import write_manifest
from tetris.decisions import Candidates, candidates, record_json
from tetris.game import Game, Source, new_game, pieces
from tetris.search import Search, search

DATA_NAME: Final = "decisions-eval.jsonl"
_LONGEST: Final = 60


@dataclass(frozen=True)
class Recorded:
    """Content of a dataset.

    Attributes:
        moves: decisions written.
        games: games that they are from.
        legal: legal placements of all decisions.
        pruned: those that are not among the candidates.
    """

    moves: int
    games: int
    legal: int
    pruned: int


def record_games(
    folder: Path, *, moves: int, most: int, explore: float, source: Source, seed: int
) -> Recorded:
    """Write decisions as a dataset of one evaluation file, with its manifest.

    A game plays the search's choice, and now and then a random candidate, so that its boards are
    not only those of a perfect player. Decisions without a choice, or whose two best candidates
    have equal values, are played but not recorded: they have no single reference.

    Args:
        folder: written to; made if it does not exist.
        moves: decisions to record.
        most: candidates per decision, 2 to 26.
        explore: share of random placements, 0 to 1.
        source: how pieces are drawn.
        seed: seed of pieces and random placements.
    """
    rng = np.random.default_rng(seed)
    rows: list[Json] = []
    games, legal, pruned = 0, 0, 0
    while len(rows) < moves:
        name = f"tetris-{seed}-{games}"
        games += 1
        for game, result, kept in _positions(rng, source, most, explore):
            ordered = np.sort(kept.values)
            if len(ordered) > 1 and ordered[-1] - ordered[-2] > 1e-9:
                move = f"{name}-{game.placed:03d}"
                rows.append(record_json(game, result, kept, name=move, sequence=name))
                legal += len(result.move)
                pruned += kept.pruned
            if len(rows) == moves or game.placed == _LONGEST:
                break
    folder.mkdir(parents=True, exist_ok=True)
    lines = [json.dumps(row) + "\n" for row in rows]
    (folder / DATA_NAME).write_text("".join(lines), "utf-8", newline="\n")
    write_manifest(folder)
    return Recorded(len(rows), games, legal, pruned)


def _positions(
    rng: np.random.Generator, source: Source, most: int, explore: float
) -> Iterator[tuple[Game, Search, Candidates]]:
    """Play one game and yield every position with its search and candidates."""
    sequence = pieces(source, rng=rng)
    game = new_game(sequence)
    while not game.over:
        result = search(game)
        kept = candidates(result, most)
        yield game, result, kept
        random = rng.random() < explore
        row = int(rng.choice(kept.rows) if random else kept.rows[kept.best])
        game = game.play(result.boards[row], int(result.cleared[row]), next(sequence))
