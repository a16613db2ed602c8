"""Tetris as typed decisions: a dataset of placements, and policies that read no word of it.

    python examples/tetris.py --out runs/tetris-data
    pact-eval experiment examples/tetris.toml --out runs/tetris

The first command writes decisions of a two-ply search as records and plays policies without a
model on held-out sequences of pieces. tetris.md explains both. A board is a boolean array (20, 10),
row 0 at the bottom; a piece falls straight down in one of its rotations and columns.
"""

from __future__ import annotations

import argparse
import functools
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from pact_eval.data.splits import write_manifest
from pact_eval.prompts.contract import code_orders
from pact_eval.stats import t_quantile

ROWS: Final = 20
COLUMNS: Final = 10
POINTS: Final = (0, 100, 300, 500, 800)
SHAPES: Final = {
    "I": ("####",),
    "O": ("##", "##"),
    "T": (".#.", "###"),
    "S": (".##", "##."),
    "Z": ("##.", ".##"),
    "J": ("#..", "###"),
    "L": ("..#", "###"),
}
WEIGHTS: Final = np.array([0.76, -0.36, -0.51, -0.18, -0.05])
"""Of rows cleared, holes, aggregate height, bumps and maximum height (after Lee 2013)."""

LOST: Final = -1000.0
CANDIDATES: Final = 8
LONGEST: Final = 60
INSTRUCTIONS: Final = "Which placement has the lowest height, holes and bumps after both pieces?"


@functools.cache
def placements(piece: str) -> list[tuple[str, NDArray[np.int64], NDArray[np.int64]]]:
    """Return a name and the columns and rows of the four cells of each placement of a piece."""
    shape = np.array([[cell == "#" for cell in row] for row in SHAPES[piece]])
    turned = {}
    for turns in range(4):
        rotation = np.rot90(shape, -turns)
        turned.setdefault((rotation.shape, rotation.tobytes()), (turns, rotation))
    found = []
    for turns, rotation in turned.values():
        y, x = np.nonzero(rotation[::-1])
        columns = range(COLUMNS - rotation.shape[1] + 1)
        found += [(f"r{turns}c{column}", x + column, y) for column in columns]
    return found


def heights(board: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Return the height of every column, shape (10,)."""
    return np.where(board.any(0), ROWS - board[::-1].argmax(0), 0)


def features(board: NDArray[np.bool_], rows: int) -> NDArray[np.int64]:
    """Return rows cleared, holes, aggregate height, bumps and maximum height."""
    top = heights(board)
    bumps = np.abs(np.diff(top)).sum()
    return np.array([rows, top.sum() - board.sum(), top.sum(), bumps, top.max()])


def drops(board: NDArray[np.bool_], piece: str) -> Iterator[tuple[str, NDArray[np.bool_], int]]:
    """Yield name, board and rows cleared of every placement that fits."""
    top = heights(board)
    for name, x, y in placements(piece):
        rows = (top[x] - y).max() + y
        if rows.max() >= ROWS:
            continue
        after = board.copy()
        after[rows, x] = True
        kept = after[~after.all(1)]
        cleared = ROWS - len(kept)
        yield name, np.concatenate([kept, np.zeros((cleared, COLUMNS), dtype=bool)]), cleared


@dataclass(frozen=True)
class Placement:
    """A placement with its features now and after the best placement of the next piece."""

    name: str
    board: NDArray[np.bool_]
    rows: int
    now: NDArray[np.int64]
    then: NDArray[np.int64]
    value: float


def search(board: NDArray[np.bool_], piece: str, upcoming: str) -> list[Placement]:
    """Evaluate every placement of a piece by the best placement of the next one."""
    found = []
    for name, after, rows in drops(board, piece):
        now = features(after, rows)
        later = [features(second, rows + more) for _, second, more in drops(after, upcoming)]
        then = max(later, key=lambda row: float(row @ WEIGHTS), default=now)
        value = float(then @ WEIGHTS) if later else LOST
        found.append(Placement(name, after, rows, now, then, value))
    return found


def candidates(found: list[Placement]) -> dict[str, Placement]:
    """Return the best placements by their descriptions, in the order of rotation and column.

    Heights, holes and bumps count above the lowest of any placement, and 9 stands for 9 or more.
    Of placements with one description, the first of the highest value stays.
    """
    ranked = sorted(found, key=lambda placement: -placement.value)[:CANDIDATES]
    lowest_now = np.min([placement.now for placement in ranked], axis=0)
    lowest_then = np.min([placement.then for placement in ranked], axis=0)
    described: dict[str, Placement] = {}
    for placement in ranked:
        now, then = _words(placement.now, lowest_now), _words(placement.then, lowest_then)
        after = then if placement.value > LOST else "no place for the next piece"
        described.setdefault(f"now {now}; then {after}", placement)
    order = {placement.name: at for at, placement in enumerate(found)}
    return dict(sorted(described.items(), key=lambda entry: order[entry[1].name]))


def _words(values: NDArray[np.int64], lowest: NDArray[np.int64]) -> str:
    excess = np.minimum(values - lowest, 9)
    return f"rows {values[0]}, height {excess[2]}, holes {excess[1]}, bumps {excess[3]}"


def pieces(rng: np.random.Generator) -> Iterator[str]:
    """Yield pieces forever, in shuffled bags of seven."""
    while True:
        yield from rng.permutation(list(SHAPES)).tolist()


def record(name: str, game: str, piece: str, upcoming: str, kept: dict[str, Placement]) -> Any:
    """Return a decision as a record, or None if its two best placements are equal."""
    ranked = sorted(kept.values(), key=lambda placement: -placement.value)
    if len(ranked) < 2 or ranked[0].value - ranked[1].value < 1e-9:
        return None
    criteria = {placement.name: text for text, placement in kept.items()}
    question = {"type": "choice", "instructions": INSTRUCTIONS, "criteria": criteria}
    return {
        "id": name,
        "family": name,
        "source_family": game,
        "split": "train" if game.startswith("train") else "validation",
        "domain": "tetris",
        "variant": "base",
        "input": {
            "state": f"Piece {piece}, next {upcoming}.",
            "questions": {"decision": question},
        },
        "reference": {"target": ranked[0].name, "source": "two-ply search"},
        "provenance": {"source_id": game},
    }


def write_decisions(path: Path, moves: int, *, rng: np.random.Generator) -> None:
    """Write decisions of games in which one move of five is random."""
    rows: list[str] = []
    number = 0
    while len(rows) < moves:
        game = f"{path.stem}-{number}"
        number += 1
        sequence, board = pieces(rng), np.zeros((ROWS, COLUMNS), dtype=bool)
        piece, upcoming = next(sequence), next(sequence)
        for placed in range(LONGEST):
            found = search(board, piece, upcoming)
            if not found or len(rows) == moves:
                break
            kept = candidates(found)
            decision = record(f"{game}-{placed:03d}", game, piece, upcoming, kept)
            if decision is not None:
                rows.append(json.dumps(decision) + "\n")
            choices = list(kept.values())
            explored = choices[int(rng.integers(len(choices)))]
            best = max(choices, key=lambda placement: placement.value)
            board = (explored if rng.random() < 0.2 else best).board
            piece, upcoming = upcoming, next(sequence)
    path.write_text("".join(rows), "utf-8")


def released_order(found: list[Placement]) -> list[Placement]:
    """Return six placements as the released code shows them, at the letters A, B, C, ..."""
    return sorted(found, key=lambda placement: (placement.rows == 0, -placement.value))[:6]


Policy = Callable[[list[Placement], np.random.Generator], Placement]
POLICIES: Final[dict[str, Policy]] = {
    "random placement": lambda found, rng: found[int(rng.integers(len(found)))],
    "always A, best first": lambda found, _rng: released_order(found)[0],
    "two-ply search": lambda found, _rng: max(found, key=lambda placement: placement.value),
}


def play(policy: Policy, number: int, cap: int) -> tuple[int, int, int, list[NDArray[np.bool_]]]:
    """Play a held-out sequence: pieces, rows, points, and whether A is best in four orders."""
    sequence = pieces(np.random.default_rng((900_000, number)))
    rng = np.random.default_rng((900_000, number, 1))
    board = np.zeros((ROWS, COLUMNS), dtype=bool)
    piece, upcoming = next(sequence), next(sequence)
    placed = rows = points = 0
    at_a: list[NDArray[np.bool_]] = []
    while placed < cap and (found := search(board, piece, upcoming)):
        shown = released_order(found)
        best = max(placement.value for placement in found)
        orders = code_orders(17, f"{number}-{placed}", len(shown), 4) if len(shown) > 1 else []
        if orders:
            at_a.append(np.array([shown[order[0]].value >= best - 1e-9 for order in orders]))
        chosen = policy(found, rng)
        board, placed = chosen.board, placed + 1
        rows, points = rows + chosen.rows, points + POINTS[chosen.rows]
        piece, upcoming = upcoming, next(sequence)
    return placed, rows, points, at_a


def main() -> None:
    """Write the dataset, and print the policies."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--moves", type=int, default=480)
    parser.add_argument("--games", type=int, default=20)
    parser.add_argument("--cap", type=int, default=400)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    for seed, name in enumerate(("train", "holdout")):
        rng = np.random.default_rng((17, seed))
        write_decisions(options.out / f"{name}.jsonl", options.moves, rng=rng)
    write_manifest(options.out)
    for name, policy in POLICIES.items():
        games = [play(policy, number, options.cap) for number in range(options.games)]
        placed, rows, points = map(mean_of, np.array([game[:3] for game in games]).T)
        print(f"{name}: {placed} pieces, {rows} rows, {points} points")  # noqa: T201
        if name.startswith("always A"):
            shares = np.array([100 * np.mean(game[3], axis=0) for game in games]).T
            print("  A is best, % in each letter order:", *map(mean_of, shares))  # noqa: T201


def mean_of(values: NDArray[Any]) -> str:
    """Return the mean of games with its 95% interval, by Student's t."""
    mean, end = values.mean(), t_quantile(0.975, len(values) - 1) * values.std(ddof=1)
    end /= len(values) ** 0.5
    return f"{mean:,.1f} [{mean - end:,.1f}, {mean + end:,.1f}]"


if __name__ == "__main__":
    main()
