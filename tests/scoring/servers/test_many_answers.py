"""Questions with more answers than letters: a server that letters them is asked; a model here not.

The source of truth is the server of the test, whose probabilities depend on names alone.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from builders import question, record, write_jsonl
from commands import runner

from pact_cli.main import main
from pact_eval.data.records import parse_field, parse_record
from pact_eval.errors import PromptError, RequestError, RunError
from pact_eval.prompts.encoding import Encoder
from pact_eval.prompts.nimble import NIMBLE
from pact_eval.runs.folder import read_run
from pact_eval.runs.rows import check_values
from pact_eval.scoring.contracts import load_tokenizer
from scoring.conftest import MODEL
from scoring.servers.loopback import score_served, serving, softmax_of_names, systemone


def scored(folder: Path, answers: int, pairs: int = 3) -> Path:
    rows = [
        record(
            f"f{pair}-{variant}",
            decision=question(n=answers),
            state=f"Clerk {pair}: {variant}.",
            reference={"target": f"answer_{(pair * 37) % answers}"},
        )
        for pair in range(pairs)
        for variant in ("base", "counterfactual")
    ]
    data = write_jsonl(folder / f"{answers}.jsonl", rows)
    with serving(systemone) as server:
        return score_served(server, data, folder / "run", k=3)


@pytest.mark.slow
def test_a_run_with_many_answers_supports_what_every_run_does(tmp_path: Path) -> None:
    answers = 255
    run = scored(tmp_path, answers)
    predictions = read_run(run).predictions
    expected = softmax_of_names(
        [f"answer_{n}" for n in range(answers)], json.dumps("Clerk 1: base.")
    )
    for view in predictions.logits[2]:
        assert np.exp(view) == pytest.approx(expected)
    assert {tuple(sorted(order)) for order in predictions.code_order[2].tolist()} == {
        tuple(range(answers))
    }
    ran = runner(main)
    assert "| #30 " in ran("report", run, "--full").stdout
    letters = json.loads(ran("report", run, "--json").stdout)["letters"]
    assert (letters["codes"][25], letters["codes"][26]) == ("Z", "#27")
    assert sum(letters["right_answer"]) == letters["item_views"] == 18
    ran("report", run, "--html", tmp_path / "page.html")
    ran("compare", run, run)
    calibrator = tmp_path / "calibrator.json"
    ran("calibrate", run, "--force", "--mode", "scalar", "--out", calibrator)
    assert json.loads(calibrator.read_text())


def test_a_model_here_has_26_letters() -> None:
    field = parse_field("decision", question(n=27))
    with pytest.raises(RequestError, match="at most 26 .*got 27"):
        NIMBLE.messages("Open.", [field], "decision", tuple(range(27)))
    long: Any = parse_record(record("many", decision=question(n=27)), line=7)
    encoder = Encoder(load_tokenizer(MODEL), NIMBLE)
    for refuses in (encoder.check_lengths, encoder.encode):
        with pytest.raises(PromptError, match=r"line 7 \(id many\): 27 answers"):
            refuses([long], 1, 0)


def test_more_than_255_answers_are_refused_and_not_tried() -> None:
    with pytest.raises(ValueError, match="expected 2 to 255 answers, got 100000"):
        parse_field("decision", question(criteria={f"a{n}": None for n in range(10**5)}))


@pytest.mark.parametrize("answers", [63, 200])
def test_an_order_with_an_answer_twice_is_refused(answers: int) -> None:
    order = np.random.default_rng(0).permutation(answers)
    columns = {"n_choices": [3, answers], "code_order": [[2, 0, 1], order.tolist()]}
    check_values(pl.DataFrame(columns), 1)
    for place in (0, answers - 1):
        wrong = order.copy()
        wrong[place] = order[(place + 1) % answers]
        with pytest.raises(RunError, match="each answer's index once"):
            check_values(pl.DataFrame(columns | {"code_order": [[2, 0, 1], wrong.tolist()]}), 1)
