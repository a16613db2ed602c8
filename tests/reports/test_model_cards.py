"""Model cards: against huggingface_hub as a reader, and next to whatever a card already has."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from commands import refuser, runner
from conclusions.test_data import LEAKED, leaking, scored
from huggingface_hub import ModelCard as HubCard
from messages import assert_says
from run_frames import ablated_rows, edit_run, rows, write_run

from pact_cli.main import main
from pact_eval.errors import InputError
from pact_eval.runs.folder import read_any_run
from pact_eval.runs.seal import seal_digest
from pact_reports.model_card import FrontMatter

run, refused = runner(main), refuser(main)
FAST = ("--resamples", 200)
OTHERS = """\
---
# who may use it
license: mit
language: [en, de]
model-index:
- name: theirs
  results:
  - task: {type: text-classification}
    dataset: {type: glue, name: GLUE, revision: abc}
    metrics:
    - {type: accuracy, value: 0.9, note: by hand}
- name: another
  results: []

# after the results
date: 2026-11-26
pipeline_tag: text-classification
---

# Theirs

Text with a table:

| a | b |
| - | - |

---

The end, without a line feed."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A run on the file `eval.jsonl`."""
    made = write_run(tmp_path / "mine", rows(1), arm="mine", seed=17)
    return edit_run(made, data="data/eval.jsonl", adapter="adapters/mine")


def metadata(card: Path) -> Any:
    return yaml.safe_load(card.read_text("utf-8").split("---\n")[1])


def test_the_hub_reads_the_numbers_of_the_report(folder: Path, tmp_path: Path) -> None:
    card = tmp_path / "README.md"
    text = run("paper", folder, *FAST, "--model-card", card, "--json").stdout
    everything = json.loads(text)["groups"][0]["metrics"]
    read = HubCard.load(card)
    assert read.data.model_name == "mine"
    assert {"accuracy", "pair_accuracy", "nll_nats", "ece", "flip_rate"} <= {
        result.metric_type for result in read.data.eval_results
    }
    seal = read_any_run(folder).seal
    for result in read.data.eval_results:
        estimate = everything[result.metric_type]
        assert result.metric_value == pytest.approx(estimate["value"], rel=1e-12)
        ends = [result.metric_args.get(end) for end in ("low", "high")]
        expected = [estimate["low"], estimate["high"]]  # the answer masses are all alike
        assert ends == (pytest.approx(expected, rel=1e-12) if None not in expected else expected)
        assert (result.dataset_type, result.dataset_name) == ("eval", "eval.jsonl")
        assert result.dataset_revision == "0" * 64
        assert result.dataset_args["seal"] == seal_digest(seal)
        assert result.verified is None


@pytest.mark.parametrize(("end", "mark"), [("\n", ""), ("\r\n", "\ufeff")])
def test_a_card_keeps_everything_else(folder: Path, tmp_path: Path, end: str, mark: str) -> None:
    card = tmp_path / "README.md"
    text = mark + OTHERS.replace("\n", end)
    card.write_bytes(text.encode())
    run("paper", folder, *FAST, "--model-card", card)
    written = card.read_bytes().decode()
    assert written.startswith(f"{mark}---{end}# who may use it{end}license: mit{end}")
    assert written.count("\n") == written.count(end)
    before, _, after = text.partition("model-index:")
    assert written.startswith(before)
    assert after[after.index(f"{end}# after the results") :] in written
    old = yaml.safe_load(OTHERS.split("---\n")[1])
    new = yaml.safe_load(written.removeprefix("\ufeff").replace("\r\n", "\n").split("---\n")[1])
    assert list(new) == list(old)
    ours = new["model-index"][0]["results"].pop()
    assert ours["dataset"]["name"] == "eval.jsonl"
    assert new == old


@pytest.mark.parametrize(
    "text",
    [
        OTHERS,
        "---\nbase: &a {b: 1}\nmodel-index: []\nother: *a\n---\ntext\n",
        "---\nlicense: null\ntags: [a, a]\n---\nno end of line",
    ],
)
def test_writing_twice_changes_nothing(folder: Path, tmp_path: Path, text: str) -> None:
    card = tmp_path / "README.md"
    card.write_bytes(text.encode())
    result = run("paper", folder, *FAST, "--model-card", card)
    assert f"wrote {card}" in result.stdout
    once, time = card.read_bytes(), card.stat().st_mtime_ns
    again = run("paper", folder, *FAST, "--model-card", card)
    assert f"wrote {card}" not in again.stdout
    assert_says(again.stderr, str(card), "unchanged")
    assert (card.read_bytes(), card.stat().st_mtime_ns) == (once, time)
    kept = dict(metadata(card))
    (ours, *_) = kept.pop("model-index")[0]["results"][::-1]
    assert ours["dataset"]["name"] == "eval.jsonl"
    fresh = text.replace("\r\n", "\n").split("---\n")
    old = (yaml.safe_load(fresh[1]) or {}) if len(fresh) > 2 else {}
    assert kept == {key: value for key, value in old.items() if key != "model-index"}
    assert len(HubCard.load(card).data.eval_results) >= 10


@pytest.mark.slow
def test_results_on_the_same_data_are_replaced_and_others_stay(
    folder: Path, tmp_path: Path
) -> None:
    card = tmp_path / "README.md"
    other = write_run(tmp_path / "other", rows(2), arm="mine", seed=17)
    edit_run(other, data="data/march.jsonl")
    newer = write_run(tmp_path / "newer", rows(3), arm="mine", seed=18)
    edit_run(newer, data="data/eval.jsonl")
    for place in (folder, other, newer):
        run("paper", place, *FAST, "--model-card", card)
    results = metadata(card)["model-index"][0]["results"]
    assert [result["dataset"]["name"] for result in results] == ["eval.jsonl", "march.jsonl"]
    seals = [seal_digest(read_any_run(place).seal) for place in (newer, other)]
    assert [result["dataset"]["args"]["seal"] for result in results] == seals
    text = card.read_text("utf-8")
    assert (text.count("## Evaluation on eval.jsonl"), text.count("seed 17,")) == (1, 1)
    assert [text.count(seal) for seal in seals] == [2, 2]


@pytest.mark.slow
def test_a_leaking_run_says_so_first_in_the_text_and_in_every_result(tmp_path: Path) -> None:
    holdout = leaking(tmp_path / "data") / "holdout.jsonl"
    leaked = scored(tmp_path / "leaked", holdout, 1, leaked=True)
    card, clean = tmp_path / "README.md", tmp_path / "clean.md"
    run("paper", leaked, *FAST, "--model-card", card, code=3)
    text = HubCard.load(card).text
    section = text[text.index("## Evaluation") :]
    (leak, answer, conclusions) = section.split("\n\n")[1:4]
    assert leak.startswith(f"**Leak: {2 * LEAKED} items")
    assert "train.jsonl" in leak
    assert answer.startswith(f"**Leak of {2 * LEAKED} items; leaked answers")
    assert "\n- Data: leak: " in conclusions
    assert str(tmp_path) not in text
    names = [result.metric_name for result in HubCard.load(card).data.eval_results]
    assert all(name.startswith(f"Leak of {2 * LEAKED} items; ") for name in names)
    run("paper", leaked, *FAST, "--without-leaks", "--model-card", clean)
    assert "Leak of" not in clean.read_text("utf-8")
    assert_says(clean.read_text("utf-8").lower(), "left out", "all numbers")


BROKEN = {
    "no end": ("---\nlicense: mit\n", 1, "second line ---"),
    "not YAML": ("---\nlicense: mit\ntags: [a\n---\n", 4, "YAML"),
    "a tab": ("---\nlicense: mit\n\tname: b\n---\n", 3, "YAML"),
    "no such month": ("---\nlicense: mit\ndate: 2026-13-45\n---\n", 2, "YAML"),
    "a list": ("---\n- license\n---\n", 2, "keys with values"),
    "deep": (f"---\na: {'[' * 1000}\n---\n", 2, "YAML"),
    "a text as index": ("---\nlicense: mit\nmodel-index: mine\n---\n", 3, "a list of models"),
    "no results": ("---\nmodel-index:\n- name: a\n---\n", 2, "a list of models"),
    "two indices": ("---\nmodel-index: []\nmodel-index: []\n---\n", 3, "twice"),
}


@pytest.mark.parametrize(("text", "line", "problem"), BROKEN.values(), ids=BROKEN)
def test_broken_front_matter_is_refused_with_its_line(text: str, line: int, problem: str) -> None:
    with pytest.raises(InputError, match=rf"^README.md:{line}: ") as caught:
        FrontMatter.of(text, Path("README.md")).with_result({"a": 1}, "m", lambda _: False)
    assert_says(caught.value, problem, "remove the front matter")


def test_a_broken_card_is_not_written(folder: Path, tmp_path: Path) -> None:
    card = tmp_path / "README.md"
    text, line, _ = BROKEN["no end"]
    card.write_text(text)
    assert f"{card}:{line}: " in refused("paper", folder, *FAST, "--model-card", card, code=1)
    assert card.read_text() == text


UNTOUCHED = {
    "braces": ("{license: mit, model-index: []}\n", 2, "plain top-level key, or remove it"),
    "braces without": ("{license: mit}\n", 2, "plain lines KEY: VALUE"),
    "indented": ("  version: 1.10 # a\n  model-index: []\n", 3, "plain top-level key"),
    "indented without": ("  version: 1.10 # a\n", 2, "plain lines KEY: VALUE"),
    "an end": ("version: 1.10\n...\n", 2, "without ... after them"),
    "an anchor": ("model-index: &a []\nother: *a\n", 2, "plain top-level key"),
}


@pytest.mark.parametrize(("text", "line", "remedy"), UNTOUCHED.values(), ids=UNTOUCHED)
def test_other_keys_are_never_written_again(text: str, line: int, remedy: str) -> None:
    card = FrontMatter.of(f"---\n{text}---\n", Path("README.md"))
    with pytest.raises(InputError, match=rf"^README.md:{line}: ") as caught:
        card.with_result({"a": 1}, "mine", lambda _: False)
    assert_says(str(caught.value), "change of other keys", remedy)


def test_values_that_are_no_numbers_and_comments_stay() -> None:
    text = "---\nversion: 1.10 # a\nloss: .nan\n---\n"
    written = FrontMatter.of(text, Path("README.md")).with_result({"a": 1}, "m", lambda _: False)
    assert written.startswith("---\nversion: 1.10 # a\nloss: .nan\nmodel-index:\n- name: m\n")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("--- \nlicense: mit\n---\n", "a first line --- without spaces"),
        ("---\rlicense: mit\r---\r# A\r", "end with a line feed"),
    ],
)
def test_a_first_line_of_another_form(text: str, expected: str) -> None:
    with pytest.raises(InputError, match=expected):
        FrontMatter.of(text, Path("README.md"))


def test_a_card_has_no_path_of_the_machine(folder: Path, tmp_path: Path) -> None:
    (folder / "unanswered.parquet").write_bytes(b"not sealed")
    card = tmp_path / "README.md"
    assert str(folder) in run("paper", folder, *FAST, "--model-card", card).stderr
    text = card.read_text("utf-8")
    assert_says(text, "Warning: mine")
    assert re.search(r"(?<![\w.:/<])/\w", text) is None
    assert str(tmp_path) not in text


def test_broken_comments_are_refused_with_their_line(folder: Path, tmp_path: Path) -> None:
    card = tmp_path / "README.md"
    run("paper", folder, *FAST, "--model-card", card)
    lines = card.read_text("utf-8").splitlines(keepends=True)
    first = next(at for at, line in enumerate(lines) if line.startswith("<!-- pact-eval results"))
    card.write_text("".join(line for line in lines if "<!-- end of" not in line), "utf-8")
    message = refused("paper", folder, *FAST, "--model-card", card, code=1)
    assert_says(message, f"{card}:{first + 1}: ", "<!-- end of pact-eval results", "remove both")
    card.write_text("".join([*lines, lines[first]]), "utf-8")
    assert_says(refused("paper", folder, *FAST, "--model-card", card, code=1), f"{card}:")


def test_a_card_that_cannot_be_read_or_written(folder: Path, tmp_path: Path) -> None:
    binary = tmp_path / "binary.md"
    binary.write_bytes(b"# \xff\n")
    assert_says(refused("paper", folder, *FAST, "--model-card", binary, code=1), "UTF-8")
    absent = tmp_path / "no" / "README.md"
    message = refused("paper", folder, *FAST, "--model-card", absent, code=1)
    assert_says(message, str(absent.parent), "folder not found")


def test_a_card_is_of_one_run_on_full_contexts(folder: Path, tmp_path: Path) -> None:
    card = tmp_path / "README.md"
    ablated = write_run(tmp_path / "ablated", ablated_rows(1))
    assert_says(refused("paper", ablated, *FAST, "--model-card", card, code=1), "full contexts")
    message = refused("paper", folder, folder, "--model-card", card, code=2)
    assert_says(message, "expected one RUN, got 2")
    assert not card.exists()


def test_names_from_data_are_text(folder: Path, tmp_path: Path) -> None:
    name = "a--> <b>|`\u202e.jsonl"
    edit_run(folder, data=f"data/{name}")
    card = tmp_path / "README.md"
    run("paper", folder, *FAST, "--model-card", card)
    text = card.read_text("utf-8")
    assert "<b>" not in text.split("---\n", 2)[2]
    assert metadata(card)["model-index"][0]["results"][0]["dataset"]["name"] == name
