"""The items in a page: columns for sorting and filtering, blocks for opened items."""

from __future__ import annotations

import base64
import difflib
import hashlib
import json
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import islice, zip_longest
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
from markupsafe import Markup

from pact_eval._json import Json, dumps
from pact_eval._typing import IntArray
from pact_eval.data.diff import common_prefix
from pact_eval.data.records import Record
from pact_eval.evaluation.arm_names import KEYS, ArmNames
from pact_eval.evaluation.experiment import Experiment
from pact_eval.evaluation.experiment_run import ExperimentRun
from pact_eval.evaluation.item_records import (
    ItemOutcomes,
    ItemRecords,
    item_distributions,
    item_outcomes,
)
from pact_eval.evaluation.items import pair_partners
from pact_eval.evaluation.run_records import texts_of
from pact_eval.progress import tracked
from pact_eval.prompts.contract import ChatContract, canonical_code_order
from pact_eval.prompts.nimble import NIMBLE
from pact_eval.runs.predictions import Predictions
from pact_eval.runs.provenance import UNNAMED
from pact_reports.page.html import trusted

NOT_KNOWN: Final = 65_535
"""The step that encodes NaN."""

_STEPS: Final = 64
_LEVEL: Final = 6
# Base64 characters in one script element, which a browser parses in one piece.
_ELEMENT: Final = 1_000_000

_DTYPES: Final = {"u1": "<u1", "u2": "<u2", "u4": "<u4", "i4": "<i4"}


def to_steps(values: npt.NDArray[np.float64]) -> npt.NDArray[np.uint16]:
    """Convert fractions to steps of a 64th of a per mille, which sort finely and round exactly.

    The integer quotient of a step and 64 is the fraction rounded to a per mille. So a percentage
    with one decimal is rounded only once.

    Args:
        values: fractions in [0, 1]; NaN becomes `NOT_KNOWN`.

    Example:
        >>> steps = to_steps(np.array([0.0, 0.12345, 1.0, np.nan]))
        >>> steps.tolist(), (steps // 64).tolist()[:3]
        ([32, 7932, 64032, 65535], [0, 123, 1000])
    """
    fractions = np.clip(np.nan_to_num(values, nan=0.0), 0.0, 1.0)
    steps = np.floor((fractions * 1000 + 0.5) * _STEPS)
    return np.where(np.isnan(values), NOT_KNOWN, steps).astype(np.uint16)


def to_permille(values: npt.NDArray[np.float64]) -> npt.NDArray[np.uint16]:
    """Round fractions to a per mille; NaN becomes `NOT_KNOWN`.

    Example:
        >>> to_permille(np.array([0.1234, 0.9996])).tolist()
        [123, 1000]
    """
    steps = to_steps(values)
    return np.where(steps == NOT_KNOWN, NOT_KNOWN, steps // _STEPS).astype(np.uint16)


def bytes_of(values: npt.NDArray[np.generic], dtype: str) -> bytes:
    r"""Return numbers as little-endian bytes: first bytes of all numbers, then second bytes.

    Bytes of the same significance are similar, so they compress better next to each other.

    Args:
        values: integers.
        dtype: u1, u2, u4 or i4.

    Example:
        >>> bytes_of(np.array([1, 258]), "u2")
        b'\x01\x02\x00\x01'
    """
    flat = np.ascontiguousarray(values.astype(_DTYPES[dtype]))
    return flat.view(np.uint8).reshape(flat.size, flat.itemsize).T.tobytes()


Columns: TypeAlias = Mapping[str, tuple[str, npt.NDArray[np.generic]]]
"""By the name in the script, a dtype and (n,) integers, one per item."""


class BlockStore:
    """Collects blocks and writes them as script elements in base64.

    Example:
        >>> store = BlockStore()
        >>> store.add(b"abc"), store.add(b"def"), store.add(b"abc")
        (0, 1, 0)
        >>> store.index
        [[16, 16]]
    """

    def __init__(self) -> None:
        self._numbers: dict[bytes, int] = {}
        self._elements: list[list[str]] = []
        self._length = 0

    def add(self, raw: bytes) -> int:
        """Pack a block and return its number."""
        digest = hashlib.sha256(raw).digest()
        if digest in self._numbers:
            return self._numbers[digest]
        text = base64.b64encode(zlib.compress(raw, _LEVEL)).decode("ascii")
        if not self._elements or self._length + len(text) > _ELEMENT:
            self._elements.append([])
            self._length = 0
        self._elements[-1].append(text)
        self._length += len(text)
        self._numbers[digest] = len(self._numbers)
        return self._numbers[digest]

    def add_json(self, value: object) -> int:
        """Pack JSON in UTF-8 and return the number of its block."""
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        return self.add(text.encode("utf-8", errors="backslashreplace"))

    def add_columns(self, columns: Columns) -> Json:
        """Pack columns and return, by name, the number of the block and the dtype."""
        return {
            name: [self.add(bytes_of(values, dtype)), dtype]
            for name, (dtype, values) in columns.items()
        }

    @property
    def index(self) -> list[Json]:
        """Lengths of the blocks of each element, in base64 characters."""
        return [[len(text) for text in texts] for texts in self._elements]

    @property
    def elements(self) -> list[Markup]:
        """The elements; base64 needs no escaping."""
        start = '<script type="text/plain" id="blocks-'
        return [
            trusted(f'{start}{number}">{"".join(texts)}</script>')
            for number, texts in enumerate(self._elements)
        ]


Part: TypeAlias = str | tuple[str, str]
"""Text that both members share, or the text of this member and that of the other in its place."""

_SPEAKER: Final = ("speaker", "role", "name", "author", "from")
_SPOKEN: Final = ("text", "content", "message")
# Most pairs of tokens that are compared; with more, the middle is one change.
_MOST_COMPARED: Final = 250_000
_TOKEN: Final = re.compile(r"\w+|\s+|[^\w\s]")


def context_lines(value: Json, way: str = "") -> Iterator[tuple[str, str]]:
    """Split a context into lines for reading: labels, and unchanged texts.

    A turn (an object with a speaker and a text) is one line with the speaker's name. Any other
    value is one line with its path, which is "" if the context is a single text.

    Args:
        value: the context, or a part of it.
        way: path to the part.

    Example:
        >>> turns = [{"speaker": "Clerk", "text": "Noted."}, {"n": 3, "tags": ["a"]}]
        >>> list(context_lines(turns))
        [('Clerk', 'Noted.'), ('2.n', '3'), ('2.tags.1', 'a')]
    """
    parts: Iterable[tuple[object, Json]] = ()
    if isinstance(value, dict):
        speaker = next((value[key] for key in _SPEAKER if key in value), None)
        text = next((value[key] for key in _SPOKEN if key in value), None)
        if len(value) == 2 and isinstance(speaker, str) and isinstance(text, str):
            yield speaker, text
            return
        parts = value.items()
    elif isinstance(value, list):
        parts = enumerate(value, start=1)
    else:
        yield way, value if isinstance(value, str) else dumps(value)
    for key, item in parts:
        yield from context_lines(item, f"{way}.{key}" if way else f"{key}")


def item_text(record: Record, other: Record | None, prompt: list[Part] | None = None) -> list[Any]:
    """Return the texts of an item as the browser reads them.

    Args:
        record: the record of the item.
        other: the other member of its pair, or None.
        prompt: the user message in canonical order, as from `marked`; None leaves it out.

    Returns:
        `[context, instructions, answers, prompt]`. Context lines are `[label, parts]`; a part is
        text that both members share, or `[text of this member, text of the other]`. Lines are
        paired in order; a line without a partner is a change. Answers are `[key, description]`.
        The prompt is parts too.
    """
    lines = context_lines(record.state)
    context: list[tuple[str, list[Part]]] = []
    if other is None:
        context = [(label, [text]) for label, text in lines]
    else:
        for mine, theirs in zip_longest(lines, context_lines(other.state)):
            if mine and theirs and mine[0] == theirs[0]:
                context.append((mine[0], marked(mine[1], theirs[1])))
                continue
            context += [(mine[0], [(mine[1], "")])] if mine else []
            context += [(theirs[0], [("", theirs[1])])] if theirs else []
    question = record.field.instructions
    return [
        context,
        question if isinstance(question, str) else dumps(question),
        [(answer.key, answer.description) for answer in record.field.answers],
        prompt,
    ]


def marked(mine: str, other: str) -> list[Part]:
    """Split a text where it differs from another text.

    Args:
        mine: the text.
        other: the text of the other member.

    Returns:
        Parts in reading order. Joining the first sides gives `mine`, joining the second `other`.

    Example:
        >>> marked("The seal is intact.", "The seal is not intact.")
        ['The seal is ', ('', 'not '), 'intact.']
        >>> marked("same", "same")
        ['same']
    """
    if mine == other:
        return [mine] if mine else []
    start = _between_tokens(mine, other, common_prefix(mine, other))
    a, b = mine[start:][::-1], other[start:][::-1]
    end = _between_tokens(a, b, common_prefix(a, b))
    inner = (_TOKEN.findall(text[start : len(text) - end]) for text in (mine, other))
    parts: list[Part] = [mine[:start], *_inner(*inner), mine[len(mine) - end :]]
    return [part for part in parts if part not in ("", ("", ""))]


def _between_tokens(a: str, b: str, length: int) -> int:
    """Shorten a common prefix until it ends between two tokens of both texts."""
    while length and not all(_splits(text[length - 1 : length + 1]) for text in (a, b)):
        length -= 1
    return length


def _splits(pair: str) -> bool:
    """Return whether a token ends between two characters, or at the end of the text."""
    return len(_TOKEN.findall(pair)) == len(pair)


def _inner(a: list[str], b: list[str]) -> list[Part]:
    if not a or not b or len(a) * len(b) > _MOST_COMPARED:
        return [("".join(a), "".join(b))]
    parts: list[Part] = []
    matcher = difflib.SequenceMatcher(a=a, b=b, autojunk=False)
    for tag, i, j, k, m in matcher.get_opcodes():
        same = tag == "equal"
        # Changes that only a blank separates are joined into one.
        joins = same and not "".join(a[i:j]).strip() and parts and i > 0 and j < len(a)
        if same and not joins:
            parts.append("".join(a[i:j]))
            continue
        mine, other = "".join(a[i:j]), "".join(b[k:m])
        last = parts[-1] if parts else ""
        if isinstance(last, tuple):
            parts[-1] = (last[0] + mine, last[1] + other)
        else:
            parts.append((mine, other))
    return parts


NO_ORDERS: Final = "the run does not record the order of its letters"
"""Why a run with a known contract has no prompt."""


def contract_of(run: ExperimentRun) -> tuple[ChatContract | None, str]:
    """Return the contract that rendered the prompts of a run, and why it has no prompt.

    Returns:
        None if the run was not scored here, or if its contract is not one of this version. The
        reason is that, or `NO_ORDERS`, which shows if the orders of a run are not known.
    """
    recorded = run.provenance
    if recorded.source not in (None, "score"):
        return None, "the run is an import, and imports do not record their prompts"
    if recorded.contract is None or recorded.contract.fingerprint is None:
        return None, "the run does not record its prompt contract"
    if recorded.contract.fingerprint != NIMBLE.fingerprint:
        return None, "this version does not have the prompt contract of the run"
    return NIMBLE, NO_ORDERS


def user_message(contract: ChatContract, record: Record, order: Sequence[int]) -> str:
    """Return the last message of the prompt of a view, which has the context and the question.

    Args:
        contract: the contract of the run.
        record: the record of the item.
        order: the canonical index at each letter.
    """
    field = record.field
    return contract.messages(record.state, [field], field.name, order)[-1]["content"]


def system_message(contract: ChatContract, record: Record) -> str:
    """Return the text before the last message, which is the same for every item."""
    field = record.field
    order = canonical_code_order(field)
    before = contract.messages(record.state, [field], field.name, order)[:-1]
    return "\n".join(message["content"] for message in before)


def view_changes(contract: ChatContract, record: Record, orders: Sequence[Sequence[int]]) -> Json:
    """Return how the message of each view differs from that in canonical order.

    Args:
        contract: the contract of the run.
        record: the record of the item.
        orders: the letter order of each view.

    Returns:
        For each view, None if its message is the canonical one, or
        `[start, end, text]`: `text` replaces what is between `start` and `end`, which count
        UTF-16 code units as a browser does.
    """
    canonical = canonical_code_order(record.field)
    before = user_message(contract, record, canonical)
    changes: list[Json] = []
    for order in orders:
        if tuple(order) == canonical:
            changes.append(None)
            continue
        after = user_message(contract, record, order)
        start = common_prefix(before, after)
        end = common_prefix(before[start:][::-1], after[start:][::-1])
        # By encoding, code units are counted without a loop in Python.
        first, last = (
            len(before[:at].encode("utf-16-le", errors="surrogatepass")) // 2
            for at in (start, len(before) - end)
        )
        changes.append([first, last, after[start : len(after) - end]])
    return changes


KINDS: Final = ("choice", "boolean", "score")
"""Kinds in the order of their codes; any other kind has the next code."""

FLAGS: Final = {
    "right": 1,
    "flip": 2,
    "confident_error": 4,
    "pair": 8,
    "pair_right": 16,
    "pair_wrong": 32,
    "pair_same": 64,
}
"""Bits of an item's outcome. `pair`: it is a member of a complete pair; `pair_right`: both members
are right; `pair_wrong`: both are wrong; `pair_same`: both get the same answer."""


_VARIANTS: Final = ("", "base", "counterfactual")


def item_columns(views: Predictions, domains: list[str]) -> Columns:
    """Return the columns that are the same for every run on these items.

    Args:
        views: the views of one of the runs.
        domains: all domains; the code of a domain is its index.
    """
    rows = np.arange(len(views))
    other = pair_partners(views)
    rank = np.empty(len(views), dtype=np.int64)
    rank[np.argsort(views.ids, kind="stable")] = rows

    def codes(values: npt.NDArray[Any], names: Sequence[str], unknown: int) -> IntArray:
        code = {name: number for number, name in enumerate(names)}
        return np.array([code.get(value, unknown) for value in values.tolist()])

    return {
        "kind": ("u1", codes(views.kind, KINDS, len(KINDS))),
        "domain": ("u2", codes(views.domain, domains, 0)),
        "variant": ("u1", codes(views.variant, _VARIANTS, 0)),
        "choices": ("u1", views.n_choices),
        "reference": ("u1", views.reference),
        # Distances between rows are mostly equal, so they compress well.
        "partner": ("i4", np.where(other < 0, 0, other - rows)),
        "rank": ("i4", rank - rows),
    }


def run_columns(outcomes: ItemOutcomes) -> Columns:
    """Return the columns of one run: answers, outcomes as bits of `FLAGS`, and probabilities."""
    masks = {
        "right": outcomes.correct,
        "flip": outcomes.flipped,
        "confident_error": outcomes.confident_error,
        "pair": outcomes.paired,
        "pair_right": outcomes.pair_right,
        "pair_wrong": outcomes.pair_wrong,
        "pair_same": outcomes.pair_same,
    }
    bits = [np.where(mask, FLAGS[name], 0) for name, mask in masks.items()]
    tokens = np.nan_to_num(outcomes.prompt_tokens)
    columns: dict[str, tuple[str, npt.NDArray[np.generic]]] = {
        "answer": ("u1", outcomes.predicted),
        "flags": ("u1", np.sum(bits, axis=0)),
        "confidence": ("u2", to_steps(outcomes.raw.confidence)),
        "bin": ("u1", outcomes.raw.bin),
        "of_reference": ("u2", to_steps(outcomes.of_reference)),
        "view_tv": ("u2", to_steps(outcomes.view_tv)),
        "tokens": ("u2" if tokens.max(initial=0) < NOT_KNOWN else "u4", tokens),
        "answer_mass": ("u2", to_steps(outcomes.answer_mass)),
    }
    if outcomes.right_repeats is not None:
        columns["right_repeats"] = ("u2", outcomes.right_repeats)
    if outcomes.calibrated is not None:
        columns["calibrated"] = ("u2", to_steps(outcomes.calibrated.confidence))
        columns["calibrated_bin"] = ("u1", outcomes.calibrated.bin)
    return columns


_IDS: Final = 4_096
_TEXTS: Final = 64
_VIEWS: Final = 512


def pack_experiment(
    store: BlockStore,
    experiment: Experiment,
    item_records: ItemRecords | None,
    names: ArmNames = KEYS,
) -> Json:
    """Pack the items of all runs.

    Args:
        store: stores the blocks.
        experiment: the runs.
        item_records: the records of the items; None leaves the texts out.
        names: display names of arms.

    Returns:
        The numbers of the blocks, and what the script must know to read them.
    """
    records = None if item_records is None else item_records.records
    # A run whose dataset was not given may have read other texts than those on the page.
    doubtful = set() if item_records is None else {data.run for data in item_records.different}
    tables: list[Json] = []
    runs: list[Json] = []
    place: dict[int, int] = {}
    prompts: dict[tuple[int, bytes], Json] = {}
    owners = zip(experiment.runs, item_tables(experiment), strict=True)
    for run, owner in tracked(owners, "Packing items", "runs", total=len(experiment.runs)):
        views, (contract, no_prompt) = run.predictions, contract_of(run)
        if owner not in place:
            place[owner] = len(tables)
            tables.append(pack_items(store, views, records, contract))
        of_run = pack_run(store, experiment, run, place[owner])
        key = (owner, views.code_order.tobytes())
        if records is not None and contract is not None and key not in prompts:
            prompts[key] = pack_prompts(store, views, records, contract)
        packed: dict[str, Json] = {
            "label": names.run(run.label),
            **of_run,
            "prompts": None if contract is None else prompts.get(key),
            "no_prompt": no_prompt,
            "same_data": run.label not in doubtful,
        }
        runs.append(packed)
    return {
        "items": tables,
        "runs": runs,
        "compared": [*compared_runs(experiment)],
        "flags": {**FLAGS},
        "bins": experiment.settings.ece_bins,
        "blocks": store.index,
    }


def compared_runs(experiment: Experiment) -> tuple[int, int | None]:
    """Return the two runs that a page compares first, as indices.

    Returns:
        The first run of the main arm, and a run of another arm on the same items: at the same
        seed, if there is one. Without another arm, the second is another run, or None.
    """
    runs, tables = experiment.runs, item_tables(experiment)
    a = next(at for at, run in enumerate(runs) if run.arm == experiment.main_arm)
    others = [at for at in range(len(runs)) if at != a and tables[at] == tables[a]]
    # False sorts before True, and the first of equal runs is taken.
    unlike = {at: (runs[at].arm == runs[a].arm, runs[at].seed != runs[a].seed) for at in others}
    return a, min(others, key=unlike.__getitem__, default=None)


def pack_items(
    store: BlockStore,
    views: Predictions,
    records: Mapping[str, Record] | None,
    contract: ChatContract | None = None,
) -> Json:
    """Pack the data of the items that all runs on them share.

    Args:
        store: stores the blocks.
        views: the views of one of the runs.
        records: the records of all items by id; None leaves the texts out, and so does a run that
            does not name the answers.
        contract: the contract that rendered the prompts; None leaves the prompts out.

    Returns:
        The numbers of the blocks.
    """
    domains, ids = sorted(set(views.domain.tolist())), views.ids.tolist()
    columns = store.add_columns(item_columns(views, domains))
    parts = [store.add_json(ids[at : at + _IDS]) for at in range(0, len(ids), _IDS)]
    packed: dict[str, Json] = {
        "n": len(views),
        "kinds": [*KINDS],
        "domains": [*domains],
        "columns": columns,
        "ids": {"size": _IDS, "blocks": [*parts]},
        "texts": None,
        "system": None,
    }
    if records is None or views.known in UNNAMED:
        return packed
    blocks: list[Json] = []
    prompt = _prompts(contract, records)
    other = pair_partners(views).tolist()
    for at in tracked(range(0, len(ids), _TEXTS), "Packing texts", "parts"):
        texts = []
        for name, partner in zip(ids[at : at + _TEXTS], other[at : at + _TEXTS], strict=True):
            paired = name if partner < 0 else ids[partner]
            marks = marked(prompt(name), prompt(paired)) if prompt else None
            of_other = None if partner < 0 else records[paired]
            texts.append(item_text(records[name], of_other, marks))
        blocks.append(store.add_json(texts))
    packed["texts"] = {"size": _TEXTS, "blocks": blocks}
    if contract is not None:
        packed["system"] = system_message(contract, records[ids[0]])
    return packed


def pack_run(
    store: BlockStore, experiment: Experiment, run: ExperimentRun, items: int
) -> dict[str, Json]:
    """Pack the answers and probabilities of one run.

    Args:
        store: stores the blocks.
        experiment: the experiment of the run, for the decoding of answers and confidences.
        run: the run.
        items: index of its items among the item sets of the page.

    Returns:
        The numbers of the blocks; those of an item are in the order of `ItemDistributions.names`.
    """
    views, distributions = run.predictions, item_distributions(experiment, run)
    options, asked = _named_answers(run)
    blocks: dict[str, list[Json]] = {"views": [], "orders": [], "tops": []}
    # 255 marks a view of unknown order.
    orders = np.where(views.code_order >= 0, views.code_order, 255)
    for at in range(0, len(views), _VIEWS):
        rows = slice(at, at + _VIEWS)
        # Rounded probabilities may tie, so the most probable answer of each is stored too.
        blocks["tops"].append(store.add(bytes_of(distributions.tops[rows], "u1")))
        permille = to_permille(distributions.probabilities[rows])
        for name, dtype, values in (("views", "u2", permille), ("orders", "u1", orders[rows])):
            # One item after another, without unused slots.
            used = np.broadcast_to(distributions.used[rows, np.newaxis, :], values.shape)
            blocks[name].append(store.add(bytes_of(values[used], dtype)))
    return {
        "items": items,
        "k": views.k,
        "repeats": views.k if views.repeats else 1,
        "decoding": experiment.settings.decoding,
        "distributions": [*distributions.names],
        "options": [[*names] for names in options],
        "columns": store.add_columns({**run_columns(item_outcomes(experiment, run)), **asked}),
        **{name: {"size": _VIEWS, "blocks": of_name} for name, of_name in blocks.items()},
    }


def _named_answers(run: ExperimentRun) -> tuple[list[tuple[str, ...]], Columns]:
    """Return the lists of answers that an import names, and which one each item has, if several.

    An item whose answers have no names has an index beyond them.
    """
    if run.predictions.known in UNNAMED:
        return [], {}
    texts = texts_of(run, {})
    if not texts.options_of:
        return [texts.options] if texts.options else [], {}
    places = {question: at for at, question in enumerate(texts.options_of)}
    ids = run.predictions.ids.tolist()
    asked = [places.get(texts.questions.get(item, ""), len(places)) for item in ids]
    return [*texts.options_of.values()], {"asked": ("u2", np.array(asked))}


def item_tables(experiment: Experiment) -> list[int]:
    """Return for each run the index of the first run that has its items, in its order."""
    first: dict[tuple[bytes, ...], int] = {}
    tables = []
    for at, run in enumerate(experiment.runs):
        views = run.predictions
        ids = hashlib.sha256("\0".join(views.ids.tolist()).encode("utf-8", errors="replace"))
        key = (ids.digest(), views.reference.tobytes(), views.n_choices.tobytes())
        tables.append(first.setdefault(key, at))
    return tables


def _prompts(
    contract: ChatContract | None, records: Mapping[str, Record]
) -> Callable[[str], str] | None:
    """Return a function from an id to the user message in canonical order."""
    if contract is None:
        return None

    # The members of a pair need each other's message, and are near each other.
    @lru_cache(maxsize=_TEXTS)
    def message(item: str) -> str:
        record = records[item]
        return user_message(contract, record, canonical_code_order(record.field))

    return message


def pack_prompts(
    store: BlockStore, views: Predictions, records: Mapping[str, Record], contract: ChatContract
) -> Json:
    """Pack the differences of the prompts of a run's views from those in canonical order.

    Args:
        store: stores the blocks.
        views: the views of the run.
        records: the records of all items by id.
        contract: the contract of the run.

    Returns:
        The numbers of the blocks; None if the run does not record the letter order of a view.
    """
    recorded = (views.code_order >= 0).sum(axis=2) == views.n_choices[:, np.newaxis]
    if not recorded.all():
        return None
    blocks: list[Json] = []
    changes = (
        view_changes(contract, records[name], orders[:, :size].tolist())
        for name, size, orders in zip(
            views.ids.tolist(), views.n_choices.tolist(), views.code_order, strict=True
        )
    )
    while part := [*islice(changes, _TEXTS)]:
        blocks.append(store.add_json(part))
    return {"size": _TEXTS, "blocks": blocks}
