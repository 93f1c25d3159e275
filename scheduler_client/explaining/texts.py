"""The explainer's answers as text for people."""

from collections.abc import Iterator, Mapping
from typing import Any

from scheduler_client.explaining.documents import shown_numbers, shown_seconds

Answer = Mapping[str, Any]  # the scheduler's JSON, as ``documents`` and ``whatif`` make it


def why_text(found: Answer) -> str:
    """Return the answer of ``/why/JOB``."""
    lines = [f"{found['job_id']}: {found['state']}"]
    if found["waiting"] is not None:
        lines += _waiting(found["waiting"], found["wait"])
    elif found["placements"]:
        lines += [f"  {line}" for line in _placed(found["placements"][-1])]
    if found["history"]:
        lines.append("  history:")
        lines += [
            f"    {shown_seconds(found['time'] - span['first_time'])} ago to"
            f" {shown_seconds(found['time'] - span['last_time'])} ago: {span['why']}"
            for span in found["history"]
        ]
    return "\n".join(lines)


def placement_text(found: Answer) -> str:
    """Return the answer of ``/explain/JOB``."""
    lines = [f"{found['job_id']}, attempt {found['attempt']}:"]
    lines += [f"  {line}" for line in _placed(found)]
    lines.append("  terms:")
    lines += [f"    {line}" for line in shown_numbers(found["terms"])]
    return "\n".join([*lines, *_others(found)])


def whatif_text(found: Answer) -> str:
    """Return the answer of ``POST /whatif``."""
    if found["starts_now"]:
        lines = ["it would start now:"]
        lines += [f"  {line}" for line in _placed(found["placement"])]
        lines += list(_others(found["placement"]))
    else:
        lines = ["it would wait:", *_waiting(found["waiting"], found["wait"])]
    runtime = found["runtime_s"]
    if runtime is not None:
        lines.append(f"  it would run for {_range(runtime)}")
    others = found["others"]
    for name, said in (
        ("evicted", "jobs that would be evicted for it"),
        ("would_wait", "jobs that would wait instead of starting now"),
        ("moved", "jobs that would start on other cards"),
    ):
        if others[name]:
            lines.append(f"  {said}: {', '.join(others[name])}")
    if not (others["slowed_down"] or others["evicted"] or others["would_wait"] or others["moved"]):
        lines.append("  nobody else would notice")
    return "\n".join(lines)


def _waiting(waiting: Answer, wait: Answer | None) -> list[str]:
    lines = [f"  reason: {waiting['why']}", f"  next step: {waiting['next_step']}"]
    if wait is None:
        return [*lines, "  it will not start as things are"]
    before = f"{wait['jobs_before']} jobs before it"
    span = {"value": wait["value_s"], "lower": wait["lower_s"], "upper": wait["upper_s"]}
    past = wait["calibrated_on"]
    ground = f"as {past} waits before went" if past else "by predicted runtimes alone"
    return [*lines, f"  starts in {_range(span)}, {ground}; {before}"]


def _placed(placed: Answer) -> list[str]:
    cards, level = ", ".join(placed["card_ids"]), placed["level"]
    lines = [f"on {cards}, {placed['reason']} (level {level}{_age(placed['answer_age_s'])})"]
    if placed["slowdown"] is not None:
        lines.append(f"predicted slowdown {_slowdown(placed['slowdown'])}")
    lines += [
        f"predicted for its neighbour {other['job_id']}: {_slowdown(other['slowdown'])}"
        for other in placed["neighbours"]
        if other["slowdown"] is not None
    ]
    kind = "within its nominal quota" if placed["is_guaranteed"] else "on borrowed GPUs"
    return [*lines, f"runs {kind}"]


def _others(placed: Answer) -> Iterator[str]:
    for other in placed["next_best"]:
        beside = f"beside {', '.join(other['beside'])}" if other["beside"] else "alone"
        yield (
            f"  next best: {other['card_id']} {beside}, score {other['score']:.3f},"
            f" worst slowdown {other['worst_slowdown']:.2f}"
        )
    if placed["why_not"]:
        counts = (f"{reason.replace('_', ' ')} {n}" for reason, n in placed["why_not"].items())
        yield f"  cards that would not do: {', '.join(counts)}"


def _age(answer_age_s: float | None) -> str:
    return "" if answer_age_s is None else f", answers up to {shown_seconds(answer_age_s)} old"


def _slowdown(estimate: Answer) -> str:
    return f"{estimate['value']:.2f} ({estimate['lower']:.2f} to {estimate['upper']:.2f})"


def _range(span: Answer) -> str:
    value, lower, upper = (shown_seconds(span[name]) for name in ("value", "lower", "upper"))
    return f"{value} ({lower} to {upper})"
