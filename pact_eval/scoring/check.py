"""The views on which an executor is compared with the oracle before it is used.

Real prompts of a window look alike: their leaves have much the same length, and a recurrent state
that was continued wrongly has forgotten it by their end. So pieces of them are added that do not:
prompts that begin another, leaves of one token, two branches of which one is padded beside the
other, and a prompt much shorter than the rest of a batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from pact_eval.prompts import EncodedView
from pact_eval.scoring.scored import ScoredView

__all__ = ["check_views", "largest_difference", "largest_mass_difference"]

# Views of the first record share a prefix; the last ones have other lengths.
_FIRST, _LAST = 4, 2
_CUT: Final = (1, 2, 5)
_TRUNK: Final = 40
_SHORT: Final = 5


def check_views(views: Sequence[EncodedView]) -> list[EncodedView]:
    """Return views to compare on: some as they are, and pieces of them.

    Args:
        views: of the data that will be scored, one at least.

    Example:
        >>> view = EncodedView("a", 0, tuple(range(100)), (7, 8), (0, 1))
        >>> [len(piece.token_ids) for piece in check_views([view])]
        [100, 99, 98, 95, 5, 80, 81, 81, 82]
    """
    sample = [*views[:_FIRST], *views[_FIRST:][-_LAST:]]
    first, last = sample[0], sample[-1].token_ids
    prompt, one, other = first.token_ids, first.code_tokens[0], first.code_tokens[1]
    pieces = [prompt[:-cut] for cut in _CUT] + [prompt[:_SHORT]]
    for branch in (last[-_TRUNK + 1 :], last[-_TRUNK:]):
        pieces += [(*prompt[:_TRUNK], *branch, *leaf) for leaf in ((one,), (other, one))]
    return sample + [replace(first, token_ids=piece) for piece in pieces if piece]


def largest_difference(a: Sequence[ScoredView], b: Sequence[ScoredView]) -> float:
    """Return the largest absolute difference of a logit between two scores of the same views."""
    return max(
        float(np.abs(mine.logits - theirs.logits).max()) for mine, theirs in zip(a, b, strict=True)
    )


def largest_mass_difference(a: Sequence[ScoredView], b: Sequence[ScoredView]) -> float:
    """Return the largest difference of answer mass between two scores of the same views."""
    return max(
        abs(mine.answer_mass - theirs.answer_mass) for mine, theirs in zip(a, b, strict=True)
    )
