"""The Nimble contract as a decision template, with a tokenizer's own markup written into it.

A decision template replaces the chat template, so it holds the text that the chat template puts
around messages. That text is found by rendering a message with a marker in it. Angle brackets of a
request are escaped, as the Nimble contract does: a request can write no control token that has one,
and transformers need not sanitise control tokens.
"""

from __future__ import annotations

from typing import Any, Final

from pact_eval._json import dumps
from pact_eval.data.records import LETTERS
from pact_eval.errors import PromptError
from pact_eval.prompts.nimble import NIMBLE
from pact_eval.templates.files import TYPES, DecisionFiles

_MARKER: Final = "pact-eval marks the place of the request"

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
    template = _REQUEST.replace("BEFORE", dumps(before)).replace("AFTER", dumps(after))
    return DecisionFiles(
        template=template,
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
        message = (
            "expected the tokenizer's chat template to show a message once, it does "
            f"{text.count(_MARKER)} times"
        )
        raise PromptError(message)
    before, _, after = text.partition(_MARKER)
    return before, after


def _refuse_writable_control_tokens(tokenizer: Any) -> None:
    added = tokenizer.added_tokens_decoder.values()
    special = [token.content for token in added if token.special]
    writable = sorted(text for text in special if "<" not in text and ">" not in text)
    if writable:
        message = (
            f"a request could write the control tokens {', '.join(writable)}: they have no angle "
            "bracket, which the contract escapes; such a model is not exported"
        )
        raise PromptError(message)
