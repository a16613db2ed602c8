"""What a run says of its training data as sentences."""

from __future__ import annotations

from pact_eval.runs import Custody
from pact_reports.plain_text import one_line

NOT_STATED = "training data not stated"
"""Of an adapter without a training record, a server, an import and a base model alone."""


def training_text(custody: Custody) -> str:
    """Name the data of a training, by role.

    Examples:
        >>> training_text(Custody())
        'training data not stated'
    """
    if custody.training is None:
        return NOT_STATED
    used = {"train": "", "selection": "selected on ", "calibration": "calibrated on "}
    roles = (
        f"{used[role]}{', '.join(map(one_line, data.files))} ({data.families:,} families)"
        for role, data in custody.training.roles.items()
    )
    return ", ".join(roles) or "no dataset"


def custody_remarks(custody: Custody) -> tuple[str, ...]:
    """Return what to say of a scoring: nothing if its training data are known and other data.

    Examples:
        >>> custody_remarks(Custody())
        ('Training data not stated',)
    """
    remarks = [] if custody.training is not None else [NOT_STATED.capitalize()]
    if custody.trained_on is not None:
        families, files = len(custody.trained_on.families), custody.trained_on.files
        remarks.append(
            f"Allowed: {families:,} famil{'y' if families == 1 else 'ies'} that the model may have "
            f"learnt ({', '.join(map(one_line, files))})"
        )
    if custody.other_data is not None:
        remarks.append(
            f"Allowed: the data are not those of {one_line(custody.other_data.manifest)}"
        )
    if custody.unchecked:
        remarks.append(f"Families were not compared with all files: {custody.unchecked}")
    return tuple(remarks)
