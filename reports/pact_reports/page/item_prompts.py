"""The prompts of items as they were scored: the messages of the contract, in every view.

A run records the name and the fingerprint of its prompt contract. If both are those of a contract
of this version, the record and the letter order of a view give the same messages again.
"""

from __future__ import annotations

from collections.abc import Sequence

from pact_eval._json import Json
from pact_eval.data import Record, common_prefix
from pact_eval.evaluation import ExperimentRun
from pact_eval.prompts import NIMBLE, ChatContract, canonical_code_order


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
    """Return what comes before the last message, which is the same for every item."""
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
