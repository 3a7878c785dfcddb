"""Predicts a step of many micro-batches from two steps of a few.

Once a pipeline of stages is full, every further micro-batch takes it equally long. So the time of a step is a straight line over the number
of micro-batches, and two short steps tell it. So is its wait for links; the interval follows from both. That holds where a step begins as the one before ended: gradients are reduced once a step,
nothing is prefetched for the next one, and the step draws no noise. `scoreboard/run.py --golden` compares it with whole runs.
"""
import dataclasses
import math

ONE_STEP = {"train.steps": 1, "train.warmup_steps": 0}


@dataclasses.dataclass(frozen=True)
class Step:
    seconds: float
    low: float
    high: float
    report: dict  # of the longer of both; as much memory is held as with all micro-batches
    core_seconds: float = 0  # of a core, both together
    peak_bytes: float = 0  # of the program that predicted it


def times(report):
    return tuple(report[name] for name in ("median_step_seconds", "low", "high"))


def waits_for_links(report):
    """Seconds of a step that is not the pipeline's bubble."""
    return max(0.0, report.get("exposed_communication_seconds", 0) - report.get("bubble_fraction", 0) * report["median_step_seconds"])


def error(less, more, whole, end):
    """What the interval adds at one end of a step of (seconds, waits): as ExtendedError of experiments/program/plan/fewer_micro_batches.h."""
    def squares(seconds, waits):
        return (seconds - waits) ** 2, waits ** 2

    (a, a_links), (b, b_links) = (squares(r["median_step_seconds"], waits_for_links(r)) for r in (less, more))
    off_a, off_b = ((r[end] - r["median_step_seconds"]) ** 2 for r in (less, more))
    computing, links = squares(*whole)
    determinant = a * b_links - b * a_links
    if abs(determinant) > 1e-2 * a * b_links:
        of_computing, of_links = (off_a * b_links - off_b * a_links) / determinant, (a * off_b - b * off_a) / determinant
        if min(of_computing, of_links) >= 0:
            return math.sqrt(of_computing * computing + of_links * links)
    return whole[0] * abs(more[end] / more["median_step_seconds"] - 1)


def fewer(settings):
    """(micro-batches of a step, and of two shorter ones; None: they would not be shorter)."""
    stages, one = settings.get("parallel.pp", 1), settings["train.micro_batch"] * settings.get("parallel.dp", 1)
    count = settings["train.global_batch"] // one
    few = (2 * stages, 3 * stages) if settings.get("parallel.virtual_stages", 1) > 1 else (stages + 1, stages + 3)
    return count, few if sum(few) < count else None


def short_step(twofold, spec, settings):
    """A Step, of settings with whole numbers."""
    def run(micro_batches):
        batch = micro_batches * settings["train.micro_batch"] * settings.get("parallel.dp", 1)
        return twofold.job(spec, {**settings, **ONE_STEP, "train.global_batch": batch}, statuses=(0, 3))

    count, few = fewer(settings)
    if few is None:
        report, ran = run(count)
        return Step(*times(report), report, ran.core_seconds, ran.peak_bytes)
    (less, short), (more, long) = map(run, few)
    slope = (count - few[1]) / (few[1] - few[0])
    extended = lambda part: part(more) + slope * (part(more) - part(less))
    whole = extended(lambda report: report["median_step_seconds"]), extended(waits_for_links)
    low, high = (whole[0] + sign * error(less, more, whole, end) for sign, end in ((-1, "low"), (1, "high")))
    return Step(whole[0], low, high, more, short.core_seconds + long.core_seconds, long.peak_bytes)
