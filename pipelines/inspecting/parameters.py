"""Embedding tables, dense weights and depth of a model on the meta device."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from pipelines.inspecting.found import found_torch
from pipelines.inspecting.meta import storage_key

PRECISIONS = {"float64": "fp64", "float32": "fp32", "float16": "fp16", "bfloat16": "bf16"}


@dataclass(frozen=True, slots=True)
class EmbeddingTable:
    """One table of rows that are looked up.

    Attributes
    ----------
    name : str
        Of the parameter.
    rows, width : int
    """

    name: str
    rows: int
    width: int


@dataclass(frozen=True, slots=True)
class Weights:
    """What a model holds.

    Attributes
    ----------
    tables : tuple of EmbeddingTable
    dense_parameters : int
        All other scalars that are trained or kept, buffers among them.
    depth : int
        Layers with weights of two dimensions or more, embeddings apart.
    precision : str
        Of most scalars: ``fp32``, ``bf16``, …
    """

    tables: tuple[EmbeddingTable, ...]
    dense_parameters: int
    depth: int
    precision: str

    @property
    def table_parameters(self) -> int:
        """Scalars of all tables."""
        return sum(table.rows * table.width for table in self.tables)


def read_weights(model: Any, looked_up: Collection[int] = ()) -> Weights:
    """Return what `model` holds; weights that are shared count once.

    Parameters
    ----------
    model : torch.nn.Module
    looked_up : collection of int
        Storage keys of parameters whose rows the forward pass looked up, beside those of
        ``Embedding`` and ``EmbeddingBag``.
    """
    torch = found_torch()
    modules = dict(model.named_modules())
    kinds = (torch.nn.Embedding, torch.nn.EmbeddingBag)
    tables = {storage_key(m.weight) for m in modules.values() if isinstance(m, kinds)}
    parameters = dict(model.named_parameters())
    tables |= {
        storage_key(p) for p in parameters.values() if storage_key(p) in looked_up and p.dim() == 2
    }
    dense = [p for p in parameters.values() if storage_key(p) not in tables]
    return Weights(
        tuple(
            EmbeddingTable(name, *map(int, p.shape))
            for name, p in parameters.items()
            if storage_key(p) in tables
        ),
        sum(int(p.numel()) for p in [*dense, *model.buffers()]),
        sum(_is_layer(module, tables) for module in modules.values()),
        _precision(list(parameters.values())),
    )


def _is_layer(module: Any, tables: Collection[int]) -> bool:
    own = module.parameters(recurse=False)
    return any(p.dim() >= 2 and storage_key(p) not in tables for p in own)


def _precision(parameters: list[Any]) -> str:
    sizes: dict[str, int] = {}
    for parameter in parameters:
        name = PRECISIONS.get(str(parameter.dtype).removeprefix("torch."), "unknown")
        sizes[name] = sizes.get(name, 0) + int(parameter.numel())
    return max(sizes, key=lambda name: sizes[name], default="unknown")
