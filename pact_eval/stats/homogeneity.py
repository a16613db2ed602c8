"""Chi-squared test of marginal homogeneity: letters that are picked more than their share."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pact_eval._typing import BoolArray, FloatArray, IntArray
from pact_eval.stats._quantiles import normal_quantile
from pact_eval.stats.clusters import cluster_codes
from pact_eval.stats.estimate import FEW_CLUSTERS, LEVEL, POWER, ClusterText, differing_text
from pact_eval.stats.multiplicity import holm


def chi2_tail(value: float, dof: int) -> float:
    r"""Return the chance that chi-squared with `dof` degrees of freedom exceeds `value`.

    A finite sum over :math:`a = \frac12, \frac32, \dots` (odd dof) or :math:`1, 2, \dots` (even):

    .. math:: Q = Q_0 + \sum_{a < dof / 2} e^{-x / 2} (x / 2)^a / \Gamma(a + 1), \quad
              Q_0 = erfc \sqrt{x / 2} \text{ or } e^{-x / 2}

    Args:
        value: x, finite and 0 or more.
        dof: Degrees of freedom, an integer from 1.

    Returns:
        The chance, within 1e-12 of itself up to 1,000 degrees of freedom.
    """
    half = value / 2
    if half == 0:
        return 1.0
    first = math.erfc(math.sqrt(half)) if dof % 2 else math.exp(-half)
    shapes = np.arange(0.5 if dof % 2 else 1.0, dof / 2).tolist()
    terms = (math.exp(a * math.log(half) - half - math.lgamma(a + 1)) for a in shapes)
    return min(1.0, first + math.fsum(terms))


_ROUNDING = 1e-9  # of sums of shares


@dataclass(frozen=True, eq=False)
class SlotHomogeneity:
    """Frequency of each letter as the choice, compared with its frequency as the correct answer.

    Attributes:
        observed: (slots,) units that picked each letter position; of m that tie, each is 1/m.
        expected: (slots,) units whose reference stood there.
        chi2: Test statistic, 0 or more; NaN without units.
        dof: Degrees of freedom: the rank of the covariance.
        p_value: Chance of a statistic this large if picks and references had equal margins.
        units: Units (item and view) that were counted.
        clusters: Clusters (families) that they form.
        discordant_clusters: Clusters whose picks are not spread as their references are.
        letter_p_values: (slots,) p-value of each letter alone, adjusted by Holm over the letters;
            NaN if no cluster differs in it.
        detectable: Smallest difference between the shares of units that pick and that hold a letter
            which this test would show with 80% power, for the letter that varies most; NaN if
            nothing differs, and below 30 clusters, where the test is too rough to plan with.
        reason: None, or a sentence that says why there was nothing to test, or why no p-value
            below 0.05 was possible.
    """

    observed: IntArray | FloatArray
    expected: IntArray | FloatArray
    chi2: float
    dof: int
    p_value: float
    units: int
    clusters: int
    discordant_clusters: int
    letter_p_values: FloatArray
    detectable: float
    reason: ClusterText | None = None

    @property
    def favoured(self) -> tuple[int, ...]:
        """Positions that are shown to be picked more often than they are correct."""
        return self._shown_slots(self.observed > self.expected)

    @property
    def avoided(self) -> tuple[int, ...]:
        """Positions that are shown to be picked less often than they are correct."""
        return self._shown_slots(self.observed < self.expected)

    def _shown_slots(self, direction: BoolArray) -> tuple[int, ...]:
        if not self.p_value < LEVEL:
            return ()
        return tuple(np.flatnonzero(direction & (self.letter_p_values < LEVEL)).tolist())


def _check_slots(
    picked: npt.ArrayLike, reference: npt.ArrayLike, cluster: npt.ArrayLike
) -> tuple[IntArray, IntArray, IntArray]:
    """Return picked and reference slots as (units,), and the cluster code of each unit."""
    picks: npt.NDArray[Any] = np.asarray(picked)
    truth: npt.NDArray[Any] = np.asarray(reference)
    labels: npt.NDArray[Any] = np.asarray(cluster)
    if picks.ndim not in (1, 2) or picks.shape != truth.shape or labels.shape != picks.shape[:1]:
        raise ValueError(
            "expected picked and reference of one shape (n,) or (n, K) and cluster (n,), got "
            f"{picks.shape}, {truth.shape} and {labels.shape}"
        )
    for name, slots in (("picked", picks), ("reference", truth)):
        if slots.size and (slots.dtype.kind not in "iu" or slots.min() < 0):
            raise ValueError(f"{name}: expected letter positions 0, 1, ..., got {slots.dtype}")
    codes, _ = cluster_codes(labels, len(labels))
    views = picks.shape[1] if picks.ndim == 2 else 1
    return (picks.ravel().astype(np.int64), truth.ravel().astype(np.int64), np.repeat(codes, views))


def slot_homogeneity(
    picked: npt.ArrayLike,
    reference: npt.ArrayLike,
    cluster: npt.ArrayLike,
    weight: npt.ArrayLike | None = None,
) -> SlotHomogeneity:
    r"""Test whether picked and reference letter positions have equal margins.

    The Stuart-Maxwell test of marginal homogeneity, made robust to clusters: with
    :math:`d_u = e_{picked} - e_{reference}` for a unit (item and view) and :math:`d_f` its sum
    over the units of a family,

    .. math:: d = \sum_f d_f, \quad S = \sum_f d_f d_f^T, \quad
              \chi^2 = d^T S^+ d \sim \chi^2_{rank(S)}

    With one unit a cluster it is the classical test, and with two slots McNemar's without
    continuity correction. It is asymptotic, and the statistic cannot exceed the number of
    discordant clusters: if that is not larger than `dof`, even complete bias shows little.

    Without any discordant cluster (all answers right, say) there is no evidence against equal
    margins: chi2 = 0, dof = 0 and p = 1, as McNemar's test has it, with a reason. Without units
    chi2 and p are NaN.

    Single letters are tested only to name them, on one degree of freedom, with the smallest
    p-value that a sign flip of as many clusters could have as a lower bound:

    .. math:: \chi^2_l = (\sum_f d_{fl})^2 / \sum_f d_{fl}^2, \quad p_l \ge 2^{1 - D_l}

    The detectable shift is
    :math:`(z_{1 - 0.025 / slots} + z_{0.8}) \sqrt{\sum_f d_{fl}^2} / units`.

    Args:
        picked: (n,) or (n, K) letter position of the predicted answer of each item (and view).
        reference: The same shape: letter position of the reference.
        cluster: (n,) family labels of any sortable dtype.
        weight: The same shape as `picked`: the share of a unit, such as 1/2 for each of two letters
            that tie; None for 1.

    Returns:
        Counts for each letter position, and the test.

    Raises:
        ValueError: The shapes do not fit, or a position is negative or no integer.

    References:
        Stuart, "A test for homogeneity of the marginal distributions in a two-way
        classification", Biometrika 1955.

    Examples:
        >>> import numpy as np
        >>> from pact_eval.stats.homogeneity import slot_homogeneity
        >>> result = slot_homogeneity([0, 0, 0, 0, 1], [1, 1, 1, 0, 1], np.arange(5))
        >>> result.observed, result.expected, round(result.chi2, 3), result.dof
        (array([4, 1]), array([1, 4]), 3.0, 1)
    """
    picks, truth, codes = _check_slots(picked, reference, cluster)
    slots = int(max(picks.max(initial=-1), truth.max(initial=-1))) + 1
    clusters = int(codes.max(initial=-1)) + 1
    shape = (clusters, slots)
    shares = None if weight is None else np.asarray(weight, dtype=np.float64).ravel()
    surplus = _counts(codes, picks, shape, shares) - _counts(codes, truth, shape, shares)
    units = picks.size if shares is None else round(float(shares.sum()))
    # The other families add nothing to either sum, and of millions most are such.
    d_f = surplus[(np.abs(surplus) > _ROUNDING).any(axis=1)].astype(np.float64)
    chi2, dof = _quadratic_form(d_f.sum(axis=0), d_f.T @ d_f)
    discordant = len(d_f)
    reason = None
    if clusters == 0:
        chi2, reason = math.nan, ClusterText("no rows: nothing to test")
    elif discordant == 0:
        none = "no {cluster} chooses a letter more often than it holds its references"
        reason = ClusterText(none)
    elif chi2_tail(discordant, dof) > LEVEL:
        few = differing_text(discordant, "{cluster}", "{clusters}")
        reason = ClusterText(f"only {few}: too few for a p-value below {LEVEL}")
    return SlotHomogeneity(
        observed=np.bincount(picks, shares, minlength=slots),
        expected=np.bincount(truth, shares, minlength=slots),
        chi2=chi2,
        dof=dof,
        p_value=chi2_tail(chi2, dof) if dof else (math.nan if clusters == 0 else 1.0),
        units=units,
        clusters=clusters,
        discordant_clusters=discordant,
        letter_p_values=_letter_p_values(d_f, slots),
        detectable=math.nan if clusters < FEW_CLUSTERS else _detectable(d_f, units),
        reason=reason,
    )


def _letter_p_values(d_f: FloatArray, slots: int) -> FloatArray:
    """Return a p-value for each letter, adjusted by Holm; NaN if no cluster differs in it."""
    raw = np.full(slots, np.nan)
    for slot in range(slots):
        column = d_f[:, slot]
        differing = int((np.abs(column) > _ROUNDING).sum())
        if differing:
            chi2 = float(column.sum() ** 2 / (column**2).sum())
            raw[slot] = max(chi2_tail(chi2, 1), 2.0 ** (1 - differing))
    return holm(raw)


def _detectable(d_f: FloatArray, units: int) -> float:
    """Return the shift of one letter that is shown with 80% power, as a share of the units."""
    if not d_f.size or not units:
        return math.nan
    reach = normal_quantile(1 - LEVEL / (2 * d_f.shape[1])) + normal_quantile(POWER)
    return reach * math.sqrt(float((d_f**2).sum(axis=0).max())) / units


def _counts(
    cluster: IntArray, slot: IntArray, shape: tuple[int, int], weight: FloatArray | None
) -> IntArray | FloatArray:
    """Return the (clusters, slots) counts of a slot within a cluster."""
    cells = np.bincount(cluster * shape[1] + slot, weight, minlength=shape[0] * shape[1])
    return cells.reshape(shape)


def _quadratic_form(d: FloatArray, s: FloatArray) -> tuple[float, int]:
    """Return d' S^+ d and rank(S) of a symmetric positive semidefinite S.

    One eigendecomposition serves both, so rank and inverse never disagree on what is 0.
    """
    if s.size == 0:
        return 0.0, 0
    eigenvalues, vectors = np.linalg.eigh(s)
    kept = eigenvalues > eigenvalues.max() * len(s) * 4 * np.finfo(np.float64).eps
    projections = vectors[:, kept].T @ d
    return float((projections**2 / eigenvalues[kept]).sum()), int(kept.sum())
