"""The logs in `fixtures/logs/inspect`: Inspect with mockllm and its multiple-choice solver.

python tests/tool_logs/inspect_logs.py FOLDER

answers.eval, answers.json   a letter, a refusal to choose, or nothing
epochs.eval                  three epochs
shuffled_epochs.eval         three epochs, choices shuffled by the solver in each of them
logprobs.eval                log-probabilities of all letters
censored.eval                the same, of the three most probable letters in every second answer
dataset_shuffle.eval         choices shuffled by the dataset
solver_shuffle.eval          choices shuffled by the solver, with log-probabilities
"""

from __future__ import annotations

import contextlib
import math
import os
import random
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

LETTERS = "ABCD"
SAMPLES = 12


def _questions(number: int) -> Any:
    from inspect_ai.dataset import MemoryDataset, Sample

    return MemoryDataset(
        [
            Sample(
                id=f"sum-{addend}",
                input=f"What is {addend} + {addend}?",
                choices=[str(2 * addend), str(2 * addend + 1), str(2 * addend + 2), str(addend)],
                target="A",
                metadata={"article": f"numbers-{addend // 3}"},
            )
            for addend in range(2, 2 + number)
        ],
        name="sums",
    )


def _text(content: str, logprobs: Any = None) -> Any:
    from inspect_ai.model import (
        ChatCompletionChoice,
        ChatMessageAssistant,
        ModelOutput,
        ModelUsage,
    )

    message = ChatMessageAssistant(content=content, source="generate")
    choice = ChatCompletionChoice(message=message, stop_reason="stop", logprobs=logprobs)
    usage = ModelUsage(input_tokens=60, output_tokens=3, total_tokens=63)
    return ModelOutput(model="mockllm/model", choices=[choice], usage=usage)


def _answers(number: int) -> Iterator[Any]:
    draw = random.Random(1)
    for at in range(number):
        letter = draw.choices(LETTERS, [6, 1, 2, 1])[0]
        yield _text({5: "I cannot say.", 9: ""}.get(at % 11, f"ANSWER: {letter}"))


def _answers_with_logprobs(number: int, *, censored: bool) -> Iterator[Any]:
    from inspect_ai.model import Logprob, Logprobs, TopLogprob

    draw = random.Random(2)
    for at in range(number):
        letter = draw.choices(LETTERS, [6, 1, 2, 1])[0]
        weights = [0.2 * draw.random() + (option == letter) for option in LETTERS]
        scaled = [0.97 * weight / sum(weights) for weight in weights]
        shares = {f" {option}": share for option, share in zip(LETTERS, scaled, strict=True)}
        top = sorted(shares, key=lambda token: -shares[token])[: 3 if censored and at % 2 else 4]
        listed = [TopLogprob(token=token, logprob=math.log(shares[token])) for token in top]
        tokens = [Logprob(token=token, logprob=-0.01, top_logprobs=[]) for token in ("ANSWER", ":")]
        last = math.log(shares[f" {letter}"])
        tokens.append(Logprob(token=f" {letter}", logprob=last, top_logprobs=listed))
        yield _text(f"ANSWER: {letter}", Logprobs(content=tokens))


def _run(name: str, outputs: Iterator[Any], solver: Any = None, **settings: Any) -> None:
    from inspect_ai import Task
    from inspect_ai import eval as run_eval
    from inspect_ai.model import get_model
    from inspect_ai.scorer import choice
    from inspect_ai.solver import multiple_choice

    number = settings.pop("samples", SAMPLES)
    dataset = _questions(number)
    if settings.pop("shuffled", False):
        dataset.shuffle_choices(seed=7)
    task = Task(dataset=dataset, solver=solver or multiple_choice(), scorer=choice(), name="sums")
    model = get_model("mockllm/model", custom_outputs=list(outputs))
    form = settings.pop("log_format", "eval")
    settings |= {"log_dir": "logs", "log_format": form, "display": "none", "max_samples": 1}
    (log,) = run_eval(task, model=model, **settings)
    Path(log.location).rename(f"{name}.{form}")


def make(folder: Path) -> None:
    """Run Inspect in a folder."""
    from inspect_ai.solver import multiple_choice

    probabilities = {"logprobs": True, "top_logprobs": 4}
    with contextlib.chdir(folder):
        _run("answers", _answers(SAMPLES))
        _run("answers", _answers(6), log_format="json", samples=6)
        _run("epochs", _answers(3 * SAMPLES), epochs=3)
        each_epoch = multiple_choice(shuffle=random.Random(3))
        _run("shuffled_epochs", _answers(3 * SAMPLES), solver=each_epoch, epochs=3)
        _run("logprobs", _answers_with_logprobs(SAMPLES, censored=False), **probabilities)
        _run("censored", _answers_with_logprobs(SAMPLES, censored=True), **probabilities)
        _run("dataset_shuffle", _answers(SAMPLES), shuffled=True)
        shuffle = multiple_choice(shuffle=random.Random(3))
        outputs = _answers_with_logprobs(SAMPLES, censored=False)
        _run("solver_shuffle", outputs, solver=shuffle, **probabilities)


if __name__ == "__main__":
    os.environ["INSPECT_DISABLE_UPDATE_CHECK"] = "1"
    make(Path(sys.argv[1]))
