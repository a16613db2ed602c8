"""Runs through a server: an ordinary run folder, kills, statuses, and servers that misbehave."""

from __future__ import annotations

import json
import math
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from builders import question, record, write_jsonl
from commands import refuser, runner, started, with_settings
from jevcompat.mock import FAULTS, MockConfig, Running
from messages import assert_says

from pact_cli.main import main
from pact_eval.errors import RunSettingsError, ServerError
from pact_eval.runs.folder import read_run
from pact_eval.scoring.windows import read_dataset
from scoring.servers.loopback import (
    Loopback,
    Response,
    Sent,
    score_served,
    serving,
    softmax_of_names,
    systemone,
)


def dataset_file(folder: Path, pairs: int = 2) -> Path:
    """Pairs of a choice, a boolean and a score each."""
    kinds = [question(n=3), question("noul"), question("score")]
    rows = [
        record(f"f{pair}{kind['type']}-{variant}", decision=kind, state=f"Clerk {pair}: {variant}.")
        for pair in range(pairs)
        for kind in kinds
        for variant in ("base", "counterfactual")
    ]
    return write_jsonl(folder / "holdout.jsonl", rows)


def test_a_served_run_is_an_ordinary_run(tmp_path: Path) -> None:
    data = dataset_file(tmp_path)
    with serving(systemone) as server:
        score_served(server, data, tmp_path / "run")
        score_served(server, data, tmp_path / "run")  # complete: nothing is asked
        with pytest.raises(RunSettingsError, match="server.score_views"):
            score_served(server, data, tmp_path / "run", score_views=True)
    # K = 4 orders of a choice of three, one order of the others; each asked once.
    assert len(server.posts) == 4 * 4 + 4 + 4
    run = read_run(tmp_path / "run")
    assert (len(run.predictions), run.predictions.k) == (12, 4)
    assert run.settings["server"] == {"wire": "systemone", "model": "mine", "score_views": False}
    assert run.provenance.recorded["server"] == {
        "answered_by": "served-1", "requests": 24, "retries": 0, "concurrency": 8,
    }  # fmt: skip
    state = json.dumps("Clerk 0: base.")
    expected = softmax_of_names(["answer_0", "answer_1", "answer_2"], state)
    for logits in run.predictions.logits[0]:
        assert [math.exp(z) for z in logits] == pytest.approx(expected)
    # The orders are those of a local run; a kind without views repeats its one answer.
    assert sorted(set(map(tuple, run.predictions.code_order[0].tolist()))) != [(0, 1, 2)]
    assert {tuple(order) for order in run.predictions.code_order[2].tolist()} == {(0, 1, -1)}
    assert run.predictions.prompt_tokens.tolist() == [50.0] * 12


def test_a_server_needs_no_torch(tmp_path: Path) -> None:
    data = dataset_file(tmp_path)
    code = "import sys; sys.modules['torch'] = None; from pact_cli.main import main; main()"
    with serving(systemone) as server:
        words = ["score", "--server", server.url, "--model", "mine", "--data", data]
        command = [sys.executable, "-c", code, *map(str, words), "--out", str(tmp_path / "run")]
        subprocess.run(command, check=True, capture_output=True)
    assert len(read_run(tmp_path / "run").predictions) == 12


def test_items_without_an_answer_have_a_status_and_no_numbers(tmp_path: Path) -> None:
    data = dataset_file(tmp_path, pairs=6)

    def some(sent: Sent) -> Response:
        (sent_question,) = sent.body["questions"].values()
        state, kind = sent.body["state"], sent_question["type"]
        if (state, kind) == ("Clerk 0: base.", "choice"):
            return Response({"detail": "exceeds the context length"}, 400)
        if (state, kind) == ("Clerk 1: base.", "noul"):
            return systemone(sent, answers={})
        if (state, kind) == ("Clerk 2: base.", "score"):
            answer = {"type": "score", "score": 1.0, "probabilities": {"0": 0.9, "1": 0.9}}
            return systemone(sent, answers={"decision": answer})
        if (state, kind) == ("Clerk 3: base.", "choice"):
            canonical = next(iter(sent_question["criteria"])) == "answer_0"
            return systemone(sent) if canonical else Response("gone", 500)
        return systemone(sent)

    with serving(some) as server:
        score_served(server, data, tmp_path / "run")
    run = read_run(tmp_path / "run")
    assert run.provenance.counts.unanswered == {"failed": 2, "missing": 1, "unsupported": 1}
    assert run.provenance.counts.coverage == pytest.approx(32 / 36)
    assert len(run.predictions) == 32
    rows = pl.read_parquet(tmp_path / "run" / "unanswered.parquet")
    unanswered = {one["id"]: (one["status"], one["reason"]) for one in rows.iter_rows(named=True)}
    assert unanswered["f0choice-base"][0] == "unsupported"
    assert_says(unanswered["f0choice-base"][1], "status 400", "context length")
    assert unanswered["f1noul-base"][0] == "missing"
    assert_says(unanswered["f2score-base"][1], "expected", "3 answers")
    assert unanswered["f3choice-base"][0] == "failed"
    assert_says(unanswered["f3choice-base"][1], "6 tries", "status 500: gone")
    assert set(rows["reference"]) == {1}
    # The file is sealed like the rows.
    rows.head(1).write_parquet(tmp_path / "run" / "unanswered.parquet")
    runner(main, "report")(tmp_path / "run", code=5)


def test_zero_after_rounding_is_censored_and_not_minus_infinity(tmp_path: Path) -> None:
    data = write_jsonl(tmp_path / "d.jsonl", [record("f1-base"), record("f1-counterfactual")])
    views = iter([[1.0, 0.0, 0.0], [0.0, 0.98, 0.02]])

    def rounded(sent: Sent) -> Response:
        names = ["answer_0", "answer_1", "answer_2"]
        p = dict(zip(names, next(views), strict=True))
        choice = max(names, key=p.__getitem__)
        answer = {"type": "choice", "choice": choice, "probabilities": p}
        return systemone(sent, answers={"decision": answer})

    with serving(rounded) as server:
        score_served(server, data, tmp_path / "run", k=1, concurrency=1)
    run = read_run(tmp_path / "run")
    assert run.provenance.recorded["rounding"] == {"decimals": 2, "views_with_zeros": 2}
    half = 0.005
    assert run.predictions.logits[:, 0].tolist() == [
        pytest.approx([0.0, math.log(half / 2), math.log(half / 2)]),
        pytest.approx([math.log(half), math.log(0.98), math.log(0.02)]),
    ]


def test_zeros_of_a_server_that_does_not_round_are_zeros(tmp_path: Path) -> None:
    data = write_jsonl(tmp_path / "d.jsonl", [record("a-base"), record("a-counterfactual")])
    views = iter([[1.0, 0.0, 0.0], [1 / 3, 1 / 3, 1 / 3]])

    def exact(sent: Sent) -> Response:
        p = dict(zip(sent.body["questions"]["decision"]["criteria"], next(views), strict=True))
        answer = {"type": "choice", "choice": "answer_0", "probabilities": p}
        return systemone(sent, answers={"decision": answer})

    with serving(exact) as server:
        score_served(server, data, tmp_path / "run", k=1, concurrency=1)
    run = read_run(tmp_path / "run")
    assert "rounding" not in run.provenance.recorded
    assert run.predictions.logits[0, 0].tolist() == [0.0, -math.inf, -math.inf]


def test_two_models_do_not_make_one_run(tmp_path: Path) -> None:
    data = dataset_file(tmp_path)
    names = iter(["v1"] * 5 + ["v2"] * 100)
    with (
        serving(lambda sent: systemone(sent, model=next(names))) as server,
        pytest.raises(ServerError, match="two models .*mine: v1 and v2"),
    ):
        score_served(server, data, tmp_path / "run", concurrency=1)


def test_a_resumed_run_refuses_answers_of_another_model(tmp_path: Path) -> None:
    data = dataset_file(tmp_path, pairs=14)  # two windows

    def first(sent: Sent) -> Response:
        late = "Clerk 13" in sent.body["state"]
        return Response("down", 401) if late else systemone(sent, model="v1")

    with serving(first) as server, pytest.raises(ServerError, match="401"):
        score_served(server, data, tmp_path / "run", concurrency=1)
    assert len(list((tmp_path / "run" / "parts").iterdir())) == 1
    with (
        serving(lambda sent: systemone(sent, model="v2")) as server,
        pytest.raises(ServerError, match="v1 and v2"),
    ):
        score_served(server, data, tmp_path / "run")


def test_a_run_that_began_without_a_probe_keeps_its_orders(tmp_path: Path) -> None:
    """This server ignores orders: with a probe, all views of its items would repeat the first."""
    data = dataset_file(tmp_path, pairs=14)  # two windows

    def first(sent: Sent) -> Response:
        late = "Clerk 13" in sent.body["state"]
        return Response("down", 401) if late else systemone(sent)

    with serving(first) as server, pytest.raises(ServerError, match="401"):
        score_served(server, data, tmp_path / "run", concurrency=1)
    with serving(systemone) as server:
        score_served(server, data, tmp_path / "run", probe=True)
    orders = read_run(tmp_path / "run").predictions.code_order
    assert {len({*map(tuple, views.tolist())}) for views in orders[::6]} == {4}


def test_a_server_that_fails_every_request_ends_the_run_soon(tmp_path: Path) -> None:
    data = dataset_file(tmp_path, pairs=10)
    with (
        serving(lambda _sent: Response({"error": "state is blank"}, 422)) as server,
        pytest.raises(ServerError, match="5 requests .* state is blank"),
    ):
        score_served(server, data, tmp_path / "run")
    assert len(server.posts) < 30


def test_a_run_without_any_answer_is_not_a_run(tmp_path: Path) -> None:
    data = dataset_file(tmp_path)
    refused = refuser(main)
    with serving(lambda _sent: Response({"error": "too long"}, 413)) as server:
        out = refused("score", "--server", server.url, "--model", "m", "--data", data,
                      "--out", tmp_path / "run", "--no-probe")  # fmt: skip
    assert "no item was answered" in out
    assert "status 413: too long" in out
    assert not (tmp_path / "run" / "predictions.parquet").exists()


def test_the_command_says_what_it_will_ask_and_stores_no_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_KEY", "s3cret-key")
    data = dataset_file(tmp_path)
    with serving(systemone) as server:
        result = runner(main, "score")(
            "--server", server.url, "--model", "mine", "--data", data, "--k", 2,
            "--out", tmp_path / "run", "--api-key-env", "MY_KEY",
            **with_settings(tmp_path, "score", requests_per_minute=60000),
        )  # fmt: skip
        assert server.posts[0].headers["authorization"] == "Bearer s3cret-key"
    orders = "choice 2, boolean 1, score 1"
    assert_says(result.stderr, "16 requests for 12 items", "systemone", orders, "17 to")
    assert " answers " in result.stdout.splitlines()[0]
    stored = b"".join(path.read_bytes() for path in (tmp_path / "run").rglob("*.*"))
    assert b"s3cret" not in stored + result.output.encode()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--server", "http://127.0.0.1:1"], "expected --model NAME"),
        (["adapter", "--server", "http://127.0.0.1:1", "--model", "m"], "ADAPTER: cannot be used"),
        (["adapter", "--model", "m"], "--model: cannot be used with an adapter"),
        (["--server", "localhost", "--model", "m"], "expected an address such as"),
    ],
)
def test_options_of_a_model_here_and_of_a_server_do_not_mix(
    words: list[str], message: str, tmp_path: Path
) -> None:
    data = dataset_file(tmp_path)
    code = 1 if message.endswith("as") else 2
    assert message in refuser(main)("score", *words, "--data", data, "--out", tmp_path, code=code)


# Of the 47 faults, those that a run meets; the others are of requests that it does not send, or of
# values that it does not read.
STOPS = {
    "wrong-route": "no supported API was detected.*status 404",
    "xssi-200": "5 requests in a row .* not strict JSON",
    "nan": "5 requests in a row .* NaN",
}
UNUSABLE = (
    *("choice-key-case", "choice-second", "choice-sum", "nfd-keys", "noul-range"),
    *("score-argmax", "score-keys-1-based", "score-sum"),
)
LEFT_OUT = {fault: {"failed": 3} for fault in UNUSABLE}
LEFT_OUT["no-null-description"] = {"unsupported": 3}
OTHER_MODELS = ("batch-leaks", "id-leaks", "order-leaks")


def mock_data(folder: Path) -> Path:
    """Choices, booleans and scores, with names that a careless server changes."""
    names = {"Café": "Coffee.", "Tea": None, "milk": "White."}
    kinds = [question(criteria=names), question("noul"), question("score")]
    target = {"choice": "Tea", "noul": True, "score": 1}
    rows = [
        record(
            f"{state}{kind['type']}-base",
            decision=kind,
            state=state,
            reference={"target": target[kind["type"]]},
        )
        for state in ("ab", "bc", "cd")
        for kind in kinds
    ]
    return write_jsonl(folder / "mock.jsonl", rows)


def logits_of(run: Path) -> dict[str, list[float]]:
    predictions = read_run(run).predictions
    return dict(
        zip(
            predictions.ids.tolist(),
            predictions.logits.reshape(len(predictions), -1).tolist(),
            strict=True,
        )
    )


@pytest.mark.slow
def test_no_fault_of_jevcompat_leads_to_a_wrong_number(tmp_path: Path) -> None:
    """The source of truth is the same mock server without the fault."""
    data = mock_data(tmp_path)
    mock = MockConfig()
    careful: dict[str, Any] = {"k": 2, "model": "mock", "concurrency": 1}
    with Running(mock) as running:
        server = Loopback(running.url, [])
        score_served(server, data, tmp_path / "healthy", **careful)
        healthy = logits_of(tmp_path / "healthy")
        assert len(healthy) == 9
        for fault in sorted(FAULTS):
            mock.faults, out = frozenset({fault}), tmp_path / fault
            if fault in STOPS:
                with pytest.raises(ServerError, match=STOPS[fault]):
                    score_served(server, data, out, **careful)
                continue
            score_served(server, data, out, **careful)
            counts = read_run(out).provenance.counts
            assert counts.unanswered == LEFT_OUT.get(fault, {}), fault
            if fault not in OTHER_MODELS:
                for item, logits in logits_of(out).items():
                    assert logits == pytest.approx(healthy[item]), fault


@pytest.mark.slow
def test_killed_runs_resume_and_ask_nothing_of_a_written_window_again(tmp_path: Path) -> None:
    data = dataset_file(tmp_path, pairs=32)  # 192 items: three windows
    requests: Counter[str] = Counter()

    def slowly(sent: Sent) -> Response:
        requests[json.dumps(sent.body)] += 1
        time.sleep(0.002)
        return systemone(sent)

    with serving(slowly) as server:
        score_served(server, data, tmp_path / "whole", k=2, concurrency=4)
        assert set(requests.values()) == {1}
        out, kills = tmp_path / "killed", 0
        while kills < 8:
            words = ["--server", server.url, "--model", "mine", "--data", data, "--k", 2]
            requests.clear()
            before = set((out / "parts").glob("part-*.parquet"))
            process = started("score", *words, "--out", out, "--no-probe")
            while not requests and process.is_alive():
                time.sleep(0.005)
            time.sleep(0.02 + 0.05 * (kills % 5))
            if not process.is_alive():
                break
            process.kill()
            process.join()
            written = {part.name for part in before}
            states = {json.loads(body)["state"] for body in requests}
            for number, start in enumerate(range(0, 192, 64)):
                if f"part-{number:06d}.parquet" in written:
                    window = read_dataset(data, k=2).records[start : start + 64]
                    inside = {one.state for one in window[6:-6]}
                    assert not states & inside
            kills += 1
        assert kills >= 3
        score_served(server, data, out, k=2)
    whole = pl.read_parquet(tmp_path / "whole" / "predictions.parquet")
    assert whole.equals(pl.read_parquet(out / "predictions.parquet"))
