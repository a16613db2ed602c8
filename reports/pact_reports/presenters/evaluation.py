"""The evaluation of a run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict

from pact_eval._choices import ClusterUnit
from pact_eval._json import Json
from pact_eval.data.records import position_name
from pact_eval.evaluation.conclusions.data import DataLeak
from pact_eval.evaluation.metric_specs import MetricSpec
from pact_eval.evaluation.report import Evaluation, Group
from pact_eval.numbers import GENERALISATION, reason_text
from pact_eval.stats.homogeneity import SlotHomogeneity
from pact_reports.presenters.presenter import Presenter
from pact_reports.table import Part
from pact_reports.writers.json import COUNTS, answer_json, estimate_json, to_json, warnings_json


def present(evaluation: Evaluation) -> Presenter:
    """Present an evaluation. JSON does not load what lays out tables."""
    leaks = [warning for warning in evaluation.warnings if isinstance(warning, DataLeak)]
    others = [warning for warning in evaluation.warnings if not isinstance(warning, DataLeak)]

    def tables() -> Iterable[Part]:
        from pact_reports.tables.report import evaluation_parts

        return evaluation_parts(evaluation)

    def answers() -> Iterable[str]:

        return (conclusion.sentence for conclusion in evaluation.conclusions)

    def leak() -> DataLeak | None:
        return next(iter(leaks), None)

    def headline() -> Iterable[str]:
        from pact_reports.sentences.brief import answer_line

        return [answer_line(evaluation, leak())]

    return Presenter(
        tables=tables,
        to_json=lambda: {
            **evaluation_json(evaluation),
            "answer": answer_json(evaluation.conclusions),
        },
        answers=answers,
        warnings=[*map(str, others)],
        leak=leak,
        headline=headline,
    )


def evaluation_json(evaluation: Evaluation) -> dict[str, Json]:
    """Turn the numbers of an evaluation into JSON values.

    Returns:
        Rates and probabilities are fractions, not percent. What JSON cannot say (NaN, infinity) is
        null next to a `reason`; what ablated contexts do not have is null.
    """
    ties = evaluation.near_ties
    smallest = evaluation.smallest_probability
    return {
        "contexts": evaluation.contexts,
        "decoding": {"views": evaluation.decoding_name, "calibration": evaluation.calibration},
        "k": evaluation.k,
        "repeats": evaluation.repeats,
        "by": evaluation.by,
        "unit": evaluation.unit,
        "intervals": GENERALISATION[evaluation.unit],
        "metrics": _metrics(evaluation.metrics),
        "groups": [_group(group, smallest, evaluation.unit) for group in evaluation.groups],
        "letters": _letters(evaluation.letters, evaluation.unit),
        "view_tv": to_json(evaluation.view_tv),
        "mean_answer_mass": to_json(evaluation.mean_answer_mass),
        "smallest_probability": to_json(smallest),
        "near_ties": None if ties is None else asdict(ties),
        "notes": [to_json(note) for note in evaluation.notes],
        "warnings": warnings_json(evaluation.warnings),
    }


def _metrics(specs: Sequence[MetricSpec]) -> Json:
    return [
        {"name": spec.name, "title": spec.title, "unit": spec.unit, "better": spec.better}
        for spec in specs
    ]


def _group(group: Group, smallest_probability: float, unit: ClusterUnit) -> Json:
    return {
        "name": group.name,
        "items": group.items,
        "families": group.families,
        COUNTS[unit]: group.clusters,
        "metrics": {
            name: estimate_json(estimate, unit) for name, estimate in group.estimates.items()
        },
        "pairs": None if group.pairs is None else asdict(group.pairs),
        "nll": None
        if group.nll is None
        else {
            "infinite_items": group.nll.infinite_items,
            "finite_mean": to_json(group.nll.finite_mean),
            "lower_bound": to_json(group.nll.lower_bound(smallest_probability)),
        },
        "answer_scores": to_json(group.answer_scores),
        "answer_scores_by_chance": to_json(group.chance),
    }


def _letters(letters: SlotHomogeneity | None, unit: ClusterUnit) -> Json:
    if letters is None:
        return None
    return {
        "codes": [position_name(slot) for slot in range(len(letters.observed))],
        "picked": letters.observed.tolist(),
        "right_answer": letters.expected.tolist(),
        "chi2": to_json(letters.chi2),
        "dof": letters.dof,
        "p_value": to_json(letters.p_value),
        "item_views": letters.units,
        COUNTS[unit]: letters.clusters,
        f"discordant_{COUNTS[unit]}": letters.discordant_clusters,
        "letter_p_values": to_json(letters.letter_p_values),
        "favoured": [position_name(slot) for slot in letters.favoured],
        "avoided": [position_name(slot) for slot in letters.avoided],
        "detectable_shift": to_json(letters.detectable),
        "reason": reason_text(letters.reason, unit),
    }
