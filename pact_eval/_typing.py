"""The numpy arrays of the library, by the type of their numbers. Docstrings give their shapes."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

FloatArray: TypeAlias = npt.NDArray[np.float64]
IntArray: TypeAlias = npt.NDArray[np.int64]
BoolArray: TypeAlias = npt.NDArray[np.bool_]

TextArray: TypeAlias = npt.NDArray[np.object_] | npt.NDArray[np.str_]
"""Texts from data are Python strings: numpy's own arrays of text reserve the length of the longest
text for each, so that one id of 100 kB among 50,000 takes 19 GiB."""
