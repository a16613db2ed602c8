"""Each server that others wrote, from the probe to a resumed run, against the same weights here."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from builders import question, record, write_jsonl
from commands import refuser, runner, started
from decision_models import write_decision_folder
from foreign_servers import DECIDER_CONFIG, FOREIGN_SERVERS, KEY, ForeignServer
from tolerances import LOGIT

from pact_cli.main import main
from pact_eval.runs.folder import Run, read_run

pytestmark = [pytest.mark.slow, pytest.mark.posix]

run, refused = runner(main), refuser(main)
KINDS = {"choice": question("choice", n=4), "noul": question("noul"), "score": question("score")}


def records(folder: Path) -> Path:
    """Two windows: 96 items of three kinds."""
    rows = [
        record(f"{kind}{n}-base", decision=asked, state=f"Clerk {n}: seal {n * 7} broken.")
        for n in range(32)
        for kind, asked in KINDS.items()
    ]
    return write_jsonl(folder / "data.jsonl", rows)


def log_probabilities(served: Run) -> np.ndarray[Any, Any]:
    """Of the answers among themselves, (n, K, C); NaN where there is none."""
    logits = np.where(np.isfinite(served.predictions.logits), served.predictions.logits, np.nan)
    return np.asarray(logits - np.log(np.nansum(np.exp(logits), axis=-1, keepdims=True)))


def difference(one: Run, other: Run) -> float:
    """Return the largest difference of a log-probability: of choices in all orders, else in one."""
    a, b = one.predictions, other.predictions
    assert a.ids.tolist() == b.ids.tolist()
    choices = a.n_choices == 4
    assert (a.code_order == b.code_order)[choices].all()
    pair = log_probabilities(one), log_probabilities(other)
    pairs = [(log[choices], log[~choices, :1]) for log in pair]
    return max(float(np.nanmax(np.abs(x - y))) for x, y in zip(*pairs, strict=True))


def killed_in_the_second_window(words: list[object], out: Path) -> None:
    process = started("score", *words, "--out", out, "--quiet")
    while process.is_alive() and not list((out / "parts").glob("part-*.parquet")):
        time.sleep(0.002)
    process.kill()
    process.join()
    assert not (out / "predictions.parquet").exists(), "the run was complete before it was killed"


@pytest.mark.parametrize(
    "server", [pytest.param(each, id=each.name, marks=each.needed) for each in FOREIGN_SERVERS]
)
def test_a_server_of_others(
    server: ForeignServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    record_property: Callable[[str, object], None],
) -> None:
    data, out = records(tmp_path), tmp_path / "served"
    model = server.model(tmp_path / "model")
    (tmp_path / "decider.json").write_text(json.dumps(DECIDER_CONFIG))
    monkeypatch.setenv("PACT_KEY", KEY)
    monkeypatch.setenv("WRONG_KEY", "another")
    with server.running(model, tmp_path) as url:
        asked = ["--server", url, "--model", server.asked.format(model=model)]
        asked += [option.format(model=model) for option in server.options]
        keyed = [*asked, "--api-key-env", "PACT_KEY"]
        found = json.loads(run("score", "--probe", "--json", *keyed).stdout)["probe"]
        assert (found["wire"], found["unanswered"], found["floor"]["flips"]) == (server.wire, {}, 0)
        if server.keyed:
            wrong = [*asked, "--api-key-env", "WRONG_KEY"]
            message = refused("score", *wrong, "--data", data, "--out", tmp_path / "no")
            assert "401" in message
            assert "WRONG_KEY" in message

        words = [*keyed, "--data", data, "--k", 4]
        killed_in_the_second_window(words, out)
        run("score", *words, "--out", out)
        run("score", *words, "--out", tmp_path / "again")
        schema = tmp_path / "schema.json"
        schema.write_text(json.dumps(KINDS))
        decided = run("decide", *keyed, "--context", "Clerk.", "--schema", schema, "--json")
    assert [*json.loads(decided.stdout)["answers"]] == [*KINDS]
    served, noise = read_run(out), found["floor"]["largest_tv"]
    assert served.provenance.counts.unanswered == {}
    assert difference(served, read_run(tmp_path / "again")) <= LOGIT + noise
    off: float | None = None
    if server.contract is not None:
        off = difference(served, scored_here(server, model, data, tmp_path))
        assert off < LOGIT
    record_property("server", (server.name, server.version(), server.wire, off))


def scored_here(server: ForeignServer, model: Path, data: Path, folder: Path) -> Run:
    """Score what a server has loaded, on the prompts that it builds."""
    contract: str | Path | None = None
    if isinstance(server.contract, dict):
        contract = write_decision_folder(folder / "contract", server.contract)
    else:
        contract = server.contract
    base = model if model.is_dir() else model.parent
    words = ["--base-model", base, "--no-adapter", "--contract", contract, "--dtype", "fp32"]
    run("score", *words, "--data", data, "--k", 4, "--out", folder / "local")
    return read_run(folder / "local")
