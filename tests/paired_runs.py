"""Simulates two runs on the same pairs, whose members may err together."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True)
class PairedRuns:
    """Outcomes (n,) of two runs, and the family of each item."""

    a: npt.NDArray[np.bool_]
    b: npt.NDArray[np.bool_]
    family: npt.NDArray[np.int64]


@dataclass(frozen=True)
class Pairs:
    """Pairs of items of which a share `discordance` differs, and A leads by `difference`.

    With probability `copies` the second member of a family comes out as the first does: that is
    the intraclass correlation of the differences.
    """

    families: int
    discordance: float
    difference: float = 0.0
    copies: float = 0.0

    def draw(self, rng: np.random.Generator) -> PairedRuns:
        """Draws one holdout."""
        only_a = (self.discordance + self.difference) / 2
        only_b = (self.discordance - self.difference) / 2
        shares = [only_a, only_b, 1 - self.discordance]
        lead = rng.choice([1, -1, 0], (self.families, 2), p=shares)
        copied = rng.random(self.families) < self.copies
        lead[copied, 1] = lead[copied, 0]
        lead, both = lead.ravel(), rng.random(2 * self.families) < 0.8
        family = np.arange(self.families).repeat(2)
        return PairedRuns(
            np.where(lead == 0, both, lead > 0), np.where(lead == 0, both, lead < 0), family
        )
