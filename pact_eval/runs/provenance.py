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
`seal.py`. A known key whose value has the wrong type is an error; other keys stay in `recorded`.
"""

from __future__ import annotations

import datetime as dt
import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Final, Literal, Self, TypedDict, cast

import msgspec

from pact_eval._files import read_json, write_atomically
from pact_eval._json import Json, dumps
from pact_eval.errors import InputError, RunError, counted
from pact_eval.hub import HubName
from pact_eval.runs.custody import Custody
from pact_eval.schema import Section

FORMAT_VERSION: Final = 3
Known = Literal["probabilities", "confidences", "outcomes", "answers", "grades"]
"""What a run knows of an item: the probabilities of all answers; the answer and its probability;
whether the answer is right and its probability, but not which answer it is; the answer alone; or
whether it is right, alone."""

UNNAMED: Final = ("outcomes", "grades")
"""What runs know that do not say which answers these are."""

UNSURE: Final = ("answers", "grades")
"""What runs know that do not say how probable an answer is."""

ANSWERS: Final = "answers"
"""`settings.values` of an import without probabilities: a logit of 0 marks the answer, and the
others are minus infinity."""

CONFIDENCES: Final = "confidences"
"""`settings.values` of an import of answers with their probabilities: the others share the rest
evenly, which is no fact about them."""

OUTCOMES: Final = "outcomes"
"""`settings.values` of an import of (confidence, right) pairs: answer 0 is right, all others are
wrong, and there are as few as leave the one of the model the most probable."""

GRADES: Final = "grades"
"""`settings.values` of an import that only says whether each answer is right: answer 0 is."""

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

_LABELS: Final = ("arm", "role", "adapter")  # an empty one is none
_UNSEALED_FORMATS: Final = (1, 2)
_MISSING: Final = f"the folder is not a run folder (it has no {NAME})"


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


class RunSection(Section, frozen=True):
    """An object of `run.json`."""

    refusal: ClassVar[type[InputError]] = RunError
    remedy: ClassVar[str] = DAMAGE_ADVICE
    exact: ClassVar[frozenset[str]] = frozenset({"custody", "answers"})


class RecordedWeights(RunSection, frozen=True, omit_defaults=False):
    """Identity of an adapter.

    Attributes:
        sha256: SHA-256 of the weights.
        config_sha256: SHA-256 of the configuration file.

    Examples:
        >>> RecordedWeights("a1", "b2").to_json()
        {'sha256': 'a1', 'config_sha256': 'b2'}
    """

    sha256: str | None = None
    config_sha256: str | None = None


class RecordedBase(RecordedWeights, frozen=True, omit_defaults=False):
    """Identity of a base model.

    Attributes:
        revision: revision of a base model from a hub.
    """

    revision: str | None = None


class Contract(RunSection, frozen=True):
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
    temperatures: Mapping[str, float] = {}

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
        always = dict.fromkeys(("name", "fingerprint", "mismatch"))
        return always | Section.to_json(self)


class Data(RunSection, frozen=True):
    """The dataset file of a run.

    Attributes:
        sha256: SHA-256 of the file.
        records: number of records scored; None for an import.
    """

    sha256: str | None = None
    records: int | None = None


class Quantisation(RunSection, frozen=True):
    """How the weights of the base were quantised.

    Attributes:
        method: such as "nf4".
    """

    method: str | None = None


class EngineCheck(RunSection, frozen=True):
    """The comparison of an engine with one plain pass per prompt, on a sample.

    Attributes:
        views: number of views of the sample.
        largest_logit_difference: largest difference of a logit.
    """

    views: int | None = None
    largest_logit_difference: float | None = None


class RecordedEngine(RunSection, frozen=True):
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

    Examples:
        >>> engine = RecordedEngine("fork", batch_tokens=8, tokens={"passed": 3})
        >>> RecordedEngine.of_json(engine.to_json(), NAME) == engine
        True
    """

    name: str | None = None
    shares_prefix: bool | None = None
    passed_over: tuple[str, ...] | None = None
    matrix_products: str | None = None
    attention_kernel: str | None = None
    batch_tokens: int | None = None
    check: EngineCheck | None = None
    tokens: Mapping[str, int] = {}

    @property
    def largest_logit_difference(self) -> float | None:
        """Largest difference of a logit from one plain pass per prompt; None if not measured."""
        return None if self.check is None else self.check.largest_logit_difference


class OtherLetters(RunSection, frozen=True):
    """The letters in their other form, with a space in front or without it, on the first records.

    Attributes:
        first: text of the first letter, " A" or "A".
        mass: their answer mass, in [0, 1].
    """

    first: str
    mass: float


class AutoDtype(RunSection, frozen=True):
    """Precision that `--dtype auto` took, and what it changes on the checked views.

    Attributes:
        why: why it was taken.
        views: number of views that were compared with float32; None if none was.
        largest_log_probability_difference: largest difference of the log-probability of an answer
            from float32, in nats.
        flips: number of these views whose most probable answer differs.
    """

    why: str
    views: int | None = None
    largest_log_probability_difference: float | None = None
    flips: int | None = None


class ViewTokens(RunSection, frozen=True):
    """Tokens that the first views of all records of a run cost.

    Attributes:
        prompts: of 1 to K views, the tokens of their prompts, each counted in full.
        shared: likewise, if every prefix that prompts of a window share is counted once.
    """

    prompts: tuple[int, ...]
    shared: tuple[int, ...]


class Counts(RunSection, frozen=True):
    """Counts of a run.

    Attributes:
        items: number of items.
        views: number of views over all items.
        unanswered: number of items without an answer, by status; they are not among `items`.
    """

    items: int | None = None
    views: int | None = None
    unanswered: Mapping[str, int] = {}

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
        return dict.fromkeys(("items", "views")) | Section.to_json(self)


class Rounding(RunSection, frozen=True, omit_defaults=False):
    """Rounded probabilities of a server or a log.

    Attributes:
        decimals: to how many decimals they are rounded.
        views_with_zeros: number of views with a probability of 0.00.
    """

    decimals: int | None = None
    views_with_zeros: int | None = None


class Censored(RunSection, frozen=True, omit_defaults=False):
    """Views of a log that lists only the most probable tokens.

    Attributes:
        views: number of views that do not list every answer.
        references: number of these that lack the reference.
    """

    views: int | None = None
    references: int | None = None


def known_by_values(values: str | None) -> Known:
    """Return what a run knows of its items by its `settings.values`; scored runs have none.

    Examples:
        >>> known_by_values("answers"), known_by_values("logits"), known_by_values(None)
        ('answers', 'probabilities', 'probabilities')
    """
    is_known = values in (ANSWERS, CONFIDENCES, OUTCOMES, GRADES)
    return cast("Known", values) if is_known else "probabilities"


class Incomplete(RunSection, frozen=True):
    """Items, or samples, of a log.

    Attributes:
        read: number that the run has; None if it has all, or if the source does not say.
        of: number that the source has, likewise.
    """

    read: int | None = None
    of: int | None = None


class RecordedLog(RunSection, frozen=True):
    """What an import records of its log, as far as it is used.

    Attributes:
        views: `REPEATS`, `SHUFFLED` or `TRIALS` if the views of an item are repeats.
        incomplete: items that the log has, and those that the run lacks.
        unverified: number of answers that nothing in the log checks.
    """

    views: str | None = None
    incomplete: Incomplete = Incomplete()
    unverified: int = 0


class ImportFacts(RunSection, frozen=True):
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
    log: Mapping[str, Any] = {}

    def to_json(self) -> dict[str, Json]:
        """Return the keys for `run.json`; what does not apply is left out."""
        always: dict[str, Json] = {
            "ignored_columns": [],
            "renormalised": 0,
            "zero_on_reference": 0,
        }
        return always | Section.to_json(self)


class RecordedServer(RunSection, frozen=True, omit_defaults=False):
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


class RecordedFloor(RunSection, frozen=True):
    """Repeats of one request in the probe of a server.

    Attributes:
        largest_tv: largest TV of the answers; None if it was not measured.
        flips: how many of them changed the most probable answer.
        repeats: how many there were.
    """

    largest_tv: float | None = None
    flips: int | None = None
    repeats: int | None = None


class RecordedOrder(RunSection, frozen=True):
    """Other orders of the answers in the probe of a server.

    Attributes:
        effect: whether the server shows answers in the order of the request.
    """

    effect: str | None = None


class ProbedServer(RunSection, frozen=True):
    """Result of the probe of a server, as far as runs and reports use it.

    Attributes:
        floor: repeats of one request.
        order: other orders of the answers.
        orders_are_views: whether other orders are other views; None if that is not recorded.
        probe_sha256: SHA-256 of the items of the probe.
        answers: by item of the probe, the probabilities of its answers.
        least_change: the smallest TV that is not put down to noise.
        end_largest_tv: TV of the answers at the start and at the end of the run.
        changed: whether that is a change of the model.
    """

    floor: RecordedFloor = RecordedFloor()
    order: RecordedOrder = RecordedOrder()
    orders_are_views: bool | None = None
    probe_sha256: str | None = None
    answers: Mapping[str, tuple[float, ...]] = {}
    least_change: float | None = None
    end_largest_tv: float | None = None
    changed: bool = False


class Seal(RunSection, frozen=True):
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


class Provenance(RunSection, frozen=True, eq=False):
    """The provenance of a run; a value that is not recorded is None.

    Attributes:
        status: "running" or "complete".
        source: "score", or "import" for predictions made elsewhere.
        arm: the recorded recipe; use `Run.arm`, which falls back to the name of the folder.
        seed: training seed.
        role: what the run is for, such as "calibration"; use `RunFolder.role`, which has a default.
        started: start time of the run, as text.
        adapter_folder: the scored adapter, as given; None for a base model.
        base_model: the base model, as given.
        data_file: the dataset file, as given; of an import, its log.
        references_file: of an import with references of its own, their file, as given.
        data_from_run: the dataset file, or that of the references, seen from the run folder.
        contract_files: the folder or file of a decision template, as given; None for another
            contract, or the generic prompt.
        settings: everything that determines the numbers; what is used of it follows. A field `k` is
            named `settings: k`, as messages name the key.
        adapter: identity of the adapter; None for a base model or an import.
        base: identity of the base model.
        contract: the prompt contract.
        data: identity of the dataset; of an import, of its log.
        k: views per item.
        dtype: precision, such as "float32".
        quantised: how the weights of the base were quantised.
        device: where the model ran.
        batch_tokens: tokens per pass, as asked for.
        values: what the rows hold, such as `ANSWERS`; None for logits of scored runs.
        order_seed: seed of the letter orders; None if the run does not say.
        prompts_sha256: SHA-256 of a probe prompt through contract, template and tokenizer.
        asked_server: what was asked of a server; None for a local model.
        engine: how views were scored.
        counts: items and views.
        server: requests to a server; None for a local model.
        probe: what the probe of a server found; None for a local model.
        rounding: how a server or a log has rounded probabilities.
        censored_views: views of a log that lists only the most probable tokens.
        several_right: number of items with several right answers.
        log: what an import records of its log.
        custody: what the adapter was trained on, and what was allowed.
        hub_places: what came from the Hub, "adapter" or "data".
        seal: hashes of the rows and of this file; None while the run is being written.
        parts: SHA-256 of each part, by file name, while the run is being written.
        versions: versions of Python and of the libraries, by name.
        resumed_with_versions: versions in a later process that resumed the run, if they differ.
        longest_prompt_tokens: length of the longest prompt.
        view_tokens: tokens by number of views; None for servers, imports and earlier versions.
        wall_seconds: time spent scoring.
        other_letters: the form of the letters that has more answer mass than the one that is read.
        auto_dtype: the precision that `--dtype auto` took; None if the user named it.
        recorded: the full content of the file.
    """

    status: str | None = None
    source: str | None = None
    arm: str | None = None
    seed: int | None = None
    role: str | None = None
    started: str | None = msgspec.field(name="created", default=None)
    adapter_folder: str | None = msgspec.field(name="adapter", default=None)
    base_model: str | None = None
    data_file: str | None = msgspec.field(name="data", default=None)
    references_file: str | None = msgspec.field(name="references", default=None)
    data_from_run: str | None = None
    contract_files: str | None = None
    settings: Mapping[str, Any] = {}
    adapter: RecordedWeights | None = msgspec.field(name="settings: adapter", default=None)
    base: RecordedBase | None = msgspec.field(name="settings: base", default=None)
    contract: Contract = msgspec.field(name="settings: contract", default=Contract())
    data: Data = msgspec.field(name="settings: data", default=Data())
    k: int | None = msgspec.field(name="settings: k", default=None)
    dtype: str | None = msgspec.field(name="settings: dtype", default=None)
    quantised: Quantisation = msgspec.field(name="settings: quantisation", default=Quantisation())
    device: str | None = msgspec.field(name="settings: device", default=None)
    batch_tokens: int | None = msgspec.field(name="settings: batch_tokens", default=None)
    values: str | None = msgspec.field(name="settings: values", default=None)
    order_seed: Any = msgspec.field(name="settings: order_seed", default=None)
    prompts_sha256: str | None = msgspec.field(name="settings: prompts_sha256", default=None)
    asked_server: Any = msgspec.field(name="settings: server", default=None)
    engine: RecordedEngine = RecordedEngine()
    counts: Counts = Counts()
    server: RecordedServer | None = None
    probe: ProbedServer | None = None
    rounding: Rounding = Rounding()
    censored_views: Censored = msgspec.field(name="censored", default=Censored())
    several_right: int = 0
    log: RecordedLog = RecordedLog()
    custody: Custody = Custody()
    hub_places: Mapping[str, Mapping[str, str]] = msgspec.field(name="hub", default_factory=dict)
    seal: Seal | None = None
    parts: Mapping[str, str] = {}
    versions: Mapping[str, str] = {}
    resumed_with_versions: Mapping[str, str] = {}
    longest_prompt_tokens: int | None = None
    view_tokens: ViewTokens | None = None
    wall_seconds: float | None = None
    other_letters: OtherLetters | None = None
    auto_dtype: AutoDtype | None = None
    recorded: Mapping[str, Any] = {}

    @classmethod
    def of(cls, recorded: Mapping[str, Json], source: str = NAME) -> Self:
        """Read typed values from the content of a `run.json`.

        Args:
            recorded: the parsed file.
            source: name of the file in messages.

        Raises:
            RunError: a value has the wrong type, and the message names the key.

        Examples:
            >>> provenance = Provenance.of({"arm": "pact", "settings": {"k": 4}, "note": "mine"})
            >>> provenance.arm, provenance.k, provenance.recorded["note"]
            ('pact', 4, 'mine')
        """
        content = {
            key: value for key, value in recorded.items() if value != "" or key not in _LABELS
        }
        settings = recorded.get("settings")
        if isinstance(settings, dict):
            content |= {f"settings: {key}": value for key, value in settings.items()}
        return msgspec.structs.replace(cls.of_json(content, source), recorded=recorded)

    @property
    def created(self) -> dt.datetime | None:
        """Start time of the run; None if the recorded text is not a time with a UTC offset."""
        try:
            moment = dt.datetime.fromisoformat(self.started or "")
        except ValueError:
            return None
        return moment if moment.tzinfo is not None else None

    @property
    def letters_remark(self) -> str | None:
        """Which form of the letters the model rather answers with; None if those that are read.

        Examples:
            >>> remark = Provenance(other_letters=OtherLetters(" A", 0.113)).letters_remark
            >>> print(remark)  # doctest: +ELLIPSIS
            on the first records, 11.3% of the next-token probability is on letters such as " A"...
        """
        if self.other_letters is None:
            return None
        return (
            f"on the first records, {self.other_letters.mass:.1%} of the next-token probability is "
            f'on letters such as "{self.other_letters.first}", more than on those that are read; '
            "score with a decision template that has such labels, or with --contract plain"
        )

    @property
    def dtype_remark(self) -> str | None:
        """What the precision that auto took changes; None for float32, and if the user named it.

        Examples:
            >>> chosen = AutoDtype("fast", 6, 0.03, 1)
            >>> print(Provenance(dtype="bfloat16", auto_dtype=chosen).dtype_remark)
            ... # doctest: +NORMALIZE_WHITESPACE
            computed in bfloat16 (fast): on 6 checked views, log-probabilities differ from
            float32 by up to 0.03, and 1 answer changes; --dtype fp32 computes in float32
        """
        dtype, chosen = self.dtype, self.auto_dtype
        if chosen is None or dtype == "float32":
            return None
        found = "not compared with float32, for lack of memory"
        if chosen.views is not None:
            found = (
                f"on {counted(chosen.views, 'checked view')}, log-probabilities differ from "
                f"float32 by up to {chosen.largest_log_probability_difference:.2g}, and "
                f"{counted(chosen.flips or 0, 'answer')} "
                f"{'changes' if chosen.flips == 1 else 'change'}"
            )
        return f"computed in {dtype} ({chosen.why}): {found}; --dtype fp32 computes in float32"

    @property
    def quantisation(self) -> str | None:
        """How the weights of the base were quantised; None if not, or if that is not known."""
        return self.quantised.method

    @property
    def known(self) -> Known:
        """What is known of every item."""
        return known_by_values(self.values)

    @property
    def censored(self) -> bool:
        """Whether a log lists only the most probable tokens: some are only known to be small."""
        return bool(self.censored_views.views)

    @property
    def repeats(self) -> bool:
        """Whether the views of an imported log are repeats, of which the log reports the mean.

        Epochs ask one prompt again; `trials` have other examples in it.
        """
        return self.log.views in (REPEATS, SHUFFLED, TRIALS)

    @property
    def shuffled(self) -> bool:
        """Whether the repeats of an item show its answers in other orders."""
        return self.log.views == SHUFFLED

    @property
    def trials(self) -> bool:
        """Whether the repeats have other examples in the prompt."""
        return self.log.views == TRIALS

    def as_views(self) -> Self:
        """Return the provenance of the same rows if repeats are taken as views."""
        log = msgspec.structs.replace(self.log, views=None)
        return msgspec.structs.replace(self, log=log)

    @property
    def hub(self) -> dict[str, str]:
        """What came from the Hub, "adapter" or "data": its place there, with the commit."""
        names: dict[str, str] = {}
        for key, place in self.hub_places.items():
            kind: Literal["model", "dataset"] = (
                "model" if place.get("kind") == "model" else "dataset"
            )
            repository, commit = place.get("repository"), place.get("commit")
            if repository and commit:
                names[key] = str(HubName(kind, repository, commit, place.get("path", "")))
        return names

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
        return self.asked_server is not None

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


_TABLES: Final = (".csv", ".json", ".jsonl", ".parquet")


def advice_without_run(folder: Path) -> str:
    """Return what a folder without `run.json` holds, and the command that reads it.

    Examples:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     advice_without_run(Path(folder))
        '; it is empty: a run folder is what `pact-eval score` wrote'
    """
    runs = [file.parent for file in folder.glob(f"*/{NAME}")]
    if runs:
        return f"; it holds {len(runs):,} runs: give {folder}/*"
    if not any(folder.iterdir()):
        return "; it is empty: a run folder is what `pact-eval score` wrote"
    files = sorted([*folder.glob("*"), *folder.glob("*/*")])
    table = next((file for file in files if file.suffix in _TABLES), None)
    if table is None:
        return ""
    return (
        f"; `pact-eval report {table}` reads predictions or logs, `pact-eval paper` tables of "
        "published metrics"
    )


def read_provenance(folder: Path) -> Provenance:
    """Read the `run.json` of a run folder, complete or not.

    Raises:
        RunError: the folder or the file does not exist, is damaged, or has another format.
    """
    path = folder / NAME
    if folder.is_file():
        raise RunError(
            f"{folder}: a file, not a run folder; `pact-eval report {folder}` reads predictions or "
            "logs, and stores them as a run"
        )
    if not folder.is_dir():
        import difflib

        runs = [path.parent for path in sorted(folder.parent.glob(f"*/{NAME}"))]
        near = difflib.get_close_matches(folder.name, [run.name for run in runs], n=1)
        advice = "`pact-eval report FOLDER` lists the runs in a folder"
        advice = f"did you mean {folder.parent / near[0]}?" if near else advice
        raise RunError(f"{folder}: no such run folder; {advice}")
    try:
        value = read_json(path, missing=_MISSING)
    except InputError as error:
        advice = f"; {DAMAGE_ADVICE}"
        if str(error).endswith(_MISSING):
            advice = advice_without_run(folder)
        raise RunError(f"{error}{advice}") from None
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
