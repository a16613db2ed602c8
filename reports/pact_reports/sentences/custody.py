"""Training data of a run as sentences."""

from __future__ import annotations

from pact_eval.runs.custody import Custody, TrainedOn
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


def trained_on_text(trained_on: TrainedOn) -> str:
    """Name the data of a run that its model may have learnt.

    Examples:
        >>> trained_on_text(TrainedOn(("a-base", "a-cf"), ("a",), ("train.jsonl",)))
        '1 family that the model may have learnt is also in train.jsonl'
    """
    families, one = len(trained_on.families), len(trained_on.families) == 1
    files = ", ".join(map(one_line, trained_on.files))
    return (
        f"{families:,} famil{'y' if one else 'ies'} that the model may have learnt "
        f"{'is' if one else 'are'} also in {files}"
    )


def custody_remarks(custody: Custody) -> tuple[str, ...]:
    """Return remarks on a scoring; none if its training data are known and different.

    Examples:
        >>> custody_remarks(Custody())
        ('Training data not stated',)
    """
    remarks = [] if custody.training is not None else [NOT_STATED.capitalize()]
    if custody.trained_on is not None:
        remarks.append(f"Allowed: {trained_on_text(custody.trained_on)}")
    if custody.other_data is not None:
        remarks.append(
            f"Allowed: the data are not those of {one_line(custody.other_data.manifest)}"
        )
    if custody.unchecked:
        remarks.append(f"Families were not compared with all files: {custody.unchecked}")
    return tuple(remarks)
