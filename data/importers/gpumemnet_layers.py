"""What a training keeps and multiplies, from GPUMemNet's lists of layers."""

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import isnan, nan

MASK = 0.25
"""Of what dropout puts out it keeps a mask of bytes; its output is the next layer's input."""

KEEP_OUTPUT = ("relu", "tanh", "softmax")
"""Their backward pass reads their output, which the next layer keeps as its input anyway."""

_KERNEL_AREAS = (9, 1)

Layer = tuple[str, int, int]  # name, scalars put out for one sample, weights


@dataclass(frozen=True, slots=True)
class Kept:
    """Scalars of one sample; NaN where no layer is known.

    Attributes
    ----------
    total : float
        Kept between the forward and the backward pass.
    largest : float
        Of the largest single tensor.
    multiply_adds : float
        Of its forward pass; NaN too where the sides of a convolution's image are not known.
    """

    total: float
    largest: float
    multiply_adds: float


def kept_scalars(text: str, side: float = nan, channels: float = nan) -> Kept:
    """Return what one sample keeps.

    Parameters
    ----------
    text : str
        A list of (layer, scalars put out, weights) in the order of execution.
    side, channels : float
        Pixels along the input image, and its channels; NaN where they are unknown. With them the
        inputs that dense connections put together are found too.

    Examples
    --------
    >>> kept_scalars("[('linear', 10, 110), ('ReLU', 10, 0), ('linear', 2, 22)]")
    Kept(total=12.0, largest=10.0, multiply_adds=132.0)
    >>> kept_scalars("[('conv2d', 400, 20), ('GELU', 400, 0), ('dropout', 400, 0)]")
    Kept(total=900.0, largest=400.0, multiply_adds=nan)
    >>> kept_scalars("[]")
    Kept(total=nan, largest=nan, multiply_adds=nan)
    """
    layers = _layers(text)
    if not layers:
        return Kept(nan, nan, nan)
    convolutions = list(_convolutions(layers, side, channels))
    joined = [one.joined for one in convolutions if one.joined]
    total = sum(_own(layer, after) for layer, after in pairwise([*layers, ("", 0, 0)]))
    largest = max([scalars for _, scalars, _ in layers] + joined)
    products = sum(weights for name, _, weights in layers if name == "linear")
    if sum(name == "conv2d" for name, _, _ in layers) > len(convolutions):
        return Kept(float(total + sum(joined)), float(largest), nan)
    products += sum(one.weights * one.side**2 for one in convolutions)
    return Kept(float(total + sum(joined)), float(largest), float(products))


def _layers(text: str) -> list[Layer]:
    try:
        found = ast.literal_eval(text)
        return [(str(name).lower(), int(scalars), int(weights)) for name, scalars, weights in found]
    except (ValueError, SyntaxError, TypeError):
        return []


def _own(layer: Layer, after: Layer) -> float:
    name, scalars, _ = layer
    if name == "dropout":
        return MASK * scalars
    if name in KEEP_OUTPUT and after[0] != "dropout":
        return 0.0
    return scalars


@dataclass(frozen=True, slots=True)
class _Convolution:
    """One convolution, at the side of its image; `joined` is 0 unless it reads several layers."""

    weights: int
    side: int
    joined: float


def _convolutions(layers: Sequence[Layer], side: float, channels: float) -> Iterator[_Convolution]:
    """Yield each convolution that can be read, with the scalars of an input that was joined.

    The list tells a layer's outputs and weights only. Its channels are the way to read them that
    fits a layer before: one that was seen alone, or the last one with what that one had read.
    """
    if isnan(side) or isnan(channels):
        return
    side, seen, last = int(side), {int(channels)}, 0
    for name, scalars, weights in layers:
        if name != "conv2d":
            continue
        readings = _readings(scalars, weights, side)
        read = next((one for one in readings if one[2] in seen or one[2] == last), None)
        if read is None:
            continue
        side, outputs, inputs = read
        joined = 0.0 if inputs in seen else float(inputs * side * side)
        yield _Convolution(weights, side, joined)
        seen.add(outputs)
        last = inputs + outputs


def _readings(scalars: int, weights: int, side: int) -> Iterator[tuple[int, int, int]]:
    """Yield each (side, output channels, input channels) that a convolution's numbers allow."""
    for at in dict.fromkeys((side, side // 2, (side + 1) // 2, side // 4, (side + 3) // 4)):
        if at <= 0 or scalars % (at * at) or not scalars:
            continue
        outputs = scalars // (at * at)
        if weights % outputs:
            continue
        for area in _KERNEL_AREAS:
            if (weights // outputs - 1) % area == 0:
                yield at, outputs, (weights // outputs - 1) // area
