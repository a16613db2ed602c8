"""Dataset behind runs: its files, and an audit of them."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Final

from pact_eval._files import sha256_of_file
from pact_eval._json import Json, dumps, loads
from pact_eval.audit.context import DataAuditSettings, DatasetSource
from pact_eval.audit.dataset import DATA_CHECKS, DataAudit, audit_data
from pact_eval.data.labelled.reading import Reading, reading_of_json
from pact_eval.errors import InputError
from pact_eval.evaluation.conclusions.conclusion import Unchecked
from pact_eval.evaluation.conclusions.data import DataConclusion
from pact_eval.evaluation.experiment_run import ExperimentRun
from pact_eval.evaluation.settings import Settings
from pact_eval.runs.folder import read_any_run

MOST_AUDITED: Final = 20_000
"""So many records are audited with a report, which takes seconds; more need an own audit."""

_NO_DATA: Final = "give the questions (--data) to look for copies and leaks"
_SLOW: Final = Unchecked("shortcuts", "looked for by report --data FILE")
"""The check that takes most of the time of an audit: nobody asked for one."""


def scored_hash(run: ExperimentRun) -> str | None:
    """Return the hash of the dataset that a run scored; None for imports, which lack it."""
    recorded = run.provenance
    return recorded.data.sha256 if recorded.source in (None, "score") else None


def data_hash(run: ExperimentRun) -> str | None:
    """Return the hash of the dataset that a run scored, or has its references from."""
    sha256 = _references(run).get("sha256")
    return scored_hash(run) or (sha256 if isinstance(sha256, str) else None)


def data_reading(run: ExperimentRun) -> Reading:
    """Return how the dataset of a run was read, if it is a labelled file."""
    return reading_of_json(_labelled_setting(run))


def _labelled_setting(run: ExperimentRun) -> Json:
    return run.run.settings.get("labelled", _references(run).get("labelled"))


def _references(run: ExperimentRun) -> Mapping[str, Json]:
    """Return what `run.json` says of the references of an import; empty without any."""
    value = run.run.settings.get("references")
    return value if isinstance(value, dict) else {}


def remembered_data(runs: Sequence[ExperimentRun]) -> tuple[tuple[Path, ...], str]:
    """Return the datasets that runs remember, which are used unless the user gives others.

    They are those that `run.json` names, of runs that were scored on them or joined with them.

    Returns:
        The files, each once; none unless those of all runs are there, unchanged. And why there are
        none.
    """
    files: list[Path] = []
    for run in runs:
        recorded, sha256 = run.provenance, data_hash(run)
        named = recorded.data_file if scored_hash(run) else recorded.references_file
        if named is None or sha256 is None:
            return (), _NO_DATA
        places = [Path(named)]
        if recorded.data_from_run is not None:
            places.append(Path(os.path.normpath(run.folder.resolve() / recorded.data_from_run)))
        hashes = {_hash_at(place): place for place in reversed(places)}  # as given, if it is
        if sha256 not in hashes:
            change = "is not there" if hashes.keys() == {None} else "was changed since"
            return (), f"{named} {change}: {_NO_DATA}"
        reading = data_reading(run)
        # Of right answers only, ids stand for the contexts.
        if reading.bare and reading.columns.get("state") == reading.columns.get("id", ()):
            return (), f"{named} has no contexts: {_NO_DATA}"
        files.append(hashes[sha256])
    return tuple(dict.fromkeys(files)), _NO_DATA


def _hash_at(place: Path) -> str | None:
    """Return the hash of a file; None if there is none that can be read."""
    try:
        return sha256_of_file(place) if place.is_file() else None
    except (OSError, InputError):
        return None


def conclude_on_data(runs: Sequence[ExperimentRun], settings: Settings) -> DataConclusion:
    """Conclude on the data of runs, without the accuracies of a leak.

    What an adapter was trained on is as its run recorded it. The datasets of the settings are
    audited; without any, those that the runs remember.

    Args:
        runs: runs on full contexts.
        settings: name the datasets, or an audit of them.

    Raises:
        InputError: a file is missing, or is not an audit.
    """
    hashes = [data_hash(run) for run in runs]
    if settings.audit is not None:
        scored = [scored_hash(run) for run in runs]
        conclusion = DataConclusion.read(settings.audit, scored)
    elif settings.data:
        conclusion = _audit_files(settings.data, hashes, _common_reading(runs))
    else:
        conclusion = _audit_remembered(runs, hashes)
    conclusion = conclusion.with_custody([run.provenance.custody for run in runs])
    if conclusion.leak is None:
        return conclusion
    views = [read_any_run(run.run).predictions for run in runs]
    ids = [item for predictions in views for item in predictions.ids.tolist()]
    families = [family for predictions in views for family in predictions.family.tolist()]
    return conclusion.of_items(dict(zip(ids, families, strict=True)))


def _audit_remembered(
    runs: Sequence[ExperimentRun], hashes: Sequence[str | None]
) -> DataConclusion:
    """Audit the datasets that runs remember, but for what takes seconds; say why they cannot be."""
    files, lacking = remembered_data(runs)
    if not files:
        return DataConclusion.without_audit(lacking)
    quick = tuple(name for name in DATA_CHECKS if name != _SLOW.name)
    try:
        conclusion = _audit_files(files, hashes, _common_reading(runs), quick)
        return replace(conclusion, unchecked=(*conclusion.unchecked, _SLOW))
    except InputError as error:  # what nobody asked for does not end a report
        return DataConclusion.without_audit(f"{str(error).splitlines()[0]}; {_NO_DATA}")


def _common_reading(runs: Sequence[ExperimentRun]) -> str:
    """Return the reading that all runs recorded, as JSON; null if they differ, or have none."""
    readings = {dumps(_labelled_setting(run)) for run in runs}
    return readings.pop() if len(readings) == 1 else "null"


def _audit_files(
    paths: Sequence[Path],
    hashes: Sequence[str | None],
    reading: str,
    only: tuple[str, ...] | None = None,
) -> DataConclusion:
    files = DatasetSource.of_paths(paths).files
    if sum(map(count_lines, {file.path for file in files})) > MOST_AUDITED:
        reason = (
            f"more than {MOST_AUDITED:,} records: name an audit's JSON, audit = FILE below "
            "[options.report] in pact.toml"
        )
        return DataConclusion.without_audit(reason)
    contents = tuple(sha256_of_file(file.path) for file in files)
    return DataConclusion.of_audit(_audit(tuple(paths), contents, reading, only), hashes)


@lru_cache(maxsize=4)
def _audit(
    paths: tuple[Path, ...],
    contents: tuple[str, ...],
    reading: str,
    only: tuple[str, ...] | None,
) -> DataAudit:
    """Audit datasets; once for all runs on them, as long as their files have these hashes."""
    del contents
    source = replace(DatasetSource.of_paths(paths), reading=reading_of_json(loads(reading)))
    return audit_data(source, DataAuditSettings(only=only))


def count_lines(path: Path) -> int:
    """Return the number of line feeds in a file."""
    with path.open("rb") as file:
        return sum(block.count(b"\n") for block in iter(lambda: file.read(1 << 20), b""))
