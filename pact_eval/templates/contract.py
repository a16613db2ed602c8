"""Decision templates of transformers as a prompt contract.

The token ids are those of `DecisionConfig.prepare_inputs`, cut where the answer is read; the tokens
of answers are those of `label_token_ids`. So logits equal those of `pipeline("decision")`, and
every engine works unchanged. Each question has a prompt of its own.

Views permute the answers next to the labels. A choice is asked with its criteria in another order.
The levels of a score keep their numbers. The two answers of a boolean change places only if its
labels are neutral, two consecutive letters: with labels such as Yes and No, the label is the
answer. A kind whose prompt does not change with the order of its answers is not permuted.
"""

from __future__ import annotations

import copy
import functools
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import torch
from transformers.decision import DecisionConfig
from transformers.decision.template_utils import MARK, SPLIT, label_token_ids
from transformers.utils.chat_template_utils import _get_template_variables

from pact_eval._json import Json, sha256_of_json
from pact_eval.data.records import LETTERS, Field, FieldKind
from pact_eval.errors import ContractMismatchError, PromptError, RequestError
from pact_eval.prompts.contract import ChatTokenizer, PromptRequest, code_orders
from pact_eval.prompts.encoding import sha256_of_tokenizer
from pact_eval.prompts.nimble import needs_chat_template
from pact_eval.prompts.trial import trial_fault
from pact_eval.templates.files import (
    PLAIN,
    PROBE_STATE,
    PROBES,
    TEMPLATE_CONTRACT,
    TEMPLATE_TASK,
    TYPES,
    DecisionFiles,
    first_rendering,
)

Order = tuple[int, ...]


@dataclass(frozen=True)
class DecisionTemplate:
    """A decision template as a prompt contract; see `PromptContract`.

    Attributes:
        files: the template and its configuration.

    Examples:
        >>> DecisionTemplate(DecisionFiles()).schema_config()["task"]
        'decision_template'
    """

    files: DecisionFiles

    name: ClassVar[str] = TEMPLATE_CONTRACT
    task: ClassVar[str] = TEMPLATE_TASK
    max_prompt_tokens: ClassVar[int | None] = None

    @property
    def label(self) -> str:
        """Its name in messages."""
        return _label(self.files)

    @property
    def fingerprint(self) -> str:
        """SHA-256 of template, labels and settings of the prompt, as 64 hex digits."""
        return self.files.fingerprint

    @property
    def temperatures(self) -> Mapping[str, float]:
        """The temperatures that the files ship, by field kind."""
        return {str(kind): at for kind, at in self.files.temperatures.items()}

    @property
    def place(self) -> str | None:
        """The folder or file of the template."""
        return None if self.files.source is None else str(self.files.source)

    def bind(self, tokenizer: ChatTokenizer) -> TemplatePrompts:
        """Return the contract with a tokenizer; see `TemplatePrompts`."""
        return TemplatePrompts(tokenizer, self.files)

    def adapter_files(self) -> dict[str, str]:
        """Return the decision files: an adapter trained on them keeps them in its folder."""
        return replace(self.files, adapter=None).texts()

    def schema_config(self) -> dict[str, Json]:
        """Return the keys of an adapter's `schema_config.json` that identify this contract."""
        return {"task": self.task, "contract_fingerprint": self.fingerprint}

    def check_adapter(self, config: Mapping[str, Json]) -> None:
        """Refuse an adapter that states another contract.

        Raises:
            ContractMismatchError: with the key that differs, what was expected and what was found.

        Examples:
            >>> contract = DecisionTemplate(DecisionFiles())
            >>> contract.check_adapter(contract.schema_config())
        """
        for key, expected in self.schema_config().items():
            if config.get(key) != expected:
                value = config.get(key)
                raise ContractMismatchError(
                    "the adapter was trained on another prompt contract: schema_config.json has "
                    f"{key} {'nothing' if value is None else value!r}, expected {expected!r}"
                )


class TemplatePrompts:
    """A decision template with a tokenizer; see `BoundContract`.

    Args:
        tokenizer: a Hugging Face tokenizer. A copy is used: transformers adds two tokens to it.
        files: the template and its configuration.

    Attributes:
        fingerprint: SHA-256 of the contract, the tokenizer, the tokens of the labels and the token
            ids of a probe of each kind.

    Raises:
        PromptError: the template does not end, reads `questions`, or can render no kind of
            question.
    """

    def __init__(self, tokenizer: ChatTokenizer, files: DecisionFiles) -> None:
        self._files = files
        if files.template is None:
            needs_chat_template(tokenizer)
        _refuse_endless_prompt(files)
        _refuse_joint_prompt(files)
        own: Any = copy.deepcopy(tokenizer)
        self._tokenizer = own
        self._tokenizer.model_max_length = sys.maxsize  # the encoder has the limit
        self._tokenizer.add_tokens([MARK, SPLIT], special_tokens=True)
        self._processor = _Processor(self._tokenizer)
        self._label_tokens = functools.cache(functools.partial(label_token_ids, self._tokenizer))
        self._at_end: dict[FieldKind, bool] = {}
        probed = {kind: self._probe(field) for kind, field in PROBES.items()}
        faults = [result for result in probed.values() if isinstance(result, PromptError)]
        if len(faults) == len(probed):
            raise faults[0]
        self._permutes = {kind: self._may_permute(kind, probed[kind]) for kind in probed}
        self.fingerprint = self._fingerprint(tokenizer, probed)

    def orders(self, field: Field, key: str, *, k: int, seed: int) -> list[Order]:
        """Return the orders of the K views; view 0 is as the template ships it.

        A boolean that ships "true" first has the order (1, 0) in view 0.
        """
        shipped = self._shipped_order(field)
        if not self._permutes[field.kind]:
            return [shipped] * k
        return [
            tuple(shipped[place] for place in order)
            for order in code_orders(seed, key, len(field.answers), k)
        ]

    def most_answers(self, field: Field) -> int:
        """Return the number of labels of the field's kind."""
        return len(self._files.labels_of(field.kind))

    def answer_tokens(self, field: Field) -> tuple[int, ...]:
        """Return the tokens of the first labels of the field's kind.

        Raises:
            PromptError: the labels are not distinct single tokens.
        """
        labels = self._files.labels_of(field.kind)[: len(field.answers)]
        try:
            return tuple(self._label_tokens(labels))
        except ValueError as error:
            raise PromptError(f"{_label(self._files)}: {error}") from None

    def text(self, request: PromptRequest) -> str:
        """Return the text of a prompt, with control tokens of the request as they are."""
        processor = _TextOnly(self._tokenizer)
        self._prepare(request, processor)
        return processor.text

    def token_ids(self, requests: Sequence[PromptRequest]) -> list[list[int]]:
        """Return the token ids of prompts, cut at the mark.

        Raises:
            RequestError: the requested field is not in the schema.
            PromptError: the template cannot render a request, or places more than one mark.
        """
        return [self._token_ids(request) for request in requests]

    def _token_ids(self, request: PromptRequest) -> list[int]:
        inputs, kind = self._prepare(request, self._processor)
        ids, marks = inputs["input_ids"][0].tolist(), inputs["marks"].tolist()
        at_end = marks == [len(ids)]
        # The first prompt of a kind is our probe: its place is the template's, not the request's.
        if len(marks) != 1 or at_end != self._at_end.setdefault(kind, at_end):
            raise PromptError(
                f"{request.where}: expected one place in the prompt where the answer is read, got "
                f"{marks} of {len(ids)} tokens: the template is made for a trained decision head, "
                "or a text of the request forms a mark"
            )
        before_mark: list[int] = ids[: marks[0]]
        return before_mark

    def _prepare(
        self, request: PromptRequest, processor: _Processor
    ) -> tuple[dict[str, Any], FieldKind]:
        field = request.field
        if field is None:
            message = f"{request.where}: the field {request.requested!r} is not in the schema"
            raise RequestError(message)
        processor.levels = None
        if field.kind == "score" and self._files.template is not None:
            processor.levels = request.order
        prompt_input: Any = {
            "state": request.state,
            "questions": {field.name: self._question(field, request.order)},
        }
        try:
            ((inputs, (asked_question,)),) = self._config(request.order).prepare_inputs(
                prompt_input, processor
            )
        except Exception as error:  # templates raise whatever their authors chose
            message = f"{request.where}: the decision template cannot render it ({error})"
            raise PromptError(message) from error
        shown = len(asked_question.options)
        if shown != len(field.answers):  # names that differ in sentinels alone become one
            message = f"{request.where}: {len(field.answers)} answers, the prompt shows {shown}"
            raise PromptError(message)
        self.answer_tokens(field)  # raises before anything is scored
        return inputs, field.kind

    def _question(self, field: Field, order: Order) -> dict[str, Json]:
        """Return a question as transformers takes it, with its answers in an order."""
        question: dict[str, Json] = {"type": TYPES[field.kind], "instructions": field.instructions}
        if field.kind == "score" and self._files.template is not None:
            order = tuple(range(len(order)))  # a request numbers levels: see `_Processor`
        answers = [field.answers[index] for index in order]
        if field.kind == "choice":
            question["criteria"] = {answer.key: answer.description for answer in answers}
        elif field.kind == "score":
            question["criteria"] = [answer.description for answer in answers]
        else:
            told = {a.key: a.description for a in field.answers if a.description is not None}
            question["criteria"] = dict(told) or None
        return question

    def _config(self, order: Order) -> DecisionConfig:
        # Only the order of a boolean is read from it.
        return self._configs[order == (1, 0)]

    @functools.cached_property
    def _configs(self) -> tuple[DecisionConfig, DecisionConfig]:
        """The configuration that shows false first, and the one that shows true first."""
        files = self._files
        make: Callable[..., DecisionConfig] = functools.partial(
            DecisionConfig,
            labels={name: [*labels] for name, labels in files.labels.items()},
            chat_template=files.template,
            sanitize_control_tokens=files.sanitize_control_tokens,
        )
        return make(noul_options=["false", "true"]), make(noul_options=["true", "false"])

    def _shipped_order(self, field: Field) -> Order:
        if field.kind == "boolean" and self._files.noul_options == ("true", "false"):
            return (1, 0)
        return tuple(range(len(field.answers)))

    def _probe(self, field: Field) -> tuple[list[int], list[int]] | PromptError:
        """Return a probe's token ids in the shipped order and in the reverse of it."""
        shipped = self._shipped_order(field)
        try:
            first, second = self.token_ids(
                [
                    PromptRequest(PROBE_STATE, (field,), field.name, order, "the probe")
                    for order in (shipped, shipped[::-1])
                ]
            )
        except PromptError as error:
            return error
        return first, second

    def _may_permute(
        self, kind: FieldKind, probed: tuple[list[int], list[int]] | PromptError
    ) -> bool:
        if isinstance(probed, PromptError):
            return False
        labels = self._files.labels_of(kind)
        neutral = kind != "boolean" or are_neutral(labels[:2])
        return neutral and probed[0] != probed[1]

    def _fingerprint(self, tokenizer: ChatTokenizer, probed: Mapping[FieldKind, Any]) -> str:
        chat_template = getattr(tokenizer, "chat_template", None)
        special: list[Json] = [*sorted(tokenizer.all_special_ids)]
        return sha256_of_json(
            {
                "contract": self._files.fingerprint,
                "tokenizer": sha256_of_tokenizer(tokenizer),
                "special_tokens": special,
                "chat_template": str(chat_template) if self._files.template is None else None,
                "labels": {kind: self._tokens_of_labels(kind) for kind in PROBES},
                "probes": {
                    kind: None if isinstance(ids, PromptError) else ids[0]
                    for kind, ids in probed.items()
                },
            }
        )

    def _tokens_of_labels(self, kind: FieldKind) -> Json:
        labels = [*self._files.labels_of(kind)]
        ids: list[Json] = self._tokenizer(labels, add_special_tokens=False)["input_ids"]
        return ids


def _label(files: DecisionFiles) -> str:
    if files.source is None:
        return "the generic prompt of transformers"
    if files.source == Path(PLAIN):
        return "the plain prompt, without a chat template"
    what = "the generic prompt of transformers" if files.template is None else "decision template"
    return f"{files.source}: {what}"


class _Processor:
    """The tokenizer as `prepare_inputs` uses it.

    It reads the vocabulary once, not once a prompt. If `levels` is set, it shows the levels of a
    score in that order: a request cannot, because it numbers them.
    """

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        self._vocabulary = dict.fromkeys((MARK, SPLIT))
        self.levels: Order | None = None

    def get_vocab(self) -> Mapping[str, object]:
        """Return what `prepare_inputs` looks for in a vocabulary: the sentinels."""
        return self._vocabulary

    def convert_tokens_to_ids(self, tokens: list[str]) -> list[int]:
        """Return the ids of tokens."""
        ids: list[int] = self._tokenizer.convert_tokens_to_ids(tokens)
        return ids

    def apply_chat_template(self, conversation: Any, **options: Any) -> Any:
        """Render and tokenise a prompt; making the tensor here is faster."""
        lists = self._show(options) | {"return_tensors": None}
        encoded = self._tokenizer.apply_chat_template(conversation, **lists)
        return {"input_ids": torch.tensor([encoded["input_ids"]])}

    def _show(self, options: dict[str, Any]) -> dict[str, Any]:
        if self.levels is None or "question" not in options:
            return options
        question = options["question"]
        listed = {
            key: [question[key][level] for level in self.levels]
            for key in ("options", "descriptions")
        }
        return options | {"question": question | listed}


class _TextOnly(_Processor):
    """Renders prompts and does not tokenise them.

    Attributes:
        text: the last prompt.
    """

    text: str = ""

    def apply_chat_template(self, conversation: Any, **options: Any) -> Any:
        """Render a prompt, and return one token in its place."""
        plain = self._show(options) | {"tokenize": False, "sanitize_control_tokens": False}
        self.text = self._tokenizer.apply_chat_template(conversation, **plain)
        return {"input_ids": torch.zeros((1, 1), dtype=torch.long)}


def are_neutral(labels: Sequence[str]) -> bool:
    """Return whether labels are consecutive letters, which mean no answer by themselves.

    Examples:
        >>> are_neutral(["A", "B"]), are_neutral(["Yes", "No"]), are_neutral(["Y", "N"])
        (True, False, False)
        >>> are_neutral([" A", " B"])
        True
    """
    letters = "".join(LETTERS)
    joined = "".join(label.strip() for label in labels)
    return len(joined) == len(labels) and (joined in letters or joined in letters.lower())


def _refuse_endless_prompt(files: DecisionFiles) -> None:
    """Refuse a template before this process compiles it: constants alone may take gigabytes."""
    fault = trial_fault(first_rendering(files))
    if fault is not None:
        raise PromptError(f"{_label(files)} does not end: {fault}")


def _refuse_joint_prompt(files: DecisionFiles) -> None:
    if files.template is None:
        return
    where = _label(files)
    try:
        variables = _get_template_variables(files.template)
    except Exception as error:  # noqa: BLE001 - Jinja raises several types
        raise PromptError(f"{where} is not a Jinja template ({error})") from None
    if "questions" in variables:
        raise PromptError(
            f"{where} reads `questions`: one prompt asks all questions of a "
            "request, and each answer is read at its own mark. pact-eval reads one answer at the "
            "end of a prompt"
        )
