"""Small recommenders and a convolutional network, as a user would write them."""

from itertools import pairwise

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed: the extra colocast[torch]")
nn = torch.nn

FIELDS = 4


def mlp(*widths):
    layers = []
    for before, after in pairwise(widths):
        layers += [nn.Linear(before, after), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


class WideDeep(nn.Module):
    def __init__(self, rows=1000, width=16):
        super().__init__()
        self.wide = nn.EmbeddingBag(rows, 1, mode="sum")
        self.deep = nn.Embedding(rows, width)
        self.mlp = mlp(FIELDS * width + 3, 64, 32, 1)

    def forward(self, ids, dense):
        deep = self.deep(ids).flatten(1)
        return self.wide(ids) + self.mlp(torch.cat([deep, dense], 1))

    def example_inputs(self, batch_size=128):
        return torch.zeros(batch_size, FIELDS, dtype=torch.long), torch.randn(batch_size, 3)


class DeepFM(nn.Module):
    def __init__(self):
        super().__init__()
        # As some write it: a bare parameter that is indexed.
        self.table = nn.Parameter(torch.randn(500, 8))
        self.register_buffer("offsets", torch.arange(FIELDS) * 125)
        self.mlp = mlp(FIELDS * 8, 32, 1)

    def forward(self, ids):
        rows = self.table[ids + self.offsets]
        pairs = rows.sum(1) ** 2 - (rows**2).sum(1)
        return self.mlp(rows.flatten(1)) + pairs.sum(1, keepdim=True) / 2

    def example_inputs(self, batch_size=64):
        return {"ids": torch.zeros(batch_size, FIELDS, dtype=torch.long)}


class DIN(nn.Module):
    def __init__(self, items=2000, width=8):
        super().__init__()
        self.items = nn.Embedding(items, width)
        self.attention = mlp(4 * width, 16, 1)
        self.top = mlp(2 * width, 32, 1)

    def forward(self, history, target):
        past, wanted = self.items(history), self.items(target)
        spread = wanted.unsqueeze(1).expand_as(past)
        both = torch.cat([past, spread, past - spread, past * spread], -1)
        interest = (self.attention(both).softmax(1) * past).sum(1)
        return self.top(torch.cat([interest, wanted], 1))

    def example_inputs(self, batch_size=32):
        history = torch.zeros(batch_size, 20, dtype=torch.long)
        return history, torch.zeros(batch_size, dtype=torch.long)


class DLRM(nn.Module):
    def __init__(self, sizes=(100, 2000, 30000)):
        super().__init__()
        self.tables = nn.ModuleList(nn.EmbeddingBag(size, 16) for size in sizes)
        self.bottom = mlp(13, 64, 16)
        self.top = mlp(16 + 6, 32, 1)

    def forward(self, dense, ids):
        bottom = self.bottom(dense)
        rows = [table(ids[:, at : at + 1]) for at, table in enumerate(self.tables)]
        stacked = torch.stack([bottom, *rows], 1)
        products = stacked @ stacked.transpose(1, 2)
        upper = torch.triu_indices(4, 4, 1)
        return self.top(torch.cat([bottom, products[:, upper[0], upper[1]]], 1))

    def example_inputs(self, batch_size=256):
        return torch.randn(batch_size, 13), torch.zeros(batch_size, 3, dtype=torch.long)

    def example_optimizer(self, parameters):
        return torch.optim.SGD(parameters, lr=0.1, momentum=0.9)


class SASRec(nn.Module):
    def __init__(self, items=5000, width=32, length=10):
        super().__init__()
        self.items = nn.Embedding(items, width, padding_idx=0)
        self.places = nn.Embedding(length, width)
        layer = nn.TransformerEncoderLayer(width, 2, 64, dropout=0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2)
        self.head = nn.Linear(width, items, bias=False)
        self.head.weight = self.items.weight  # tied: counts once, as a table

    def forward(self, history):
        length = history.shape[1]
        hidden = self.items(history) + self.places(torch.arange(length))
        mask = nn.Transformer.generate_square_subsequent_mask(length)
        return self.head(self.encoder(hidden, mask=mask, is_causal=True))

    def example_inputs(self, batch_size=16):
        return torch.zeros(batch_size, 10, dtype=torch.long)


class CNN(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(
            *(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.GELU()),
            *(nn.Conv2d(8, 16, 3, padding=1), nn.GELU(), nn.Dropout(0.1)),
            *(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 10)),
        )

    def forward(self, image):
        return self.body(image)

    def example_inputs(self, batch_size=8):
        return torch.randn(batch_size, 3, 32, 32)


def huge():
    """Four TiB of weights, were they allocated."""
    return nn.Embedding(2**32, 256)


def wants_width(width):
    return nn.Linear(width, width)


def no_model():
    return "a model"


def on_cpu():
    return nn.Linear(1000, 1000, device="cpu")


def on_cuda():
    return nn.Linear(10, 10).to("cuda")


def from_values():
    return nn.Embedding.from_pretrained(torch.ones(3, 2, device="cpu"), freeze=False)


class ReadsValues(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, rows):
        return self.layer(rows) if rows.sum() > 0 else rows

    def example_inputs(self, batch_size=4):
        return torch.randn(batch_size, 4)


class MovesInputs(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, rows):
        return self.layer(rows.cuda())

    def example_inputs(self, batch_size=4):
        return torch.randn(batch_size, 4)


def two_arguments(batch_size, length):
    return torch.zeros(batch_size, length)


def several(batch_size=6):
    return torch.zeros(batch_size, 10)


def adam(parameters):
    return torch.optim.Adam(parameters, lr=1e-3)


def small():
    return nn.Sequential(nn.Linear(10, 5), nn.Linear(5, 1))
