"""One request to a server: what the order of the answers moves, beside what repeating it moves."""

from __future__ import annotations

import json
import math
from itertools import count
from pathlib import Path

import numpy as np
import pytest
from builders import question
from commands import refuser
from messages import assert_says

from pact_cli.main import main
from pact_eval.errors import ServerError
from pact_eval.prompts.requests import parse_schema
from pact_eval.scoring.servers.decide import ServedDecisions, decide_served
from pact_eval.scoring.servers.wire import ServerRequest, Spread
from scoring.servers.loopback import Respond, Response, Sent, serving, systemone

SCHEMA = {"team": question(n=3), "refund": question("noul"), "urgency": question("score")}


def decided(respond: Respond, *, k: int = 3) -> ServedDecisions:
    with serving(respond) as server:
        request = ServerRequest(urls=(server.url,), model="mine")
        return decide_served(request, "Late again.", parse_schema(SCHEMA), k=k)  # type: ignore[arg-type]


def first_is_best(sent: Sent) -> Response:
    """Answers 0.6, 0.3, 0.1 by position: choices follow the order, and nothing else."""
    ((name, sent_question),) = sent.body["questions"].items()
    if sent_question["type"] != "choice":
        return systemone(sent)
    names = list(sent_question["criteria"])
    by_name = dict(zip(names, (0.6, 0.3, 0.1), strict=True))
    answer = {"type": "choice", "choice": names[0], "probabilities": by_name}
    return systemone(sent, answers={name: answer})


def test_orders_and_repeats_against_hand_computation() -> None:
    decision = decided(first_is_best)
    team, refund, urgency = decision.fields
    # Three orders of three answers are a Latin square: each answer is first once.
    assert sorted(one.order[0] for one in team.orders) == [0, 1, 2]
    p = np.array([0.6, 0.3, 0.1])
    distance = 0.5 * max(abs(p - np.roll(p, 1)).sum(), abs(p - np.roll(p, 2)).sum())
    assert team.between_orders is not None
    assert (team.between_orders.answers, team.between_orders.flips) == (3, 2)
    assert team.between_orders.largest_tv == pytest.approx(distance)
    assert team.between_repeats == Spread(5, 0.0, 0)
    assert team.decision is not None
    assert team.decision.probabilities == pytest.approx((1 / 3,) * 3)
    assert team.decision.views_agree is False
    assert np.array(team.ranges) == pytest.approx(np.array([(0.1, 0.6)] * 3))
    assert refund.between_orders is urgency.between_orders is None
    assert decision.requests == (3 + 4) + (1 + 4) * 2


def test_what_is_not_answered_is_named_with_its_reason() -> None:
    def no_scores(sent: Sent) -> Response:
        kinds = {sent_question["type"] for sent_question in sent.body["questions"].values()}
        refusal = Response({"detail": "score is not supported"}, 422)
        return refusal if "score" in kinds else first_is_best(sent)

    team, _, urgency = decided(no_scores).fields
    assert team.decision is not None
    assert urgency.decision is None
    assert urgency.missing is not None
    assert_says(f"{urgency.missing.status}: {urgency.missing.reason}", "unsupported", "status 422")


def test_noise_is_what_repeats_move() -> None:
    turns = count()

    def noisy(sent: Sent) -> Response:
        true = 0.45 + 0.1 * (next(turns) % 2)
        return systemone(sent, answers={"refund": {"type": "noul", "noul": true}})

    with serving(noisy) as server:
        request = ServerRequest(urls=(server.url,), model="mine")
        schema = parse_schema({"refund": question("noul")})
        (refund,) = decide_served(request, "Late.", schema, k=4).fields
    # By turns 0.45 and 0.55: two of five answers are not that of the first.
    assert refund.between_repeats is not None
    assert (refund.between_repeats.answers, refund.between_repeats.flips) == (5, 2)
    assert refund.between_repeats.largest_tv == pytest.approx(0.1)


def test_zeros_after_rounding_have_a_mean_over_orders() -> None:
    turns = count()

    def sure(sent: Sent) -> Response:
        ((name, sent_question),) = sent.body["questions"].items()
        names = sorted(sent_question["criteria"])
        best = names[next(turns) % 2]
        answer = {
            "type": "choice",
            "choice": best,
            "probabilities": {n: float(n == best) for n in names},
        }
        return systemone(sent, answers={name: answer})

    with serving(sure) as server:
        request = ServerRequest(urls=(server.url,), model="mine")
        (team,) = decide_served(request, "Late.", parse_schema({"team": question(n=2)}), k=2).fields
    assert team.decision is not None
    assert team.decision.probabilities == pytest.approx((0.5, 0.5))
    assert math.isclose(team.between_orders.largest_tv, 1.0)  # type: ignore[union-attr]


def test_no_answer_at_all_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ServerError, match="no field .*unsupported: status 413"):
        decided(lambda _sent: Response({"error": "too long"}, 413))
    schema = tmp_path / "schema.json"
    schema.write_text(json.dumps({"team": question(n=300)}))
    out = refuser(main)("decide", "--server", "http://127.0.0.1:9", "--model", "m", "--context",
                        "a b", "--schema", schema)  # fmt: skip
    assert "expected 2 to 255 answers, got 300" in out
