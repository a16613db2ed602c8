"""Cost of quantising a base model: changed answers and moved probabilities of one adapter."""

from __future__ import annotations

from dataclasses import dataclass

from pact_eval.drift.distances import Distance, distance, joint_floor
from pact_eval.drift.drift import AnswerChanges, answer_changes
from pact_eval.drift.pairing import PairedRuns
from pact_eval.evaluation.experiment_run import ExperimentRun
from pact_eval.evaluation.settings import Settings
from pact_eval.runs.identity import RunIdentity


@dataclass(frozen=True)
class QuantisingCost:
    """Two runs of one adapter on one base, which differ in how the base is quantised.

    Attributes:
        before: precision of the first run, such as "bfloat16".
        after: precision of the second run, such as "bfloat16 (nf4)".
        answers: how many answers changed from the first to the second, of all items.
        distance: how far probabilities moved.
    """

    before: str | None
    after: str | None
    answers: AnswerChanges
    distance: Distance


def quantising_cost(
    first: ExperimentRun, second: ExperimentRun, settings: Settings
) -> QuantisingCost | None:
    """Measure what quantising changed, in either order of the runs.

    Args:
        first: a run.
        second: another run on the same items.
        settings: decoding, calibration and units.

    Returns:
        None unless the runs differ in quantisation and not in the adapter.

    Raises:
        InputError: an item has another reference, kind or family in the other run.
    """
    identities = (RunIdentity.of(run.provenance) for run in (first, second))
    facts = {difference.fact for difference in next(identities).differences(next(identities))}
    if "quantisation" not in facts or facts & {"adapter", "base"} or first.ablated:
        return None
    plain, packed = (second, first) if second.provenance.quantisation is None else (first, second)
    pair = PairedRuns.of(plain, packed, settings)
    if not pair.pairing.paired:
        return None
    width = int(pair.a.predictions.n_choices.max(initial=2))
    provenances = plain.provenance, packed.provenance
    floor = joint_floor(*provenances, calibrated=settings.calibrated, answers=width)
    return QuantisingCost(
        plain.provenance.precision,
        packed.provenance.precision,
        answer_changes(pair.a, pair.b, settings.by)[0],
        distance(pair.a, pair.b, floor),
    )
