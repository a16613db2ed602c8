"""Errors of Score fields, in levels: per item."""

import numpy as np
import numpy.typing as npt

from pact_eval.metrics._arrays import FloatArray, check_log_probs, check_reference
from pact_eval.metrics.decisions import predicted


def expected_level_error(log_probs: npt.ArrayLike, reference: npt.ArrayLike) -> FloatArray:
    r"""Distance of the expected level from the reference: :math:`|\sum_j j\,p_j - y|`.

    Args:
        log_probs: (n, C_max) normalised log-probabilities of levels 0..C-1, unused slots -inf.
        reference: (n,) reference level.

    Returns:
        (n,) levels in [0, C - 1], lower is better; the mean is the expected-level MAE.

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
