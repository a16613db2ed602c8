"""`pact-eval drift`: planted changes in logs that are written here, and what each log lacks."""

from __future__ import annotations

import csv
import json
import math
import random
import shlex
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import run_frames
from ci_formats import github_annotations
from click.testing import CliRunner
from commands import refuser, runner
from messages import assert_says
from run_frames import write_run
from tool_logs.exchange_logs import GRADED, WRITERS, tickets
from tool_logs.exchange_logs import write as write_log

import pact_eval
from pact_cli.main import main

run, refused = runner(main), refuser(main)

SECRETS = ("sk-0123456789abcdef", "Bearer abcdefghij0123456789")
OPTIONS = ("billing", "delivery", "other")
QUESTIONS: dict[str, Any] = {
    "refund": {"type": "noul", "instructions": "Is a refund asked for?"},
    "topic": {"type": "choice", "instructions": "Which?", "criteria": dict.fromkeys(OPTIONS, "x")},
}


@pytest.fixture(autouse=True)
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
    return tmp_path


class Service:
    """A service whose answers are drawn around what each item is about.

    `swapped` gives another model; `noise` is how often an answer is drawn anew.
    """

    def __init__(self, seed: int, *, noise: float = 0.05, swapped: float = 0.0) -> None:
        self.rng = np.random.default_rng(seed)
        self.noise, self.swapped = noise, swapped

    def topic(self, item: int) -> tuple[str, dict[str, float]]:
        """The answer to an item, and the probabilities."""
        other = np.random.default_rng([item, 9]).random() < self.swapped
        at = (item + other) % 3
        if self.rng.random() < self.noise:
            at = int(self.rng.integers(3))
        top = float(np.clip(self.rng.normal(0.8, 0.08), 0.4, 0.98))
        rest = (1 - top) / 2
        return OPTIONS[at], {
            name: top if place == at else rest for place, name in enumerate(OPTIONS)
        }


def lines(path: str, entries: Sequence[dict[str, Any]]) -> Path:
    Path(path).write_text("".join(json.dumps(entry) + "\n" for entry in entries))
    return Path(path)


def decision(number: int, item: int, service: Service, **changes: Any) -> dict[str, Any]:
    """A request of two questions, and the reply, as a recorder of HTTP writes both."""
    topic, shares = service.topic(item)
    yes = 0.9 if item % 2 else 0.1
    body = {
        "model": "jev-1",
        "answers": {
            "refund": {"type": "noul", "noul": yes},
            "topic": {"type": "choice", "choice": topic, "probabilities": shares},
        },
    }
    state = {"ticket": f"text of ticket {item}"}
    return {
        "id": f"req_{number}_{service.rng.integers(1 << 30)}",
        "headers": {"authorization": SECRETS[1], "x-api-key": SECRETS[0]},
        "latency_ms": float(service.rng.normal(200, 20)),
        "cost_usd": 0.002,
        "request": {"model": "jev-1", "state": state, "questions": QUESTIONS, "key": SECRETS[0]},
        "response": {**body, **changes},
    }


def chat(item: int, answers: Sequence[str], prompt: str = "Which topic?") -> dict[str, Any]:
    """A chat completion with `n` choices, as a client's hook writes it."""
    messages = [
        {"role": "system", "content": prompt},
        {"role": "user", "content": f"mail {item}"},
    ]
    choices = [
        {"index": at, "message": {"role": "assistant", "content": answer}, "finish_reason": "stop"}
        for at, answer in enumerate(answers)
    ]
    return {
        "request": {"model": "gpt", "messages": messages, "n": len(answers)},
        "response": {"id": f"chatcmpl-{item}", "model": "gpt-2026", "choices": choices},
    }


def decisions(path: str, seed: int, items: Sequence[int], **service: float) -> Path:
    made = Service(seed, **service)
    return lines(path, [decision(number, item, made) for number, item in enumerate(items)])


def test_a_quiet_pair_exits_with_0_and_ten_lines_and_a_swapped_model_with_3() -> None:
    items = range(100)
    before = decisions("march.jsonl", 1, items)
    quiet = run("drift", before, decisions("april.jsonl", 2, items), "--below", 0.7)
    assert_says(quiet.stdout, "NO CHANGE SHOWN between march.jsonl and april.jsonl: the answers")
    assert_says(quiet.stdout, "items differ", "not shown to be above 10%, and none was asked again")
    assert_says(quiet.stdout, "200 items in both", "jev-1", "latency", "0.001 to 0.001")
    assert_says(quiet.stdout, "not known", "whether answers are right")
    assert len(quiet.stdout.splitlines()) <= 12
    swapped = run("drift", before, decisions("may.jsonl", 3, items, swapped=0.3), code=3)
    assert swapped.stdout.startswith("CHANGED: ")


def test_other_items_and_few_items() -> None:
    before = decisions("march.jsonl", 1, range(100))
    others = run("drift", before, decisions("june.jsonl", 7, range(500, 600)))
    assert_says(others.stdout, "NO CHANGE SHOWN", "right answers of 1,570 items")
    few = run("drift", before, decisions("few.jsonl", 5, range(3)), code=4)
    assert few.stdout.startswith("TOO FEW TO TELL: 3 independent items")


@pytest.mark.parametrize("other_items", [False, True])
@pytest.mark.parametrize("change", ["model", "questions", "prompt"])
def test_planted_changes_are_found(change: str, *, other_items: bool) -> None:
    """Another model; a tenth of the questions; another prompt, which answers "other" more often."""
    before, after = Service(1), Service(2, swapped=0.35 if change == "model" else 0)
    start = 1000 if other_items else 0
    pair = [
        [decision(at, at, before) for at in range(200)],
        [decision(at, at + start, after) for at in range(200)],
    ]
    for at, entry in enumerate(pair[1]):
        asked, said = entry["request"]["questions"], entry["response"]["answers"]
        if change == "questions" and at % 10 == 0:
            entry["request"]["questions"] = {"angry": asked["refund"], "topic": asked["topic"]}
            said["angry"] = said.pop("refund")
        if change == "prompt":
            entry["request"]["questions"] = asked | {"topic": asked["topic"] | {"hint": "careful"}}
            if at % 6 == 0:
                shares = {"billing": 0.1, "delivery": 0.1, "other": 0.8}
                said["topic"] = {"type": "choice", "choice": "other", "probabilities": shares}
        if change == "model" and other_items:  # the shares of answers alone tell it
            said["topic"]["probabilities"] = {
                name: p * 0.8 + 0.2 / 3 for name, p in said["topic"]["probabilities"].items()
            }
    logs = [lines(f"{at}.jsonl", entries) for at, entries in enumerate(pair)]
    found = run("drift", *logs, code=3).stdout
    expected = {"model": "mean confidence" if other_items else "answers to the same items"}
    expected |= {"questions": "items of question angry", "prompt": "another text: topic"}
    assert_says(found, "CHANGED", expected[change])


def test_ids_of_requests_that_only_count_do_not_match_items() -> None:
    """Both logs have the ids r0, r1, ...; what is asked about tells that the items are others."""
    logs = []
    for at, start in enumerate((0, 500)):
        service = Service(at)
        made = [decision(n, start + n, service) | {"id": f"r{n}"} for n in range(60)]
        logs.append(lines(f"{at}.jsonl", made))
    printed = run("drift", *logs)
    assert_says(printed.stderr, "ids of several texts", "r0")
    assert "items in both" not in printed.stdout


def test_keys_and_headers_are_nowhere() -> None:
    before = decisions("a.jsonl", 1, range(30))
    after = decisions("b.jsonl", 2, range(30), swapped=0.9)
    outputs = [
        run("drift", before, after, *words, code=3).output
        for words in ((), ("--full",), ("--json",), ("--format", "github"))
    ]
    broken = [json.loads(line) for line in after.read_text().splitlines()]
    broken[3]["response"]["answers"]["topic"]["probabilities"]["billing"] = 7
    broken[4]["response"] = {"error": {"message": f"401: {SECRETS[1]} is not valid"}}
    broken[5]["model"] = "other"
    broken[5]["response"].pop("model")
    kept = broken[:3]
    for entries in (broken[:4], kept + broken[4:5] * 9, kept + broken[5:], broken):
        log = lines("c.jsonl", entries)
        outputs.append(CliRunner().invoke(main, ["drift", str(before), str(log)]).output)
    assert all("c.jsonl" in text for text in outputs[-4:])
    assert not [text for text in outputs for secret in SECRETS if secret[-12:] in text]


@pytest.mark.parametrize("name", [name for name in WRITERS if name not in GRADED])
def test_every_format_is_read_without_its_right_answers(name: str) -> None:
    """The same answers as with them: what is left out changes nothing but the line on it."""
    words = ["--options", "A,B,C"] if name == "chat" else []
    labelled = WRITERS[name](tickets(40))
    bare = [
        {key: value for key, value in entry.items() if key not in ("label", "labels", "gold")}
        for entry in WRITERS[name](tickets(40))
    ]
    for entry in bare:
        entry.pop("outcome", None)
        entry.pop("outcome_correct", None)
    a, b = write_log(Path("a.jsonl"), labelled), write_log(Path("b.jsonl"), bare)
    result = json.loads(run("drift", a, b, *words, "--json").stdout)
    assert (result["same"]["changed"]["value"], result["items"][0]) == (0, result["items"][1])
    assert result["logs"][0]["labelled"] == (name != "jevassert")
    assert not result["logs"][1]["labelled"]


@pytest.mark.parametrize("seed", range(6))
def test_the_order_of_lines_changes_nothing(seed: int) -> None:
    rng = random.Random(seed)
    items = [rng.randrange(60) for _ in range(120)]  # some are asked again
    logs = [decisions(f"{at}.jsonl", at, items) for at in range(2)]
    first = json.loads(run("drift", *logs, "--json", code=0).stdout)
    for log in logs:
        shuffled = log.read_text().splitlines()
        rng.shuffle(shuffled)
        log.write_text("\n".join(shuffled) + "\n")
    again = json.loads(run("drift", *logs, "--json", code=0).stdout)
    assert again == first


@pytest.mark.parametrize("columns", [["answer", "confidence"], ["id", "answer"]])
def test_the_order_of_rows_changes_nothing(columns: Sequence[str]) -> None:
    made = [[{name: row[name] for name in columns} for row in answers(at, 0.5)] for at in range(2)]
    results = []
    for seed in range(3):
        logs = [table(f"{at}.csv", rows) for at, rows in enumerate(made)]
        code = CliRunner().invoke(main, ["drift", *map(str, logs), "--json", "-q"])
        results.append(json.loads(code.stdout))
        for rows in made:
            random.Random(seed).shuffle(rows)
    assert results[1:] == results[:-1]


def test_questions_of_equal_size_are_tested_in_the_order_of_their_names() -> None:
    made = {"id": [f"i{at}" for at in range(60)], "family": [f"i{at}" for at in range(60)]}
    rng = np.random.default_rng(0)
    frames = [
        pl.DataFrame(made).with_columns(
            question=pl.Series(["a?", "b?", "c?"] * 20),
            answer=pl.Series(rng.choice(["x", "y", "z"], 60)),
            confidence=pl.Series(rng.uniform(0.4, 1, 60)),
        )
        for _ in range(2)
    ]
    first = pact_eval.compare_logs(*frames)
    again = pact_eval.compare_logs(*(frame.sample(fraction=1, shuffle=True) for frame in frames))
    assert again == first
    asked = [shift.name for shift in first.shifts if shift.what == "question"]
    assert asked == sorted(asked)


def test_samples_of_one_request_are_its_noise() -> None:
    """Three choices per request: by hand, two of three differ from the first in 1 of 2 items."""
    aab = [chat(item, ["x", "x", "y"]) for item in range(20)]
    aaa = [chat(item, ["x", "x", "x"]) for item in range(20, 40)]
    a = lines("a.jsonl", [*aab, *aaa])
    again = lines("b.jsonl", [one for e in (*aab, *aaa) for one in alone(e)])
    result = json.loads(run("drift", a, again, "--options", "x,y", "--json").stdout)
    same = result["same"]
    assert same["noise"] == pytest.approx(0.5 * 2 / 3)
    assert same["changed"]["value"] == pytest.approx(0.5 * 4 / 9)
    assert result["items"] == [40, 40]


def alone(entry: dict[str, Any]) -> list[dict[str, Any]]:
    """The choices of a request, as replies to requests of their own."""
    return [
        entry | {"response": entry["response"] | {"choices": [choice]}}
        for choice in entry["response"]["choices"]
    ]


def test_only_repeats_in_one_order_are_noise() -> None:
    """Half of the requests show the options in reverse, and are answered otherwise."""
    service = Service(1, noise=0)
    entries = []
    for item in range(40):
        first, second = decision(0, item, service), decision(1, item, service)
        topic = QUESTIONS["topic"] | {"criteria": dict.fromkeys(reversed(OPTIONS), "x")}
        second["request"]["questions"] = QUESTIONS | {"topic": topic}
        wrong = {name: 0.9 if name == "other" else 0.05 for name in OPTIONS}
        second["response"]["answers"]["topic"] |= {"choice": "other", "probabilities": wrong}
        entries += [first, second]
    log = lines("a.jsonl", entries)
    printed = run("drift", log, log, "--json")
    assert json.loads(printed.stdout)["same"]["noise"] == 0
    assert_says(printed.stderr, "80 answers to items in another order")
    (warning,) = json.loads(printed.stdout)["warnings"]
    assert (warning["kind"], warning["answers"]) == ("OtherOrders", 80)


@pytest.mark.parametrize("key", ["model", "model_version"])
def test_two_models_in_a_log_are_named_with_their_lines(key: str) -> None:
    service = Service(1)
    entries = [decision(at, at, service) for at in range(60)]
    for at, entry in enumerate(entries):
        entry["response"][key] = "old" if at < 40 else "new"
    mixed, old = lines("mixed.jsonl", entries), decisions("old.jsonl", 1, range(60))
    text = refused("drift", old, mixed, code=2)
    names = ("old", "new") if key == "model" else ("jev-1@old", "jev-1@new")
    assert_says(
        text, "mixed.jsonl", f"{names[0]} (40 from line 1)", f"{names[1]} (20 from line 41)"
    )
    command = f"pact-eval drift old.jsonl mixed.jsonl --filter {names[1]}"
    assert command in text
    chosen = run(*shlex.split(command)[1:], "--json")
    assert json.loads(chosen.stdout)["items"] == [120, 40]
    both = run("drift", mixed, mixed, "--filter", names[0], "--filter", names[1])
    assert_says(both.stdout, f"{names[0]}, then {names[1]}")
    assert_says(refused("drift", mixed, mixed, "--filter", "none", code=2), "no answer is of it")


def table(path: str, rows: Sequence[dict[str, Any]]) -> Path:
    with Path(path).open("w", newline="") as file:
        writer = csv.DictWriter(file, [*rows[0]])
        writer.writeheader()
        writer.writerows(rows)
    return Path(path)


def answers(seed: int, yes: float = 0.5, n: int = 100) -> list[dict[str, Any]]:
    rng = random.Random(seed)
    return [
        {"id": f"t{at}", "answer": "yes" if rng.random() < yes else "no",
         "confidence": round(rng.uniform(0.5, 1), 3)}
        for at in range(n)
    ]  # fmt: skip


@pytest.mark.parametrize("form", ["csv", "jsonl", "parquet"])
def test_tables_of_answers_in_every_form(form: str) -> None:
    logs = []
    for name, yes in (("a", 0.5), ("b", 0.9)):
        rows = answers(1, yes)
        path = Path(f"{name}.{form}")
        if form == "csv":
            table(str(path), rows)
        elif form == "jsonl":
            lines(str(path), rows)
        else:
            pl.DataFrame(rows).write_parquet(path)
        logs.append(path)
    result = json.loads(run("drift", *logs, "--json", code=3).stdout)
    (yes_shift,) = (shift for shift in result["shifts"] if shift["what"] == "answer")
    shares = [
        sum(row["answer"] == yes_shift["name"] for row in answers(1, y)) / 100 for y in (0.5, 0.9)
    ]
    assert (yes_shift["before"], yes_shift["after"]) == pytest.approx(shares)
    confidences = [row["confidence"] for row in answers(1)]
    (sure,) = (shift for shift in result["shifts"] if shift["what"] == "confidence")
    assert sure["before"] == pytest.approx(sum(confidences) / 100)


def test_api_reads_the_same_logs() -> None:
    logs = table("a.csv", answers(1)), table("b.csv", answers(1, 0.9))
    printed = json.loads(run("drift", *logs, "--json", "--below", 0.7, code=3).stdout)
    assert pact_eval.compare_logs(*logs, below=0.7).to_json() == printed
    with pytest.raises(pact_eval.PactError):
        pact_eval.compare_logs(logs[0], pl.read_csv(logs[1]))


def test_an_answer_next_to_a_prediction_is_a_right_answer_that_is_not_used() -> None:
    rows = [row | {"prediction": "no"} for row in answers(1)]
    logs = table("a.csv", rows), table("b b.csv", rows)
    printed = run("drift", *logs).stdout
    assert_says(
        printed, "right answers in both logs: pact-eval compare 'b b.csv' a.csv --not-worse 2"
    )
    result = json.loads(run("drift", *logs, "--json").stdout)
    assert {shift["name"] for shift in result["shifts"] if shift["what"] == "answer"} == {"no"}


@pytest.mark.parametrize(("change", "said", "remedies"), [
    (lambda r: {"ticket_id": r["id"], "answer": r["answer"]}, "ticket_id repeats",
     ["--columns id=ticket_id", "--columns family=ticket_id"]),
    (lambda r: {"question": "spam?" if r["id"] < "t5" else "ham?", "answer": r["answer"]},
     "question repeats", ["--columns id=question", "--columns ignored=question"]),
    (lambda r: {"id": r["id"], "label": r["answer"]}, "what a model said",
     ["--columns prediction=label"]),
])  # fmt: skip
def test_two_readings_of_a_table_are_asked_for(
    change: Callable[[dict[str, Any]], dict[str, Any]], said: str, remedies: Sequence[str]
) -> None:
    rows = [change(row) for row in answers(1, n=40) for _ in range(1 if "label" in said else 2)]
    rows = rows[::2] if "model" in said else rows
    log = table("a.csv", rows)
    text = refused("drift", log, log, "--below", 0.8, code=2)
    assert_says(text, said)
    for remedy in remedies:
        command = f"pact-eval drift a.csv a.csv {remedy} --below 0.8"
        assert command in text
        assert run(*shlex.split(command)[1:], code=4 if "id=question" in remedy else 0)


def test_tables_of_two_models_and_of_unnamed_answers() -> None:
    rows = [row | {"model": "old" if at < 60 else "new"} for at, row in enumerate(answers(1))]
    mixed = table("mixed.csv", rows)
    text = refused("drift", mixed, mixed, code=2)
    assert_says(text, "old (60 from line 2)", "new (40 from line 62)", "--filter new")
    pairs = [{"id": r["id"], "confidence": r["confidence"], "correct": 1} for r in answers(1)]
    right = table("right.csv", pairs)
    result = json.loads(run("drift", right, right, "--json").stdout)
    assert result["same"] is None  # which answers these are is not known
    assert [shift["what"] for shift in result["shifts"]] == ["confidence"]
    shares = [{"id": r["id"], "p_yes": r["confidence"] - 0.25} for r in answers(1)]
    one = table("one.csv", shares)
    text = refused("drift", one, one, "--columns", "probabilities=p_yes", code=2)
    assert "--columns probabilities=p_yes --options NAME,NAME" in text
    words = ("--columns", "probabilities=p_yes", "--options", "yes,no", "--json")
    (found,) = (s for s in json.loads(run("drift", one, one, *words).stdout)["shifts"][:1])
    assert found["before"] in (share := sum(r["p_yes"] >= 0.5 for r in shares) / 100, 1 - share)


def test_a_folder_that_is_neither_a_run_nor_a_log_is_refused() -> None:
    Path("runs/a").mkdir(parents=True)
    assert_says(refused("drift", "runs", "runs"), "runs: not a run", "run.json", "not a log")


def test_rows_without_ids_are_not_the_same_items() -> None:
    rows = [{"answer": row["answer"], "confidence": row["confidence"]} for row in answers(1)]
    log = table("a.csv", rows)
    printed = run("drift", log, log)
    assert_says(printed.stderr, "rows have no ids", "--columns id=NAME")
    assert "same items" not in printed.stdout


def test_runs_have_the_answers_of_their_logs() -> None:
    logs = []
    for name, yes in (("a", 0.5), ("b", 0.9)):
        rows = [row | {"prediction": row["answer"], "label": "yes"} for row in answers(1, yes)]
        logs.append(table(f"{name}.csv", [{k: r[k] for k in r if k != "answer"} for r in rows]))
        run("import", logs[-1], "--out", name)
    results = [
        json.loads(run("drift", *places, "--json", code=3).stdout)
        for places in (logs, ("a", "b"), ("a", logs[1]))
    ]
    for other in results[1:]:
        assert other["same"] == results[0]["same"]
        values = [[s["name"], s["before"], s["after"]] for s in results[0]["shifts"]]
        assert [[s["name"], s["before"], s["after"]] for s in other["shifts"]] == [
            [name, pytest.approx(before), pytest.approx(after)] for name, before, after in values
        ]


def test_answers_with_names_and_answers_with_numbers_do_not_mix() -> None:
    named = lines("a.jsonl", [{"id": f"i{n}", "prediction": "xy"[n % 2]} for n in range(20)])
    numbers = [{"id": f"i{n}", "answer": n % 2, "n_choices": 2} for n in range(20)]
    text = refused("drift", named, lines("b.jsonl", numbers), code=1)
    assert_says(text, "b.jsonl", "numbers here", "names in the other")


def test_two_runs_whose_data_are_elsewhere_have_names_of_booleans_alone() -> None:
    """Once, the choices of one were refused as numbers next to the booleans of the same run."""
    runs = [write_run(Path(name), run_frames.rows(1, families=9)) for name in "ab"]
    same = json.loads(run("drift", *runs, "--json").stdout)["same"]
    assert same["items"] == 18


def test_replies_without_an_answer_are_a_share_of_their_own() -> None:
    service = Service(1)
    made = [decision(at, at, service) for at in range(100)]
    for entry in made[:30]:
        entry["response"]["answers"]["topic"] = {"type": "refusal"}
    logs = decisions("a.jsonl", 1, range(100)), lines("b.jsonl", made)
    printed = run("drift", *logs, code=3).stdout
    assert_says(printed, "without an answer: 0.0% to 15.0%", "refused 0.0% to 15.0%")


def test_refusals_of_other_commands_name_this_one() -> None:
    chats = lines(
        "chat.jsonl", [chat(item, ["ham" if item % 2 else "spam."]) for item in range(30)]
    )
    text = refused("report", chats, code=2)
    assert "  pact-eval report chat.jsonl --options ham,spam\n" in text
    text = refused("report", chats, "--options", "ham,spam", code=2)
    assert_says(text, "none has a right answer", "--data FILE", "pact-eval drift BEFORE AFTER")
    unlabelled = table("a.csv", [{"id": r["id"], "prediction": r["answer"]} for r in answers(1)])
    assert_says(refused("import", unlabelled, code=2), "pact-eval drift BEFORE AFTER")
    ambiguous = table("b.csv", answers(1))
    assert_says(refused("report", ambiguous, code=2), "what a model said", "pact-eval drift")
    grades = table("c.csv", [{"case_id": f"c{at}", "passed": at % 2} for at in range(20)])
    assert_says(refused("drift", grades, grades), "grades", "pact-eval report BEFORE AFTER")


def test_cases_for_ci() -> None:
    logs = table("a.csv", answers(1)), table("b.csv", answers(1, 0.9))
    (annotation,) = github_annotations(run("drift", *logs, "--format", "github", code=3).stdout)
    assert (annotation.file, annotation.code) == ("b.csv", "drift")
    assert_says(annotation.message, "CHANGED: 42.0")
    assert 'failures="1"' in run("drift", *logs, "--format", "junit", code=3).stdout


def logprobs(word: str, p: float) -> dict[str, Any]:
    other = "ham" if word == "spam" else "spam"
    tops = [{"token": word, "logprob": math.log(p)}, {"token": other, "logprob": math.log(1 - p)}]
    return {"content": [{**tops[0], "top_logprobs": tops}]}


def body(item: int, word: str, **choice: Any) -> dict[str, Any]:
    message = {"role": "assistant", "content": word, "refusal": None}
    return {
        "id": f"chatcmpl-{item}",
        "created": 1793534400 + item,
        "model": "gpt-2026",
        "choices": [{"index": 0, "message": message, "finish_reason": "stop", **choice}],
        "usage": {"prompt_tokens": 20, "completion_tokens": 1},
    }


def batch_output(item: int, word: str) -> dict[str, Any]:
    """A line of the file that a batch gives back: the requests are in another file."""
    response = {"status_code": 200, "request_id": f"x{item}", "body": body(item, word)}
    return {"id": f"batch_req_{item}", "custom_id": f"mail-{item}", "response": response,
            "error": None}  # fmt: skip


def proxy_payload(item: int, word: str) -> dict[str, Any]:
    """The payload that a proxy logs for each call: request and reply in one object."""
    messages = [{"role": "user", "content": f"mail {item}"}]
    return {"id": f"chatcmpl-{item}", "trace_id": str(item), "call_type": "acompletion",
            "response_cost": 0.002, "startTime": 1793534400.5, "response_time": 0.7,
            "model": "gpt", "messages": messages, "response": body(item, word),
            "metadata": {"user_api_key_hash": SECRETS[0]}}  # fmt: skip


def traced_call(item: int, word: str) -> dict[str, Any]:
    """A traced call of a client, exported: inputs and outputs as sent and received."""
    messages = [{"role": "user", "content": f"mail {item}"}]
    inputs = {"messages": messages, "model": "gpt"}
    return {"id": f"0190f5a2-0000-7000-8000-{item:012}", "run_type": "llm", "total_cost": 0.002,
            "inputs": inputs, "outputs": body(item, word)}  # fmt: skip


def with_logprobs(item: int, word: str) -> dict[str, Any]:
    messages = [{"role": "user", "content": f"mail {item}"}]
    sure = 0.6 + (item % 30) / 100
    return {"request": {"model": "gpt", "messages": messages, "top_logprobs": 2},
            "response": body(item, word, logprobs=logprobs(word, sure))}  # fmt: skip


def classifier(item: int, word: str) -> dict[str, Any]:
    return {"text": f"mail {item}", "label": word.upper(), "score": 0.6 + (item % 30) / 100}


@pytest.mark.parametrize(("shape", "option", "price"), [
    (batch_output, "--options ham,spam", math.nan),
    (proxy_payload, "--options ham,spam", 0.002),
    (traced_call, "--options ham,spam", 0.002),
    (with_logprobs, "--options ham,spam", math.nan),
    (classifier, "--columns prediction=label", math.nan),
])  # fmt: skip
def test_logs_of_other_programs_are_read_by_the_command_that_is_offered(
    shape: Callable[[int, str], dict[str, Any]], option: str, price: float
) -> None:
    logs = []
    for name, share in (("a", 3), ("b", 8)):
        words = ["spam" if item % 10 < share else "ham" for item in range(80)]
        logs.append(lines(f"{name}.jsonl", [shape(*pair) for pair in enumerate(words)]))
    text = refused("drift", *logs, code=2)
    command = f"pact-eval drift a.jsonl b.jsonl {option}"
    assert command in text
    result = json.loads(run(*shlex.split(command)[1:], "--json", code=3).stdout)
    assert result["same"]["changed"]["value"] == pytest.approx(0.5)
    (share_of_ham,) = (s for s in result["shifts"] if s["what"] == "answer")
    assert {share_of_ham["before"], share_of_ham["after"]} in ({0.3, 0.8}, {0.7, 0.2})
    cost = result["logs"][0]["price"]
    assert math.isnan(price) == (cost is None)
    assert cost is None or cost == pytest.approx(price)


def test_a_shape_without_a_reader_is_refused() -> None:
    entries = [
        {"run_type": "llm", "inputs": {"prompt": f"mail {at}"},
         "outputs": {"generations": [[{"text": "spam"}]]}}
        for at in range(20)
    ]  # fmt: skip
    log = lines("a.jsonl", entries)
    text = refused("drift", log, log, code=2)
    assert_says(text, "no column is known as what a model said", "inputs, outputs")


@pytest.mark.slow
def test_of_100_null_pairs_of_log_files_few_are_loud() -> None:
    """The same items with noise and repeats, or other items: 5% are expected at most."""
    loud = 0
    for seed in range(100):
        items = np.repeat(np.arange(60), 2) if seed % 2 else np.arange(100)
        other = items if seed % 2 else items + 1000
        noise = 0.2 if seed % 2 else 0.4
        a = decisions("a.jsonl", 2 * seed, items.tolist(), noise=noise)
        b = decisions("b.jsonl", 2 * seed + 1, other.tolist(), noise=noise)
        loud += pact_eval.compare_logs(a, b, below=0.75).finding == "changed"
    assert loud <= 10


def test_one_id_may_have_several_questions_with_options_of_their_own() -> None:
    """Rows of our own format: each question of a ticket is an item, and none is left out."""
    rows = [
        {"id": f"t{at}", "question": name, "code_order": order, "n_choices": len(order),
         "answer": at % len(order)}
        for at in range(40)
        for name, order in (("spam?", [1, 0]), ("topic?", [0, 1, 2]))
    ]  # fmt: skip
    log = lines("a.jsonl", rows)
    result = json.loads(run("drift", log, log, "--json").stdout)
    assert (result["items"], result["families"], result["warnings"]) == ([80, 80], [40, 40], [])
