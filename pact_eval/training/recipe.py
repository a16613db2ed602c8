"""A training with a built-in recipe, on any causal language model of transformers.

    OUT/adapter_model.safetensors, ...    the checkpoint with the lowest NLL on the selection split
    OUT/log.jsonl                         one line per step: total, terms, mean d, rate, NLL, ...
    OUT/training.json                     settings, selected step, time, peak memory
    OUT/checkpoint.pt                     until the training ends

The same call continues a training that was killed.
"""

from __future__ import annotations

import hashlib
import json
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO, Final

import torch

from pact_eval._files import read_json, sha256_of_file, writing
from pact_eval._json import Json
from pact_eval.errors import InputError
from pact_eval.models import ADAPTER_WEIGHTS
from pact_eval.runs.folder import library_versions
from pact_eval.runs.training_log import LOG_NAME, SELECTED_STEP, SELECTION_MASS, SELECTION_NLL
from pact_eval.training.recipe_data import Log, RecipeData, RecipeFiles, recipe_data
from pact_eval.training.recipe_model import (
    Checkpoints,
    LoraTraining,
    Progress,
    RecipeBase,
    RecipeSettings,
    find_base,
    interruptions,
    load_lora_training,
    peak_memory_bytes,
    recipe_settings,
    reset_peak_memory,
    save_adapter,
    settings_identity,
    write_json,
)
from pact_eval.training.recipes import CARD
from pact_losses import (
    BestCheckpoint,
    PactLoss,
    SelectionScore,
    pact_step,
    pact_steps,
    selection_score,
)
from pact_losses.steps import StepBatches

_IDENTITY: Final = "training_sha256"
_SILENT_SECONDS: Final = 60.0
"""A step after so long without a line has one."""


@dataclass(frozen=True)
class RecipeTraining:
    """Request for a training: all that decides its weights.

    Attributes:
        recipe: one of `RECIPES`.
        settings: keys of `set` with their values, which take the place of those of the recipe.
        arm: name of the arm, for reports.
        seed: seed of weights, letter orders and batches.
        base: base model: folder, hub id, or hub id with @revision.
        files: the data.
        dtype: precision of the base's weights, as `score --dtype` has it. With the setting
            `precision = "float32"`, they are float32 whatever it says.
        device: device that trains, as `score --device` has it.
    """

    recipe: str
    settings: Mapping[str, object]
    arm: str
    seed: int
    base: str
    files: RecipeFiles
    dtype: str = "auto"
    device: str = "auto"


class TrainingInterruptedError(InputError):
    """SIGTERM or Ctrl-C ended a training; its checkpoint is saved.

    Attributes:
        signal: number of the signal.
    """

    def __init__(self, message: str, signal: int) -> None:
        super().__init__(message)
        self.signal = signal


def train_recipe(training: RecipeTraining, out: Path, *, log: Log = lambda _line: None) -> None:
    """Train with a recipe and save the best checkpoint as an adapter, or continue.

    Args:
        training: what to train.
        out: folder of the adapter. A finished training is not repeated; one that was killed
            continues from its last checkpoint, and ends with the same weights.
        log: called with lines of text.

    Raises:
        InputError: a setting is not valid, a file cannot be read, or the folder has a checkpoint or
            an adapter of another training.
        RecordError: a line of a file is not a record, or a family cannot be used.
        AdapterError: the base cannot be loaded, or has none of the layers that LoRA adapts.
        PromptError: a prompt is over the limit, or the tokenizer cannot render the contract.
        TrainingInterruptedError: SIGTERM or Ctrl-C came; the checkpoint is saved.

    Examples:
        >>> train, few = Path("data/train.jsonl"), Path("few.jsonl")
        >>> _ = few.write_text("".join(train.read_text().splitlines(keepends=True)[:4]))
        >>> files = RecipeFiles(train, selection=few)
        >>> settings = {"train_families": 2, "epochs": 1, "accumulation": 1}
        >>> training = RecipeTraining("pact", settings, "mine", 17, "model", files, device="cpu")
        >>> train_recipe(training, Path("trained"), log=print)  # doctest: +ELLIPSIS
        step 1/1: selection NLL ... nats, answer mass ...%
    """
    settings = recipe_settings(training.recipe, training.settings)
    if settings.paper.unpaired_weight == 0:  # then no unpaired record is used
        training = replace(training, files=replace(training.files, unpaired=None))
    base = find_base(training.base, training.device, training.dtype, settings)
    checkpoints = Checkpoints(out, _identity(training, settings, base))
    if _is_finished(checkpoints):
        checkpoints.remove()
        log(f"{out}: this training is finished")
        return
    reset_peak_memory(base.device)
    data = recipe_data(training.files, settings, training.seed, base.encoder)
    n_steps = settings.paper.n_steps(data.units)
    model = load_lora_training(base, settings, seed=training.seed, n_steps=n_steps)
    with writing(out):
        out.mkdir(parents=True, exist_ok=True)
    loop = _Loop(training, settings, data, model, checkpoints, n_steps, log)
    progress = loop.run()
    _save(loop, progress, base, out)
    checkpoints.remove()


def _identity(training: RecipeTraining, settings: RecipeSettings, base: RecipeBase) -> str:
    """Return the SHA-256 of what decides the weights, the training record and the arm's name."""
    facts: dict[str, Any] = {
        "settings": settings_identity(settings),
        "arm": training.arm,
        "seed": training.seed,
        "base": base.model.sha256,
        "prompts": base.encoder.fingerprint,
        "device": base.device.type,
        "dtype": str(base.dtype),
        "files": {role: sha256_of_file(path) for role, path in training.files.by_role.items()},
        "versions": library_versions(quantised=settings.quantize is not None),
    }
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()


def _is_finished(checkpoints: Checkpoints) -> bool:
    """Return whether the folder has the finished adapter of this training.

    Raises:
        InputError: it has that of another one.
    """
    card = checkpoints.folder / CARD
    if not (card.exists() and (checkpoints.folder / ADAPTER_WEIGHTS).exists()):
        return False
    value = read_json(card)
    if isinstance(value, dict) and value.get(_IDENTITY) == checkpoints.identity:
        return True
    message = f"{checkpoints.folder}: has the adapter of another training; give another folder"
    raise InputError(message)


@dataclass
class _Loop:
    """The steps of one training."""

    training: RecipeTraining
    settings: RecipeSettings
    data: RecipeData
    model: LoraTraining
    checkpoints: Checkpoints
    n_steps: int
    log: Log

    def run(self) -> Progress:
        """Train to the last step."""
        progress = self.checkpoints.load(self.model, self.log)
        path = self.checkpoints.folder / LOG_NAME
        if path.exists() and path.stat().st_size < progress.log_bytes:
            message = f"{path}: shorter than at the last checkpoint; remove {self.checkpoints.path}"
            raise InputError(message)
        with writing(path):
            file = path.open("ab")
        with file, interruptions() as interrupted:
            file.truncate(progress.log_bytes)
            self._steps(progress, file, interrupted)
        return progress

    def _steps(
        self, progress: Progress, file: BinaryIO, interrupted: Callable[[], int | None]
    ) -> None:
        paper = self.settings.paper
        loss = PactLoss(paper.weights, paper.margin, paper.epsilon, paper.ramp)
        progress.best.least_answer_mass = self.settings.least_answer_mass
        every = paper.select_every(self.n_steps)
        steps = pact_steps(
            self.data.pact,
            self.n_steps,
            seed=self.training.seed,
            first=progress.step,
            families_per_batch=paper.pairs_per_batch,
            accumulation=paper.accumulation,
        )
        began = time.monotonic() - progress.seconds
        saved = said = time.monotonic()
        for step in steps:
            facts = self._step(step, loss)
            progress.step = step.number + 1
            if progress.step % every == 0 or progress.step == self.n_steps:
                score = selection_score(self.model.model, self.data.selection)
                facts |= _offered(progress.best, self.model.model, progress.step, score)
                words = _in_words(score, progress.best)
                self.log(f"step {progress.step}/{self.n_steps}: selection {words}")
                said = time.monotonic()
            elif time.monotonic() - said >= _SILENT_SECONDS:
                self.log(f"step {progress.step}/{self.n_steps}: loss {facts['total']:.4f}")
                said = time.monotonic()
            with writing(self.checkpoints.folder / LOG_NAME):
                file.write(f"{json.dumps(facts)}\n".encode())
                file.flush()
            now, signal = time.monotonic(), interrupted()
            progress.seconds, progress.log_bytes = now - began, file.tell()
            if signal is not None or now - saved >= self.settings.checkpoint_seconds:
                self.checkpoints.save(self.model, progress)
                saved = time.monotonic()
            if signal is not None:
                message = f"interrupted after step {progress.step}; the same command continues"
                raise TrainingInterruptedError(message, signal)

    def _step(self, step: StepBatches, loss: PactLoss) -> dict[str, float]:
        """Make one optimiser step, and return what to log."""
        model = self.model
        means = pact_step(model.model, step, loss, code_logits=model.code_logits)
        norm = torch.nn.utils.clip_grad_norm_(model.weights, self.settings.paper.max_gradient_norm)
        rate = float(model.schedule.get_last_lr()[0])
        model.optimizer.step()
        model.schedule.step()
        facts: dict[str, float] = {"total": means.loss, **means.terms, **means.diagnostics}
        facts |= {"ramp": float(loss.ramp_at(step.progress)), "gradient_norm": float(norm)}
        # A term of weight 0 may have no finite value; the log has none then.
        rounded = {name: round(value, 6) for name, value in facts.items() if math.isfinite(value)}
        return {
            "step": step.number + 1,
            "steps": self.n_steps,
            **rounded,
            "learning_rate": float(rate),
        }


def _offered(
    best: BestCheckpoint, model: Any, step: int, score: SelectionScore
) -> dict[str, float]:
    """Offer a checkpoint, and return what to log; a mass that is not finite is left out."""
    best.offer(model, step, score.nll, score.answer_mass)
    facts = {SELECTION_NLL: score.nll, SELECTION_MASS: score.answer_mass}
    finite = {name: value for name, value in facts.items() if math.isfinite(value)}
    return {**finite, SELECTED_STEP: best.step or 0}


def _in_words(score: SelectionScore, best: BestCheckpoint) -> str:
    """Write a score; that of a checkpoint with too little answer mass says so."""
    least = best.least_answer_mass
    low = f", below {least:.0%}: NOT SELECTED" if score.answer_mass < least else ""
    if low and best.has_low_mass:
        low = f", BELOW {least:.0%}"
    return f"NLL {score.nll:.4f} nats, answer mass {score.answer_mass:.2%}{low}"


def _save(loop: _Loop, progress: Progress, base: RecipeBase, out: Path) -> None:
    """Save the best checkpoint as an adapter, and the card of the training last."""
    data, best, model = loop.data, progress.best, loop.model.model
    facts: dict[str, Json] = {
        "steps": loop.n_steps,
        "wall_seconds": round(progress.seconds, 1),
        "views_per_pair": data.views_per_pair,
        "views_sha256": data.views_sha256,
    }
    if best.has_low_mass:
        loop.log(
            f"CAUTION: no checkpoint has an answer mass of {best.least_answer_mass:.0%}; saved the "
            f"one with the lowest NLL, step {best.step} ({best.answer_mass:.2%}). The model rarely "
            "says a letter: add --set answer_mass=1"
        )
    best.restore(model)
    save_adapter(
        model,
        out,
        base=base.place,
        revision=base.model.revision,
        arm=loop.training.arm,
        seed=loop.training.seed,
        tokenizer=base.encoder.tokenizer,
        max_prompt_tokens=base.encoder.max_prompt_tokens,
        data=data.used,
        training={**facts, "selected_step": best.step},
    )
    card: dict[str, Json] = {
        "recipe": loop.training.recipe,
        "arm": loop.training.arm,
        "seed": loop.training.seed,
        "settings": loop.settings.to_json(),
        SELECTED_STEP: best.step,
        SELECTION_NLL: best.nll,
        SELECTION_MASS: best.answer_mass if math.isfinite(best.answer_mass) else None,
        "low_answer_mass_steps": [step for step, _ in best.low_mass],
        **facts,
        "train_families": data.families,
        "views": len(data.pact.train),
        "seconds_per_step": round(progress.seconds / loop.n_steps, 4),
        "peak_memory_bytes": peak_memory_bytes(loop.model.device),
        _IDENTITY: loop.checkpoints.identity,
    }
    write_json(out / CARD, card)
