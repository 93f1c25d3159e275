"""Names and units of the metrics that describe cards, as dcgm-exporter writes them.

Standard library only: the scheduler exports its own cards under these names.
"""

UUID_LABEL = "UUID"
"""What samples are joined by; never the host name, whose label is spelt in two ways."""

GPU_UTIL = "DCGM_FI_DEV_GPU_UTIL"  # percent
SM_ACTIVE = "DCGM_FI_PROF_SM_ACTIVE"  # ratio, as the next three
SM_OCCUPANCY = "DCGM_FI_PROF_SM_OCCUPANCY"
FP32_ACTIVE = "DCGM_FI_PROF_PIPE_FP32_ACTIVE"
DRAM_ACTIVE = "DCGM_FI_PROF_DRAM_ACTIVE"
PCIE_TX_BYTES = "DCGM_FI_PROF_PCIE_TX_BYTES"  # bytes/s from the card, a gauge despite the name
PCIE_RX_BYTES = "DCGM_FI_PROF_PCIE_RX_BYTES"  # bytes/s to the card
FB_USED = "DCGM_FI_DEV_FB_USED"  # MiB
FB_FREE = "DCGM_FI_DEV_FB_FREE"  # MiB

ALLOCATION_INFO = "colocast_scheduler_allocation_info"
"""1 for each card of each running job: labels ``UUID``, ``card``, ``job_id``, ``attempt``, …

Not ``job``: Prometheus itself labels every sample with the ``job`` of its scrape configuration.
"""
