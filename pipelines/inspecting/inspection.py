"""From a factory of a PyTorch model to the structure that memory and demand are predicted from."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from math import ceil
from pathlib import Path
from types import ModuleType
from typing import Any

from data.domain import ModelStructure
from data.errors import SettingError
from features.structure import BYTES, MIB, WEIGHT_BYTES
from pipelines.inspecting.activations import Activations, read_activations
from pipelines.inspecting.found import default_of_first, found_name, found_torch, needed
from pipelines.inspecting.meta import META, on_meta
from pipelines.inspecting.optimizers import (
    UNKNOWN,
    OptimizerState,
    named_optimizer,
    read_optimizer,
)
from pipelines.inspecting.parameters import Weights, read_weights

INPUTS = "example_inputs"
OPTIMIZER = "example_optimizer"
FRAMEWORK = "pytorch"  # no version: memory hardly differs, and none was learnt


@dataclass(frozen=True, slots=True)
class Ask:
    """What is to be inspected.

    Attributes
    ----------
    factory : str
        ``MODULE:NAME`` of a function or class that needs no argument and gives a model.
    folder : Path
        Where modules are looked for first.
    inputs : str, optional
        Name of a function of a batch size that gives what the model's ``forward`` takes, in the
        factory's module or as ``MODULE:NAME``. By default ``example_inputs`` of the model or of
        that module, if there is one.
    batch_size : int, optional
        By default that of the inputs function's own argument.
    optimizer : str, optional
        A class of ``torch.optim`` in any case, or the name of a function of the parameters, found
        as `inputs`. By default ``example_optimizer``, if there is one.
    family, precision : str, optional
        By default the class of the model in small letters, and the type of most weights.
    gpus : int
    """

    factory: str
    folder: Path
    inputs: str | None = None
    batch_size: int | None = None
    optimizer: str | None = None
    family: str | None = None
    precision: str | None = None
    gpus: int = 1


@dataclass(frozen=True, slots=True)
class Inspection:
    """What was found.

    Attributes
    ----------
    structure : ModelStructure
    weights : Weights
    activations : Activations or None
        None where no inputs are known.
    optimizer : OptimizerState
    """

    structure: ModelStructure
    weights: Weights
    activations: Activations | None
    optimizer: OptimizerState


def inspected(ask: Ask) -> Inspection:
    """Return what a model is made of.

    Parameters
    ----------
    ask : Ask

    Raises
    ------
    SettingError
        If PyTorch, the module or a function is missing, if the factory needs arguments or gives
        no model, if its code puts tensors on a real device or reads their values, or if no batch
        size is known.
    """
    found_torch()
    module, factory = found_name(ask.factory, ask.folder)
    model = _built(ask.factory, factory)
    inputs = _function(ask.inputs, INPUTS, model, module, ask.folder)
    batch_size = _batch_size(ask, inputs)
    activations = None if inputs is None else _activations(model, inputs, batch_size)
    make = _optimizer(ask, model, module)
    state = OptimizerState(UNKNOWN, 0) if make is None else read_optimizer(model, make)
    weights = read_weights(model, () if activations is None else activations.looked_up)
    structure = _structure(ask, type(model).__name__, batch_size, weights, activations)
    return Inspection(replace(structure, optimizer=state.name), weights, activations, state)


def structure_document(structure: ModelStructure) -> dict[str, object]:
    """Return a structure as ``colocast submit --structure`` reads it, without what is unknown.

    Examples
    --------
    >>> structure_document(ModelStructure("dlrm", 64, depth=3))["depth"]
    3
    """
    return {name: value for name, value in asdict(structure).items() if value is not None}


def details_document(found: Inspection) -> dict[str, object]:
    """Return all that was found: the structure, and what it was summed up from (MiB)."""
    kept, batch = found.activations, found.structure.batch_size
    per_sample: Mapping[str, object] = (
        {}
        if kept is None
        else {
            "activation_bytes_per_sample": kept.total_bytes / batch,
            "largest_activation_bytes_per_sample": kept.largest_bytes / batch,
            "activations_mib": kept.total_bytes / MIB,
        }
    )
    return {
        "structure": structure_document(found.structure),
        "embedding_tables": [asdict(table) for table in found.weights.tables],
        "embedding_mib": found.weights.table_parameters * WEIGHT_BYTES / MIB,
        "dense_mib": found.weights.dense_parameters * WEIGHT_BYTES / MIB,
        "optimizer_mib": found.optimizer.scalars * WEIGHT_BYTES / MIB,
        **per_sample,
    }


def _built(name: str, factory: Callable[..., object]) -> Any:
    torch = found_torch()
    missing = needed(factory)
    if missing:
        raise SettingError(
            f"{name}: found a factory that needs {', '.join(missing)}, wanted one that needs no "
            "argument: write a function that calls it"
        )
    with on_meta(name):
        model = factory()
    if not isinstance(model, torch.nn.Module):
        raise SettingError(f"{name}: found {type(model).__name__}, wanted a torch.nn.Module")
    for kind, tensors in (
        ("parameter", model.named_parameters()),
        ("buffer", model.named_buffers()),
    ):
        for each, tensor in tensors:
            if tensor.device.type != META and kind == "parameter":
                raise SettingError(
                    f"{name}: found the {kind} {each!r} on {tensor.device}, wanted all on the "
                    "device that is current: make it with torch functions, without device=…"
                )
    return model.train()


def _function(
    name: str | None,
    default: str,
    model: Any,
    module: ModuleType,
    folder: Path,
) -> Callable[..., object] | None:
    """Return the function called `name`, or else the default one of the model or its module."""
    if name is not None:
        return found_name(name if ":" in name else f"{module.__name__}:{name}", folder)[1]
    for place in (model, module):
        found = getattr(place, default, None)
        if callable(found):
            return found  # type: ignore[no-any-return] # whatever the user wrote
    return None


def _batch_size(ask: Ask, inputs: Callable[..., object] | None) -> int:
    size = ask.batch_size
    if size is None and inputs is not None:
        size = default_of_first(inputs)
    if size is None:
        raise SettingError(
            f"found no batch size, wanted --batch-size, or a function {INPUTS}(batch_size=…) "
            "with a default"
        )
    if size < 1:
        raise SettingError(f"batch_size must be 1 or more, got {size}")
    return size


def _activations(model: Any, inputs: Callable[..., object], batch_size: int) -> Activations:
    missing = needed(inputs, 1)
    if missing:
        raise SettingError(
            f"inputs: found a function that needs {', '.join(missing)} too, wanted one of a "
            "batch size alone"
        )
    with on_meta("inputs"):
        given = inputs(batch_size)
    return read_activations(model, given)


def _optimizer(ask: Ask, model: Any, module: ModuleType) -> Callable[..., object] | None:
    name = ask.optimizer
    if name is not None and ":" not in name and not hasattr(module, name):
        return named_optimizer(name)
    return _function(name, OPTIMIZER, model, module, ask.folder)


def _structure(
    ask: Ask, name: str, batch_size: int, weights: Weights, activations: Activations | None
) -> ModelStructure:
    precision = ask.precision or weights.precision
    item = BYTES.get(precision, WEIGHT_BYTES)
    # Tables of several widths count as rows of the widest: what they hold stays the same.
    width = max((table.width for table in weights.tables), default=0)
    kept = None if activations is None else (activations.total_bytes, activations.largest_bytes)
    each = (None, None) if kept is None else [ceil(size / batch_size / item) for size in kept]
    return ModelStructure(
        family=ask.family or name.lower(),
        batch_size=batch_size,
        framework=FRAMEWORK,
        precision=precision,
        gpus=ask.gpus,
        embedding_rows=ceil(weights.table_parameters / width) if width else 0,
        embedding_width=width,
        embedding_tables=len(weights.tables),
        dense_parameters=weights.dense_parameters,
        activations=each[0],
        depth=weights.depth,
        largest_activation=each[1],
        multiply_adds=None if activations is None else ceil(activations.multiply_adds / batch_size),
    )
