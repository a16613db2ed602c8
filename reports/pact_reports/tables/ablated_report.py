"""The report on a run on ablated contexts: how sure the model is without its evidence."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from rich.console import RenderableType
from rich.text import Text

from pact_eval._json import Json
from pact_eval.evaluation import ABLATED_CONFIDENCE, ABLATED_METRICS, AblatedEvaluation
from pact_reports.tables.evaluation_tables import metric_tables
from pact_reports.writers.evaluation_json import estimate_json

__all__ = ["ablated_json", "ablated_report"]


def ablated_report(
    evaluation: AblatedEvaluation, *, width: int, plain: bool
) -> Iterator[RenderableType]:
    """Lay out the whole report.

    Args:
        evaluation: the numbers.
        width: columns of the terminal; groups that do not fit beside each other go below.
        plain: ASCII rules instead of lines, for output that is piped.

    Yields:
        Renderables in reading order.
    """
    method = evaluation.groups[0].estimates[ABLATED_CONFIDENCE].method
    yield Text(
        "Ablated contexts: without the evidence no answer is right, and a model that goes by it is "
        "unsure.\n"
        f"Decoding: {evaluation.decoding}, {evaluation.calibration}; K = {evaluation.k}. Rates in "
        f"%; in brackets the {method.replace('clusters', 'families')}.\n"
        "Answer gap: |z_a - z_b| in nats of the two answers that nothing here tells apart any more."
    )
    yield from metric_tables(evaluation.groups, ABLATED_METRICS, width=width, plain=plain)


def ablated_json(evaluation: AblatedEvaluation, provenance: Mapping[str, Json]) -> dict[str, Json]:
    """Turn an evaluation of ablated contexts into JSON values.

    Args:
        evaluation: the numbers.
        provenance: the run's `run.json`, passed on whole.

    Returns:
        As `evaluation_json` has it, with `"contexts": "ablated"` and without what rests on
        references.
    """
    return {
        "run": dict(provenance),
        "contexts": "ablated",
        "decoding": {"views": evaluation.decoding, "calibration": evaluation.calibration},
        "k": evaluation.k,
        "by": evaluation.by,
        "metrics": [
            {"name": spec.name, "title": spec.title, "unit": spec.unit, "better": spec.better}
            for spec in ABLATED_METRICS
        ],
        "groups": [
            {
                "name": group.name,
                "items": group.items,
                "families": group.families,
                "metrics": {name: estimate_json(each) for name, each in group.estimates.items()},
            }
            for group in evaluation.groups
        ],
    }
