"""The decoding that a metric is of: which views, and whether they are calibrated."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pact_eval.runs import Decoding


@dataclass(frozen=True, slots=True, order=True)
class MetricDecoding:
    """The decoding that a number is of; files and tables have its name.

    Attributes:
        views: view 0 alone, or the K views together.
        calibrated: whether the probabilities are divided by a fitted temperature.

    Examples:
        >>> str(MetricDecoding("single")), str(MetricDecoding("ensemble", calibrated=True))
        ('single', 'ensemble_calibrated')
    """

    views: Decoding
    calibrated: bool = False

    @classmethod
    def parse(cls, name: str) -> MetricDecoding:
        """Return the decoding of a name.

        Raises:
            ValueError: no decoding has that name.

        Examples:
            >>> MetricDecoding.parse("ensemble_calibrated")
            MetricDecoding(views='ensemble', calibrated=True)
        """
        return DECODINGS[DECODING_NAMES.index(name)]

    def __str__(self) -> str:
        return f"{self.views}_calibrated" if self.calibrated else self.views


SINGLE: Final = MetricDecoding("single")
SINGLE_CALIBRATED: Final = MetricDecoding("single", calibrated=True)
ENSEMBLE: Final = MetricDecoding("ensemble")
ENSEMBLE_CALIBRATED: Final = MetricDecoding("ensemble", calibrated=True)
DECODINGS: Final = (SINGLE, SINGLE_CALIBRATED, ENSEMBLE, ENSEMBLE_CALIBRATED)
DECODING_NAMES: Final = tuple(map(str, DECODINGS))
