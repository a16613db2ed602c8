"""Items of a run decoded by a remedy, with fits of its other families."""

from __future__ import annotations

from pact_eval.errors import InputError
from pact_eval.evaluation.experiment_run import ExperimentRun
from pact_eval.evaluation.items import ScoredItems
from pact_eval.remedies.contextual import ContentFree
from pact_eval.remedies.cross_fitting import cross_fitted, folds_of
from pact_eval.remedies.decodings import Remedy


def remedied_items(run: ExperimentRun, remedy: Remedy) -> ScoredItems:
    """Decode a run by a remedy, cross-fitted by source family if there are five, else by family.

    Args:
        run: a run on full contexts.
        remedy: the decoding.

    Returns:
        The items in the order of the run, under the decoding `single`. Repeats of one order have a
        row each, of the first two.

    Raises:
        InputError: the run cannot show the remedy: it has fewer views, answers without
            probabilities, no content-free prompts or one family.
        RunError: its content-free prompts are damaged, or not those of the run.
        TamperedError: they have changed since they were sealed.
    """
    predictions = run.predictions
    if predictions.repeats and remedy != Remedy(1):
        raise InputError(f"{remedy.name}: the views of {run.place} repeat one order")
    content_free = ContentFree.of_run(run.run, predictions) if remedy.contextual else None
    fitted = cross_fitted(
        predictions,
        remedy,
        folds_of(predictions),
        None if content_free is None else content_free.probabilities,
    )
    return ScoredItems.of(fitted.predictions, "single")
