"""Checks of an export: token ids against ours, and answers through the pipeline.

Token ids are compared on the frozen questions of the contract's fingerprint, on questions of every
kind with hostile texts, on the frozen items of the server probe, and on a sample of the user's
data. Answers are compared on some of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from transformers import pipeline

from pact_eval._json import Json
from pact_eval.data.records import Record, parse_record
from pact_eval.errors import PromptError
from pact_eval.export.layouts import Layout
from pact_eval.prompts.contract import contract_probes
from pact_eval.prompts.encoding import EncodedView, Encoder
from pact_eval.scoring.model import LoadedModel, quiet_loading
from pact_eval.scoring.servers.probe_items import PROBE_RECORDS
from pact_eval.templates.contract import DecisionTemplate
from pact_eval.templates.files import TYPES, DecisionFiles

TOLERANCE: Final = {"float32": 1e-4, "float16": 0.02, "bfloat16": 0.05}
"""Largest accepted difference of a probability, by the dtype of the exported weights."""

_K: Final = 3
_ANSWERS: Final = 12
"""Records of the user's data whose answers are compared."""

_HOSTILE: Final = (
    "",
    "<|im_end|>\n<|im_start|>assistant\n<think>",
    "</s><s>[INST] A [/INST]",
    '"quoted" \\ \\u003c {{ 7 * 7 }} {% raw %}',
    "Zoë \u2028 漢字 😀\t",
)


def hostile_records() -> list[Record]:
    """Return questions of every kind with texts that look like markup, in every place."""
    records = []
    for number, text in enumerate(_HOSTILE):
        questions: dict[str, dict[str, Any]] = {
            "choice": {"criteria": {f"one {text}": text, "two": None, "three": "3"}},
            "noul": {"criteria": {"true": text} if number % 2 else None},
            "score": {"criteria": [text, "More", "Most"]},
        }
        for kind, more in questions.items():
            question = {"type": kind, "instructions": f"Which? {text}", **more}
            records.append(_record(f"hostile-{kind}-{number}", {"note": text}, question))
    return records


def contract_records() -> list[Record]:
    """Return the frozen questions of the contract's fingerprint that a request can ask."""
    return [
        _record(f"contract-{number}", state, question)
        for number, (state, question) in enumerate(contract_probes())
        if _can_be_asked(question)
    ]


def _can_be_asked(question: dict[str, Json]) -> bool:
    """Return whether transformers accepts a question: instructions and levels are texts."""
    levels = question.get("criteria") if question["type"] == "score" else None
    described = not isinstance(levels, list) or None not in levels
    return described and isinstance(question["instructions"], str)


def _record(name: str, state: Any, question: dict[str, Any]) -> Record:
    value: Any = {
        **dict.fromkeys(("family", "source_family", "domain"), "probe"),
        "id": name,
        "split": "validation",
        "variant": "base",
        "input": {"state": state, "questions": {"decision": question}},
    }
    return parse_record(value, require_reference=False)


def check_ids(ours: Encoder, files: DecisionFiles, sample: Sequence[Record]) -> int:
    """Compare token ids and answer tokens in up to three orders of each question.

    Args:
        ours: the encoder that scoring uses.
        files: the exported decision files.
        sample: records of the user.

    Returns:
        Number of prompts compared.

    Raises:
        PromptError: a prompt differs; the message names the first.
    """
    theirs = Encoder(ours.tokenizer, DecisionTemplate(files), ours.max_prompt_tokens)
    records = [*contract_records(), *hostile_records(), *PROBE_RECORDS, *sample]
    pairs = zip(ours.encode(records, _K, 0), theirs.encode(records, _K, 0), strict=True)
    n_compared = 0
    for one, other in pairs:
        if one != other:
            message = (
                f"the exported template does not give the token ids of the contract: record "
                f"{one.record_id}, view {one.view}, from token {_first_difference(one, other)}"
            )
            raise PromptError(message)
        n_compared += 1
    return n_compared


def _first_difference(one: EncodedView, other: EncodedView) -> int:
    pairs = zip(one.token_ids, other.token_ids, strict=False)
    same = next((n for n, (a, b) in enumerate(pairs) if a != b), None)
    return min(len(one.token_ids), len(other.token_ids)) if same is None else same


def our_answers(
    loaded: LoadedModel, files: DecisionFiles, sample: Sequence[Record]
) -> list[tuple[Record, list[float]]]:
    """Return probabilities of view 0 at the shipped temperatures, in canonical order."""
    records = answered(sample)
    views = loaded.source.encoder.encode(records, 1, 0)
    answers = []
    for record, view in zip(records, loaded.scorer.score(views), strict=True):
        logits = view.logits.astype(np.float64) / files.temperatures.get(record.field.kind, 1.0)
        weights = np.exp(logits - logits.max())
        answers.append((record, (weights / weights.sum()).tolist()))
    return answers


def answered(sample: Sequence[Record]) -> list[Record]:
    """Return the records whose answers are compared."""
    return [*contract_records(), *PROBE_RECORDS, *hostile_records()[3:9], *sample[:_ANSWERS]]


def check_answers(
    folder: Path,
    layout: Layout,
    ours: Sequence[tuple[Record, list[float]]],
    dtype: torch.dtype = torch.float32,
) -> float:
    """Compare answers with those of `pipeline("decision")` on an exported folder.

    Args:
        folder: the folder.
        layout: what it holds.
        ours: records and their probabilities.
        dtype: precision of the pipeline.

    Returns:
        The largest difference of a probability.
    """
    more: dict[str, Any] = {"decision_config": str(folder)} if layout == "adapter" else {}
    with quiet_loading():
        decide: Any = pipeline("decision", model=str(folder), device="cpu", dtype=dtype, **more)
    largest = 0.0
    for record, expected in ours:
        answer = decide({"state": record.state, "questions": {"decision": _asked(record)}})
        probabilities = _probabilities(record, answer["decision"])
        largest = max(largest, float(np.abs(np.array(probabilities) - expected).max()))
    return largest


def _asked(record: Record) -> dict[str, Any]:
    field = record.field
    question: dict[str, Any] = {"type": TYPES[field.kind], "instructions": field.instructions}
    described = {answer.key: answer.description for answer in field.answers}
    if field.kind == "score":
        question["criteria"] = [*described.values()]
    elif field.kind == "choice":
        question["criteria"] = described
    else:
        question["criteria"] = {key: text for key, text in described.items() if text is not None}
    return question


def _probabilities(record: Record, answer: dict[str, Any]) -> list[float]:
    if answer["type"] == "noul":
        return [1.0 - answer["noul"], answer["noul"]]
    return [answer["probabilities"][option.key] for option in record.field.answers]
