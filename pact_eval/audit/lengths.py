"""Check "lengths": prompts that do not fit, and letters of several tokens."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import Final

import numpy as np

from pact_eval.audit.context import DataContext
from pact_eval.audit.findings import Check, CheckResult, Collector
from pact_eval.data.index import Located
from pact_eval.data.records import LETTERS
from pact_eval.errors import Place, PromptError, counted
from pact_eval.prompts.encoding import Encoder
from pact_eval.prompts.nimble import NIMBLE

_WINDOW: Final = 256
_ORDER_SEED: Final = 0


@dataclass(frozen=True, slots=True)
class Lengths:
    """Prompt tokens per record, over all records; the longest of its K prompts counts.

    Attributes:
        minimum: of the shortest.
        median: middle value.
        p99: 99th percentile.
        maximum: of the longest.
        limit: most tokens that a prompt may have.
        k: views per record.
    """

    minimum: int
    median: float
    p99: float
    maximum: int
    limit: int
    k: int

    @property
    def text(self) -> str:
        """What was measured, in a few words."""
        middle = f"median {self.median:,.0f}, 99% up to {self.p99:,.0f}"
        return f"{self.minimum:,} to {self.maximum:,} tokens ({middle}), limit {self.limit:,}"


def check_lengths(context: DataContext, findings: Collector) -> CheckResult:
    """Tokenise every prompt under the contract, unless its bytes alone show that it is too long.

    Args:
        context: the dataset, with the base model's tokenizer and its chat template.
        findings: collects prompts over the limit, and letters that are not single tokens.

    Returns:
        The result, with `Lengths` as `measured`.
    """
    named, k = context.settings.tokenizer, context.settings.k
    assert named is not None  # noqa: S101 - the entry needs it
    try:
        encoder = Encoder(named.tokenizer, NIMBLE)
    except PromptError as error:
        place = Place(named.name)
        findings.add("codes-not-single", place, "codes that are single tokens", str(error))
        return findings.result("no prompt")
    limit = encoder.max_prompt_tokens
    tokens: list[int] = []
    too_long = 0
    located = context.index.read(range(len(context.index)))
    while window := list(islice(located, _WINDOW)):
        window = [item for item in window if _has_letters(item, findings)]
        excess = [encoder.excess_bytes(item.record, _ORDER_SEED) for item in window]
        fitting = [item.record for item, size in zip(window, excess, strict=True) if size is None]
        lengths = iter(encoder.prompt_tokens(fitting, k, _ORDER_SEED))
        for item, size in zip(window, excess, strict=True):
            length = next(lengths) if size is None else None
            actual = f"{size:,} bytes, not tokenised" if length is None else f"{length:,}"
            if length is None or length > limit:
                expected = f"a prompt of {limit:,} tokens at most"
                findings.add("prompt-too-long", item.place, expected, actual)
            tokens += [] if length is None else [length]
            too_long += length is None
    scope = f"{counted(len(tokens), 'record')} at K = {k}"
    if too_long:
        scope += f"; {too_long:,} more are too long by their bytes alone"
    if not tokens:
        return findings.result(scope)
    median, p99 = np.percentile(tokens, [50, 99])
    measured = Lengths(min(tokens), float(median), float(p99), max(tokens), limit, k)
    return findings.result(scope, measured)


def _has_letters(located: Located, findings: Collector) -> bool:
    """Return whether there are as many letters as answers; otherwise add a finding."""
    n_choices = located.record.n_choices
    if n_choices > len(LETTERS):
        expected = f"at most {len(LETTERS)} answers, one letter each"
        findings.add("more-answers-than-letters", located.place, expected, f"{n_choices}")
    return n_choices <= len(LETTERS)


CHECK: Final[Check[DataContext]] = Check(
    name="lengths",
    question="Does every prompt fit, with one token per letter?",
    run=check_lengths,
    needs=("records", "tokenizer"),
    cost=3.0,
    codes={
        "codes-not-single": ("error", "A letter is not a single ordinary token."),
        "more-answers-than-letters": ("error", "A question has more than 26 answers."),
        "prompt-too-long": ("error", "A prompt has more tokens than the limit."),
    },
)
