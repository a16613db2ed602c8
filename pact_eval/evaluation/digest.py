"""Digest of a report: its sealed runs and settings.

Two people who compare digests know that their reports come from the same rows, calibrators,
settings and other files (texts, criteria, thresholds), and from the same version of pact-eval. The
report follows from these.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import metadata
from typing import Final

from pact_eval._json import Json, sha256_of_json
from pact_eval.evaluation.experiment_run import ExperimentRun
from pact_eval.evaluation.settings import Settings
from pact_eval.runs.seal import seal_digest

FORMAT: Final = "pact-digest-2"
_SETTINGS: Final = (
    *("decoding", "calibrated", "by", "unit", "resamples", "seed", "method", "margin"),
)


@dataclass(frozen=True)
class ReportDigest:
    """The digest of a report, with what it covers.

    Attributes:
        version: version of pact-eval.
        settings: decoding, grouping, bootstrap, accepted differences, ...
        runs: for each run, its arm and `seal_digest`, and the SHA-256 of its calibrator (null if
            it has none).
        inputs: SHA-256 of what else decides what is shown, by name: criteria, texts, ...
    """

    version: str
    settings: Mapping[str, Json]
    runs: tuple[Mapping[str, Json], ...]
    inputs: Mapping[str, Json] = field(default_factory=dict)

    @property
    def sha256(self) -> str:
        """The digest: 64 hex digits."""
        return sha256_of_json(self.content)

    @property
    def content(self) -> dict[str, Json]:
        """Content that the digest covers."""
        return {
            "format": FORMAT,
            "version": self.version,
            "settings": dict(self.settings),
            "runs": [dict(run) for run in self.runs],
            "inputs": dict(self.inputs),
        }

    @property
    def json(self) -> dict[str, Json]:
        """Content, and the digest itself."""
        return {"sha256": self.sha256, **self.content}


def report_digest(
    runs: Sequence[ExperimentRun], settings: Settings, inputs: Mapping[str, Json] | None = None
) -> ReportDigest:
    """Return the digest of a report on runs.

    Args:
        runs: the runs, in the order of the report.
        settings: the settings of all its numbers.
        inputs: SHA-256 of what else decides what is shown, by name.

    Returns:
        The digest.
    """
    run_digests: tuple[Mapping[str, Json], ...] = tuple(
        {"arm": run.arm, "run": seal_digest(run.run.seal), "calibrator": _calibrator_sha256(run)}
        for run in runs
    )
    chosen: dict[str, Json] = {name: getattr(settings, name) for name in _SETTINGS}
    chosen["allow"] = [*sorted(set(settings.allow))]
    if settings.bins is not None:
        chosen["bins"] = settings.bins if isinstance(settings.bins, int) else [*settings.bins]
    if settings.without_leaks:
        chosen["without_leaks"] = True
    if settings.target_error is not None:
        chosen["target_error"] = settings.target_error
    return ReportDigest(metadata.version("pact-eval"), chosen, run_digests, inputs or {})


def _calibrator_sha256(run: ExperimentRun) -> str | None:
    if run.calibrator is None:
        return None
    from pact_eval.calibration.files import calibrator_sha256

    return calibrator_sha256(run.calibrator)
