"""The data of a training with a recipe: views to train on, batches to select with, and a record.

The views of a family are the canonical and permuted views of both members, and one ablated view:
the base context without its changed focus sentence. Unpaired records have a canonical view, with a
lower weight. Training and scoring use the same `Encoder`, so their prompts are identical.
"""

from __future__ import annotations

import hashlib
import math
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

from torch import nn

from pact_eval._files import sha256_of_file, write_atomically
from pact_eval._json import Json, dumps
from pact_eval.custody import (
    TRAINING_RECORD_KEY,
    HashedData,
    TrainingRecord,
    TrainingRole,
    UsedData,
    hash_data,
    write_training_record,
)
from pact_eval.data.ablation import ablate
from pact_eval.data.certificates import parse_certificate
from pact_eval.data.records import Record, read_records
from pact_eval.errors import AdapterError, InputError, Problem, RecordError
from pact_eval.models import ADAPTER_WEIGHTS, SCHEMA_CONFIG
from pact_eval.prompts.encoding import EncodedView, Encoder, TrainingPrompts
from pact_eval.training.recipe_model import (
    RecipeSettings,
    schema_config,
    sha256_of_base,
    training_facts,
    write_json,
)
from pact_losses import PactBatch, PactCollator, PactData, TrainingView


@dataclass(frozen=True, slots=True)
class ViewPlan:
    """The views of a family, and of an unpaired record.

    Attributes:
        permuted: number of permuted views of each member, 0 or more.
        ablated: whether the base also has an ablated view.
        seed: seed of the letter orders.
        unpaired_weight: weight of the views of unpaired records in every mean, 0 or more; 0 leaves
            these records out.
        unpaired_permuted: number of permuted views of an unpaired record, for permutation
            consistency, 0 or more.
    """

    permuted: int = 1
    ablated: bool = True
    seed: int = 0
    unpaired_weight: float = 0.3
    unpaired_permuted: int = 0

    def __post_init__(self) -> None:
        if self.permuted < 0 or self.unpaired_permuted < 0:
            raise ValueError(
                "expected 0 or more permuted views, got "
                f"{self.permuted} and {self.unpaired_permuted} of unpaired records"
            )
        if not 0 <= self.unpaired_weight < math.inf:
            message = f"expected a finite unpaired_weight of 0 or more, got {self.unpaired_weight}"
            raise ValueError(message)


DEFAULT_PLAN: Final = ViewPlan()
"""The published plan: 2 primary, 2 permuted and 1 ablated view per family."""


def training_views(
    records: Sequence[Record],
    encoder: Encoder,
    plan: ViewPlan = DEFAULT_PLAN,
    *,
    unpaired: Sequence[Record] = (),
    source: str = "training records",
) -> list[TrainingView]:
    """Encode all views of a training run.

    Args:
        records: labelled records, both members of every family.
        encoder: tokenizer and prompt contract.
        plan: the views of a family.
        unpaired: labelled records without a pair, such as a mix of public data; each is a family of
            its own.
        source: name of the records in messages, usually their file.

    Returns:
        The views, family by family: base, counterfactual, their permuted views, the ablated view;
        then those of the unpaired records. A record with too few orders (C = 2 and `permuted` above
        1) repeats one, as in scoring.

    Raises:
        RecordError: a family is not a pair, its references do not differ, its ablated context
            cannot be made, or an unpaired record has no reference; one error lists all of them.
        PromptError: a prompt is over the limit.

    Examples:
        >>> from pathlib import Path
        >>> from transformers import AutoTokenizer
        >>> from pact_eval.data.records import read_records
        >>> from pact_eval.prompts.nimble import NIMBLE
        >>> encoder = Encoder(AutoTokenizer.from_pretrained("model"), NIMBLE)
        >>> views = training_views(read_records(Path("data/train.jsonl"))[:2], encoder, ViewPlan())
        >>> [view.role for view in views]
        ['primary', 'primary', 'permuted', 'permuted', 'ablated']
    """
    pairs, problems = _pairs(records)
    contexts: dict[str, Record] = {}
    if plan.ablated:
        for base, _ in pairs:
            try:
                contexts[base.id] = _without_evidence(base)
            except ValueError as error:
                problems.append(Problem(base.line, base.id, str(error)))
    problems += [
        Problem(record.line, record.id, "expected a reference in an unpaired record, got none")
        for record in unpaired
        if record.reference is None
    ]
    if problems:
        raise RecordError(source, problems)
    members = [member for pair in pairs for member in pair]
    k = 1 + plan.permuted
    encoded = encoder.encode(members, k, plan.seed)
    ablated = encoder.encode([contexts[base.id] for base, _ in pairs if plan.ablated], 1, plan.seed)
    views: list[TrainingView] = []
    for number, pair in enumerate(pairs):
        by_member = (encoded[k * row : k * (row + 1)] for row in (2 * number, 2 * number + 1))
        for shown in zip(*by_member, strict=True):  # primary views first, then permuted ones
            views += (_label(*member_and_view) for member_and_view in zip(pair, shown, strict=True))
        if plan.ablated:
            views.append(_ablated_view(pair, ablated[number]))
    return views + _unpaired_views(unpaired, encoder, plan)


def _pairs(records: Sequence[Record]) -> tuple[list[tuple[Record, Record]], list[Problem]]:
    families: dict[str, list[Record]] = defaultdict(list)
    for record in records:
        families[record.family].append(record)
    pairs: list[tuple[Record, Record]] = []
    problems: list[Problem] = []
    for members in families.values():
        fault = next(_faults(members), None)
        if fault is None:
            base, other = sorted(members, key=lambda member: member.variant)
            pairs.append((base, other))
        else:
            problems.append(Problem(members[0].line, members[0].id, fault))
    return pairs, problems


def _faults(members: Sequence[Record]) -> Iterator[str]:
    family = f"family {members[0].family}"
    variants = sorted(member.variant for member in members)
    if variants != ["base", "counterfactual"]:
        actual = ", ".join(variants)
        hint = "; give records without a pair as `unpaired`" if len(members) == 1 else ""
        yield f"{family}: expected one base and one counterfactual record, got {actual}{hint}"
        return
    first, second = members
    if first.reference is None or second.reference is None:
        yield f"{family}: expected a reference in both members, one has none"
    elif first.field.answers != second.field.answers or first.field.kind != second.field.kind:
        yield f"{family}: expected the same answers in both members"
    elif first.reference == second.reference:
        yield f"{family}: expected different references, both are {first.reference}"


def _without_evidence(base: Record) -> Record:
    """Return the base record in its ablated context."""
    if base.certificate is None:
        raise ValueError("expected an evidence certificate (for the ablated view), got none")
    return replace(base, state=ablate(base, parse_certificate(base.certificate).changed).state)


def _unpaired_views(
    records: Sequence[Record], encoder: Encoder, plan: ViewPlan
) -> list[TrainingView]:
    if plan.unpaired_weight == 0:
        return []
    k = 1 + plan.unpaired_permuted
    encoded = encoder.encode(records, k, plan.seed)
    return [
        replace(
            _label(replace(record, variant="base"), view),
            family=f"unpaired: {record.id}",
            variant="unpaired",
            weight=plan.unpaired_weight,
        )
        for row, record in enumerate(records)
        for view in encoded[k * row : k * (row + 1)]
    ]


def _label(record: Record, view: EncodedView) -> TrainingView:
    return _shown(record, view, reference=record.reference)


def _ablated_view(pair: tuple[Record, Record], view: EncodedView) -> TrainingView:
    y_a, y_b = (member.reference for member in pair)
    if y_a is None or y_b is None:  # ruled out by `_faults`
        raise ValueError(f"record {pair[0].id}: expected references")
    return replace(_shown(pair[0], view, reference=y_a), reference=None, ablated_answers=(y_a, y_b))


def _shown(record: Record, view: EncodedView, *, reference: int | None) -> TrainingView:
    if record.variant not in ("base", "counterfactual"):
        raise ValueError(
            f"record {record.id}: expected a base or counterfactual record, got {record.variant}"
        )
    return TrainingView(
        record_id=record.id,
        family=record.family,
        variant=record.variant,
        view=view.view,
        kind=record.field.kind,
        token_ids=view.token_ids,
        code_tokens=view.code_tokens,
        code_order=view.code_order,
        reference=reference,
    )


# Part of every hash. Increase it whenever the construction of views changes.
_FORMAT: Final = 2
_PROBES: Final = 64


def views_sha256(
    records: Sequence[Record], encoder: Encoder, plan: ViewPlan, unpaired: Sequence[Record] = ()
) -> str:
    """Return the SHA-256 of everything that determines the views, as 64 hex digits.

    The key depends on the state, question, reference, certificate and names of each record, and on
    the order of the records. It does not depend on line numbers.

    Examples:
        >>> from transformers import AutoTokenizer
        >>> from pact_eval.prompts.nimble import NIMBLE
        >>> encoder = Encoder(AutoTokenizer.from_pretrained("model"), NIMBLE)
        >>> records = read_records(Path("data/train.jsonl"))[:2]
        >>> key = views_sha256(records, encoder, ViewPlan())
        >>> len(key), key == views_sha256(records[::-1], encoder, ViewPlan())
        (64, False)
    """
    digest = hashlib.sha256()
    # The fingerprint covers one probe only; other tokenizer differences show on the records.
    probes = records[:: max(1, len(records) // _PROBES)]
    head: dict[str, Json] = {
        "format": _FORMAT,
        "encoder": encoder.fingerprint,
        "contract": encoder.contract.fingerprint,
        "max_prompt_tokens": encoder.max_prompt_tokens,
        "tokens": [list(view.token_ids) for view in encoder.encode(probes, 1, plan.seed)],
        "paired_records": len(records),
        **asdict(plan),
    }
    digest.update(dumps(head).encode("utf-8"))
    for record in (*records, *unpaired):
        content = asdict(record) | {"line": 0}
        digest.update(b"\n" + dumps(content).encode("utf-8"))
    return digest.hexdigest()


Log = Callable[[str], None]

_SELECTION_ROWS: Final = 16
_SELECTION_PLAN: Final = ViewPlan(permuted=0, ablated=False)  # the primary views count
_UNPAIRED: Final = "unpaired"


@dataclass(frozen=True)
class RecipeFiles:
    """The files of a training.

    Attributes:
        train: pairs to train on.
        selection: pairs that choose the checkpoint.
        calibration: what the adapter will be calibrated on, for its training record; None for
            nothing.
        unpaired: labelled records without a pair to train on as well; None for none.
    """

    train: Path
    selection: Path
    calibration: Path | None = None
    unpaired: Path | None = None

    @property
    def by_role(self) -> dict[str, Path]:
        """The files whose content decides the weights or the training record."""
        return {role: path for role, path in vars(self).items() if path is not None}


@dataclass(frozen=True)
class RecipeData:
    """The encoded data of a training.

    Attributes:
        pact: views to train on, and their collator.
        selection: batches of canonical views that choose a checkpoint.
        families: number of pairs to train on.
        used: the files of the training and the records used of them, by role.
        views_sha256: that of the views to train on.
    """

    pact: PactData
    selection: Sequence[PactBatch]
    families: int
    used: Mapping[TrainingRole, Sequence[UsedData]]
    views_sha256: str

    @property
    def units(self) -> int:
        """What an epoch passes over: the pairs, and unpaired records one by one."""
        return len({view.family for view in self.pact.train})

    @property
    def views_per_pair(self) -> float:
        """Mean number of views of a pair."""
        paired = sum(view.variant != _UNPAIRED for view in self.pact.train)
        return round(paired / self.families, 3)


def recipe_data(
    files: RecipeFiles, settings: RecipeSettings, seed: int, encoder: Encoder
) -> RecipeData:
    """Read and encode the files of a training.

    Args:
        files: the files.
        settings: the settings.
        seed: seed of the letter orders.
        encoder: tokenizer and prompt contract.

    Raises:
        InputError: a file cannot be read, has too few families, or lacks a source family.
        RecordError: a line is not a record, or as for `training_views`.
        PromptError: a prompt is over the limit.
    """
    paper = settings.paper
    train = _evenly_spaced(read_records(files.train), settings.train_families, files.train)
    unpaired = [] if files.unpaired is None else read_records(files.unpaired)
    plan = ViewPlan(
        paper.permuted_views,
        paper.ablated_view,
        seed,
        paper.unpaired_weight,
        paper.unpaired_permuted_views,
    )
    views = training_views(train, encoder, plan, unpaired=unpaired, source=str(files.train))
    chosen = _of_source_families(files.selection, settings.selection_source_families)
    selection = training_views(chosen, encoder, _SELECTION_PLAN, source=str(files.selection))
    pad = _padding(encoder) or 0
    return RecipeData(
        PactData(views, PactCollator(pad, pair_views=paper.pair_views)),
        _batches(selection, pad),
        len({record.family for record in train}),
        _data_by_role(files, train, unpaired, chosen),
        views_sha256(train, encoder, plan, unpaired),
    )


def _data_by_role(
    files: RecipeFiles,
    train: Sequence[Record],
    unpaired: Sequence[Record],
    selection: Sequence[Record],
) -> dict[TrainingRole, Sequence[UsedData]]:
    trained_on = [UsedData(files.train, train)]
    if files.unpaired is not None:
        trained_on.append(UsedData(files.unpaired, unpaired))
    used: dict[TrainingRole, Sequence[UsedData]] = {
        "train": trained_on,
        "selection": [UsedData(files.selection, selection)],
    }
    if files.calibration is not None:
        used["calibration"] = [UsedData(files.calibration)]
    return used


def _evenly_spaced(records: list[Record], number: int | None, path: Path) -> list[Record]:
    """Return the records of some families, evenly spaced to include all source families."""
    if number is None:
        return records
    families = list(dict.fromkeys(record.family for record in records))
    if number > len(families):
        message = f"train_families: expected at most {len(families)}, those of {path}, got {number}"
        raise InputError(message)
    chosen = {families[place * len(families) // number] for place in range(number)}
    return [record for record in records if record.family in chosen]


def _of_source_families(path: Path, names: Sequence[str]) -> list[Record]:
    """Return the records of a selection split that choose the checkpoint; all without names."""
    records = read_records(path)
    here = {record.source_family for record in records}
    lacking = sorted(set(names) - here)
    if lacking:
        raise InputError(
            f"selection_source_families: {path} has no {', '.join(lacking)}; it has "
            f"{', '.join(sorted(here))}"
        )
    return [record for record in records if not names or record.source_family in names]


def _batches(views: Sequence[TrainingView], pad: int) -> list[PactBatch]:
    """Return canonical views by length, the same for all trainings."""
    by_length = sorted(views, key=lambda view: len(view.token_ids))
    collate = PactCollator(pad, require_pairs=False)
    return [
        collate(by_length[start : start + _SELECTION_ROWS])
        for start in range(0, len(by_length), _SELECTION_ROWS)
    ]


def _padding(encoder: Encoder) -> int | None:
    tokenizer: Any = encoder.tokenizer
    pad: int | None = tokenizer.pad_token_id
    return tokenizer.eos_token_id if pad is None else pad


def training_data(
    train: Path | UsedData,
    encoder: Encoder,
    *,
    base: str | Path,
    selection: Path | UsedData | None = None,
    plan: ViewPlan = DEFAULT_PLAN,
    arm: str | None = None,
) -> PactData:
    """Read and encode the files of a training, for any trainer of `pact_losses`.

    Whenever a trainer saves the adapter, `schema_config.json` and `training_data.json` are written
    next to its weights. So `pact-eval score` accepts every checkpoint, and knows its training data.

    Args:
        train: dataset file, or some of its records.
        encoder: tokenizer and prompt contract of the training.
        base: hub id of the base model, or its folder, as for `save_adapter`.
        selection: the selection split, likewise; none by default.
        plan: the views of a family.
        arm: the recipe, for reports.

    Returns:
        The views, their collator and their record.

    Raises:
        InputError: a file cannot be read.
        RecordError: a line is not a record, or as for `training_views`.
        PromptError: a prompt is over the limit.
        AdapterError: the base folder has no weights.
        ValueError: the tokenizer has neither a padding nor an end token.

    Examples:
        >>> from transformers import AutoTokenizer
        >>> from pact_eval.prompts.nimble import NIMBLE
        >>> encoder = Encoder(AutoTokenizer.from_pretrained("model"), NIMBLE)
        >>> data = training_data(Path("data/train.jsonl"), encoder, base="model", arm="pact")
        >>> len({view.family for view in data.train}), len(data.train)
        (60, 300)
    """
    base = Path(base) if Path(base).is_dir() else base
    used: dict[TrainingRole, UsedData] = {"train": _data_used(train)}
    if selection is not None:
        used["selection"] = _data_used(selection)
    plans = {"train": plan, "selection": _SELECTION_PLAN}
    views = {
        role: training_views(data.records or (), encoder, plans[role], source=str(data.path))
        for role, data in used.items()
    }
    record = _Record(
        base,
        sha256_of_base(base),
        encoder,
        arm,
        {role: hash_data([data]) for role, data in used.items()},
        views_sha256(used["train"].records or (), encoder, plan),
    )
    pad: Any = _padding(encoder)  # None is refused by the collator
    return PactData(views["train"], PactCollator(pad), views.get("selection", ()), record)


@dataclass(frozen=True)
class _Record:
    """The `AdapterRecord` of a training on files that were hashed when it began."""

    base: str | Path
    base_sha256: str | None
    encoder: Encoder
    arm: str | None
    roles: Mapping[TrainingRole, HashedData]
    views_sha256: str

    def __call__(self, model: nn.Module, folder: Path, training: Mapping[str, Any]) -> None:
        """Write the record, and `schema_config.json` with its hash."""
        weights = folder / ADAPTER_WEIGHTS
        if not weights.exists():
            raise AdapterError(
                f"{folder}: expected an adapter with {ADAPTER_WEIGHTS}, found none; train a PEFT "
                "model (peft.get_peft_model), or leave the record out with replace(data, record="
                "None)"
            )
        contract, limit = self.encoder.contract, self.encoder.max_prompt_tokens
        schema = schema_config(
            self.base,
            folder,
            contract,
            max_prompt_tokens=None if limit == sys.maxsize else limit,
            base_sha256=self.base_sha256,
        )
        schema |= TrainingPrompts.of(self.encoder).to_json()
        schema |= {"arm": self.arm, "seed": training.get("seed")}
        facts = training_facts(model, schema) | {"views_sha256": self.views_sha256}
        facts |= dict(training)
        record = TrainingRecord(sha256_of_file(weights), self.roles, facts)
        schema[TRAINING_RECORD_KEY] = write_training_record(folder, record)
        for name, text in contract.adapter_files().items():
            write_atomically(folder / name, text)
        write_json(folder / SCHEMA_CONFIG, schema)


def _data_used(data: Path | UsedData) -> UsedData:
    """The file with the records that are used, as read once."""
    if isinstance(data, UsedData) and data.records is not None:
        return data
    path = data.path if isinstance(data, UsedData) else data
    return UsedData(path, read_records(path))
