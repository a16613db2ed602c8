"""Healthy datasets that tests spoil, written with a manifest that fits them."""

from __future__ import annotations

import functools
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pact_eval.audit.context import DataAuditSettings, DatasetSource
from pact_eval.audit.dataset import DataAudit, audit_data
from pact_eval.audit.findings import Finding
from pact_fixtures.generator.dataset import Dataset, generate_dataset, write_dataset

Record = dict[str, Any]


@dataclass
class Data:
    """Records of a train file and of a holdout file; the members of a pair stand in one place."""

    train: list[Record]
    holdout: list[Record]

    def write(self, folder: Path) -> Path:
        """Writes both files and a manifest that fits them; returns the folder."""
        write_dataset(Dataset(self.train, self.holdout), folder)
        return folder


@functools.cache
def _generated() -> Dataset:
    return generate_dataset("small", seed=17)


def healthy(families: int | None = None) -> Data:
    """Returns generated records; the first pairs of every source family where that is enough."""
    dataset = _generated()
    train, holdout = dataset.train, dataset.holdout
    if families is not None:
        train, holdout = train[: 2 * families], holdout[: 2 * families]
    return Data(_copied(train), _copied(holdout))


def _copied(records: list[Record]) -> list[Record]:
    """Copies through JSON: the members of a pair share objects, and deepcopy would keep that."""
    copied: list[Record] = json.loads(json.dumps(records))
    return copied


def audited(folder: Path, only: Sequence[str] | None = None, **settings: Any) -> DataAudit:
    return audit_data(DatasetSource.of_folder(folder), DataAuditSettings(only=only, **settings))


def findings(audit: DataAudit) -> list[Finding]:
    return [finding for check in audit.checks for finding in check.findings]


def counts(audit: DataAudit) -> dict[str, int]:
    return {code: n for check in audit.checks for code, n in check.counts.items()}
