"""The order audit of served runs, against servers whose use of the order is known."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from builders import question, record, write_jsonl
from commands import runner

from pact_cli.main import main
from pact_eval.evaluation.conclusions.order import OrderAudit
from pact_eval.evaluation.experiment import Experiment
from pact_eval.evaluation.settings import Settings
from scoring.servers.loopback import Response, Sent, score_served, serving, systemone

Weights = Callable[[Sequence[str]], Sequence[float]]


def weighing(weights: Weights) -> Callable[[Sent], Response]:
    """Returns a server that answers choices with these weights of the names in their order."""

    def respond(sent: Sent) -> Response:
        (sent_question,) = sent.body["questions"].values()
        if sent_question["type"] != "choice":
            return systemone(sent)
        names = list(sent_question["criteria"])
        drawn = weights(names)
        p = {name: weight / sum(drawn) for name, weight in zip(names, drawn, strict=True)}
        answer = {"type": "choice", "choice": max(names, key=p.__getitem__), "probabilities": p}
        return systemone(sent, answers={"decision": answer})

    return respond


def scored(folder: Path, weights: Weights) -> Path:
    rows = [
        record(f"f{n}-{variant}", decision=question(n=4), state=f"{n} {variant}")
        for n in range(20)
        for variant in ("base", "counterfactual")
    ]
    data = write_jsonl(folder / "d.jsonl", rows)
    with serving(weighing(weights)) as server:
        # One request at a time: noise by order of arrival once preferred a letter, at 5% by design.
        return score_served(server, data, folder / "run", probe=True, concurrency=1)


def audit(run: Path) -> OrderAudit:
    experiment = Experiment.read([run], Settings(resamples=50))
    return experiment.order_audit(experiment.runs[0])


@pytest.mark.slow
def test_a_server_that_prefers_the_first_slot(tmp_path: Path) -> None:
    run = scored(tmp_path, lambda names: [4, 3, 2, 1][: len(names)])
    result = audit(run)
    assert (result.effect.finding, result.effect.floor.tv) == ("shown", 0)
    assert result.effect.flip_rate.value == 1
    first, *others = result.slots.slots
    # Over the 4 orders of a Latin square, every answer is at the first slot once.
    assert (first.chosen, first.chance) == (1, 0.25)
    assert result.slots.preferred == (0,)
    assert result.slots.avoided == (1, 2, 3)
    assert [(slot.chosen, slot.chance) for slot in others] == [(0, 0.25)] * 3
    # Each answer has each weight once, so the mean of the views is even.
    nll = next(gain for gain in result.gains if gain.spec.name == "nll_nats")
    assert nll.ensemble.value == pytest.approx(math.log(4))
    assert nll.floor == 0
    # All families gain alike: there is no interval, and not because the gain is small.
    assert "all families agree" in str(nll.difference.reason)
    assert "FOLLOWS THE LETTER A" in " ".join(runner(main, "report")(run).stdout.split())


@pytest.mark.slow
def test_a_server_with_noise_only(tmp_path: Path) -> None:
    rng = random.Random(1)
    run = scored(tmp_path, lambda names: [1 + ord(n[-1]) % 5 / 5 + rng.random() for n in names])
    result = audit(run)
    assert result.effect.finding == "not shown"
    assert result.effect.flip_rate.value > 0
    assert not result.flips_beyond_floor
    assert result.slots.preferred == result.slots.avoided == ()
    assert not any(gain.beyond_floor for gain in result.gains)
