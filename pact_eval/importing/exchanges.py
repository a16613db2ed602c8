"""Requests and replies of a log, whatever recorded them: the parts of every entry.

An entry is one object. It has a request and its reply, one of the two, or both in one object:

    {"id", "timestamp", "request": {"model", "state", "questions"}, "response": {"answers"}}
    {"id", "request": {...}}  then  {"id", "response": {...}}
    {"state", "questions", "answers", "model", "latency_ms"}

Recorders use the same words for the same facts, so one vocabulary (`FACTS`) reads all of them.
Nothing else of an entry is read: no header and no key gets into a run.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from pact_eval._json import Json, at, dumps, finite_number, loads, sha256_of_json
from pact_eval.data.labelled.answers import cell_text
from pact_eval.data.labelled.entries import Entry
from pact_eval.errors import Problem, ShapeError

_REQUEST: Final = ("request", "req", "params", "body", "inputs")
_REPLY: Final = ("response", "reply", "resp", "output", "outputs", "completion", "result")
_BODY: Final = ("body", "json", "content", "data")
_ASKS: Final = ("questions", "messages")
_ANSWERS: Final = ("answers", "choices")
_KEYS: Final = ("request_id", "custom_id", "trace_id", "id")
_FAILED: Final = 400
_ERRORS: Final = tuple(
    f"{place}{name}"
    for place in ("", *(f"{key}{inner}." for key in _REPLY for inner in ("", ".body")))
    for name in ("error", "error_code", "detail", "exception")
)

FACTS: Final[Mapping[str, tuple[str, ...]]] = {
    "time": ("timestamp", "ts", "time", "created_at", "started_at", "created"),
    "latency_ms": ("latency_ms", "duration_ms", "elapsed_ms", "wall_ms"),
    "latency_s": (
        *("latency_s", "duration_s", "elapsed_s", "latency_seconds", "duration_seconds"),
        "response_time",
    ),
    "input_tokens": ("usage.input_tokens", "usage.prompt_tokens", "input_tokens", "prompt_tokens"),
    "output_tokens": ("usage.output_tokens", "usage.completion_tokens", "output_tokens"),
    "price": (
        *("cost", "cost_usd", "price", "price_usd", "usage.cost", "usage.cost_usd"),
        *("response_cost", "total_cost"),
    ),
    "split": ("split",),
    "version": ("model_version", "system_fingerprint"),
}
"""Facts of an exchange, and the names that recorders give them."""

MEASURED: Final = ("time", "latency_ms", "input_tokens", "output_tokens", "price")
"""Columns of items that an import makes of them; those of a request are of all its items."""

_METADATA: Final = ("meta", "metadata")
_RANDOM: Final = re.compile(
    r"(chatcmpl|cmpl|resp|req|batch_req|msg)[-_].*|(sha256:)?[0-9a-f]{32,}|"
    r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}",
    re.IGNORECASE,
)
"""Ids that name a request: another log of the same items has others."""

_PLAIN: Final = re.compile(r"[\w./:@-]+")
_SECRET: Final = re.compile(
    r"auth(?!or(?!i))|api.?key|secret|passw|bearer|cookie|credential|header|access.?key|token$",
    re.IGNORECASE,
)
_SECRET_VALUE: Final = re.compile(
    r"\b(bearer|basic)\s+\S+|\b(sk|pk|key|tsk|hf|ghp|xox\w)[-_][\w-]{8,}|"
    r"\b\w*(auth(?!or(?!i))\w*|api[-_ ]?key|secret|password|cookie)\W+\S+(\s+\S{16,})?",
    re.IGNORECASE,
)


def without_secrets(text: str) -> str:
    """Return a text without what may be a key.

    Examples:
        >>> without_secrets("HTTP 401: Bearer sk-abc123def456 is not valid")
        'HTTP 401: (left out) is not valid'
    """
    return _SECRET_VALUE.sub("(left out)", text)


def first_of(values: Iterable[Json]) -> Json:
    """Return the first value that is there."""
    return next((value for value in values if value is not None and value != ""), None)


@dataclass(frozen=True)
class Exchange:
    """A request and its reply.

    Attributes:
        line: 1-based line of the reply, or of the request without one.
        entry: the object that has both, or else that of the request with facts of the reply.
        request: what was sent; empty if the log does not have it.
        reply: what came back; empty if nothing did.
    """

    line: int
    entry: Mapping[str, Json]
    request: Mapping[str, Json] = field(default_factory=dict)
    reply: Mapping[str, Json] = field(default_factory=dict)

    def get(self, *names: str) -> Json:
        """Return the first value of these names, of the reply before the entry and the request."""
        places = (self.reply, self.entry, self.request)
        return first_of(at(place, *name.split(".")) for name in names for place in places)

    def name_by(self, keys: Sequence[str]) -> str | None:
        """Return the id of its item: the values of keys; None without one, or of a random one."""
        texts = [cell_text(self.entry.get(key)) for key in keys]
        name = "/".join(text for text in texts if text is not None)
        return None if not texts or texts[-1] is None or _RANDOM.fullmatch(name) else name

    @property
    def model(self) -> str | None:
        """The model that answered; that of the request if the reply does not say."""
        return cell_text(self.get("model_served", "model"))

    @property
    def served(self) -> str | None:
        """The model that answered, with its version if the log has one."""
        version = cell_text(self.get("model_version"))
        named = (name for name in (self.model, version) if name is not None)
        return "@".join(named) or None

    @property
    def error(self) -> str | None:
        """What the log says of a request that failed, without keys; None if it was answered."""
        error = self.get(*_ERRORS)
        if error is None or error is False:
            return None
        message = error.get("message") if isinstance(error, dict) else error
        return without_secrets(message if isinstance(message, str) else dumps(message))[:200]

    def facts(self) -> dict[str, Json]:
        """Return time, latency, tokens, price and metadata, as far as the log has them.

        Raises:
            ValueError: a number is negative, or is not one.
        """
        facts = {name: self.get(*names) for name, names in FACTS.items()}
        for name in ("latency_ms", "latency_s", "input_tokens", "output_tokens", "price"):
            facts[name] = _measure(facts[name], name)
        seconds = facts.pop("latency_s")
        if facts["latency_ms"] is None and isinstance(seconds, float):
            facts["latency_ms"] = round(seconds * 1000, 6)
        facts["time"] = _clock(facts["time"])[1]
        return {**self._metadata(), **facts}

    def _metadata(self) -> dict[str, Json]:
        values: dict[str, Json] = {}
        for place in map(self.entry.get, _METADATA):
            values |= place if isinstance(place, dict) else {}
        tags = self.entry.get("tags")
        values |= {"tags": ", ".join(map(str, tags))} if isinstance(tags, list) and tags else {}
        return {
            name: value
            for name, value in values.items()
            if isinstance(value, str | int | float)
            and not _SECRET.search(name)
            and not _SECRET_VALUE.search(str(value))
        }


def _measure(value: Json, name: str) -> float | None:
    number = None if value is None else finite_number(value)
    if value is not None and (number is None or number < 0):
        raise ValueError(f"{name}: expected a number of at least 0, got {dumps(value)[:60]}")
    return number


def _clock(value: Json) -> tuple[str, str | None]:
    """Return what clock a time is of, and the time as text; None if it is not a date with a time.

    Examples:
        >>> _clock("2026-11-01T12:00:00Z"), _clock(1793534400)
        (('UTC', '2026-11-01T12:00:00Z'), ('seconds since 1970', '2026-11-01T12:00:00Z'))
        >>> _clock(0.25)
        ('', None)
    """
    number = finite_number(value)
    for clock, unit in (("seconds", 1.0), ("milliseconds", 1e3), ("microseconds", 1e6)):
        if number is not None and 1e8 <= number / unit < 1e10:
            return f"{clock} since 1970", _iso(dt.datetime.fromtimestamp(number / unit, dt.UTC))
    try:
        moment = dt.datetime.fromisoformat(str(value))
    except ValueError:
        return "", None
    if moment.tzinfo is None:
        return "a time without a zone", moment.isoformat()
    return "UTC", _iso(moment.astimezone(dt.UTC))


def _iso(moment: dt.datetime) -> str:
    return moment.isoformat().replace("+00:00", "Z")


def several_models(
    source: str, lines: Mapping[str, Sequence[int]], chosen: str | None
) -> ShapeError:
    """Return the error of a log with answers of several models.

    Args:
        source: the log.
        lines: by model, the lines of its answers.
        chosen: a model that the user names, of which there are none; None without one.
    """
    listed = ", ".join(f"{name} ({len(at):,} from line {at[0]})" for name, at in lines.items())
    quoted = (name if _PLAIN.fullmatch(name) else f"'{name}'" for name in lines)
    remedies = " or ".join(f"--filter {name}" for name in quoted)
    what = f"--filter {chosen}: no answer is of it" if chosen else "answers of several models"
    return ShapeError(f"{source}: {what}: {listed}. Read those of one: {remedies}")


def clocks(exchanges: Sequence[Exchange]) -> list[Problem]:
    """Return the problem of a log whose times are of two clocks, with a line of each."""
    lines: dict[str, int] = {}
    for exchange in exchanges:
        clock, text = _clock(exchange.get(*FACTS["time"]))
        if text is not None:
            lines.setdefault(clock, exchange.line)
    if len(lines) < 2:
        return []
    both = " and ".join(f"{clock} (line {line})" for clock, line in lines.items())
    message = f"time: expected one clock, got {both}; write all times in UTC, or leave them out"
    return [Problem(max(lines.values()), None, message)]


def parts_of(entry: Mapping[str, Json]) -> tuple[dict[str, Json], dict[str, Json]]:
    """Return the request and the reply of an entry; empty ones if it does not have them."""
    request = next(filter(None, (_body(entry.get(key), _ASKS) for key in _REQUEST)), {})
    reply = next(filter(None, (_body(entry.get(key), _ANSWERS) for key in _REPLY)), {})
    whole = {**entry}
    return request or _body(whole, _ASKS), reply or _body(whole, _ANSWERS)


def _body(value: Json, keys: Sequence[str]) -> dict[str, Json]:
    """Return the object with one of these keys: a value, its body, or what its text holds."""
    if isinstance(value, str) and value.lstrip().startswith("{"):
        try:
            value = loads(value)
        except ValueError:
            return {}
    if not isinstance(value, dict):
        return {}
    if any(value.get(key) is not None for key in keys):
        return value
    inner = (_body(value.get(key), keys) for key in _BODY if value.get(key) is not value)
    return next(filter(None, inner), {})


def asks_nothing(entry: Entry) -> bool:
    """Return whether an entry is a failed request without a question and without an id.

    Recorders write every call that reaches a server: those to other addresses too.
    """
    request, reply = parts_of(entry.value)
    if request or reply or first_of(entry.value.get(name) for name in _KEYS) is not None:
        return False
    status = entry.value.get("status")
    failed = isinstance(status, int) and status >= _FAILED
    return failed or Exchange(entry.line, entry.value).error is not None


def pair(entries: Sequence[Entry]) -> tuple[list[Exchange], list[Problem]]:
    """Return the exchanges of a log, and the replies that no request belongs to.

    A reply in an entry of its own belongs to the request with the same id; without ids, to the
    only request that is still open.
    """
    exchanges: list[Exchange] = []
    problems: list[Problem] = []
    open_requests: dict[str | None, list[Exchange]] = {}
    alone: list[Exchange] = []
    for entry in entries:
        request, reply = parts_of(entry.value)
        exchange = Exchange(entry.line, entry.value, request, reply)
        key = cell_text(first_of(entry.value.get(name) for name in _KEYS))
        waiting = open_requests.get(key, [])
        if request and not reply and exchange.error is None:
            open_requests.setdefault(key, []).append(exchange)
        elif request:
            exchanges.append(exchange)
        elif len(waiting) > 1:
            lines = " and ".join(str(other.line) for other in waiting[:2])
            message = f"a reply to one of several requests (lines {lines}); give both an id"
            problems.append(Problem(entry.line, key, message))
        elif waiting:
            asked = open_requests.pop(key)[0]
            together = {**asked.entry, **entry.value}
            exchanges.append(Exchange(entry.line, together, asked.request, reply))
        else:
            alone.append(exchange)
    unanswered = [other for waiting in open_requests.values() for other in waiting]
    if exchanges or unanswered or problems:
        problems += [Problem(other.line, None, "a reply without its request") for other in alone]
        alone = []
    both = sorted([*exchanges, *unanswered, *alone], key=lambda exchange: exchange.line)
    return both, sorted(problems, key=lambda problem: problem.line or 0)


def content_id(state: Json) -> str:
    """Return an id of what was asked about, which another log of it has too."""
    return sha256_of_json(state)[:16]
