"""Clusters of unequal size: degrees of freedom, and residuals that make up for large clusters."""

import math
from typing import Final

import numpy as np

from pact_eval._typing import FloatArray

_ROUNDING: Final = 1e-9


def effective_clusters(rows: FloatArray) -> float:
    r"""Returns how many clusters of one size are worth as much, :math:`n^2 / \sum_f n_f^2`.

    Args:
        rows: (F,) number of rows of each cluster, 0 or more; not all 0.

    References:
        Kish, "Survey sampling", 1965.

    Examples:
        >>> import numpy as np
        >>> effective_clusters(np.array([2.0, 2.0, 2.0]))
        3.0
        >>> round(effective_clusters(np.tile([1.0, 2.0, 2.0, 3.0, 8.0], 20)), 1)
        62.4
    """
    return float(rows.sum()) ** 2 / float((rows**2).sum())


def degrees_of_freedom(rows: FloatArray) -> int:
    """Returns the degrees of t quantiles: effective clusters minus one, rounded down, at least 1.

    Examples:
        >>> import numpy as np
        >>> degrees_of_freedom(np.array([2.0, 2.0, 2.0])), degrees_of_freedom(np.array([9.0, 1.0]))
        (2, 1)
    """
    return max(1, math.floor(effective_clusters(rows) + _ROUNDING) - 1)


def jackknifed(residuals: FloatArray, rows: FloatArray) -> FloatArray:
    r"""Returns residuals :math:`U_f (1 - 1/F) / (1 - n_f / n)`; clusters of one size keep theirs.

    A large cluster pulls the estimate towards itself, so its residual is too small. The squares of
    these residuals, summed and times F / (F - 1), are the variance of the jackknife.

    Args:
        residuals: (F,) of two or more clusters with rows.
        rows: (F,) number of rows of each, above 0.

    References:
        Bell and McCaffrey, "Bias reduction in standard errors for linear regression with
        multi-stage samples", Survey Methodology 28, 2002; MacKinnon, Nielsen and Webb, "Fast and
        reliable jackknife and bootstrap methods for cluster-robust inference", Journal of Applied
        Econometrics 38, 2023.

    Examples:
        >>> import numpy as np
        >>> jackknifed(np.array([1.0, -1.0]), np.array([3.0, 1.0]))
        array([ 2.        , -0.66666667])
    """
    return np.asarray(residuals * ((1 - 1 / rows.size) / (1 - rows / rows.sum())))
