#!/usr/bin/env python3
"""What does asynchronous training learn, and what does it save if one worker of four is three times as slow?"""
import pathlib
import statistics
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from common import Study, Table, percent, progress, row, signed  # noqa: E402

study = Study(__file__, __doc__, needs="`twofold`, and this machine to itself: it calibrates and measures. No GPU.", takes="about 25 minutes on 2 cores.",
              quick="one seed, a tenth of the steps, and `calibrate --quick`: whether everything runs, not what it learns")
study.option("--only", metavar="PART", choices=("learning", "time"), help="only this part (default: both; --write needs both)")

WORKERS, FACTOR, ALLOWED = 4, 3, 0.03
SEEDS = (1, 2, 3)
SYNCHRONOUS = "synchronous"
# method: (settings of train.async_sgd or None, whether the bound of 3 % counts for it)
METHODS = {
    SYNCHRONOUS: (None, False),
    "servers, staleness 4": ("{}", True),
    "servers, no bound": ("{ staleness: -1 }", False),
    "servers, no bound, staleness-aware": ("{ staleness: -1 staleness_aware: true }", False),
    "gossip": ("{ mode: GOSSIP }", False),
}
# Virtual time decides who is fast. A cluster whose links are fast beside its processors: computing decides.
CLUSTER = {"fabric.simulated.cluster": '"star-a100"', "fabric.simulated.data": "REAL"}


def straggler(fabric, method, slow):
    """The last worker is slow. With servers, workers come after them."""
    if not slow:
        return {}
    last = WORKERS - 1 + (1 if method.startswith("servers") else 0)
    return {f"fabric.{fabric}.stragglers": f"[{{ rank: {last} factor: {FACTOR} }}]"}


def settings_of(method, steps, seed):
    async_sgd = METHODS[method][0]
    return {"train.seed": seed, **({"train.async_sgd": async_sgd} if async_sgd else {}), **({"train.steps": steps, "train.schedule.warmup_steps": 4} if steps else {})}


def last_loss(report):
    """The mean over the last eighth of the steps."""
    losses = [step["loss"] for step in report["steps"]]
    return statistics.mean(losses[-max(1, len(losses) // 8):])


def learn(twofold, quick):
    """By model, method and whether a worker is slow: the reports of the seeds."""
    found = {}
    for model in ("gpt", "cnn"):
        for method in METHODS:
            for slow in (False, True):
                if method == SYNCHRONOUS and slow:
                    continue  # the same losses
                reports = [twofold.report(study.folder / f"{model}.textproto",
                                          {**CLUSTER, **straggler("simulated", method, slow), **settings_of(method, 30 if quick else None, seed)})
                           for seed in (SEEDS[:1] if quick else SEEDS)]
                progress(f"{model}, {method}{', a slow worker' if slow else ''}: loss {statistics.mean(map(last_loss, reports)):.4f}")
                found[model, method, slow] = reports
    return found


def learning_table(found):
    table, rows, missed = Table("model", "method", "one worker is slow", "training loss", "spread of seeds", "against synchronous", "allowed", "mean staleness", "at most", ""), [], []
    for (model, method, slow), reports in found.items():
        losses = list(map(last_loss, reports))
        base = statistics.mean(map(last_loss, found[model, SYNCHRONOUS, False]))
        loss, bounded = statistics.mean(losses), METHODS[method][1]
        met = loss <= base * (1 + ALLOWED)
        stale = [r["async_sgd"] for r in reports if "async_sgd" in r]
        table.add(model, method, "yes" if slow else "", f"{loss:.4f}", f"{max(losses) - min(losses):.4f}", "" if method == SYNCHRONOUS else signed(loss / base - 1),
                  signed(ALLOWED, 0) if bounded else "", f"{statistics.mean(s['mean_staleness'] for s in stale):.2f}" if stale else "",
                  max(s["max_staleness"] for s in stale) if stale else "", "" if not bounded else "met" if met else "NOT MET")
        rows.append(row(f"{model}, {method}{', slow worker' if slow else ''}", base, loss, "nats", role="none"))
        if bounded and not met:
            missed.append(f"{model}, {method}{', a slow worker' if slow else ''}: {signed(loss / base - 1)}")
    return table.lines, rows, missed


def time_to(report, loss):
    """Seconds until the mean loss of ten steps is at most `loss`; None: never."""
    losses, seconds = [s["loss"] for s in report["steps"]], 0.0
    for i, step in enumerate(report["steps"]):
        seconds += step["seconds"]
        if i >= 9 and statistics.mean(losses[i - 9:i + 1]) <= loss:
            return seconds
    return None


def measure_time(twofold, quick):
    """By fabric and method: the report of the gpt with a slow worker."""
    with tempfile.TemporaryDirectory() as folder:
        profile = pathlib.Path(folder) / "this.profile.textproto"
        progress("calibrating")
        twofold("calibrate", f"--out={profile}", *(["--quick"] if quick else []), timeout=3600)
        found = {}
        for method in (SYNCHRONOUS, "servers, staleness 4"):
            for fabric, more in (("simulated", {"fabric.simulated.profile": f'"{profile}"', "fabric.simulated.data": "REAL"}), ("in_memory", {})):
                found[fabric, method] = twofold.report(study.folder / "gpt.textproto", {**more, **straggler(fabric, method, True), **settings_of(method, 30 if quick else None, 1)},
                                                       f"--fabric={fabric}", timeout=3600)
                progress(f"{method} on {fabric}: {sum(s['seconds'] for s in found[fabric, method]['steps']):.1f} s")
    return found


def time_table(found):
    table, rows, missed = Table("fabric", "method", "loss to reach", "time to it", "of synchronous", "all steps", "gradients of the slow worker", "of the fastest"), [], []
    for fabric, word in (("simulated", "predicted"), ("in_memory", "measured")):
        base = found[fabric, SYNCHRONOUS]
        losses = [s["loss"] for s in base["steps"]]
        at = max(10, 2 * len(losses) // 3)
        goal = statistics.mean(losses[at - 10:at])  # of synchronous training after two thirds of its steps
        times = {}
        for method in (SYNCHRONOUS, "servers, staleness 4"):
            report = found[fabric, method]
            times[method] = time_to(report, goal)
            gradients = [w["gradients"] for w in report.get("async_sgd", {}).get("workers", [])]
            told = "never" if times[method] is None else f"{times[method]:.2f} s"
            share = "" if None in times.values() else percent(times[method] / times[SYNCHRONOUS], 0)
            table.add(f"{fabric} ({word})", method, f"{goal:.3f}", told, share, f"{sum(s['seconds'] for s in report['steps']):.2f} s",
                      gradients[-1] if gradients else "", max(gradients) if gradients else "")
            rows.append(row(f"time to a loss, {method}, {word}", times[SYNCHRONOUS], times[method], "s", role="none"))
        if None in times.values() or times["servers, staleness 4"] >= times[SYNCHRONOUS]:
            missed.append(f"{word}: asynchronous training does not reach the loss sooner")
    return table.lines, rows, missed


def main():
    options, twofold = study.start()
    lines, rows, missed = [], [], []
    for part, work in (("learning", lambda: learning_table(learn(twofold, options.quick))), ("time", lambda: time_table(measure_time(twofold, options.quick)))):
        if options.only in (None, part):
            more = work()
            lines += ["", *more[0]]
            rows += more[1]
            missed += more[2]
    study.publish("Asynchronous training: what it learns, and what it saves", [*lines[1:], "", *[f"* not met: {text}" for text in missed]], rows)
    study.end([] if options.quick else [f"not met: {text}" for text in missed])


if __name__ == "__main__":
    main()
