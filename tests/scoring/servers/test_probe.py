"""The probe of a server, against servers of which it is known what it must find."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from builders import question, record, write_jsonl
from commands import runner
from messages import assert_says
from tolerances import LOGIT

from pact_cli.main import main
from pact_eval.data.records import parse_record
from pact_eval.errors import AdapterError, ServerError
from pact_eval.runs.folder import read_run
from pact_eval.scoring.request import request_of_local
from pact_eval.scoring.servers.probe import ServerProbe
from pact_eval.scoring.servers.source import probe, server_source
from pact_eval.scoring.servers.wire import ServerRequest
from pact_eval.scoring.windows import read_dataset, score_windows
from scoring.conftest import FIXTURES, MODEL
from scoring.servers.loopback import Loopback, Response, Sent, score_served, serving, systemone

ADAPTER = FIXTURES / "adapters" / "pact"


def probed(respond: Callable[[Sent], Response], **options: Any) -> ServerProbe:
    with serving(respond) as server:
        return probe(ServerRequest(urls=(server.url,), model="mine", **options))


def by_position(sent: Sent, *, shift: float = 0.0, digits: int | None = None) -> Response:
    """Answers a choice by position: the first answer gets most."""
    (sent_question,) = sent.body["questions"].values()
    if sent_question["type"] != "choice":
        return systemone(sent)
    names = list(sent_question["criteria"])
    weights = [4.0 + shift, 3.0, 2.0, 1.0]
    p = [weight / sum(weights) for weight in weights]
    p = p if digits is None else [round(share, digits) for share in p]
    answer = {
        "type": "choice",
        "choice": names[p.index(max(p))],
        "probabilities": dict(zip(names, p, strict=True)),
    }
    return systemone(sent, answers={"decision": answer})


def of_one_model(sent: Sent) -> Response:
    if sent.body["model"] != "mine":
        return Response({"detail": f"pinned to mine, got {sent.body['model']}"}, 400)
    return by_position(sent)


@pytest.mark.parametrize(
    ("listed", "reason"),
    [
        (["mine"], "the server serves one model"),
        ([], "the server does not answer as base (status 400: pinned to mine, got base)"),
    ],
)
def test_a_server_of_one_model_is_not_compared_with_its_base(
    listed: list[str], reason: str, tmp_path: Path
) -> None:
    pages = {"/v1/models": {"data": [{"id": name} for name in listed]}}
    data = write_jsonl(tmp_path / "d.jsonl", [record("a-base", decision=question(n=4))])
    with serving(of_one_model, pages) as server:
        words = ("--server", server.url, "--model", "mine", "--base-name", "base")
        result = runner(main, "score", "--probe")(*words)
        scored = runner(main, "score")(*words, "--data", data, "--out", tmp_path / "run")
    assert f"adapter   not compared: {reason}\n" in result.stdout
    assert f"not compared: {reason}\n" in scored.stderr
    kept: Any = read_run(tmp_path / "run").provenance.recorded["probe"]
    assert (kept["base"], kept["base_missing"]) == (None, reason)


def test_a_base_name_that_a_server_of_several_models_does_not_serve_is_an_error() -> None:
    def respond(sent: Sent) -> Response:
        return by_position(sent) if sent.body["model"] == "mine" else Response("no", 404)

    pages = {"/v1/models": {"data": [{"id": "mine"}, {"id": "base"}]}}
    with serving(respond, pages) as server, pytest.raises(ServerError, match="--base-name basis"):
        probe(ServerRequest((server.url,), "mine", base_name="basis"))


def test_a_server_that_follows_the_order() -> None:
    result = probed(lambda sent: by_position(sent, digits=2))
    assert result.order is not None
    assert (result.order.effect, result.order.flips, result.order.choices) == ("seen", 3, 3)
    assert result.decimals is None  # the boolean and the score are not rounded
    assert result.floor is not None
    assert (result.floor.repeats, result.floor.largest_tv, result.floor.flips) == (5, 0.0, 0)
    assert set(result.answers) == {
        "choice-parcel", "choice-hall", "choice-leaves", "boolean-safe", "score-urgency",
    }  # fmt: skip
    assert not result.faults


def test_a_server_that_sorts_options_is_told_and_is_not_asked_for_views(tmp_path: Path) -> None:
    data = write_jsonl(tmp_path / "d.jsonl", [record("a-base"), record("a-counterfactual")])
    probes: list[ServerProbe] = []
    with serving(systemone) as server:
        request = ServerRequest(urls=(server.url,), model="mine")
        source = server_source(request, probes.append)
        score_windows(source, read_dataset(data, k=4), tmp_path / "run", labels={})
    assert probes[0].order is not None
    assert (probes[0].order.effect, probes[0].orders_are_views) == ("not seen", False)
    # 12 requests of the probe, one per item, and 5 of the probe at the end.
    assert len(server.posts) == 12 + 2 + 5
    run = read_run(tmp_path / "run")
    assert run.predictions.k == 4
    assert {tuple(order) for order in run.predictions.code_order.reshape(8, -1).tolist()} == {
        (0, 1, 2)
    }
    kept: Any = run.provenance.recorded["probe"]
    assert (kept["order"]["effect"], kept["changed"], kept["end_largest_tv"]) == (
        "not seen",
        False,
        0,
    )


def test_noise_is_measured_and_hides_a_smaller_effect() -> None:
    rng = random.Random(0)
    result = probed(lambda sent: by_position(sent, shift=rng.random()))
    assert result.floor is not None
    assert 0.001 < result.floor.largest_tv < 0.1
    assert result.least_change >= 3 * result.floor.largest_tv


def test_a_sure_model_that_is_rounded_may_hide_its_orders() -> None:
    def sure(sent: Sent) -> Response:
        (sent_question,) = sent.body["questions"].values()
        if sent_question["type"] == "noul":
            return systemone(sent, answers={"decision": {"type": "noul", "noul": 1.0}})
        names = (
            list(sent_question["criteria"])
            if sent_question["type"] == "choice"
            else ["0", "1", "2"]
        )
        best = min(names)
        p = {name: float(name == best) for name in names}
        answer = {"type": sent_question["type"], "choice": best, "score": 0.0, "probabilities": p}
        return systemone(sent, answers={"decision": answer})

    result = probed(sure)
    assert result.order is not None
    assert (result.decimals, result.order.effect, result.orders_are_views) == (2, "unknown", True)


def test_an_adapter_that_is_silently_not_applied_is_caught(tmp_path: Path) -> None:
    data = write_jsonl(tmp_path / "d.jsonl", [record("a-base")])

    def ignores_model(sent: Sent) -> Response:
        return by_position(sent)

    def honours_model(sent: Sent) -> Response:
        return by_position(sent, shift=0.2 if sent.body["model"] == "mine" else 0.0)

    probed_server = probed(honours_model, base_name="base")
    assert probed_server.base is not None
    assert probed_server.base.applied
    with serving(ignores_model) as server:
        words = ["--server", server.url, "--model", "mine", "--base-name", "base"]
        result = runner(main, "score", "--probe")(*words, code=3)
        assert_says(result.stdout, "adapter is not applied")
        result = runner(main, "score")(*words, "--data", data, "--out", tmp_path / "run", code=1)
        assert_says(result.stderr, "mine answers", "base")
    assert not list((tmp_path / "run" / "parts").iterdir())


def test_items_that_a_server_does_not_take_are_named() -> None:
    def no_scores(sent: Sent) -> Response:
        (sent_question,) = sent.body["questions"].values()
        refusal = Response({"detail": "score is not supported"}, 422)
        return refusal if sent_question["type"] == "score" else systemone(sent)

    result = probed(no_scores)
    (reason,) = result.unanswered.values()
    assert [*result.unanswered] == ["score-urgency"]
    assert_says(reason, "unsupported", "status 422")
    with pytest.raises(ServerError, match="no item .*unsupported"):
        probed(lambda _sent: Response({"detail": "too long"}, 413))


def test_identity_is_what_the_server_says() -> None:
    def with_header(sent: Sent) -> Response:
        response = systemone(sent)
        response.headers["x-openjev-model"] = "v7"
        return response

    card = {"id": "mine", "root": "/models/a", "parent": "base"}
    pages = {"/v1/models": {"data": [{"id": "base"}, card]}, "/version": {"version": "0.32.0"}}
    with serving(with_header, pages) as server:
        result = probe(ServerRequest(urls=(server.url,), model="mine"))
    assert (result.model, result.answered_by) == ("mine", "served-1")
    assert result.models == card
    assert result.version == {"version": "0.32.0"}
    assert result.headers["x-openjev-model"] == "v7"


def score_two_windows(folder: Path, server: Loopback) -> Path:
    rows = [record(f"f{n}-base", decision=question("noul"), state=f"{n}") for n in range(70)]
    data = write_jsonl(folder / "d.jsonl", rows)
    return score_served(server, data, folder / "run", k=1, probe=True)


def test_a_model_that_changes_during_the_run_is_told(tmp_path: Path) -> None:
    seen = [0]

    def moves(sent: Sent) -> Response:
        seen[0] += 1
        return by_position(sent, shift=3.0 if seen[0] > 40 else 0.0)

    with serving(moves) as server:
        run = score_two_windows(tmp_path, server)
    kept: Any = read_run(run).provenance.recorded["probe"]
    assert kept["changed"] is True
    assert "changed during the run" in runner(main, "report")(run, "--full").stdout


def test_a_run_does_not_resume_with_a_model_that_has_changed(tmp_path: Path) -> None:
    def stops(sent: Sent) -> Response:
        return Response("later", 401) if sent.body["state"] == "69" else by_position(sent)

    with serving(stops) as server, pytest.raises(ServerError, match="401"):
        score_two_windows(tmp_path, server)
    changed = serving(lambda sent: by_position(sent, shift=3.0))
    with changed as server, pytest.raises(ServerError, match="changed since the run"):
        score_two_windows(tmp_path, server)


class LocalServer:
    """Answers /v1/systemone with our own prompts and a local model, in the order of the request."""

    def __init__(self, adapter: Path | None, base: Path) -> None:
        from pact_eval.scoring.model import identify
        from pact_eval.scoring.request import ModelRequest

        request = ModelRequest(adapter, str(base), apply_adapter=adapter is not None)
        self.loaded = identify(request).load()

    def __call__(self, sent: Sent) -> Response:
        ((name, sent_question),) = sent.body["questions"].items()
        value: Any = {
            "id": "a", "family": "a", "source_family": "a", "split": "validation", "domain": "d",
            "variant": "base",
            "input": {"state": sent.body["state"], "questions": {name: sent_question}},
        }  # fmt: skip
        parsed = parse_record(value, require_reference=False)
        (view,) = self.loaded.source.encoder.encode([parsed], 1, 0)
        (scored,) = self.loaded.scorer.score([view])
        p = softmax(scored.logits.tolist())
        if sent_question["type"] == "noul":
            return systemone(sent, answers={name: {"type": "noul", "noul": p[1]}})
        keys = [answer.key for answer in parsed.field.answers]
        by_key = dict(zip(keys, p, strict=True))
        best = max(keys, key=by_key.__getitem__)
        expected = sum(level * share for level, share in enumerate(p))
        answer = {
            "type": sent_question["type"],
            "choice": best,
            "score": expected,
            "probabilities": by_key,
        }
        return systemone(sent, answers={name: answer})


def softmax(logits: Sequence[float]) -> list[float]:
    weights = [math.exp(z - max(logits)) for z in logits]
    return [weight / sum(weights) for weight in weights]


@pytest.mark.slow
def test_parity_with_the_local_adapter_and_without_it() -> None:
    local = {"local": ADAPTER, "local_base": str(MODEL)}
    served = probed(LocalServer(ADAPTER, MODEL), **local)
    assert served.parity is not None
    assert served.parity.holds
    assert served.parity.views == 3 * 2 + 2
    assert served.parity.largest_difference < LOGIT
    base = probed(LocalServer(None, MODEL), **local)
    assert base.parity is not None
    assert not base.parity.holds
    assert "does not answer as" in base.faults[0]
    assert json.dumps(base.to_json())
    alone = probed(LocalServer(None, MODEL), local=MODEL).parity
    assert alone is not None
    assert alone.holds
    assert (alone.views, alone.adapter) == (served.parity.views, str(MODEL))


def test_a_local_base_model_takes_no_other_base() -> None:
    request = ServerRequest(("http://127.0.0.1:1",), "mine", local=MODEL, local_base="other")
    with pytest.raises(AdapterError, match="--local-base gives another one"):
        request_of_local(request)
