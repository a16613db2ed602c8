"""The comparison of arms over seeds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import cast

from pact_eval._json import Json
from pact_eval.evaluation.arm_names import KEYS, ArmNames
from pact_eval.evaluation.arms.comparison import Arm, ArmsComparison
from pact_eval.evaluation.conclusions.better import several_line
from pact_eval.evaluation.conclusions.data import beside_leak
from pact_eval.evaluation.experiment import Experiment
from pact_eval.evaluation.registry import find_metric
from pact_reports.presenters.comparison import experiment_json, heading
from pact_reports.presenters.presenter import Presenter, answer_lines
from pact_reports.sentences.brief import mass_lines
from pact_reports.table import Part
from pact_reports.tables.cells import leak_lines
from pact_reports.tables.comparison import arms_parts, pair_items
from pact_reports.writers.json import answer_json, to_json


def present(comparison: ArmsComparison) -> Presenter:
    """Present arms over seeds."""
    return Presenter(
        tables=partial(arms_parts, comparison, show_items=False),
        to_json=lambda: _json(comparison, KEYS),
    )


def present_arms(
    experiment: Experiment, names: ArmNames, *, full: bool = True, show_items: bool = False
) -> Presenter:
    """Present the first arm of an experiment compared with each of the others.

    Args:
        experiment: runs of several arms.
        names: display names of arms.
        full: show every table below the answer; otherwise at most twelve lines, and one more for
            each arm beyond three.
        show_items: list the items that only one of two arms answers correctly, by seed.
    """

    def headline() -> Iterator[str]:
        yield several_line(experiment.comparisons.better_arms, experiment.data.leak, names)

    def answers() -> Iterator[str]:
        leak = experiment.data.leak
        for conclusion in experiment.comparisons.better_arms:
            yield str(beside_leak(conclusion.named(names).words, leak))

    def tables() -> Iterable[Part]:
        return arms_parts(experiment.comparisons.of_arms, show_items=show_items, names=names)

    def block() -> Iterable[Part]:
        from pact_reports.tables.brief_arms import answer_masses_of_arms, brief_arms

        if full:
            masses = answer_masses_of_arms(experiment.comparisons.of_arms, names)
            answer = (*answer_lines(headline()), *mass_lines(masses))
            first = (*leak_lines(experiment.data.leak), *answer)
            return (*first, *heading(experiment), *tables(), *answer_lines(answers()))
        shown = experiment.comparisons.of_arms.pairs if show_items else ()
        items = (part for pair in shown for part in pair_items(pair, names))
        return (*brief_arms(experiment, names, items=show_items), *items)

    return Presenter(
        tables=tables,
        to_json=lambda: {
            "answer": answer_json([experiment.data], experiment.comparisons.better_arms),
            **experiment_json(experiment),
            "arms": _json(experiment.comparisons.of_arms, names),
        },
        warnings=[*map(str, experiment.applied_warnings)],
        answers=answers,
        leak=lambda: experiment.data.leak,
        headline=headline,
        blocks=lambda: (block(),),
    )


def _json(comparison: ArmsComparison, names: ArmNames) -> dict[str, Json]:
    """Return arms by name, with `arm_name` next to the key `name`, their pairs and standings."""
    return cast("dict[str, Json]", to_json(comparison)) | {
        "arms": [_arm(arm, names) for arm in comparison.arms],
        "standings": to_json(comparison.standings),
    }


def _arm(arm: Arm, names: ArmNames) -> Json:
    return {
        "name": arm.name,
        "arm_name": names.arm(arm.name),
        "seeds": [*arm.seeds],
        "summaries": {
            group: {
                metric: {
                    "mean": to_json(summary.mean),
                    "deviation": to_json(summary.deviation),
                    "n": len(summary.runs),
                    "reason": summary.reason,
                }
                for metric, summary in summaries.items()
            }
            for group, summaries in arm.summaries.items()
        },
        "chance": {
            group: {
                metric: to_json(summary.chance)
                for metric, summary in summaries.items()
                if find_metric(metric).noise_floor
            }
            for group, summaries in arm.summaries.items()
        },
    }
