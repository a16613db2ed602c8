"""Positions as Choice records: each placement becomes one answer with a description.

A description says how the board would look after the placement and after the best placement of the
next piece. Heights, holes and bumps are counted from the best candidate, so 0 is best, and 9 stands
for 9 or more: the tiny base model reads digits, not large numbers. The answers are in the order of
the placements, by rotation and column, never by rank.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from pact_eval._json import Json
from pact_eval.data.records import Record, parse_record
from tetris.game import Game, placements
from tetris.search import Search

MOST_CANDIDATES: Final = 26
"""One letter each."""

INSTRUCTIONS: Final = "Which placement has the lowest height, holes and bumps?"


@dataclass(frozen=True)
class Candidates:
    """The placements of a position that the model may choose from, C of them.

    Attributes:
        rows: shape (C,); rows of the `Search`, ascending.
        values: shape (C,); two-ply value of each, the reward.
        best: index of the highest value; the first of equal ones.
        pruned: legal placements that are not shown.
    """

    rows: NDArray[np.int64]
    values: NDArray[np.float64]
    best: int
    pruned: int


def candidates(result: Search, most: int = MOST_CANDIDATES) -> Candidates:
    """Keep the placements of the highest two-ply value, in the order of the search.

    Args:
        result: the search of a position.
        most: placements to keep, at most 26.
    """
    ranked = np.argsort(-result.two_ply, kind="stable")
    rows = np.sort(ranked[:most])
    values = result.two_ply[rows]
    return Candidates(rows, values, int(values.argmax()), len(ranked) - len(rows))


def descriptions(result: Search, kept: Candidates) -> list[str]:
    """Describe each candidate: rows cleared, then excess over the best candidate."""
    later = result.later[kept.rows]
    excess = np.minimum(later[:, 1:] - later[:, 1:].min(0), 9)
    return [
        f"height {height}, holes {holes}, bumps {bumps}"
        for holes, height, bumps, _top in excess.tolist()
    ]


def record_json(game: Game, result: Search, kept: Candidates, *, name: str, sequence: str) -> Json:
    """Return the decision as one line of a dataset file.

    Args:
        game: the position.
        result: its search.
        kept: its candidates; two or more.
        name: id of the record.
        sequence: name of the piece sequence, the source family of the record.
    """
    moves = placements(game.piece)
    keys = [
        f"r{moves.rotation[move]}c{moves.column[move]}" for move in result.move[kept.rows].tolist()
    ]
    criteria: dict[str, Json] = dict(zip(keys, descriptions(result, kept), strict=True))
    question: Json = {"type": "choice", "instructions": INSTRUCTIONS, "criteria": criteria}
    return {
        "id": name,
        "family": name,
        "source_family": sequence,
        "split": "validation",
        "domain": "tetris",
        "variant": "base",
        "input": {
            "state": f"Piece {game.piece}, next {game.upcoming}.",
            "questions": {"decision": question},
        },
        "reference": {"target": keys[kept.best], "source": "two-ply search"},
        "provenance": {"source_id": sequence, "piece": game.placed, "pruned": kept.pruned},
    }


def record(game: Game, result: Search, kept: Candidates, *, name: str = "move") -> Record:
    """Return the decision as a `Record`, for the encoder."""
    return parse_record(record_json(game, result, kept, name=name, sequence="live"))
