"""Every number of the report as one JSON object."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict

from pact_eval._json import Json
from pact_eval.evaluation import METRICS, Evaluation, Group
from pact_eval.prompts import CODES
from pact_eval.stats import Estimate

__all__ = ["estimate_json", "evaluation_json"]


def evaluation_json(evaluation: Evaluation, provenance: Mapping[str, Json]) -> dict[str, Json]:
    """Turn an evaluation into JSON values.

    Args:
        evaluation: the numbers.
        provenance: the run's `run.json`, passed on whole.

    Returns:
        Rates and probabilities are fractions, not percent. What JSON cannot say (NaN, infinity) is
        null with a `reason` beside it.
    """
    letters = evaluation.letters
    return {
        "run": dict(provenance),
        "decoding": {"views": evaluation.decoding, "calibration": evaluation.calibration},
        "k": evaluation.k,
        "by": evaluation.by,
        "metrics": [
            {"name": spec.name, "title": spec.title, "unit": spec.unit, "better": spec.better}
            for spec in METRICS
        ],
        "groups": [_group(group, evaluation.smallest_probability) for group in evaluation.groups],
        "letters": {
            "codes": list(CODES[: len(letters.observed)]),
            "picked": letters.observed.tolist(),
            "right_answer": letters.expected.tolist(),
            "chi2": _number(letters.chi2),
            "dof": letters.dof,
            "p_value": _number(letters.p_value),
            "item_views": letters.units,
            "families": letters.clusters,
            "discordant_families": letters.discordant_clusters,
            "reason": letters.reason,
        },
        "mean_answer_mass": _number(evaluation.mean_answer_mass),
        "smallest_probability": _number(evaluation.smallest_probability),
        "notes": list(evaluation.notes),
    }


def _group(group: Group, smallest_probability: float) -> Json:
    return {
        "name": group.name,
        "items": group.items,
        "families": group.families,
        "metrics": {name: estimate_json(estimate) for name, estimate in group.estimates.items()},
        "pairs": asdict(group.pairs),
        "nll": {
            "infinite_items": group.nll.infinite_items,
            "finite_mean": _number(group.nll.finite_mean),
            "lower_bound": _number(group.nll.lower_bound(smallest_probability)),
        },
    }


def estimate_json(estimate: Estimate) -> Json:
    """Turn an estimate into JSON values: rates as fractions, null where there is no finite number.

    Example:
        >>> value = estimate_json(Estimate(0.5, 0.25, float("nan"), 2, 1, "none"))
        >>> value["value"], value["high"], value["families"]
        (0.5, None, 1)
    """
    return {
        "value": _number(estimate.value),
        "infinite": math.isinf(estimate.value),
        "low": _number(estimate.low),
        "high": _number(estimate.high),
        "n": estimate.n,
        "families": estimate.clusters,
        "method": estimate.method,
        "reason": estimate.reason,
    }


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None
