"""Fitting a remedy on one run, and checking that it may be applied to another."""

from __future__ import annotations

from collections.abc import Collection

from pact_eval._choices import Allowance
from pact_eval._json import Json
from pact_eval._toml import did_you_mean
from pact_eval._typing import FloatArray, TextArray
from pact_eval.calibration.notes import FitNote
from pact_eval.calibration.runs import Members, check_disjoint, check_owner
from pact_eval.errors import GateError, InputError, counted
from pact_eval.remedies.contextual import ContentFree
from pact_eval.remedies.decodings import Remedy, remedied, remedies_for
from pact_eval.remedies.fitted import FittedRemedy
from pact_eval.remedies.letter_priors import fit_letter_prior
from pact_eval.remedies.temperatures import fit_temperature
from pact_eval.runs.custody import refuse_trained_on, trained_on_json
from pact_eval.runs.folder import Run, RunSource, read_run
from pact_eval.runs.identity import RunIdentity
from pact_eval.runs.predictions import Predictions
from pact_eval.runs.provenance import Provenance


def fit_remedy(source: RunSource, name: str, *, allow: Collection[Allowance] = ()) -> FittedRemedy:
    """Fit a remedy on a run, to apply it to other families.

    Args:
        source: the run, or its folder.
        name: name of the remedy, such as `k1_additive`.
        allow: "trained-on" accepts a run on items that the adapter was trained on.

    Returns:
        The remedy with its letter prior and temperature; nothing is written.

    Raises:
        InputError: the run cannot fit this remedy; the message has the nearest that it can fit, or
            all of them. Or its views were taken one by one.
        GateError: the adapter was trained or selected on items of the run.
        RunError: the folder is not a complete run with references.
    """
    run = read_run(source)
    trained = refuse_trained_on([run], allow)
    own = ContentFree.of_run(run, run.predictions)
    content_free = None if own is None else own.probabilities
    remedy = _remedy_named(name, run.predictions, content_free)
    prior = None if remedy.prior is None else fit_letter_prior(run.predictions, remedy.prior)
    if prior is not None and not prior.log_prior:
        message = (
            f"{name}: the views of {run.place} identify no letter prior: more orders per item are "
            "needed; score the run with a larger --k"
        )
        raise InputError(message)
    decoded = remedied(run.predictions, remedy, prior, content_free)
    calibrator = fit_temperature(decoded)
    return FittedRemedy(remedy, prior, calibrator, _provenance(run), run.folder, trained)


def check_fitted(
    fitted: FittedRemedy,
    applied: Provenance,
    predictions: Predictions,
    *,
    allow: Collection[Allowance] = (),
    where: str,
) -> tuple[FitNote, ...]:
    """Check that a fitted remedy may be applied to a run.

    Args:
        fitted: the remedy.
        applied: provenance of the run.
        predictions: views of the run.
        allow: differences from the run of the fit that are accepted.
        where: the file of the remedy, for messages.

    Returns:
        Notes: source families that meet, families or models that are not known.

    Raises:
        GateError: it was fitted on families of this run.
        InputError: it belongs to another adapter, base or contract.
    """
    members = Members.of_run(predictions)
    shared = fitted.members.families & members.families
    if shared:
        message = (
            f"{where}: fitted on {counted(len(shared), 'family')} of this run (such as "
            f"{min(shared)}): its scores there would flatter it; fit it on separate families, as "
            "`pact-audit split` makes them"
        )
        raise GateError(message)
    owner = check_owner(fitted.identity, applied, allow=allow, where=where, what="remedy")
    return (*owner, *check_disjoint(fitted.members, members))


def _remedy_named(name: str, predictions: Predictions, content_free: FloatArray | None) -> Remedy:
    fittable = remedies_for(
        predictions.k, same_orders=predictions.repeats, content_free=content_free is not None
    )
    for remedy in fittable:
        if remedy.name == name:
            return remedy
    hint = did_you_mean(name, [remedy.name for remedy in fittable])
    raise InputError(f"--remedy: a run with K = {predictions.k} cannot fit {name!r}{hint}")


def _provenance(run: Run) -> dict[str, Json]:
    recorded, predictions = run.provenance, run.predictions

    def names(column: TextArray) -> list[Json]:
        return [*sorted(set(column.tolist()) - {""})]

    return {
        "run": {
            "arm": recorded.arm,
            "seed": recorded.seed,
            **RunIdentity.of(recorded).to_json(),
            "data_sha256": recorded.data.sha256,
        },
        "k": predictions.k,
        "items": len(predictions),
        "families": names(predictions.family),
        "source_families": names(predictions.source_family),
        **trained_on_json(run),
    }
