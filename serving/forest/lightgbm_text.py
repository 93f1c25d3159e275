"""Whether a text is a LightGBM model whose trees may be walked, before LightGBM reads it.

LightGBM believes the sizes, indices and class counts of a file: a crafted one ends the process,
or never ends. Only what is trained here is let in: one target, numerical splits, constant leaves,
an objective whose answer is the sum of the leaves.
"""

import re

import numpy as np

from data.errors import BadModelError
from serving.forest.trees import Ints, is_binary_tree, unsound
from serving.inference.bundle import Floats

OBJECTIVES = ("regression", "regression_l1", "huber", "fair", "quantile", "mape")
END = "end of trees"
CATEGORICAL = 1  # bit of decision_type
SINGLE = {"num_class": "1", "num_tree_per_iteration": "1"}
PLAIN = {"num_cat": "0", "is_linear": "0"}

Fields = dict[str, str]


def check_lightgbm_text(text: str) -> None:
    """Refuse a model that LightGBM could not read or walk safely.

    Parameters
    ----------
    text : str
        As ``Booster.save_model`` writes it.

    Raises
    ------
    BadModelError
        If it is anything else. Names the tree or the field.
    """
    if re.search(r"[^\n -~]", text):  # it would end a line, or all, for one reader only
        raise BadModelError("found a character that is none of a model's, wanted plain text")
    head, *trees = re.split(r"^(?=Tree=)", text.partition(END)[0], flags=re.MULTILINE)
    facts = _fields(head)
    _check_facts(facts, SINGLE, "the head")
    if facts.get("objective", "").split(" ")[0] not in OBJECTIVES:
        found = facts.get("objective")
        raise BadModelError(f"found objective {found!r:.80}, wanted one of {OBJECTIVES}")
    if facts.get("tree_sizes") != " ".join(str(len(tree)) for tree in trees):
        raise BadModelError("found tree_sizes of other trees, wanted the bytes of these")
    n_features = int(_integers(facts.get("max_feature_idx", ""), 1)[0]) + 1
    for number, tree in enumerate(trees):
        _check_tree(tree, n_features, number)


def _check_tree(tree: str, n_features: int, number: int) -> None:
    fields = _fields(tree)
    _check_facts({"is_linear": "0", **fields}, PLAIN, f"tree {number}")
    # LightGBM reads on to the next "=", and until there is an empty line.
    is_ended = tree.endswith("\n\n") and all("=" in line for line in tree.split("\n") if line)
    if not (is_ended and _is_sound(fields, n_features)):
        raise unsound(number, n_features)


def _fields(lines: str) -> Fields:
    found: Fields = {}
    for name, _, value in (line.partition("=") for line in lines.split("\n") if line):
        if name in found:
            raise BadModelError(f"found {name!r:.80} twice, wanted it once")
        found[name] = value
    return found


def _check_facts(found: Fields, wanted: Fields, where: str) -> None:
    for name, value in wanted.items():
        if found.get(name) != value:
            raise BadModelError(f"{where}: found {name} {found.get(name)!r:.80}, wanted {value!r}")


def _is_sound(fields: Fields, n_features: int) -> bool:
    leaves = int(_integers(fields.get("num_leaves", ""), 1)[0])
    if leaves < 1 or not np.isfinite(_numbers(fields.get("leaf_value", ""), leaves)).all():
        return False
    inner = leaves - 1
    names = ("left_child", "right_child", "split_feature", "decision_type")
    left, right, feature, decision = (_integers(fields.get(name, ""), inner) for name in names)
    return (
        bool((left < inner).all() and (right < inner).all())
        # LightGBM counts leaves from -1 downwards; here they come behind the splits.
        and is_binary_tree(
            np.arange(inner),
            np.where(left < 0, inner + ~left, left),
            np.where(right < 0, inner + ~right, right),
            inner + leaves,
        )
        and bool(((feature >= 0) & (feature < n_features)).all())
        and not (decision & CATEGORICAL).any()
        and not np.isnan(_numbers(fields.get("threshold", ""), inner)).any()
    )


def _integers(text: str, count: int) -> Ints:
    """Return so many integers, written so that LightGBM reads the same."""
    if not re.fullmatch(r"(-?[0-9]{1,9}( -?[0-9]{1,9})*)?", text):
        raise BadModelError(f"found {text!r:.80}, wanted integers with a space between them")
    return _numbers(text, count).astype(np.int64)


def _numbers(text: str, count: int) -> Floats:
    words = text.split()
    if len(words) != count:
        raise BadModelError(f"found {len(words)} numbers in {text!r:.80}, wanted {count}")
    return np.array(words, dtype=np.float64)
