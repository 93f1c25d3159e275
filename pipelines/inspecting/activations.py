"""What a forward pass keeps for the backward pass, counted on the meta device."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import Any
from unittest.mock import patch

from data.errors import SettingError
from pipelines.inspecting.found import found_torch
from pipelines.inspecting.meta import on_meta, storage_key

LOOK_UPS = ("aten::embedding", "aten::_embedding_bag", "aten::index_select", "aten::index")


@dataclass(frozen=True, slots=True)
class Activations:
    """What one forward pass keeps.

    Attributes
    ----------
    total_bytes, largest_bytes : int
        Of the whole batch: all that is kept, and its largest tensor.
    multiply_adds : int
        Of matrix products and convolutions, of the whole batch.
    looked_up : frozenset of int
        Storage keys of tensors whose rows were looked up.
    """

    total_bytes: int
    largest_bytes: int
    multiply_adds: int
    looked_up: frozenset[int]


def read_activations(model: Any, inputs: object) -> Activations:
    """Return what the forward pass of `model` keeps for `inputs`.

    Parameters
    ----------
    model : torch.nn.Module
        On the meta device, in training mode.
    inputs : tensor, tuple, list or dict
        A tensor is the only argument, tuple and list are positional ones, a dict named ones.

    Raises
    ------
    SettingError
        If the forward pass cannot run without data: what it computes depends on values.

    Notes
    -----
    What autograd saves, each storage once, parameters and buffers apart: they are there anyway.
    The gradients in flight during the backward pass come on top.
    """
    torch = found_torch()
    saved: dict[int, Any] = {}
    own = {storage_key(tensor) for tensor in [*model.parameters(), *model.buffers()]}

    def pack(tensor: Any) -> Any:
        saved[storage_key(tensor)] = tensor  # kept, so that no other storage gets its key
        return tensor

    seen: dict[int, Any] = {}
    args, named = _arguments(inputs)
    hooks = torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor)
    counter = import_module("torch.utils.flop_counter").FlopCounterMode(display=False)
    with on_meta("forward"), counter, _look_ups(torch, seen), _as_on_gpus(torch), hooks:
        output = model(*args, **named)
    sizes = [int(t.untyped_storage().nbytes()) for key, t in saved.items() if key not in own]
    del output
    products = int(counter.get_total_flops()) // 2  # it counts both operations
    return Activations(sum(sizes), max(sizes, default=0), products, frozenset(seen))


def _arguments(inputs: object) -> tuple[tuple[object, ...], Mapping[str, object]]:
    if isinstance(inputs, Mapping):
        return (), inputs
    if isinstance(inputs, tuple | list):
        return tuple(inputs), {}
    if not isinstance(inputs, found_torch().Tensor):
        found = type(inputs).__name__
        raise SettingError(f"found inputs of type {found}, wanted a tensor, a tuple or a dict")
    return (inputs,), {}


@contextmanager
def _as_on_gpus(torch: Any) -> Iterator[None]:
    """Let dropout keep a mask of bytes and attention no square, as their GPU kernels do."""
    functional = torch.nn.functional
    plain_dropout, plain_attention = functional.dropout, functional.scaled_dot_product_attention

    def dropout(input: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Any:  # noqa: A002 - torch's own names and order
        if training and 0 < p < 1:
            return torch.native_dropout(input, p, training)[0]
        return plain_dropout(input, p, training, inplace)

    def attention(query: Any, key: Any, value: Any, *args: Any, **kwargs: Any) -> Any:
        named = {**dict(zip(("attn_mask", "dropout_p", "is_causal"), args, strict=False)), **kwargs}
        if query.dim() != 4 or named.pop("enable_gqa", False):
            return plain_attention(query, key, value, *args, **kwargs)
        named.pop("dropout_p", None)  # drawn again in the backward pass
        fused = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
        return fused(query, key, value, **named)[0]

    with (
        patch.object(functional, "dropout", dropout),
        patch.object(functional, "scaled_dot_product_attention", attention),
    ):
        yield


def _look_ups(torch: Any, seen: dict[int, Any]) -> Any:
    class LookUps(torch.utils._python_dispatch.TorchDispatchMode):  # type: ignore[misc]
        """Notes the tensors whose rows are looked up."""

        def __torch_dispatch__(
            self,
            operation: Callable[..., object],
            types: object,
            args: tuple[Any, ...] = (),
            kwargs: dict[str, object] | None = None,
        ) -> object:
            del types
            if operation._schema.name in LOOK_UPS:  # type: ignore[attr-defined] # torch's own
                seen[storage_key(args[0])] = args[0]
            return operation(*args, **(kwargs or {}))

    return LookUps()
