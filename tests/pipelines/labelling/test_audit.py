"""The label audit."""

import numpy as np
import pandas as pd
import pytest

from data.errors import SettingError
from data.importers import gavel, lucid
from pipelines.labelling.audit import audited
from pipelines.labelling.audit_rules import ALL_ROWS, STRICT, AuditRules, Reason

JOBS = ("a", "b", "c", "d", "e", "f")
SENSITIVITY = dict(zip(JOBS, (0.05, 0.1, 0.2, 0.3, 0.5, 1.6), strict=True))


def overlapping(job: str, neighbour: str) -> float:
    return 1 + SENSITIVITY[job] * (0.3 + SENSITIVITY[neighbour])


def proportional(job: str, neighbour: str) -> float:
    return (1 + SENSITIVITY[job] / 2) * (1 + SENSITIVITY[neighbour] / 5)


def measured(seed: int = 0, noise: float = 0.01, slowdown=overlapping) -> pd.DataFrame:
    """Two exclusive runs of six jobs, and both sides of every pair, with a little noise."""
    rng = np.random.default_rng(seed)
    rows = [
        {"run_id": f"{job}-alone-{turn}", "job_key": job, "is_exclusive": True, "slowdown": 1.0}
        for job in JOBS
        for turn in range(2)
    ]
    for index, first in enumerate(JOBS):
        for second in JOBS[index:]:
            sides = ((first, second, 0, 1), (second, first, 1, 0))
            for job, neighbour, side, other in sides:
                rows.append(
                    {
                        "run_id": f"{first}+{second}-{side}",
                        "job_key": job,
                        "neighbour_key": neighbour,
                        "neighbour_run_id": f"{first}+{second}-{other}",
                        "is_exclusive": False,
                        "neighbour_overlap": 1.0,
                        "slowdown": slowdown(job, neighbour),
                    }
                )
    frame = pd.DataFrame(rows)
    jct = 10.0 * (1 + frame["job_key"].map(JOBS.index))
    noisy = rng.normal(1, noise, len(frame))
    frame["jct_s"] = jct * frame.pop("slowdown") * noisy
    return frame.assign(family=frame["job_key"], gpu_model="v100", outcome="ok")


def changed(run_id: str, **values) -> pd.DataFrame:
    frame = measured()
    frame.loc[frame["run_id"] == run_id, list(values)] = list(values.values())
    return frame


def verdict(frame: pd.DataFrame, run_id: str, rules: AuditRules | None = None) -> tuple[str, str]:
    found = audited(frame, rules).quarantine.set_index("run_id")
    return found.loc[run_id, "reason"], found.loc[run_id, "evidence"]


def test_sound_runs_are_all_kept():
    audit = audited(measured())
    assert len(audit.labels) == 42
    assert audit.quarantine.empty
    assert audit.flags.empty


@pytest.mark.parametrize(
    ("values", "reason", "evidence"),
    [
        ({"outcome": "oom"}, Reason.OUT_OF_MEMORY, "outcome oom"),
        ({"outcome": "failed"}, Reason.FAILED, "outcome failed"),
        ({"outcome": "preempted"}, Reason.FAILED, "outcome preempted"),
        ({"jct_s": np.nan}, Reason.NO_SPEED, "neither steps_per_s nor jct_s"),
        ({"jct_s": 0.5}, Reason.TOO_SHORT, "ran 0.5 s"),
        ({"neighbour_overlap": 0.6}, Reason.NEIGHBOUR_CHANGED, "overlap 0.60"),
        ({"gpu_model": "k80"}, Reason.NO_BASELINE, "none on this GPU model or in this measure"),
        ({"job_key": "z"}, Reason.NO_BASELINE, "none at all"),
        ({"jct_s": 300.0}, Reason.UNIT_ERROR, "times what this job and this neighbour give"),
        ({"jct_s": 1.1}, Reason.UNIT_ERROR, "times what this job and this neighbour give"),
        ({"jct_s": 17.0}, Reason.BELOW_ONE, "slowdown 0.8"),
    ],
)
def test_faulty_run_is_quarantined_with_reason_and_evidence(values, reason, evidence):
    found = verdict(changed("b+d-0", **values), "b+d-0")
    assert found[0] == reason
    assert evidence in found[1]


def test_neighbour_that_failed_makes_an_unknown_overlap_suspect():
    frame = changed("b+d-1", outcome="oom").assign(neighbour_overlap=np.nan)
    assert verdict(frame, "b+d-0") == (
        Reason.NEIGHBOUR_CHANGED,
        "overlap unknown, neighbour oom",
    )


@pytest.mark.parametrize(
    ("values", "reason", "evidence"),
    [
        ({"is_exclusive": False}, Reason.BASELINE_NOT_PROVEN, "not proven unshared"),
        ({"outcome": "failed"}, Reason.NO_BASELINE, "exclusive runs left out: failed"),
        ({"jct_s": 0.1}, Reason.NO_BASELINE, "exclusive runs left out: too short"),
        ({"jct_s": np.nan}, Reason.NO_BASELINE, "exclusive runs left out: no speed"),
    ],
)
def test_job_without_a_fit_exclusive_run_has_no_baseline(values, reason, evidence):
    frame = measured()
    alone = (frame["job_key"] == "c") & frame["neighbour_key"].isna()
    frame.loc[alone, list(values)] = list(values.values())
    found = verdict(frame, "c+d-0")
    assert found[0] == reason
    assert evidence in found[1]
    assert len(audited(frame).left_out) == 2


def test_one_unproven_run_beside_a_proven_one_is_only_left_out():
    audit = audited(changed("c-alone-0", is_exclusive=False))
    assert audit.quarantine.empty
    assert audit.left_out["run_id"].tolist() == ["c-alone-0"]
    assert set(audit.labels.query("job_key == 'c'")["baseline_run_ids"]) == {"c-alone-1"}


def test_two_exclusive_runs_that_contradict_each_other_are_both_left_out():
    audit = audited(changed("c-alone-0", jct_s=30_000.0))
    assert audit.left_out["reason"].tolist() == [Reason.UNIT_ERROR] * 2
    assert set(audit.quarantine["reason"]) == {Reason.NO_BASELINE}


def test_outlier_among_three_exclusive_runs_is_outvoted():
    frame = measured()
    third = frame[frame["run_id"] == "c-alone-0"].assign(run_id="c-alone-2", jct_s=1800.0)
    audit = audited(pd.concat([frame, third]))
    assert audit.left_out["run_id"].tolist() == ["c-alone-2"]
    assert audit.quarantine.empty


@pytest.mark.parametrize("factor", [10, 60, 1000, 1 / 60])
def test_baseline_in_another_unit_condemns_all_rows_of_the_job(factor):
    frame = measured()
    alone = (frame["job_key"] == "c") & frame["neighbour_key"].isna()
    frame.loc[alone, "jct_s"] *= factor
    audit = audited(frame, AuditRules(min_run_s=0.0))
    assert set(audit.quarantine["job_key"]) == {"c"}
    assert set(audit.quarantine["reason"]) == {Reason.UNIT_ERROR}
    assert len(audit.labels) == 42 - 7


def test_exchanged_measurements_are_found_on_both_sides():
    frame = measured()
    one, other = (frame.index[frame["run_id"] == f"a+f-{side}"][0] for side in (0, 1))
    frame.loc[[one, other], "jct_s"] = frame.loc[[other, one], "jct_s"].to_numpy()
    audit = audited(frame)
    assert audit.quarantine["run_id"].tolist() == ["a+f-0", "a+f-1"]
    assert set(audit.quarantine["reason"]) == {Reason.SWAPPED}


def test_exchanged_slowdowns_are_found_on_both_sides():
    frame = measured(slowdown=proportional)
    one, other = (frame.index[frame["run_id"] == f"a+f-{side}"][0] for side in (0, 1))
    jct = frame["jct_s"].copy()
    frame.loc[one, "jct_s"], frame.loc[other, "jct_s"] = jct[other] / 6, jct[one] * 6
    assert set(audited(frame).quarantine["reason"]) == {Reason.SWAPPED}


def with_memory(card_mem_mib: float) -> pd.DataFrame:
    """Every job takes 1000 MiB alone; one pair's card held `card_mem_mib`."""
    frame = measured()
    frame["gpu_mem_mib_mean"] = np.where(frame["is_exclusive"], 1000.0, np.nan)
    pair = frame["run_id"].isin(["a+b-0", "a+b-1"])
    return frame.assign(card_mem_mib=np.where(pair, card_mem_mib, np.nan))


def test_neighbour_whose_memory_the_card_never_held_was_not_there():
    reason, evidence = verdict(with_memory(1000.0), "a+b-0")
    assert reason == Reason.NEIGHBOUR_ABSENT
    assert evidence == "the card held the larger job's memory and 0% of the other's"


def test_neighbour_that_took_less_memory_than_alone_was_there():
    frame = with_memory(1400.0)
    assert {"a+b-0", "a+b-1"} <= set(audited(frame).labels["run_id"])


def test_same_value_beside_every_neighbour_is_imputed():
    frame = measured()
    together = (frame["job_key"] == "d") & frame["neighbour_key"].notna()
    frame.loc[together, "jct_s"] = frame.loc[frame["job_key"] == "d", "jct_s"].head(2).median()
    audit = audited(frame)
    assert set(audit.quarantine["job_key"]) == {"d"}
    assert set(audit.quarantine["reason"]) == {Reason.IMPUTED}
    assert "exactly 1.000 beside all 6 neighbours" in set(audit.quarantine["evidence"])


def slow_baseline(factor: float) -> pd.DataFrame:
    frame = measured()
    alone = (frame["job_key"] == "a") & frame["neighbour_key"].isna()
    frame.loc[alone, "jct_s"] *= factor
    return frame


def test_baseline_low_within_the_noise_is_flagged_and_kept():
    audit = audited(slow_baseline(1.1), AuditRules(noise_sds=20))
    assert audit.quarantine.empty
    assert set(audit.flags["reason"]) == {Reason.SUSPECT_BASELINE}
    assert set(audit.flags["job_key"]) == {"a"}


def test_strict_rules_quarantine_what_is_only_flagged_by_default():
    strict = AuditRules(noise_sds=20, flag_only=STRICT.flag_only)
    audit = audited(slow_baseline(1.1), strict)
    assert set(audit.quarantine["reason"]) == {Reason.SUSPECT_BASELINE}


def test_baseline_low_beyond_the_noise_condemns_all_rows_of_the_job():
    audit = audited(slow_baseline(1.5))
    assert set(audit.quarantine["reason"]) == {Reason.WRONG_BASELINE}
    assert set(audit.quarantine["job_key"]) == {"a"}


def test_few_neighbours_prove_nothing_of_the_whole_job():
    audit = audited(slow_baseline(1.1), AuditRules(noise_sds=20, min_neighbours=20))
    assert audit.flags.empty


@pytest.mark.parametrize("rules", [AuditRules(), STRICT, ALL_ROWS])
def test_kept_and_quarantined_rows_are_all_colocated_rows_once(rules):
    frame = slow_baseline(1.5)
    frame.loc[frame["run_id"].isin(["b+d-0", "e+e-1"]), "outcome"] = ["oom", "failed"]
    audit = audited(frame, rules)
    ids = [*audit.labels["run_id"], *audit.quarantine["run_id"]]
    assert sorted(ids) == sorted(frame.loc[frame["neighbour_key"].notna(), "run_id"])
    assert set(audit.flags["run_id"]) <= set(audit.labels["run_id"])


def test_all_rows_keeps_everything_that_has_a_label():
    audit = audited(slow_baseline(1.5), ALL_ROWS)
    assert len(audit.labels) == 42
    assert Reason.WRONG_BASELINE in set(audit.flags["reason"])


def test_input_is_unchanged_and_order_does_not_matter():
    frame = changed("b+d-0", jct_s=300.0)
    before = frame.copy()
    audit, backwards = audited(frame), audited(frame.iloc[::-1])
    pd.testing.assert_frame_equal(frame, before)
    assert set(audit.labels["run_id"]) == set(backwards.labels["run_id"])
    assert audit.noise.label_sd == pytest.approx(backwards.noise.label_sd)


def test_floor_lies_three_standard_deviations_of_the_noise_below_one():
    noise = audited(measured()).noise
    assert noise.is_measured
    assert noise.label_sd >= noise.repeat_sd
    assert noise.floor == pytest.approx(1 - 3 * noise.label_sd)


def test_jobs_without_a_colocated_run_do_not_count_as_noise():
    frame = measured()
    wild = frame.head(2).assign(job_key="wild", run_id=["w1", "w2"], jct_s=[10.0, 20.0])
    assert audited(pd.concat([frame, wild])).noise == audited(frame).noise


def test_more_noise_lowers_the_highest_possible_r2():
    calm, loud = audited(measured(noise=0.005)).noise, audited(measured(noise=0.03)).noise
    assert 0 < loud.ceiling_r2 < calm.ceiling_r2 < 1


def test_noise_is_assumed_and_said_so_where_nothing_measures_it():
    frame = measured()
    once = frame[~frame["run_id"].str.endswith("alone-1")]
    pairs = once[once["job_key"] != once["neighbour_key"].fillna("")]
    noise = audited(pairs).noise
    assert not noise.is_measured
    assert (noise.label_sd, noise.floor) == (0.05, pytest.approx(0.85))
    assert np.isnan(noise.ceiling_r2)


def test_no_runs_at_all_give_an_empty_audit():
    audit = audited(measured().head(2))
    assert audit.labels.empty
    assert audit.summary()["rows"] == 0


def test_summary_counts_every_reason_once():
    summary = audited(changed("b+d-0", outcome="oom")).summary()
    assert (summary["rows"], summary["kept"], summary["quarantined"]) == (42, 41, 1)
    assert summary["quarantined_out_of_memory"] == 1
    assert sum(value for key, value in summary.items() if key.startswith("quarantined_")) == 1


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"flag_only": frozenset({Reason.NO_BASELINE})}, "reasons that leave a label, got no base"),
        ({"min_overlap": 1.5}, r"min_overlap must be in \[0, 1\], got 1.5"),
        ({"unit_factor": 1.0}, "unit_factor and swap_factor must be above 1"),
        ({"assumed_noise_sd": 0.0}, "assumed_noise_sd must be above 0"),
        ({"significance": 1.0}, r"significance must be in \(0, 1\), got 1.0"),
    ],
)
def test_rule_that_means_nothing_is_refused(values, message):
    with pytest.raises(SettingError, match=message):
        AuditRules(**values)


@pytest.fixture(scope="module")
def lucid_runs(public_data):
    return lucid.read(public_data / "lucid")["profiling_runs"]


def test_lucid_imputed_families_and_low_baselines_are_found(lucid_runs):
    audit = audited(lucid_runs)
    imputed = audit.quarantine[audit.quarantine["reason"] == Reason.IMPUTED]
    assert set(imputed["job_key"].str.partition("/")[0]) == {"PPO", "TD3"}
    assert set(audit.flags["job_key"].str.partition("/")[0]) == {"VGG"}
    assert len(audit.labels) > 0.8 * 1844


def test_lucid_pairs_that_never_shared_a_card_are_found(lucid_runs):
    found = audited(lucid_runs).reasons().loc[str(Reason.NEIGHBOUR_ABSENT)]
    assert found["quarantined"] == 2 * 36


def test_lucid_noise_allows_an_r2_of_about_096(lucid_runs):
    assert audited(lucid_runs, ALL_ROWS).noise.ceiling_r2 == pytest.approx(0.963, abs=0.002)


def test_gavel_loses_only_what_did_not_fit(public_data):
    audit = audited(gavel.read(public_data / "gavel")["profiling_runs"])
    assert set(audit.quarantine["reason"]) == {Reason.OUT_OF_MEMORY}
    assert len(audit.labels) == 1292
