"""The items of a run with their records: outcomes, distributions, and the counts of data files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PureWindowsPath
from typing import Final

import numpy as np

from pact_eval import metrics
from pact_eval._files import sha256_of_file
from pact_eval._typing import BoolArray, FloatArray, IntArray
from pact_eval.data.files import Role
from pact_eval.data.labelled.reader import read_dataset_records
from pact_eval.data.records import Record
from pact_eval.evaluation.diagnostics import DifferentData, calibrated_items
from pact_eval.evaluation.experiment import Experiment
from pact_eval.evaluation.experiment_run import ExperimentRun
from pact_eval.evaluation.items import ScoredItems, pair_partners
from pact_eval.evaluation.registry import confident_errors
from pact_eval.evaluation.run_records import (
    data_hash,
    files_of,
    files_of_paths,
    item_texts,
    records_of_run,
    scored_hash,
)
from pact_eval.evaluation.wrong_items import by_majority, by_repeat
from pact_eval.runs.provenance import UNNAMED

_KINDS: Final = ("choice", "boolean", "score")
_ROLES: Final[dict[Role, str]] = {
    "train": "train",
    "selection": "select",
    "calibration": "calibrate",
    "eval": "test",
}


@dataclass(frozen=True)
class Split:
    """One data file.

    Attributes:
        name: name of the file.
        role: train, select, calibrate or test; "" if it is unknown.
        records: number of records, or of ablated contexts.
        families: number of families; None if it is unknown.
        pairs: number of families with one base and one counterfactual record; None if unknown.
        source_families: number of source families; None if the records have none.
        kinds: number of records of each kind.
        runs: number of runs that scored the file.
        sha256: SHA-256 of the file; None if it is unknown.
    """

    name: str
    role: str
    records: int
    families: int | None
    pairs: int | None
    source_families: int | None
    kinds: tuple[int, ...]
    runs: int
    sha256: str | None


def run_splits(experiment: Experiment) -> tuple[Split, ...]:
    """Count the records that the runs scored; one split per data file, identified by SHA-256."""
    splits: dict[tuple[str, int], Split] = {}
    for run in experiment.all_runs:
        name, sha256, views = _data_name(run), run.provenance.data.sha256, run.predictions
        key = (sha256 or name, len(views))
        columns = (views.family, views.variant, views.source_family, views.kind)
        members = zip(*(column.tolist() for column in columns), strict=True)
        split = splits.get(key) or _count_split(name, "", sha256, members)
        splits[key] = replace(split, runs=split.runs + 1)
    return tuple(splits.values())


def splits_of_folder(folder: Path) -> tuple[Split, ...]:
    """Count the records of every file of a dataset.

    Args:
        folder: the dataset folder; its manifest, if there is one, gives the role of each file.

    Raises:
        InputError: there is no dataset, or the role of a file is unknown.
        RecordError: a line is not a record.
    """
    return tuple(
        _count_split(
            file.name,
            _ROLES[file.role],
            sha256_of_file(file.path),
            (
                (record.family, record.variant, record.source_family, record.field.kind)
                for record in read_dataset_records(file.path, require_reference=False)
            ),
        )
        for file in files_of(folder)
    )


def data_splits(experiment: Experiment, folders: Sequence[Path] = ()) -> tuple[Split, ...]:
    """Count the records of datasets and of the files that runs scored, each file once.

    Args:
        experiment: the runs.
        folders: dataset folders; if there are several, each file name starts with its folder.

    Raises:
        InputError: a folder contains no dataset.
        RecordError: a line is not a record.
    """
    listed = [
        replace(split, name=f"{folder.resolve().name}/{split.name}") if folders[1:] else split
        for folder in folders
        for split in splits_of_folder(folder)
    ]
    scored = list(run_splits(experiment))
    for number, split in enumerate(listed):
        same = next(
            (scored_split for scored_split in scored if scored_split.sha256 == split.sha256), None
        )
        if same is not None:
            listed[number] = replace(split, runs=same.runs)
            scored.remove(same)
    return (*listed, *scored)


def _count_split(
    name: str, role: str, sha256: str | None, members: Iterable[tuple[str, str, str, str]]
) -> Split:
    """Count records, given as family, variant, source family and kind."""
    families: dict[str, list[str]] = {}
    sources: set[str] = set()
    kinds: Counter[str] = Counter()
    for family, variant, source, kind in members:
        families.setdefault(family, []).append(variant)
        sources.add(source)
        kinds[kind] += 1
    return Split(
        name=name,
        role=role,
        records=kinds.total(),
        families=len(families),
        pairs=sum(sorted(variants) == ["base", "counterfactual"] for variants in families.values()),
        source_families=None if sources <= {""} else len(sources - {""}),
        kinds=tuple(kinds[kind] for kind in _KINDS),
        runs=0,
        sha256=sha256,
    )


def _data_name(run: ExperimentRun) -> str:
    """Return the name of the file that a run scored, without its folders."""
    name = PureWindowsPath(run.provenance.data_file or "").name
    sha256 = run.provenance.data.sha256
    return name or (f"SHA-256 {sha256[:12]}" if sha256 else run.name)


@dataclass(frozen=True)
class ItemRecords:
    """The records of the items of runs.

    Attributes:
        records: the records by id.
        files: SHA-256 of the files that were given, in their order.
        different: one diagnostic for each run whose dataset is not among the given files.
    """

    records: Mapping[str, Record]
    files: tuple[str, ...] = ()
    different: tuple[DifferentData, ...] = ()


def read_item_records(paths: Sequence[Path], experiment: Experiment) -> ItemRecords:
    """Read the records of the items of runs.

    Args:
        paths: files of records, or dataset folders. If a file has the hash that a run recorded,
            this file is read; otherwise all files are searched for the run's ids.
        experiment: the runs.

    Returns:
        The records, and a diagnostic for each run whose dataset is not among the given files.

    Raises:
        InputError: a path is missing, contains no dataset or not all items of a run, or a record
            contradicts a run.
        RecordError: a file cannot be read.
    """
    hashes: dict[str, Path] = {}
    for path in files_of_paths(paths):
        hashes.setdefault(sha256_of_file(path), path)
    read: dict[Path, dict[str, Record]] = {}
    records_by_id: dict[str, Record] = {}
    different: list[DifferentData] = []
    for run in experiment.runs:
        scored = scored_hash(run)
        if data_hash(run) not in hashes and scored is not None:
            names = tuple(map(str, hashes.values()))
            different.append(DifferentData("critical", run.label, run.place, scored, names))
        records = records_of_run(run, hashes, read)
        for key, record in records.items():
            records_by_id.setdefault(key, record)
    return ItemRecords(records_by_id, tuple(hashes), tuple(different))


def imported_item_records(experiment: Experiment) -> ItemRecords | None:
    """Return the records in the tables that runs were imported from.

    Returns:
        None unless each table is there, unchanged, has the text of every item of its run, and asks
        what the others ask under the same id.
    """
    records: dict[str, Record] = {}
    for run in experiment.runs:
        own = item_texts(run).records
        if not own or len(own) < len(run.predictions):
            return None
        for key, record in own.items():
            other = records.setdefault(key, record)
            if (other.state, other.field) != (record.state, record.field):
                return None
    return ItemRecords(records)


def has_data_of(paths: Sequence[Path], experiment: Experiment) -> bool:
    """Return whether the datasets of the runs are among files of records or in folders.

    Args:
        paths: as for `read_item_records`.
        experiment: the runs.

    Raises:
        InputError: a path is missing, or a folder contains no dataset.
    """
    hashes = {sha256_of_file(path) for path in files_of_paths(paths)}
    return all(data_hash(run) in hashes for run in experiment.runs)


@dataclass(frozen=True, eq=False)
class ItemConfidences:
    """Confidences of a run in its answers to n items.

    Attributes:
        confidence: (n,) probability of the answer.
        bin: (n,) its bin of ECE.
    """

    confidence: FloatArray
    bin: IntArray

    @classmethod
    def of(cls, items: ScoredItems) -> ItemConfidences:
        """Return the confidences of scored items, means over their repeats if there are any."""
        confidence = by_repeat(items, items.confidence).mean(axis=1)
        return cls(confidence, metrics.bin_index(np.nan_to_num(confidence), items.ece_bins))


@dataclass(frozen=True, eq=False)
class ItemOutcomes:
    """The outcome of n items under the decoding of the settings, raw.

    Of repeats, the answer is the one that most of them give, and probabilities are means over them.

    Attributes:
        predicted: (n,) canonical index of the answer.
        correct: (n,) whether it is the reference.
        flipped: (n,) whether two views give different answers.
        confident_error: (n,) whether it is wrong with a high confidence, calibrated if the settings
            say so; of repeats, whether any is.
        partner: (n,) row of the other member of a complete pair; -1 without one.
        raw: confidences.
        of_reference: (n,) probability of the reference.
        view_tv: (n,) see `metrics.pairwise_tv`; NaN for one view.
        answer_mass: (n,) mean over the views of which it is known, else NaN.
        prompt_tokens: (n,) length of view 0; NaN if unknown.
        calibrated: confidences after T(x); None without a calibrator to apply.
        right_repeats: (n,) number of repeats with the right answer; None if the views are not
            repeats, or are decoded together.
        named: whether it is known which answers these are, and not only whether they are right.
    """

    predicted: IntArray
    correct: BoolArray
    flipped: BoolArray
    confident_error: BoolArray
    partner: IntArray
    raw: ItemConfidences
    of_reference: FloatArray
    view_tv: FloatArray
    answer_mass: FloatArray
    prompt_tokens: FloatArray
    calibrated: ItemConfidences | None
    right_repeats: IntArray | None = None
    named: bool = True

    @property
    def paired(self) -> BoolArray:
        """(n,) whether the item is a member of a complete pair."""
        return np.asarray(self.partner >= 0)

    @property
    def pair_right(self) -> BoolArray:
        """(n,) whether both members of the pair are right."""
        return self.paired & self.correct & self.correct[self.partner]

    @property
    def pair_wrong(self) -> BoolArray:
        """(n,) whether both members of the pair are wrong."""
        return self.paired & ~self.correct & ~self.correct[self.partner]

    @property
    def pair_same(self) -> BoolArray:
        """(n,) whether both members of the pair get the same answer, where answers are known."""
        same: BoolArray = np.asarray(self.predicted == self.predicted[self.partner])
        return self.paired & same & self.named


@dataclass(frozen=True, eq=False)
class ItemDistributions:
    """The distributions of n items: of each view, over all views, and calibrated.

    Attributes:
        names: what each of the D distributions is: "view 0", "ensemble", "single after T(x)".
        probabilities: (n, D, C) in canonical order; NaN of answers whose
            probability is not known.
        tops: (n, D) index of the most probable answer.
        used: (n, C) which answers the item has.
    """

    names: tuple[str, ...]
    probabilities: FloatArray
    tops: IntArray
    used: BoolArray


def item_outcomes(experiment: Experiment, run: ExperimentRun) -> ItemOutcomes:
    """Return the outcome of every item of a run, over its repeats if it has any.

    Args:
        experiment: its settings have the decoding.
        run: a run on full contexts.
    """
    settings, views = experiment.settings, run.predictions
    items = run.scored(settings.decoding)
    chosen = run.scored(settings.decoding, calibrated=settings.calibrated)
    calibrated = calibrated_items(experiment, run)
    shown = run.in_orders().scored("single") if run.provenance.shuffled else items
    predicted, correct = by_majority(items)
    right = by_repeat(items, items.correct).sum(axis=1)
    return ItemOutcomes(
        predicted=predicted,
        correct=correct,
        flipped=np.any(by_repeat(shown, np.asarray(shown.values["flip_rate"] == 1)), axis=1),
        confident_error=np.any(by_repeat(items, confident_errors(chosen)), axis=1),
        partner=pair_partners(views),
        raw=ItemConfidences.of(items),
        of_reference=by_repeat(items, np.exp(-items.values["nll_nats"])).mean(axis=1),
        view_tv=by_repeat(shown, shown.values["view_tv"])[:, 0],
        answer_mass=views.answer_mass_by_item,
        prompt_tokens=views.prompt_tokens,
        calibrated=None if calibrated is None else ItemConfidences.of(calibrated),
        right_repeats=None if items.asked == 1 else right,
        named=items.known not in UNNAMED,
    )


def item_distributions(experiment: Experiment, run: ExperimentRun) -> ItemDistributions:
    """Return the distributions of every item of a run.

    The ensemble is left out for one view, and if the views of an item rule out all of its answers.

    Args:
        experiment: its settings have the decoding of the calibrated distribution.
        run: a run on full contexts.
    """
    views = run.predictions
    name = "repeat" if views.repeats else "view"
    names = [f"{name} {view}" for view in range(views.k)]
    parts = [views.log_probs_by_view]
    together = _ensemble(run)
    if together is not None:
        names.append("ensemble")
        parts.append(together[:, np.newaxis])
    alone = run.asked_once() if experiment.settings.decoding == "single" else run
    calibrated = calibrated_items(experiment, alone)
    if calibrated is not None:
        names.append(f"{experiment.settings.decoding} after T(x)")
        parts.append(calibrated.log_probs[:, np.newaxis])
    log_probs = np.concatenate(parts, axis=1)
    used = np.arange(log_probs.shape[2]) < views.n_choices[:, np.newaxis]
    probabilities, tops = np.exp(log_probs), metrics.predicted(log_probs)
    if views.known in ("confidences", *UNNAMED):
        others = np.arange(log_probs.shape[2]) != tops[:, :, np.newaxis]
        probabilities[others] = np.nan
    return ItemDistributions(tuple(names), probabilities, tops, used)


def _ensemble(run: ExperimentRun) -> FloatArray | None:
    views = run.predictions
    if views.k < 2 or views.known != "probabilities":
        return None
    try:
        return views.log_probs("ensemble")
    except ValueError:  # the views of an item rule out all of its answers
        return None
