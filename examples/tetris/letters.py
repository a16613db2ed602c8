"""A policy without a model: always answer A, with the candidates in the order of the released code.

That order sorts the candidates by their two-ply value, those that clear a row now before the
others, and keeps six. The answer to every prompt is then at the letter A or near it. A model that
always answers A plays as well as one that reads the candidates, until the order changes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from pact_eval.prompts.code_orders import code_orders
from tetris.decisions import Candidates
from tetris.game import Game
from tetris.search import Search

ALWAYS_A: Final = "always A, best first"
RELEASED_CANDIDATES: Final = 6
_SEED: Final = 17


def released_order(result: Search, most: int = RELEASED_CANDIDATES) -> NDArray[np.int64]:
    """Return rows of a search as the released code shows them: at the letters A, B, C, ...

    Args:
        result: the search of a position.
        most: placements to show.
    """
    by_value = np.argsort(-result.two_ply, kind="stable")
    clears = result.cleared[by_value] > 0
    return np.concatenate([by_value[clears], by_value[~clears]])[:most]


@dataclass(frozen=True)
class LetterAudit:
    """What K letter orders show of the policy.

    Attributes:
        decisions: decisions with two candidates or more.
        k: views of each.
        flip_rate: share of decisions whose answer differs between views.
        top_picks: shape (K,); share of answers with the highest value, by view. View 0 has the
            released order.
    """

    decisions: int
    k: int
    flip_rate: float
    top_picks: NDArray[np.float64]


class AlwaysA:
    """Always answer A; also asked in K letter orders, of which the first is played.

    Args:
        k: letter orders of every decision.
    """

    def __init__(self, k: int = 4) -> None:
        self.k = k
        self._values: list[NDArray[np.float64]] = []
        self._flips: list[bool] = []

    def __call__(
        self, _game: Game, result: Search, _kept: Candidates, _rng: np.random.Generator
    ) -> int:
        """Return the row of the search at the letter A, and keep the answers in other orders."""
        shown = released_order(result)
        if len(shown) > 1:
            orders = code_orders(_SEED, f"move-{len(self._flips)}", len(shown), self.k)
            answers = shown[[order[0] for order in orders]]
            self._values.append(result.two_ply[answers] >= result.two_ply.max() - 1e-9)
            self._flips.append(len(set(answers.tolist())) > 1)
        return int(shown[0])

    def audit(self) -> LetterAudit:
        """Return what was seen in the decisions so far."""
        return LetterAudit(
            decisions=len(self._flips),
            k=self.k,
            flip_rate=float(np.mean(self._flips)),
            top_picks=np.mean(self._values, axis=0),
        )
