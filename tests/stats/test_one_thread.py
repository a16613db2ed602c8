"""One thread of BLAS; the source of truth is what the libraries say of themselves."""

from __future__ import annotations

import numpy as np
import scipy.linalg  # another BLAS than numpy's
from threadpoolctl import threadpool_info, threadpool_limits

from pact_eval.stats.bootstrap import one_blas_thread


def _threads() -> list[int]:
    return [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]


def test_every_blas_has_one_thread_in_the_block_and_as_many_as_before_after_it() -> None:
    scipy.linalg.blas.ddot(np.ones(2), np.ones(2))
    with threadpool_limits(2, user_api="blas"):
        before = _threads()
        assert set(before) == {2}
        with one_blas_thread():
            assert set(_threads()) == {1}
        assert _threads() == before
