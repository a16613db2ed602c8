"""Views taken one by one through a server: which are asked, and runs that were killed."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path

import polars as pl
import pytest
from adaptive_runs import taken_rows
from builders import question, record, write_jsonl
from commands import refuser, runner, started
from messages import assert_says

from pact_cli.main import main
from pact_eval.data.records import read_records
from pact_eval.runs.folder import read_run
from pact_eval.runs.view_rule import ViewRule
from pact_eval.scoring.servers.request import ServerRequest
from pact_eval.scoring.servers.source import server_source
from pact_eval.scoring.windows import read_dataset, score_windows
from scoring.servers.loopback import (
    Loopback,
    Response,
    Sent,
    serving,
    softmax_of_names,
    systemone,
)

RULE = ViewRule(threshold=0.3, risk=0.05, full_share=0.2)
OF_A_PROCESS = ("created", "finished", "wall_seconds", "command_line", "seal", "server")


def dataset_file(folder: Path, families: int, name: str = "holdout") -> Path:
    """Pairs of choices of three and four answers, and of booleans."""
    kinds = [question(n=3), question(n=4), question("noul")]
    return write_jsonl(
        folder / f"{name}.jsonl",
        [
            record(
                f"{name}{family}-{variant}",
                decision=kinds[family % 3],
                state=f"{name} {family} {variant}",
            )
            for family in range(families)
            for variant in ("base", "counterfactual")
        ],
    )


def order_dependent(sent: Sent) -> Response:
    """Answers a choice by its names and by which of them comes first."""
    (decision,) = sent.body["questions"].values()
    if decision["type"] != "choice":
        return systemone(sent)
    names = list(decision["criteria"])
    p = dict(zip(names, softmax_of_names(names, sent.body["state"]), strict=True))
    p = {name: share + 0.3 * (name == names[0]) for name, share in p.items()}
    p = {name: share / 1.3 for name, share in p.items()}
    answer = {"type": "choice", "choice": max(p, key=p.__getitem__), "probabilities": p}
    return systemone(sent, answers={"decision": answer})


def score(server: Loopback, data: Path, out: Path, rule: ViewRule | None = None) -> None:
    from dataclasses import replace

    request = ServerRequest(urls=(server.url,), model="mine", probe=False)
    dataset = replace(read_dataset(data, k=4), rule=rule)
    score_windows(server_source(request), dataset, out, labels={})


def test_the_views_are_those_of_the_rule_and_nothing_else_is_asked(tmp_path: Path) -> None:
    data = dataset_file(tmp_path, 15)
    with serving(order_dependent) as server:
        score(server, data, tmp_path / "full")
        before = len(server.posts)
        score(server, data, tmp_path / "adaptive", RULE)
        requests = len(server.posts) - before
    full, adaptive = (
        pl.read_parquet(tmp_path / name / "predictions.parquet") for name in ("full", "adaptive")
    )
    expected = taken_rows(full, RULE)
    assert adaptive.equals(expected)
    assert requests == len(expected) < before
    views = adaptive.group_by("id").len()["len"].to_list()
    assert len(set(views)) > 1
    settings = read_run(tmp_path / "adaptive").settings
    assert settings["views"] == RULE.to_json()
    assert settings["k"] == 4


def test_a_later_view_without_an_answer_leaves_the_item_without_numbers(tmp_path: Path) -> None:
    data = dataset_file(tmp_path, 6)

    def only_in_canonical_order(sent: Sent) -> Response:
        (decision,) = sent.body["questions"].values()
        first = next(iter(decision.get("criteria") or {"answer_0": None}))
        late = decision["type"] == "choice" and first != "answer_0"
        return (
            Response({"detail": "exceeds the context length"}, 400)
            if late
            else order_dependent(sent)
        )

    with serving(only_in_canonical_order) as server:
        score(server, data, tmp_path / "run", ViewRule(1e9, 0.05, full_share=0.0))
    run = read_run(tmp_path / "run")
    assert run.provenance.counts.unanswered == {"unsupported": 8}
    assert set(run.predictions.n_choices.tolist()) == {2}


def rounding(sent: Sent) -> Response:
    """Answers a choice to two decimals: its first answer is sure in every second context."""
    (decision,) = sent.body["questions"].values()
    names = list(decision["criteria"])
    shares = softmax_of_names(names, sent.body["state"])
    if int(sent.body["state"].split()[1]) % 2:
        shares = [1.0, *[0.0] * (len(names) - 1)]
    p = {name: round(share, 2) for name, share in zip(names, shares, strict=True)}
    answer = {"type": "choice", "choice": max(p, key=p.__getitem__), "probabilities": p}
    return systemone(sent, answers={"decision": answer})


def choices_file(folder: Path, families: int, name: str = "holdout") -> Path:
    """Pairs of choices of three answers."""
    return write_jsonl(
        folder / f"{name}.jsonl",
        [
            record(f"{name}{family}-{variant}", state=f"{name} {family} {variant}")
            for family in range(families)
            for variant in ("base", "counterfactual")
        ],
    )


@pytest.mark.slow
def test_probabilities_rounded_to_zero_are_no_infinite_margin(tmp_path: Path) -> None:
    data = choices_file(tmp_path, 20)
    # 1.00 and 0.00 are log(1 / 0.0025) nats apart at most: a firmness of 6.9 after one of four.
    rule = ViewRule(threshold=8.0, risk=0.05, full_share=0.0, decimals=2)
    with serving(rounding) as server:
        score(server, data, tmp_path / "full")
        score(server, data, tmp_path / "adaptive", rule)
    full, adaptive = (
        pl.read_parquet(tmp_path / name / "predictions.parquet") for name in ("full", "adaptive")
    )
    assert adaptive.equals(taken_rows(full, rule))
    at_first = adaptive.filter(pl.col("view") == 0)
    sure = at_first.filter(pl.col("logits").list.max() == 0.0)["id"]
    assert len(sure) == 20
    assert (adaptive.filter(pl.col("id").is_in(sure)).group_by("id").len()["len"] > 1).all()
    assert read_run(tmp_path / "adaptive").provenance.rounding.decimals == 2


@pytest.mark.slow
def test_the_precision_of_the_server_is_that_of_the_fit(tmp_path: Path) -> None:
    data, calibration = choices_file(tmp_path, 10), choices_file(tmp_path, 24, "calibration")
    with serving(rounding) as server:
        score(server, calibration, tmp_path / "fit")
        runner(main)(*command(server, data, tmp_path / "fit", tmp_path / "run"))
    rule = read_run(tmp_path / "run").provenance.view_rule
    assert rule is not None
    assert rule.decimals == 2
    with serving(order_dependent) as exact:
        words = command(exact, data, tmp_path / "fit", tmp_path / "other")
        assert_says(refuser(main)(*words), "not rounded", "--views-from", "2 decimals")
        score(exact, calibration, tmp_path / "exact-fit")
    with serving(rounding) as server:
        words = command(server, data, tmp_path / "exact-fit", tmp_path / "third")
        assert_says(refuser(main)(*words), "rounded to 2 decimals", "--views-from", "risk")
    assert not list((tmp_path / "third" / "parts").glob("part-*"))


def command(server: Loopback, data: Path, fit: Path, out: Path, *more: str) -> list[str]:
    words = ["score", "--server", server.url, "--model", "mine", "--no-probe", "--data", data]
    adaptive = ["--views", "adaptive", "--views-from", fit, "--risk", "0.1"]
    return [*map(str, (*words, "--k", 4, "--out", out, *adaptive, "--full-share", "0.2")), *more]


@pytest.fixture(scope="module")
def fit(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of all views on other families."""
    folder = tmp_path_factory.mktemp("fit")
    with serving(order_dependent) as server:
        score(server, dataset_file(folder, 24, "calibration"), folder / "run")
    return folder / "run"


@pytest.mark.slow
@pytest.mark.posix
def test_a_killed_run_is_resumed_to_the_same_bytes(tmp_path: Path, fit: Path) -> None:
    data = dataset_file(tmp_path, 64)  # two windows
    killed = tmp_path / "killed"

    def slowly(sent: Sent) -> Response:
        time.sleep(0.003)
        return order_dependent(sent)

    with serving(slowly) as server:
        runner(main)(*command(server, data, fit, tmp_path / "undisturbed"))
        process = started(*command(server, data, fit, killed))
        until = time.monotonic() + 60
        while not len(list((killed / "parts").glob("part-*"))) and time.monotonic() < until:
            time.sleep(0.005)
        os.kill(process.pid or 0, signal.SIGKILL)
        process.join()
        assert process.exitcode == -signal.SIGKILL
        assert not (killed / "predictions.parquet").exists()
        assert len(list((killed / "parts").glob("part-*"))) >= 1
        runner(main)(*command(server, data, fit, killed))
        refused = refuser(main)(*command(server, data, fit, killed, "--risk", "0.3"))
    assert_says(refused, "other settings", "views.risk")
    rows = [folder / "predictions.parquet" for folder in (killed, tmp_path / "undisturbed")]
    assert rows[0].read_bytes() == rows[1].read_bytes()
    recorded = [json.loads((path.parent / "run.json").read_bytes()) for path in rows]
    for values in recorded:
        for name in OF_A_PROCESS:
            values.pop(name)
    assert recorded[0] == recorded[1]


@pytest.mark.parametrize(
    ("words", "code", "parts"),
    [
        (("--views", "adaptive"), 2, ("--views adaptive", "--views-from RUN")),
        (("--risk", "0.1"), 2, ("--risk", "changes nothing", "--views adaptive")),
        (("--views", "adaptive", "--views-from", "FIT", "--risk", "0.01"), 1, ("99 families",)),
        (("--views", "adaptive", "--views-from", "FIT", "--risk", "1.5"), 2, ("--risk", "below 1")),
        (("--views", "adaptive", "--views-from", "FIT", "--k", "8"), 1, ("--k 8", "has 4")),
        (("--views", "adaptive", "--views-from", "none"), 1, ("none", "no such run folder")),
    ],
)
def test_options_that_do_not_go_together(
    tmp_path: Path, fit: Path, words: tuple[str, ...], code: int, parts: tuple[str, ...]
) -> None:
    data = dataset_file(tmp_path, 4)
    chosen = [str(fit) if word == "FIT" else word for word in words]
    with serving(order_dependent) as server:
        base = ["score", "--server", server.url, "--model", "mine", "--no-probe"]
        out = ["--data", str(data), "--out", str(tmp_path / "run")]
        assert_says(refuser(main)(*base, *out, *chosen, code=code), *parts)
        assert server.posts == []


def test_a_rule_is_not_chosen_on_the_families_that_it_is_applied_to(
    tmp_path: Path, fit: Path
) -> None:
    data = dataset_file(tmp_path, 4, "calibration")
    assert {item.family for item in read_records(data)} <= set(
        read_run(fit).predictions.family.tolist()
    )
    with serving(order_dependent) as server:
        refused = refuser(main)(*command(server, data, fit, tmp_path / "run"), code=3)
    assert_says(refused, "--views-from", "families of the data", "other families")


def test_a_rule_of_another_server_is_refused(tmp_path: Path, fit: Path) -> None:
    data = dataset_file(tmp_path, 4)
    with serving(order_dependent) as server:
        words = command(server, data, fit, tmp_path / "run")
        words[words.index("mine")] = "other"
        assert_says(refuser(main)(*words), "same model", "server")
