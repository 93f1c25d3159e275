"""The GPU models that importers know, under one spelling each."""

import re
from collections.abc import Collection

# fmt: off
KNOWN = frozenset([
    "k40", "k80", "p4", "p40", "p100", "v100", "t4", "a2",
    "a10", "a10g", "a16", "a30", "a40", "a100", "a800", "h20",
    "h100", "h200", "h800", "l4", "l40", "l40s", "b100", "b200",
    "b300", "gb200", "gb300", "gh200", "m40", "m60", "titanv", "titanx",
    "titanxp", "titanrtx", "gtx1080", "gtx1080ti", "rtx2070", "rtx2080", "rtx2080ti", "rtx3060",
    "rtx3070", "rtx3080", "rtx3090", "rtx3090ti", "rtx4000", "rtx4070", "rtx4080", "rtx4090",
    "rtx5000", "rtx5080", "rtx5090", "rtx6000", "rtx8000", "rtxa4000", "rtxa5000", "rtxa6000",
    "mi50", "mi60", "mi100", "mi210", "mi250", "mi250x", "mi300x", "mi325x",
    "cpu",
])
# fmt: on
"""Bare model names; ``cpu`` is a CPU slot. A form factor or a memory size may follow a dash."""

_MAKERS = ("nvidia", "tesla", "geforce", "quadro", "amd", "instinct", "radeon", "graphics")


def canonical_gpu_model(name: str) -> str:
    """Return `name` without maker and spaces, in small letters, the variant after dashes.

    Examples
    --------
    >>> canonical_gpu_model("NVIDIA GeForce RTX 3090")
    'rtx3090'
    >>> canonical_gpu_model("Tesla V100-SXM2-16GB")
    'v100-sxm2-16gb'
    >>> canonical_gpu_model("NVIDIA A100 80GB PCIe")
    'a100-80gb-pcie'
    """
    words = [word for word in re.split(r"[\s_-]+", name.lower()) if word not in _MAKERS]
    bare = next((n for n in (3, 2, 1) if "".join(words[:n]) in KNOWN), 1)
    return "-".join(["".join(words[:bare]), *words[bare:]])


def is_known_gpu_model(name: str, extra: Collection[str] = ()) -> bool:
    """Whether `name`, up to its first dash, is a model in `KNOWN` or is listed in `extra`.

    Examples
    --------
    >>> is_known_gpu_model("v100-sxm2-16gb"), is_known_gpu_model("v1000")
    (True, False)
    >>> is_known_gpu_model("v1000", extra=["v1000"])
    True
    """
    return name.split("-", 1)[0] in KNOWN or name in extra
