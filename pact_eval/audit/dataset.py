"""The audit of a dataset: every registered check, in order, over one index."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final

import polars as pl

from pact_eval.audit import (
    balance,
    certificates,
    families,
    hashes,
    lengths,
    questions,
    schema,
    separation,
    shortcuts,
)
from pact_eval.audit.context import DataAuditSettings, DataContext, DatasetSource
from pact_eval.audit.findings import Check, CheckResult, Leak, tampering
from pact_eval.audit.parts import is_shared, look_at_families
from pact_eval.data.files import DataFile, FileFacts
from pact_eval.data.labelled.plain import plain_files
from pact_eval.data.labelled.reader import LabelledData
from pact_eval.data.processes import another_process
from pact_eval.progress import step
from pact_eval.results import Framed, Writable

DATA_CHECKS: Final[dict[str, Check[DataContext]]] = {
    module.CHECK.name: module.CHECK
    for module in (
        *(hashes, schema, questions, families, certificates),
        *(separation, balance, shortcuts, lengths),
    )
}
"""The checks of a dataset, in the order in which they run."""

_READING_COST: Final = 1.0


@dataclass(frozen=True, repr=False)
class DataAudit(Framed, Writable):
    """The results of a dataset's audit.

    Attributes:
        files: what was read.
        facts: hash, rows and fingerprint of each file.
        families: number of families of each file.
        checks: one result per check that was asked for, in the order of `DATA_CHECKS`.
        source: the files and their manifest.
        settings: what the checks allowed.
        labelled: what was read of the labelled files.
    """

    files: tuple[DataFile, ...]
    facts: tuple[FileFacts, ...]
    families: tuple[int, ...]
    checks: tuple[CheckResult, ...]
    source: DatasetSource = field(repr=False)
    settings: DataAuditSettings = field(repr=False)
    labelled: tuple[LabelledData, ...] = field(default=(), repr=False)

    @property
    def tampering(self) -> str | None:
        """What a hash that does not match shows; None if all match."""
        return tampering(self.checks)

    @property
    def leaks(self) -> tuple[Leak, ...]:
        """The files with records that a model may have learnt, as the check "separation" says."""
        return tuple(leak for check in self.checks for leak in check.leaks)


def audit_data(source: DatasetSource, settings: DataAuditSettings) -> DataAudit:
    """Audit a dataset.

    Args:
        source: the files and their manifest.
        settings: what the checks allow, and which of them run.

    Returns:
        The audit.

    Raises:
        InputError: a file cannot be read.
        ShapeError: nothing decides how a labelled file is read.
        RecordError: a labelled file is malformed; all problems together.
        PromptError: the tokenizer's chat template cannot render a record.
    """
    with plain_files(source.files, source.reading, is_spoiled=source.has_changed) as (
        files,
        labelled,
    ):
        audit = _audit_records(replace(source, files=files), settings)
    return replace(
        audit,
        files=tuple(replace(file, path=file.source) for file in audit.files),
        source=source,
        labelled=labelled,
    )


def _audit_records(source: DatasetSource, settings: DataAuditSettings) -> DataAudit:
    """Audit files of the full format."""
    checks = [
        check
        for name, check in DATA_CHECKS.items()
        if settings.only is None or name in settings.only
    ]
    costs = {
        check.name: 0 if "tokenizer" in check.needs and settings.tokenizer is None else check.cost
        for check in checks
    }
    with step("Auditing", _READING_COST + sum(costs.values())), ExitStack() as processes:
        with step("reading", counts=_READING_COST):
            context = DataContext.read(source, settings)
        index = context.index
        if schema.CHECK not in checks and index.is_incomplete:
            # No other check reports lines that could not be read.
            checks.insert(0, schema.CHECK)
        begun = {
            check.name: processes.enter_context(another_process(partial(check.result, context)))
            for check in checks
            if check.apart and len(checks) > 1 and is_shared(len(index))
        }
        results = []
        for check in checks:
            with step(check.name, counts=costs.get(check.name, 0)):
                if check.look is not None and check.name not in context.collectors:
                    looks = {other.name: other.look(context) for other in checks if other.look}
                    look_at_families(index, looks)
                    context.collectors.update(looks)
                wait = begun.get(check.name)
                results.append(wait() if wait else check.result(context))
    families = index.frame.group_by("file").agg(pl.col("family").n_unique())
    n_families = dict(families.iter_rows())
    return DataAudit(
        files=index.files,
        facts=index.facts,
        families=tuple(n_families.get(number, 0) for number in range(len(index.files))),
        checks=tuple(results),
        source=source,
        settings=settings,
    )
