"""Probe of a server: its model, its noise, and its sensitivity to orders and adapters.

Five frozen items are asked, one of them five times and all choices in a second order. With the name
of the base model, they are asked of it too; with a local model, they are scored here as well. On
a wire that sends token ids, they are asked alone and in batches too, and the server's tokenizer is
compared with ours.

The answers are kept: asked again when a run resumes and when it ends, they show whether the model
has changed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import islice
from typing import Final, Literal

from pact_eval._json import Json, at, dumps, sha256_of_json
from pact_eval.data.records import Record, parse_record
from pact_eval.errors import ServerError, counted
from pact_eval.plain_text import one_line
from pact_eval.prompts.contract import canonical_code_order
from pact_eval.prompts.encoding import Encoder
from pact_eval.runs.predictions import decimals
from pact_eval.scoring.servers.asking import ItemAnswer, RequestQueue, view_orders
from pact_eval.scoring.servers.client import error_text
from pact_eval.scoring.servers.dialects import Values, Wire
from pact_eval.scoring.servers.find_wire import read_cards
from pact_eval.scoring.servers.wire import AskedItem, spread_of, total_variation

_LOST_PARCEL = (
    "Customer: The parcel came a day late and one corner was torn. Nothing seems to be missing, "
    "but the lamp flickers now and then. I would like to keep it if it is safe.\n"
    "Clerk: Our courier noted rain damage at the depot."
)
_MEETING = (
    "Ana wants the hall on Monday, but may take Tuesday. Ben has asked first, for either day. The "
    "choir practises on Monday in most weeks."
)
_LEAVES = "The leaves are yellow at the edge, the soil was dry on Friday and is wet today."

_QUESTIONS: Final[tuple[tuple[str, Json, dict[str, Json]], ...]] = (
    (
        "choice-parcel",
        _LOST_PARCEL,
        {
            "type": "choice",
            "instructions": "Choose the next step.",
            "criteria": {
                "replace": "Send another lamp.",
                "inspect": "Have the lamp looked at.",
                "refund": "Pay the price back.",
                "close": "Nothing more is needed.",
            },
        },
    ),
    (
        "choice-hall",
        _MEETING,
        {
            "type": "choice",
            "instructions": "Who gets the hall on Monday?",
            "criteria": {"choir": "The choir.", "ana": "Ana.", "none": "Nobody.", "ben": "Ben."},
        },
    ),
    (
        "choice-leaves",
        {"notes": [_LEAVES]},
        {
            "type": "choice",
            "instructions": "What does the plant most likely need?",
            "criteria": {"water": None, "light": None, "food": None, "rest": None},
        },
    ),
    ("boolean-safe", _LOST_PARCEL, {"type": "noul", "instructions": "Is the lamp safe to use?"}),
    (
        "score-urgency",
        _LOST_PARCEL,
        {
            "type": "score",
            "instructions": "How urgent is this?",
            "criteria": ["It can wait.", "This week.", "Today."],
        },
    ),
)


def _record(name: str, state: Json, question: dict[str, Json]) -> Record:
    value: dict[str, Json] = {
        "id": name,
        "family": name,
        "source_family": "probe",
        "split": "validation",
        "domain": "probe",
        "variant": "base",
        "input": {"state": state, "questions": {"decision": question}},
    }
    return parse_record(value, require_reference=False)


PROBE_RECORDS: Final = tuple(_record(*row) for row in _QUESTIONS)
"""Three choices of four answers, a boolean and a score."""

PROBE_SHA256: Final = sha256_of_json(
    [[name, state, question] for name, state, question in _QUESTIONS]
)
"""Identifies the set: answers to another set are not compared."""


@dataclass(frozen=True)
class TokenizerProbe:
    """The tokenizer that makes the prompts here, and that of the server.

    Attributes:
        prompts: number of prompts that both have tokenised; 0 if the server does not offer it.
        same: whether the ids are the same.
    """

    prompts: int
    same: bool


@dataclass(frozen=True)
class BatchProbe:
    """The same prompts, one per request and several at once.

    Attributes:
        largest_tv: largest total variation distance of the two answers to a prompt.
        prompts: number of prompts.
    """

    largest_tv: float
    prompts: int


REPEATS: Final = 5
"""Times that one item is asked in the same order."""

ProbedOrderEffect = Literal["seen", "within noise", "not seen", "unknown"]
"""Whether the server shows answers in the order of the request. Unknown: rounding may hide it."""

Meaning = Literal["good", "caution", "bad"]
"""What a finding means; a bad one is a reason not to score the server."""

Finding = tuple[str, str, Meaning | None]
"""Subject, sentence and meaning."""

_EFFECTS: Final[Mapping[ProbedOrderEffect, str]] = {
    "seen": "the order is seen",
    "within noise": "not more than noise",
    "not seen": "the server does not see the order: views are repeated, not asked",
    "unknown": "rounding may hide an effect",
}
_OTHER_TOKENIZER: Final = (
    "the server's tokenizer makes other ids of the same prompt: --tokenizer is not that of the "
    "model"
)
_SAME: Final = 1e-9
_LEAST_EFFECT: Final = 1e-5
_LEAST_CHANGE: Final = 1e-3
_TIMES_FLOOR: Final = 3.0
_SURE: Final = 0.9
_MOST_NAMES: Final = 20
_MOST_CHARACTERS: Final = 2000
_MOST_SHOWN: Final = 100


@dataclass(frozen=True)
class RepeatFloor:
    """Effect of noise alone: one item asked several times.

    Attributes:
        repeats: number of answers.
        largest_tv: largest total variation distance of two of them.
        flips: answers whose most probable answer is not that of the first.
    """

    repeats: int
    largest_tv: float
    flips: int


@dataclass(frozen=True)
class OrderProbe:
    """The same items in two orders.

    Attributes:
        effect: whether the server shows the order.
        largest_tv: largest total variation distance of the two answers to an item.
        flips: number of items whose most probable answer differs.
        choices: number of items that were asked in both; only choices on some wires.
    """

    effect: ProbedOrderEffect
    largest_tv: float
    flips: int
    choices: int


@dataclass(frozen=True)
class BaseProbe:
    """The adapter's name and the base model's name, on the same items.

    Attributes:
        name: of the base model.
        largest_tv: largest total variation distance of the answers to an item.
        applied: whether it is above the noise: the adapter changes something.
    """

    name: str
    largest_tv: float
    applied: bool


@dataclass(frozen=True)
class Parity:
    """The server and a local model on the same items.

    Attributes:
        adapter: the local adapter or base model, scored in float32.
        views: number of views compared.
        largest_difference: of a log-probability; of a probability if the server rounds.
        tolerance: the largest that rounding errors and noise may cause.
        precision: of the server: float32 if it answers so, else that of the stored weights.
        rounding: what this precision moves here, in the unit of `largest_difference`.
        largest_mass_difference: of the answer mass; None if the prompts or the mass are not known.
        mass_tolerance: the same for the answer mass.
    """

    adapter: str
    views: int
    largest_difference: float
    tolerance: float
    precision: str = "float32"
    rounding: float = 0.0
    largest_mass_difference: float | None = None
    mass_tolerance: float = 0.0

    @property
    def holds(self) -> bool:
        """Whether the differences are within rounding errors."""
        mass = self.largest_mass_difference or 0.0
        return self.largest_difference <= self.tolerance and mass <= self.mass_tolerance


@dataclass(frozen=True)
class ServerProbe:
    """Results of the probe of a server.

    Attributes:
        wire: format of requests and answers.
        model: name of the model asked for.
        answered_by: name that the answers carry; None if they carry none.
        models: the entry of the model on `/v1/models`, or the names there; None without the page.
        version: the page `/version`; None without it.
        headers: headers of an answer that describe the server.
        answers: by item, its probabilities in view 0, canonical order.
        unanswered: by item, why it has none.
        values: what the server sends.
        decimals: to how many decimals; None if not rounded.
        floor: what noise alone moves.
        order: whether orders are seen.
        base: whether the adapter is applied; None if it was not compared with its base model.
        base_missing: why not, if the name of the base model is known.
        parity: agreement with a local model; None without one.
        wire_reason: why this wire is used.
        tokenizer: whether the server has our tokenizer; None if it makes the prompts.
        batches: whether batches change answers; None on wires that ask for one view at a time.
        probe_sha256: the set of items.
    """

    wire: str
    model: str
    answered_by: str | None
    models: Json
    version: Json
    headers: Mapping[str, str]
    answers: Mapping[str, tuple[float, ...]]
    unanswered: Mapping[str, str]
    values: Values
    decimals: int | None
    floor: RepeatFloor | None
    order: OrderProbe | None
    base: BaseProbe | None = None
    parity: Parity | None = None
    wire_reason: str = "as given"
    tokenizer: TokenizerProbe | None = None
    batches: BatchProbe | None = None
    probe_sha256: str = PROBE_SHA256
    base_missing: str | None = None

    @property
    def noise(self) -> float:
        """The largest TV that repeating a request has made, or putting it into a batch."""
        floor = 0.0 if self.floor is None else self.floor.largest_tv
        return floor if self.batches is None else max(floor, self.batches.largest_tv)

    @property
    def least_change(self) -> float:
        """The smallest total variation distance that is not put down to noise and rounding."""
        unit = 0.0 if self.decimals is None else 10.0**-self.decimals
        return max(_TIMES_FLOOR * self.noise, unit + _SAME, _LEAST_CHANGE)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What the probe found, in the order in which it is shown."""
        return (*_about_server(self), *_about_answers(self), *_about_model(self))

    @property
    def faults(self) -> tuple[str, ...]:
        """Reasons why the server must not be scored, one sentence each."""
        return tuple(text for _, text, meaning in self.findings if meaning == "bad")

    @property
    def orders_are_views(self) -> bool:
        """Whether another order can be another view."""
        return self.order is None or self.order.effect != "not seen"

    def to_json(self) -> dict[str, Json]:
        """Return the probe for `run.json`."""
        values = asdict(self)
        names = {"wire": values.pop("wire"), "asked": values.pop("model")}
        return names | values


def _about_server(probe: ServerProbe) -> list[Finding]:
    """Word what the server says of itself."""
    by = "no name in the answers" if probe.answered_by is None else f"{probe.answered_by} answers"
    said = [] if probe.version is None else [f"version {_short(probe.version)}"]
    said += [f"{name}: {text}" for name, text in probe.headers.items()][:3]
    said += [] if probe.models is None else [f"/v1/models {_short(probe.models)}"]
    return [
        ("model", f"{probe.model} was asked, {by}; a name is no proof of the weights", None),
        ("server", "; ".join(said) or "says nothing about itself", None),
        ("wire", f"{probe.wire}: {probe.wire_reason}", None),
    ]


def _about_answers(probe: ServerProbe) -> list[Finding]:
    """Word what the answers are, and what moves them."""
    answered, missing = len(probe.answers), probe.unanswered
    without = "".join(f"; {name}: {why}" for name, why in missing.items())
    rounded = "not rounded" if probe.decimals is None else f"rounded to {probe.decimals} decimals"
    values: Finding = ("values", f"{probe.values}, {rounded}", None)
    if probe.values == "logits":
        text = "logits, not log-probabilities (raw_logits mode): the answer mass is unknown"
        values = ("values", text, "caution")
    floor, noise = probe.floor, "not measured"
    if floor is not None:
        noise = f"the same request {floor.repeats} times: largest TV {floor.largest_tv:.2g}, "
        noise += counted(floor.flips, "flip")
    text = f"{answered} of {answered + len(missing)} items{without}"
    findings: list[Finding] = [
        ("answers", text, "caution" if missing else None),
        values,
        ("noise", noise, None),
    ]
    if probe.batches is not None:
        text = f"{probe.batches.prompts} prompts alone and in batches: largest TV "
        findings.append(("batches", f"{text}{probe.batches.largest_tv:.2g}", None))
    if probe.tokenizer is not None:
        prompts = probe.tokenizer.prompts
        ids: Finding = ("tokenizer", _OTHER_TOKENIZER, "bad")
        if not prompts:
            ids = ("tokenizer", "not compared: the server has no /tokenize", "caution")
        elif probe.tokenizer.same:
            ids = ("tokenizer", f"the same ids of {prompts} prompts here and there", "good")
        findings.append(ids)
    if probe.order is None:
        return [*findings, ("order", "no item could be asked in two orders", "caution")]
    order = probe.order
    text = f"{order.choices} items in two orders: largest TV {order.largest_tv:.2g}, "
    text += f"{counted(order.flips, 'flip')}; {_EFFECTS[order.effect]}"
    return [*findings, ("order", text, None if order.effect == "seen" else "caution")]


def _about_model(probe: ServerProbe) -> list[Finding]:
    """Word how the model compares with its base model, and with a model here."""
    base, parity = probe.base, probe.parity
    adapter: Finding = ("adapter", "not compared with its base (--base-name NAME)", None)
    if probe.base_missing is not None:
        adapter = ("adapter", f"not compared: {probe.base_missing}", "caution")
    elif base is not None and base.applied:
        text = f"{base.name} differs by TV {base.largest_tv:.2g}: the adapter is applied"
        adapter = ("adapter", text, "good")
    elif base is not None:
        text = f"{probe.model} answers as {base.name} does (largest TV {base.largest_tv:.2g}): "
        adapter = ("adapter", f"{text}the adapter is not applied, or changes nothing", "bad")
    here: Finding = ("parity", "not compared with a model here (--local)", None)
    if parity is not None:
        what = "log-probability" if probe.decimals is None else "probability"
        text = (
            f"{parity.adapter} on {parity.views} views: largest difference of a {what} "
            f"{parity.largest_difference:.2g}, at most {parity.tolerance:.2g} expected in "
            f"{parity.precision}"
        )
        if parity.rounding:
            text += f", which moves them by {parity.rounding:.2g} here"
        if parity.largest_mass_difference is not None:
            text += f"; of the answer mass {parity.largest_mass_difference:.2g}"
        here = ("parity", text, "good")
        if not parity.holds:
            text = f"{probe.model} does not answer as {text} (another adapter or prompt, or a "
            here = ("parity", f"{text}precision to name by --local-dtype)", "bad")
    items = f"{len(probe.answers)} items, set {probe.probe_sha256[:12]}"
    return [adapter, here, ("probe", items, None)]


def _short(value: Json) -> str:
    text = one_line(dumps(value))
    return text if len(text) <= _MOST_SHOWN else f"{text[: _MOST_SHOWN - 3]}..."


def probe_server(asker: RequestQueue, base_name: str | None, wire_reason: str) -> ServerProbe:
    """Probe a server.

    Args:
        asker: asks for items.
        base_name: name of the base model on the server, if the model is an adapter.
        wire_reason: why its wire is used.

    Raises:
        ServerError: the server cannot be used, or answers no item of the probe.
    """
    wire, client, items = asker.wire, asker.client, probe_items(asker.wire, k=2)
    answers = _ask(asker, items)
    first = _first_views(answers)
    unanswered = {
        name: f"{answer.missing.status}: {answer.missing.reason}"
        for name, answer in answers.items()
        if answer.missing is not None
    }
    if not first:
        raise ServerError(f"no item of the probe was answered: {next(iter(unanswered.values()))}")
    cards = read_cards(client)
    names: list[Json] = [*islice(cards, _MOST_NAMES)]
    version = client.get("/version")
    again = next(item for item in items if item.record_id in first)
    repeated = [replace(again, orders=again.orders[:1])] * (REPEATS - 1)
    repeats = [answer.views for answer in asker.ask(repeated, alone=True) if answer.views]
    spread = spread_of([first[again.record_id], *(views[0].probabilities for views in repeats)])
    tokenizer, batches = None, None
    if wire.encoder is not None:
        tokenizer = _compare_tokenizers(asker, wire.encoder, items)
        batches = _compare_batches(asker, items, answers)
    probe = ServerProbe(
        wire=wire.name,
        model=asker.model,
        answered_by=asker.answered_by,
        models=_shorten_value(dict(cards[asker.model])) if asker.model in cards else names or None,
        version=None if version is None else _shorten_value(version),
        headers=client.described,
        answers=first,
        unanswered=unanswered,
        values=wire.values,
        decimals=decimals_of(wire, [*answers.values()]),
        floor=RepeatFloor(spread.answers, spread.largest_tv, spread.flips),
        order=None,
        wire_reason=wire_reason,
        tokenizer=tokenizer,
        batches=batches,
    )
    probe = replace(probe, order=_compare_orders(items, answers, probe))
    if base_name is not None:
        missing = _why_without_base(asker, [*cards], base_name)
        base = _compare_base(asker, probe, base_name) if missing is None else None
        probe = replace(probe, base=base, base_missing=missing)
    return replace(probe, values=wire.values)  # logits may have shown only now


def probe_items(wire: Wire, *, k: int = 1) -> list[AskedItem]:
    """Return the items of the probe in K views."""
    return [
        AskedItem(
            record.id,
            record.state,
            record.field,
            view_orders(wire, record.field, item=record.id, k=k, seed=0),
        )
        for record in PROBE_RECORDS
    ]


def change_since(asker: RequestQueue, before: Mapping[str, Sequence[float]]) -> float:
    """Return the largest TV between the answers to the probe now and before; NaN without any.

    Args:
        asker: asks for items.
        before: by item, its probabilities.

    Raises:
        ServerError: the server cannot be used.
    """
    items = [item for item in probe_items(asker.wire) if item.record_id in before]
    now = _first_views(_ask(asker, items))
    return max((total_variation(now[name], before[name]) for name in now), default=math.nan)


def decimals_of(wire: Wire, answers: Sequence[ItemAnswer]) -> int | None:
    """Return to how many decimals probabilities are rounded; logs of them are not."""
    if wire.values != "probabilities":
        return None
    views = [view for answer in answers for view in answer.views]
    return decimals(math.exp(z) for view in views for z in view.logits)


def _ask(
    asker: RequestQueue, items: Sequence[AskedItem], model: str | None = None
) -> dict[str, ItemAnswer]:
    answers = asker.ask(items, model=model, alone=True)
    return {item.record_id: answer for item, answer in zip(items, answers, strict=True)}


def _first_views(answers: Mapping[str, ItemAnswer]) -> dict[str, tuple[float, ...]]:
    return {name: answer.views[0].probabilities for name, answer in answers.items() if answer.views}


def _compare_tokenizers(
    asker: RequestQueue, encoder: Encoder, items: Sequence[AskedItem]
) -> TokenizerProbe:
    """Compare the ids of prompts in canonical order with those of the server's `/tokenize`."""
    compared = 0
    for item in items:
        order = canonical_code_order(item.field)
        text = encoder.text(item.state, item.field, order)
        body: dict[str, Json] = {"model": asker.model, "prompt": text, "add_special_tokens": False}
        look = asker.client.look("/tokenize", body)
        ids = at(look.value, "tokens")
        if look.status != 200 or not isinstance(ids, list):
            break
        compared += 1
        (view,) = encoder.encode_orders(item.state, item.field, [order])
        if ids != [*view.token_ids]:
            return TokenizerProbe(compared, same=False)
    return TokenizerProbe(compared, same=True)


def _compare_batches(
    asker: RequestQueue, items: Sequence[AskedItem], together: Mapping[str, ItemAnswer]
) -> BatchProbe | None:
    """Compare prompts that are asked alone with the same prompts in batches.

    `together` has all orders of an item in one request, one request at a time. None if nothing was
    answered.
    """
    alone = asker.ask([replace(item, orders=item.orders[:1]) for item in items], alone=True)
    at_once = asker.ask(items)  # as in a run: several requests, each with several prompts
    distances = []
    for item, one, many in zip(items, alone, at_once, strict=True):
        answers = [one, many, together[item.record_id]]
        p = [answer.views[0].probabilities for answer in answers if answer.views]
        distances += [total_variation(p[0], q) for q in p[1:]]
    return BatchProbe(max(distances), len(items)) if distances else None


def _compare_orders(
    items: Sequence[AskedItem], answers: Mapping[str, ItemAnswer], probe: ServerProbe
) -> OrderProbe | None:
    """Compare the two orders of each item that has two; None if none was answered."""
    pairs = [
        [view.probabilities for view in answers[item.record_id].views]
        for item in items
        if len(item.distinct_orders) > 1 and answers[item.record_id].views
    ]
    if not pairs:
        return None
    spreads = [spread_of(pair) for pair in pairs]
    largest = max(spread.largest_tv for spread in spreads)
    effect: ProbedOrderEffect = "seen" if largest > probe.noise + _SAME else "within noise"
    if largest <= _SAME:
        # A sure model that is rounded answers 1.00 in every order.
        hidden = probe.decimals is not None and min(max(p) for p, _ in pairs) > _SURE
        effect = "unknown" if hidden else "not seen"
    return OrderProbe(effect, largest, sum(spread.flips for spread in spreads), len(pairs))


def _compare_base(asker: RequestQueue, probe: ServerProbe, name: str) -> BaseProbe:
    items = [item for item in probe_items(asker.wire) if item.record_id in probe.answers]
    base = _first_views(_ask(asker, items, name))
    if not base:
        raise ServerError(f"the base model {name} answers no item of the probe")
    largest = max(total_variation(base[item], probe.answers[item]) for item in base)
    return BaseProbe(name, largest, largest > max(probe.noise, _LEAST_EFFECT))


def _why_without_base(asker: RequestQueue, listed: Sequence[str], name: str) -> str | None:
    """Return why the base model cannot be asked; None if it can.

    Raises:
        ServerError: the server serves several models, and none of that name.
    """
    alone = "the server serves one model"
    if len(listed) == 1 and name not in listed:
        return alone
    (call,) = asker.wire.calls(name, probe_items(asker.wire)[0])
    look = asker.client.look(call.path, call.body)
    if look.status not in (400, 404, 422):
        return None  # it answers, or says what ends a run
    reason = f"status {look.status}: {error_text(look.value)}".rstrip(": ")
    if look.status == 404 and len(listed) > 1:
        raise ServerError(f"--base-name {name}: the server does not serve it ({reason})")
    return alone if len(listed) == 1 else f"the server does not answer as {name} ({reason})"


def _shorten_value(value: Json) -> Json:
    """Return a value, or its beginning as text if it is long."""
    text = str(value)
    return value if len(text) <= _MOST_CHARACTERS else f"{text[:_MOST_CHARACTERS]}..."
