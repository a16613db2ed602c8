"""Expected calibration error, the bins behind it, and errors made with full confidence."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pact_eval._choices import ECE_BINS
from pact_eval._typing import BoolArray, FloatArray, IntArray
from pact_eval.metrics._arrays import TIE, check_confidence, item_mean

BINS = ECE_BINS
"""Number of equal-width bins of ECE."""

# A confidence of 0.6 is the edge 9/15: logarithm and softmax leave it a digit below or above.
_ON_EDGE = 1e-9


# Cells of confidence, and halvings of the width, of the ECE without bins.
_CELLS = 512
_HALVINGS = 12


def _check_bins(bins: int) -> None:
    if bins < 1:
        raise ValueError(f"bins: expected at least 1, got {bins}")


def _bins_of(confidence: FloatArray, bins: int) -> IntArray:
    # Truncation is `floor`, since no confidence is negative.
    index = (bins * confidence + _ON_EDGE).astype(np.int64)
    return np.minimum(index, bins - 1, out=index)


def _bin_sums(
    confidence: FloatArray, correct: BoolArray, bins: int
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return count, sum of confidence and number correct of each bin."""
    index = _bins_of(confidence, bins)
    count, confidence_sum, correct_sum = (
        np.asarray(np.bincount(index, weights=values, minlength=bins), dtype=np.float64)
        for values in (None, confidence, correct.astype(np.float64))
    )
    return count, confidence_sum, correct_sum


def bin_index(confidence: npt.ArrayLike, bins: int = BINS) -> IntArray:
    """Return the equal-width bin of each confidence: min(floor(bins * c + 1e-9), bins - 1).

    Args:
        confidence: (n,) probabilities in [0, 1].
        bins: Number of bins.

    Returns:
        (n,) indices in 0..bins-1; a bin includes its lower edge, the last one both. A confidence
        just below an edge counts as on it, because rounding decides its last digit.

    Raises:
        ValueError: A confidence is NaN or outside [0, 1], or `bins` is below 1.

    Examples:
        >>> from pact_eval.metrics import bin_index
        >>> bin_index([0.0, 0.5, 1.0])
        array([ 0,  7, 14])
        >>> import numpy as np
        >>> bin_index([0.6, np.nextafter(0.6, 0)])
        array([9, 9])
    """
    _check_bins(bins)
    array = np.asarray(confidence, dtype=np.float64)
    c, _ = check_confidence(array, np.zeros(array.shape, dtype=np.bool_))
    return _bins_of(c, bins)


@dataclass(frozen=True, eq=False)
class Reliability:
    """Content of a reliability diagram, bin by bin.

    Attributes:
        edges: (bins + 1,) edges of the bins, from 0 to 1.
        count: (bins,) items in each bin.
        mean_confidence: (bins,) mean top probability; NaN in an empty bin.
        accuracy: (bins,) share of correct items; NaN in an empty bin.
    """

    edges: FloatArray
    count: IntArray
    mean_confidence: FloatArray
    accuracy: FloatArray


def reliability(confidence: npt.ArrayLike, correct: npt.ArrayLike, bins: int = BINS) -> Reliability:
    """Compare confidence with accuracy in equal-width bins of the top probability.

    Args:
        confidence: (n,) top probabilities in [0, 1].
        correct: (n,) bool.
        bins: Number of bins.

    Returns:
        Counts, mean confidence and accuracy of each bin.

    Raises:
        ValueError: Shapes differ, a confidence is NaN or outside [0, 1], or `bins` is below 1.

    Examples:
        >>> from pact_eval.metrics import reliability
        >>> result = reliability([0.6, 0.7, 0.9], [True, False, True], bins=2)
        >>> result.count, result.accuracy.round(3)
        (array([0, 3]), array([  nan, 0.667]))
    """
    _check_bins(bins)
    c, right = check_confidence(confidence, correct)
    count, confidence_sum, correct_sum = _bin_sums(c, right, bins)
    filled = count > 0
    return Reliability(
        edges=np.linspace(0.0, 1.0, bins + 1),
        count=count.astype(np.int64),
        mean_confidence=np.divide(confidence_sum, count, out=np.full(bins, np.nan), where=filled),
        accuracy=np.divide(correct_sum, count, out=np.full(bins, np.nan), where=filled),
    )


def ece_of_gaps(n: npt.ArrayLike, gaps: npt.ArrayLike) -> FloatArray:
    r"""Expected calibration error from sums per bin, over any leading axes.

    .. math:: \sum_b \frac{n_b}{n} |acc_b - conf_b|
              = \frac1n \sum_b \Big|\sum_{i \in b} (c_i - 1[correct_i])\Big|

    The sums are linear in the weights of items, so a bootstrap resamples them.

    Args:
        n: (...) items, or their weight.
        gaps: (..., bins) sum over the items of each bin of confidence minus 1 if correct, else 0.

    Returns:
        (...) in [0, 1], lower is better; NaN if n is 0.

    Examples:
        >>> from pact_eval.metrics import ece_of_gaps
        >>> ece_of_gaps([4.0, 0.0], [[-0.2, 0.8], [0.0, 0.0]])
        array([0.25,  nan])
    """
    weight = np.asarray(n, dtype=np.float64)
    gap = np.abs(np.asarray(gaps, dtype=np.float64)).sum(axis=-1)
    mean: FloatArray = np.full(weight.shape, np.nan)
    np.divide(gap, weight, out=mean, where=weight > 0)
    return mean


def ece(confidence: npt.ArrayLike, correct: npt.ArrayLike, bins: int = BINS) -> float:
    r"""Expected calibration error of the top probability in equal-width bins.

    .. math:: ECE = \sum_b \frac{n_b}{n} |acc_b - conf_b|

    Args:
        confidence: (n,) top probabilities in [0, 1].
        correct: (n,) bool.
        bins: Number of bins; see `bin_index`.

    Returns:
        A fraction in [0, 1], lower is better; NaN without items.

    Raises:
        ValueError: Shapes differ, a confidence is NaN or outside [0, 1], or `bins` is below 1.

    References:
        Guo et al., "On calibration of modern neural networks", ICML 2017.

    Examples:
        >>> from pact_eval.metrics import ece
        >>> round(ece([0.6, 0.9, 0.9], [True, True, False]), 12)
        0.4
    """
    _check_bins(bins)
    c, right = check_confidence(confidence, correct)
    gaps = np.bincount(_bins_of(c, bins), weights=c - right, minlength=bins)
    return float(ece_of_gaps(c.size, gaps))


def smooth_ece(confidence: npt.ArrayLike, correct: npt.ArrayLike) -> float:
    r"""Expected calibration error of the top probability without bins.

    The gap is smoothed over confidence with a Gaussian kernel that is reflected at 0 and 1. The
    width of the kernel is the error itself, so nothing has to be chosen:

    .. math:: E(\sigma) = \int_0^1 \Big| \frac1n \sum_i K_\sigma(t, c_i) (c_i - 1[correct_i])
              \Big| dt, \quad smECE = \sigma^* \text{ with } E(\sigma^*) = \sigma^*

    Args:
        confidence: (n,) top probabilities in [0, 1].
        correct: (n,) bool.

    Returns:
        A fraction in [0, 1], to about 0.0005, lower is better; NaN without items.

    Raises:
        ValueError: Shapes differ, or a confidence is NaN or outside [0, 1].

    References:
        Blasiok and Nakkiran, "Smooth ECE: principled reliability diagrams via kernel smoothing",
        ICLR 2024.

    Examples:
        >>> from pact_eval.metrics import smooth_ece
        >>> round(smooth_ece([0.9] * 10, [True] * 7 + [False] * 3), 3)
        0.2
    """
    c, right = check_confidence(confidence, correct)
    return float(smooth_ece_samples(c, right[None])[0]) if c.size else float("nan")


def smooth_ece_samples(confidence: FloatArray, correct: BoolArray) -> FloatArray:
    """Return `smooth_ece` of each of many samples of outcomes.

    The kernel is that of heat in a rod: cosine k decays by exp(-(pi k sigma)^2 / 2).

    Args:
        confidence: (n,) top probabilities in [0, 1], one or more.
        correct: (b, n) bool.

    Returns:
        (b,) fractions.

    Examples:
        >>> confidence = np.array([0.9, 0.8])
        >>> smooth_ece_samples(confidence, np.array([[True, True], [False, False]])).round(2)
        array([0.15, 0.85])
    """
    cell, samples = _bins_of(confidence, _CELLS), len(correct)
    expected = np.bincount(cell, weights=confidence, minlength=_CELLS)
    of_sample, row = np.nonzero(correct)
    right = np.bincount(of_sample * _CELLS + cell[row], minlength=samples * _CELLS)
    gaps = (expected - right.reshape(samples, _CELLS)) / confidence.size
    spectrum = np.fft.rfft(np.concatenate([gaps, gaps[:, ::-1]], axis=1))
    frequency = np.pi * np.arange(_CELLS + 1)
    low, high = np.zeros((samples, 1)), np.ones((samples, 1))
    for _ in range(_HALVINGS):
        width = (low + high) / 2
        smooth = np.fft.irfft(spectrum * np.exp(-((frequency * width) ** 2) / 2))[:, :_CELLS]
        wider = np.abs(smooth).sum(axis=1, keepdims=True) >= width
        low, high = np.where(wider, width, low), np.where(wider, high, width)
    return np.asarray((low + high)[:, 0] / 2)


def is_confident(confidence: npt.ArrayLike, threshold: float = 0.9) -> BoolArray:
    """Return which items have confidence `threshold` or more, to 1e-12.

    A probability of 0.9 comes out of logarithm and softmax a digit below or above it.

    Args:
        confidence: (n,) top probabilities in [0, 1].
        threshold: Confidence from which an item counts as confident, in [0, 1].

    Returns:
        (n,) bool.

    Raises:
        ValueError: The threshold is outside [0, 1].

    Examples:
        >>> from pact_eval.metrics import is_confident
        >>> is_confident([0.9, 0.89, 0.9 - 1e-16])
        array([ True, False,  True])
    """
    if not 0 <= threshold <= 1:
        raise ValueError(f"threshold: expected a number in [0, 1], got {threshold}")
    return np.asarray(confidence, dtype=np.float64) >= threshold - TIE


def confident_errors(
    confidence: npt.ArrayLike, correct: npt.ArrayLike, threshold: float = 0.9
) -> float:
    """Return the share of the errors that have confidence `threshold` or more.

    Args:
        confidence: (n,) top probabilities in [0, 1].
        correct: (n,) bool.
        threshold: Confidence from which an error counts as confident, in [0, 1].

    Returns:
        A fraction of the errors in [0, 1], lower is better; NaN if there are no errors.

    Raises:
        ValueError: Shapes differ, or a confidence or the threshold is outside [0, 1].

    Examples:
        >>> from pact_eval.metrics import confident_errors
        >>> confident_errors([0.95, 0.95, 0.6], [True, False, False])
        0.5
    """
    c, right = check_confidence(confidence, correct)
    return item_mean(is_confident(c, threshold)[~right])
