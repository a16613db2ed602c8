"""The identity of a run: the model and the prompts that made its numbers; differences of two runs.

A calibrator records the identity of the run that it was fitted on, and belongs to it.

The names of the questions of items, and whether each is asked again and again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Final, Literal, TypeAlias

import numpy as np
import polars as pl

from pact_eval._json import Json
from pact_eval._typing import TextArray
from pact_eval.runs.provenance import Provenance

Fact: TypeAlias = Literal[
    "adapter", "base", "contract", "prompts", "decoding", "data", "quantisation"
]
"""A fact in which two runs, or a calibrator and a run, can differ."""

_SHOWN = 12
_WORDS: Final[Mapping[Fact, str]] = {
    "adapter": "adapter",
    "base": "base model",
    "contract": "prompt contract",
    "data": "dataset",
    "decoding": "decoding",
    "prompts": "probe prompt (chat template or tokenizer)",
    "quantisation": "quantisation of the base model",
}
_OF_PROMPTS: Final[Mapping[str, str]] = {
    "n-shot": "{} shots of TASK",
    "versions": "version {} of TASK",
    "system_instruction_sha": "system instruction {}",
    "chat_template_sha": "chat template {}",
    "prompts": "prompts {} of TASK",
}
_FACTS_SHOWN = 6


@dataclass(frozen=True, slots=True)
class Difference:
    """A fact in which two runs differ.

    Attributes:
        fact: its name.
        before: the value of the first, shortened.
        after: the value of the other.
    """

    fact: Fact
    before: str
    after: str

    @property
    def words(self) -> str:
        """The fact in words, for messages; of the prompts of a log, more than a hash is known."""
        return "prompts" if self.fact == "prompts" and " " in self.before else _WORDS[self.fact]

    @property
    def allowance(self) -> str:
        """The value of `--allow` that accepts it.

        Examples:
            >>> Difference("base", "1bda35cb688a", "c1899de289a0").allowance
            'other-base'
        """
        return f"other-{self.fact}"


@dataclass(frozen=True, slots=True)
class RunIdentity:
    """Model and prompts of a run; None if they are not known, as in an import.

    Attributes:
        adapter_sha256: of the adapter's weights; None also for a base model alone.
        adapter_config_sha256: of the adapter's configuration, which sets its scale.
        base_sha256: of the weights of the base model.
        contract_fingerprint: of the prompt contract.
        prompts_sha256: of a probe prompt through contract, chat template and tokenizer.
        quantisation: of a base model whose hash is known; None is full precision.
    """

    adapter_sha256: str | None = None
    adapter_config_sha256: str | None = None
    base_sha256: str | None = None
    contract_fingerprint: str | None = None
    prompts_sha256: str | None = None
    quantisation: str | None = None

    @classmethod
    def of(cls, run: Provenance) -> RunIdentity:
        """Return the identity of a run."""
        return cls(
            None if run.adapter is None else run.adapter.sha256,
            None if run.adapter is None else run.adapter.config_sha256,
            None if run.base is None else run.base.sha256,
            run.contract.fingerprint,
            run.prompts_sha256,
            run.quantisation,
        )

    @classmethod
    def of_json(cls, recorded: Json) -> RunIdentity:
        """Return the identity that `to_json` wrote; values that are absent are not known."""
        values: Mapping[str, Json] = recorded if isinstance(recorded, dict) else {}
        known = {name: values.get(name) for name in asdict(cls())}
        return cls(**{name: text for name, text in known.items() if isinstance(text, str)})

    def to_json(self) -> dict[str, Json]:
        """Return the identity as a JSON object; without quantisation, there is no such key."""
        # Files of unquantised runs keep the keys that they had before quantisation was known.
        always = asdict(self)
        quantisation = always.pop("quantisation")
        return always if quantisation is None else always | {"quantisation": quantisation}

    @property
    def names_model(self) -> bool:
        """Whether the model is known: an adapter, or a base model alone."""
        return self.adapter_sha256 is not None or self.base_sha256 is not None

    def differences(self, other: RunIdentity) -> tuple[Difference, ...]:
        """Return the facts that both know and in which they differ.

        Examples:
            >>> first = RunIdentity(adapter_sha256="a" * 64, prompts_sha256="c" * 64)
            >>> [difference.fact for difference in first.differences(RunIdentity("b" * 64))]
            ['adapter']
        """
        compared: list[tuple[Fact, str, str | None, str | None]] = [
            ("base", "", self.base_sha256, other.base_sha256),
            ("contract", "", self.contract_fingerprint, other.contract_fingerprint),
            ("prompts", "", self.prompts_sha256, other.prompts_sha256),
        ]
        if self.base_sha256 is not None and other.base_sha256 is not None:
            methods = (self.quantisation or "none", other.quantisation or "none")
            compared.insert(0, ("quantisation", "", *methods))
        adapters = (self.adapter_sha256 or "none", other.adapter_sha256 or "none")
        if self.names_model and other.names_model and adapters[0] != adapters[1]:
            compared.insert(0, ("adapter", "", *adapters))
        elif self.names_model and other.names_model:
            configs = (self.adapter_config_sha256, other.adapter_config_sha256)
            compared.insert(0, ("adapter", "configuration ", *configs))
        return tuple(
            Difference(fact, f"{what}{mine[:_SHOWN]}", f"{what}{theirs[:_SHOWN]}")
            for fact, what, mine, theirs in compared
            if mine is not None and theirs is not None and mine != theirs
        )


def join_differences(first: Provenance, other: Provenance) -> tuple[Difference, ...]:
    """Return the facts that differ between two runs, and should not in a comparison.

    These are the dataset (of runs that were scored: the hash of an import is that of its rows), the
    contract, the prompts (of imports: what their logs say of them), and the base model if both runs
    have an adapter. The adapter or the quantisation may differ. If both do, a difference has two
    possible causes: the quantisation then counts, unless the runs are of one recorded arm, whose
    seeds have different adapters.

    Examples:
        >>> runs = [{"source": "score", "settings": {"data": {"sha256": hash}}} for hash in "ab"]
        >>> [difference.fact for difference in join_differences(*map(Provenance.of, runs))]
        ['data']
    """
    two_adapters = first.adapter is not None and other.adapter is not None
    kept = {"contract", "prompts", *(("base",) if two_adapters else ())}
    differences = RunIdentity.of(first).differences(RunIdentity.of(other))
    one_arm = first.arm is not None and first.arm == other.arm
    if not one_arm and any(difference.fact == "adapter" for difference in differences):
        kept.add("quantisation")
    differing = [difference for difference in differences if difference.fact in kept]
    differing += log_differences(first, other)
    mine, theirs = first.data.sha256, other.data.sha256
    scored = first.source == other.source == "score"
    if scored and mine is not None and theirs is not None and mine != theirs:
        differing.insert(0, Difference("data", mine[:_SHOWN], theirs[:_SHOWN]))
    return tuple(differing)


def log_differences(first: Provenance, other: Provenance) -> list[Difference]:
    """Return in what the prompts of two imported logs differ; facts that one lacks do not count.

    Examples:
        >>> logs = ({"n-shot": {"arc": 0}, "versions": {"arc": 1}}, {"n-shot": {"arc": 5}})
        >>> (found,) = log_differences(*(Provenance.of({"log": log}) for log in logs))
        >>> found.before, found.after, found.allowance
        ('0 shots of arc', '5 shots of arc', 'other-prompts')
    """
    mine, theirs = (_prompt_facts(run) for run in (first, other))
    differing = [name for name in mine if name in theirs and mine[name] != theirs[name]]
    if not differing:
        return []
    more = len(differing) - _FACTS_SHOWN
    before, after = (
        ", ".join(name.format(facts[name]) for name in differing[:_FACTS_SHOWN])
        + (f", and {more:,} more" if more > 0 else "")
        for facts in (mine, theirs)
    )
    return [Difference("prompts", before, after)]


def _prompt_facts(run: Provenance) -> dict[str, str]:
    """Return what a log says of its prompts, by a format of the words for each value."""
    log = run.recorded.get("log")
    facts: dict[str, str] = {}
    for key, words in _OF_PROMPTS.items():
        value = log.get(key) if isinstance(log, dict) else None
        by_task = value if isinstance(value, dict) else {} if value is None else {"": value}
        for task, of_task in by_task.items():
            name = task.replace("{", "{{").replace("}", "}}")
            facts[words.replace("TASK", name)] = str(of_task)[:_SHOWN]
    return facts


QUESTION: Final = "question"
"""The column of logs and data sets with the name of the question of every item."""

FEWEST_FAMILIES: Final = 10
"""A question is asked again if so many families have it."""

_SHARE: Final = 0.5

MISSING: Final = "(missing)"
"""Name of the group of items without a value."""


def question_texts(column: pl.Series) -> TextArray:
    """Return the names of questions as texts; numbers without needless digits.

    Examples:
        >>> question_texts(pl.Series([1.0, None])).tolist()
        ['1', '(missing)']
    """
    if column.dtype.is_numeric():
        texts = [None if x is None else f"{x:.15g}" for x in column.to_list()]
        column = pl.Series(texts, dtype=pl.String)
    return column.cast(pl.String).fill_null(MISSING).to_numpy().astype(np.object_)


def several_questions(names: TextArray, families: TextArray) -> bool:
    """Return whether items are of several questions, not each of its own.

    Args:
        names: (n,) the question of each item.
        families: (n,) their families.

    Returns:
        Whether two questions or more have `FEWEST_FAMILIES` families each, and half of the items.

    Examples:
        >>> ids = np.arange(40).astype(str)
        >>> several_questions(np.array(["spam", "refund"] * 20), ids)
        True
        >>> several_questions(np.array([f"Who was {name}?" for name in ids]), ids)
        False
    """
    frame = pl.DataFrame({"name": names.astype(str), "family": families.astype(str)})
    counts = frame.group_by("name").agg(pl.len(), pl.col("family").n_unique())
    asked_again = counts.filter(pl.col("family") >= FEWEST_FAMILIES)
    return len(asked_again) > 1 and asked_again["len"].sum() >= _SHARE * len(frame)
