"""Logs of requests and replies, compared with what they were made of."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from click.testing import CliRunner
from messages import assert_says
from tool_logs import exchange_logs as logs
from tool_logs.exchange_logs import KEY, QUESTIONS, WRITERS, Ticket, tickets, write

from pact_cli.main import main
from pact_eval.api import import_run
from pact_eval.errors import InputError, RecordError, ShapeError
from pact_eval.evaluation.experiment import Experiment
from pact_eval.importing.exchanges import without_secrets
from pact_eval.importing.import_run import find_source, read_log, start_of
from pact_eval.importing.registry import sources
from pact_eval.importing.source import ImportedRows, import_options

Entries = list[dict[str, Any]]


def read(path: Path, **options: Any) -> ImportedRows:
    """Read a log as `import` does."""
    chosen = import_options(options)  # type: ignore[arg-type]
    return read_log(find_source(path, chosen.source), path, chosen)[0]


def right(rows: ImportedRows) -> dict[str, list[bool]]:
    """Return whether the most probable answer is right, by question, in the order of the log."""
    frame = rows.frame.filter(pl.col("view") == 0)
    found: dict[str, list[bool]] = {}
    for row in frame.iter_rows(named=True):
        _, _, name = row["id"].rpartition("/")
        question = name if name in QUESTIONS else ""
        best = max(range(row["n_choices"]), key=row["logits"].__getitem__)
        found.setdefault(question, []).append(best == row["reference"])
    return found


def written(folder: Path, name: str, made: list[Ticket], **changes: Any) -> ImportedRows:
    """Write the log of a format, and read it."""
    log = write(folder / "log.jsonl", WRITERS[name](made))
    if name == "jevassert":
        changes["data"] = write(folder / "cases.jsonl", logs.cases(made))
    return read(log, **changes)


@pytest.mark.parametrize("name", WRITERS)
def test_right_answers_against_the_hand_count(tmp_path: Path, name: str) -> None:
    made = tickets()
    rows = written(tmp_path, name, made)
    asked = {"chat": [("", "topic")], "decguard": [("topic", "topic")]}
    names = asked.get(name, [(question, question) for question in QUESTIONS])
    assert right(rows) == {key: [t.right[question] for t in made] for key, question in names}
    model = {"chat": "gpt-5-2026-08-07", "openai-decisions": "gpt-6-luna"}
    assert rows.model == model.get(name, logs.MODEL)
    assert rows.frame["family"].n_unique() == len(made)


@pytest.mark.parametrize("name", WRITERS)
def test_one_format_recognises_a_log(tmp_path: Path, name: str) -> None:
    log = write(tmp_path / "log.jsonl", WRITERS[name](tickets(4)))
    found = [source.name for source in sources() if source.recognises(start_of(log))]
    assert [each for each in found if each != "rows"] == [name]


@pytest.mark.parametrize("name", WRITERS)
def test_no_key_gets_into_a_run(tmp_path: Path, name: str) -> None:
    entries = WRITERS[name](tickets(4))
    for entry in entries:
        entry |= {"headers": {"x-api-key": KEY}, "api_key": KEY, "authorization": f"Bearer {KEY}"}
        entry["metadata"] = {
            "token": KEY,
            "authorization": "opaque",
            "author": "Kim",
            "note": f"sent with Bearer {KEY}",
            "shop": "north",
        }
    write(tmp_path / "log.jsonl", entries)
    labels = write(tmp_path / "cases.jsonl", logs.cases(tickets(4)))
    rows = read(tmp_path / "log.jsonl", data=labels if name == "jevassert" else None)
    metadata = rows.metadata
    assert metadata is not None
    assert metadata["metadata.shop"].to_list() == ["north"] * len(metadata)
    assert "metadata.author" in metadata.columns
    assert "metadata.authorization" not in metadata.columns
    everything = f"{rows.frame.to_dicts()} {metadata.to_dicts()} {rows.facts} {rows.remarks}"
    assert KEY not in everything
    assert "metadata.note" not in metadata.columns


@pytest.mark.parametrize(
    "text", [f"HTTP 401: Bearer {KEY} is bad", f"api_key={KEY}", f'{{"Authorization": "{KEY}"}}']
)
def test_no_key_gets_into_a_reason(text: str) -> None:
    assert KEY not in without_secrets(text)
    assert without_secrets("the author of page 5 timed out") == "the author of page 5 timed out"


def test_facts_of_a_request_are_columns(tmp_path: Path) -> None:
    rows = written(tmp_path, "system-one", tickets(4))
    assert rows.metadata is not None
    first = rows.metadata.row(0, named=True)
    facts = {name.removeprefix("metadata."): value for name, value in first.items()}
    assert facts == {
        "id": "t0/refund",
        "question": "refund",
        "time": "2026-11-01T10:00:00Z",
        "latency_ms": 31.5,
        "input_tokens": 120.0,
        "output_tokens": 0.0,
        "price": 0.25,
    }
    log = rows.facts.log
    assert (log["requests"], log["input_tokens"], log["price"]) == (4, 480, 1.0)
    assert log["questions"] == dict.fromkeys(QUESTIONS, 4)


def test_tokens_of_one_call_count_once(tmp_path: Path) -> None:
    assert written(tmp_path, "jev-eval", tickets(4)).facts.log["input_tokens"] == 480


@pytest.mark.parametrize(
    ("fact", "value"),
    [("latency_s", 0.0315), ("duration_s", 0.0315), ("elapsed_ms", 31.5)],
)
def test_latency_has_one_unit(tmp_path: Path, fact: str, value: float) -> None:
    entries = logs.system_one(tickets(4))
    for entry in entries:
        del entry["latency_ms"]
        entry[fact] = value
    rows = read(write(tmp_path / "log.jsonl", entries))
    assert rows.metadata is not None
    assert rows.metadata["metadata.latency_ms"].to_list() == [31.5] * 12


# Shapes of one exchange


def two_lines(made: list[Ticket]) -> Entries:
    """Return requests and replies in entries of their own, joined by id, in another order."""
    asked = [{"id": t.id, "request": logs.request(t), "label": t.labels} for t in made]
    said = [{"id": t.id, "response": logs.reply(t)} for t in made]
    return [*asked, *said[::-1]]


def bare(made: list[Ticket]) -> Entries:
    """Return bodies without ids, each reply after its request."""
    pairs = [(logs.request(t) | {"label": t.labels}, logs.reply(t)) for t in made]
    return [body for pair in pairs for body in pair]


def flat(made: list[Ticket]) -> Entries:
    """Return one object with the keys of both bodies."""
    return [logs.request(t) | logs.reply(t) | {"label": t.labels} for t in made]


def as_text(made: list[Ticket]) -> Entries:
    """Return bodies as text."""
    bodies = [(t, json.dumps(logs.request(t)), json.dumps(logs.reply(t))) for t in made]
    return [{"label": t.labels, "request": {"body": a}, "reply": b} for t, a, b in bodies]


@pytest.mark.parametrize("shape", [two_lines, bare, flat, as_text])
def test_shapes_of_an_exchange(tmp_path: Path, shape: Callable[[list[Ticket]], Entries]) -> None:
    made = tickets(6)
    rows = read(write(tmp_path / "log.jsonl", shape(made)))
    expected = {name: [t.right[name] for t in made] for name in QUESTIONS}
    assert {name: sorted(found) for name, found in right(rows).items()} == {
        name: sorted(found) for name, found in expected.items()
    }


def test_ids_agree_between_logs_of_other_models_and_orders(tmp_path: Path) -> None:
    made = tickets(6)
    topic = QUESTIONS["topic"] | {
        "criteria": dict(reversed(QUESTIONS["topic"]["criteria"].items()))
    }
    turned = [
        {**entry, "request": {"state": t.state, "questions": QUESTIONS | {"topic": topic}}}
        for entry, t in zip(logs.jevkit(made), made, strict=True)
    ]
    a = read(write(tmp_path / "a.jevl", logs.jevkit(made))).frame
    b = read(write(tmp_path / "b.jevl", turned)).frame
    same = ["id", "family", "reference", "logits"]
    assert a.select(same).equals(b.select(same))
    orders = [
        frame.filter(pl.col("id").str.ends_with("topic"))["code_order"][0] for frame in (a, b)
    ]
    assert [order.to_list() for order in orders] == [[1, 0, 2], [2, 0, 1]]  # of billing, delivery


def test_a_question_in_two_orders_has_two_views(tmp_path: Path) -> None:
    made = tickets(5)
    topic = QUESTIONS["topic"] | {
        "criteria": dict(reversed(QUESTIONS["topic"]["criteria"].items()))
    }
    entries = [
        {"label": t.labels, "request": {"state": t.state, "questions": questions}}
        | {"response": logs.reply(t)}
        for questions in (QUESTIONS, QUESTIONS | {"topic": topic})
        for t in made
    ]
    frame = read(write(tmp_path / "log.jsonl", entries)).frame
    assert frame["view"].to_list() == [0] * 15 + [1] * 15
    assert frame["id"].n_unique() == 15


def test_a_request_that_was_sent_again_is_an_item_of_its_family(tmp_path: Path) -> None:
    entries = flat(tickets(5))
    frame = read(write(tmp_path / "log.jsonl", [*entries, entries[0]])).frame
    again = frame.filter(pl.col("id").str.ends_with("-2"))
    assert len(again) == 3
    assert again["family"].is_in(frame["family"][0:1].implode()).all()
    assert frame["family"].n_unique() == 5


def test_jevkit_reads_the_last_recording(tmp_path: Path) -> None:
    made = tickets(4)
    later = {**logs.jevkit(made)[0], "answers": {**made[0].answers, "refund": {"noul": 0.5}}}
    rows = read(write(tmp_path / "log.jevl", [*logs.jevkit(made), later]))
    refund = rows.frame.filter(pl.col("id").str.ends_with("refund"))["logits"][0].to_list()
    assert [math.exp(logit) for logit in refund] == pytest.approx([0.5, 0.5])
    assert_says(rows.remarks, "Left out: 3 answers that a later line replaces")


# Right answers in another file


def labels_by_row(made: list[Ticket]) -> str:
    rows = [f"{t.id},{name},{t.labels[name]}" for t in made for name in QUESTIONS]
    return "\n".join(["id,question,label", *rows])


def labels_by_column(made: list[Ticket]) -> str:
    rows = [",".join([t.id, *map(str, t.labels.values())]) for t in made]
    return "\n".join([",".join(["id", *QUESTIONS]), *rows])


def labels_by_state(made: list[Ticket]) -> str:
    return "\n".join(json.dumps({"state": t.state, "labels": t.labels}) for t in made)


@pytest.mark.parametrize("file", [labels_by_row, labels_by_column, labels_by_state])
def test_right_answers_of_another_file(tmp_path: Path, file: Callable[[list[Ticket]], str]) -> None:
    made = tickets(6)
    log = write(tmp_path / "log.jsonl", [e | {"label": None} for e in logs.system_one(made)])
    labels = tmp_path / ("labels.jsonl" if file is labels_by_state else "labels.csv")
    labels.write_text(file([*made[1:], Ticket("other", "x", made[0].labels, {})]) + "\n", "utf-8")
    rows = read(log, data=labels)
    assert right(rows) == {name: [t.right[name] for t in made[1:]] for name in QUESTIONS}
    assert_says(rows.remarks, "Left out: 3 answers without a right answer", "3 right answers of")
    assert rows.facts.log["incomplete"] == {"read": 15, "of": 18}


def test_a_log_without_right_answers_says_what_gives_them(tmp_path: Path) -> None:
    log = write(tmp_path / "log.jsonl", [e | {"label": None} for e in logs.system_one(tickets(2))])
    with pytest.raises(ShapeError) as raised:
        read(log)
    assert_says(
        raised.value, "6 answers to refund, topic, anger", "jev-1.13.0", "--data FILE", "t0"
    )


def test_report_of_a_log_with_a_file_of_right_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    made = tickets(30)
    write(Path("log.jsonl"), [e | {"label": None} for e in logs.system_one(made)])
    Path("labels.csv").write_text(labels_by_row(made), "utf-8")
    refused = CliRunner().invoke(main, ["report", "log.jsonl"])
    assert refused.exit_code == 2
    assert_says(refused.output, "none has a right answer", "pact-eval report log.jsonl --data FILE")
    done = CliRunner().invoke(main, ["report", "log.jsonl", "--data", "labels.csv"])
    assert done.exit_code == 0, done.output
    share = sum(sum(t.right.values()) for t in made) / 90
    assert_says(done.output, f"log answers {share:.1%} [", "right answers from labels.csv")
    assert_says(done.output, "question = slice")


def test_two_right_answers_that_differ_are_refused(tmp_path: Path) -> None:
    made = tickets(3)
    log = write(tmp_path / "log.jsonl", logs.system_one(made))
    (tmp_path / "labels.csv").write_text(f"id,refund\nt1,{not made[1].labels['refund']}\n", "utf-8")
    with pytest.raises(RecordError) as raised:
        read(log, data=tmp_path / "labels.csv")
    assert_says(raised.value, "log.jsonl:2 (id t1/refund)", "line 2 of")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("id,refund\nt0,maybe\n", "expected one of false, true"),
        ("id,anger\nt0,3\n", "expected one of calm, cross, wild"),
        ("id,topic\nt0,billing\nt0,other\n", "two right answers"),
        ("key,topic\nt0,billing\n", "no column is known as ids"),
        ("id,colour\nt0,red\n", "no column is known as right answers"),
    ],
)
def test_bad_files_of_right_answers(tmp_path: Path, text: str, said: str) -> None:
    log = write(tmp_path / "log.jsonl", [e | {"label": None} for e in logs.system_one(tickets(2))])
    (tmp_path / "labels.csv").write_text(text, "utf-8")
    with pytest.raises(InputError) as raised:
        read(log, data=tmp_path / "labels.csv")
    assert_says(raised.value, said)


def test_levels_that_are_numbers_are_a_question(tmp_path: Path) -> None:
    made = tickets(8)
    anger = QUESTIONS["anger"] | {"criteria": ["2", "1", "0"]}
    entries = logs.system_one(made)
    for entry in entries:
        entry["request"]["body"] = entry["request"]["body"] | {"questions": {"anger": anger}}
        entry["response"]["body"]["answers"] = {
            "anger": entry["response"]["body"]["answers"]["anger"]
        }
    log = write(tmp_path / "log.jsonl", entries)
    with pytest.raises(ShapeError) as raised:
        read(log)
    assert_says(raised.value, "Decide with", "--answers text", "--positions-from 0")
    levels = [t.labels["anger"] for t in made]
    assert read(log, positions_from=0).frame["reference"].to_list() == levels
    assert read(log, answers="text").frame["reference"].to_list() == [2 - level for level in levels]


# Logs that contradict themselves


def changed(line: int, **changes: Any) -> Callable[[Entries], None]:
    """Return a change of the reply on a line."""
    return lambda entries: entries[line - 1]["response"]["body"].update(changes)


def no_request(entries: Entries) -> None:
    del entries[2]["request"]


def two_clocks(entries: Entries) -> None:
    entries[1]["timestamp"] = 1793527200


def no_zone(entries: Entries) -> None:
    entries[1]["timestamp"] = "2026-11-01T10:00:00"


def two_prompts(entries: Entries) -> None:
    questions = QUESTIONS | {"refund": QUESTIONS["refund"] | {"instructions": "Refund?"}}
    for entry in entries[:4]:
        body = entry["request"]["body"] | {"questions": questions}
        entries.append(entry | {"id": f"{entry['id']}b", "request": {"body": body}})


@pytest.mark.parametrize(
    ("change", "parts"),
    [
        (changed(3, answers={"refund": {"noul": 1.5}}), ("log.jsonl:3 (id refund)", "from 0 to 1")),
        (changed(2, answers={"size": {"noul": 0.5}}), ("log.jsonl:2", "nobody asked size")),
        (
            changed(2, answers={"topic": {"probabilities": {"billing": 0.5, "other": 0.5}}}),
            ("log.jsonl:2 (id topic)", "expected one for each of billing, delivery, other"),
        ),
        (
            changed(2, answers={"anger": {"probabilities": {"0": 0.5, "1": 0.3, "2": 0.1}}}),
            ("log.jsonl:2 (id t1/anger)", "expected a sum of 1, got 0.9"),
        ),
        (
            changed(2, answers={"anger": {"score": 2.5, "probabilities": {"0": 1}}}),
            ("log.jsonl:2 (id anger)", "from 0 to 2, got 2.5"),
        ),
        (no_request, ("log.jsonl:3", "a reply without its request")),
        (two_clocks, ("log.jsonl:2", "UTC (line 1)", "seconds since 1970 (line 2)")),
        (no_zone, ("log.jsonl:2", "UTC (line 1)", "without a zone (line 2)")),
        (two_prompts, ("log.jsonl:7", "another on line 1", "two prompts under one name")),
        (lambda entries: entries[3].update(latency_ms=-1), ("log.jsonl:4", "at least 0, got -1")),
    ],
)
def test_contradictions_are_named_with_their_line(
    tmp_path: Path, change: Callable[[Entries], None], parts: tuple[str, ...]
) -> None:
    entries = json.loads(json.dumps(logs.system_one(tickets(6))))
    change(entries)
    with pytest.raises(RecordError) as raised:
        read(write(tmp_path / "log.jsonl", entries))
    assert_says(raised.value, *parts)


def test_answers_of_two_models_are_a_question(tmp_path: Path) -> None:
    entries = json.loads(json.dumps(logs.system_one(tickets(6))))
    for entry in entries[4:]:
        entry["response"]["body"]["model"] = "jev-1.14.0"
    log = write(tmp_path / "log.jsonl", entries)
    with pytest.raises(ShapeError) as raised:
        read(log)
    both = ("jev-1.13.0 (4 from line 1)", "jev-1.14.0 (2 from line 5)", "--filter jev-1.14.0")
    assert_says(raised.value, *both)
    rows = read(log, filter="jev-1.14.0")
    assert rows.model == "jev-1.14.0"
    assert len(rows.frame) == 6
    with pytest.raises(ShapeError):
        read(log, filter="jev-2")


def test_replies_that_lack_something_are_unanswered(tmp_path: Path) -> None:
    entries = json.loads(json.dumps(logs.system_one(tickets(6))))
    del entries[1]["response"]["body"]["answers"]["topic"]
    entries[3]["response"] = {"status": 500, "body": {"error": {"message": f"Bearer {KEY} bad"}}}
    entries[4] |= {"response": None, "error": "timeout"}
    rows = read(write(tmp_path / "log.jsonl", entries))
    without = rows.frame.filter(pl.col("status").is_not_null())
    columns = (without[name].to_list() for name in ("id", "status", "reason"))
    statuses = {item: found for item, *found in zip(*columns, strict=True)}
    assert statuses["t1/topic"][0] == "missing"
    assert len(statuses) == 7
    assert statuses["t4/refund"] == ["failed", "timeout"]
    assert statuses["t3/anger"] == ["failed", "(left out) bad"]
    assert_says(rows.remarks, "Without an answer: 7 questions (lines 2, 4, 5)")


@pytest.mark.parametrize("seed", range(3))
def test_failed_requests_that_asked_nothing_change_no_row(tmp_path: Path, seed: int) -> None:
    """A recorder writes every call that reaches a server; the shape is that of dev-double 0.2.0."""
    made = logs.system_one(tickets())
    called = {"ts": "2026-11-29T20:03:53+00:00", "latency_ms": 1, "request": {"model": "mock"}}
    failed: Entries = [
        {**called, "path": "/generate", "status": 404, "response": {"detail": "Not Found"}},
        {**called, "path": "/v1/systemone", "status": 400, "response": {"error": "no state"}},
    ]
    mixed: Entries = [*made]
    for entry in failed * 2:
        mixed.insert(random.Random(seed).randrange(len(mixed)), entry)
    read_rows = read(write(tmp_path / "a.jsonl", [*failed, *mixed]))
    assert read_rows.frame.equals(read(write(tmp_path / "b.jsonl", made)).frame)
    assert_says(" ".join(read_rows.remarks), "Left out", "6 failed requests")


def test_a_reply_to_one_of_two_open_requests_is_refused(tmp_path: Path) -> None:
    first, second = tickets(2)
    entries = [logs.request(first), logs.request(second), logs.reply(first), logs.reply(second)]
    with pytest.raises(RecordError) as raised:
        read(write(tmp_path / "log.jsonl", entries), source="system-one")
    assert_says(raised.value, "log.jsonl:3", "several requests (lines 1 and 2)", "an id")


def test_refusals_are_unanswered(tmp_path: Path) -> None:
    entries = json.loads(json.dumps(logs.decisions(tickets(4))))
    entries[3]["response"]["body"]["answers"][1] = {"type": "refusal"}
    frame = read(write(tmp_path / "log.jsonl", entries)).frame
    refused = frame.filter(pl.col("status").is_not_null())
    assert refused.select("id", "status").rows() == [("t1/topic", "refused")]


# Chat completions


def test_log_probabilities_of_a_token_are_those_of_the_options(tmp_path: Path) -> None:
    made = tickets(6)
    rows = written(tmp_path, "chat", made)
    for row, ticket in zip(rows.frame.iter_rows(named=True), made, strict=True):
        topics = ticket.answers["topic"]["probabilities"].values()
        assert row["logits"] == pytest.approx([math.log(0.9 * p) for p in topics])
        assert row["answer_mass"] == pytest.approx(0.9)


def test_an_option_that_is_not_listed_has_a_bound(tmp_path: Path) -> None:
    made = tickets(6)
    entries = json.loads(json.dumps(logs.chat(made)))
    tokens = entries[2]["response"]["choices"][0]["logprobs"]["content"][0]["top_logprobs"]
    least = min(tokens[:3], key=lambda token: token["logprob"])
    least["logprob"] = -9999.0
    rows = read(write(tmp_path / "log.jsonl", entries))
    row = rows.frame.row(2, named=True)
    assert row["censored"] == [tokens.index(least)]
    assert row["logits"][tokens.index(least)] == pytest.approx(math.log(1 - 0.9 * 0.9))


def test_texts_without_log_probabilities_are_answers(tmp_path: Path) -> None:
    made = tickets(8)
    entries = json.loads(json.dumps(logs.chat(made)))
    for entry in entries:
        entry["response"]["choices"][0]["logprobs"] = None
        entry["response"]["choices"][0]["message"]["content"] += "."
    rows = read(write(tmp_path / "log.jsonl", entries), options=["A", "B", "C"])
    assert rows.values == "answers"
    assert right(rows)[""] == [t.right["topic"] for t in made]


def test_options_that_nothing_tells_are_asked_for(tmp_path: Path) -> None:
    entries = [entry | {"label": None} for entry in logs.chat(tickets(4))]
    with pytest.raises(ShapeError) as raised:
        read(write(tmp_path / "log.jsonl", entries))
    assert_says(raised.value, "--options A,B,C", "Replies are")


# Many random logs


@pytest.mark.parametrize("seed", range(5))
def test_lines_may_come_in_any_order(tmp_path: Path, seed: int) -> None:
    made = tickets(7, seed)
    random.Random(seed).shuffle(made)
    rows = read(write(tmp_path / "log.jsonl", two_lines(made)))
    assert {name: sum(found) for name, found in right(rows).items()} == {
        name: sum(t.right[name] for t in made) for name in QUESTIONS
    }


@pytest.mark.parametrize("name", WRITERS)
def test_answers_are_called_what_the_log_calls_them(tmp_path: Path, name: str) -> None:
    """Every wrong answer that is listed, and its right one, against the tickets."""
    made = tickets(30)
    log = write(tmp_path / "log.jsonl", WRITERS[name](made))
    labels = write(tmp_path / "cases.jsonl", logs.cases(made)) if name == "jevassert" else None
    folder = import_run(log, tmp_path / "run", data=labels).folder
    alone = {"chat": "topic", "decguard": "topic"}.get(name)
    letters = dict(zip(QUESTIONS["topic"]["criteria"], "ABC", strict=True))
    called = letters.__getitem__ if name == "chat" else str
    hand = [
        {"given": called(given), "right": called(right)}
        for ticket in made
        for question in ([alone] if alone else QUESTIONS)
        for given, right in [said_and_right(ticket, question)]
        if given != right
    ]
    listed = Experiment.read([folder]).report().item_lists(1000).wrong
    assert listed is not None
    found = [{"given": item.given, "right": item.right[0]} for item in listed.items]
    assert sorted(map(str, found)) == sorted(map(str, hand))


def said_and_right(ticket: Ticket, question: str) -> tuple[str, str]:
    """Return the names of the most probable answer and of the right one."""
    label = ticket.labels[question]
    if question == "refund":
        said = ticket.answers["refund"]["noul"] >= 0.5
        return str(said).lower(), str(label).lower()
    p = ticket.answers[question]["probabilities"]
    return max(p, key=p.get), str(label)


def test_options_that_differ_between_requests_give_no_names(tmp_path: Path) -> None:
    """`city` has other options every time; `refund` keeps its own."""
    entries = [
        {
            "id": f"t{at}",
            "label": {"city": f"town {at}", "refund": True},
            "request": {
                "state": f"ticket {at}",
                "questions": {
                    "city": {"type": "choice", "criteria": {f"city {at}": "", f"town {at}": ""}},
                    "refund": QUESTIONS["refund"],
                },
            },
            "response": {
                "answers": {
                    "city": {"probabilities": {f"city {at}": 0.9, f"town {at}": 0.1}},
                    "refund": {"noul": 0.2},
                }
            },
        }
        for at in range(20)
    ]
    folder = import_run(write(tmp_path / "log.jsonl", entries), tmp_path / "run").folder
    listed = Experiment.read([folder]).report().item_lists(100).wrong
    assert listed is not None
    names = {(item.id.split("/")[1], item.given, item.right) for item in listed.items}
    assert names == {("city", "A", ("B",)), ("refund", "false", ("true",))}
