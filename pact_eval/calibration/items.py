"""The items that a calibrator is fitted on or judged on, as arrays."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from pact_eval.calibration.calibrators import KINDS
from pact_eval.errors import InputError
from pact_eval.metrics import check_log_probs, check_reference, rows_of
from pact_eval.runs import Decoding, Predictions

__all__ = ["CalibrationItems"]

FloatArray: TypeAlias = npt.NDArray[np.float64]
IntArray: TypeAlias = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class CalibrationItems:
    """Uncalibrated distributions with their references, and what a temperature may depend on.

    Attributes:
        log_probs: shape (n, C), log-probabilities in nats, canonical order, unused slots -inf.
        reference: shape (n,), canonical index of the right answer.
        kind: shape (n,), "choice", "boolean" or "score".
        n_choices: shape (n,), number of answers of each item.
        prompt_tokens: shape (n,), tokens of view 0, above 0; NaN where unknown.
        family: shape (n,), the clusters that standard errors respect; "" where unknown.
        source_family: shape (n,), what `choose_mode` leaves out together; "" where unknown.
        decoding: how the distributions were made; None where nobody said.

    Raises:
        InputError: Shapes differ, or a value is outside its range.

    Examples:
        >>> import numpy as np
        >>> from pact_eval.calibration import CalibrationItems
        >>> names = np.array(["f1", "f2"])
        >>> items = CalibrationItems(
        ...     np.log([[0.9, 0.1], [0.4, 0.6]]), np.array([0, 1]), np.array(["boolean"] * 2),
        ...     np.array([2, 2]), np.array([300.0, 400.0]), names, names)
        >>> len(items), len(items.take(np.array([False, True])))
        (2, 1)
    """

    log_probs: FloatArray
    reference: IntArray
    kind: npt.NDArray[np.str_]
    n_choices: IntArray
    prompt_tokens: FloatArray
    family: npt.NDArray[np.str_]
    source_family: npt.NDArray[np.str_]
    decoding: Decoding | None = None

    def __post_init__(self) -> None:
        log_probs = check_log_probs(self.log_probs)
        n, width = log_probs.shape
        reference = check_reference(self.reference, (n, width))
        for name in ("kind", "n_choices", "prompt_tokens", "family", "source_family"):
            shape = np.shape(getattr(self, name))
            if shape != (n,):
                raise InputError(f"{name}: expected shape ({n},), got {shape}")
        self._refuse(~np.isin(self.kind, KINDS), f"kind: expected one of {', '.join(KINDS)}")
        outside = (self.n_choices < 1) | (self.n_choices > width)
        self._refuse(outside, f"n_choices: expected 1..{width}")
        self._refuse(reference >= self.n_choices, "reference: expected one of the item's answers")
        length = self.prompt_tokens
        known = ~np.isnan(length)
        self._refuse(known & ~((length > 0) & (length < np.inf)), "prompt_tokens: expected above 0")

    def __len__(self) -> int:
        return len(self.reference)

    @classmethod
    def from_predictions(cls, predictions: Predictions, decoding: Decoding) -> CalibrationItems:
        """Take the items of a run under a decoding.

        Args:
            predictions: the scored views of a run.
            decoding: single (view 0) or ensemble (K views).
        """
        return cls(
            log_probs=predictions.log_probs(decoding),
            reference=predictions.reference,
            kind=predictions.kind,
            n_choices=predictions.n_choices,
            prompt_tokens=predictions.prompt_tokens,
            family=predictions.family,
            source_family=predictions.source_family,
            decoding=decoding,
        )

    def take(self, keep: npt.NDArray[np.bool_] | IntArray) -> CalibrationItems:
        """Return the rows that a mask or an index keeps."""
        arrays = {field.name: getattr(self, field.name) for field in fields(self)}
        del arrays["decoding"]
        return replace(self, **{name: array[keep] for name, array in arrays.items()})

    @staticmethod
    def _refuse(bad: npt.NDArray[np.bool_], message: str) -> None:
        if bad.any():
            raise InputError(f"{message}, not so in {rows_of(bad)}")
