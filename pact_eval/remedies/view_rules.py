"""The rule of an adaptive run, chosen on a run of other families before anything is scored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, get_args

import numpy as np

from pact_eval._choices import TakenViews, check_choice
from pact_eval._json import Json, sha256_of_json
from pact_eval.data.records import Record
from pact_eval.errors import GateError, InputError
from pact_eval.remedies.sequential import RISK, ViewSequence, fit_threshold, least_families
from pact_eval.runs.folder import Run, RunSource, read_any_run
from pact_eval.runs.identity import RunIdentity
from pact_eval.runs.provenance import Provenance
from pact_eval.runs.view_rule import FULL_SHARE, ViewRule

if TYPE_CHECKING:  # scoring reads datasets, and remedies read runs
    from pact_eval.scoring.windows import Dataset

_SHOWN = 3


@dataclass(frozen=True)
class AdaptiveViews:
    """Choice of how the views of a run are taken.

    Attributes:
        fitted_on: a run with all views, on other families, by the same model and prompts.
        risk: share of answers that may differ from those of all views.
        full_share: share of the families that get all views whatever their answers.
        full_seed: seed of this sample.
    """

    fitted_on: RunSource
    risk: float = RISK
    full_share: float = FULL_SHARE
    full_seed: int = 0


def adaptive_views(views: TakenViews = "all", **chosen: Any) -> AdaptiveViews | None:
    """Return what options of views ask for, named as on the command line; None for all views.

    Args:
        views: "all" or "adaptive".
        chosen: options that were given: `views_from`, `risk`, `full_share`, `full_seed`.

    Raises:
        InputError: `views` is neither, an option changes nothing, or the run of the threshold is
            missing.

    Examples:
        >>> adaptive_views("adaptive", views_from="runs/calibration", risk=0.05).risk
        0.05
        >>> adaptive_views(risk=0.05)
        Traceback (most recent call last):
            ...
        pact_eval.errors.InputError: --risk changes nothing without --views adaptive
    """
    check_choice("--views", views, get_args(TakenViews))
    if views == "all":
        if chosen:
            option = f"--{next(iter(chosen)).replace('_', '-')}"
            message = f"{option} changes nothing without --views adaptive"
            raise InputError(message)
        return None
    if "views_from" not in chosen:
        message = (
            "--views adaptive: expected --views-from RUN, a run of all views on other families, "
            "such as one of the calibration split"
        )
        raise InputError(message)
    return AdaptiveViews(chosen.pop("views_from"), **chosen)


def view_rule(
    adaptive: AdaptiveViews, records: Sequence[Record], k: int, settings: Mapping[str, Json]
) -> ViewRule:
    """Choose the rule of a run.

    Args:
        adaptive: how the views are to be taken.
        records: the records that will be scored.
        k: most views of a record.
        settings: those that identify the model that will be scored, as in `run.json`.

    Raises:
        GateError: the threshold would be chosen on families that it is applied to.
        InputError: the run is of another model, has fewer views or too few families, or a share is
            out of range.
        RunError: it cannot be read.
    """
    if not 0 <= adaptive.full_share <= 1:
        message = f"--full-share: expected a share from 0 to 1, got {adaptive.full_share:g}"
        raise InputError(message)
    run = read_any_run(adaptive.fitted_on)
    _refuse_views(run, k)
    _refuse_other_model(run, settings)
    _refuse_own_families(run, records)
    views = run.predictions.first_views(k)
    n_families = len(np.unique(views.family))
    least = least_families(adaptive.risk)
    if n_families < least:
        message = (
            f"{run.place}: a risk of {adaptive.risk:g} needs {least:,} families for a threshold, "
            f"the run has {n_families:,}; give a larger --risk, or a run of more families"
        )
        raise InputError(message)
    critical = ViewSequence.of(views).critical_firmness()
    return ViewRule(
        threshold=fit_threshold(critical, views.family, adaptive.risk),
        risk=adaptive.risk,
        full_share=adaptive.full_share,
        full_seed=adaptive.full_seed,
        decimals=run.provenance.rounding.decimals,
        fit={
            "run": RunIdentity.of(run.provenance).to_json(),
            "k": k,
            "families": n_families,
            "items": len(views),
            "families_sha256": sha256_of_json(sorted(set(views.family.tolist()))),
        },
    )


def with_rule(dataset: Dataset, adaptive: AdaptiveViews, settings: Mapping[str, Json]) -> Dataset:
    """Return a dataset with the rule by which its views are taken.

    Args:
        dataset: the records, and the most views of each.
        adaptive: how the views are to be taken.
        settings: those that identify the model, as in `run.json`.

    Raises:
        PactError: see `view_rule`.
    """
    settings = {**settings, **dataset.settings}
    return replace(dataset, rule=view_rule(adaptive, dataset.records, dataset.k, settings))


def _refuse_views(run: Run, k: int) -> None:
    views = run.predictions
    views.require_all_views("--views-from")
    if views.k < k or views.k == 1 or views.repeats:
        has = f"repeats {views.k} times" if views.repeats else f"has {views.k}"
        message = (
            f"{run.place}: --views-from needs a run of at least --k {max(k, 2)} views in other "
            f"orders, this one {has}"
        )
        raise InputError(message)


def _refuse_other_model(run: Run, settings: Mapping[str, Json]) -> None:
    scored = Provenance.of({"settings": dict(settings)})
    differences = RunIdentity.of(run.provenance).differences(RunIdentity.of(scored))
    names = [difference.words for difference in differences]
    server, before = settings.get("server"), run.settings.get("server")
    if server is not None and before is not None and server != before:
        names.append("server")
    if run.settings.get("orders") != settings.get("orders"):
        names.append("design of the letter orders")
    if names:
        message = (
            f"{run.place}: --views-from needs a run of the same model and prompts; other: "
            f"{', '.join(names)}"
        )
        raise InputError(message)


def _refuse_own_families(run: Run, records: Sequence[Record]) -> None:
    fitted = set(run.predictions.family.tolist())
    shared = sorted(fitted & {record.family for record in records})
    if shared:
        more = "" if len(shared) <= _SHOWN else ", ..."
        message = (
            f"{run.place}: --views-from: {len(shared):,} families of the data are in the run "
            f"({', '.join(shared[:_SHOWN])}{more}); a threshold is chosen on other families: give "
            "a run of the calibration split"
        )
        raise GateError(message)
