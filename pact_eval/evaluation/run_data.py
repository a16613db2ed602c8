"""Dataset behind runs: its files, and an audit of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pact_eval._files import sha256_of_file
from pact_eval._json import dumps, loads
from pact_eval.evaluation.conclusions.conclusion import Unchecked
from pact_eval.evaluation.conclusions.data import DataConclusion
from pact_eval.evaluation.experiment_run import ExperimentRun
from pact_eval.evaluation.settings import Settings
from pact_eval.runs.folder import read_any_run

if TYPE_CHECKING:  # a report without data does not wait for the checks
    from pact_eval.audit.dataset import DataAudit
    from pact_eval.data.labelled.reading import Reading

MOST_AUDITED: Final = 20_000
"""So many records are audited with a report, which takes seconds; more need an own audit."""

_NO_DATA: Final = "give --data, or --audit with an audit's JSON"


def scored_hash(run: ExperimentRun) -> str | None:
    """Return the hash of the dataset that a run scored; None for imports, which lack it."""
    recorded = run.provenance
    return recorded.data.sha256 if recorded.source in (None, "score") else None


def scored_reading(run: ExperimentRun) -> Reading:
    """Return how the dataset of a run was read, if it is a labelled file."""
    from pact_eval.data.labelled.reading import reading_of_json

    return reading_of_json(run.provenance.settings.get("labelled"))


def recorded_data(runs: Sequence[ExperimentRun]) -> tuple[Path, ...] | None:
    """Return the datasets that runs name in `run.json`; None unless all are there, unchanged."""
    paths = []
    for run in runs:
        path, sha256 = Path(run.provenance.data_file or ""), scored_hash(run)
        if sha256 is None or not path.is_file() or sha256_of_file(path) != sha256:
            return None
        paths.append(path)
    return tuple(dict.fromkeys(paths))


def conclude_on_data(runs: Sequence[ExperimentRun], settings: Settings) -> DataConclusion:
    """Conclude on the data of runs, without the accuracies of a leak.

    What an adapter was trained on is as its run recorded it. The datasets of the settings are
    audited with every check. Without any, the files that the runs name are compared with the other
    files of their manifests, for leaks only.

    Args:
        runs: runs on full contexts.
        settings: name the datasets, or an audit of them.

    Raises:
        InputError: a file is missing, or is not an audit.
    """
    hashes = [scored_hash(run) for run in runs]
    if settings.audit is not None:
        conclusion = DataConclusion.read(settings.audit, hashes)
    elif settings.data:
        conclusion = _audited(settings.data, hashes, None, _common_reading(runs))
    else:
        conclusion = _checked_for_leaks(runs, hashes)
    conclusion = conclusion.with_custody([run.provenance.custody for run in runs])
    if conclusion.leak is None:
        return conclusion
    views = [read_any_run(run.run).predictions for run in runs]
    ids = [item for predictions in views for item in predictions.ids.tolist()]
    families = [family for predictions in views for family in predictions.family.tolist()]
    return conclusion.of_items(dict(zip(ids, families, strict=True)))


def _checked_for_leaks(
    runs: Sequence[ExperimentRun], hashes: Sequence[str | None]
) -> DataConclusion:
    """Compare the files that runs name with the other files of their manifests."""
    paths = recorded_data(runs) if runs else None
    if not paths:
        return DataConclusion.without_audit(_NO_DATA)
    from pact_eval.audit.context import DatasetSource
    from pact_eval.audit.dataset import DATA_CHECKS

    if all(len(DatasetSource.of_paths([path]).files) == 1 for path in paths):
        return DataConclusion.without_audit(_NO_DATA)
    conclusion = _audited(paths, hashes, "separation", _common_reading(runs))
    others = tuple(Unchecked(name, _NO_DATA) for name in DATA_CHECKS if name != "separation")
    sound = conclusion.status == "sound as far as checked"
    return replace(
        conclusion,
        status="not checked" if sound else conclusion.status,
        unchecked=(*conclusion.unchecked, *others),
    )


def _common_reading(runs: Sequence[ExperimentRun]) -> str:
    """Return the reading that all runs recorded, as JSON; null if they differ, or have none."""
    readings = {dumps(run.provenance.settings.get("labelled")) for run in runs}
    return readings.pop() if len(readings) == 1 else "null"


def _audited(
    paths: Sequence[Path], hashes: Sequence[str | None], only: str | None, reading: str
) -> DataConclusion:
    from pact_eval.audit.context import DatasetSource

    files = DatasetSource.of_paths(paths).files
    if sum(map(_lines, {file.path for file in files})) > MOST_AUDITED:
        reason = f"more than {MOST_AUDITED:,} records: give --audit with an audit's JSON"
        return DataConclusion.without_audit(reason)
    contents = tuple(sha256_of_file(file.path) for file in files)
    return DataConclusion.of_audit(_audit(tuple(paths), contents, only, reading), hashes)


@lru_cache(maxsize=4)
def _audit(
    paths: tuple[Path, ...], contents: tuple[str, ...], only: str | None, reading: str
) -> DataAudit:
    """Audit datasets; once for all runs on them, as long as their files have these hashes."""
    from pact_eval.audit.context import DataAuditSettings, DatasetSource
    from pact_eval.audit.dataset import audit_data
    from pact_eval.data.labelled.reading import reading_of_json

    del contents
    settings = DataAuditSettings(only=None if only is None else [only])
    source = replace(DatasetSource.of_paths(paths), reading=reading_of_json(loads(reading)))
    return audit_data(source, settings)


def _lines(path: Path) -> int:
    with path.open("rb") as file:
        return sum(block.count(b"\n") for block in iter(lambda: file.read(1 << 20), b""))
