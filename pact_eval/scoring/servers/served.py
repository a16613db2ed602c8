"""Models that a server lists: `/v1/models`, and `/model_info` of SGLang."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pact_eval._json import Json
from pact_eval.scoring.servers.client import Client

Card = Mapping[str, Json]


@dataclass(frozen=True)
class ServedModels:
    """The models that a server lists.

    Attributes:
        cards: by name, the entry of `/v1/models`; empty without the page.
        info: the page `/model_info`; empty without it.
    """

    cards: Mapping[str, Card] = field(default_factory=dict)
    info: Card = field(default_factory=dict)

    @property
    def owner(self) -> str | None:
        """Stated owner of the models: servers give their own name, such as "vllm"."""
        owners = [_text(card.get("owned_by")) for card in self.cards.values()]
        return next(filter(None, owners), None)

    @property
    def base_names(self) -> tuple[str, ...]:
        """Names of models that are not adapters of another one."""
        served = _text(self.info.get("served_model_name"))
        listed = [name for name, card in self.cards.items() if not _text(card.get("parent"))]
        return tuple(dict.fromkeys([*listed, *([served] if served else [])]))

    def base_of(self, model: str) -> str | None:
        """Return the name of the base model if a model is listed as an adapter of it.

        Examples:
            >>> cards = {"base": {"root": "/models/b"}, "mine": {"parent": "base"}}
            >>> ServedModels(cards).base_of("mine"), ServedModels(cards).base_of("base")
            ('base', None)
        """
        parent = _text(self.cards.get(model, {}).get("parent"))
        return None if parent in (None, model) else parent

    def folder_of(self, model: str) -> str | None:
        """Return the folder or hub id of the base model's files, as the server has it.

        Examples:
            >>> cards = {"base": {"root": "/models/b"}, "mine": {"parent": "base"}}
            >>> ServedModels(cards).folder_of("mine")
            '/models/b'
        """
        for key in ("tokenizer_path", "model_path"):
            folder = _text(self.info.get(key))
            if folder is not None:
                return folder
        base = self.base_of(model) or model
        base = base if base in self.cards or not self.base_names else self.base_names[0]
        return _text(self.cards.get(base, {}).get("root"))


def read_cards(page: Json) -> dict[str, Card]:
    """Return the entries of a page `/v1/models` by name."""
    entries: list[Json] = []
    for key in ("data", "models"):
        listed = page.get(key) if isinstance(page, dict) else None
        entries += listed if isinstance(listed, list) else []
    return {
        str(entry.get("id", entry.get("name"))): entry
        for entry in entries
        if isinstance(entry, dict)
    }


def read_served(client: Client) -> ServedModels:
    """Ask a server for the models that it lists."""
    served = ServedModels(read_cards(client.get("/v1/models")))
    if served.owner != "sglang":
        return served
    info = client.get("/model_info")
    return ServedModels(served.cards, info if isinstance(info, dict) else {})


def _text(value: Json) -> str | None:
    return value if isinstance(value, str) and value else None
