"""A policy that asks a model: the most probable candidate of one prompt, in canonical letter order.

Prompts come from the `Encoder` with which the adapter was trained and `pact-eval score` scores it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from peft import PeftModel

from pact_eval.prompts.encoding import Encoder
from pact_eval.prompts.nimble import NIMBLE
from pact_fixtures.training.model import load_base
from pact_losses import PactCollator, TrainingView, candidate_logits, to_canonical
from tetris.decisions import Candidates, record
from tetris.game import Game
from tetris.search import Search


def decision_view(
    encoder: Encoder,
    game: Game,
    result: Search,
    kept: Candidates,
    order: tuple[int, ...],
    name: str = "move",
) -> TrainingView:
    """Encode a decision as one prompt, for playing and for training.

    Args:
        encoder: of the prompts.
        game: the position.
        result: its search.
        kept: its C candidates.
        order: shape (C,); the candidate behind each letter.
        name: of the decision in its batch.
    """
    position_record = record(game, result, kept, name=name)
    (view,) = encoder.encode_orders(position_record.state, position_record.field, [order])
    return TrainingView(
        record_id=position_record.id,
        family=position_record.family,
        variant="base",
        view=0,
        kind="choice",
        token_ids=view.token_ids,
        code_tokens=view.code_tokens,
        code_order=view.code_order,
        reference=kept.best,
    )


class ModelPolicy:
    """A base model, with or without an adapter.

    Args:
        base: folder of the base model.
        adapter: folder of the adapter; None plays the base model alone.
    """

    def __init__(self, base: Path, adapter: Path | None = None) -> None:
        model, tokenizer = load_base(base)
        model.set_attn_implementation("eager")
        # Merged: a game takes hundreds of passes, and the adapter's own layers half of their time.
        self.model: Any = (
            model
            if adapter is None
            else PeftModel.from_pretrained(model, str(adapter)).merge_and_unload()
        )
        self.model.eval()
        self.encoder = Encoder(tokenizer, NIMBLE)

    def probabilities(self, game: Game, result: Search, kept: Candidates) -> NDArray[np.float64]:
        """Return the probability of each candidate, shape (C,), from one forward pass."""
        order = tuple(range(len(kept.rows)))
        row = decision_view(self.encoder, game, result, kept, order)
        batch = PactCollator(0, require_pairs=False)([row])
        with torch.inference_mode():
            logits = to_canonical(candidate_logits(self.model, batch), batch.code_order)
        probabilities: NDArray[np.float64] = torch.softmax(logits[0].double(), -1).numpy()
        return probabilities

    def __call__(
        self, game: Game, result: Search, kept: Candidates, _rng: np.random.Generator
    ) -> int:
        """Return the row of the search that the most probable candidate stands for."""
        if len(kept.rows) == 1:
            return int(kept.rows[0])
        return int(kept.rows[self.probabilities(game, result, kept).argmax()])
