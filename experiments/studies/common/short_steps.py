"""Predicts a step of many micro-batches from two steps of a few.

Once a pipeline of stages is full, every further micro-batch takes it equally long. So the time of a step is a straight line over the number
of micro-batches, and two short steps tell it. That holds where a step begins as the one before ended: gradients are reduced once a step,
nothing is prefetched for the next one, and the step draws no noise. `scoreboard/run.py --golden` compares it with whole runs.
"""
import dataclasses

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
    return Step(*(m + slope * (m - l) for l, m in zip(times(less), times(more))), more, short.core_seconds + long.core_seconds, long.peak_bytes)
