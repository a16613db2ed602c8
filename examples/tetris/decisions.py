"""Positions as Choice records: each placement becomes one answer with a description.

A description has the rows and the features of the board now, after the placement, and then, after
the best placement of the next piece. Rows are counted as they are. Heights, holes and bumps are
counted above the lowest number of any candidate, so 0 is best, and 9 stands for 9 or more: the tiny
base model reads digits, not large numbers. No two candidates of a decision have the same
description. The answers are in the order of the placements, by rotation and column, never by rank.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from pact_eval._json import Json
from pact_eval.data.records import Record, parse_record
from tetris.game import Game, placements
from tetris.search import LOST, Search

Split = Literal["train", "validation"]
"""What a record says of its file."""

MOST_CANDIDATES: Final = 26
"""One letter each."""

INSTRUCTIONS: Final = "Which placement has the lowest height, holes and bumps after both pieces?"


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

    Of several placements with one description, the one of the highest value is kept, and the first
    of equal ones. So no other answer reads like the reference.

    Args:
        result: the search of a position.
        most: placements to keep, at most 26.
    """
    ranked = np.argsort(-result.two_ply, kind="stable")
    first_of_text: dict[str, int] = {}
    for row, text in zip(ranked[:most], _texts(result, ranked[:most]), strict=True):
        first_of_text.setdefault(text, int(row))
    rows = np.array(sorted(first_of_text.values()))
    values = result.two_ply[rows]
    return Candidates(rows, values, int(values.argmax()), len(ranked) - len(rows))


def descriptions(result: Search, kept: Candidates) -> list[str]:
    """Describe each candidate now and after the next piece, all of them differently.

    Rows are those that the piece clears, and then those of both pieces. The other features are the
    excess over the lowest of the candidates, at most 9.
    """
    return _texts(result, kept.rows)


def _texts(result: Search, rows: NDArray[np.int64]) -> list[str]:
    """Describe some rows of a search.

    A placement that `candidates` leaves out has the numbers of one that stays, so the lowest stay
    the same.
    """
    goes_on = result.two_ply[rows] > LOST
    now = _above_lowest(result.now[rows], np.ones_like(goes_on))
    later = _above_lowest(result.later[rows], goes_on)
    return [
        f"now {_words(before)}; "
        + ("no place for the next piece" if ends else f"then {_words(after)}")
        for before, after, ends in zip(now, later, (~goes_on).tolist(), strict=True)
    ]


def _above_lowest(features: NDArray[np.int64], counted: NDArray[np.bool_]) -> list[list[int]]:
    """Return rows cleared, and every other feature above the lowest of the counted rows."""
    lowest = features[counted, 1:].min(0, initial=features[:, 1:].max())
    excess = np.minimum(features[:, 1:] - lowest, 9)
    described: list[list[int]] = np.column_stack([features[:, 0], excess]).tolist()
    return described


def _words(features: list[int]) -> str:
    rows, holes, height, bumps, _top = features
    return f"rows {rows}, height {height}, holes {holes}, bumps {bumps}"


def record_json(
    game: Game,
    result: Search,
    kept: Candidates,
    *,
    name: str,
    sequence: str,
    split: Split = "validation",
) -> Json:
    """Return the decision as one line of a dataset file.

    Args:
        game: the position.
        result: its search.
        kept: its candidates; two or more.
        name: id of the record.
        sequence: name of the piece sequence, the source family of the record.
        split: "validation" to evaluate on, "train" for all else.
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
        "split": split,
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
