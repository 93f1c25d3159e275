"""What ``colocast inspect`` reads from models written in PyTorch."""

import json
import sys
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from data.errors import SettingError
from pipelines.cli import group
from pipelines.inspecting.inspection import Ask, details_document, inspected
from scheduler_client.jobs.submitting import read_structure
from serving.inference.memory import structures_frame

torch = pytest.importorskip("torch", reason="PyTorch is not installed: the extra colocast[torch]")
HERE = Path(__file__).parent
MIB = 2**20


@pytest.fixture(autouse=True)
def _import_path(monkeypatch):
    monkeypatch.setattr(sys, "path", [str(HERE), *sys.path])


def found(name, **options):
    return inspected(Ask(f"zoo:{name}", HERE, **options))


def weights_of(name):
    zoo = pytest.importorskip("zoo")
    return sum(p.numel() for p in getattr(zoo, name)().parameters())


MODELS = ("WideDeep", "DeepFM", "DIN", "DLRM", "SASRec", "CNN")


@pytest.mark.parametrize("name", MODELS)
def test_weights_are_those_of_the_model_really_built(name):
    structure = found(name).structure
    tables = sum(table.rows * table.width for table in found(name).weights.tables)
    buffers = {"DeepFM": 4, "CNN": 8 + 8 + 1}  # offsets; running mean, variance and counter
    assert tables + structure.dense_parameters - buffers.get(name, 0) == weights_of(name)
    assert structure.embedding_rows * structure.embedding_width >= tables
    assert structure.family == name.lower()


@pytest.mark.parametrize("name", MODELS[:-1])  # dropout keeps floats on a CPU, bytes on a GPU
def test_activations_are_what_autograd_really_saves(name):
    zoo = pytest.importorskip("zoo")
    model = getattr(zoo, name)()
    saved, own = {}, {p.untyped_storage().data_ptr() for p in model.parameters()}
    own |= {b.untyped_storage().data_ptr() for b in model.buffers()}

    def pack(tensor):
        saved[tensor.untyped_storage().data_ptr()] = tensor
        return tensor

    given = model.example_inputs()
    args, named = ((), given) if isinstance(given, dict) else (given, {})
    args = args if isinstance(args, tuple) else (args,)
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        model(*args, **named)
    real = sum(t.untyped_storage().nbytes() for key, t in saved.items() if key not in own)
    assert found(name).activations.total_bytes == pytest.approx(real, rel=0.05)


def test_embedding_tables_are_told_one_by_one():
    one = found("DLRM")
    assert [(t.rows, t.width) for t in one.weights.tables] == [(100, 16), (2000, 16), (30000, 16)]
    assert (one.structure.embedding_tables, one.structure.embedding_rows) == (3, 32100)
    assert (one.structure.batch_size, one.structure.depth) == (256, 4)


def test_tables_of_two_widths_count_as_rows_of_the_widest():
    one = found("WideDeep").structure
    assert one.embedding_width == 16
    assert one.embedding_rows == 1000 + 63  # 1000 rows of width 1, rounded up


def test_bare_parameter_that_is_indexed_is_a_table():
    assert [table.name for table in found("DeepFM").weights.tables] == ["table"]


def test_tied_weights_count_once_as_a_table():
    one = found("SASRec")
    assert {table.name for table in one.weights.tables} == {"items.weight", "places.weight"}


def test_convolutions_keep_what_the_rule_for_public_data_says():
    one = found("CNN").structure
    side, kept = 32 * 32, 3 + 8 + 8 + 8 + 16 + 16 / 4  # inputs, conv, norm, GELU, conv, mask
    assert one.activations == pytest.approx(side * kept, rel=0.02)
    assert one.largest_activation == side * 16
    assert one.multiply_adds == side * 9 * (3 * 8 + 8 * 16) + 16 * 10


@pytest.mark.parametrize(
    ("optimizer", "name", "states"),
    [("adam", "adam", 2), ("SGD", "sgd", 0), ("adagrad", "adagrad", 1), ("AdamW", "adamw", 2)],
)
def test_optimizer_state_is_counted_by_a_step(optimizer, name, states):
    one = found("CNN", optimizer=optimizer)
    assert one.structure.optimizer == name
    assert one.optimizer.scalars == states * weights_of("CNN")


def test_optimizer_of_the_model_itself_is_found():
    one = found("DLRM")
    assert one.structure.optimizer == "momentum"
    assert one.optimizer.scalars == weights_of("DLRM")


def test_functions_of_the_module_are_found_by_name():
    one = found("small", inputs="several", optimizer="adam").structure
    assert (one.batch_size, one.optimizer) == (6, "adam")
    assert found("small", inputs="zoo:several", batch_size=3).structure.batch_size == 3


def test_model_that_no_machine_could_hold_is_read():
    one = found("huge", batch_size=1)
    assert one.weights.table_parameters == 2**40
    assert details_document(one)["embedding_mib"] == 4 * 2**20
    assert one.structure.activations is None


def test_half_precision_is_read_from_the_weights():
    assert found("small", batch_size=1).structure.precision == "fp32"
    assert found("small", batch_size=1, precision="amp").structure.precision == "amp"


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("nothing", {}, "zoo: found no 'nothing', wanted a function or a class"),
        ("FIELDS", {}, "zoo:FIELDS: found int, wanted a function or a class"),
        ("wants_width", {}, "found a factory that needs width, wanted one that needs no arg"),
        ("no_model", {}, "zoo:no_model: found str, wanted a torch.nn.Module"),
        ("on_cpu", {}, r"zoo:on_cpu: found a tensor of shape \[1000, 1000\] on cpu"),
        ("on_cuda", {}, "zoo:on_cuda: .*CUDA.*leave out device=…, .to"),
        ("from_values", {}, "found the parameter 'weight' on cpu, wanted all on the device"),
        ("small", {}, "found no batch size, wanted --batch-size, or a function example_inputs"),
        ("CNN", {"batch_size": 0}, "batch_size must be 1 or more, got 0"),
        ("ReadsValues", {}, "forward: cannot run on the meta device: "),
        ("MovesInputs", {}, "forward: .*CUDA.*leave out device=…, .to"),
        ("small", {"inputs": "two_arguments", "batch_size": 2}, "needs length too, wanted one"),
        ("small", {"inputs": "no_model", "batch_size": 2}, "inputs: cannot run"),
        ("CNN", {"optimizer": "magic"}, "found the optimizer 'magic', wanted one of adadelta, ada"),
        ("CNN", {"optimizer": "zoo:several"}, "optimizer: "),
    ],
)
def test_what_cannot_be_inspected_is_one_clear_error(name, options, message):
    with pytest.raises(SettingError, match=message):
        found(name, **options)


def test_answer_is_what_submit_takes():
    done = CliRunner().invoke(group, ["inspect", "zoo:DLRM"], catch_exceptions=False)
    structure = read_structure(done.output)
    assert structure == found("DLRM").structure
    assert structures_frame([structure])["activations"][0] > 0


def test_answer_as_yaml_and_with_details():
    asked = ["inspect", "zoo:DLRM", "--details", "--format", "yaml"]
    document = yaml.safe_load(CliRunner().invoke(group, asked, catch_exceptions=False).output)
    assert document["structure"]["family"] == "dlrm"
    assert document["embedding_tables"][2] == {
        "name": "tables.2.weight",
        "rows": 30000,
        "width": 16,
    }
    assert json.dumps(document)
