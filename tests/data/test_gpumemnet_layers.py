"""What GPUMemNet's lists of layers say is kept for the backward pass."""

import math

import pytest

from data.importers.gpumemnet_layers import kept_scalars


def conv(inputs, outputs, side):
    return ("conv2d", outputs * side * side, outputs * (9 * inputs + 1))


def test_dropout_keeps_a_mask_of_bytes():
    kept = kept_scalars(str([("linear", 8, 72), ("dropout", 8, 0)]))
    assert kept.total == 8 + 8 / 4


def test_relu_before_the_next_layer_keeps_nothing_of_its_own():
    relu = [("linear", 8, 72), ("ReLU", 8, 0), ("linear", 8, 72)]
    gelu = [("linear", 8, 72), ("GELU", 8, 0), ("linear", 8, 72)]
    assert kept_scalars(str(relu)).total == 16
    assert kept_scalars(str(gelu)).total == 24


def test_densely_connected_convolutions_keep_what_they_join():
    dense = [conv(3, 4, 10), conv(3 + 4, 4, 10), conv(3 + 4 + 4, 4, 10)]
    plain = [conv(3, 4, 10), conv(4, 4, 10), conv(4, 4, 10)]
    joined = (7 + 11) * 100
    assert kept_scalars(str(dense), 10, 3).total == 3 * 400 + joined
    assert kept_scalars(str(dense), 10, 3).largest == 1100
    assert kept_scalars(str(plain), 10, 3).total == 3 * 400
    assert kept_scalars(str(dense)).total == 3 * 400  # the side is not known


def test_convolution_after_pooling_is_read_at_its_own_side():
    layers = [conv(3, 8, 10), conv(8, 8, 5)]
    assert kept_scalars(str(layers), 10, 3).total == 800 + 200


@pytest.mark.parametrize("text", ["[]", "nan", "[(1, 2)]", "conv", "[('conv2d', 'x', 1)]"])
def test_what_is_no_list_of_layers_is_unknown(text):
    kept = kept_scalars(text, 10, 3)
    assert math.isnan(kept.total)
    assert math.isnan(kept.largest)


def test_products_are_counted_at_the_side_of_each_convolution():
    layers = [conv(3, 8, 10), conv(8, 8, 5), ("linear", 10, 90)]
    assert kept_scalars(str(layers), 10, 3).multiply_adds == 100 * 8 * 28 + 25 * 8 * 73 + 90
    assert math.isnan(kept_scalars(str(layers)).multiply_adds)
