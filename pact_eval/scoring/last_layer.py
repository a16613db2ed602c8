"""What no answer needs is left out of the last layer.

Every position of a prompt leaves keys and values in the last layer, but what that layer makes of
the position itself is read at answers alone: of a pass that something goes on from nothing is, of a
pass that ends prompts their last positions are. So its MLP and its output projection, which treat
every position by itself, run where something is read. That is most of a layer of the model for
nearly all tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor

__all__ = ["LastLayer"]


class LastLayer:
    """The parts of a decoder's last layer that treat every position by itself.

    Args:
        decoder: a model without its output head, adapter included.
        cached: layers of its cache; where the decoder has more, some read the keys of others.

    Attributes:
        known: whether the layer is one of attention and MLP, as in Llama, Qwen and Gemma; others
            run whole.
    """

    def __init__(self, decoder: Any, cached: int) -> None:
        layers = getattr(decoder, "layers", None)
        layer: Any = None if not layers or len(layers) != cached else layers[-1]
        mlp: Any = getattr(layer, "mlp", None)
        # Experts that are chosen by position return more than a tensor, or keep counts.
        self.known = all(hasattr(mlp, name) for name in ("gate_proj", "up_proj", "down_proj"))
        self._parts: list[tuple[Any, int]] = []
        if self.known:
            self._parts.append((mlp, mlp.down_proj.out_features))
            output: Any = getattr(getattr(layer, "self_attn", None), "o_proj", None)
            if output is not None:
                self._parts.append((output, output.out_features))

    @contextmanager
    def read_at(self, ends: Tensor | None) -> Iterator[None]:
        """Run the parts at some positions, with zeros elsewhere, and put things back.

        Args:
            ends: numbers of positions, row after row; None for nowhere.
        """
        with ExitStack() as stack:
            for part, width in self._parts:
                stack.enter_context(_replaced(part, _narrowed(part.forward, width, ends)))
            yield


def _narrowed(
    forward: Callable[[Tensor], Tensor], width: int, ends: Tensor | None
) -> Callable[[Tensor], Tensor]:
    def narrow(states: Tensor) -> Tensor:
        shape = torch.Size((*states.shape[:-1], width))
        if ends is None:
            return states.new_zeros(()).expand(shape)
        read = forward(states.reshape(-1, states.shape[-1])[ends])
        output = read.new_zeros((shape[:-1].numel(), width))
        output[ends] = read
        return output.view(shape)

    return narrow


@contextmanager
def _replaced(module: Any, forward: Callable[[Tensor], Tensor]) -> Iterator[None]:
    own = module.__dict__.get("forward")  # set by libraries that hook into modules
    module.forward = forward
    try:
        yield
    finally:
        if own is None:
            del module.forward
        else:
            module.forward = own
