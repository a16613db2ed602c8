"""Errors and the proper score of Score fields, in levels: per item."""

import numpy as np
import numpy.typing as npt

from pact_eval._typing import FloatArray
from pact_eval.metrics._arrays import check_log_probs, check_reference
from pact_eval.metrics.decisions import predicted


def expected_level_error(log_probs: npt.ArrayLike, reference: npt.ArrayLike) -> FloatArray:
    r"""Distance of the expected level from the reference: :math:`|\sum_j j\,p_j - y|`.

    Args:
        log_probs: (n, C_max) normalised log-probabilities of levels 0..C-1, unused slots -inf.
        reference: (n,) reference level.

    Returns:
        (n,) levels in [0, C - 1], lower is better; the mean is the expected-level MAE. It is not
        proper: over-confidence moves the expected level from the mean of the true distribution
        towards its median, and so lowers it. `rps` is proper.

    Raises:
        ValueError: A value is NaN or above 0, or a reference lies outside the slots.

    Examples:
        >>> import numpy as np
        >>> from pact_eval.metrics import expected_level_error
        >>> expected_level_error(np.log([[0.25, 0.5, 0.25]]), [2]).round(12)
        array([1.])
    """
    log_p = check_log_probs(log_probs)
    y = check_reference(reference, log_p.shape)
    return np.asarray(np.abs(np.exp(log_p) @ np.arange(log_p.shape[1]) - y), dtype=np.float64)


def rps(log_probs: npt.ArrayLike, reference: npt.ArrayLike) -> FloatArray:
    r"""Ranked probability score: :math:`\sum_j (F_j - 1[j \ge y])^2`, with :math:`F_j` cumulative.

    The sum is not divided by C - 1, so it is in levels: a distribution on one level has its
    distance from the reference, as in the level error. It is the term L_EMD of the PACT objective.
    The score is strictly proper: with G the true cumulative distribution, the expected score is
    :math:`\sum_j (F_j - G_j)^2 + \sum_j G_j (1 - G_j)`, and only F = G attains the minimum.

    Args:
        log_probs: (n, C_max) normalised log-probabilities of levels 0..C-1, unused slots -inf.
        reference: (n,) reference level.

    Returns:
        (n,) levels in [0, C - 1], lower is better.

    Raises:
        ValueError: A value is NaN or above 0, or a reference lies outside the slots.

    References:
        Epstein, "A scoring system for probability forecasts of ranked categories", Journal of
        Applied Meteorology 8, 1969; in this form Murphy, "A note on the ranked probability score",
        Journal of Applied Meteorology 10, 1971.

    Examples:
        >>> import numpy as np
        >>> from pact_eval.metrics import rps
        >>> rps(np.log([[0.25, 0.5, 0.25]]), [2]).round(12)
        array([0.625])
    """
    log_p = check_log_probs(log_probs)
    y = check_reference(reference, log_p.shape)
    cumulative = np.cumsum(np.exp(log_p), axis=1)
    reached = np.arange(log_p.shape[1]) >= y[:, None]
    # The last sum is 1 but for rounding, and unused slots add nothing to it.
    return np.asarray(np.square(cumulative - reached).sum(axis=1), dtype=np.float64)


def level_error(log_probs: npt.ArrayLike, reference: npt.ArrayLike) -> FloatArray:
    r"""Distance of the predicted level from the reference: :math:`|\arg\max_j p_j - y|`.

    Args:
        log_probs: (n, C_max) normalised log-probabilities of levels 0..C-1, unused slots -inf.
        reference: (n,) reference level.

    Returns:
        (n,) integer levels in [0, C - 1], lower is better; the mean is the level MAE.

    Raises:
        ValueError: A value is NaN or above 0, or a reference lies outside the slots.

    Examples:
        >>> import numpy as np
        >>> from pact_eval.metrics import level_error
        >>> level_error(np.log([[0.2, 0.5, 0.3], [0.8, 0.1, 0.1]]), [2, 2])
        array([1., 2.])
    """
    log_p = check_log_probs(log_probs)
    y = check_reference(reference, log_p.shape)
    return np.asarray(np.abs(predicted(log_p) - y), dtype=np.float64)
