"""A report on disk, a page or JSON, compared with the runs that it says it was made from."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pact_eval._files import read_text
from pact_eval._json import Json, loads, sha256_of_json
from pact_eval.calibration.temperatures import calibrator_sha256, read_calibrator
from pact_eval.errors import InputError
from pact_eval.runs.folder import open_runs
from pact_eval.runs.places import shown
from pact_eval.runs.seal import CALIBRATION_NAME, seal_digest

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
    digests = {run.folder: seal_digest(run.seal) for run in open_runs(folders)}
    named = {str(run.get("run")): str(run.get("arm")) for report in held for run in _runs(report)}
    reasons = [
        f"{arm}: the report was made from run {digest[:12]}, which is not among those given"
        for digest, arm in named.items()
        if digest not in digests.values()
    ]
    reasons += [
        f"{shown(folder)}: run {digest[:12]} is not in the report"
        for folder, digest in digests.items()
        if digest not in named
    ]
    calibrators = {
        digest: (folder, _calibrator_sha256(folder)) for folder, digest in digests.items()
    }
    for run in (run for report in held for run in _runs(report)):
        folder, calibrator = calibrators.get(str(run.get("run")), (path, run.get("calibrator")))
        if calibrator != run.get("calibrator"):
            reasons.append(f"{shown(folder / CALIBRATION_NAME)}: not the calibrator of the report")
    for report in held:
        content = {key: value for key, value in report.items() if key != "sha256"}
        if sha256_of_json(content) != report.get("sha256"):
            reasons.append("its SHA-256 is not that of the runs and settings next to it")
    return CheckedReport(path, tuple(str(report.get("sha256")) for report in held), tuple(reasons))


def _calibrator_sha256(folder: Path) -> str | None:
    path = folder / CALIBRATION_NAME
    return calibrator_sha256(read_calibrator(path)) if path.exists() else None


def _digests(path: Path) -> Iterator[dict[str, Json]]:
    text = read_text(path)
    match = _IN_PAGE.search(text)
    try:
        value = loads(match[1] if match else text)
    except ValueError as error:
        message = f"{path}: expected a page or JSON of `pact-eval report` ({error})"
        raise InputError(message) from None
    whole = value if isinstance(value, dict) else {}
    listed = whole.get("runs")
    several = match is None and isinstance(listed, list)
    reports = listed if several and isinstance(listed, list) else [whole]
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
