"""The files that make a model a decision model of transformers.

    decision.json             {"labels": {type: [label, ...]}, "temperature": {type: T},
                               "noul_options": ["true", "false"],
                               "sanitize_control_tokens": true, "adapter": null or a subfolder}
    decision_template.jinja   the prompt; without it, the generic prompt of transformers

A type is `noul` (our boolean), `choice` or `score`. Every key is optional. One JSON file may hold
all of it, with the template under `chat_template`. Files of a trained decision head make another
type of model: its scores come from hidden states, not from the next token.

The first rendering of a template, with a question of each kind, has limits. The contract is what
the files of an adapter state, or the user for trainers that record none.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import Any, Final

from pact_eval._files import read_text, write_atomically
from pact_eval._json import Json, describe, dumps, dumps_indented, sha256_of_json
from pact_eval.data.records import LETTERS, Field, FieldKind, parse_field
from pact_eval.errors import AdapterError, ContractMismatchError, InputError, PromptError
from pact_eval.models import (
    SCHEMA_CONFIG,
    AdapterFiles,
    is_base_alone,
    read_adapter_files,
    read_json_object,
)
from pact_eval.prompts.contract import CONTRACT_KEYS, STATED_BY, PromptContract
from pact_eval.prompts.nimble import NIMBLE
from pact_eval.prompts.trial import CHAT_VARIABLES, Trial, render_within_limits
from pact_eval.schema import convert

DECISION_CONFIG: Final = "decision.json"
DECISION_TEMPLATE: Final = "decision_template.jinja"

TEMPLATE_CONTRACT: Final = "decision-template"
"""Name of the prompt contract that decision files make, as runs record it."""

TEMPLATE_TASK: Final = "decision_template"
"""Task of adapters that were trained on decision files, in `schema_config.json`."""

TYPES: Final[Mapping[FieldKind, str]] = {"choice": "choice", "boolean": "noul", "score": "score"}
"""What transformers calls a field kind."""

_KEYS: Final = ("labels", "temperature", "noul_options", "sanitize_control_tokens", "adapter")
_YES_NO: Final = ("Yes", "No")

# Weights of a head, and the configurations that only such models have.
_HEAD_FILES: Final = ("head.safetensors", "readout.safetensors", "judge_config.json")
_HEAD_CONFIG: Final = "decision_config.json"


@dataclass(frozen=True)
class DecisionFiles:
    """Content of the files of a decision model.

    Attributes:
        template: text of the template; None for the generic prompt of transformers.
        labels: labels by type, as written.
        temperature: temperatures by type, above 0.
        noul_options: the two answers of a boolean, in the order in which they are shown.
        sanitize_control_tokens: whether control tokens in a request are encoded as text.
        adapter: subfolder with a LoRA, or None.
        source: the folder or file.
        ignored: keys that transformers does not know and ignores.
    """

    template: str | None = None
    labels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    temperature: Mapping[str, float] = field(default_factory=dict)
    noul_options: tuple[str, str] = ("true", "false")
    sanitize_control_tokens: bool = True
    adapter: str | None = None
    source: Path | None = None
    ignored: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name, number in self.temperature.items():
            if number <= 0:
                raise ValueError(f"temperature: {name}: expected a number above 0, got {number:g}")
        if {*self.noul_options} != {"true", "false"}:
            raise ValueError('noul_options: expected "true" and "false" in some order')
        folder = PurePosixPath(self.adapter or "")
        if ".." in folder.parts or folder.is_absolute():
            raise ValueError(f"adapter: expected the name of a subfolder, got {self.adapter}")

    def labels_of(self, kind: FieldKind) -> tuple[str, ...]:
        """Return the labels of a field kind, in order.

        Examples:
            >>> DecisionFiles().labels_of("boolean"), DecisionFiles().labels_of("score")[:3]
            (('Yes', 'No'), ('A', 'B', 'C'))
        """
        return self.labels.get(TYPES[kind]) or (_YES_NO if kind == "boolean" else LETTERS)

    @property
    def temperatures(self) -> dict[FieldKind, float]:
        """Temperatures by field kind, those that are stated."""
        stated = self.temperature
        return {kind: stated[name] for kind, name in TYPES.items() if name in stated}

    @property
    def fingerprint(self) -> str:
        """SHA-256 of what determines prompts and labels, as 64 hex digits.

        Temperatures and the subfolder of an adapter change neither.
        """
        return sha256_of_json(
            {
                "template": self.template,
                "labels": {name: [*self.labels_of(kind)] for kind, name in TYPES.items()},
                "noul_options": [*self.noul_options],
                "sanitize_control_tokens": self.sanitize_control_tokens,
            }
        )

    def texts(self) -> dict[str, str]:
        """Return the content of the files, by name."""
        config: dict[str, Json] = {
            "labels": {name: [*labels] for name, labels in self.labels.items()},
            "temperature": dict(self.temperature),
            "noul_options": [*self.noul_options],
            "sanitize_control_tokens": self.sanitize_control_tokens,
            "adapter": self.adapter,
        }
        files = {DECISION_CONFIG: dumps_indented(config)}
        return files if self.template is None else files | {DECISION_TEMPLATE: self.template}


def has_decision_files(folder: Path) -> bool:
    """Return whether a folder is a decision model of transformers, with or without a head."""
    named = (DECISION_CONFIG, DECISION_TEMPLATE)
    return any((folder / name).is_file() for name in named) or bool(head_files(folder))


def is_decision_model(folder: Path) -> bool:
    """Return whether a folder is a full decision model: weights with decision files."""
    return is_base_alone(folder) and has_decision_files(folder)


def head_files(folder: Path) -> tuple[str, ...]:
    """Return the files of a trained decision head in a folder, by name; empty without a head."""
    names = [name for name in _HEAD_FILES if (folder / name).is_file()]
    if (folder / _HEAD_CONFIG).is_file() and "codes" in _object_or_empty(folder / _HEAD_CONFIG):
        names.append(_HEAD_CONFIG)
    if _is_head_model(_object_or_empty(folder / "config.json")):
        names.append("config.json")
    return tuple(names)


def read_decision_files(path: Path) -> DecisionFiles:
    """Read the decision files of a folder, or one JSON file that holds them.

    Args:
        path: the folder or file.

    Returns:
        What they say; the defaults of transformers for what they do not.

    Raises:
        AdapterError: there are none, they cannot be read, a value has another type, or the model
            has a trained head.
    """
    if path.is_file():
        config = read_json_object(path)
        return _parse(config, path, template=_template_inside(config, path))
    if not path.is_dir():
        raise AdapterError(f"{path}: no such folder or file with a decision template")
    _refuse_head(path)
    named, template = path / DECISION_CONFIG, path / DECISION_TEMPLATE
    if not named.exists() and not template.exists():
        message = f"{path}: expected {DECISION_CONFIG} or {DECISION_TEMPLATE}, found neither"
        raise AdapterError(message)
    config = read_json_object(named) if named.exists() else {}
    text = _template_inside(config, named)
    if template.exists():
        text = _read_template(template)
    return _parse(config, path, template=text)


def _refuse_head(folder: Path) -> None:
    if head_names := head_files(folder):
        raise AdapterError(
            f"{folder}: has a trained decision head ({', '.join(head_names)}), which scores hidden "
            'states; pact-eval reads the next token. `pipeline("decision")` of transformers runs it'
        )


def _is_head_model(config: Mapping[str, Json]) -> bool:
    named = config.get("architectures")
    names = [name for name in named if isinstance(name, str)] if isinstance(named, list) else []
    return config.get("model_type") == "jev" or any(n.endswith("ForDecision") for n in names)


def _object_or_empty(path: Path) -> Mapping[str, Json]:
    try:
        return read_json_object(path)
    except AdapterError:
        return {}


def _read_template(path: Path) -> str:
    try:
        text = read_text(path)
    except InputError as error:
        raise AdapterError(str(error)) from None
    return text.replace("\r\n", "\n").replace("\r", "\n")  # as transformers reads it


def _template_inside(config: Mapping[str, Json], path: Path) -> str | None:
    text = config.get("chat_template")
    if text is not None and not isinstance(text, str):
        raise AdapterError(f"{path}: chat_template: expected text, got {describe(text)}")
    return text


def _parse(config: Mapping[str, Json], source: Path, *, template: str | None) -> DecisionFiles:
    stated = {key: config[key] for key in _KEYS if config.get(key) is not None}
    try:
        files = convert(stated, DecisionFiles)
    except ValueError as error:
        raise AdapterError(f"{source}: {error}") from None
    return replace(
        files,
        template=template,
        adapter=files.adapter or None,
        source=source,
        ignored=tuple(key for key in config if key not in (*_KEYS, "chat_template")),
    )


PLAIN: Final = "plain"
"""Name of the contract for base models without a chat template."""

_MARKER: Final = "pact-eval marks the place of the request"
_PARAGRAPH: Final = "\n\n"

# As `NimbleContract.messages` renders a schema with one field.
_REQUEST: Final = """\
{%- macro text(x) %}{{ x if x is string else x|tojson }}{% endmacro -%}
{%- macro safe(x) -%}
    {{- x|tojson|replace("<", "\\\\u003c")|replace(">", "\\\\u003e") -}}
{%- endmacro -%}
{%- set shown = namespace(choices=[]) -%}
{%- for key in question.options -%}
    {%- set code = question.labels[loop.index0] -%}
    {%- set value = (key == "true") if question.type == "noul" else key -%}
    {%- set words = question.descriptions[loop.index0] -%}
    {%- if words is none and question.type == "noul" -%}
        {%- set words = "Yes" if value else "No" -%}
    {%- elif words is none and question.type == "choice" -%}
        {%- set words = key -%}
    {%- endif -%}
    {%- set choice = {"code": code, "value": value} -%}
    {%- if words is not none -%}
        {%- set choice = {"code": code, "value": value, "description": text(words)} -%}
    {%- endif -%}
    {%- set shown.choices = shown.choices + [choice] -%}
{%- endfor -%}
{%- set described = text(question.instructions) -%}
{%- set field = {"name": question.name, "description": described, "choices": shown.choices} -%}
{{- BEFORE ~ safe({"context": text(state), "schema": [field]}) -}}
{{- "\\n\\nRequested field: " ~ safe(question.name) ~ AFTER -}}
"""


def named_decision_files(name: str) -> DecisionFiles:
    """Return the decision files of a folder, a JSON file, or the name `plain`.

    The plain prompt is the text of the Nimble contract without a chat template. It ends within
    JSON, before a letter, as the letters of the schema are shown. If the tokenizer has a token that
    starts texts, the prompt starts with it.

    Raises:
        AdapterError: the files cannot be read.

    Examples:
        >>> named_decision_files("plain").labels_of("boolean")[:2]
        ('A', 'B')
    """
    if name != PLAIN:
        return read_decision_files(Path(name))
    # Measured on SmolLM2-135M-Instruct: letters have 63% of the mass here, 10% after "Code:".
    before = f"bos_token ~ {dumps(NIMBLE.system_prompt + _PARAGRAPH)}"
    files = _nimble_files(before, dumps(_PARAGRAPH + '{"code": "'))
    return replace(files, sanitize_control_tokens=True, source=Path(PLAIN))


def nimble_template(tokenizer: Any) -> DecisionFiles:
    """Return the Nimble contract as decision files for a tokenizer.

    Args:
        tokenizer: a Hugging Face tokenizer with a chat template.

    Raises:
        PromptError: the chat template cannot render the contract, or a request could write a
            control token, because it has no angle bracket.
    """
    _refuse_writable_control_tokens(tokenizer)
    before, after = _around(tokenizer)
    return _nimble_files(dumps(before), dumps(after))


def _nimble_files(before: str, after: str) -> DecisionFiles:
    """Return the request of the Nimble contract between two expressions of Jinja."""
    return DecisionFiles(
        template=_REQUEST.replace("BEFORE", before).replace("AFTER", after),
        labels=dict.fromkeys(TYPES.values(), LETTERS),
        noul_options=("false", "true"),
        sanitize_control_tokens=False,
    )


def _around(tokenizer: Any) -> tuple[str, str]:
    """Return the text before and after the content of the last message."""
    messages = [
        {"role": "system", "content": NIMBLE.system_prompt},
        {"role": "user", "content": _MARKER},
    ]
    try:
        text = str(
            tokenizer.apply_chat_template(
                messages, tokenize=False, add_generation_prompt=True, enable_thinking=False
            )
        )
    except Exception as error:  # chat templates raise whatever their authors chose
        message = f"the tokenizer's chat template cannot render the contract: {error}"
        raise PromptError(message) from error
    if text.count(_MARKER) != 1:
        raise PromptError(
            "expected the tokenizer's chat template to show a message once, it does "
            f"{text.count(_MARKER)} times"
        )
    before, _, after = text.partition(_MARKER)
    return before, after


def _refuse_writable_control_tokens(tokenizer: Any) -> None:
    added = tokenizer.added_tokens_decoder.values()
    special = [token.content for token in added if token.special]
    writable = sorted(text for text in special if "<" not in text and ">" not in text)
    if writable:
        raise PromptError(
            f"a request could write the control tokens {', '.join(writable)}: they have no angle "
            "bracket, which the contract escapes; such a model is not exported"
        )


PROBE_STATE: Final[Json] = {"note": "The seal is broken."}
"""The state of the requests that a template is probed with."""

PROBES: Final[dict[FieldKind, Field]] = {
    "choice": parse_field(
        "probe",
        {
            "type": "choice",
            "instructions": "Which desk?",
            "criteria": {"first": "One of them", "second": None, "third": "The last"},
        },
    ),
    "boolean": parse_field(
        "probe",
        {
            "type": "noul",
            "instructions": "Is it so?",
            "criteria": {"false": "Not so", "true": "It is so"},
        },
    ),
    "score": parse_field(
        "probe", {"type": "score", "instructions": "How bad?", "criteria": ["Fine", "Bad", "Worse"]}
    ),
}
"""A question of each kind that a template is probed with."""


def first_rendering(files: DecisionFiles) -> Trial:
    """Render the template of decision files with a question of each kind, within limits.

    Whether it can be rendered is not judged here, only that it ends within `TRIAL_SECONDS` and
    `TRIAL_BYTES`.

    Examples:
        >>> first_rendering(DecisionFiles("{{ state }}"))
        'ends'
        >>> first_rendering(DecisionFiles("{{ 'a' * 10**10 }}"))
        'memory'
    """
    if files.template is None:
        return "ends"
    variables = [_variables(field, files) for field in PROBES.values()]
    return render_within_limits(files.template, json.dumps(variables))


def _variables(field: Field, files: DecisionFiles) -> Json:
    """Return what transformers shows to a template of one question."""
    labels = files.labels_of(field.kind)[: len(field.answers)]
    question: Json = {
        "name": field.name,
        "type": TYPES[field.kind],
        "instructions": field.instructions,
        "options": [answer.key for answer in field.answers],
        "labels": [*labels],
        "descriptions": [answer.description for answer in field.answers],
    }
    return {
        "messages": [{"role": "user", "content": ""}],
        "state": PROBE_STATE,
        "question": question,
        **CHAT_VARIABLES,
    }


@dataclass(frozen=True)
class Statement:
    """Who states the contract of an adapter, and whether it is the one that it is scored on.

    Attributes:
        stated_by: "user" if the adapter's own files state none, or the user wrote them.
        difference: how the stated contract differs; None if it is this one.
        unknown: whether nobody states a contract.
    """

    stated_by: str | None = None
    difference: str | None = None
    unknown: bool = False


def check_statement(adapter: AdapterFiles, contract: PromptContract, *, named: bool) -> Statement:
    """Compare the contract that the files of an adapter state with the one that is used.

    A user who names a contract states what the files leave open. What they say still counts: it
    may not be another contract.

    Args:
        adapter: the adapter.
        contract: the contract that is used.
        named: whether the user has named it.

    Raises:
        AdapterError: the decision files of the adapter cannot be read.
    """
    config = adapter.schema_config or {}
    by_user = "user" if config.get(STATED_BY) == "user" else None
    if not any(config.get(key) is not None for key in CONTRACT_KEYS):
        return _statement_of_files(adapter, contract, named=named)
    difference = _difference(contract, config)
    if named and difference is not None:
        difference = _difference(contract, completed(contract, config))
        by_user = "user" if difference is None else by_user
    return Statement(by_user, difference)


def _statement_of_files(
    adapter: AdapterFiles, contract: PromptContract, *, named: bool
) -> Statement:
    """Return what the decision files of an adapter's folder state, or else the user."""
    if has_decision_files(adapter.folder):
        if read_decision_files(adapter.folder).fingerprint == contract.fingerprint:
            return Statement()
        return Statement(None, "its decision files state another prompt contract")
    if named:
        return Statement("user")
    if contract is not NIMBLE:
        return Statement()  # the decision files of the base, which transformers itself would use
    lacking = "has no" if adapter.schema_config is None else "names no contract in its"
    difference = f"it {lacking} {SCHEMA_CONFIG}, so its prompt contract is unknown"
    return Statement(None, difference, unknown=True)


def _difference(contract: PromptContract, config: Mapping[str, Json]) -> str | None:
    try:
        contract.check_adapter(config)
    except ContractMismatchError as error:
        return str(error)
    return None


def completed(contract: PromptContract, config: Mapping[str, Json]) -> dict[str, Json]:
    """Return a `schema_config.json` with the keys of a contract that it lacks.

    A hash of the code that made the prompts stands for the contract: it gets no fingerprint of ours
    next to it.
    """
    keys = contract.schema_config()
    if config.get("prompt_code_sha256") is not None:
        keys.pop("contract_fingerprint")
    return keys | {key: value for key, value in config.items() if value is not None}


def mismatch_remedy(adapter: AdapterFiles, statement: Statement, *, may_differ: bool) -> str:
    """Return what a user can do about a contract that is unknown or differs.

    Args:
        adapter: the adapter.
        statement: on its contract.
        may_differ: whether the command has `--allow other-contract`.
    """
    allow = "--allow other-contract scores it anyway" if may_differ else ""
    if not statement.unknown:
        return allow or "give the base model and the contract that it was trained with"
    write = f"pact-audit adapter {shlex.quote(str(adapter.folder))} --write-contract {NIMBLE.name}"
    option = f"--contract {NIMBLE.name}, or once and for all: " if may_differ else ""
    remedy = f"if it was trained on the contract {NIMBLE.name}, state this: {option}{write}"
    return f"{remedy}; {allow}" if allow else remedy


def write_contract(folder: Path) -> None:
    """Write into the folder of an adapter that the user states the Nimble contract.

    Keys that `schema_config.json` has already are kept.

    Args:
        folder: of the adapter.

    Raises:
        AdapterError: the folder is not an adapter, or its files state this contract.
        ContractMismatchError: its files state another contract.
    """
    adapter = read_adapter_files(folder)
    statement = check_statement(adapter, NIMBLE, named=True)
    if statement.difference is not None:
        raise ContractMismatchError(f"{folder}: {statement.difference}; nothing was written")
    config = adapter.schema_config or {}
    if statement.stated_by is None or config.get(STATED_BY) is not None:
        raise AdapterError(f"{folder}: its files state this contract already; nothing was written")
    stated = completed(NIMBLE, config) | {STATED_BY: "user"}
    write_atomically(folder / SCHEMA_CONFIG, dumps_indented(stated))
