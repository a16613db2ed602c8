"""Every code that a finding can carry: its check, its severity and what it means.

One table, in the order in which the checks run, so that the reports, the documentation and a
reader find every code in one place. A code keeps its name once it is released.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

__all__ = ["ADAPTER_CHECKS", "CODES", "DATA_CHECKS", "CheckName", "Code", "Severity"]

Severity = Literal["error", "warning", "note"]
"""An error makes an evaluation untrustworthy; a warning may; a note is worth knowing."""

CheckName = Literal[
    "bytes",
    "form",
    "families",
    "certificates",
    "separation",
    "balance",
    "shortcuts",
    "lengths",
    "files",
    "config",
    "tensors",
    "contract",
    "base",
]
"""The checks of `pact-audit data`, then those of `pact-audit adapter`."""

DATA_CHECKS: Final[Mapping[CheckName, str]] = {
    "bytes": "Are the files those that the manifest describes?",
    "form": "Is every line a record, with an answer that is allowed?",
    "families": "Are there two members, one small edit apart, with different references?",
    "certificates": "Do the focus sentences stand in the context, and can they be deleted?",
    "separation": "Is nothing in two files, word for word or nearly?",
    "balance": "Is the reference spread over kinds, domains and answer positions?",
    "shortcuts": "Does a bag of words find the reference without the evidence?",
    "lengths": "Does every prompt fit, with one token a code?",
}
"""The checks of a dataset, in their order, and the question that each answers."""

ADAPTER_CHECKS: Final[Mapping[CheckName, str]] = {
    "files": "Is everything there, and nothing that could run?",
    "config": "Is it a LoRA adapter that says what it is?",
    "tensors": "Are all weights there, finite, and trained?",
    "contract": "Was it trained on our prompt contract?",
    "base": "Does it fit the base model that it names?",
}
"""The checks of an adapter folder, in their order, and the question that each answers."""


@dataclass(frozen=True, slots=True)
class Code:
    """What a code stands for.

    Attributes:
        check: the check that it belongs to.
        severity: error, warning or note.
        meaning: one sentence for the documentation.
    """

    check: CheckName
    severity: Severity
    meaning: str


def _table(*sections: dict[str, Code]) -> dict[str, Code]:
    """Join the sections; a code that stands in two of them is a mistake here."""
    table: dict[str, Code] = {}
    for section in sections:
        twice = table.keys() & section.keys()
        if twice:
            message = f"codes of two checks: {', '.join(sorted(twice))}"
            raise ValueError(message)
        table |= section
    return table


def _codes(check: CheckName, **codes: tuple[Severity, str]) -> dict[str, Code]:
    return {
        name.replace("_", "-"): Code(check, severity, meaning)
        for name, (severity, meaning) in codes.items()
    }


CODES: Final[Mapping[str, Code]] = _table(
    _codes(
        "bytes",
        hash_mismatch=("error", "A file's SHA-256 is not the one in the manifest."),
        fingerprint_mismatch=("error", "The records are not those that the manifest names."),
        rows_mismatch=("error", "A file has more or fewer records than the manifest says."),
        listed_file_missing=("error", "The manifest names a file that the folder lacks."),
        path_outside=("error", "A file name in the manifest leads out of the folder."),
        manifest_malformed=("error", "A value of the manifest is missing or of another type."),
        manifest_missing=("warning", "There is no manifest to hold the files against."),
        file_unhashed=("error", "A dataset file beside the manifest has no hash in it."),
        file_not_in_manifest=("warning", "A file is not in the manifest."),
        storage_format_unknown=("warning", "The manifest names a format that we do not know."),
    ),
    _codes(
        "form",
        not_json=("error", "A line is no JSON that means one thing only."),
        malformed=("error", "A line is no record, or its reference is no answer."),
        duplicate_id=("error", "An id stands twice in a file."),
        answers_alike=("error", "Two answers of a question read alike."),
        reference_in_input=("error", "A key inside the input gives the reference away."),
        split_mismatch=("error", "A record's split is not that of the file it lies in."),
        empty_file=("error", "A dataset file holds no record."),
        no_eval_file=("note", "No file is for evaluation."),
        reference_like_key=("warning", "A key inside the input is named like a reference."),
    ),
    _codes(
        "families",
        family_size=("error", "A family has not exactly two members."),
        family_variants=("error", "The members are not one base and one counterfactual."),
        family_labels=("error", "The members differ in split, domain or source family."),
        answers_differ=("error", "The members' answers differ, or their order."),
        question_differs=("error", "The members' question or criteria differ."),
        reference_same=("error", "Both members have the same reference."),
        context_same=("error", "The members' contexts do not differ in any word."),
        context_shape=("error", "The contexts differ in more than the text of one leaf."),
        edit_too_long=("error", "The edit touches more words than allowed."),
    ),
    _codes(
        "certificates",
        certificate_missing=("error", "A record of a family has no evidence certificate."),
        certificate_malformed=("error", "A certificate lacks a part, or it has another type."),
        certificates_differ=("error", "The two members' certificates tell different pairs."),
        no_changed_sentence=("error", "Not exactly one of the two focus sentences is changed."),
        focus_trivial=("error", "A focus sentence has fewer than three words."),
        focus_overlap=("error", "One focus sentence is part of the other."),
        focus_not_found=("error", "A focus sentence does not stand in the context."),
        edit_elsewhere=("error", "The edit is not the one that the certificate tells."),
        old_wording_remains=(
            "error",
            "The counterfactual still holds the base wording of the changed sentence.",
        ),
        not_ablated=("error", "The sentence still occurs in the context without it."),
        fact_not_flipped=(
            "error",
            "The focus fact is not supported in one member and refuted in the other.",
        ),
        necessity_failed=("error", "The certificate says that its necessity checks failed."),
        focus_other_wording=(
            "warning",
            "A focus sentence stands in the context in the other member's wording.",
        ),
        certificates_none=("warning", "No record of a file has a certificate."),
        focus_quote=(
            "warning",
            "The evidence quotes a text that is neither wording of its sentence.",
        ),
        focus_path=(
            "note",
            "The path does not lead to the focus sentence; it was found otherwise.",
        ),
        focus_repeated=("note", "A focus sentence occurs more than once in the context."),
    ),
    _codes(
        "separation",
        shared_id=("error", "A record id is in two files."),
        shared_family=("error", "A family is in two files."),
        shared_source_family=("error", "A source family is in two files."),
        shared_source_id=("error", "A source id is in two files."),
        shared_context=("error", "A context is in two files."),
        source_id_missing=("note", "No record of a file names its source."),
        near_duplicate=("error", "A context of one file is nearly one of another file."),
        near_duplicate_within=("note", "Two families of one file have nearly the same context."),
    ),
    _codes(
        "balance",
        position_favoured=(
            "warning",
            "An answer position holds the reference far more often than chance.",
        ),
        kind_missing=(
            "note",
            "A kind that the training data have is not evaluated, or the other way round.",
        ),
    ),
    _codes(
        "shortcuts",
        question_shortcut=("error", "The question alone predicts the reference."),
        ablated_shortcut=("error", "The context without its evidence predicts the reference."),
        shortcut_suspected=("warning", "A bag of words does a little better than the majority."),
    ),
    _codes(
        "lengths",
        codes_not_single=("error", "A code is no single ordinary token of its own."),
        prompt_too_long=("error", "A prompt has more tokens than the limit."),
    ),
    _codes(
        "files",
        file_missing=("error", "A file that PEFT needs is not there."),
        pickled=("error", "A file would be unpickled, which can run code."),
        not_safetensors=("error", "A file named .safetensors holds something else."),
        link_outside=("error", "A link leads out of the folder; it was not followed."),
        unreadable=("error", "A file is no ordinary file, or it cannot be read."),
        code_file=("warning", "A file is code; nothing here would run it."),
        archive=("warning", "A file is an archive; it was not looked into."),
        not_looked_into=("note", "A folder belongs to a tool; it was not looked into."),
    ),
    _codes(
        "config",
        config_unreadable=("error", "adapter_config.json is no JSON object that means one thing."),
        not_lora=("error", "The adapter is no LoRA."),
        value_malformed=("error", "A value is missing, or of another type than PEFT writes."),
        values_contradict=("error", "Two values contradict one another."),
        imports_library=("error", "The configuration names a library that PEFT would import."),
        other_task=("warning", "The adapter was trained for another task than text generation."),
        lora_variant=("note", "A variant of LoRA is in use whose tensors are not checked."),
    ),
    _codes(
        "tensors",
        weights_damaged=("error", "The safetensors file is damaged or cut short."),
        no_lora=("error", "The file holds no LoRA factor."),
        half_pair=("error", "A module has one factor of its pair only."),
        rank_mismatch=("error", "A pair's shapes do not have the rank of the configuration."),
        module_off_target=("error", "A module is adapted that is no target."),
        announced_missing=("error", "Tensors are missing that the configuration announces."),
        tensor_unannounced=("error", "A tensor is no LoRA factor and is not announced."),
        pattern_costly=("error", "Regular expressions of the configuration take too long."),
        factor_type=("error", "A factor is no floating point of 8 to 64 bits."),
        not_finite=("error", "A tensor holds NaN or infinities."),
        untrained=("error", "Every module has a factor of zeros: the adapter changes nothing."),
        target_unused=("error", "A target names no module that is adapted; no base tells of one."),
        layers_uneven=("error", "A layer lacks a module that is adapted in its like."),
        update_negligible=("warning", "The update of every module is next to nothing."),
        module_untrained=("warning", "A module still has the zeros that it started with."),
        factor_zero=("warning", "The factor that starts at random is all zeros."),
        pattern_unused=("warning", "A rank or alpha pattern fits no module that is adapted."),
        layers_missing=("warning", "Layers between others are not adapted at all."),
        whole_tensors=("note", "Whole weights are stored beside the LoRA factors."),
        values_not_checked=("note", "Numbers of a type that is not read here."),
    ),
    _codes(
        "contract",
        contract_unknown=("error", "There is no schema_config.json: the contract is unknown."),
        contract_unreadable=("error", "schema_config.json is no JSON object that means one thing."),
        contract_mismatch=("error", "The adapter was trained on another prompt contract."),
        max_length_malformed=("warning", "max_length is no number of tokens; it has no effect."),
        max_length_differs=("note", "The longest prompt is not the one of the contract."),
    ),
    _codes(
        "base",
        base_unusable=("error", "The base model's folder has no weights that can be read."),
        base_differs=("error", "The base's weights do not have the hash that the adapter names."),
        module_unknown=("error", "A module is adapted that the base does not have."),
        shape_misfit=("error", "A pair's shapes do not fit the base's weight."),
        module_not_adapted=("error", "A module of the base is a target and is not adapted."),
        target_unknown=("warning", "A target names no module of the base."),
        base_unknown=("warning", "The adapter names no base model."),
        base_not_found=("warning", "The base is named by a path that does not exist here."),
        base_unpinned=("warning", "The base is named by a hub id without a commit."),
        base_named_twice=("note", "The two configurations name different bases."),
        fit_not_checked=("note", "Something was not held against the base's weights."),
    ),
)
"""Every code by name."""
