"""Rules for comparable runs: one role, data, contract, prompts and base model.

Every command that puts runs next to each other calls `check_comparable`. The adapter may differ,
and so may K: view metrics are then compared on the views that both runs have.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from pact_eval._choices import Allowance
from pact_eval._json import Json
from pact_eval._typing import IntArray
from pact_eval.errors import InputError, counted
from pact_eval.results import Note
from pact_eval.runs.custody import TrainedRole
from pact_eval.runs.folder import RunFolder
from pact_eval.runs.identity import Difference, join_differences
from pact_eval.runs.predictions import Predictions
from pact_eval.runs.provenance import EVALUATION, UNNAMED
from pact_eval.runs.seal import unsealed_files

_SHOWN = 5
_ABOUT_FAMILIES = (
    "; import both with the same --family-from or --columns family=NAME (with the column of ids, "
    "items are independent)"
)
_OF_LINES = ". Items are matched by their line; name the column of their ids: --columns id=NAME"


@dataclass(frozen=True)
class ItemMismatch(Note):
    """Two runs that cannot be compared item by item.

    Attributes:
        first: name of the first run.
        other: name of the run that does not match it.
        only_first: ids of items that only the first run has.
        only_other: ids of items that only the other run has.
        column: column that differs for items of both; "" if the item sets differ.
        differing: ids of the items that differ in the column.
        by_line: whether items are matched by their line; see `MatchedByLine`.
    """

    first: str
    other: str
    only_first: tuple[str, ...] = ()
    only_other: tuple[str, ...] = ()
    column: str = ""
    differing: tuple[str, ...] = ()
    by_line: bool = False

    def __str__(self) -> str:
        return f"{self._difference}{_OF_LINES if self.by_line else ''}"

    @property
    def _difference(self) -> str:
        if self.column:
            differing = f"{counted(len(self.differing), 'item')}: {some_of(self.differing)}"
            advice = _ABOUT_FAMILIES if self.column == "family" else ""
            return f"{self.first} and {self.other} differ in {self.column} for {differing}{advice}"
        return (
            f"item sets differ: {counted(len(self.only_first), 'item')} only in {self.first} "
            f"({some_of(self.only_first)}), {len(self.only_other):,} only in {self.other} "
            f"({some_of(self.only_other)})"
        )


@dataclass(frozen=True)
class LeftOutItems(Note):
    """Items that a run left unanswered, and that are left out of all runs next to it.

    Attributes:
        items: number of items that are left out.
        runs: the runs that left items unanswered, with how many.
    """

    items: int
    runs: Mapping[str, int]

    def __str__(self) -> str:
        named = ", ".join(f"{number:,} by {run}" for run, number in self.runs.items())
        items = counted(self.items, "item")
        are = "is" if self.items == 1 else "are"
        return f"{items} without an answer ({named}) {are} left out of all runs"


def align(a: Predictions, b: Predictions, *, names: tuple[str, str] = ("A", "B")) -> Predictions:
    """Return the second run's items in the order of the first.

    Args:
        a: views of the first run.
        b: views of the second run, of the same type: with references, or ablated.
        names: names of the runs in messages.

    Returns:
        The items of `b`, one for each item of `a`. Domains, source families and variants are those
        of `a`, because an import may lack them.

    Raises:
        InputError: the item sets differ, or an item differs in its reference (its two answers if it
            is ablated), number of answers, kind, family, or the letter order of view 0.
    """
    different = mismatch(a, b, names=names)
    if different is not None:
        raise InputError(str(different))
    return in_order_of(a, b)


def mismatch(
    a: Predictions, b: Predictions, *, names: tuple[str, str] = ("A", "B")
) -> ItemMismatch | None:
    """Return the mismatch of the items of two runs; None if they can be compared. See `align`."""
    in_a, in_b = set(a.ids.tolist()), set(b.ids.tolist())
    if in_a != in_b:
        only_a = tuple(item for item in a.ids.tolist() if item not in in_b)
        return ItemMismatch(*names, only_first=only_a, only_other=tuple(sorted(in_b - in_a)))
    rows = _rows_in_order(a, b)
    columns: dict[str, tuple[npt.NDArray[Any] | None, npt.NDArray[Any] | None]] = {
        "reference": (a.declared, b.declared),
        "answers": (a.answers, b.answers),
        "n_choices": (a.n_choices, b.n_choices),
        "kind": (a.kind, b.kind),
        "family": (a.family, b.family),
    }
    if {a.known, b.known} & {*UNNAMED}:
        del columns["reference"], columns["n_choices"]  # one of the runs does not name the answers
    elif a.accepted is not None or b.accepted is not None:
        columns["right answers"] = (a.right_answers, b.right_answers)
    for column, (a_values, b_values) in columns.items():
        if a_values is None or b_values is None:
            continue
        unlike = a_values != b_values[rows]
        differs = np.flatnonzero(unlike.any(axis=1) if unlike.ndim == 2 else unlike)
        if differs.size:
            differing = tuple(a.ids[differs].tolist())
            return ItemMismatch(*names, column=column, differing=differing)
    differs = np.flatnonzero(_other_orders(a.code_order[:, 0], b.code_order[rows, 0]))
    if differs.size:
        differing = tuple(a.ids[differs].tolist())
        return ItemMismatch(*names, column="the letter order of view 0", differing=differing)
    return None


def _other_orders(a: IntArray, b: IntArray) -> npt.NDArray[np.bool_]:
    """Return (n,) whether two orders are known and differ; (n, C) each, unused letters -1."""
    letters = min(a.shape[1], b.shape[1])  # a run may have had items of more answers
    recorded = (a[:, 0] >= 0) & (b[:, 0] >= 0)
    return np.asarray(recorded & (a[:, :letters] != b[:, :letters]).any(axis=1), dtype=np.bool_)


def in_order_of(a: Predictions, b: Predictions) -> Predictions:
    """Return the items of `b` in the order of those of `a`, which are the same; see `align`."""
    aligned = b.taken(_rows_in_order(a, b))
    return replace(aligned, source_family=a.source_family, domain=a.domain, variant=a.variant)


def _rows_in_order(a: Predictions, b: Predictions) -> npt.NDArray[np.int64]:
    row_of = {item: row for row, item in enumerate(b.ids.tolist())}
    return np.array([row_of[item] for item in a.ids.tolist()], dtype=np.int64)


def some_of(items: Sequence[str]) -> str:
    """Return the first five ids of items, in words."""
    shown = ", ".join(items[:_SHOWN])
    return f"{shown}, ..." if len(items) > _SHOWN else shown or "none"


@dataclass(frozen=True)
class SkippedRun(Note):
    """A run that was left out, because it has another role than the others.

    Attributes:
        run: the run folder, as given.
        role: its role.
        kept: the role of the runs that were not left out.

    Examples:
        >>> str(SkippedRun("runs/cal", "calibration", "evaluation"))[:33]
        'runs/cal: left out: its role is c'
    """

    run: str
    role: str
    kept: str

    def __str__(self) -> str:
        return (
            f"{self.run}: left out: its role is {self.role}, and the other runs are for {self.kept}"
        )


def select_role(
    runs: Sequence[RunFolder],
) -> tuple[tuple[RunFolder, ...], tuple[SkippedRun, ...]]:
    """Return the runs for evaluation; without any, those with the role of the first.

    A pattern such as `runs/*` also names the runs of the calibration split. They hold other items,
    so they are neither compared nor counted with the runs for evaluation.

    Args:
        runs: complete runs.

    Returns:
        The runs that are kept, in the same order, and those that are left out.
    """
    roles = [run.role for run in runs]
    kept = EVALUATION if EVALUATION in roles or not roles else roles[0]
    skipped = (SkippedRun(run.place, run.role, kept) for run in runs if run.role != kept)
    return tuple(run for run in runs if run.role == kept), tuple(skipped)


@dataclass(frozen=True)
class Incompatibility(Note):
    """Two runs that are compared although they differ, because the user allowed it.

    Attributes:
        first: folder of the first run.
        other: folder of the run that differs from it.
        differences: in what they differ.

    Examples:
        >>> from pact_eval.runs.identity import Difference
        >>> str(Incompatibility("a", "b", (Difference("data", "4def", "77aa"),)))
        'a and b differ in their dataset (4def and 77aa), as allowed'
    """

    first: str
    other: str
    differences: tuple[Difference, ...]

    def __str__(self) -> str:
        named = [f"{one.words} ({one.before} and {one.after})" for one in self.differences]
        return f"{self.first} and {self.other} differ in their {', '.join(named)}, as allowed"


@dataclass(frozen=True)
class SameWeights(Note):
    """Two runs of different training seeds whose adapters have the same weights.

    One of the seeds is wrong, so nothing varies over seeds: a mean over them is one run, twice.

    Attributes:
        first: folder of the first run.
        other: folder of the other run.
        seeds: the seeds that they record.
        sha256: SHA-256 of the weights of both.

    Examples:
        >>> str(SameWeights("a", "b", (17, 18), "4def"))
        'a and b record the training seeds 17 and 18, but their adapters are the same (4def)'
    """

    first: str
    other: str
    seeds: tuple[int, int]
    sha256: str

    def __str__(self) -> str:
        first, other = self.seeds
        return (
            f"{self.first} and {self.other} record the training seeds {first} and {other}, but "
            f"their adapters are the same ({self.sha256[:12]})"
        )


@dataclass(frozen=True)
class SameRun(Note):
    """Two runs with the same predictions: a comparison of them says nothing.

    Attributes:
        first: folder of the first run.
        other: folder of the other run.
        sha256: SHA-256 of the predictions of both.
    """

    first: str
    other: str
    sha256: str

    def __str__(self) -> str:
        if self.first == self.other:
            return f"{self.first} is compared with itself"
        digest = self.sha256[:12]
        return (
            f"{self.first} and {self.other} are one run: their predictions are the same ({digest})"
        )


@dataclass(frozen=True)
class MatchedByLine(Note):
    """Two runs of tables without ids: line n of one is compared with line n of the other.

    Attributes:
        first: folder of the first run.
        other: folder of the other run.

    Examples:
        >>> str(MatchedByLine("a", "b"))[:64]
        'items are matched by their line: neither a nor b has a column of'
    """

    first: str
    other: str

    def __str__(self) -> str:
        return (
            f"items are matched by their line: neither {self.first} nor {self.other} has a column "
            "of ids, other than numbers of rows; --columns id=NAME names one"
        )


@dataclass(frozen=True)
class UnsealedFiles(Note):
    """Files in a run folder that its seal does not cover, and that no number is computed from.

    Attributes:
        run: the run folder.
        names: the files and folders.
    """

    run: str
    names: tuple[str, ...]

    def __str__(self) -> str:
        names = " and ".join(self.names)
        return f"{self.run}: {names} is not covered by the seal of the run and is not read"


@dataclass(frozen=True)
class ContractNotice(Note):
    """A run whose prompt contract the files of its adapter do not state, or which does not fit.

    Attributes:
        run: the run folder.
        remark: who stated the contract, the mismatch that was allowed, the letters that would have
            more answer mass, the answers that the precision of auto changes, or another precision
            than that of the first run.
    """

    run: str
    remark: str

    def __str__(self) -> str:
        return f"{self.run}: {self.remark}"


@dataclass(frozen=True)
class OtherTraining(Note):
    """Two runs whose adapters were trained on different data.

    Attributes:
        first: folder of the first run.
        other: folder of the other run.
        roles: roles whose records differ: train, selection, calibration.
        trained: of each run, the data that it was trained on; None if it has none.

    Examples:
        >>> from pact_eval.runs.custody import TrainedRole
        >>> roles = TrainedRole(("a.jsonl",), 20, 10, "1f"), None
        >>> str(OtherTraining("runs/a", "runs/b", ("train",), roles))
        'runs/a and runs/b were trained on different data: a.jsonl (10 families) and no file'
    """

    first: str
    other: str
    roles: tuple[str, ...]
    trained: tuple[TrainedRole | None, TrainedRole | None]

    def __str__(self) -> str:
        used = [
            "no file" if role is None else f"{', '.join(role.files)} ({role.families:,} families)"
            for role in self.trained
        ]
        what = "" if "train" in self.roles else f" ({' and '.join(self.roles)} differ)"
        runs = f"{self.first} and {self.other} were trained on different data"
        return f"{runs}{what}: {used[0]} and {used[1]}"


def other_training(runs: Sequence[RunFolder]) -> tuple[OtherTraining, ...]:
    """Find runs whose adapters were trained on other data than those of the first run.

    Runs whose training data are not stated do not count.

    Args:
        runs: the runs, in the order of the experiment.

    Returns:
        One value per different training.
    """
    stated = [(run, training) for run in runs if (training := run.provenance.custody.training)]
    trainings: dict[tuple[tuple[str, str], ...], OtherTraining] = {}
    for run, training in stated[1:]:
        first = stated[0][1].roles
        names = dict.fromkeys([*first, *training.roles])
        digests = {name: _digest(training.roles, name) for name in names}
        roles = tuple(name for name in names if _digest(first, name) != digests[name])
        key = tuple((name, str(digests[name])) for name in roles)
        if roles and key not in trainings:
            trained = (first.get("train"), training.roles.get("train"))
            trainings[key] = OtherTraining(stated[0][0].place, run.place, roles, trained)
    return tuple(trainings.values())


def _digest(roles: Mapping[str, TrainedRole], name: str) -> str | None:
    return roles[name].digest if name in roles else None


def unsealed(runs: Sequence[RunFolder]) -> tuple[UnsealedFiles, ...]:
    """Return the runs whose folders have files that look like theirs and are not sealed."""
    run_files = ((run.place, unsealed_files(run.folder, run.seal)) for run in runs)
    return tuple(UnsealedFiles(place, names) for place, names in run_files if names)


def contract_notices(runs: Sequence[RunFolder]) -> tuple[ContractNotice, ...]:
    """Return the runs whose contract, letters or precision are not what a reader expects."""
    recorded = [(run.place, run.provenance) for run in runs]
    remarks = [(place, run.contract.remark) for place, run in recorded]
    remarks += [(place, run.letters_remark) for place, run in recorded]
    flipped = [(place, run) for place, run in recorded if run.auto_dtype and run.auto_dtype.flips]
    remarks += [(place, run.dtype_remark) for place, run in flipped]
    named = [(place, dtype) for place, run in recorded if (dtype := run.dtype) is not None]
    remarks += [
        (place, f"computed in {dtype}, and {named[0][0]} in {named[0][1]}: rounding differs")
        for place, dtype in named
        if dtype != named[0][1]
    ]
    return tuple(ContractNotice(place, remark) for place, remark in remarks if remark is not None)


def same_weights(runs: Sequence[RunFolder]) -> tuple[SameWeights, ...]:
    """Find runs that record different training seeds for the same adapter weights.

    Args:
        runs: the runs, in the order of the experiment.

    Returns:
        For each such run, the first earlier run with its weights and another seed.
    """
    duplicates: list[SameWeights] = []
    for place, run in enumerate(runs):
        adapter, seed = run.provenance.adapter, run.seed
        if adapter is None or adapter.sha256 is None or seed is None:
            continue
        for other in runs[:place]:
            twin = other.provenance.adapter
            if twin is None or twin.sha256 != adapter.sha256 or other.seed in (None, seed):
                continue
            folders = other.place, run.place
            duplicates.append(SameWeights(*folders, (other.seed or 0, seed), adapter.sha256))
            break
    return tuple(duplicates)


def same_runs(runs: Sequence[RunFolder]) -> tuple[SameRun, ...]:
    """Find runs whose predictions are those of an earlier run, by the hashes of their seals.

    Args:
        runs: the runs, in the order of the experiment.

    Returns:
        For each such run, the first run with its predictions.
    """
    first_of: dict[str, RunFolder] = {}
    duplicates: list[SameRun] = []
    for run in runs:
        seal = run.provenance.seal
        if seal is None:  # read from rows, not from a folder
            continue
        first = first_of.setdefault(seal.predictions_sha256, run)
        if first is not run:
            duplicates.append(SameRun(first.place, run.place, seal.predictions_sha256))
    return tuple(duplicates)


def matched_by_line(runs: Sequence[RunFolder]) -> tuple[MatchedByLine, ...]:
    """Find runs whose items, like those of the first, are known by their line alone.

    Args:
        runs: the runs, in the order of the experiment.
    """
    if not runs or not known_by_line(runs[0]):
        return ()
    same = {run.other for run in same_runs(runs)}
    others = (run for run in runs[1:] if known_by_line(run) and run.place not in same)
    return tuple(MatchedByLine(runs[0].place, run.place) for run in others)


def known_by_line(run: RunFolder) -> bool:
    """Return whether a run is of a table whose rows have no ids: none, or the number of the row.

    Args:
        run: any run; rows with a text of their own are known by it.
    """
    recorded = run.provenance.recorded
    log = recorded.get("log")
    return isinstance(log, dict) and not recorded.get("references") and has_lines_alone(log)


def has_lines_alone(log: Mapping[str, Json]) -> bool:
    """Return whether rows of a table have no ids, by what is recorded of it."""
    columns = log.get("columns")
    if not isinstance(columns, dict):
        return False
    if "id" in columns:
        return log.get("numbered") is True
    return log.get("texts") == 1 or not {"state", "question"} & columns.keys()


def check_comparable(
    runs: Sequence[RunFolder], *, allow: Collection[Allowance]
) -> tuple[Incompatibility, ...]:
    """Decide whether several runs may be compared: every run with every other, by `join`.

    A run that does not record a fact agrees with all others, so the first run alone is no measure.

    Args:
        runs: the runs, in the order of the experiment.
        allow: differences that the user accepts.

    Returns:
        For each run that differs from an earlier one, the first such pair.

    Raises:
        InputError: two runs differ in what a comparison holds fixed, and it is not allowed.
    """
    unlike_runs: list[Incompatibility] = []
    for place, run in enumerate(runs):
        pairs = [unlike for other in runs[:place] for unlike in join(other, run, allow=allow)]
        unlike_runs += pairs[:1]
    return tuple(unlike_runs)


def join(
    first: RunFolder, other: RunFolder, *, allow: Collection[Allowance]
) -> tuple[Incompatibility, ...]:
    """Decide whether two runs may be compared.

    Their decoding cannot differ: a run, scored or imported, records the logits of each view and no
    decoding. The decoding is a setting of the experiment and applies to all of its runs. Only a
    calibrator records a decoding, and `check_decoding` compares it with that of the settings.

    Args:
        first: a run.
        other: a run to be put next to it.
        allow: differences that the user accepts.

    Returns:
        The differences that were accepted; none if the runs belong together. What a run does not
        record, such as the dataset of an import, counts as the same.

    Raises:
        InputError: they differ in the data, the contract, the prompts, or (two adapters) in the
            base model. The message says in what, and which option accepts it.
    """
    differences = join_differences(first.provenance, other.provenance)
    refused = [difference for difference in differences if difference.allowance not in allow]
    if refused:
        lines = [
            f"  {difference.words}: {difference.before} and {difference.after}"
            for difference in refused
        ]
        allowances = dict.fromkeys(difference.allowance for difference in refused)
        options = " ".join(f"--allow {allowance}" for allowance in allowances)
        raise InputError(
            f"{first.place} and {other.place} do not belong together:\n"
            + "\n".join(lines)
            + f"\n  compare runs that differ in the adapter alone, or use {options}"
        )
    return (Incompatibility(first.place, other.place, differences),) if differences else ()
