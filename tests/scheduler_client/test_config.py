from pathlib import Path

import pytest
import yaml

from data.errors import SettingError
from scheduler_client.config import SchedulerConfig, config_from, load_config, queues_now
from scheduler_client.policy.quota import most_gpus, unlent_gpus
from scheduler_client.policy.scoring import Bound
from scheduler_client.policy.tolerance import Direction
from scheduler_client.policy.view import Queue, Whom

QUEUE = """
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata:
  name: research
  labels: {team: vision}
spec:
  cohortName: all
  namespaceSelector: {}
  queueingStrategy: BestEffortFIFO
  resourceGroups:
  - coveredResources: ["nvidia.com/gpu"]
    flavors:
    - name: a100
      resources:
      - name: nvidia.com/gpu
        nominalQuota: 8
        borrowingLimit: "4"
        lendingLimit: 500m
  preemption:
    reclaimWithinCohort: Never
    borrowWithinCohort: {policy: Never}
    withinClusterQueue: Never
  stopPolicy: Hold
  fairSharing: {weight: 2}
"""
SETTINGS = """
apiVersion: colocast/v1
kind: Scheduler
spec:
  cycle_s: 0.25
  max_jobs_per_card: 3
  bound: value
  tolerance: {direction: falling, least: 0.2}
  prediction: {deadline_s: 0.5}
"""


def parsed(*texts: str) -> SchedulerConfig:
    return config_from([yaml.safe_load(text) for text in texts], "q.yaml")


def test_a_cluster_queue_is_read():
    assert parsed(QUEUE).queues == (Queue("research", 8, "all", 4, 0.5, 2, is_held=True),)


def test_our_own_settings_are_read_beside_it(tmp_path):
    path = tmp_path / "scheduler.yaml"
    path.write_text(f"{QUEUE}---{SETTINGS}---\n")
    config = load_config(path)
    assert [queue.name for queue in config.queues] == ["research"]
    assert config.settings.cycle_s == 0.25
    assert config.settings.prediction.deadline_s == 0.5
    rules = config.settings.rules
    assert (rules.max_jobs_per_card, rules.bound) == (3, Bound.VALUE)
    assert (rules.tolerance.direction, rules.tolerance.least) == (Direction.FALLING, 0.2)


def test_v1beta1_names_its_cohort_otherwise():
    old = QUEUE.replace("v1beta2", "v1beta1").replace("cohortName", "cohort")
    assert parsed(old).queues == parsed(QUEUE).queues


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("v1beta2", "v1alpha1"), "apiVersion: found 'kueue.x-k8s.io/v1alpha1'"),
        (("name: research", "name: ''"), "metadata.name: found '', wanted a name"),
        (("namespaceSelector: {}", "namespaceSelector: {a: b}"), "spec.namespaceSelector"),
        (("BestEffortFIFO", "StrictFIFO"), "queueingStrategy: found 'StrictFIFO', wanted"),
        (
            ("withinClusterQueue: Never", "withinClusterQueue: Any"),
            "withinClusterQueue: found 'Any'",
        ),
        (
            ("{policy: Never}", "{policy: LowerPriority}"),
            "found borrowWithinCohort.policy of research 'LowerPriority', wanted Never, or "
            "Scheduler.spec.order: attained",
        ),
        (("{policy: Never}", "{policy: Any}"), "borrowWithinCohort.policy: found 'Any', wanted"),
        (("{policy: Never}", "{policy: Never, maxPriorityThreshold: 1}"), "'maxPriorityThreshold'"),
        (("stopPolicy: Hold", "stopPolicy: HoldAndDrain"), "HoldAndDrain is not supported"),
        (("weight: 2", "weight: 0"), "fairSharing.weight: found 0, wanted a weight above 0"),
        (("nominalQuota: 8", "nominalQuota: -1"), "nominalQuota: found -1, wanted GPUs"),
        (("nominalQuota: 8", "nominalQuota: true"), "nominalQuota: found True, wanted GPUs"),
        (
            ("  cohortName: all\n", ""),
            "borrowingLimit: found '4', wanted no limit where there is no",
        ),
        (('["nvidia.com/gpu"]', '["cpu"]'), "coveredResources: found"),
        (("stopPolicy: Hold", "admissionChecks: [x]"), "spec: 'admissionChecks' is not supported"),
        (("fairSharing: {weight: 2}", "fairSharing: 2"), "fairSharing: found 2, wanted a mapping"),
        (("cohortName: all", "cohortName: 7"), "cohortName: found 7, wanted a name"),
    ],
)
def test_what_is_not_supported_is_refused_by_name(change, said):
    with pytest.raises(SettingError, match=said.replace("(", r"\(")):
        parsed(QUEUE.replace(*change))


def test_several_flavors_are_refused_by_name():
    two = yaml.safe_load(QUEUE)
    two["spec"]["resourceGroups"][0]["flavors"] *= 2
    with pytest.raises(SettingError, match="exactly one flavor"):
        config_from([two], "q.yaml")


def test_a_queue_may_not_occur_twice():
    with pytest.raises(SettingError, match="found ClusterQueue 'research' twice"):
        parsed(QUEUE, QUEUE)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            ("cycle_s: 0.25", "cycle_s: 0"),
            r"Scheduler.spec.cycle_s must be a number in \[0.01, 3600\]",
        ),
        (("cycle_s: 0.25", "cycles: 1"), "unknown fields 'cycles'"),
        (("cycle_s: 0.25", "cycle_s: .nan"), "wanted a finite number"),
        (("bound: value", "bound: middle"), "bound: found 'middle', wanted one of upper, value"),
        (("least: 0.2", "least: 2"), "tolerance.most must be a number in"),
        (("max_jobs_per_card: 3", "max_jobs_per_card: 0"), "max_jobs_per_card must be"),
        (("bound: value", "weights: {slowdown: 0, memory: 0}"), "slowdown or memory above 0"),
        (("colocast/v1", "v1"), "found apiVersion 'v1', wanted apiVersion: colocast/v1"),
        (("spec:", "metadata: {}\nspec:"), "found 'metadata'"),
    ],
)
def test_settings_out_of_range_are_refused(change, said):
    with pytest.raises(SettingError, match=said):
        parsed(SETTINGS.replace(*change))


def test_one_document_of_settings_is_enough():
    with pytest.raises(SettingError, match="two documents of kind Scheduler"):
        parsed(SETTINGS, SETTINGS)


def test_other_kinds_are_refused_by_name():
    with pytest.raises(SettingError, match="kind 'LocalQueue' is not supported"):
        parsed("{apiVersion: kueue.x-k8s.io/v1beta2, kind: LocalQueue}")
    with pytest.raises(SettingError, match="kind None is not supported"):
        parsed("[1, 2]")


@pytest.mark.parametrize("text", ["a: [", "\x00", "!!python/object:os.system {}"])
def test_no_yaml_is_refused(tmp_path, text):
    path = tmp_path / "bad.yaml"
    path.write_text(text)
    with pytest.raises(SettingError, match=r"bad\.yaml: found no YAML"):
        load_config(path)


def test_no_file_is_refused(tmp_path):
    with pytest.raises(SettingError, match="cannot be read: No such file"):
        load_config(tmp_path / "none.yaml")


def test_the_documented_configuration_is_read_and_states_the_defaults():
    text = (Path(__file__).parents[2] / "docs" / "scheduling.md").read_text()
    documents = yaml.safe_load_all(text.split("```yaml\n")[1].split("```")[0])
    config = config_from(list(documents), "docs/scheduling.md")
    assert config.queues == (Queue("research", 6, "all", 2, 4, 2),)
    assert config.settings == SchedulerConfig().settings


def test_without_configuration_users_share_equally():
    queues = queues_now(SchedulerConfig(), ["bob", "ada", "bob"], 3)
    assert [(q.name, q.nominal_quota_gpus, q.cohort) for q in queues] == [
        ("ada", 1.5, "all"),
        ("bob", 1.5, "all"),
    ]
    assert queues_now(SchedulerConfig(), [], 3) == ()


def test_configured_queues_stay_as_they_are():
    assert queues_now(parsed(QUEUE), ["bob"], 3) == parsed(QUEUE).queues


@pytest.mark.parametrize("whom", list(Whom))
def test_whose_jobs_are_reclaimed_is_read(whom):
    text = QUEUE.replace("reclaimWithinCohort: Never", f"reclaimWithinCohort: {whom}")
    assert parsed(text).queues[0].reclaims is whom


def test_preemption_by_priority_within_a_queue_is_read():
    text = QUEUE.replace("withinClusterQueue: Never", "withinClusterQueue: LowerPriority")
    assert parsed(text).queues[0].preempts is Whom.LOWER_PRIORITY


STATIC = "labels: {team: vision}\n  annotations: {colocast/allocation: static}"


def test_a_queue_with_static_allocation_neither_borrows_nor_lends():
    (queue,) = parsed(QUEUE.replace("labels: {team: vision}", STATIC)).queues
    assert queue.cohort is None
    assert most_gpus(queue) == unlent_gpus(queue) == 8


def test_an_allocation_that_is_unknown_is_refused():
    with pytest.raises(SettingError, match="found 'fixed', wanted dynamic or static"):
        parsed(QUEUE.replace("labels: {team: vision}", STATIC.replace("static", "fixed")))


def test_evictions_and_reservations_are_settings():
    text = SETTINGS + "  reservation: {after_s: 60}\n  eviction: {most: 2, growth: 1}\n"
    rules = parsed(text).settings.rules
    assert rules.reservation.after_s == 60
    assert (rules.eviction.most, rules.eviction.growth) == (2, 1)


def test_an_eviction_rule_out_of_range_is_named():
    with pytest.raises(SettingError, match=r"eviction\.growth must be a number in"):
        parsed(SETTINGS + "  eviction: {growth: -1}\n")


def test_an_assignment_that_is_unknown_is_named():
    assert parsed(SETTINGS + "  assignment: joint\n").settings.rules.assignment == "joint"
    with pytest.raises(SettingError, match="must be list or joint, got 'best'"):
        parsed(SETTINGS + "  assignment: best\n")


ATTAINED = """
apiVersion: colocast/v1
kind: Scheduler
spec:
  order: attained
  levels: {levels_gpu_s: [60, 3600], least_run_s: 10}
"""


def test_attained_gpu_time_orders_where_that_is_asked_for():
    config = parsed(QUEUE.replace("{policy: Never}", "{policy: LowerPriority}"), ATTAINED)
    assert config.queues[0].borrows is Whom.LOWER_PRIORITY
    levels = config.settings.rules.levels
    assert levels is not None
    assert (levels.levels_gpu_s, levels.least_run_s) == ((60.0, 3600.0), 10.0)
    assert parsed(QUEUE).settings.rules.levels is None


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("order: attained", "order: shortest"), "order must be fair or attained, got 'shortest'"),
        (("[60, 3600]", "[60, 60]"), "levels_gpu_s must be numbers above 0, ascending, got 60"),
        (("[60, 3600]", "[0, 60]"), "levels_gpu_s must be numbers above 0, ascending, got 0"),
        (("least_run_s: 10", "least_run_s: -1"), "levels.least_run_s must be a number in"),
        (("least_run_s: 10", "fresh_slowdown: 0.5"), "levels.fresh_slowdown must be a number in"),
    ],
)
def test_wrong_levels_are_refused_by_name(change, said):
    with pytest.raises(SettingError, match=said):
        parsed(ATTAINED.replace(*change))
