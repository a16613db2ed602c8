"""Check "prompts": the tokenizer and chat template of the training, compared with the base's."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pact_eval._json import Json, describe
from pact_eval.audit.findings import CheckResult, Collector
from pact_eval.audit.registry import Check
from pact_eval.errors import InputError, Place
from pact_eval.models.folders import SCHEMA_CONFIG
from pact_eval.prompts.training_prompts import STATED_PROMPTS, TrainingPrompts

if TYPE_CHECKING:
    from pact_eval.audit.adapter.context import AdapterContext

_PLACE: Final = Place(SCHEMA_CONFIG)


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
        collector.add("prompts-not-stated", _PLACE, expected, "not stated")
        return collector.result("not stated")
    for name, value in stated.items():
        if not isinstance(value, str):
            collector.add("prompts-differ", _PLACE, f"{name}: text", describe(value))
    hashes = "1 hash" if len(stated) == 1 else f"{len(stated)} hashes"
    if base is None:
        return collector.result(f"{hashes}; no base to compare with")
    try:
        here = TrainingPrompts.of_folder(base)
    except InputError as error:
        collector.add("prompts-not-compared", _PLACE, "a tokenizer that can be read", str(error))
        return collector.result(hashes)
    texts = {name: value for name, value in stated.items() if isinstance(value, str)}
    for difference in here.differences(texts, str(base)):
        collector.add(
            "prompts-differ", _PLACE, "the tokenizer and template of the base", difference
        )
    return collector.result(hashes)


def _run(context: AdapterContext) -> CheckResult:
    if SCHEMA_CONFIG in context.unreadable:
        return context.skipped("prompts", f"{SCHEMA_CONFIG} cannot be read")
    collector = context.collector("prompts")
    if context.schema_config is None:  # the check "contract" reports it
        return collector.result(f"no {SCHEMA_CONFIG}")
    return check_prompts(context.schema_config, context.base_folder, collector)


PROMPTS: Final[Check[AdapterContext]] = Check(
    name="prompts",
    question="Was it trained with the tokenizer and chat template of its base?",
    run=_run,
    needs=(SCHEMA_CONFIG,),
    codes={
        "prompts-differ": (
            "error",
            "The adapter was trained with another tokenizer or chat template.",
        ),
        "prompts-not-compared": ("warning", "The tokenizer files of the base cannot be read."),
        "prompts-not-stated": ("note", "The adapter does not state its tokenizer and template."),
    },
)
