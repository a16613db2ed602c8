"""Chain of custody: what an adapter was trained on, and whether that meets the evaluated data."""

from pact_eval.custody.hashed_data import (
    TRAINING_ROLES,
    HashedData,
    TrainingRole,
    UsedData,
    UsedFile,
    hash_data,
    hashed_text,
    hashes_of,
)
from pact_eval.custody.overlap import LEARNT, Overlap, overlap_with, shared_between
from pact_eval.custody.training_record import (
    TRAINING_RECORD,
    TRAINING_RECORD_KEY,
    TrainingRecord,
    adapter_record,
    read_training_record,
    record_faults,
    write_training_record,
)

__all__ = [
    "LEARNT",
    "TRAINING_RECORD",
    "TRAINING_RECORD_KEY",
    "TRAINING_ROLES",
    "HashedData",
    "Overlap",
    "TrainingRecord",
    "TrainingRole",
    "UsedData",
    "UsedFile",
    "adapter_record",
    "hash_data",
    "hashed_text",
    "hashes_of",
    "overlap_with",
    "read_training_record",
    "record_faults",
    "shared_between",
    "write_training_record",
]
