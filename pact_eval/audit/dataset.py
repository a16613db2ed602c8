"""The audit of a dataset: every registered check, in order, over one index."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from typing import Final

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
from pact_eval.audit.findings import TAMPERED, Check, CheckResult, Leak
from pact_eval.audit.parts import is_shared
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
    def tampered(self) -> bool:
        """Whether a hash does not match."""
        return any(code in TAMPERED for check in self.checks for code in check.counts)

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
    selected = [name for name in DATA_CHECKS if settings.only is None or name in settings.only]
    skipped = {"tokenizer"} if settings.tokenizer is None else set()
    costs = {
        name: DATA_CHECKS[name].cost
        for name in selected
        if not skipped & {*DATA_CHECKS[name].needs}
    }
    with step("Auditing", _READING_COST + sum(costs.values())):
        with step("reading", counts=_READING_COST):
            looks = {name: DATA_CHECKS[name].look for name in selected}
            context = replace(
                DataContext.read(source, settings),
                looks={name: look for name, look in looks.items() if look is not None},
            )
        index = context.index
        if schema.CHECK.name not in selected and index.is_incomplete:
            # No other check reports lines that could not be read.
            selected.insert(0, schema.CHECK.name)
        with _start_apart(selected, context) as started:
            results = []
            for name in selected:
                with step(name, counts=costs.get(name, 0.0)):
                    begun = started.get(name)
                    check = DATA_CHECKS[name]
                    results.append(begun() if begun else check.result(context))
    n_families = [
        index.frame.filter(file=number)["family"].n_unique() for number in range(len(index.files))
    ]
    return DataAudit(
        *(index.files, index.facts, tuple(n_families), tuple(results)), source, settings
    )


@contextmanager
def _start_apart(
    names: Sequence[str], context: DataContext
) -> Iterator[dict[str, Callable[[], CheckResult]]]:
    """Start checks that work on one core for long, if the dataset is large.

    Yields:
        By name of such a check, what waits for its result. All others run here.
    """
    checks = [DATA_CHECKS[name] for name in names]
    works = {
        check.name: check.apart(context)
        for check in checks
        if check.apart is not None and check.lacks(context) is None
    }
    if len(checks) == 1 or not is_shared(len(context.index)):
        works = {}
    with ExitStack() as processes:
        yield {name: processes.enter_context(another_process(work)) for name, work in works.items()}
