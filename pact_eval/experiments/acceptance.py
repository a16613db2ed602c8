"""Acceptance of a trained adapter: an audit without errors, and no leak of evaluation data."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from pact_eval.audit.adapter.audit import AdapterAudit, audit_adapter
from pact_eval.audit.findings import failed
from pact_eval.audit.registry import CODES
from pact_eval.errors import GateError, InputError, counted

Verdict = Literal["accepted", "refused", "leak"]
"""What becomes of an adapter. A leak: it was trained or selected on families to evaluate with."""

_SHOWN: Final = 3
_NOT_STATED: Final = "training-not-stated"
_EXIT_CODES: Final[dict[Verdict, int]] = {
    "accepted": 0,
    "refused": InputError.exit_code,
    "leak": GateError.exit_code,
}


@dataclass(frozen=True)
class Acceptance:
    """Result of the audit of a trained adapter.

    Attributes:
        verdict: the verdict.
        reasons: the first findings, or what else is worth knowing; a sentence each.
    """

    verdict: Verdict
    reasons: tuple[str, ...] = ()

    @property
    def why(self) -> str:
        """Why the step of an adapter that is not accepted fails."""
        return f"adapter not accepted: {'; '.join(self.reasons)}"

    @property
    def exit_code(self) -> int:
        """Exit code of an experiment with this adapter: 3 for a leak."""
        return _EXIT_CODES[self.verdict]


def accept_adapter(folder: Path, *, base: Path | None, data: Path) -> Acceptance:
    """Audit the adapter that a trainer has written.

    An adapter without a training record is accepted: its training data are not stated.

    Args:
        folder: the adapter folder.
        base: folder of the base model; None takes the one that the adapter names, if it is here.
        data: the folder of the dataset, whose evaluation file no adapter may know.

    Examples:
        >>> accept_adapter(Path("no such adapter"), base=None, data=Path("data")).verdict
        'refused'
    """
    try:
        audit = audit_adapter(folder, base_model=base, data=(data,), keep=_SHOWN)
    except InputError as error:
        return Acceptance("refused", (str(error),))
    return _verdict(audit)


def _verdict(audit: AdapterAudit) -> Acceptance:
    codes = {code for check in audit.checks for code in check.counts}
    reasons = tuple(_reasons(audit))
    if audit.leaks:
        leaks = (
            f"trained or selected on {counted(len(leak.families), 'family')} of {leak.file}, "
            "which is for evaluation"
            for leak in audit.leaks
        )
        return Acceptance("leak", (*leaks, *reasons))
    if failed(audit.checks, "error"):
        return Acceptance("refused", reasons)
    return Acceptance("accepted", ("training data not stated",) if _NOT_STATED in codes else ())


def _reasons(audit: AdapterAudit) -> Iterator[str]:
    """Yield the first errors of the audit."""
    errors = [
        finding
        for check in audit.checks
        for finding in check.findings
        if CODES[finding.code].severity == "error"
    ]
    for finding in errors[:_SHOWN]:
        values = f"expected {finding.expected}, found {finding.actual}"
        yield f"{finding.code} at {finding.place}: {values}"
