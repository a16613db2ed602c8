"""Datasets: records, certificates, ablated contexts, files, manifests, splits and differences."""

from pact_eval.data.ablated_records import write_ablated_records
from pact_eval.data.ablation import ablate, find_sentence, occurrences
from pact_eval.data.certificates import Certificate, FocusSentence, parse_certificate
from pact_eval.data.contexts import LeafPath, context_text, folded, leaf_texts
from pact_eval.data.diff import DatasetDiff, diff_datasets
from pact_eval.data.files import (
    MANIFEST_NAME,
    ROLES,
    STORAGE_FORMAT,
    DataFile,
    FileFacts,
    Manifest,
    Role,
    dataset_files,
    evaluation_file,
    is_file,
    lies_inside,
    make_manifest,
    named_files,
    read_manifest,
)
from pact_eval.data.index import BadLine, Index, Located, build_index, build_index_in_parts
from pact_eval.data.manifest import WrittenManifest, write_manifest
from pact_eval.data.records import (
    MAX_ANSWERS,
    MIN_ANSWERS,
    Answer,
    Field,
    FieldKind,
    PairVariant,
    Record,
    parse_field,
    parse_record,
    read_records,
)
from pact_eval.data.splits import SplitPart, split_training_file
from pact_eval.data.word_diff import WordDiff, edited_words, same_words, word_diff, words

__all__ = [
    "MANIFEST_NAME",
    "MAX_ANSWERS",
    "MIN_ANSWERS",
    "ROLES",
    "STORAGE_FORMAT",
    "Answer",
    "BadLine",
    "Certificate",
    "DataFile",
    "DatasetDiff",
    "Field",
    "FieldKind",
    "FileFacts",
    "FocusSentence",
    "Index",
    "LeafPath",
    "Located",
    "Manifest",
    "PairVariant",
    "Record",
    "Role",
    "SplitPart",
    "WordDiff",
    "WrittenManifest",
    "ablate",
    "build_index",
    "build_index_in_parts",
    "context_text",
    "dataset_files",
    "diff_datasets",
    "edited_words",
    "evaluation_file",
    "find_sentence",
    "folded",
    "is_file",
    "leaf_texts",
    "lies_inside",
    "make_manifest",
    "named_files",
    "occurrences",
    "parse_certificate",
    "parse_field",
    "parse_record",
    "read_manifest",
    "read_records",
    "same_words",
    "split_training_file",
    "word_diff",
    "words",
    "write_ablated_records",
    "write_manifest",
]
