import pytest

from data import dcgm
from scheduler_client.local.card_metrics import CardPage, card_metrics_text
from scheduler_client.local.devices import Device
from scheduler_client.local.live_signals import CardReading, LiveSignals, Tenancy

GPU = Device("gpu0", "gpu", 3, "NVIDIA H200", 143771, "GPU-6fc2")
SLOT = Device("cpu1", "cpu", 1, "cpu", 4096, "cpu1")


def samples(text):
    """Sample lines by metric."""
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    return {line.split("{")[0]: line for line in lines}


def test_signals_are_written_under_dcgms_names_in_its_units():
    reading = CardReading(
        GPU,
        {"gpu_util": 0.355, "dram_active": 0.5, "gpu_mem_mib": 1024, "pcie_tx_bytes_per_s": 3e9},
    )
    found = samples(card_metrics_text([reading], [], "node7"))
    assert found[dcgm.GPU_UTIL] == (
        'DCGM_FI_DEV_GPU_UTIL{gpu="3",UUID="GPU-6fc2",device="gpu0",modelName="NVIDIA H200",'
        'hostname="node7"} 35.5'
    )
    assert found[dcgm.DRAM_ACTIVE].endswith("} 0.5")
    assert found[dcgm.FB_USED].endswith("} 1024")
    assert found[dcgm.FB_FREE].endswith("} 142747")
    assert found[dcgm.PCIE_TX_BYTES].endswith("} 3000000000")


def test_what_was_not_measured_has_no_sample_and_no_family():
    text = card_metrics_text([CardReading(SLOT, {"gpu_util": 0.5})], [], "node7")
    assert dcgm.SM_ACTIVE not in text
    assert dcgm.FB_FREE not in text
    assert card_metrics_text([], [], "node7") == ""


def test_tenants_are_told_by_the_uuid_of_their_cards():
    tenancies = [Tenancy(GPU, 'a"b', 2, "bert"), Tenancy(SLOT, "7", 1, "ncf")]
    lines = card_metrics_text([], tenancies, "node7").splitlines()[2:]
    assert lines == [
        'colocast_scheduler_allocation_info{UUID="GPU-6fc2",card="gpu0",gpu_model="NVIDIA H200",'
        'node="node7",job_id="a\\"b",attempt="2",job_key="bert"} 1',
        'colocast_scheduler_allocation_info{UUID="CPU-node7-cpu1",card="cpu1",gpu_model="cpu",'
        'node="node7",job_id="7",attempt="1",job_key="ncf"} 1',
    ]


@pytest.mark.parametrize("is_shown", [False, True])
def test_a_page_is_empty_until_it_is_told_whose_cards_to_show(is_shown):
    page, live = CardPage(), LiveSignals([SLOT])
    live.measure()
    if is_shown:
        page.show(live)
    assert (dcgm.GPU_UTIL in page.text()) == is_shown
