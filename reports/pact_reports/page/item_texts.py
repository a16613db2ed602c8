"""The texts of an item: context and prompt with the edited words marked, question and answers.

`pact_eval.data.word_diff` compares texts on one line and without invisible characters. A page shows
line feeds and invisible characters, so this module marks edits in the original text.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from pact_eval._json import Json, dumps
from pact_eval.data.records import Record
from pact_eval.data.word_diff import common_prefix
from pact_eval.evaluation.experiment_run import ExperimentRun
from pact_eval.prompts.contract import ChatContract, canonical_code_order
from pact_eval.prompts.nimble import NIMBLE

Part: TypeAlias = str | tuple[str, str]
"""Text that both members share, or the text of this member and that of the other in its place."""

_SPEAKER: Final = ("speaker", "role", "name", "author", "from")
_SPOKEN: Final = ("text", "content", "message")
# Most pairs of tokens that are compared; with more, the middle is one change.
_MOST_COMPARED: Final = 250_000
_TOKEN: Final = re.compile(r"\w+|\s+|[^\w\s]")


@dataclass(frozen=True, slots=True)
class Line:
    """One text inside a context.

    Attributes:
        label: the speaker, or the path to the text; "" if the context is a single text.
        text: the unchanged text.
    """

    label: str
    text: str


def context_lines(state: Json) -> list[Line]:
    """Split a context into lines for reading.

    A turn (an object with a speaker and a text) is one line with the speaker's name. Any other
    value is one line with its path.

    Example:
        >>> [(line.label, line.text) for line in context_lines(
        ...     [{"speaker": "Clerk", "text": "Noted."}, {"n": 3, "tags": ["a"]}])]
        [('Clerk', 'Noted.'), ('2.n', '3'), ('2.tags.1', 'a')]
    """
    return list(_lines(state, ""))


def _lines(value: Json, way: str) -> Iterator[Line]:
    if isinstance(value, str):
        yield Line(way, value)
    elif isinstance(value, dict):
        turn = _turn(value)
        if turn is not None:
            yield turn
            return
        for key, item in value.items():
            yield from _lines(item, f"{way}.{key}" if way else key)
    elif isinstance(value, list):
        for number, item in enumerate(value, start=1):
            yield from _lines(item, f"{way}.{number}" if way else str(number))
    else:
        yield Line(way, dumps(value))


def _turn(value: Mapping[str, Json]) -> Line | None:
    if len(value) != 2:
        return None
    speaker = next((value[key] for key in _SPEAKER if key in value), None)
    text = next((value[key] for key in _SPOKEN if key in value), None)
    if isinstance(speaker, str) and isinstance(text, str):
        return Line(speaker, text)
    return None


def item_text(record: Record, other: Record | None, prompt: list[Part] | None = None) -> Json:
    """Return the texts of an item as the browser reads them.

    Args:
        record: the record of the item.
        other: the other member of its pair, or None.
        prompt: the user message in canonical order, as from `marked`; None leaves it out.

    Returns:
        `[context, instructions, answers, prompt]`. Context lines are `[label, parts]`; a part is
        text that both members share, or `[text of this member, text of the other]`. Answers are
        `[key, description]`. The prompt is parts too.
    """
    lines = context_lines(record.state)
    context: list[Json]
    if other is None:
        context = [[line.label, [line.text]] for line in lines]
    else:
        context = _paired(lines, context_lines(other.state))
    question = record.field.instructions
    return [
        context,
        question if isinstance(question, str) else dumps(question),
        [[answer.key, answer.description] for answer in record.field.answers],
        None if prompt is None else _json(prompt),
    ]


def _paired(lines: list[Line], others: list[Line]) -> list[Json]:
    """Pair the lines of two contexts in order; a line without a partner is a change."""
    shown: list[Json] = []
    for at in range(max(len(lines), len(others))):
        mine = lines[at] if at < len(lines) else None
        theirs = others[at] if at < len(others) else None
        if mine is not None and theirs is not None and mine.label == theirs.label:
            shown.append([mine.label, _json(marked(mine.text, theirs.text))])
            continue
        if mine is not None:
            shown.append([mine.label, [[mine.text, ""]]])
        if theirs is not None:
            shown.append([theirs.label, [["", theirs.text]]])
    return shown


def _json(parts: list[Part]) -> Json:
    return [part if isinstance(part, str) else list(part) for part in parts]


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


def contract_of(run: ExperimentRun) -> ChatContract | None:
    """Return the contract that rendered the prompts of a run.

    Args:
        run: the run.

    Returns:
        None if the run was not scored here (an import does not record its prompts), or if its
        contract is not one of this version.
    """
    recorded = run.provenance
    if recorded.source not in (None, "score") or recorded.contract is None:
        return None
    fingerprint = recorded.contract.fingerprint
    return NIMBLE if fingerprint == NIMBLE.fingerprint else None


NO_ORDERS: Final = "the run does not record the order of its letters"
"""Why a run with a known contract has no prompt."""


def missing_prompt(run: ExperimentRun) -> str | None:
    """Return the reason why the prompts of a run cannot be made again, if its contract is it.

    Args:
        run: the run.
    """
    recorded = run.provenance
    if recorded.source not in (None, "score"):
        return "the run is an import, and imports do not record their prompts"
    if recorded.contract is None or recorded.contract.fingerprint is None:
        return "the run does not record its prompt contract"
    if contract_of(run) is None:
        return "this version does not have the prompt contract of the run"
    return None


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
    return [
        None
        if tuple(order) == canonical
        else _change(before, user_message(contract, record, order))
        for order in orders
    ]


def _change(before: str, after: str) -> Json:
    start = common_prefix(before, after)
    end = common_prefix(before[start:][::-1], after[start:][::-1])
    middle = before[start : len(before) - end]
    first = _units(before[:start])
    return [first, first + _units(middle), after[start : len(after) - end]]


def _units(text: str) -> int:
    """Count the UTF-16 code units of a text; by encoding it, which is no loop in Python."""
    return len(text.encode("utf-16-le", errors="surrogatepass")) // 2
