"""Provenance: the typed content of `run.json`. No other module reads or writes that file.

    {"format_version": 3, "status": "complete", "created": ..., "finished": ...,
     "source": "score" | "import", "arm": ..., "seed": ..., "role": ..., "adapter": path,
     "base_model": ..., "data": path, "references": path, "data_from_run": path,
     "command_line": [...],
     "settings": {"adapter": {"sha256", ...} | null, "base": {...}, "contract": {...},
                  "data": {"sha256", "records"}, "dtype": ..., "k": ..., ...},
     "versions": {...}, "counts": {...}, "engine": {...}, "wall_seconds": ..., ...,
     "custody": {...}, "hub": {"adapter" | "data": {"repository", "commit", "path"}},
     "parts": {name: SHA-256} while the run is being written, "seal": {...} once it is complete}

`settings` determines the numbers and is compared on resuming. `parts` and `seal` are described in
`seal.py`. Unknown keys are kept in `extra`. A known key whose value has the wrong type is an error.
"""

from __future__ import annotations

import datetime as dt
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, TypedDict, TypeVar

from pact_eval._files import read_json, write_atomically
from pact_eval._json import Json, describe, dumps, finite_number
from pact_eval.errors import InputError, RunError
from pact_eval.runs.custody import Custody

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


FORMAT_VERSION: Final = 3
Known = Literal["probabilities", "confidences", "outcomes", "answers"]
"""What a run knows of an item: the probabilities of all answers; the answer and its probability;
whether the answer is right and its probability, but not which answer it is; or the answer alone."""

ANSWERS: Final = "answers"
"""`settings.values` of an import without probabilities: a logit of 0 marks the answer, and the
others are minus infinity."""

CONFIDENCES: Final = "confidences"
"""`settings.values` of an import of answers with their probabilities: the others share the rest
evenly, which is no fact about them."""

OUTCOMES: Final = "outcomes"
"""`settings.values` of an import of (confidence, right) pairs: answer 0 is right, all others are
wrong, and there are as few as leave the one of the model the most probable."""

REPEATS: Final = "repeats"
"""`log.views` of an import whose views ask the same prompt several times, in one order."""

SHUFFLED: Final = "shuffled repeats"
"""`log.views` of an import whose views ask the same question several times, in other orders."""

TRIALS: Final = "trials"
"""`log.views` of an import whose views have other examples in the prompt, and one order."""

EVALUATION: Final = "evaluation"
"""The role of a run that does not record one."""

NAME: Final = "run.json"
"""Name of the file in a run folder."""

DAMAGE_ADVICE: Final = "restore it from a copy, or remove the run folder and repeat the run"
"""End of a message on a damaged file of a run: what to do."""

_KNOWN_BY_VALUES: Final[Mapping[str, Known]] = {
    ANSWERS: "answers",
    CONFIDENCES: "confidences",
    OUTCOMES: "outcomes",
}
_UNSEALED_FORMATS: Final = (1, 2)
_MISSING: Final = f"the folder is not a run folder (it has no {NAME})"

_SEAL_HASHES: Final = ("predictions_sha256", "references_sha256", "provenance_sha256")
_SEAL_COUNTS: Final = ("items", "views", "k")

_Value = TypeVar("_Value")


class RunLabels(TypedDict, total=False):
    """Labels that a user gives a run. They change no number; an absent one is not written.

    Attributes:
        arm: the recipe.
        seed: training seed.
        role: what the run is for, such as "calibration".
        command_line: the command and its arguments.
    """

    arm: str | None
    seed: int | None
    role: str | None
    command_line: list[str]


def seen_from(run: Path, file: Path) -> str:
    """Return the path of a file from a run folder, which stays if both are moved together.

    Examples:
        >>> seen_from(Path("runs/pact"), Path("data/holdout.jsonl"))
        '../../data/holdout.jsonl'
    """
    place = file.parent.resolve() / file.name  # a link to the file leads away from its manifest
    try:
        return Path(os.path.relpath(place, run.resolve())).as_posix()
    except ValueError:  # another drive
        return place.as_posix()


class RunNames(RunLabels, total=False):
    """Everything in `run.json` that names a run and its files, and changes no number.

    Attributes:
        source: what wrote the run.
        adapter: the scored adapter, as given.
        base_model: the base model, as given, or the model of a server or log.
        contract_files: the folder or file of a decision template, as given.
        server_addresses: addresses of the replicas of a server.
        data: the dataset file, as given; of an import, its log.
        references: of an import with references of its own, their file, as given.
        data_from_run: the dataset file, or that of the references, seen from the run folder.
        custody: what `Custody.to_json` returns.
        hub: repository and commit of what is in a snapshot of the Hub: "adapter", "data".
    """

    source: Literal["score", "import"]
    adapter: str | None
    base_model: str
    contract_files: str
    server_addresses: list[str]
    data: str
    references: str
    data_from_run: str
    custody: dict[str, Json]
    hub: dict[str, Json]


@dataclass(frozen=True)
class RecordedWeights:
    """Identity of an adapter.

    Attributes:
        sha256: SHA-256 of the weights.
        config_sha256: SHA-256 of the configuration file.
    """

    sha256: str | None = None
    config_sha256: str | None = None

    def to_json(self) -> dict[str, Json]:
        """Return the object for `run.json`.

        Examples:
            >>> RecordedWeights("a1", "b2").to_json()
            {'sha256': 'a1', 'config_sha256': 'b2'}
        """
        return asdict(self)


@dataclass(frozen=True)
class RecordedBase(RecordedWeights):
    """Identity of a base model.

    Attributes:
        revision: revision of a base model from a hub.
    """

    revision: str | None = None


@dataclass(frozen=True)
class Contract:
    """The prompt contract of a run.

    Attributes:
        name: name of the contract.
        fingerprint: SHA-256 of the renderings of the probe set.
        mismatch: why the adapter's own contract differs, if that was allowed; None otherwise.
        stated_by: "user" if the adapter's files state no contract, and the user did; else None.
        temperatures: those that a decision template ships, by field kind; without one, 1 is meant.
    """

    name: str | None = None
    fingerprint: str | None = None
    mismatch: str | None = None
    stated_by: str | None = None
    temperatures: Mapping[str, float] = field(default_factory=dict)

    @property
    def remark(self) -> str | None:
        """What to say of the contract wherever the run is shown; None if the adapter states it.

        Examples:
            >>> Contract("nimble", stated_by="user").remark
            'contract stated by the user'
        """
        if self.mismatch is not None:
            return f"{self.short_remark}: {self.mismatch}"
        return self.short_remark

    @property
    def short_remark(self) -> str | None:
        """The remark without the mismatch itself."""
        if self.mismatch is not None:
            return "contract mismatch allowed"
        return None if self.stated_by is None else f"contract stated by the {self.stated_by}"

    def to_json(self) -> dict[str, Json]:
        """Return the object for `run.json`; the last two keys are there only if they are known."""
        names: dict[str, Json] = {
            "name": self.name,
            "fingerprint": self.fingerprint,
            "mismatch": self.mismatch,
        }
        names |= {} if self.stated_by is None else {"stated_by": self.stated_by}
        return names | ({"temperatures": dict(self.temperatures)} if self.temperatures else {})


@dataclass(frozen=True)
class Data:
    """The dataset file of a run.

    Attributes:
        sha256: SHA-256 of the file.
        records: number of records scored; None for an import.
    """

    sha256: str | None = None
    records: int | None = None

    def to_json(self) -> dict[str, Json]:
        """Return the object for `run.json`."""
        return _without_none(self)


@dataclass(frozen=True)
class EngineCheck:
    """The comparison of an engine with one plain pass per prompt, on a sample.

    Attributes:
        views: number of views of the sample.
        largest_logit_difference: largest difference of a logit.
    """

    views: int | None = None
    largest_logit_difference: float | None = None


@dataclass(frozen=True)
class RecordedEngine:
    """Engine and settings that views were scored with.

    Attributes:
        name: name of the engine.
        shares_prefix: whether it computes shared prefixes once.
        passed_over: engines that did not work, with the reasons.
        matrix_products: how products of float32 are computed.
        attention_kernel: kernel that attends to shared prefixes; None if they are not shared, and
            in runs of earlier versions.
        batch_tokens: tokens per pass at the end; fewer than in the settings if memory ran out.
        check: its comparison with one plain pass per prompt.
        tokens: number of tokens: in the prompts, at least needed, and passed.
    """

    name: str | None = None
    shares_prefix: bool | None = None
    passed_over: tuple[str, ...] | None = None
    matrix_products: str | None = None
    attention_kernel: str | None = None
    batch_tokens: int | None = None
    check: EngineCheck | None = None
    tokens: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def of_json(cls, value: Mapping[str, Json], where: str = NAME) -> RecordedEngine:
        """Read what `to_json` wrote.

        Raises:
            RunError: a value has the wrong type.

        Examples:
            >>> engine = RecordedEngine("fork", batch_tokens=8, tokens={"passed": 3})
            >>> RecordedEngine.of_json(engine.to_json()) == engine
            True
        """
        reader = _Reader(value, where)
        check = reader.object("check")
        return cls(
            name=reader.text("name"),
            shares_prefix=reader.flag("shares_prefix"),
            passed_over=reader.list_of_texts("passed_over"),
            matrix_products=reader.text("matrix_products"),
            attention_kernel=reader.text("attention_kernel"),
            batch_tokens=reader.whole("batch_tokens"),
            check=EngineCheck(check.whole("views"), check.number("largest_logit_difference"))
            if value.get("check") is not None
            else None,
            tokens=reader.object("tokens").wholes(),
        )

    @property
    def largest_logit_difference(self) -> float | None:
        """Largest difference of a logit from one plain pass per prompt; None if not measured."""
        return None if self.check is None else self.check.largest_logit_difference

    def to_json(self) -> dict[str, Json]:
        """Return the object for `run.json`; what is None is left out."""
        values = _without_none(self)
        if self.passed_over is not None:
            values["passed_over"] = [*self.passed_over]
        if self.check is not None:
            values["check"] = _without_none(self.check)
        return values | {"tokens": dict(self.tokens)}


@dataclass(frozen=True)
class ViewTokens:
    """Tokens that the first views of all records of a run cost.

    Attributes:
        prompts: of 1 to K views, the tokens of their prompts, each counted in full.
        shared: likewise, if every prefix that prompts of a window share is counted once.
    """

    prompts: tuple[int, ...]
    shared: tuple[int, ...]

    def to_json(self) -> dict[str, Json]:
        """Return the object for `run.json`."""
        return {"prompts": [*self.prompts], "shared": [*self.shared]}


@dataclass(frozen=True)
class Counts:
    """Counts of a run.

    Attributes:
        items: number of items.
        views: number of views over all items.
        unanswered: number of items without an answer, by status; they are not among `items`.
    """

    items: int | None = None
    views: int | None = None
    unanswered: Mapping[str, int] = field(default_factory=dict)

    @property
    def coverage(self) -> float:
        """Share of the items that were answered.

        Example:
            >>> Counts(items=3, views=3, unanswered={"refused": 1}).coverage
            0.75
        """
        without = sum(self.unanswered.values())
        return 1.0 if not without else (self.items or 0) / ((self.items or 0) + without)

    def to_json(self) -> dict[str, Json]:
        """Return the object for `run.json`; if all items are answered, no status is named."""
        counts: dict[str, Json] = {"items": self.items, "views": self.views}
        return counts | ({"unanswered": dict(self.unanswered)} if self.unanswered else {})


@dataclass(frozen=True)
class Rounding:
    """Rounded probabilities of a server or a log.

    Attributes:
        decimals: to how many decimals they are rounded.
        views_with_zeros: number of views with a probability of 0.00.
    """

    decimals: int | None = None
    views_with_zeros: int | None = None

    def to_json(self) -> dict[str, Json]:
        """Return the object for `run.json`."""
        return asdict(self)


@dataclass(frozen=True)
class Censored:
    """Views of a log that lists only the most probable tokens.

    Attributes:
        views: number of views that do not list every answer.
        references: number of these that lack the reference.
    """

    views: int | None = None
    references: int | None = None

    def to_json(self) -> dict[str, Json]:
        """Return the object for `run.json`."""
        return asdict(self)


def known_by_values(values: str | None) -> Known:
    """Return what a run knows of its items by its `settings.values`; scored runs have none.

    Examples:
        >>> known_by_values("answers"), known_by_values("logits"), known_by_values(None)
        ('answers', 'probabilities', 'probabilities')
    """
    return _KNOWN_BY_VALUES.get(values or "", "probabilities")


@dataclass(frozen=True)
class LogGaps:
    """What an import lacks of its source, as `log` records it.

    Attributes:
        read: number of items, or samples, that the run has; None if it has all of them, or if the
            source does not say.
        of: number that the source has, likewise.
        unverified: number of answers that nothing in the log checks.
    """

    read: int | None = None
    of: int | None = None
    unverified: int = 0


@dataclass(frozen=True)
class ImportFacts:
    """Facts of an import.

    Attributes:
        ignored_columns: columns of the file that a run does not use.
        renormalised: number of rows whose probabilities sum to 1 only roughly, because they were
            rounded; their log-probabilities are renormalised.
        zero_on_reference: number of rows with a probability of exactly 0 on the reference.
        rounding: how probabilities are rounded; None if they are not.
        censored: views that the log does not list in full; None if it lists all.
        several_right: number of items with several right answers.
        log: format of the log, what it says of itself, and the answers that both count as right. It
            has `{"incomplete": {"read", "of"}}` if items are missing, and `unverified` answers.
    """

    ignored_columns: tuple[str, ...] = ()
    renormalised: int = 0
    zero_on_reference: int = 0
    rounding: Rounding | None = None
    censored: Censored | None = None
    several_right: int = 0
    log: Mapping[str, Json] = field(default_factory=dict)

    def to_json(self) -> dict[str, Json]:
        """Return the keys for `run.json`; what does not apply is left out."""
        optional: dict[str, Json] = {
            "rounding": None if self.rounding is None else self.rounding.to_json(),
            "censored": None if self.censored is None else self.censored.to_json(),
            "several_right": self.several_right,
            "log": dict(self.log),
        }
        return {
            "ignored_columns": [*self.ignored_columns],
            "renormalised": self.renormalised,
            "zero_on_reference": self.zero_on_reference,
            **{name: value for name, value in optional.items() if value},
        }


@dataclass(frozen=True)
class RecordedServer:
    """Requests of a run to a server.

    Attributes:
        answered_by: name of the model that the answers carry; None if they carry none.
        requests: number of requests, those of earlier processes included.
        retries: number of further tries among them.
        concurrency: most requests under way at the same time.
    """

    answered_by: str | None = None
    requests: int | None = None
    retries: int | None = None
    concurrency: int | None = None

    def to_json(self) -> dict[str, Json]:
        """Return the object for `run.json`."""
        return asdict(self)


@dataclass(frozen=True)
class ProbedServer:
    """Result of the probe of a server, as far as runs and reports use it.

    Attributes:
        floor_tv: largest TV of answers to the same request; None if it was not measured.
        floor_flips: how many of them changed the most probable answer.
        repeats: how many there were.
        order_effect: whether the server shows answers in the order of the request.
        orders_are_views: whether other orders are other views; None if that is not recorded.
        probe_sha256: SHA-256 of the items of the probe.
        answers: by item of the probe, the probabilities of its answers.
        least_change: the smallest TV that is not put down to noise.
        end_largest_tv: TV of the answers at the start and at the end of the run.
        changed: whether that is a change of the model.
        recorded: the full object.
    """

    floor_tv: float | None
    floor_flips: int | None
    repeats: int | None
    order_effect: str | None
    orders_are_views: bool | None
    probe_sha256: str | None
    answers: Mapping[str, tuple[float, ...]]
    least_change: float | None
    end_largest_tv: float | None
    changed: bool
    recorded: Mapping[str, Json]

    @classmethod
    def of_json(cls, value: Mapping[str, Json], where: str = NAME) -> ProbedServer:
        """Read the object of `run.json`.

        Raises:
            RunError: a value has the wrong type.

        Examples:
            >>> probe = ProbedServer.of_json({"least_change": 0.01, "changed": False})
            >>> probe.least_change, probe.with_facts({"changed": True}).changed
            (0.01, True)
        """
        reader = _Reader(value, where)
        floor = reader.object("floor")
        return cls(
            floor_tv=floor.number("largest_tv"),
            floor_flips=floor.whole("flips"),
            repeats=floor.whole("repeats"),
            order_effect=reader.object("order").text("effect"),
            orders_are_views=reader.flag("orders_are_views"),
            probe_sha256=reader.text("probe_sha256"),
            answers=reader.object("answers").lists_of_numbers(),
            least_change=reader.number("least_change"),
            end_largest_tv=reader.number("end_largest_tv"),
            changed=value.get("changed") is True,
            recorded=value,
        )

    def with_facts(self, facts: Mapping[str, Json]) -> ProbedServer:
        """Return the probe with further facts, which replace those of the same name."""
        return self.of_json({**self.recorded, **facts})

    def to_json(self) -> dict[str, Json]:
        """Return the object for `run.json`."""
        return dict(self.recorded)


@dataclass(frozen=True)
class Seal:
    """Hashes and counts that a complete run records about itself; see `seal.py`.

    Attributes:
        predictions_sha256: SHA-256 of `predictions.parquet`.
        references_sha256: SHA-256 over the item ids with their references, in the order of the ids.
        provenance_sha256: SHA-256 of all else in `run.json`, the other values of the seal included.
        items: number of items.
        views: number of views over all items.
        k: views per item.
        unanswered_sha256: SHA-256 of `unanswered.parquet`; None if all items are answered.
    """

    predictions_sha256: str
    references_sha256: str
    provenance_sha256: str
    items: int
    views: int
    k: int
    unanswered_sha256: str | None = None

    def to_json(self) -> dict[str, Json]:
        """Return the object for `run.json`."""
        return _without_none(self)


@dataclass(frozen=True, eq=False)
class Provenance(Mapping[str, Json]):
    """The provenance of a run; a value that is not recorded is None.

    It is also a mapping: the parsed `run.json` with its original keys.

    Attributes:
        status: "running" or "complete".
        source: "score", or "import" for predictions made elsewhere.
        arm: the recorded recipe; use `Run.arm`, which falls back to the name of the folder.
        seed: training seed.
        role: what the run is for, such as "calibration"; use `RunFolder.role`, which has a default.
        created: start time of the run; None if the recorded text is not a time with a UTC offset.
        adapter_folder: the scored adapter, as given; None for a base model.
        base_model: the base model, as given.
        data_file: the dataset file, as given; of an import, its log.
        references_file: of an import with references of its own, their file, as given.
        data_from_run: the dataset file, or that of the references, seen from the run folder.
        contract_files: the folder or file of a decision template, as given; None for another
            contract, or the generic prompt.
        adapter: identity of the adapter; None for a base model or an import.
        base: identity of the base model.
        contract: the prompt contract.
        data: identity of the dataset; of an import, of its log.
        k: views per item.
        dtype: precision, such as "float32".
        quantisation: how the weights of the base were quantised, such as "nf4"; None if they were
            not, or if that is not known.
        device: such as "cpu".
        batch_tokens: tokens per pass, padding included.
        engine: how views were scored.
        counts: items and views.
        server: requests to a server; None for a local model.
        probe: what the probe of a server found; None for a local model.
        rounding: how a server or a log has rounded probabilities.
        censored: whether a log lists only the most probable tokens, so that probabilities of some
            answers are only known to be small.
        known: what is known of every item.
        several_right: number of items with several right answers.
        repeats: whether the views of an imported log are repeats, of which the log reports the
            mean. Epochs ask one prompt again; `trials` have other examples in it.
        shuffled: whether the repeats of an item show its answers in other orders.
        trials: whether the repeats have other examples in the prompt.
        gaps: what an import lacks of its source.
        custody: what the adapter was trained on, and what was allowed.
        hub: what came from the Hub, "adapter" or "data": its place there, with the commit.
        seal: hashes of the rows and of this file; None while the run is being written.
        parts: SHA-256 of each part, by file name, while the run is being written.
        versions: versions of Python and of the libraries, by name.
        resumed_with_versions: versions in a later process that resumed the run, if they differ.
        longest_prompt_tokens: length of the longest prompt.
        view_tokens: tokens by number of views; None for servers, imports and earlier versions.
        wall_seconds: time spent scoring.
        settings: the recorded object that determines the numbers.
        extra: unknown top-level keys.
        recorded: the full content of the file.
    """

    status: str | None
    source: str | None
    arm: str | None
    seed: int | None
    role: str | None
    created: dt.datetime | None
    adapter_folder: str | None
    base_model: str | None
    data_file: str | None
    references_file: str | None
    data_from_run: str | None
    contract_files: str | None
    adapter: RecordedWeights | None
    base: RecordedBase | None
    contract: Contract
    data: Data
    k: int | None
    dtype: str | None
    quantisation: str | None
    device: str | None
    batch_tokens: int | None
    engine: RecordedEngine
    counts: Counts
    server: RecordedServer | None
    probe: ProbedServer | None
    rounding: Rounding
    censored: bool
    known: Known
    several_right: int
    repeats: bool
    shuffled: bool
    trials: bool
    gaps: LogGaps
    custody: Custody
    hub: Mapping[str, str]
    seal: Seal | None
    parts: Mapping[str, str]
    versions: Mapping[str, str]
    resumed_with_versions: Mapping[str, str]
    longest_prompt_tokens: int | None
    view_tokens: ViewTokens | None
    wall_seconds: float | None
    settings: Mapping[str, Json]
    extra: Mapping[str, Json]
    recorded: Mapping[str, Json]

    @classmethod
    def of(cls, recorded: Mapping[str, Json], source: str = NAME) -> Provenance:
        """Read typed values from the content of a `run.json`.

        Args:
            recorded: the parsed file.
            source: name of the file in messages.

        Raises:
            RunError: a value has the wrong type, and the message names the key; or the run was
                scored with adaptive views, which are gone.

        Examples:
            >>> provenance = Provenance.of({"arm": "pact", "settings": {"k": 4}, "note": "mine"})
            >>> provenance.arm, provenance.k, provenance.extra
            ('pact', 4, {'note': 'mine'})
        """
        top = _Reader(recorded, source)
        settings = top.object("settings")
        _refuse_adaptive_views(settings.value, source)
        counts, rounding = top.object("counts"), top.object("rounding")
        return cls(
            status=top.text("status"),
            source=top.text("source"),
            arm=top.text("arm") or None,
            seed=top.whole("seed"),
            role=top.text("role") or None,
            created=top.time("created"),
            adapter_folder=top.text("adapter") or None,
            base_model=top.text("base_model"),
            data_file=top.text("data"),
            references_file=top.text("references"),
            data_from_run=top.text("data_from_run"),
            contract_files=top.text("contract_files"),
            adapter=settings.weights("adapter"),
            base=settings.base("base"),
            contract=settings.contract("contract"),
            data=settings.data("data"),
            k=settings.whole("k"),
            dtype=settings.text("dtype"),
            quantisation=settings.object("quantisation").text("method"),
            device=settings.text("device"),
            batch_tokens=settings.whole("batch_tokens"),
            engine=top.engine("engine"),
            counts=Counts(
                counts.whole("items"), counts.whole("views"), counts.object("unanswered").wholes()
            ),
            server=top.server("server"),
            probe=top.probe("probe"),
            rounding=Rounding(rounding.whole("decimals"), rounding.whole("views_with_zeros")),
            censored=bool(top.object("censored").whole("views")),
            known=known_by_values(settings.text("values")),
            several_right=top.whole("several_right") or 0,
            repeats=top.object("log").text("views") in (REPEATS, SHUFFLED, TRIALS),
            shuffled=top.object("log").text("views") == SHUFFLED,
            trials=top.object("log").text("views") == TRIALS,
            gaps=top.object("log").gaps(),
            custody=top.custody("custody"),
            hub=top.object("hub").hub_places(),
            seal=top.seal("seal"),
            parts=top.object("parts").texts(),
            versions=top.object("versions").texts(),
            resumed_with_versions=top.object("resumed_with_versions").texts(),
            longest_prompt_tokens=top.whole("longest_prompt_tokens"),
            view_tokens=top.view_tokens("view_tokens"),
            wall_seconds=top.number("wall_seconds"),
            settings=settings.value,
            extra={name: value for name, value in recorded.items() if name not in _KNOWN},
            recorded=recorded,
        )

    @property
    def adapter_name(self) -> str | None:
        """The adapter as outputs call it: its place on the Hub with the commit, or its folder.

        Examples:
            >>> hub = {"adapter": {"kind": "model", "repository": "a/b", "commit": "c1"}}
            >>> Provenance.of({"adapter": "/cache/b", "hub": hub}).adapter_name
            'a/b@c1'
        """
        return self.hub.get("adapter", self.adapter_folder)

    @property
    def data_name(self) -> str | None:
        """The dataset as outputs call it: its place on the Hub with the commit, or its file."""
        return self.hub.get("data", self.data_file)

    @property
    def rounded_to(self) -> int | None:
        """Decimals to which probabilities are rounded; None if they are not."""
        return self.rounding.decimals

    @property
    def served(self) -> bool:
        """Whether a server answered; False for local models and imports.

        Examples:
            >>> Provenance.of({"settings": {"server": {"wire": "systemone"}}}).served
            True
        """
        return self.settings.get("server") is not None

    @property
    def order_seed(self) -> Json:
        """Seed of the letter orders; None if the run does not say."""
        return self.settings.get("order_seed")

    @property
    def prompts_sha256(self) -> str | None:
        """SHA-256 of a probe prompt through contract, template and tokenizer; None if absent."""
        value = self.settings.get("prompts_sha256")
        return value if isinstance(value, str) else None

    @property
    def precision(self) -> str | None:
        """The precision, and how the weights were quantised.

        Examples:
            >>> settings = {"dtype": "bfloat16", "quantisation": {"method": "nf4"}}
            >>> Provenance.of({"settings": settings}).precision
            'bfloat16 (nf4)'
        """
        return self.dtype if self.quantisation is None else f"{self.dtype} ({self.quantisation})"

    def named(self, name: str) -> str:
        """Return a name of the run, with its quantisation unless the name has that word.

        Examples:
            >>> run = Provenance.of({"settings": {"quantisation": {"method": "nf4"}}})
            >>> run.named("pact"), run.named("pact-nf4"), Provenance.of({}).named("pact")
            ('pact (nf4)', 'pact-nf4', 'pact')
        """
        method = self.quantisation
        if method is None or method.lower() in re.split(r"[\W_]+", name.lower()):
            return name
        return f"{name} ({method})"

    def __getitem__(self, key: str) -> Json:
        return self.recorded[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self.recorded)

    def __len__(self) -> int:
        return len(self.recorded)


_KNOWN: Final = frozenset(
    {
        *("format_version", "status", "source", "arm", "seed", "role", "created", "finished"),
        *("adapter", "base_model", "data", "command_line", "settings", "versions"),
        *("contract_files", "custody", "hub", "references", "data_from_run"),
        *("resumed_with_versions", "counts", "engine", "longest_prompt_tokens", "wall_seconds"),
        "view_tokens",
        *("attention", "adapter_largest_logit_change", "merge_drift"),
        *("ignored_columns", "renormalised", "zero_on_reference"),
        *("server", "server_addresses", "probe", "rounding", "log"),
        *("censored", "several_right", "workers"),
        *("parts", "seal"),
    }
)


def _nearest_run(folder: Path) -> str:
    """Return an advice on a run folder that does not exist: a similar one, or how to list them."""
    import difflib

    runs = [path.parent for path in sorted(folder.parent.glob(f"*/{NAME}"))]
    near = difflib.get_close_matches(folder.name, [run.name for run in runs], n=1)
    if near:
        return f"; did you mean {folder.parent / near[0]}?"
    return "; `pact-eval runs FOLDER` lists the runs in a folder"


def read_provenance(folder: Path) -> Provenance:
    """Read the `run.json` of a run folder, complete or not.

    Raises:
        RunError: the folder or the file does not exist, is damaged, or has another format.
    """
    path = folder / NAME
    if not folder.is_dir():
        message = f"{folder}: no such run folder{_nearest_run(folder)}"
        raise RunError(message)
    try:
        value = read_json(path, missing=_MISSING)
    except InputError as error:
        advice = f"; {DAMAGE_ADVICE}"
        if str(error).endswith(_MISSING):
            runs = sorted(file.parent.name for file in folder.glob(f"*/{NAME}"))
            advice = f"; it holds {len(runs):,} runs: give {folder}/*" if runs else ""
        message = f"{error}{advice}"
        raise RunError(message) from None
    if not isinstance(value, dict) or value.get("format_version") != FORMAT_VERSION:
        version = value.get("format_version") if isinstance(value, dict) else None
        message = f"{path}: expected run format {FORMAT_VERSION}, got {dumps(version)}"
        if version in _UNSEALED_FORMATS:
            message += "; runs of that format have no seal: repeat the run in another folder"
        raise RunError(message)
    return Provenance.of(value, str(path))


def write_provenance(folder: Path, recorded: Mapping[str, Json]) -> None:
    """Write the `run.json` of a run folder atomically."""
    write_atomically(folder / NAME, _text(recorded).encode())


def as_written(recorded: Mapping[str, Json]) -> dict[str, Json]:
    """Return the content of a `run.json` as it is read back.

    A path may hold bytes that are not valid Unicode. It is only a label, so "?" replaces them.
    """
    value: dict[str, Json] = json.loads(_text(recorded))
    return value


def _text(recorded: Mapping[str, Json]) -> str:
    text = json.dumps(dict(recorded), ensure_ascii=False, allow_nan=False, indent=2) + "\n"
    return text.encode("utf-8", errors="replace").decode("utf-8")


def _without_none(section: DataclassInstance) -> dict[str, Json]:
    """Return the values of a section that are not None."""
    values = ((attribute.name, getattr(section, attribute.name)) for attribute in fields(section))
    return {name: value for name, value in values if value is not None}


class _Reader:
    """Reads typed values of one JSON object; a missing key and null are None."""

    def __init__(self, value: Mapping[str, Json], where: str) -> None:
        self.value = value
        self._where = where

    def object(self, key: str) -> _Reader:
        value = self.value.get(key)
        if value is not None and not isinstance(value, dict):
            raise self._wrong(key, "an object")
        return _Reader(value or {}, f"{self._where}: {key}")

    def weights(self, key: str) -> RecordedWeights | None:
        if self.value.get(key) is None:
            return None
        weights = self.object(key)
        return RecordedWeights(weights.text("sha256"), weights.text("config_sha256"))

    def base(self, key: str) -> RecordedBase | None:
        if self.value.get(key) is None:
            return None
        names = ("sha256", "config_sha256", "revision")
        return RecordedBase(*map(self.object(key).text, names))

    def engine(self, key: str) -> RecordedEngine:
        return RecordedEngine.of_json(self.object(key).value, f"{self._where}: {key}")

    def view_tokens(self, key: str) -> ViewTokens | None:
        if self.value.get(key) is None:
            return None
        counts = self.object(key)
        return ViewTokens(counts.list_of_wholes("prompts"), counts.list_of_wholes("shared"))

    def server(self, key: str) -> RecordedServer | None:
        if self.value.get(key) is None:
            return None
        server = self.object(key)
        counts = map(server.whole, ("requests", "retries", "concurrency"))
        return RecordedServer(server.text("answered_by"), *counts)

    def data(self, key: str) -> Data:
        section = self.object(key)
        return Data(section.text("sha256"), section.whole("records"))

    def text(self, key: str) -> str | None:
        return self._typed(key, str, "text")

    def contract(self, key: str) -> Contract:
        section = self.object(key)
        names = {
            name: section.text(name) for name in ("name", "fingerprint", "mismatch", "stated_by")
        }
        return Contract(**names, temperatures=section.object("temperatures").numbers())

    def custody(self, key: str) -> Custody:
        try:
            return Custody.of_json(self.object(key).value)
        except ValueError as error:
            message = f"{self._where}: {error}"
            raise RunError(message) from None

    def seal(self, key: str) -> Seal | None:
        if self.value.get(key) is None:
            return None
        section = self.object(key)
        texts = {name: section.text(name) for name in _SEAL_HASHES}
        counts = {name: section.whole(name) for name in _SEAL_COUNTS}
        missing = [name for name, value in (texts | counts).items() if value is None]
        if missing:
            message = f"{self._where}: {key}: expected {', '.join(missing)}, found none"
            raise RunError(message)
        return Seal(**texts, **counts, unanswered_sha256=section.text("unanswered_sha256"))  # type: ignore[arg-type] # none of them is None

    def gaps(self) -> LogGaps:
        incomplete = self.object("incomplete")
        unverified = self.whole("unverified") or 0
        return LogGaps(incomplete.whole("read"), incomplete.whole("of"), unverified)

    def hub_places(self) -> dict[str, str]:
        if not self.value:
            return {}
        from pact_eval.hub.names import HubName  # few runs need it

        names = ("repository", "commit", "path", "kind")
        places = {}
        for key in self.value:
            repository, commit, path, kind = map(self.object(key).text, names)
            if repository and commit:
                of_model = kind == "model"
                name = HubName("model" if of_model else "dataset", repository, commit, path or "")
                places[key] = str(name)
        return places

    def probe(self, key: str) -> ProbedServer | None:
        if self.value.get(key) is None:
            return None
        return ProbedServer.of_json(self.object(key).value, f"{self._where}: {key}")

    def texts(self) -> dict[str, str]:
        return {key: text for key in self.value if (text := self.text(key)) is not None}

    def wholes(self) -> dict[str, int]:
        return {key: number for key in self.value if (number := self.whole(key)) is not None}

    def numbers(self) -> dict[str, float]:
        return {key: number for key in self.value if (number := self.number(key)) is not None}

    def list_of_texts(self, key: str) -> tuple[str, ...] | None:
        if self.value.get(key) is None:
            return None
        texts = [text for text in self._list(key) if isinstance(text, str)]
        if len(texts) < len(self._list(key)):
            raise self._wrong(key, "a list of texts")
        return tuple(texts)

    def list_of_wholes(self, key: str) -> tuple[int, ...]:
        numbers = self._list(key)
        wholes = tuple(n for n in numbers if isinstance(n, int) and not isinstance(n, bool))
        if len(wholes) < len(numbers):
            raise self._wrong(key, "a list of integers")
        return wholes

    def lists_of_numbers(self) -> dict[str, tuple[float, ...]]:
        return {key: self._numbers(key) for key in self.value}

    def _numbers(self, key: str) -> tuple[float, ...]:
        numbers = [finite_number(number) for number in self._list(key)]
        finite = tuple(number for number in numbers if number is not None)
        if len(finite) < len(numbers):
            raise self._wrong(key, "a list of numbers")
        return finite

    def _list(self, key: str) -> Sequence[Json]:
        value: object = self.value.get(key)
        if not isinstance(value, list | tuple):
            raise self._wrong(key, "a list")
        return value

    def flag(self, key: str) -> bool | None:
        value = self.value.get(key)
        if value is None or isinstance(value, bool):
            return value
        raise self._wrong(key, "true or false")

    def whole(self, key: str) -> int | None:
        return self._typed(key, int, "an integer")

    def number(self, key: str) -> float | None:
        value = self.value.get(key)
        if isinstance(value, int) and not isinstance(value, bool):
            try:
                return float(value)
            except OverflowError:
                raise self._wrong(key, "a number that fits a float") from None
        return self._typed(key, float, "a number")

    def time(self, key: str) -> dt.datetime | None:
        """Return a time; None also for text that is not a time with a UTC offset."""
        try:
            moment = dt.datetime.fromisoformat(self.text(key) or "")
        except ValueError:
            return None
        return moment if moment.tzinfo is not None else None

    def _typed(self, key: str, expected_type: type[_Value], words: str) -> _Value | None:
        value = self.value.get(key)
        if value is None:
            return None
        if not isinstance(value, expected_type) or isinstance(value, bool):
            raise self._wrong(key, words)
        return value

    def _wrong(self, key: str, words: str) -> RunError:
        return RunError(f"{self._where}: {key}: expected {words}, got {describe(self.value[key])}")


def _refuse_adaptive_views(settings: Mapping[str, Json], source: str) -> None:
    """Raise RunError for a run of fewer views than K per item, which is no longer read."""
    if settings.get("views") is not None:
        message = (
            f"{source}: settings: views: the run was scored with `--views adaptive`, which is "
            "gone; score the data again with all --k views, in another folder"
        )
        raise RunError(message)
