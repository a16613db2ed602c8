"""Policies on held-out piece sequences: the same sequences for each, so that games are paired.

Sequence i is drawn with the seed (900_000, i), which no recording or training uses. A game ends at
the cap, or if the piece does not fit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from pact_eval.progress import tracked
from tetris.decisions import Candidates, candidates
from tetris.game import Game, Source, new_game, pieces
from tetris.search import Search, search

HELD_OUT: Final = 900_000
CAP: Final = 400

Policy = Callable[[Game, Search, Candidates, np.random.Generator], int]
"""Returns the row of the search to play."""


def _random_legal(_game: Game, result: Search, _kept: Candidates, rng: np.random.Generator) -> int:
    return int(rng.integers(len(result.move)))


def _random_candidate(
    _game: Game, _result: Search, kept: Candidates, rng: np.random.Generator
) -> int:
    return int(rng.choice(kept.rows))


def _first(_game: Game, _result: Search, kept: Candidates, _rng: np.random.Generator) -> int:
    return int(kept.rows[0])


def _one_ply(_game: Game, result: Search, _kept: Candidates, _rng: np.random.Generator) -> int:
    return int(result.one_ply.argmax())


def _two_ply(_game: Game, _result: Search, kept: Candidates, _rng: np.random.Generator) -> int:
    return int(kept.rows[kept.best])


BASELINES: Final[Mapping[str, Policy]] = {
    "random": _random_legal,
    "random candidate": _random_candidate,
    "first candidate": _first,
    "one-ply": _one_ply,
    "two-ply": _two_ply,
}
"""Any legal placement; one of the candidates; the first in canonical order; greedy searches."""


@dataclass(frozen=True)
class Played:
    """The games of one policy, one per sequence.

    Attributes:
        placed: shape (n,); pieces placed.
        lines: shape (n,); rows cleared.
        points: shape (n,).
        top_picks: shape (n,); share of moves that have the highest two-ply value.
    """

    placed: NDArray[np.float64]
    lines: NDArray[np.float64]
    points: NDArray[np.float64]
    top_picks: NDArray[np.float64]

    def as_json(self) -> dict[str, list[float]]:
        """Return the games as lists, one number per sequence."""
        return {
            "pieces": self.placed.tolist(),
            "rows": self.lines.tolist(),
            "points": self.points.tolist(),
            "top_picks": self.top_picks.tolist(),
        }


def play_games(
    policy: Policy, *, games: int, cap: int | None, most: int, source: Source, name: str = "policy"
) -> Played:
    """Play the first sequences to their end.

    Args:
        policy: chooses placements.
        games: number of sequences.
        cap: pieces after which a game stops; None plays until the piece does not fit.
        most: candidates per decision.
        source: how pieces are drawn.
        name: what the progress bar calls it.
    """
    rows = []
    for number in tracked(range(games), name, "games"):
        sequence = pieces(source, rng=np.random.default_rng((HELD_OUT, number)))
        rng = np.random.default_rng((HELD_OUT, number, 1))
        game, hits = new_game(sequence), 0
        while not game.over and game.placed != cap:
            result = search(game)
            row = policy(game, result, candidates(result, most), rng)
            hits += int(result.two_ply[row] >= result.two_ply.max() - 1e-9)
            game = game.play(result.boards[row], int(result.cleared[row]), next(sequence))
        rows.append((game.placed, game.lines, game.points, hits / max(1, game.placed)))
    return Played(*np.array(rows, dtype=np.float64).T)


def mean_over_seeds(runs: Sequence[Played]) -> Played:
    """Return the means of several seeds of a policy on each sequence."""

    def mean_of(name: str) -> NDArray[np.float64]:
        values: NDArray[np.float64] = np.mean([getattr(run, name) for run in runs], axis=0)
        return values

    return Played(mean_of("placed"), mean_of("lines"), mean_of("points"), mean_of("top_picks"))


@dataclass(frozen=True)
class Mean:
    """A mean with its 95% interval.

    Attributes:
        value: the mean.
        low: lower end; NaN for one value.
        high: upper end; NaN for one value.
        n: number of values.
    """

    value: float
    low: float
    high: float
    n: int


def mean(values: Sequence[float] | NDArray[np.generic]) -> Mean:
    """Return the mean over games and its t interval.

    For paired games, give the differences. The interval supposes that games are independent and
    their mean nearly normal; equal values have a zero-width interval, which does not mean
    certainty.

    Examples:
        >>> result = mean([1.0, 2.0, 3.0])
        >>> round(result.low, 2), result.value, round(result.high, 2)
        (-0.48, 2.0, 4.48)
    """
    array = np.asarray(values, dtype=np.float64)
    n = len(array)
    if n < 2:
        return Mean(float(array.mean()), float("nan"), float("nan"), n)
    half = float(stats.t.ppf(0.975, n - 1) * array.std(ddof=1) / np.sqrt(n))
    centre = float(array.mean())
    return Mean(centre, centre - half, centre + half, n)
