"""Logs of requests and replies in the shapes that their recorders write, made here."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

QUESTIONS: Final[dict[str, Any]] = {
    "refund": {"type": "noul", "instructions": "Does the customer ask for a refund?"},
    "topic": {
        "type": "choice",
        "instructions": "What is it about?",
        "criteria": {"delivery": "Parcels", "billing": "Money", "other": None},
    },
    "anger": {"type": "score", "instructions": "How angry?", "criteria": ["calm", "cross", "wild"]},
}
MODEL: Final = "jev-1.13.0"
KEY: Final = "sk-0123456789abcdef"


@dataclass(frozen=True)
class Ticket:
    """One request: its state, the right answers, and the reply's answers by question.

    `right` counts the questions whose most probable answer is right.
    """

    id: str
    state: str
    labels: Mapping[str, Any]
    answers: Mapping[str, Any]

    @property
    def right(self) -> dict[str, bool]:
        """Whether each answer is right, by hand."""
        topic, anger = (self.answers[name]["probabilities"] for name in ("topic", "anger"))
        return {
            "refund": (self.answers["refund"]["noul"] >= 0.5) == self.labels["refund"],
            "topic": max(topic, key=topic.get) == self.labels["topic"],
            "anger": max(anger, key=anger.get) == str(self.labels["anger"]),
        }


def tickets(count: int = 12, seed: int = 3) -> list[Ticket]:
    """Return requests with answers of known truth; no two probabilities of a question tie."""
    rng = random.Random(seed)
    made = []
    for number in range(count):
        topic = dict(
            zip(QUESTIONS["topic"]["criteria"], rng.sample([0.6, 0.3, 0.1], 3), strict=True)
        )
        anger = dict(zip("012", rng.sample([0.5, 0.4, 0.1], 3), strict=True))
        labels = {
            "refund": rng.random() < 0.5,
            "topic": rng.choice([*topic]),
            "anger": rng.randrange(3),
        }
        answers = {
            "refund": {"type": "noul", "noul": rng.choice([0.07, 0.31, 0.93])},
            "topic": {
                "type": "choice",
                "choice": max(topic, key=lambda name: topic[name]),
                "confidence": 0.4,
                "probabilities": topic,
            },
            "anger": {
                "type": "score",
                "score": anger["1"] + 2 * anger["2"],
                "confidence": 0.4,
                "legend": dict(zip("012", QUESTIONS["anger"]["criteria"], strict=True)),
                "probabilities": anger,
            },
        }
        made.append(Ticket(f"t{number}", f"ticket {number}", labels, answers))
    return made


def write(path: Path, entries: Iterable[object]) -> Path:
    """Write JSON lines."""
    path.write_text("".join(json.dumps(entry) + "\n" for entry in entries), "utf-8")
    return path


def request(ticket: Ticket, **changes: Any) -> dict[str, Any]:
    """Return the body of a request of `/v1/systemone`."""
    return {"model": "jev-latest", "state": ticket.state, "questions": QUESTIONS} | changes


def reply(ticket: Ticket, **changes: Any) -> dict[str, Any]:
    """Return the body of its reply."""
    usage = {"input_tokens": 120, "output_tokens": 0}
    return {"model": MODEL, "answers": ticket.answers, "usage": usage} | changes


def system_one(made: Iterable[Ticket]) -> list[dict[str, Any]]:
    """Return one entry per request, with headers, times and right answers."""
    return [
        {
            "id": ticket.id,
            "timestamp": "2026-11-01T10:00:00Z",
            "latency_ms": 31.5,
            "cost_usd": 0.25,
            "label": ticket.labels,
            "request": {"headers": {"Authorization": f"Bearer {KEY}"}, "body": request(ticket)},
            "response": {"status": 200, "body": reply(ticket)},
        }
        for ticket in made
    ]


def jevkit(made: Iterable[Ticket]) -> list[dict[str, Any]]:
    """Return `.jevl` records as jevkit-core 0.2.0 writes them."""
    return [
        {
            "v": 1,
            "id": "sha256:" + f"{number:064x}",
            "ts": "2026-11-01T10:00:00Z",
            "model": MODEL,
            "request": {"state": ticket.state, "questions": QUESTIONS},
            "answers": ticket.answers,
            "usage": {"input_tokens": 120, "output_tokens": 0},
            "label": ticket.labels,
            "tags": ["november"],
            "meta": {"shop": number % 2, "api_key": KEY},
        }
        for number, ticket in enumerate(made)
    ]


def jev_eval(made: Iterable[Ticket]) -> list[dict[str, Any]]:
    """Return a cache as jev-eval 1.2.0 writes it: a line per question."""
    levels = QUESTIONS["anger"]["criteria"]
    return [
        {
            "answer": ticket.answers[name],
            "call": f"call {row}",
            "gold": levels[ticket.labels[name]] if name == "anger" else ticket.labels[name],
            "id": name,
            "input_tokens": 120,
            "meta": {"shop": row % 2},
            "model": MODEL,
            "question": QUESTIONS[name],
            "question_hash": f"q-{name}",
            "row": row,
            "state_chars": 8,
            "state_hash": f"s-{row}",
            "type": QUESTIONS[name]["type"],
        }
        for row, ticket in enumerate(made)
        for name in QUESTIONS
    ]


def jevassert(made: Iterable[Ticket]) -> list[dict[str, Any]]:
    """Return a recording as jevassert 0.2.1 writes it; its right answers are in `cases`."""
    usage = {"input_tokens": 120, "output_tokens": 0}
    facts = {"model": MODEL, "latency_ms": 31.5, "usage": usage, "error": None}
    return [{"case_id": each.id, "answers": each.answers, **facts} for each in made]


def cases(made: Iterable[Ticket]) -> list[dict[str, Any]]:
    """Return the cases of a pack of jevassert: levels are texts."""
    levels = QUESTIONS["anger"]["criteria"]
    return [
        {"id": each.id, "expect": {**each.labels, "anger": levels[each.labels["anger"]]}}
        for each in made
    ]


def decguard(made: Iterable[Ticket]) -> list[dict[str, Any]]:
    """Return production records as decguard 0.1.1 reads them."""
    return [
        {
            "id": ticket.id,
            "timestamp": "2026-11-01T11:00:00+01:00",
            "decision": "topic",
            "input": ticket.state,
            "probabilities": ticket.answers["topic"]["probabilities"],
            "selected": ticket.answers["topic"]["choice"],
            "confidence": 0.6,
            "model": MODEL,
            "outcome": ticket.labels["topic"],
            "outcome_correct": ticket.right["topic"],
            "latency_ms": 31.5,
            "cost": 0.25,
            "metadata": {"shop": "north"},
        }
        for ticket in made
    ]


def s1ops(made: Iterable[Ticket]) -> list[dict[str, Any]]:
    """Return `s1-record/1` records as s1ops 0.1.0 writes them."""
    return [
        {
            "schema": "s1-record/1",
            "dataset": "shop",
            "split": "eval",
            "item_id": ticket.id,
            "state_sha256": f"{number:064x}",
            "question_id": name,
            "primitive": QUESTIONS[name]["type"],
            "model_requested": MODEL,
            "model_served": MODEL,
            "label": ticket.labels[name],
            "latency_ms": 31.5,
            "timestamp": "2026-11-01T10:00:00Z",
            **({"p": answer["noul"]} if name == "refund" else {**answer, "type": None}),
        }
        for number, ticket in enumerate(made)
        for name, answer in ticket.answers.items()
    ]


def decisions(made: Iterable[Ticket]) -> list[dict[str, Any]]:
    """Return requests of `/v1/decisions` and the lines of a batch that answer them."""
    topic, anger = QUESTIONS["topic"]["criteria"], QUESTIONS["anger"]["criteria"]
    questions = [
        {"type": "predicate", "name": "refund", "instructions": "The customer asks for a refund."},
        {"type": "choice", "name": "topic", "choices": [{"value": value} for value in topic]},
        {"type": "score", "name": "anger", "levels": [{"label": label} for label in anger]},
    ]
    entries: list[dict[str, Any]] = []
    for ticket in made:
        topics, levels = (ticket.answers[name]["probabilities"] for name in ("topic", "anger"))
        answers = [
            {"type": "predicate", "probability": ticket.answers["refund"]["noul"]},
            {
                "type": "choice",
                "choice": ticket.answers["topic"]["choice"],
                "probabilities": [{"value": v, "probability": p} for v, p in topics.items()],
            },
            {
                "type": "score",
                "score": ticket.answers["anger"]["score"],
                "probabilities": [
                    {"label": anger[int(level)], "probability": p, "value": int(level)}
                    for level, p in levels.items()
                ],
            },
        ]
        body = {"model": "gpt-6-luna", "input": ticket.state, "questions": questions}
        done = {"status_code": 200, "body": {"model": "gpt-6-luna", "answers": answers}}
        entries.append({"custom_id": ticket.id, "body": body, "label": ticket.labels})
        entries.append({"custom_id": ticket.id, "response": done, "error": None})
    return entries


def chat(made: Iterable[Ticket]) -> list[dict[str, Any]]:
    """Return chat completions about the topic, as letters; a tenth is of other tokens."""
    entries = []
    for ticket in made:
        topics = ticket.answers["topic"]["probabilities"]
        letters = dict(zip("ABC", topics.values(), strict=True))
        top: list[dict[str, Any]] = [
            {"token": k, "logprob": math.log(0.9 * p)} for k, p in letters.items()
        ]
        best = max(top, key=lambda token: token["logprob"])
        content = [{**best, "top_logprobs": [*top, {"token": "I", "logprob": math.log(0.05)}]}]
        choice = {
            "finish_reason": "stop",
            "message": {"role": "assistant", "content": best["token"]},
            "logprobs": {"content": content},
        }
        messages = [
            {"role": "system", "content": "Answer with a letter."},
            {"role": "user", "content": ticket.state},
        ]
        usage = {"prompt_tokens": 30, "completion_tokens": 1}
        entries.append(
            {
                "label": "ABC"[[*topics].index(ticket.labels["topic"])],
                "request": {"model": "gpt-5", "messages": messages, "logprobs": True},
                "response": {
                    "id": f"chatcmpl-{ticket.id}",
                    "object": "chat.completion",
                    "created": 1793527200,
                    "model": "gpt-5-2026-08-07",
                    "choices": [choice],
                    "usage": usage,
                },
            }
        )
    return entries


WRITERS: Final[Mapping[str, Callable[[Iterable[Ticket]], list[dict[str, Any]]]]] = {
    "system-one": system_one,
    "openai-decisions": decisions,
    "chat": chat,
    "jevkit": jevkit,
    "jev-eval": jev_eval,
    "jevassert": jevassert,
    "decguard": decguard,
    "s1ops": s1ops,
}
"""By format, what writes its log."""


def grades(made: Iterable[Ticket]) -> list[dict[str, Any]]:
    """Return whether the answers about the topic are right; three tickets are of one group."""
    return [
        {"id": ticket.id, "right": ticket.right["topic"], "group": f"g{number // 3}"}
        for number, ticket in enumerate(made)
    ]


def errorbars(path: Path, made: Iterable[Ticket]) -> Path:
    """Write the long format of errorbars 0.2.4."""
    rows = [f"{g['id']},m1,{int(g['right'])},{g['group']}" for g in grades(made)]
    text = "\n".join(["question_id,model,score,cluster_id", *rows])
    path.write_text(f"{text}\n", "utf-8")
    return path


def statgate(path: Path, made: Iterable[Ticket]) -> Path:
    """Write results of statgate 0.1.1."""
    return write(
        path,
        [
            {"case_id": g["id"], "passed": g["right"], "score": float(g["right"]), "shop": "north"}
            for g in grades(made)
        ],
    )


def evalsig(path: Path, made: Iterable[Ticket]) -> Path:
    """Write a run of evalsig 0.1.2."""
    items = [
        {"item_id": g["id"], "score": float(g["right"]), "cluster_id": g["group"]}
        | {"epoch": 0, "metadata": {}}
        for g in grades(made)
    ]
    run = {"run_id": "r", "model_id": "m1", "task_id": "topics", "metric_name": "acc"}
    path.write_text(json.dumps({**run, "config_hash": "", "items": items}, indent=2), "utf-8")
    return path


GRADED: Final[Mapping[str, tuple[str, Callable[[Path, Iterable[Ticket]], Path]]]] = {
    "errorbars": ("errorbars.csv", errorbars),
    "statgate": ("statgate.jsonl", statgate),
    "evalsig": ("evalsig.json", evalsig),
}
"""By format, a name of its file, and what writes it."""
