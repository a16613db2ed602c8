"""The paper's settings, and the objects that they stand for: LoRA, LoRA+, schedule, NF4.

PEFT and transformers are imported only by the functions that need them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import wraps
from typing import TYPE_CHECKING, Any, Final, Literal, ParamSpec, TypeVar

import torch
from torch import nn
from torch.optim.lr_scheduler import LambdaLR

from pact_losses.batch import PairViews
from pact_losses.errors import PactLossError
from pact_losses.objective import PactWeights

if TYPE_CHECKING:
    from peft import PeftModel

Schedule = Literal["cosine", "linear"]

_P = ParamSpec("_P")
_R = TypeVar("_R")


@dataclass(frozen=True)
class PaperSettings:
    """The paper's table of hyper-parameters; the defaults are those of PACT.

    The table does not give the betas and epsilon of AdamW; PyTorch's defaults are used.

    Attributes:
        rank: rank of LoRA.
        alpha: alpha of LoRA.
        dropout: dropout of the LoRA input.
        rslora: scale by alpha/sqrt(rank) instead of alpha/rank.
        targets: modules of the language model with LoRA; `language_targets` leaves out those of
            other parts, such as a vision tower.
        learning_rate: peak learning rate of the A matrices.
        weight_decay: weight decay of AdamW.
        lora_plus_ratio: learning rate of the B matrices over that of the A matrices.
        schedule: decay of the learning rate to 0 after warm-up.
        warmup: share of the steps in which the rate rises.
        epochs: passes over the families.
        pairs_per_batch: families per forward pass.
        accumulation: forward passes per optimiser step.
        max_gradient_norm: gradients are clipped to this global norm.
        permuted_views: number of permuted views per member.
        ablated_view: whether the base has an ablated view.
        pair_views: views of a pair that the margin links; see `PactCollator`.
        unpaired_weight: weight of the views of unpaired records; 0 leaves them out.
        unpaired_permuted_views: permuted views of an unpaired record, for permutation consistency.
        weights: weights of the terms.
        margin: m, nats.
        epsilon: eps, nats.
        ramp: share of the steps over which the terms are ramped in.
        bucket: families that are sorted by length together.
        select_share: share of the steps between two evaluations of the selection split.
        max_prompt_tokens: a longer prompt is refused.
        evaluation_views: K.
        seeds: seeds of the main arms.

    Examples:
        >>> PACT_SETTINGS.pairs_per_step, PACT_SETTINGS.n_steps(1167)
        (4, 584)
        >>> PACT_SETTINGS.select_every(584)
        146
    """

    rank: int = 16
    alpha: int = 32
    dropout: float = 0.05
    rslora: bool = True
    targets: tuple[str, ...] = (
        "q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj",
    )  # fmt: skip
    learning_rate: float = 5e-5
    weight_decay: float = 0.0
    lora_plus_ratio: float = 8.0
    schedule: Schedule = "cosine"
    warmup: float = 0.1
    epochs: int = 2
    pairs_per_batch: int = 2
    accumulation: int = 2
    max_gradient_norm: float = 1.0
    permuted_views: int = 1
    ablated_view: bool = True
    pair_views: PairViews = "all"
    unpaired_weight: float = 0.3
    unpaired_permuted_views: int = 0
    weights: PactWeights = field(default_factory=PactWeights)
    margin: float = 2.0
    epsilon: float = 0.0
    ramp: float = 0.1
    bucket: int = 64
    select_share: float = 0.25
    max_prompt_tokens: int = 2048
    evaluation_views: int = 4
    seeds: tuple[int, ...] = (17, 18, 19)

    @property
    def pairs_per_step(self) -> int:
        """Families per optimiser step."""
        return self.pairs_per_batch * self.accumulation

    def n_steps(self, families: int) -> int:
        """Return the optimiser steps of a training on a number of families."""
        return self.epochs * math.ceil(families / self.pairs_per_step)

    def select_every(self, n_steps: int) -> int:
        """Return the steps between two evaluations of the selection split, rounded up.

        Rounded down, there would be an additional evaluation just before the last step.
        """
        return max(1, math.ceil(self.select_share * n_steps))


PACT_SETTINGS: Final = PaperSettings()
"""The settings of PACT."""

NIMBLE_RECIPE_SETTINGS: Final = replace(
    PACT_SETTINGS,
    epochs=1,
    schedule="linear",
    rslora=False,
    lora_plus_ratio=1.0,
    permuted_views=0,
    ablated_view=False,
    weights=PactWeights(cf=0.0, pc=0.0, nr=0.0, emd=0.0),
)
"""The settings of the published recipe: PACT's, with the differences that the paper lists."""


def _needs_model_extra(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Raise an error that names the extra to install if peft or transformers is missing."""

    @wraps(function)
    def checked(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        try:
            return function(*args, **kwargs)
        except ModuleNotFoundError as error:
            message = (
                f"{function.__name__} needs {error.name}, which is not installed; install the "
                "extra: pip install 'pact-eval[model]'"
            )
            raise ModuleNotFoundError(message, name=error.name) from error

    return checked


@_needs_model_extra
def lora_config(
    *,
    rank: int = PACT_SETTINGS.rank,
    alpha: int = PACT_SETTINGS.alpha,
    dropout: float = PACT_SETTINGS.dropout,
    rslora: bool = PACT_SETTINGS.rslora,
    targets: Sequence[str] = PACT_SETTINGS.targets,
) -> Any:
    """Return the `peft.LoraConfig` of the adapter, for `peft.get_peft_model`.

    Args:
        rank: r.
        alpha: alpha.
        dropout: dropout of the LoRA input during training.
        rslora: scale by alpha/sqrt(r) (8 at the defaults) instead of alpha/r (2).
        targets: names of the modules that are adapted.

    Raises:
        ModuleNotFoundError: peft is not installed.

    Examples:
        >>> config = lora_config()
        >>> config.r, config.lora_alpha, config.use_rslora
        (16, 32, True)
    """
    from peft import LoraConfig

    return LoraConfig(
        r=rank,
        lora_alpha=alpha,
        lora_dropout=dropout,
        use_rslora=rslora,
        target_modules=list(targets),
        bias="none",
        task_type="CAUSAL_LM",
    )


@_needs_model_extra
def lora_plus_optimizer(
    model: PeftModel,
    *,
    learning_rate: float = PACT_SETTINGS.learning_rate,
    ratio: float = PACT_SETTINGS.lora_plus_ratio,
    weight_decay: float = PACT_SETTINGS.weight_decay,
) -> torch.optim.Optimizer:
    """Return AdamW with a higher learning rate for the B matrices (LoRA+).

    Args:
        model: a PEFT model with LoRA.
        learning_rate: learning rate of the A matrices and of other trained weights.
        ratio: learning rate of the B matrices over `learning_rate`; 1 is plain LoRA.
        weight_decay: weight decay of all trained weights.

    Returns:
        The optimiser from PEFT; its first parameter group has the A matrices.

    Raises:
        ModuleNotFoundError: peft is not installed.
        PactLossError: the model has no trainable LoRA weights.

    Examples:
        >>> import peft, torch
        >>> base = torch.nn.Sequential(torch.nn.Linear(4, 4))
        >>> model = peft.get_peft_model(base, peft.LoraConfig(target_modules=["0"]))
        >>> optimizer = lora_plus_optimizer(model, learning_rate=1e-5, ratio=8)
        >>> sorted({group["lr"] for group in optimizer.param_groups if group["params"]})
        [1e-05, 8e-05]

    References:
        Hayou, Ghosh and Yu, "LoRA+: Efficient Low Rank Adaptation of Large Models", 2024.
    """
    from peft.optimizers import create_loraplus_optimizer

    if not any(
        "lora_" in name and parameter.requires_grad for name, parameter in model.named_parameters()
    ):
        raise PactLossError("expected a model with trainable LoRA weights (peft.get_peft_model)")
    optimizer: torch.optim.Optimizer = create_loraplus_optimizer(
        model,
        torch.optim.AdamW,
        lr=learning_rate,
        loraplus_lr_ratio=ratio,
        loraplus_weight_decay=weight_decay,
    )
    return optimizer


def language_targets(
    model: nn.Module, targets: Sequence[str] = PACT_SETTINGS.targets
) -> tuple[str, ...]:
    """Return the modules of the language part of a model that LoRA adapts, for `lora_config`.

    The names of `targets` also occur in the vision tower of a multimodal model, which PEFT would
    adapt as well.

    Args:
        model: the base model.
        targets: last parts of the names of the modules.

    Returns:
        Full names of the linear layers below a module `language_model`, in their order. If there is
        no such module, the model is a language model, and the result is `targets`.

    Raises:
        PactLossError: the language part has no such layer.

    Examples:
        >>> shell = torch.nn.ModuleDict({
        ...     part: torch.nn.ModuleDict({"q_proj": torch.nn.Linear(2, 2)})
        ...     for part in ("visual", "language_model")})
        >>> language_targets(shell)
        ('language_model.q_proj',)
        >>> language_targets(shell["language_model"], ["q_proj"])
        ('q_proj',)
    """
    inside = {
        name: module
        for name, module in model.named_modules()
        if "language_model" in name.split(".")
    }
    if not inside:
        return tuple(targets)
    names = tuple(
        name
        for name, module in inside.items()
        if isinstance(module, nn.Linear) and name.rpartition(".")[2] in targets
    )
    if not names:
        message = f"expected linear layers {', '.join(targets)} in the language part, found none"
        raise PactLossError(message)
    return names


def learning_rate_schedule(
    optimizer: torch.optim.Optimizer,
    schedule: Schedule = PACT_SETTINGS.schedule,
    *,
    n_steps: int,
    warmup: float = PACT_SETTINGS.warmup,
) -> LambdaLR:
    """Return the schedule of the released code: linear warm-up, then down to 0 after the last step.

    Of w warm-up steps, step s (from 0) has the share (s + 1) / w of the rate, so that no step has
    rate 0.

    Args:
        optimizer: the optimiser; ratios between its parameter groups are kept.
        schedule: shape of the decay.
        n_steps: optimiser steps of the training.
        warmup: share of the steps that warm up, rounded down as in the released code.

    Raises:
        PactLossError: no steps, a share outside [0, 1], or another schedule.

    Examples:
        >>> weight = torch.nn.Parameter(torch.zeros(1))
        >>> optimizer = torch.optim.AdamW([weight], lr=1.0)
        >>> rates, steps = [], learning_rate_schedule(optimizer, "linear", n_steps=10, warmup=0.2)
        >>> for _ in range(10):
        ...     rates.append(round(steps.get_last_lr()[0], 3))
        ...     optimizer.step()
        ...     steps.step()
        >>> rates
        [0.5, 1.0, 1.0, 0.875, 0.75, 0.625, 0.5, 0.375, 0.25, 0.125]
    """
    if n_steps < 1 or not 0.0 <= warmup <= 1.0 or schedule not in _DECAYS:
        raise PactLossError(
            "expected n_steps of 1 or more, warmup from 0 to 1 and one of "
            f"{', '.join(_DECAYS)}; got {n_steps}, {warmup} and {schedule}"
        )
    rising = int(warmup * n_steps)
    falling = max(1, n_steps - rising)

    def share(step: int) -> float:
        if step < rising:
            return (step + 1) / rising
        return _DECAYS[schedule](min(1.0, (step - rising) / falling))

    return LambdaLR(optimizer, share)


_DECAYS: Final[dict[str, Callable[[float], float]]] = {
    "cosine": lambda done: 0.5 * (1.0 + math.cos(math.pi * done)),
    "linear": lambda done: 1.0 - done,
}
"""Share of the rate, by the share of the decay that is done."""


@_needs_model_extra
def nf4_config() -> Any:
    """Return the 4-bit configuration for cards of 24 GB: NF4, double quantisation, bf16 arithmetic.

    Use it with `from_pretrained(..., quantization_config=nf4_config())`, which needs bitsandbytes
    and a GPU. Call `peft.prepare_model_for_kbit_training` before you add LoRA. The output head is
    not quantised. The paper reports 4-bit and bf16 results separately, because quantisation changes
    logits.

    Raises:
        ModuleNotFoundError: transformers is not installed.

    Examples:
        >>> config = nf4_config()
        >>> config.bnb_4bit_quant_type, config.bnb_4bit_use_double_quant
        ('nf4', True)
    """
    from transformers import BitsAndBytesConfig

    make: Callable[..., Any] = BitsAndBytesConfig
    return make(
        load_in_4bit=True,
        bnb_4bit_quant_type="nf4",
        bnb_4bit_use_double_quant=True,
        bnb_4bit_compute_dtype=torch.bfloat16,
    )
