"""Running the user's code on the meta device, where tensors have shapes and no memory."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from data.errors import SettingError
from pipelines.inspecting.found import found_torch

META = "meta"
SMALL = 2**16
"""Scalars that may lie in main memory all the same: offsets, schedules, counters of steps."""


WANTED = "wanted all on the device that is current: leave out device=…, .to(…) and .cuda()"
_OF_DEVICES = ("CUDA", "NVIDIA", "meta tensor", "from 'meta'")


class AllocatedError(SettingError):
    """The user's code asked for memory on a device."""

    def __init__(self, device: str, shape: tuple[int, ...], action: str) -> None:
        self.device, self.shape, self.action = device, shape, action
        super().__init__(
            f"found a tensor of shape {list(shape)} on {device} (by {action}), {WANTED}"
        )


@contextmanager
def on_meta(what: str, *, default: bool = True) -> Iterator[None]:
    """Run a block with the meta device as the current one; refuse tensors anywhere else.

    Parameters
    ----------
    what : str
        Whose code runs, for errors.
    default : bool
        Whether tensors without a device are made on meta too.

    Raises
    ------
    SettingError
        With whatever the block raises: it is the user's code.
    """
    torch = found_torch()
    try:
        with _guard(torch):
            if not default:
                yield
                return
            with torch.device(META):
                yield
    except SettingError as error:
        raise SettingError(f"{what}: {error}") from error
    except Exception as error:
        text = (str(error).strip() or "no message").split("\n", 1)[0][:300]
        hint = f"; {WANTED}" if any(word in text for word in _OF_DEVICES) else ""
        raise SettingError(
            f"{what}: cannot run on the meta device: {type(error).__name__}: {text}{hint}"
        ) from error


def storage_key(tensor: Any) -> int:
    """Return what tells one storage from another; on meta all addresses are 0.

    Only while the storage lives: keep its tensors until all keys are compared.
    """
    return int(tensor.untyped_storage()._cdata)


def _guard(torch: Any) -> Any:
    tree = torch.utils._pytree

    class Guard(torch.utils._python_dispatch.TorchDispatchMode):  # type: ignore[misc]
        """Looks at every operation before it allocates."""

        def __torch_dispatch__(
            self,
            operation: Callable[..., object],
            types: object,
            args: tuple[object, ...] = (),
            kwargs: dict[str, object] | None = None,
        ) -> object:
            del types
            given = dict(kwargs or {})
            device = given.get("device")
            if device is not None and torch.device(device).type != META:
                # What it would be, told where it costs nothing.
                shape = operation(*args, **{**given, "device": torch.device(META)})
                _refuse(torch, shape, str(device), str(operation))
            result = operation(*args, **given)
            _refuse(torch, result, None, str(operation))
            return result

    def _refuse(torch: Any, result: object, device: str | None, action: str) -> None:
        for leaf in tree.tree_leaves(result):
            if not isinstance(leaf, torch.Tensor):
                continue
            place = device or str(leaf.device)
            if place.startswith(META) or (place == "cpu" and leaf.numel() <= SMALL):
                continue
            raise AllocatedError(place, tuple(leaf.shape), action)

    return Guard()
