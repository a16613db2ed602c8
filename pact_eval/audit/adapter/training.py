"""Check "training": the record of the adapter's training data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pact_eval.audit.adapter.files import shown
from pact_eval.audit.findings import CheckResult, Collector
from pact_eval.audit.registry import Check
from pact_eval.custody.training_record import (
    TRAINING_RECORD,
    TrainingRecord,
    record_faults,
    shared_between,
)
from pact_eval.errors import AdapterError, Place
from pact_eval.models.folders import ADAPTER_WEIGHTS, sha256_of_weights

if TYPE_CHECKING:
    from pact_eval.audit.adapter.context import AdapterContext

_PLACE: Final = Place(TRAINING_RECORD)
_VERBS: Final = {"train": "train", "selection": "select", "calibration": "calibrate"}


def _run(context: AdapterContext) -> CheckResult:
    if TRAINING_RECORD in context.unreadable:
        return context.failed_to_read("training", "training-unreadable", TRAINING_RECORD)
    collector = context.collector("training")
    record, weights = context.training, context.sha256_of(ADAPTER_WEIGHTS)
    for fault in record_faults(record, context.schema_config, weights or ""):
        collector.add(f"training-{fault.code}", _PLACE, shown(fault.expected), shown(fault.actual))
    if record is None:
        if not collector.errors:
            expected = "hashes of the training data"
            collector.add("training-not-stated", _PLACE, expected, f"no {TRAINING_RECORD}")
        return collector.result("not stated")
    for roles, count in shared_between(record).items():
        names = " and ".join(roles)
        shared_families = f"{count:,} in the data for {names}"
        collector.add("roles-overlap", _PLACE, "families that have one role", shared_families)
    _check_base(record, context, collector)
    counted = (
        f"{len(data.hashes['records']):,} to {_VERBS[role]}" for role, data in record.roles.items()
    )
    return collector.result(f"records: {', '.join(counted) or 'none'}")


def _check_base(record: TrainingRecord, context: AdapterContext, collector: Collector) -> None:
    """Compare the base of the training with the one that the adapter names, or that is here.

    A base that was trained further has other weights.
    """
    if record.base_sha256 is None:
        return
    named = context.base.weights_sha256
    here = named if isinstance(named, str) else _sha256_of_base(context)
    if here is not None and here != record.base_sha256:
        expected = f"a base whose weights have the SHA-256 {shown(record.base_sha256)}"
        collector.add("training-base-differs", _PLACE, expected, shown(here))


def _sha256_of_base(context: AdapterContext) -> str | None:
    try:
        return None if context.base_folder is None else sha256_of_weights(context.base_folder)
    except (AdapterError, OSError):  # the check "base" reports it
        return None


TRAINING: Final[Check[AdapterContext]] = Check(
    name="training",
    question="Does the adapter state its training data, and is the record its own?",
    run=_run,
    needs=(ADAPTER_WEIGHTS,),
    codes={
        "training-unreadable": ("error", "training_data.json is not a training record."),
        "training-missing": ("error", "schema_config.json names a training record; none exists."),
        "training-unnamed": ("error", "schema_config.json does not name the training record."),
        "training-edited": ("error", "The training record is not the one that is named."),
        "training-other-weights": ("error", "The training record belongs to other weights."),
        "training-base-differs": ("error", "The adapter was trained on another base model."),
        "roles-overlap": (
            "error",
            "A family was used both to train and to select or calibrate.",
        ),
        "training-not-stated": ("note", "The adapter does not state its training data."),
    },
)
