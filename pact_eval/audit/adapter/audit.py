"""The audit of an adapter folder: every registered check, in order, without loading the adapter.

An adapter is foreign data. Its files are listed, hashed and read as bytes and plain JSON; nothing
in it is unpickled, imported or run, and nothing is fetched. Everything that is wrong becomes a
finding and never an exception. No check needs torch.

Check "overlap": evaluation data that the adapter was trained or selected on.

Names of families and contexts are compared by their hashes in the training record. Contexts that
were edited, under new names, have other hashes. They are found by their texts, as near duplicates,
if the files of the training are among the data. These files are recognised by their content, not by
their names.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import numpy as np

from pact_eval._choices import NEAR_DUPLICATE
from pact_eval._files import sha256_of_file
from pact_eval._json import Json, describe
from pact_eval._typing import BoolArray
from pact_eval.audit.adapter.base import BASE
from pact_eval.audit.adapter.context import AdapterContext
from pact_eval.audit.adapter.files import CONFIG, FILES, FileRecord, LoraSettings, shown
from pact_eval.audit.adapter.tensors import TENSORS, layer_module
from pact_eval.audit.findings import Check, CheckResult, Collector, Leak, leak_of, tampering
from pact_eval.audit.near_duplicates import ContextVectors, Groups, Pairs, add_pairs, near_pairs
from pact_eval.custody import (
    LEARNT,
    TRAINING_RECORD,
    are_hashed,
    hashes_of,
    record_faults,
    shared_between,
)
from pact_eval.data.files import (
    MANIFEST_NAME,
    DataFile,
    Role,
    dataset_files,
    read_manifest,
    role_of_name,
)
from pact_eval.data.index import Index, build_index
from pact_eval.errors import AdapterError, ContractMismatchError, InputError, Place, counted
from pact_eval.hub import Snapshot, located, short_name, snapshot_of
from pact_eval.models import (
    ADAPTER_WEIGHTS,
    SCHEMA_CONFIG,
    TensorInfo,
    require_adapter_folder,
    sha256_of_weights,
)
from pact_eval.prompts.contract import CONTRACT_KEYS, STATED_BY
from pact_eval.prompts.encoding import STATED_PROMPTS, TrainingPrompts, chat_template_of
from pact_eval.prompts.nimble import NIMBLE
from pact_eval.prompts.trial import chat_rendering, trial_fault
from pact_eval.results import Framed
from pact_eval.templates.files import (
    DECISION_CONFIG,
    DECISION_TEMPLATE,
    TEMPLATE_TASK,
    DecisionFiles,
    first_rendering,
)

_EXPECTED: Final = "data that the adapter was neither trained nor selected on"


@dataclass(frozen=True)
class MeasuredOverlap:
    """Overlap of the evaluation data with the training data.

    Attributes:
        evaluated: records to evaluate with.
        families: number of their families.
        learnt_families: of these, those that were trained or selected on, by name, context or text.
        at_hand: training and selection records that are among the data, whose texts were compared.
        recorded: training and selection records that the training record has.
        threshold: cosine from which two contexts are near duplicates.
    """

    evaluated: int
    families: int
    learnt_families: int
    at_hand: int
    recorded: int
    threshold: float

    @property
    def text(self) -> str:
        """What was measured, in a few words."""
        texts = f"{self.at_hand:,} of {self.recorded:,} records of the training are at hand"
        return f"{self.learnt_families:,} of them in the training; {texts}"


def check_overlap(context: AdapterContext, collector: Collector) -> CheckResult:
    """Compare the data of the context, files and folders, with its training record.

    Returns:
        The result, with an `MeasuredOverlap` as `measured`, and one leak per file for evaluation.

    Raises:
        InputError: a folder or file cannot be read.
    """
    record, paths, threshold = context.training, context.data, context.near_duplicate
    if record is None:
        return collector.result("", skipped=f"no {TRAINING_RECORD} that can be read")
    roles = [record.roles[role] for role in LEARNT if role in record.roles]
    learnt_files = [file for data in roles for file in data.files]
    index = build_index(data_files(paths, {file.sha256 for file in learnt_files}))
    values: dict[str, list[Json]] = {"records": [], "contexts": [], "families": []}
    for item in index.read(range(len(index))):
        values["records"].append(item.value)
        values["contexts"].append(item.record.state)
        values["families"].append(item.record.family)
    hashes = {
        name: np.unique(np.concatenate([hashes_of([]), *(data.hashes(name) for data in roles)]))
        for name in values
    }
    learnt, same_context, same_family = (are_hashed(values[name], hashes[name]) for name in values)
    is_eval = np.array([file.role == "eval" for file in index.files], dtype=np.bool_)
    evaluated = is_eval[index.frame["file"].to_numpy()]
    by_family = evaluated & same_family
    by_context = evaluated & same_context & ~by_family
    near = _near_duplicates(index, learnt, evaluated & ~by_family & ~by_context, threshold)
    for code, rows in (("trained-family", by_family), ("trained-context", by_context)):
        first = index.frame.with_row_index("row").filter(rows)
        for row, family in first.unique("family", maintain_order=True)["row", "family"].iter_rows():
            collector.add(code, index.place(row), _EXPECTED, f"the family {shown(family)}")
    add_pairs(collector, "trained-near-duplicate", _EXPECTED, index, near)
    if not learnt.any():
        expected = "the files of the training among the data: their texts are compared"
        collector.add("training-not-at-hand", Place(str(paths[0])), expected, "none")
    leaking = by_family | by_context
    leaking[near.row] = True
    sources = tuple(dict.fromkeys(file.name for file in learnt_files))
    leaks = (leak_of(index, number, leaking, sources) for number in range(len(index.files)))
    measured = MeasuredOverlap(
        evaluated=int(evaluated.sum()),
        families=index.frame.filter(evaluated)["family"].n_unique(),
        learnt_families=index.frame.filter(leaking)["family"].n_unique(),
        at_hand=int(learnt.sum()),
        recorded=len(hashes["records"]),
        threshold=threshold,
    )
    scope = f"{counted(measured.families, 'family')} to evaluate with"
    return collector.result(scope, measured, leaks=[leak for leak in leaks if leak.items])


def data_files(paths: Sequence[Path], trained: Collection[str]) -> tuple[DataFile, ...]:
    """Return dataset files, and all dataset files of folders, each once.

    Args:
        paths: files and folders.
        trained: SHA-256 of files that a model was made from. Such a file is for training, unless a
            manifest or its name says otherwise; other files are for evaluation.

    Raises:
        InputError: a folder or its manifest cannot be read, or it has no dataset file.
    """

    def role_of_content(path: Path) -> Role:
        return "train" if sha256_of_file(path) in trained else "eval"

    files: list[DataFile] = []
    for path in paths:
        if path.is_dir():
            place = path / MANIFEST_NAME
            manifest = read_manifest(place).value if place.exists() else None
            inside = dataset_files(path, manifest, unnamed=True, otherwise=role_of_content)
            files += [replace(file, name=str(path / file.name)) for file in inside]
        else:
            files.append(
                DataFile(short_name(path), role_of_name(path, role_of_content(path)), path)
            )
    return tuple({located(file.path): file for file in files}.values())


def _near_duplicates(
    index: Index, learnt: BoolArray, evaluated: BoolArray, threshold: float
) -> Pairs:
    """Return, for each evaluated context, the nearest one of the training, if it is near enough."""
    rows = np.concatenate([np.flatnonzero(learnt), np.flatnonzero(evaluated)])
    # Two groups, as if each were one family in its own file: only pairs between them are compared.
    side = np.repeat([0, 1], [learnt.sum(), evaluated.sum()])
    part = replace(index, frame=index.frame[rows])
    groups = Groups(side, side, part.frame["context"].to_numpy())
    pairs, _ = near_pairs(ContextVectors(part, side), groups, threshold)
    nearest = pairs.nearest(pairs.row)
    return Pairs(rows[nearest.row], rows[nearest.other], nearest.cosine)


OVERLAP: Final[Check[AdapterContext]] = Check(
    name="overlap",
    question="Was the adapter trained or selected on the data to evaluate with?",
    run=check_overlap,
    needs=("data",),
    codes={
        "trained-family": ("error", "The adapter was trained or selected on a family."),
        "trained-context": ("error", "It was trained or selected on a context of another family."),
        "trained-near-duplicate": ("error", "A context nearly repeats one of the training."),
        "training-not-at-hand": (
            "note",
            "No file of the training is among the data: no texts compared.",
        ),
    },
)


_SCHEMA: Final = Place(SCHEMA_CONFIG)


def check_prompts(
    schema_config: Mapping[str, Json], base: Path | None, collector: Collector
) -> CheckResult:
    """Compare the hashes that an adapter states with the files of its base.

    The tokenizer is not loaded. The hash of a probe prompt needs it, so only scoring compares that.

    Args:
        schema_config: the parsed `schema_config.json`.
        base: folder of the base model, or None if it is not at hand.
        collector: of the check "prompts".

    Examples:
        >>> check_prompts({}, None, Collector("prompts", keep=5)).findings[0].code
        'prompts-not-stated'
    """
    stated = {name: schema_config.get(name) for name in STATED_PROMPTS}
    stated = {name: value for name, value in stated.items() if value is not None}
    if not stated:
        expected = "hashes of tokenizer and chat template"
        collector.add("prompts-not-stated", _SCHEMA, expected, "not stated")
        return collector.result("not stated")
    for name, value in stated.items():
        if not isinstance(value, str):
            collector.add("prompts-differ", _SCHEMA, f"{name}: text", describe(value))
    hashes = "1 hash" if len(stated) == 1 else f"{len(stated)} hashes"
    if base is None:
        return collector.result(f"{hashes}; no base to compare with")
    try:
        here = TrainingPrompts.of_folder(base)
    except InputError as error:
        collector.add("prompts-not-compared", _SCHEMA, "a tokenizer that can be read", str(error))
        return collector.result(hashes)
    texts = {name: value for name, value in stated.items() if isinstance(value, str)}
    for difference in here.differences(texts, str(base)):
        collector.add(
            "prompts-differ", _SCHEMA, "the tokenizer and template of the base", difference
        )
    return collector.result(hashes)


def _run_prompts(context: AdapterContext, collector: Collector) -> CheckResult:
    if SCHEMA_CONFIG in context.unreadable:
        return collector.result("", skipped=f"{SCHEMA_CONFIG} cannot be read")
    base = context.base_folder
    try:
        template = None if base is None else chat_template_of(base)
    except InputError:  # the comparison of the tokenizer reports it
        template = None
    # An adapter chooses its base, and so the template.
    if template is not None and (fault := trial_fault(chat_rendering(template))):
        collector.add("chat-template-does-not-end", _SCHEMA, "a prompt", f"{base}: {fault}")
    if context.schema_config is None:  # the check "contract" reports it
        return collector.result(f"no {SCHEMA_CONFIG}")
    return check_prompts(context.schema_config, base, collector)


PROMPTS: Final[Check[AdapterContext]] = Check(
    name="prompts",
    question="Was it trained with the tokenizer and chat template of its base?",
    run=_run_prompts,
    needs=(SCHEMA_CONFIG,),
    codes={
        "prompts-differ": ("error", "It was trained with another tokenizer or chat template."),
        "chat-template-does-not-end": ("error", "The base's template exceeds 10 seconds or 1 GB."),
        "prompts-not-compared": ("warning", "The tokenizer files of the base cannot be read."),
        "prompts-not-stated": ("note", "The adapter does not state its tokenizer and template."),
    },
)


_RECORD: Final = Place(TRAINING_RECORD)
_VERBS: Final = {"train": "train", "selection": "select", "calibration": "calibrate"}


def _run_training(context: AdapterContext, collector: Collector) -> CheckResult:
    if TRAINING_RECORD in context.unreadable:
        return context.failed_to_read(collector, "training-unreadable", TRAINING_RECORD)
    record = context.training
    weights = next(file.sha256 for file in context.files if file.name == ADAPTER_WEIGHTS)
    for fault in record_faults(record, context.schema_config, weights or ""):
        code, expected = f"training-{fault.code}", shown(fault.expected)
        collector.add(code, _RECORD, expected, shown(fault.actual))
    if record is None:
        if not collector.errors:
            expected = "hashes of the training data"
            collector.add("training-not-stated", _RECORD, expected, f"no {TRAINING_RECORD}")
        return collector.result("not stated")
    for roles, count in shared_between(record).items():
        actual = f"{count:,} in the data for {' and '.join(roles)}"
        collector.add("roles-overlap", _RECORD, "families that have one role", actual)
    # A base that was trained further has other weights.
    trained_on, here = record.base_sha256, context.base.weights_sha256
    if trained_on is not None and not isinstance(here, str) and context.base_folder is not None:
        with suppress(AdapterError, OSError):  # the check "base" reports it
            here = sha256_of_weights(context.base_folder)
    if trained_on is not None and isinstance(here, str) and here != trained_on:
        expected = f"a base whose weights have the SHA-256 {shown(trained_on)}"
        collector.add("training-base-differs", _RECORD, expected, shown(here))
    n_records = {role: len(data.hashes("records")) for role, data in record.roles.items()}
    used = ", ".join(f"{n:,} to {_VERBS[role]}" for role, n in n_records.items())
    return collector.result(f"records: {used or 'none'}")


TRAINING: Final[Check[AdapterContext]] = Check(
    name="training",
    question="Does the adapter state its training data, and is the record its own?",
    run=_run_training,
    needs=(ADAPTER_WEIGHTS,),
    codes={
        "training-unreadable": ("error", "training_data.json is not a training record."),
        "training-missing": ("error", "schema_config.json names a training record; none exists."),
        "training-unnamed": ("error", "schema_config.json does not name the training record."),
        "training-edited": ("error", "The training record is not the one that is named."),
        "training-other-weights": ("error", "The training record belongs to other weights."),
        "training-base-differs": ("error", "The adapter was trained on another base model."),
        "roles-overlap": ("error", "A family was used both to train and to select or calibrate."),
        "training-not-stated": ("note", "The adapter does not state its training data."),
    },
)


_CONTRACT_SCHEMA: Final = Place(SCHEMA_CONFIG)


def check_contract(
    schema_config: Mapping[str, Json] | None,
    collector: Collector,
    decision: DecisionFiles | None = None,
) -> CheckResult:
    """Compare `schema_config.json` with the prompt contract that scoring would use.

    What scoring would refuse without `--allow other-contract` is an error here.

    Args:
        schema_config: the parsed `schema_config.json`, or None if there is none.
        collector: of the check "contract".
        decision: the decision files of transformers next to it, or None. They have a contract of
            their own, unless another task is stated.

    Examples:
        >>> result = check_contract({"task": NIMBLE.task}, Collector("contract", keep=5))
        >>> findings = result.findings
        >>> findings[0].code, findings[0].actual  # doctest: +ELLIPSIS
        ('contract-mismatch', '...prompt_code_sha256 nothing, expected...')
    """
    schema = schema_config or {}
    if decision is not None and schema.get("task") in (None, TEMPLATE_TASK):
        scope = _check_template(schema, decision, collector)
    elif schema_config is None:
        expected = "the contract it was trained on (to state it: --write-contract nimble)"
        collector.add("contract-unknown", _SCHEMA, expected, "no such file")
        return collector.result(f"no {SCHEMA_CONFIG}")
    else:
        scope = f"{len(schema)} keys of {SCHEMA_CONFIG}"
        malformed = [key for key in CONTRACT_KEYS if not isinstance(schema.get(key), str | None)]
        for key in malformed:
            actual = f"{key} is {describe(schema[key])}"
            collector.add("contract-mismatch", _SCHEMA, "text", actual)
        try:
            if not malformed:
                NIMBLE.check_adapter(schema)
        except ContractMismatchError as error:
            expected = f"the contract {NIMBLE.name!r}"
            collector.add("contract-mismatch", _SCHEMA, expected, str(error))
        decision = None
    if schema.get(STATED_BY) is not None:  # by the user, not by the training
        expected = "a contract that the training has recorded"
        collector.add("contract-stated", _SCHEMA, expected, "contract stated by the user")
    value, tokens = schema.get("max_length"), max_length_tokens(schema)
    if tokens is None and value is not None:
        actual = f"max_length is {value if isinstance(value, int) else describe(value)}"
        collector.add("max-length-malformed", _SCHEMA, "a number of tokens above 0", actual)
    elif decision is None and tokens not in (None, NIMBLE.max_prompt_tokens):
        expected = f"max_length {NIMBLE.max_prompt_tokens:,}, as the contract has it"
        collector.add("max-length-differs", _SCHEMA, expected, f"{tokens:,}")
    return collector.result(scope)


def _check_template(
    schema: Mapping[str, Json], decision: DecisionFiles, collector: Collector
) -> str:
    """Compare decision files with the contract that is stated, if any; say what they are."""
    trial = first_rendering(decision)
    if fault := trial_fault(trial):
        collector.add("template-does-not-end", Place(DECISION_TEMPLATE), "a prompt", fault)
    stated = schema.get("contract_fingerprint")
    if stated is not None and stated != decision.fingerprint:
        expected = f"contract_fingerprint {decision.fingerprint}, that of the decision files"
        actual = stated if isinstance(stated, str) else describe(stated)
        collector.add("contract-mismatch", _SCHEMA, expected, actual)
    named = "the generic prompt of transformers" if decision.template is None else "its template"
    missing = ", not rendered: Jinja is not installed" if trial == "not tried" else ""
    return f"decision files with {named}{missing}"


def max_length_tokens(schema_config: Mapping[str, Json]) -> int | None:
    """Return the longest prompt that an adapter names, in tokens; None if it names none.

    Examples:
        >>> max_length_tokens({"max_length": 2048}), max_length_tokens({"max_length": "2048"})
        (2048, None)
    """
    value = schema_config.get("max_length")
    return value if type(value) is int and value > 0 else None


def _run_contract(context: AdapterContext, collector: Collector) -> CheckResult:
    """Check the contract; say whether decision files can be used, and whether they will be."""
    if SCHEMA_CONFIG in context.unreadable:
        return context.failed_to_read(collector, "contract-unreadable", SCHEMA_CONFIG)
    place, decision = Place(DECISION_CONFIG), context.decision
    if DECISION_CONFIG in context.unreadable:
        reason = shown(context.unreadable[DECISION_CONFIG])
        collector.add("decision-unusable", place, "decision files that can be scored", reason)
    for key in () if decision is None else decision.ignored:
        collector.add("decision-key-ignored", place, "keys that transformers knows", shown(key))
    alone = context.full_model is None and not (context.folder / "config.json").is_file()
    if decision is not None and alone:
        expected = "decision_config=FOLDER next to model=FOLDER"
        actual = 'pipeline("decision", model=FOLDER) alone takes the prompt of the base model'
        collector.add("decision-files-ignored", place, expected, actual)
    return check_contract(context.schema_config, collector, decision)


CONTRACT: Final[Check[AdapterContext]] = Check(
    name="contract",
    question="Was it trained on our prompt contract?",
    run=_run_contract,
    needs=(SCHEMA_CONFIG,),
    codes={
        "contract-unknown": ("error", "There is no schema_config.json: the contract is unknown."),
        "contract-unreadable": ("error", "schema_config.json is not an object of strict JSON."),
        "contract-mismatch": ("error", "The adapter was trained on another prompt contract."),
        "decision-unusable": ("error", "Its decision files cannot be scored."),
        "template-does-not-end": ("error", "Its first rendering exceeds 10 seconds or 1 GB."),
        "decision-files-ignored": ("warning", "transformers ignores such files unless it is told."),
        "decision-key-ignored": ("note", "transformers ignores a key of decision.json."),
        "contract-stated": ("note", "The user has stated the contract, not the training."),
        "max-length-malformed": ("warning", "max_length is not a number of tokens."),
        "max-length-differs": ("note", "The longest prompt is not the one of the contract."),
    },
)


ADAPTER_CHECKS: Final[dict[str, Check[AdapterContext]]] = {
    check.name: check
    for check in (FILES, CONFIG, TENSORS, CONTRACT, PROMPTS, BASE, TRAINING, OVERLAP)
}
"""The checks of an adapter folder, in the order in which they run."""


@dataclass(frozen=True)
class AdapterFacts:
    """Statements of an adapter about itself, and contents of its files. None means "not known".

    Attributes:
        settings: rank, alpha, targets and everything else in `adapter_config.json`.
        dtypes: number of tensors by dtype, as safetensors spells it.
        n_modules: adapted modules.
        n_layers: layers with an adapted module.
        n_parameters: numbers in all tensors.
        base_model: hub id or path of the base.
        base_revision: its revision.
        base_folder: folder of the base that the adapter was compared with.
        contract_task: the task that `schema_config.json` names.
        contract_stated_by: "user" if the user wrote the contract down, not the training.
        contract_fingerprint: SHA-256 of the prompt contract's renderings.
        prompt_code_sha256: hash of someone's source of the prompt contract.
        max_length_tokens: the longest prompt.
        files: every file by name, with its size and SHA-256.
        hub: repository and commit of a snapshot of the Hub.
    """

    settings: LoraSettings | None
    dtypes: Mapping[str, int] | None
    n_modules: int | None
    n_layers: int | None
    n_parameters: int | None
    base_model: str | None
    base_revision: str | None
    base_folder: Path | None
    contract_task: str | None
    contract_stated_by: str | None
    contract_fingerprint: str | None
    prompt_code_sha256: str | None
    max_length_tokens: int | None
    files: tuple[FileRecord, ...]
    hub: Snapshot | None = None

    @property
    def scale(self) -> float | None:
        """Factor of the update: alpha/r, or alpha/sqrt(r) for rsLoRA."""
        return None if self.settings is None else self.settings.scale

    @property
    def weights_sha256(self) -> str | None:
        """SHA-256 of `adapter_model.safetensors`."""
        return next((file.sha256 for file in self.files if file.name == ADAPTER_WEIGHTS), None)


@dataclass(frozen=True, repr=False)
class AdapterAudit(Framed):
    """The audit of one adapter folder.

    Attributes:
        folder: its path.
        facts: what it is.
        checks: one result per check, in the order of `ADAPTER_CHECKS`.
        config: the parsed `adapter_config.json`, or None if it cannot be read.
        schema_config: the parsed `schema_config.json`, likewise.
        tensors: those of `adapter_model.safetensors`, likewise.
    """

    folder: Path
    facts: AdapterFacts
    checks: tuple[CheckResult, ...]
    config: Mapping[str, Json] | None
    schema_config: Mapping[str, Json] | None
    tensors: tuple[TensorInfo, ...] | None

    @property
    def tampering(self) -> str | None:
        """What a hash that does not match shows; None if all match."""
        return tampering(self.checks)

    @property
    def leaks(self) -> tuple[Leak, ...]:
        """Records to evaluate with that the adapter was trained or selected on, by file."""
        return tuple(leak for check in self.checks for leak in check.leaks)


def audit_adapter(
    folder: Path,
    *,
    base_model: Path | None = None,
    data: Sequence[Path] = (),
    near_duplicate: float = NEAR_DUPLICATE,
    others: Sequence[str] | None = (),
    keep: int,
) -> AdapterAudit:
    """Check everything about an adapter that can be checked without running it.

    Args:
        folder: as PEFT writes it, with `adapter_config.json` and `adapter_model.safetensors`, and
            `schema_config.json` next to them.
        base_model: folder of the base model to compare it with; None takes the one that the adapter
            names, if that is a folder here.
        data: dataset files and folders to compare with the training record: was the adapter
            trained or selected on what they evaluate with?
        near_duplicate: cosine from which two contexts are near duplicates, in (0, 1].
        others: names of files of its repository on the Hub that are not in the folder; they are
            judged by their names. None if they are not known.
        keep: findings of each code that are kept in full.

    Returns:
        The facts and one result per check. A check whose file is missing is skipped, with the
        reason.

    Raises:
        AdapterError: one of the two folders does not exist.
        InputError: a dataset cannot be read.

    Examples:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as empty:
        ...     audit = audit_adapter(Path(empty), keep=20)
        >>> for finding in audit.checks[0].findings:
        ...     print(finding.severity, finding.code, finding.place)
        error file-missing adapter_config.json
        error file-missing adapter_model.safetensors
    """
    require_adapter_folder(folder)
    if base_model is not None and not base_model.is_dir():
        raise AdapterError(f"{base_model}: no such folder")
    context = AdapterContext.open(
        folder,
        base_model=base_model,
        data=data,
        near_duplicate=near_duplicate,
        others=others,
        keep=keep,
    )
    return AdapterAudit(
        folder=folder,
        facts=_facts(context),
        checks=tuple(check.result(context) for check in ADAPTER_CHECKS.values()),
        config=context.config,
        schema_config=context.schema_config,
        tensors=context.tensors,
    )


def _facts(context: AdapterContext) -> AdapterFacts:
    tensors, lora, base, decision = context.tensors, context.lora, context.base, context.decision
    schema = context.schema_config or {}
    stated = {key: value for key, value in schema.items() if isinstance(value, str)}
    places = filter(None, map(layer_module, () if lora is None else lora.modules))
    layers = {(place.stack, place.layer) for place in places}
    of_decision = decision.fingerprint if decision and not schema else None
    return AdapterFacts(
        settings=context.settings,
        dtypes=None if tensors is None else dict(Counter(tensor.dtype for tensor in tensors)),
        n_modules=None if lora is None else len(lora.modules),
        n_layers=None if lora is None else len(layers),
        n_parameters=None if tensors is None else sum(tensor.size for tensor in tensors),
        base_model=base.model,
        base_revision=base.revision,
        base_folder=context.base_folder,
        contract_task=stated.get("task") or (TEMPLATE_TASK if decision else None),
        contract_stated_by=stated.get(STATED_BY),
        contract_fingerprint=stated.get("contract_fingerprint") or of_decision,
        prompt_code_sha256=stated.get("prompt_code_sha256"),
        max_length_tokens=max_length_tokens(schema),
        files=context.files,
        hub=snapshot_of(context.folder),
    )
