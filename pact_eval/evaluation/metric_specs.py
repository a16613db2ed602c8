"""Name, title, unit and direction of a metric, without the code that computes it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, Literal

from pact_eval._choices import Decoding
from pact_eval.numbers import Unit, value_text

DecodingName = Literal["single", "ensemble", "repeats", "repeats_together"]
"""Name of the decoding of one run in outputs; `decoding_name` says what each is."""


def decoding_name(decoding: Decoding, repeats: int) -> DecodingName:
    """Return the name of a decoding.

    `single` is view 0, and `ensemble` all K views. If the views are repeats of one order, single is
    the mean over the repeats of each metric (`repeats`), and ensemble the one distribution that
    they give together (`repeats_together`).

    Args:
        decoding: the choice of the user.
        repeats: number of repeats per item; 1 if the views are not repeats.

    Examples:
        >>> decoding_name("single", 1), decoding_name("single", 3), decoding_name("ensemble", 3)
        ('single', 'repeats', 'repeats_together')
    """
    if repeats == 1:
        return decoding
    return "repeats" if decoding == "single" else "repeats_together"


@dataclass(frozen=True, slots=True, order=True)
class MetricDecoding:
    """The decoding that a number is of; files and tables have its name.

    Attributes:
        views: one view alone (of repeats, the mean over them), or the K views together.
        calibrated: whether the probabilities are divided by a fitted temperature.
        remedy: name of the remedy that makes one distribution of the views, which is `single`, such
            as `k2_additive`; empty without one.

    Examples:
        >>> str(MetricDecoding("single")), str(MetricDecoding("ensemble", calibrated=True))
        ('single', 'ensemble_calibrated')
        >>> str(MetricDecoding("single", remedy="k2_additive"))
        'k2_additive'
    """

    views: Decoding
    calibrated: bool = False
    remedy: str = ""

    @classmethod
    def parse(cls, name: str) -> MetricDecoding:
        """Return the decoding of a name.

        Raises:
            ValueError: no decoding has that name.

        Examples:
            >>> MetricDecoding.parse("ensemble_calibrated")
            MetricDecoding(views='ensemble', calibrated=True, remedy='')
        """
        return DECODINGS[DECODING_NAMES.index(name)]

    def __str__(self) -> str:
        if self.remedy:
            return self.remedy
        return f"{self.views}_calibrated" if self.calibrated else self.views


SINGLE: Final = MetricDecoding("single")
SINGLE_CALIBRATED: Final = MetricDecoding("single", calibrated=True)
ENSEMBLE: Final = MetricDecoding("ensemble")
ENSEMBLE_CALIBRATED: Final = MetricDecoding("ensemble", calibrated=True)
DECODINGS: Final = (SINGLE, SINGLE_CALIBRATED, ENSEMBLE, ENSEMBLE_CALIBRATED)
DECODING_NAMES: Final = tuple(map(str, DECODINGS))


MINUS: Final = "−"


@dataclass(frozen=True, slots=True)
class MetricSpec:
    """Name and display of a metric.

    Attributes:
        name: key in JSON.
        title: in tables.
        unit: how it is shown.
        better: 1 if higher is better, -1 if lower is better, 0 if differences are not marked.
    """

    name: str
    title: str
    unit: Unit
    better: Literal[-1, 0, 1]

    @property
    def difference_unit(self) -> Unit:
        """Unit of a difference between two values: points if the metric is a rate."""
        return "points" if self.unit == "percent" else self.unit

    def shown(self, value: float) -> str:
        """Write a value as papers print it: AURC in percent with two decimals, a true minus.

        Example:
            >>> from pact_eval.evaluation.registry import metric_spec
            >>> metric_spec("aurc").shown(0.0341), metric_spec("ensemble_gain").shown(-0.007)
            ('3.41', '−0.7')
        """
        if self.name == "aurc" and math.isfinite(value):
            return f"{100 * value:.2f}".replace("-", MINUS)
        return value_text(value, self.unit).replace("-", MINUS)


DIFFERENCE: Final = MetricSpec("difference", "Difference", "points", 0)
"""A difference between two rates, in points and signed."""
