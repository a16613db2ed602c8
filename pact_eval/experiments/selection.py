"""Selection of one candidate of a tuned arm, by its NLL on the selection split.

    {"format": "pact-selected-1", "arm": "mine", "chosen": "mine.rank=16",
     "split": {"file": "selection.jsonl", "sha256": ..., "items": 120}, "seeds": [17, 18],
     "candidates": [{"candidate": "mine.rank=8", "settings": {"rank": 8},
                     "mean_nll_nats": 0.91, "nll_nats": {"17": 0.9, "18": 0.92}}, ...]}

The mean over the seeds of an arm decides, and its choice holds for all of them: a setting belongs
to the recipe. A choice at each seed would reward the luckiest training, and the seeds of the arm
would differ in more than chance. Nothing that a trainer reports is used: the NLL is that of runs.
"""

from __future__ import annotations

import math
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pact_eval._files import read_json, sha256_of_file, write_atomically
from pact_eval._json import Json, dumps, dumps_indented, finite_number
from pact_eval.custody.training_record import TRAINING_RECORD
from pact_eval.errors import InputError
from pact_eval.evaluation.items import ScoredItems
from pact_eval.evaluation.resampled_groups import point_estimates
from pact_eval.experiments.candidates import candidates_of, tuned_settings
from pact_eval.models.folders import ADAPTER_CONFIG, ADAPTER_WEIGHTS, SCHEMA_CONFIG
from pact_eval.results import Result
from pact_eval.runs.folder import Run, read_run
from pact_eval.runs.training_log import LOG_NAME
from pact_eval.templates.files import DECISION_CONFIG, DECISION_TEMPLATE

FORMAT: Final = "pact-selected-1"

ADAPTER_FILES: Final = (ADAPTER_CONFIG, ADAPTER_WEIGHTS)
"""Files that every adapter has."""

FURTHER_ADAPTER_FILES: Final = (SCHEMA_CONFIG, TRAINING_RECORD, DECISION_CONFIG, DECISION_TEMPLATE)
"""Files that an adapter may have, and that `score` reads."""

COPIED_FILES: Final = (*ADAPTER_FILES, *FURTHER_ADAPTER_FILES, LOG_NAME)
"""Files of a chosen adapter that are copied, if it has them."""

_NLL: Final = "nll_nats"
_ROLE: Final = "selection"


@dataclass(frozen=True)
class ScoredCandidate:
    """One candidate with its scores.

    Attributes:
        label: the recorded arm of its runs.
        settings: all settings of its trainings.
        nll_nats: by seed, the mean NLL over the items, in nats; infinite if it is not finite.
    """

    label: str
    settings: Mapping[str, Json]
    nll_nats: Mapping[int, float]

    @property
    def mean_nll_nats(self) -> float:
        """The mean over the seeds."""
        return math.fsum(self.nll_nats.values()) / len(self.nll_nats)


@dataclass(frozen=True, repr=False)
class ArmSelection(Result):
    """The choice among the candidates of an arm.

    Attributes:
        arm: the arm.
        split: file name of the selection split.
        split_sha256: hash of that file; None if the runs do not record one.
        items: number of its items.
        candidates: the candidates in the order of the plan.
    """

    arm: str
    split: str
    split_sha256: str | None
    items: int
    candidates: tuple[ScoredCandidate, ...]

    @property
    def chosen(self) -> ScoredCandidate:
        """The candidate with the lowest mean NLL; of equal ones, the first."""
        return min(self.candidates, key=lambda candidate: candidate.mean_nll_nats)

    @property
    def seeds(self) -> tuple[int, ...]:
        """The seeds that every candidate was trained with."""
        return tuple(self.candidates[0].nll_nats)

    @property
    def trainings(self) -> int:
        """Number of trainings that were compared."""
        return sum(len(candidate.nll_nats) for candidate in self.candidates)

    @property
    def tuned(self) -> dict[str, tuple[Json, ...]]:
        """The settings that differ between the candidates, with their values in order."""
        tried: dict[str, dict[str, Json]] = {}
        for candidate in self.candidates:
            for name, value in candidate.settings.items():
                tried.setdefault(name, {})[dumps(value)] = value  # to Python, 1 and true are equal
        return {name: tuple(values.values()) for name, values in tried.items() if len(values) > 1}

    @property
    def chosen_values(self) -> dict[str, Json]:
        """The chosen values of the tuned settings."""
        return {name: self.chosen.settings[name] for name in self.tuned}

    def to_json(self) -> dict[str, Json]:
        """Return the content of the file."""
        return {
            "format": FORMAT,
            "arm": self.arm,
            "chosen": self.chosen.label,
            "split": {"file": self.split, "sha256": self.split_sha256, "items": self.items},
            "seeds": [*self.seeds],
            "candidates": [_candidate_json(candidate) for candidate in self.candidates],
        }


def select(runs: Sequence[Path], *, arm: str, settings: Mapping[str, Json]) -> ArmSelection:
    """Choose among the candidates of an arm.

    Args:
        runs: runs of every candidate at every seed on the selection split. Their recorded arm names
            the candidate: `arm.label`.
        arm: the arm.
        settings: its settings; a list has the values to choose from.

    Raises:
        InputError: a run has another role or no seed, the runs are not those of all candidates,
            their seeds or items differ, or no candidate has a finite NLL.
        RunError: a folder is not a complete run.
        TamperedError: the files of a run have changed since it was sealed.
    """
    if not tuned_settings(settings):
        message = f"{arm}: expected a setting with a list of values, got none; nothing to choose"
        raise InputError(message)
    by_label: dict[str, dict[int, Run]] = {}
    for run in map(read_run, runs):
        label, seed = _named(run)
        if seed in by_label.setdefault(label, {}):
            message = f"{run.place}: a second run of {label}, seed {seed}"
            raise InputError(message)
        by_label[label][seed] = run
    candidates = {f"{arm}.{one.label}": one for one in candidates_of(settings)}
    if {*candidates} != {*by_label}:
        message = f"expected runs of {', '.join(candidates)}; got those of {', '.join(by_label)}"
        raise InputError(message)
    first = _refuse_different([run for seeds in by_label.values() for run in seeds.values()])
    seeds = sorted(next(iter(by_label.values())))
    for label, named in by_label.items():
        if sorted(named) != seeds:
            message = f"{label}: expected the seeds {seeds}, as of the others; got {sorted(named)}"
            raise InputError(message)
    scored = tuple(
        ScoredCandidate(label, one.settings, {seed: _nll(by_label[label][seed]) for seed in seeds})
        for label, one in candidates.items()
    )
    if not any(math.isfinite(candidate.mean_nll_nats) for candidate in scored):
        message = f"{arm}: no candidate has a finite NLL; nothing can be chosen"
        raise InputError(message)
    file = Path(first.provenance.data_name or "?").name
    return ArmSelection(arm, file, first.provenance.data.sha256, len(first.predictions), scored)


def write_selection(selection: ArmSelection, path: Path) -> None:
    """Write the file of a selection."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, dumps_indented(selection.to_json()))


def copy_chosen(selection: ArmSelection, runs: Sequence[Path], folder: Path) -> tuple[Path, ...]:
    """Copy the adapters of the chosen candidate to `folder/ARM-SEED`.

    Args:
        selection: the choice.
        runs: the runs that it was made from.
        folder: where the adapters go; existing files are replaced.

    Returns:
        The folders of the copies.

    Raises:
        InputError: an adapter is not there, or its weights are not those that were scored.
    """
    copies = []
    for run in map(read_run, runs):
        label, seed = _named(run)
        if label == selection.chosen.label:
            source = Path(run.provenance.adapter_folder or "")
            _check_weights(run, source / ADAPTER_WEIGHTS)
            copies.append(folder / f"{selection.arm}-{seed}")
            copies[-1].mkdir(parents=True, exist_ok=True)
            for file in COPIED_FILES:
                if (source / file).is_file():
                    shutil.copyfile(source / file, copies[-1] / file)
    return tuple(copies)


def read_selection(path: Path) -> ArmSelection:
    """Read the file of a selection.

    Raises:
        InputError: it is missing, or not the file of a selection.
    """
    value = read_json(path, missing="no such selection; an experiment with a tuned arm makes one")
    try:
        selection = _selection(value)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        message = f"{path}: expected a selection, format {FORMAT}: {error}"
        raise InputError(message) from None
    if selection.to_json() != value:
        message = f"{path}: the choice does not follow from its numbers; select again"
        raise InputError(message)
    return selection


def _named(run: Run) -> tuple[str, int]:
    """Return the candidate and the seed of a run on the selection split."""
    if run.role != _ROLE:
        message = (
            f"{run.place}: expected a run of the selection split (score --role {_ROLE}), "
            f"got the role {run.role}"
        )
        raise InputError(message)
    if run.seed is None:
        message = f"{run.place}: expected a run with its seed (score --train-seed), got none"
        raise InputError(message)
    return run.provenance.arm or run.name, run.seed


def _refuse_different(runs: Sequence[Run]) -> Run:
    """Return the first run, if all have its items.

    Raises:
        InputError: they have other items, or were scored on another file.
    """
    first = runs[0]
    for run in runs[1:]:
        same_file = run.provenance.data.sha256 == first.provenance.data.sha256
        if not same_file or list(run.predictions.ids) != list(first.predictions.ids):
            message = f"{run.place}: expected the items of {first.place}, got others"
            raise InputError(message)
    return first


def _nll(run: Run) -> float:
    """Return the mean NLL of the canonical view."""
    items = ScoredItems.of(run.predictions, "single")
    value = point_estimates(items, "kind", [_NLL])["all"][_NLL].value
    return value if math.isfinite(value) else math.inf


def _check_weights(run: Run, weights: Path) -> None:
    recorded = run.provenance.adapter
    scored = None if recorded is None else recorded.sha256
    if not weights.is_file() or sha256_of_file(weights) != scored:
        message = f"{weights}: expected the weights that {run.place} scored; score them again"
        raise InputError(message)


def _candidate_json(candidate: ScoredCandidate) -> Json:
    return {
        "candidate": candidate.label,
        "settings": {**candidate.settings},
        "mean_nll_nats": finite_number(candidate.mean_nll_nats),
        "nll_nats": {str(seed): finite_number(nll) for seed, nll in candidate.nll_nats.items()},
    }


def _nats(value: object) -> float:
    nll = finite_number(value)
    return math.inf if nll is None else nll


def _check_candidates(candidates: Sequence[ScoredCandidate]) -> None:
    """Refuse candidates that cannot be compared.

    Raises:
        ValueError: there are none, one has no seed, or their seeds or settings differ.
    """
    if not candidates:
        message = "expected candidates, got none"
        raise ValueError(message)
    seeds, names = {*candidates[0].nll_nats}, {*candidates[0].settings}
    for candidate in candidates:
        if not candidate.nll_nats:
            message = f"{candidate.label}: expected nll_nats of at least one seed, got none"
            raise ValueError(message)
        if {*candidate.nll_nats} != seeds or {*candidate.settings} != names:
            message = f"{candidate.label}: expected the seeds and settings of the first candidate"
            raise ValueError(message)


def _selection(value: object) -> ArmSelection:
    """Return a selection from its JSON; what does not fit raises an error."""
    if not isinstance(value, dict) or value["format"] != FORMAT:
        message = "another format"
        raise ValueError(message)
    split = value["split"]
    candidates = tuple(
        ScoredCandidate(
            str(candidate["candidate"]),
            dict(candidate["settings"]),
            {int(seed): _nats(nll) for seed, nll in candidate["nll_nats"].items()},
        )
        for candidate in value["candidates"]
    )
    _check_candidates(candidates)
    sha256 = None if split["sha256"] is None else str(split["sha256"])
    return ArmSelection(
        str(value["arm"]), str(split["file"]), sha256, int(split["items"]), candidates
    )
