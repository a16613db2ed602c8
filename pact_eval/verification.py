"""Checks of a run: its seal, its rows, the files that it names, and reports made from it.

The files are the adapter and its training record, the base, the data and their manifest, the
tokenizer, the content-free prompts, the calibrator and the registration. Each check answers `ok`,
`differs`, `leak` (data that the model was made from), `not stated` (no training record) or `not
checked`. A check that cannot be made says why: a file that is not where the run recorded it, say.
No weights are loaded. A report on disk, a page or JSON, is compared with the runs that it says it
was made from.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Final, Literal, get_args

import polars as pl

from pact_eval._files import read_json, read_text, sha256_of_file
from pact_eval._json import Json, loads, sha256_of_json
from pact_eval.calibration.runs import Members, calibrator_for, is_fitted_on
from pact_eval.calibration.temperatures import (
    UNKNOWN_FAMILIES,
    UNKNOWN_RUN,
    calibrator_sha256,
    read_calibrator,
)
from pact_eval.custody import TRAINING_RECORD, hashes_of, read_training_record
from pact_eval.data.opening import manifest_check
from pact_eval.errors import InputError, RunError, TamperedError, counted, listed
from pact_eval.models import ADAPTER_CONFIG, ADAPTER_WEIGHTS, sha256_of_weights
from pact_eval.preregistration.criteria import Hypotheses, read_hypotheses
from pact_eval.preregistration.registration import check_lock, lock_path, read_lock, run_facts
from pact_eval.progress import tracked
from pact_eval.prompts.encoding import Encoder
from pact_eval.prompts.nimble import NIMBLE
from pact_eval.runs.folder import RunFolder, content_free_run, open_runs, read_any_run, record_id_of
from pact_eval.runs.places import naming_urls, run_folder, shown, with_urls
from pact_eval.runs.predictions import Predictions
from pact_eval.runs.provenance import Provenance, RecordedWeights, read_provenance
from pact_eval.runs.rows import check_columns, collected
from pact_eval.runs.seal import (
    CALIBRATION_NAME,
    CONTENT_FREE,
    check_seal,
    references_sha256,
    rows_changed,
    seal_digest,
    unsealed_files,
    wrong_counts,
)
from pact_eval.templates.files import TEMPLATE_CONTRACT, DecisionFiles, named_decision_files

Outcome = Literal["ok", "differs", "leak", "not stated", "not checked"]


@dataclass(frozen=True)
class Places:
    """Places of the files of runs; None takes what `run.json` recorded.

    Attributes:
        adapter: adapter folder.
        base: folder of the base model.
        data: dataset file.
        criteria: file of hypotheses; the lock next to it is compared with the run.
    """

    adapter: Path | None = None
    base: Path | None = None
    data: Path | None = None
    criteria: Path | None = None


@dataclass(frozen=True)
class RunCheck:
    """One check of a run.

    Attributes:
        subject: what was checked: "seal", "rows", "adapter", ...
        outcome: ok, differs, leak, not stated, or not checked.
        finding: what was compared and found, or why it could not be checked.
    """

    subject: str
    outcome: Outcome
    finding: str


@dataclass(frozen=True)
class CheckedRun:
    """All checks of a run.

    Attributes:
        folder: the run folder, as given; the copy of a URL.
        digest: SHA-256 that identifies the sealed run (`seal_digest`); None if its files differ
            from its seal.
        checks: the checks, in a fixed order.
        unreadable: why nothing could be checked: the folder is not a run, or its `run.json` is
            damaged. None if it could be read.
        quantisation: how the base model was quantised; None if it was not, or if that is unknown.
    """

    folder: Path
    digest: str | None
    checks: tuple[RunCheck, ...]
    unreadable: str | None = None
    quantisation: str | None = None

    @property
    def place(self) -> str:
        """The run folder as outputs call it: the path or the URL that was given."""
        return shown(self.folder)

    @property
    def differs(self) -> bool:
        """Whether anything differs from what was recorded."""
        return any(check.outcome == "differs" for check in self.checks)

    @property
    def leaks(self) -> bool:
        """Whether the run has data that its model was made from."""
        return any(check.outcome == "leak" for check in self.checks)

    @property
    def complete(self) -> bool:
        """Whether everything could be checked."""
        checked = all(check.outcome != "not checked" for check in self.checks)
        return checked and self.unreadable is None


def verify_runs(folders: Sequence[Path], places: Places | None = None) -> tuple[CheckedRun, ...]:
    """Check several runs; a folder that is not a run does not keep the others from being checked.

    Args:
        folders: run folders.
        places: where to look for their files.

    Returns:
        One result per folder, in order.

    Raises:
        RecordError: the criteria cannot be understood.
    """
    checked_runs = []
    for folder in tracked(folders, "Verifying", "runs"):
        try:
            checked_runs.append(verify_run(folder, places))
        except RunError as error:
            checked_runs.append(CheckedRun(folder, None, (), unreadable=str(error)))
    return tuple(checked_runs)


def verify_run(folder: Path, places: Places | None = None) -> CheckedRun:
    """Check everything about a run that can be checked.

    Args:
        folder: a run folder.
        places: where to look for its files.

    Returns:
        One result per check; nothing is raised for what differs.

    Raises:
        RunError: the folder is not a run, or its `run.json` is damaged.
        RecordError: the criteria cannot be understood.
    """
    folder, places = run_folder(folder), places or Places()
    hypotheses = None if places.criteria is None else read_hypotheses(places.criteria)
    with naming_urls():
        run = _Checked(folder, read_provenance(folder), places, hypotheses)
    results = (_result(subject, check, run) for subject, check in _CHECKS.items())
    checks = tuple(result for result in results if result is not None)
    seal = run.provenance.seal
    intact = seal is not None and checks[0].outcome == "ok"
    return CheckedRun(
        folder,
        seal_digest(seal) if seal is not None and intact else None,
        checks,
        quantisation=run.provenance.quantisation,
    )


@dataclass(frozen=True)
class _Checked:
    """A run that is being checked."""

    folder: Path
    provenance: Provenance
    places: Places
    hypotheses: Hypotheses | None = None

    @property
    def adapter_folder(self) -> Path | None:
        """Place where the adapter should be."""
        named = self.provenance.adapter_folder
        return self.places.adapter or (None if named is None else Path(named))

    @property
    def data_file(self) -> Path | None:
        """Place where the dataset file should be."""
        named = self.provenance.data_file
        return self.places.data or (None if named is None else Path(named))

    @property
    def base_folder(self) -> Path:
        """The folder of the base model.

        Raises:
            _NotOkError: it is not there.
        """
        named = self.provenance.base_model
        folder = self.places.base or (None if named is None else Path(named))
        if folder is None or not folder.is_dir():
            raise _unchecked(f"{folder}: no such folder; give --base-model")
        return folder

    @property
    def families(self) -> list[str]:
        """The families of the run; none if the rows cannot be read."""
        try:
            names = self.frame["family"].unique(maintain_order=True).to_list()
            return [name for name in names if name]
        except RunError:
            return []

    @cached_property
    def frame(self) -> pl.DataFrame:
        """The rows, with the columns of a run.

        Raises:
            RunError: they changed since the run was sealed, are damaged, or no rows of a run.
        """
        path = RunFolder(self.folder, self.provenance).predictions_file
        seal = self.provenance.seal
        if seal is not None and rows_changed(self.folder, seal):
            raise RunError(f"{path}: not read: its SHA-256 differs from that of the seal")
        frame = collected(path, pl.scan_parquet(path, glob=False))
        check_columns(frame)
        return frame


class _NotOkError(Exception):
    """The result of a check that does not hold.

    Attributes:
        outcome: what becomes of the check.
        finding: why.
    """

    def __init__(self, outcome: Outcome, finding: str) -> None:
        super().__init__(finding)
        self.outcome, self.finding = outcome, finding


def _differs(finding: str) -> _NotOkError:
    return _NotOkError("differs", finding)


def _unchecked(finding: str) -> _NotOkError:
    return _NotOkError("not checked", finding)


def _result(
    subject: str, check: Callable[[_Checked], str | None], run: _Checked
) -> RunCheck | None:
    """Return the result of a check; None if it does not apply to the run.

    What cannot be read, or is not what was sealed, differs from what was recorded.
    """
    outcome: Outcome = "ok"
    try:
        finding = check(run)
    except _NotOkError as result:
        outcome, finding = result.outcome, result.finding
    except (InputError, TamperedError) as error:
        outcome, finding = "differs", str(error)
    return None if finding is None else RunCheck(subject, outcome, with_urls(finding))


def _seal(run: _Checked) -> str:
    if run.provenance.status != "complete":
        raise _differs("the run is not complete")
    seal = check_seal(run.folder, run.provenance)
    if foreign := unsealed_files(run.folder, seal):
        raise _differs(
            f"{' and '.join(foreign)}: no file of the run; remove it, or repeat the scoring "
            "command, which removes what a killed process has left"
        )
    return f"run.json and rows {_short(seal.predictions_sha256)} are intact"


def _rows(run: _Checked) -> str:
    """Compare the rows with the counts and settings in `run.json`; check every value."""
    predictions = Predictions.from_frame(run.frame)
    seal = run.provenance.seal
    items, views = len(predictions), len(run.frame)
    wrong = [*wrong_counts(run.provenance, items=items, views=views)]
    references = references_sha256(run.frame)
    if seal is not None and references != seal.references_sha256:
        sealed = _short(seal.references_sha256)
        wrong.append(f"right answers: the rows have {_short(references)}, recorded are {sealed}")
    if wrong:
        raise _differs("; ".join(wrong))
    return f"{counted(items, 'item')}, {counted(views, 'row')}"


def _adapter(run: _Checked) -> str | None:
    expected, folder = run.provenance.adapter, run.adapter_folder
    if expected is None and folder is None:
        return None
    recorded = expected or RecordedWeights()
    hashes = {ADAPTER_WEIGHTS: recorded.sha256, ADAPTER_CONFIG: recorded.config_sha256}
    return f"{folder}, {_files(folder, hashes, 'adapter')}"


def _training(run: _Checked) -> str | None:
    """Compare the adapter's training record with that of the scoring, and with the items."""
    if run.provenance.adapter is None:
        return None
    custody, folder = run.provenance.custody, run.adapter_folder
    stated, met = custody.training, custody.trained_on
    if met is not None:
        families = listed(met.families, "group", "groups")
        finding = f"allowed when it was scored: {families} also in {', '.join(met.files)}"
        raise _NotOkError("leak", finding)
    if stated is None:
        raise _NotOkError("not stated", "the adapter had no training record")
    if folder is None or not folder.is_dir():
        raise _unchecked(f"{folder}: no such folder; give --adapter")
    record = read_training_record(folder)
    if record is None or record.sha256 != stated.sha256:
        digest = "none" if record is None else str(record.sha256)
        raise _differs(_other(folder / TRAINING_RECORD, stated.sha256, digest))
    files = [name for role in stated.roles.values() for name in role.files]
    return f"no item was trained or selected on; record of {', '.join(files) or 'no dataset'}"


def _manifest(run: _Checked) -> str | None:
    """Compare the hash of the data with the manifest around the file, and its families."""
    path, expected = run.data_file, run.provenance.data.sha256
    other = run.provenance.custody.other_data
    if other is not None:
        difference = _other(other.manifest, other.expected, other.actual)
        raise _differs(f"allowed when it was scored: {difference}")
    if path is None or expected is None or not path.is_file():
        return None  # the check of the data says so
    try:
        check = manifest_check(path, run.families)
    except InputError as error:
        raise _unchecked(str(error)) from None
    if check is None:
        return None
    if check.expected is not None and check.expected.lower() != expected:
        names = f"{check.manifest}: names {_short(check.expected)}"
        raise _differs(f"{names}, the run scored {_short(expected)}")
    if check.families:
        families = listed(check.families, "group", "groups")
        raise _NotOkError("leak", f"{families} also in {', '.join(check.files)}")
    if check.unchecked:
        raise _unchecked(check.unchecked)
    return f"{check.manifest} names this file, and no group is in two"


def _base(run: _Checked) -> str | None:
    expected = run.provenance.base
    if expected is None:
        return None
    folder = run.base_folder
    digest = sha256_of_weights(folder)
    if digest != expected.sha256:
        raise _differs(_other(folder, expected.sha256, digest))
    if expected.config_sha256 is not None and (folder / "config.json").is_file():
        _files(folder, {"config.json": expected.config_sha256}, "base-model")
    return f"{folder}, SHA-256 of the weights {_short(digest)}"


def _data(run: _Checked) -> str | None:
    path, expected = run.data_file, run.provenance.data.sha256
    if path is None and expected is None:
        return None
    if path is None:
        raise _unchecked("the run records no file; give --data")
    return f"{path}, {_files(path.parent, {path.name: expected}, 'data')}"


def _contract(run: _Checked) -> str | None:
    recorded = run.provenance.contract
    if recorded.fingerprint is None:
        return None
    name, fingerprint = NIMBLE.name, NIMBLE.fingerprint
    if recorded.name == TEMPLATE_CONTRACT:
        name, fingerprint = _template(run)
    elif recorded.name != name:
        raise _unchecked(f"{recorded.name}: not known to this pact-eval")
    elif recorded.fingerprint != fingerprint:
        scored = f"scored with {_short(recorded.fingerprint)}"
        raise _differs(f"{scored}, this pact-eval renders {_short(fingerprint)}")
    # What the run records of its contract was the user's decision then.
    remark = "" if recorded.remark is None else f", {recorded.remark}"
    return f"{name}, fingerprint {_short(fingerprint)}{remark}"


def _template(run: _Checked) -> tuple[str, str]:
    """Read the decision template again, and return its name and fingerprint."""
    recorded, named = run.provenance.contract, run.provenance.contract_files
    try:
        files = DecisionFiles() if named is None else named_decision_files(named)
    except InputError as error:
        raise _unchecked(str(error)) from None
    where = named or "the generic prompt"
    if files.fingerprint != recorded.fingerprint:
        raise _differs(_other(where, str(recorded.fingerprint), files.fingerprint))
    if files.temperatures != recorded.temperatures:
        scored = f"scored with {dict(recorded.temperatures)}"
        raise _differs(f"{where}: ships {files.temperatures}, {scored}")
    return where, files.fingerprint


def _prompts(run: _Checked) -> str | None:
    """Render the probe prompt through the chat template and tokenizer of the base on disk."""
    expected = run.provenance.prompts_sha256
    if expected is None:
        return None
    folder = run.base_folder
    try:
        from pact_eval.scoring.contracts import load_tokenizer, recorded_contract
    except ImportError as error:
        raise _unchecked(f"{error.name} is not installed") from None
    fingerprint = Encoder(load_tokenizer(folder), recorded_contract(run.provenance)).fingerprint
    if fingerprint != expected:
        raise _differs(_other(folder, expected, fingerprint))
    return f"chat template and tokenizer of {folder}"


def _content_free(run: _Checked) -> str | None:
    """Check the content-free prompts as a run of their own, and that they are of this run."""
    folder = run.folder / CONTENT_FREE
    if not folder.is_dir():
        return None
    prompts = _Checked(folder, read_provenance(folder), run.places)
    if prompts.provenance.status != "complete":
        raise _unchecked("not complete; repeat the scoring command with --content-free")
    _seal(prompts)
    rows = _rows(prompts)
    content_free_run(RunFolder(run.folder, run.provenance))
    ids = set(run.frame["id"].to_list())
    others = {name for name in prompts.frame["id"].to_list() if record_id_of(name) not in ids}
    if others:
        prompts_of_others = counted(len(others), "prompt")
        raise _differs(f"{prompts_of_others} of other items, such as {min(others)}")
    return f"of this run; {rows}"


def _calibrator(run: _Checked) -> str | None:
    path = run.folder / CALIBRATION_NAME
    if not path.exists():
        return None
    try:
        predictions = Predictions.from_frame(run.frame)
        if is_fitted_on(path, predictions):
            return "fitted on the items of this run"
        _, notes = calibrator_for(path, run.provenance, predictions)
    except (InputError, TamperedError) as error:
        raise _differs(" ".join(str(error).split())) from None
    if UNKNOWN_RUN in notes or UNKNOWN_FAMILIES in notes:
        raise _unchecked("it or the run does not record its model or its groups")
    return "fitted on this adapter and on other items"


def _registration(run: _Checked) -> str | None:
    if run.hypotheses is None or run.places.criteria is None:
        return None
    place = lock_path(run.places.criteria)
    lock = read_lock(place) if place.exists() else None
    facts = run_facts(RunFolder(run.folder, run.provenance))
    registration = check_lock(run.hypotheses, lock, [facts])
    reasons = f": {'; '.join(registration.reasons)}" if registration.reasons else ""
    finding = f"{registration.status}{reasons}"
    if not registration.holds:
        raise _differs(finding) if registration.broken else _unchecked(finding)
    return finding


_CHECKS: Final[Mapping[str, Callable[[_Checked], str | None]]] = {
    "seal": _seal,
    "rows": _rows,
    "adapter": _adapter,
    "training": _training,
    "base": _base,
    "data": _data,
    "manifest": _manifest,
    "contract": _contract,
    "tokenizer": _prompts,
    "content-free": _content_free,
    "calibrator": _calibrator,
    "registration": _registration,
}


def _files(folder: Path | None, hashes: Mapping[str, str | None], option: str) -> str:
    """Compare files of a folder with their recorded hashes, and return the first of these."""
    recorded = {name: expected for name, expected in hashes.items() if expected is not None}
    if folder is None or not recorded:
        raise _unchecked("the run records no hash")
    for name, expected in recorded.items():
        path = folder / name
        if not path.is_file():
            raise _unchecked(f"{path}: no such file; give --{option}")
        digest = sha256_of_file(path)
        if digest != expected:
            raise _differs(_other(path, expected, digest))
    return f"SHA-256 {_short(next(iter(recorded.values())))}"


def _other(path: Path | str, expected: str | None, actual: str) -> str:
    return f"{path}: SHA-256 {_short(actual)}, the run recorded {_short(expected)}"


def _short(value: str | None) -> str:
    return value[:12] if value is not None and len(value) == 64 else value or "none"


FamilyRole = Literal["train", "selection", "calibration", "thresholds", "evaluation"]
"""What families are used for."""

FAMILY_ROLES: Final[tuple[FamilyRole, ...]] = get_args(FamilyRole)

_OTHER_ROLES: Final[Mapping[str, FamilyRole]] = {
    "calibration": "calibration",
    "selection": "selection",
}
_NAMES: Final = 3


@dataclass(frozen=True)
class RoleOfFamilies:
    """The families of one role.

    Attributes:
        role: what they are used for.
        sources: files and runs that say so.
        families: number of families.
        shared: by other role, how many of them also have that role; roles that share none are
            absent.
        names: the first of those with another role, as far as their names are known.
    """

    role: FamilyRole
    sources: tuple[str, ...]
    families: int
    shared: Mapping[FamilyRole, int] = field(default_factory=dict)
    names: tuple[str, ...] = ()


@dataclass(frozen=True)
class FamilyRoles:
    """The roles of the families of one adapter.

    Attributes:
        adapter: the adapter as its runs name it; "" for runs without one.
        roles: by role, in the order of use; roles without families are absent.
        stated: whether the adapter's record says what it was trained on.
    """

    adapter: str
    roles: tuple[RoleOfFamilies, ...]
    stated: bool

    @property
    def overlap(self) -> bool:
        """Whether a family has two roles."""
        return any(role.shared for role in self.roles)


def family_roles(
    runs: Sequence[RunFolder], *, adapter: Path | None = None, choices: Sequence[Path] = ()
) -> tuple[FamilyRoles, ...]:
    """Tell what the families of runs, and of what they were made from, are used for.

    Args:
        runs: complete runs; those with the role "calibration" or "selection" count as such.
        adapter: folder of the adapter; None takes the one that each run names.
        choices: files of thresholds or of answer sets: their families count for every adapter.

    Returns:
        One table per adapter, in the order of the runs.

    Raises:
        InputError: a file cannot be read.
    """
    groups: dict[str, list[RunFolder]] = {}
    for run in runs:
        recorded = run.provenance.adapter
        key = "" if recorded is None else str(recorded.sha256)
        groups.setdefault(key, []).append(run)
    return tuple(_roles_of_adapter(members, adapter, choices) for members in groups.values())


def _roles_of_adapter(
    runs: Sequence[RunFolder], adapter: Path | None, choices: Sequence[Path]
) -> FamilyRoles:
    named = runs[0].provenance.adapter_folder
    folder = adapter or (None if named is None else Path(named))
    record = None if folder is None or not folder.is_dir() else read_training_record(folder)
    hashes: dict[FamilyRole, set[int]] = {}
    sources: dict[FamilyRole, dict[str, None]] = {}
    names: dict[int, str] = {}
    for stated, data in () if record is None else record.roles.items():
        sources[stated] = dict.fromkeys(file.name for file in data.files)
        hashes[stated] = {*data.hashes("families").tolist()}
    for used_for, source, families in _uses(runs, choices):
        own = dict(zip(hashes_of(families).tolist(), families, strict=True))
        sources.setdefault(used_for, {})[source] = None
        hashes.setdefault(used_for, set()).update(own)
        names |= own
    roles = []
    for role in (role for role in FAMILY_ROLES if role in hashes):
        shared: dict[FamilyRole, set[int]] = {
            other: hashes[role] & hashes[other]
            for other in FAMILY_ROLES
            if other != role and other in hashes
        }
        met = sorted(names[digest] for digest in set().union(*shared.values()) if digest in names)
        counts = {other: len(both) for other, both in shared.items() if both}
        row = RoleOfFamilies(
            role, tuple(sources[role]), len(hashes[role]), counts, tuple(met[:_NAMES])
        )
        roles.append(row)
    return FamilyRoles(named or "", tuple(roles), record is not None)


def _uses(
    runs: Sequence[RunFolder], choices: Sequence[Path]
) -> Iterator[tuple[FamilyRole, str, list[str]]]:
    """Yield role, source and families of runs, of their calibrators, and of files of choices."""
    for run in runs:
        families = dict.fromkeys(read_any_run(run).predictions.family.tolist())
        role = _OTHER_ROLES.get(run.provenance.role or "", "evaluation")
        yield role, run.place, [family for family in families if family]
        file = run.folder / CALIBRATION_NAME
        if file.exists():
            yield "calibration", str(file), sorted(Members.of_fit(read_calibrator(file)).families)
    for path in choices:
        value = read_json(path)
        chosen = value.get("chosen_on") if isinstance(value, dict) else None
        chosen_families = chosen.get("families") if isinstance(chosen, dict) else None
        names = chosen_families if isinstance(chosen_families, list) else [None]
        if not all(isinstance(name, str) for name in names):
            raise InputError(f"{path}: expected a file of thresholds or of answer sets")
        yield "thresholds", str(path), [str(name) for name in names]


PAGE_ELEMENT: Final = "page-digest"
"""Id of the element of a page that holds its digest."""

_IN_PAGE: Final = re.compile(
    rf'<script type="application/json" id="{PAGE_ELEMENT}">(.*?)</script>', re.DOTALL
)


@dataclass(frozen=True)
class CheckedReport:
    """A report compared with runs.

    Attributes:
        path: the report.
        digests: the digests that it holds: one of a page, one for each run of JSON.
        reasons: why it is not the report on these runs; empty if it is.
    """

    path: Path
    digests: tuple[str, ...]
    reasons: tuple[str, ...]


def verify_report(path: Path, folders: Sequence[Path]) -> CheckedReport:
    """Compare the digest in a report with runs.

    Args:
        path: a page (`report --html`), or the output of `report --json`.
        folders: the run folders or their URLs, in any order.

    Returns:
        The digests that it holds, and why they are not those of the runs. The numbers of the
        report are not computed again: the same command on the same runs gives the same bytes.

    Raises:
        InputError: the report cannot be read, or has no digest.
        RunError: a folder is not a complete run.
        TamperedError: a run has changed since it was sealed.
    """
    held = tuple(_digests(path))
    recorded = [run for report in held for run in _runs(report)]
    arms = {str(run.get("run")): str(run.get("arm")) for run in recorded}
    given = [(seal_digest(run.seal), run.folder) for run in open_runs(folders)]
    folder_of = dict(given)
    reasons = [
        f"{arm}: the report was made from run {digest[:12]}, which is not among those given"
        for digest, arm in arms.items()
        if digest not in folder_of
    ]
    reasons += [
        f"{shown(folder)}: run {digest[:12]} is not in the report"
        for digest, folder in given
        if digest not in arms
    ]
    for run in recorded:
        folder = folder_of.get(str(run.get("run")))
        file = None if folder is None else folder / CALIBRATION_NAME
        if file is not None:
            calibrator = calibrator_sha256(read_calibrator(file)) if file.exists() else None
            if calibrator != run.get("calibrator"):
                reasons.append(f"{shown(file)}: not the calibrator of the report")
    for report in held:
        content = {key: value for key, value in report.items() if key != "sha256"}
        if sha256_of_json(content) != report.get("sha256"):
            reasons.append("its SHA-256 is not that of the runs and settings next to it")
    return CheckedReport(path, tuple(str(report.get("sha256")) for report in held), tuple(reasons))


def _digests(path: Path) -> Iterator[dict[str, Json]]:
    """Yield what a page, a report or each of a list of reports holds under `digest`."""
    text = read_text(path)
    match = _IN_PAGE.search(text)
    try:
        value: Any = loads(match[1] if match else text)
    except ValueError as error:
        message = f"{path}: expected a page or JSON of `pact-eval report` ({error})"
        raise InputError(message) from None
    reports = [value]
    if match is None and isinstance(value, dict) and isinstance(value.get("runs"), list):
        reports = value["runs"]
    for report in reports:
        digest = report.get("digest") if match is None and isinstance(report, dict) else report
        if not isinstance(digest, dict):
            raise InputError(
                f"{path}: no SHA-256: a comparison or a list, or a report of an earlier version"
            )
        yield digest


def _runs(digest: dict[str, Json]) -> list[dict[str, Json]]:
    runs = digest.get("runs")
    return [run for run in runs if isinstance(run, dict)] if isinstance(runs, list) else []
