"""A letter prior shipped with an export, and removed from what a real server returns."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2
import numpy as np
import pytest
from adapters import MODEL, copied
from commands import refuser, runner
from messages import assert_says
from transformers_server import serving

from pact_cli.main import main
from pact_eval.data.records import read_records
from pact_eval.letter_priors import fit_letter_prior
from pact_eval.runs.folder import read_run

run, refused = runner(main), refuser(main)
DATA = MODEL.parent / "data"
HOLDOUT = DATA / "holdout.jsonl"
TEMPLATES = Path(__file__).parents[2] / "docs" / "templates.md"
ITEMS = 12
TYPES = {"choice": "choice", "boolean": "noul", "score": "score"}


def documented_function(text: str) -> Callable[..., dict[str, float]]:
    """The function in a Markdown text, as a reader would copy it."""
    (code,) = re.findall(r"```python\n(import numpy as np.*?)```", text, flags=re.DOTALL)
    function = code[code.index("def ") :].rstrip()
    assert len(function.splitlines()) <= 20
    assert re.findall(r"^import .*|^from .*", code, flags=re.MULTILINE) == ["import numpy as np"]
    names: dict[str, Any] = {}
    exec(code, names)  # noqa: S102 -- the function of our own page
    return names["without_letter_prior"]  # type: ignore[no-any-return]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The adapter, a run on other families for the prior, a local run, and an export."""
    home = tmp_path_factory.mktemp("prior")
    adapter = copied(home / "adapter")
    lines = HOLDOUT.read_text(encoding="utf-8").split("\n")  # texts may have other line ends
    (home / "calib.jsonl").write_text("\n".join(lines[ITEMS : ITEMS + 80]), encoding="utf-8")
    (home / "eval.jsonl").write_text("\n".join(lines[:ITEMS]), encoding="utf-8")
    score = ("score", adapter, "--allow", "other-data")
    run(*score, "--data", home / "calib.jsonl", "--k", 3, "--out", home / "fit")
    run(*score, "--data", home / "eval.jsonl", "--k", 1, "--out", home / "local")
    prior = ("--letter-prior", home / "fit")
    shipped = ("--layout", "with-base", *prior, "--data", home / "eval.jsonl")
    exported = run("export", adapter, "--out", home / "model", *shipped)
    assert_says(exported.stdout, "letter_prior.json", "transformers does not read")
    return home


@pytest.mark.slow
def test_the_file_has_the_prior_and_its_fit(home: Path) -> None:
    prior = json.loads((home / "model" / "letter_prior.json").read_bytes())
    fit = read_run(home / "fit").predictions
    assert prior["format"] == "pact-letter-prior-1"
    for count, values in fit_letter_prior(fit, "additive").log_prior.items():
        assert prior["log_prior"][str(count)] == pytest.approx(values)
    assert set(prior["fit"]["families"]) == set(fit.family.tolist())
    assert "letter_prior" not in json.loads((home / "model" / "decision.json").read_bytes())


@pytest.mark.slow
def test_the_function_gives_the_local_decoding_of_what_a_server_returns(home: Path) -> None:
    function, of_readme = (
        documented_function(text.read_text(encoding="utf-8"))
        for text in (TEMPLATES, home / "model" / "README.md")
    )
    assert of_readme.__code__.co_code == function.__code__.co_code
    prior = json.loads((home / "model" / "letter_prior.json").read_bytes())
    fitted = fit_letter_prior(read_run(home / "fit").predictions, "additive")
    local = read_run(home / "local").predictions
    expected = np.exp(fitted.removed(local)[:, 0])
    records = {record.id: record for record in read_records(home / "eval.jsonl")}
    largest = moved = 0.0
    with serving(home / "model") as url:
        for row, name in enumerate(local.ids.tolist()):
            probabilities, order = _asked(url, home / "model", records[name])
            decoded = function(probabilities, order, prior)
            ours = expected[row, : len(order)]
            largest = max(largest, float(np.abs([*decoded.values()] - ours).max()))
            raw = np.array([probabilities[answer] for answer in order])
            moved = max(moved, float(np.abs(raw - ours).max()))
    assert largest <= 1e-5
    assert moved > 0.01  # the prior is not nothing


def _asked(url: str, model: Path, record: Any) -> tuple[dict[str, float], list[str]]:
    """Ask a server as any client would; the probabilities by answer, in the order of letters."""
    line = next(
        value
        for value in map(json.loads, HOLDOUT.read_text(encoding="utf-8").split("\n"))
        if value["id"] == record.id
    )
    question = line["input"]["questions"]["decision"]
    kind = {"boolean": "noul"}.get(question["type"], question["type"])
    decision = {**question, "type": kind}
    body = {
        "model": str(model),
        "state": line["input"]["state"],
        "questions": {"decision": decision},
    }
    reply = httpx2.post(f"{url}/v1/systemone", json=body, timeout=120, trust_env=False)
    answer = reply.json()["answers"]["decision"]
    if kind == "noul":
        return {"false": 1 - answer["noul"], "true": answer["noul"]}, ["false", "true"]
    probabilities = answer["probabilities"]
    if kind == "score":
        return probabilities, [str(level) for level in range(len(question["criteria"]))]
    return probabilities, list(question["criteria"])


def test_the_function_keeps_other_numbers_of_answers_and_zeros() -> None:
    function = documented_function(TEMPLATES.read_text(encoding="utf-8"))
    prior = {"log_prior": {"2": [0.5, -0.5]}}
    three = {"a": 0.2, "b": 0.3, "c": 0.5}
    assert function(three, ["a", "b", "c"], prior) == three
    assert function({"a": 0.0, "b": 1.0}, ["a", "b"], prior) == {"a": 0.0, "b": 1.0}
    # By hand: 0.5 / e^0.5 against 0.5 / e^-0.5.
    even = function({"a": 0.5, "b": 0.5}, ["a", "b"], prior)
    assert even["a"] == pytest.approx(1 / (1 + np.e))


@pytest.mark.slow
def test_a_prior_of_the_families_of_the_data_is_refused(home: Path) -> None:
    message = refused(
        "export", home / "adapter", "--out", home / "x", "--data", home / "calib.jsonl",
        "--letter-prior", home / "fit", code=3,
    )  # fmt: skip
    families = {record.family for record in read_records(home / "calib.jsonl")}
    assert_says(message, "fit", f"fitted on {len(families)} families", "other families")
    assert not (home / "x").exists()


@pytest.mark.slow
def test_a_run_that_shows_no_letter_prior_is_refused(home: Path) -> None:
    words = ("export", home / "adapter", "--out", home / "x", "--letter-prior")
    assert_says(refused(*words, home / "local"), "local", "no letter prior", "larger --k")
