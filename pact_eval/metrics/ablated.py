"""How far a decision still leans where the evidence is gone: per item."""

import numpy as np
import numpy.typing as npt

from pact_eval.metrics._arrays import FloatArray, check_log_probs, check_whole, rows_of


def answer_gap_nats(log_probs: npt.ArrayLike, answers: npt.ArrayLike) -> FloatArray:
    r"""Distance of two answers in log-probability, which is that of their logits.

    .. math:: |z_a - z_b| = |\log p_a - \log p_b|

    On a context without its evidence nothing tells the two answers of a pair apart, and 0 is what
    it should be: the square of this is the necessity term L_NR with eps = 0.

    Args:
        log_probs: (n, C_max) normalised log-probabilities, unused slots -inf.
        answers: (n, 2) canonical indices of the two answers a and b of each item.

    Returns:
        (n,) nats, 0 or more, lower is better; infinite if one of the two answers is impossible,
        NaN if both are.

    Raises:
        ValueError: The shapes do not fit, a value is NaN or above 0, or an answer lies outside the
            slots.

    Examples:
        >>> import numpy as np
        >>> from pact_eval.metrics import answer_gap_nats
        >>> answer_gap_nats(np.log([[0.5, 0.1, 0.4], [0.2, 0.2, 0.6]]), [[0, 1], [1, 0]]).round(3)
        array([1.609, 0.   ])
    """
    log_p = check_log_probs(log_probs)
    n, width = log_p.shape
    pair = check_whole("answers", answers)
    if pair.shape != (n, 2):
        raise ValueError(f"answers: expected shape ({n}, 2), got {pair.shape}")
    outside = (pair < 0) | (pair >= width)
    if outside.any():
        raise ValueError(
            f"answers: expected indices in 0..{width - 1}, got {pair[outside][0]} "
            f"in {rows_of(outside)}"
        )
    chosen = np.take_along_axis(log_p, pair, axis=1)
    with np.errstate(invalid="ignore"):
        return np.asarray(np.abs(chosen[:, 0] - chosen[:, 1]), dtype=np.float64)
