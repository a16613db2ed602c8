"""Clusters of unequal size: degrees of freedom, and residuals that make up for large clusters."""

import math
from typing import Final

import numpy as np

from pact_eval._typing import FloatArray

_ROUNDING: Final = 1e-9


def effective_clusters(rows: FloatArray) -> float:
    r"""Return how many clusters of one size are worth as much, :math:`n^2 / \sum_f n_f^2`.

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
    """Return the degrees of t quantiles: effective clusters minus one, rounded down, at least 1.

    Examples:
        >>> import numpy as np
        >>> degrees_of_freedom(np.array([2.0, 2.0, 2.0])), degrees_of_freedom(np.array([9.0, 1.0]))
        (2, 1)
    """
    return max(1, math.floor(effective_clusters(rows) + _ROUNDING) - 1)


def degrees_of_copies(rows: FloatArray) -> int:
    r"""Return the degrees of t quantiles if the rows of a cluster are like copies of one another.

    The residual of a cluster then grows with its size, and so does its part in the variance: of
    :math:`\sum_f U_f^2` with variances in proportion to :math:`n_f^2`, Satterthwaite's degrees are
    :math:`(\sum_f n_f^2)^2 / \sum_f n_f^4 - 1`, rounded down, at least 1.

    References:
        Satterthwaite, "An approximate distribution of estimates of variance components",
        Biometrics 1946.

    Examples:
        >>> import numpy as np
        >>> unequal = np.tile([1.0, 2.0, 2.0, 3.0, 8.0], 20)
        >>> degrees_of_copies(np.full(100, 2.0)), degrees_of_copies(unequal)
        (99, 30)
        >>> degrees_of_freedom(unequal)
        61
    """
    return degrees_of_freedom(rows**2)


def jackknifed(residuals: FloatArray, rows: FloatArray) -> FloatArray:
    r"""Return residuals :math:`U_f (1 - 1/F) / (1 - n_f / n)`; clusters of one size keep theirs.

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
