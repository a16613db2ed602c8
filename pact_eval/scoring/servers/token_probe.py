"""Probes of a server that gets token ids: its tokenizer, and the effect of batches.

Ids of another tokenizer are still ids: the server would answer another prompt and never say so. And
a server computes several prompts at once: kernels for other sizes round differently, and caches may
hold what another kernel has computed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from pact_eval._json import Json
from pact_eval.prompts.contract import canonical_code_order
from pact_eval.scoring.servers.asking import AskedItem, Asker, ItemAnswer
from pact_eval.scoring.servers.client import Client
from pact_eval.scoring.servers.token_ids import TokenIdWire
from pact_eval.scoring.servers.wire import probabilities_of, total_variation


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


def probe_tokenizer(
    client: Client, wire: TokenIdWire, items: Sequence[AskedItem], model: str
) -> TokenizerProbe:
    """Compare the ids of the prompts of some items with those of the server's `/tokenize`.

    Args:
        client: asks the server.
        wire: makes the prompts.
        items: whose prompts are compared, in canonical order.
        model: name of the model.
    """
    encoder = wire.encoder
    compared = 0
    for item in items:
        order = canonical_code_order(item.field)
        text = encoder.text(item.state, item.field, order)
        body: dict[str, Json] = {"model": model, "prompt": text, "add_special_tokens": False}
        look = client.look("/tokenize", body)
        ids = look.value.get("tokens") if isinstance(look.value, dict) else None
        if look.status != 200 or not isinstance(ids, list):
            break
        compared += 1
        (view,) = encoder.encode_orders(item.state, item.field, [order])
        if ids != [*view.token_ids]:
            return TokenizerProbe(compared, same=False)
    return TokenizerProbe(compared, same=True)


def probe_batches(
    asker: Asker, items: Sequence[AskedItem], together: Mapping[str, ItemAnswer]
) -> BatchProbe | None:
    """Compare prompts that are asked alone with the same prompts in batches.

    Args:
        asker: asks for items.
        items: in several orders each.
        together: answers to them, all orders of an item in one request.

    Returns:
        The comparison; None if nothing was answered.
    """
    alone = asker.ask([replace(item, orders=item.orders[:1]) for item in items], alone=True)
    at_once = asker.ask(items)  # as in a run: several requests, each with several prompts
    distances = []
    for item, one, many in zip(items, alone, at_once, strict=True):
        batched = [many, together[item.record_id]]
        p = [probabilities_of(answer.views[0]) for answer in (one, *batched) if answer.views]
        distances += [total_variation(p[0], q) for q in p[1:]]
    return BatchProbe(max(distances), len(items)) if distances else None
