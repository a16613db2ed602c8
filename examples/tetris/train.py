"""Training: cross-entropy on the search's choice, then single-step REINFORCE on its values.

Several games run side by side (32), and every update takes one move of each. Prompts come from the
`Encoder` that scoring uses, with the letters in a random order. A reward is the two-ply value in
standard deviations of the values of its state, so that one learning rate fits all boards.

A training has one phase or two. Each begins anew, with its own games, optimiser and learning rate,
on the adapter that the phase before has saved. So two phases in one command are the same as two
commands, of which the second starts from the adapter of the first.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from peft import PeftModel, get_peft_model

from pact_eval._json import loads
from pact_eval.progress import tracked
from pact_eval.prompts.encoding import Encoder
from pact_eval.prompts.nimble import NIMBLE
from pact_eval.training import save_adapter
from pact_fixtures.training.model import load_base
from pact_losses import (
    PactCollator,
    candidate_logits,
    cross_entropy,
    lora_config,
    lora_plus_optimizer,
    policy_gradient,
    to_canonical,
)
from tetris.decisions import Candidates, candidates
from tetris.game import Source, new_game, pieces
from tetris.model_policy import decision_view
from tetris.search import Search, search
from tetris.trained import arm_of

Objective = Literal["cross-entropy", "reinforce"]


@dataclass(frozen=True)
class Settings:
    """Settings of a training.

    Attributes:
        imitation: updates by cross-entropy on the search's choice, before REINFORCE.
        updates: updates by REINFORCE.
        moves: moves per update, one in each of as many games.
        candidates: placements per decision.
        imitation_learning_rate: of the A matrices of LoRA, by cross-entropy.
        learning_rate: the same by REINFORCE.
        lora_plus_ratio: learning rate of the B matrices over it.
        entropy_weight: weight of the entropy bonus.
        max_gradient_norm: gradients are clipped to this norm.
        save_every: updates between checkpoints.
        source: how pieces are drawn.
        seed: of the adapter, the pieces, the letter orders and the sampled moves.
    """

    imitation: int = 0
    updates: int = 200
    moves: int = 32
    candidates: int = 8
    imitation_learning_rate: float = 5e-4
    learning_rate: float = 1e-4
    lora_plus_ratio: float = 4.0
    entropy_weight: float = 0.01
    max_gradient_norm: float = 1.0
    save_every: int = 50
    source: Source = "bag"
    seed: int = 17

    @classmethod
    def from_json(cls, text: str, options: Mapping[str, object]) -> Settings:
        """Return settings from a JSON object, and from options where it says nothing.

        Args:
            text: a JSON object.
            options: further values by name.

        Raises:
            ValueError: it is not a JSON object, a name or a type is not that of a setting, or no
                update is left.

        Examples:
            >>> Settings.from_json('{"imitation": 300}', {"updates": 0}).phases[0].updates
            300
        """
        stated = loads(text)
        if not isinstance(stated, dict):
            message = f"expected settings as a JSON object, got {text}"
            raise ValueError(message)
        names = [field.name for field in fields(cls)]
        for name, value in stated.items():
            if name not in names:
                message = f"unknown setting {name}; expected {', '.join(names)}"
                raise ValueError(message)
            kind = type(getattr(cls, name))
            if type(value) is not kind and not (kind is float and type(value) is int):
                message = f"expected {name} as {kind.__name__}, got {value!r}"
                raise ValueError(message)
        settings = cls(**{**options, **stated})  # type: ignore[arg-type]
        if not settings.phases:
            message = "expected imitation or updates of at least 1"
            raise ValueError(message)
        return settings

    @property
    def phases(self) -> list[Phase]:
        """The phases of the training in order; those without updates are left out."""
        phases = (
            Phase("imitation", "cross-entropy", self.imitation, self.imitation_learning_rate),
            Phase("reinforce", "reinforce", self.updates, self.learning_rate),
        )
        return [phase for phase in phases if phase.updates > 0]


@dataclass(frozen=True)
class Phase:
    """Consecutive updates with one objective.

    Attributes:
        name: as the arm has it.
        objective: the objective.
        updates: number of updates.
        learning_rate: of the A matrices of LoRA.
    """

    name: str
    objective: Objective
    updates: int
    learning_rate: float


class Trainer:
    """A LoRA adapter of a base model, and the games that it is trained on in one phase.

    Args:
        base: folder of the base model.
        settings: how to train.
        phase: the phase.
        start: adapter to start from; None for a new one.
    """

    def __init__(
        self, base: Path, settings: Settings, phase: Phase, start: Path | None = None
    ) -> None:
        torch.manual_seed(settings.seed)
        self.how = settings
        self.base = base
        self.arm = phase.name if start is None else f"{arm_of(start)}-then-{phase.name}"
        model, self.tokenizer = load_base(base)
        model.set_attn_implementation("eager")
        self.model: Any = (
            get_peft_model(model, lora_config(dropout=0.0))
            if start is None
            else PeftModel.from_pretrained(model, str(start), is_trainable=True)
        )
        self.model.train()
        self.encoder = Encoder(self.tokenizer, NIMBLE)
        self.optimizer = lora_plus_optimizer(
            self.model,
            learning_rate=phase.learning_rate,
            ratio=settings.lora_plus_ratio,
        )
        self.rng = np.random.default_rng((settings.seed, 1))
        self.sequences: list[Iterator[str]] = [
            pieces(settings.source, rng=np.random.default_rng((settings.seed, 2, game)))
            for game in range(settings.moves)
        ]
        self.games = [new_game(sequence) for sequence in self.sequences]

    def update(self, objective: Objective) -> dict[str, float]:
        """Make one update and play one move in every game; return what to log.

        REINFORCE plays the sampled moves. Cross-entropy plays the search's choice, and in a fifth
        of the games a random candidate, so that boards are not only those of a perfect player.
        """
        decisions = [self._decision(number) for number in range(self.how.moves)]
        logits = self._logits(decisions)
        reference = torch.tensor([kept.best for _, kept in decisions])
        scores = torch.full(logits.shape, torch.nan)
        for row, (_, kept) in enumerate(decisions):
            spread = kept.values.std() or 1.0
            scores[row, : len(kept.rows)] = torch.tensor(
                (kept.values - kept.values.mean()) / spread
            )
        drawn = torch.distributions.Categorical(logits=logits.detach())
        sampled = drawn.sample()  # type: ignore[no-untyped-call]
        outcome = policy_gradient(logits, scores, sampled, entropy_weight=self.how.entropy_weight)
        ce = cross_entropy(logits, reference).mean()
        loss = ce if objective == "cross-entropy" else outcome.loss.mean()
        loss.backward()  # type: ignore[no-untyped-call]
        weights = [weight for weight in self.model.parameters() if weight.requires_grad]
        norm = torch.nn.utils.clip_grad_norm_(weights, self.how.max_gradient_norm)
        self.optimizer.step()
        self.optimizer.zero_grad()
        chosen = sampled.numpy() if objective == "reinforce" else self._explored(decisions)
        self._play(decisions, chosen)
        hits = [
            _is_top(kept, int(pick)) for (_, kept), pick in zip(decisions, sampled, strict=True)
        ]
        greedy = [
            _is_top(kept, int(pick))
            for (_, kept), pick in zip(decisions, logits.argmax(-1), strict=True)
        ]
        return {
            "ce": float(ce.detach()),
            "total": float(loss.detach()),
            "entropy_nats": float(outcome.entropy.detach().mean()),
            "advantage": float(outcome.advantage.mean()),
            "top_pick_rate": float(np.mean(hits)),
            "greedy_top_pick_rate": float(np.mean(greedy)),
            "gradient_norm": float(norm),
        }

    def save(self, folder: Path) -> None:
        """Save the adapter for `pact-eval score`."""
        save_adapter(
            self.model,
            folder,
            base=self.base,
            tokenizer=self.tokenizer,
            arm=self.arm,
            seed=self.how.seed,
            data={},  # no dataset: it learns from games that it plays
        )

    def _decision(self, number: int) -> tuple[Search, Candidates]:
        while True:
            if not self.games[number].over:
                result = search(self.games[number])
                kept = candidates(result, self.how.candidates)
                if len(kept.rows) > 1:
                    return result, kept
            self.games[number] = new_game(self.sequences[number])

    def _logits(self, decisions: list[tuple[Search, Candidates]]) -> torch.Tensor:
        """Return canonical logits of one decision per game, shape (moves, C)."""
        views = [
            decision_view(
                self.encoder,
                self.games[number],
                result,
                kept,
                tuple(self.rng.permutation(len(kept.rows)).tolist()),
                f"game-{number}",
            )
            for number, (result, kept) in enumerate(decisions)
        ]
        batch = PactCollator(0, require_pairs=False)(views)
        with torch.autocast("cpu", torch.bfloat16):
            logits = candidate_logits(self.model, batch)
        return to_canonical(logits, batch.code_order)

    def _explored(self, decisions: list[tuple[Search, Candidates]]) -> list[int]:
        return [
            int(self.rng.integers(len(kept.rows))) if self.rng.random() < 0.2 else kept.best
            for _, kept in decisions
        ]

    def _play(self, decisions: list[tuple[Search, Candidates]], chosen: Any) -> None:
        for number, ((result, kept), pick) in enumerate(zip(decisions, chosen, strict=True)):
            row = int(kept.rows[int(pick)])
            following = next(self.sequences[number])
            self.games[number] = self.games[number].play(
                result.boards[row], int(result.cleared[row]), following
            )


def train(base: Path, out: Path, settings: Settings, start: Path | None = None) -> None:
    """Train an adapter and save it with its checkpoints.

    Writes the adapter, `log.jsonl` (one line per update, for `pact-eval paper`), checkpoints in
    `checkpoints/`, and `training.json` with the settings, wall and CPU time.

    Args:
        base: folder of the base model.
        out: folder of the adapter.
        settings: how to train.
        start: adapter to start from; None for a new one.
    """
    wall, cpu = time.monotonic(), time.process_time()
    out.mkdir(parents=True, exist_ok=True)
    step = 0
    with (out / "log.jsonl").open("w", buffering=1, encoding="utf-8", newline="\n") as log:
        for phase in settings.phases:
            trainer = Trainer(base, settings, phase, start)
            for left in tracked(range(phase.updates - 1, -1, -1), "Training", "updates"):
                step += 1
                facts = trainer.update(phase.objective)
                log.write(json.dumps({"step": step} | facts) + "\n")
                if step % settings.save_every == 0 or left == 0:
                    trainer.save(out / "checkpoints" / f"{step:05d}")
            start = out / "checkpoints" / f"{step:05d}"
    trainer.save(out)
    card = (
        {"arm": trainer.arm}
        | asdict(settings)
        | {
            "wall_minutes": round((time.monotonic() - wall) / 60, 2),
            "cpu_minutes": round((time.process_time() - cpu) / 60, 2),
        }
    )
    (out / "training.json").write_text(json.dumps(card, indent=2) + "\n", "utf-8", newline="\n")


def _is_top(kept: Candidates, pick: int) -> bool:
    """Whether a candidate has the highest value, shared or not."""
    return bool(kept.values[pick] >= kept.values[kept.best] - 1e-9)
