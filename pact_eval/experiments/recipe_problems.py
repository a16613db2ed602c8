"""Settings of recipes that name what the base or the data must have: layers and families."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import polars as pl

from pact_eval._toml import did_you_mean
from pact_eval.audit.adapter.base import targets_without_layer
from pact_eval.data.files import DataFile, Role
from pact_eval.data.index import index_of_records
from pact_eval.data.splits import HeldOut, assign_roles
from pact_eval.errors import InputError, PactError, Problem
from pact_eval.experiments.plan import Arm, Plan
from pact_eval.experiments.plan_files import PlanFiles
from pact_eval.training.recipes import names_of, setting_problem

_TARGETS: Final = "targets"
_FAMILIES: Final = "train_families"
_SOURCES: Final = "selection_source_families"


@dataclass(frozen=True)
class _Parts:
    """What the files of a training have.

    Attributes:
        families: number of families to train on.
        sources: source families of the selection split.
    """

    families: int
    sources: frozenset[str]


def recipe_problems(plan: Plan, files: PlanFiles) -> Iterator[Problem]:
    """Yield a problem for each setting that no training of these files can follow.

    Only the headers of the base's weights are read. The layers of a base on the Hub are not known.

    Args:
        plan: the plan.
        files: its files; what is missing is not compared.
    """
    settings = [entry for arm in plan.arms if arm.recipe for entry in _settings(arm)]
    keys = {key for _, key, _ in settings}
    parts = _parts(plan, files) if keys & {_FAMILIES, _SOURCES} else None
    for arm, key, value in settings:
        problem = None
        if key == _TARGETS:
            problem = _of_targets(plan, files, value)
        elif key == _FAMILIES and parts is not None and int(str(value)) > parts.families:
            problem = f"expected at most {parts.families}, the families to train on, got {value}"
        elif key == _SOURCES and parts is not None:
            problem = _of_sources(parts.sources, value)
        if problem:
            yield Problem(None, None, f"arms: {arm}: {key}: {problem}")


def _settings(arm: Arm) -> Iterator[tuple[str, str, object]]:
    """Yield the name of an arm with each key and each value that is valid by itself."""
    for key, value in arm.settings.items():
        for tried in value if isinstance(value, list) else [value]:
            if key in (_TARGETS, _FAMILIES, _SOURCES) and setting_problem(key, tried) is None:
                yield arm.name, key, tried


def _of_targets(plan: Plan, files: PlanFiles, value: object) -> str | None:
    """Return what is wrong with targets; None also if the layers of the base are not known."""
    if files.base is None:
        return None
    try:
        unknown, layers = targets_without_layer(plan.folder / files.base, names_of(value))
    except (PactError, OSError) as error:
        return f"the layers of {plan.model.base} cannot be read: {error}"
    if not unknown:
        return None
    return (
        f"expected layers of {plan.model.base} ({', '.join(layers)}), got "
        f"{', '.join(unknown)}{did_you_mean(unknown[0], layers)}"
    )


def _of_sources(sources: frozenset[str], value: object) -> str | None:
    unknown = [name for name in names_of(value) if name not in sources]
    if not unknown:
        return None
    return (
        f"expected source families of the selection split ({', '.join(sorted(sources))}), got "
        f"{', '.join(unknown)}"
    )


def _parts(plan: Plan, files: PlanFiles) -> _Parts | None:
    """Return what the files have, or will have once they are split; None if that is not known.

    Bad lines and too few source families are left to the audit and the split, which name them.
    """

    def frame(role: Role, path: Path) -> pl.DataFrame:
        return index_of_records([DataFile(path.name, role, plan.folder / path)]).frame

    if not (plan.folder / files.train).is_file():
        return None
    try:
        train = frame("train", files.train)
        if files.selection is not None and files.has_splits:
            sources = frozenset(frame("selection", files.selection)["source_family"])
            return _Parts(train["family"].n_unique(), sources)
        held_out = HeldOut(plan.data.select, plan.data.calibrate, plan.data.seed)
        roles = assign_roles(train["source_family"], held_out)
    except InputError:
        return None
    trained = [name for name, role in roles.items() if role == "train"]
    families = train.filter(train["source_family"].is_in(trained))["family"].n_unique()
    selected = frozenset(name for name, role in roles.items() if role == "selection")
    return _Parts(families, selected)
