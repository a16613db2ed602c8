"""Datasets of decisions: positions on the way of the two-ply search, with random moves between."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from pact_eval._json import Json
from pact_eval.data.files import ROLES, Role
from pact_eval.data.manifest import write_manifest
from tetris.decisions import Candidates, Split, candidates, record_json
from tetris.game import Game, Source, new_game, pieces
from tetris.search import Search, search

_LONGEST: Final = 60


@dataclass(frozen=True)
class Recording:
    """How decisions are recorded.

    Attributes:
        moves: decisions of each file.
        most: candidates per decision, 2 to 26.
        explore: share of random placements, 0 to 1.
        source: how pieces are drawn.
        seed: seed of pieces and random placements.
    """

    moves: int
    most: int
    explore: float
    source: Source
    seed: int


@dataclass(frozen=True)
class Recorded:
    """Content of a file of decisions.

    Attributes:
        moves: decisions written.
        games: games that they are from; each is a source family.
        legal: legal placements of all decisions.
        pruned: those that are not among the candidates.
    """

    moves: int
    games: int
    legal: int
    pruned: int


def file_name(role: Role) -> str:
    """Return the name of the file of a role.

    Examples:
        >>> file_name("eval")
        'decisions-eval.jsonl'
    """
    return f"decisions-{role}.jsonl"


def record_games(
    folder: Path, recording: Recording, roles: Sequence[Role] = ("eval",)
) -> dict[Role, Recorded]:
    """Write decisions as a dataset of one file per role, with its manifest.

    A game plays the search's choice, and now and then a random candidate, so that its boards are
    not only those of a perfect player. Decisions without a choice, or whose two best candidates
    have equal values, are played but not recorded: they have no single reference. No two files have
    a game in common.

    Args:
        folder: written to; made if it does not exist.
        recording: how to record.
        roles: the files to write.
    """
    folder.mkdir(parents=True, exist_ok=True)
    recorded = {role: _record_file(folder, recording, role) for role in roles}
    write_manifest(folder)
    return recorded


def _record_file(folder: Path, how: Recording, role: Role) -> Recorded:
    # The games of the evaluation file are the same with and without other files. From 1 on, since
    # (17, 0) draws what 17 draws.
    seed = how.seed if role == "eval" else (how.seed, 1 + ROLES.index(role))
    rng, prefix = np.random.default_rng(seed), "" if role == "eval" else f"{role}-"
    split: Split = "validation" if role == "eval" else "train"
    rows: list[Json] = []
    games, legal, pruned = 0, 0, 0
    while len(rows) < how.moves:
        name = f"tetris-{prefix}{how.seed}-{games}"
        games += 1
        for game, result, kept in _positions(rng, how):
            ordered = np.sort(kept.values)
            if len(ordered) > 1 and ordered[-1] - ordered[-2] > 1e-9:
                move = f"{name}-{game.placed:03d}"
                rows.append(record_json(game, result, kept, name=move, sequence=name, split=split))
                legal += len(result.move)
                pruned += kept.pruned
            if len(rows) == how.moves or game.placed == _LONGEST:
                break
    lines = [json.dumps(row) + "\n" for row in rows]
    (folder / file_name(role)).write_text("".join(lines), "utf-8", newline="\n")
    return Recorded(len(rows), games, legal, pruned)


def _positions(
    rng: np.random.Generator, how: Recording
) -> Iterator[tuple[Game, Search, Candidates]]:
    """Play one game and yield every position with its search and candidates."""
    sequence = pieces(how.source, rng=rng)
    game = new_game(sequence)
    while not game.over:
        result = search(game)
        kept = candidates(result, how.most)
        yield game, result, kept
        random = rng.random() < how.explore
        row = int(rng.choice(kept.rows) if random else kept.rows[kept.best])
        game = game.play(result.boards[row], int(result.cleared[row]), next(sequence))
