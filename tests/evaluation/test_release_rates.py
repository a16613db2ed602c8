"""False PASS and false FAIL exactly at a bound, and the power beside it, over families."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pytest
from scipy import stats

from pact_eval.evaluation.calibration_error import calibration_error
from pact_eval.evaluation.requirements import Requirement
from pact_eval.stats.bounds import bound_tests
from pact_eval.stats.estimate import Estimate
from pact_eval.stats.rate_differences import paired_rates
from pact_eval.stats.rates import rate_estimate

ACCURACY, CHANCE = 0.8, 0.05


@dataclass(frozen=True)
class Release:
    """Families of items, of which a share has one luck for all members.

    The new run answers 80% right and loses as many answers as it may; an even one as many as the
    old run. Its confidences are 8 points too high.
    """

    families: int
    size: int
    dependent: float

    @property
    def family(self) -> npt.NDArray[np.int64]:
        return np.arange(self.families).repeat(self.size)

    def luck(self, rng: np.random.Generator) -> npt.NDArray[np.float64]:
        shared = (rng.random(self.families) < self.dependent)[self.family]
        own = rng.random(self.family.size)
        return np.where(shared, rng.random(self.families)[self.family], own)

    def draws(self, n: int, rng: np.random.Generator) -> Iterator[tuple[Estimate, ...]]:
        """Yields accuracy, and the changes of a run that lost 5 points and of an even one."""
        for _ in range(n):
            old = self.luck(rng) < ACCURACY
            lost = old & (self.luck(rng) >= CHANCE / ACCURACY)
            even = np.where(self.luck(rng) < 0.2, self.luck(rng) < ACCURACY, old)
            counts = np.bincount(self.family, old)
            accuracy = rate_estimate(counts, np.bincount(self.family))
            changes = (
                paired_rates(new.astype(int) - old, self.family, self.families).estimate()
                for new in (lost, even)
            )
            yield (accuracy, *changes)

    def error(self, rng: np.random.Generator) -> Estimate:
        """Returns the ECE of a model that is 8 points too sure of every answer."""
        confidence = rng.uniform(0.64, 0.96, self.family.size)
        right = self.luck(rng) < confidence - 0.08
        return calibration_error(
            confidence, right, self.family, self.families, rng=rng, resamples=300
        )


def findings(release: Release, n: int, seed: int) -> Counter[str]:
    """How often each bound is shown or contradicted; in brackets, what is true."""
    rng, counts = np.random.default_rng(seed), Counter[str]()
    at, below = Requirement("accuracy", ACCURACY), Requirement("accuracy", ACCURACY - 0.08)
    worse = Requirement("accuracy", CHANCE, than_before=True)
    for accuracy, lost, even in release.draws(n, rng):
        bounds = [at.bounded(accuracy), worse.bounded(lost), below.bounded(accuracy)]
        floor, margin, kept = (bound_tests([bound])[0].finding for bound in bounds)
        counts[f"floor {floor}"] += 1
        counts[f"margin {margin}"] += 1
        counts[f"lower floor {kept}"] += 1
        counts[f"even {bound_tests([worse.bounded(even)])[0].finding}"] += 1
        together = [test.finding for test in bound_tests([*bounds[:2], worse.bounded(even)])]
        counts["two true bounds and one: FAIL"] += "contradicted" in together
        counts["PASS"] += all(finding == "shown" for finding in together)
    return counts


def most(n: int) -> int:
    """The largest count that chance at 5% leaves likely."""
    return int(stats.binom.ppf(0.999, n, 0.05))


def check(release: Release, n: int, seed: int) -> Counter[str]:
    counts = findings(release, n, seed)
    for false in ("floor shown", "floor contradicted", "margin shown", "margin contradicted"):
        assert counts[false] <= most(n), (false, counts)
    assert counts["two true bounds and one: FAIL"] <= most(n), counts
    assert counts["PASS"] <= most(n), counts
    return counts


def test_few_draws() -> None:
    counts = check(Release(150, 2, 0.5), 80, seed=1)
    assert counts["lower floor shown"] > 0.6 * 80
    assert counts["even shown"] > 0.5 * 80


@pytest.mark.slow
@pytest.mark.parametrize(
    ("release", "floor", "even"),
    [
        (Release(8, 4, 1.0), 0.0, 0.0),
        (Release(20, 5, 1.0), 0.0, 0.0),
        (Release(20, 2, 0.5), 0.0, 0.0),
        (Release(200, 2, 0.5), 0.8, 0.6),
        (Release(200, 5, 1.0), 0.6, 0.3),
    ],
)
def test_a_thousand_draws(release: Release, floor: float, even: float) -> None:
    counts = check(release, 1_000, seed=2)
    assert counts["lower floor shown"] >= 1_000 * floor
    assert counts["even shown"] >= 1_000 * even


@pytest.mark.slow
@pytest.mark.parametrize(
    "release",
    [Release(20, 5, 1.0), Release(75, 2, 0.5), Release(200, 2, 0.5), Release(200, 5, 1.0)],
)
def test_a_ceiling_of_ece_that_is_the_true_error(release: Release) -> None:
    rng, draws = np.random.default_rng(3), 1_000
    errors = [release.error(rng) for _ in range(draws)]
    at, above = Requirement("ece", 0.08), Requirement("ece", 0.2)
    found = Counter(bound_tests([at.bounded(error)])[0].finding for error in errors)
    assert found["shown"] <= most(draws), found
    assert found["contradicted"] <= most(draws), found
    if release.families == 200:
        kept = [bound_tests([above.bounded(error)])[0].finding == "shown" for error in errors]
        assert sum(kept) > 0.8 * draws
