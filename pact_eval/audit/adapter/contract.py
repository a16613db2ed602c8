"""Check "contract": the prompt contract that the adapter was trained on.

It is the Nimble contract, or the decision files of transformers in the adapter's folder.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from pact_eval._json import Json, describe
from pact_eval.audit.adapter.files import shown
from pact_eval.audit.findings import CheckResult, Collector
from pact_eval.audit.registry import Check
from pact_eval.errors import ContractMismatchError, Place
from pact_eval.models.folders import SCHEMA_CONFIG
from pact_eval.prompts.contract import CONTRACT_KEYS, STATED_BY
from pact_eval.prompts.nimble import NIMBLE
from pact_eval.templates.files import (
    DECISION_CONFIG,
    DECISION_TEMPLATE,
    TEMPLATE_TASK,
    DecisionFiles,
)
from pact_eval.templates.trial import first_rendering, trial_fault

if TYPE_CHECKING:
    from pact_eval.audit.adapter.context import AdapterContext

_PLACE: Final = Place(SCHEMA_CONFIG)


def check_contract(
    schema_config: Mapping[str, Json] | None,
    collector: Collector,
    decision: DecisionFiles | None = None,
) -> CheckResult:
    """Compare `schema_config.json` with the prompt contract that scoring would use.

    What scoring would refuse without `--allow-contract-mismatch` is an error here.

    Args:
        schema_config: the parsed `schema_config.json`, or None if there is none.
        collector: of the check "contract".
        decision: the decision files of transformers next to it, or None.

    Examples:
        >>> result = check_contract({"task": NIMBLE.task}, Collector("contract", keep=5))
        >>> findings = result.findings
        >>> findings[0].code, findings[0].actual  # doctest: +ELLIPSIS
        ('contract-mismatch', '...prompt_code_sha256 nothing, expected...')
    """
    if decision is not None and stated_task(schema_config) in (None, TEMPLATE_TASK):
        return _check_template(schema_config or {}, decision, collector)
    if schema_config is None:
        expected = "the contract it was trained on (to state it: --write-contract nimble)"
        collector.add("contract-unknown", _PLACE, expected, "no such file")
        return collector.result(f"no {SCHEMA_CONFIG}")
    malformed = [key for key in CONTRACT_KEYS if not isinstance(schema_config.get(key), str | None)]
    for key in malformed:
        value = f"{key} is {describe(schema_config[key])}"
        collector.add("contract-mismatch", _PLACE, "text", value)
    try:
        if not malformed:
            NIMBLE.check_adapter(schema_config)
    except ContractMismatchError as error:
        expected = f"the contract {NIMBLE.name!r}"
        collector.add("contract-mismatch", _PLACE, expected, str(error))
    _note_statement(schema_config, collector)
    _check_max_length(schema_config, collector, NIMBLE.max_prompt_tokens)
    return collector.result(f"{len(schema_config)} keys of {SCHEMA_CONFIG}")


def _note_statement(schema_config: Mapping[str, Json], collector: Collector) -> None:
    """Say that the user wrote the contract down, not the training."""
    if schema_config.get(STATED_BY) is not None:
        expected = "a contract that the training has recorded"
        collector.add("contract-stated", _PLACE, expected, "contract stated by the user")


def stated_task(schema_config: Mapping[str, Json] | None) -> Json:
    """Return the task that a `schema_config.json` states, or None."""
    return (schema_config or {}).get("task")


def _check_template(
    schema_config: Mapping[str, Json], decision: DecisionFiles, collector: Collector
) -> CheckResult:
    """Compare the decision files with the contract that `schema_config.json` states, if any."""
    trial = first_rendering(decision)
    if fault := trial_fault(trial):
        collector.add("template-does-not-end", Place(DECISION_TEMPLATE), "a prompt", fault)
    stated = schema_config.get("contract_fingerprint")
    if stated is not None and stated != decision.fingerprint:
        expected = f"contract_fingerprint {decision.fingerprint}, that of the decision files"
        template = stated if isinstance(stated, str) else describe(stated)
        collector.add("contract-mismatch", _PLACE, expected, template)
    _note_statement(schema_config, collector)
    _check_max_length(schema_config, collector, None)
    named = "the generic prompt of transformers" if decision.template is None else "its template"
    missing = ", not rendered: Jinja is not installed" if trial == "not tried" else ""
    return collector.result(f"decision files with {named}{missing}")


def _check_decision_files(context: AdapterContext, collector: Collector) -> None:
    """Say whether the decision files can be used, and whether transformers will use them."""
    place = Place(DECISION_CONFIG)
    if DECISION_CONFIG in context.unreadable:
        reason = shown(context.unreadable[DECISION_CONFIG])
        collector.add("decision-unusable", place, "decision files that can be scored", reason)
    if context.decision is None:
        return
    for key in context.decision.ignored:
        expected = "keys that transformers knows"
        collector.add("decision-key-ignored", place, expected, shown(key))
    if context.full_model is None and not (context.folder / "config.json").is_file():
        collector.add(
            "decision-files-ignored",
            place,
            "decision_config=FOLDER next to model=FOLDER",
            'pipeline("decision", model=FOLDER) alone takes the prompt of the base model',
        )


def max_length_tokens(schema_config: Mapping[str, Json]) -> int | None:
    """Return the longest prompt that an adapter names, in tokens; None if it names none.

    Examples:
        >>> max_length_tokens({"max_length": 2048}), max_length_tokens({"max_length": "2048"})
        (2048, None)
    """
    value = schema_config.get("max_length")
    is_count = isinstance(value, int) and not isinstance(value, bool) and value > 0
    return value if is_count and isinstance(value, int) else None


def _check_max_length(
    schema_config: Mapping[str, Json], collector: Collector, expected_tokens: int | None
) -> None:
    value, tokens = schema_config.get("max_length"), max_length_tokens(schema_config)
    if tokens is None and value is not None:
        max_length = f"max_length is {describe(value) if not isinstance(value, int) else value}"
        collector.add("max-length-malformed", _PLACE, "a number of tokens above 0", max_length)
    elif None not in (tokens, expected_tokens) and tokens != expected_tokens:
        expected = f"max_length {expected_tokens:,}, as the contract has it"
        collector.add("max-length-differs", _PLACE, expected, f"{tokens:,}")


def _run(context: AdapterContext) -> CheckResult:
    if SCHEMA_CONFIG in context.unreadable:
        return context.failed_to_read("contract", "contract-unreadable", SCHEMA_CONFIG)
    collector = context.collector("contract")
    _check_decision_files(context, collector)
    return check_contract(context.schema_config, collector, context.decision)


CONTRACT: Final[Check[AdapterContext]] = Check(
    name="contract",
    question="Was it trained on our prompt contract?",
    run=_run,
    needs=(SCHEMA_CONFIG,),
    codes={
        "contract-unknown": ("error", "There is no schema_config.json: the contract is unknown."),
        "contract-unreadable": ("error", "schema_config.json is not an object of strict JSON."),
        "contract-mismatch": ("error", "The adapter was trained on another prompt contract."),
        "decision-unusable": ("error", "Its decision files cannot be scored."),
        "template-does-not-end": (
            "error",
            "The first rendering of the template exceeds 10 seconds or 1 GB.",
        ),
        "decision-files-ignored": (
            "warning",
            "transformers ignores decision files in an adapter's folder unless it is told.",
        ),
        "decision-key-ignored": ("note", "transformers ignores a key of decision.json."),
        "contract-stated": ("note", "The user has stated the contract, not the training."),
        "max-length-malformed": (
            "warning",
            "max_length is not a number of tokens; it has no effect.",
        ),
        "max-length-differs": ("note", "The longest prompt is not the one of the contract."),
    },
)
