"""What an optimizer keeps beside the weights, counted by one step on the meta device."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from data.errors import SettingError
from pipelines.inspecting.found import found_torch
from pipelines.inspecting.meta import on_meta

UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class OptimizerState:
    """What an optimizer keeps.

    Attributes
    ----------
    name : str
        As ``features.structure.STATES`` names it: the class in small letters, ``momentum`` for
        SGD with momentum.
    scalars : int
    """

    name: str
    scalars: int


def named_optimizer(name: str) -> Callable[..., object]:
    """Return the class of ``torch.optim`` with that name, in any case.

    Raises
    ------
    SettingError
        If there is none.
    """
    optimizers = found_torch().optim
    base = optimizers.Optimizer
    known = {
        key.lower(): value
        for key, value in vars(optimizers).items()
        if isinstance(value, type) and issubclass(value, base) and value is not base
    }
    if name.lower() not in known:
        raise SettingError(
            f"found the optimizer {name!r}, wanted one of {', '.join(sorted(known))}"
        )
    found: Callable[..., object] = known[name.lower()]
    return found


def read_optimizer(model: Any, make: Callable[..., object]) -> OptimizerState:
    """Return what the optimizer that `make` builds keeps after a step.

    Parameters
    ----------
    model : torch.nn.Module
        On the meta device; its gradients are written.
    make : callable
        Takes the parameters, returns a ``torch.optim.Optimizer``.

    Raises
    ------
    SettingError
        If it returns something else, or cannot step on meta.
    """
    torch = found_torch()
    parameters = [p for p in model.parameters() if p.requires_grad]
    if not parameters:
        return OptimizerState(UNKNOWN, 0)
    # Not with meta as the default: counters of steps are read, and have to be real.
    with on_meta("optimizer", default=False):
        optimizer = make(parameters)
        if not isinstance(optimizer, torch.optim.Optimizer):
            raise SettingError(f"found {type(optimizer).__name__}, wanted a torch.optim.Optimizer")
        for parameter in parameters:
            parameter.grad = torch.empty_like(parameter)
        optimizer.step()
    kept = [
        value
        for state in optimizer.state.values()
        for value in state.values()
        if isinstance(value, torch.Tensor) and value.device.type == "meta"
    ]
    for parameter in parameters:
        parameter.grad = None
    return OptimizerState(_name(optimizer, bool(kept)), sum(int(one.numel()) for one in kept))


def _name(optimizer: object, keeps: bool) -> str:
    name = type(optimizer).__name__.lower()
    return "momentum" if name == "sgd" and keeps else name
