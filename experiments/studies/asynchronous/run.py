#!/usr/bin/env python3
"""What does asynchronous training learn, and what does it save if one worker of four is three times as slow?"""
import pathlib
import statistics
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from common import Study, Table, percent, progress, read_json, row, signed  # noqa: E402

study = Study(__file__, __doc__, needs="`twofold`, and this machine to itself: it calibrates and measures. No GPU.", takes="about 25 minutes on 2 cores.",
              quick="one seed, a tenth of the steps, and `calibrate --quick`: whether everything runs, not what it learns")
study.option("--only", metavar="PART", choices=("learning", "time"), help="only this part; with --write, the other one's rows stay as they are (default: both)")

WORKERS, FACTOR, ALLOWED = 4, 3, 0.03
SEEDS = (1, 2, 3)
SYNCHRONOUS, SERVERS = "synchronous", "servers, staleness 4"
# method: (settings of train.async_sgd or None, whether the bound of 3 % counts for it)
METHODS = {
    SYNCHRONOUS: (None, False),
    SERVERS: ("{}", True),
    "servers, no bound": ("{ staleness: -1 }", False),
    "servers, no bound, staleness-aware": ("{ staleness: -1 staleness_aware: true }", False),
    "gossip": ("{ mode: GOSSIP }", False),
}
# model: its optimizers, and whether the rate is the default one, for which the bound counts
OPTIMIZERS = {"gpt": {"adamw {}": True, "adamw { lr: 1e-3 }": False}, "cnn": {"adamw {}": True, "sgd { lr: 0.05 momentum: 0.9 }": False}}
# Virtual time decides who is fast; with these processors, computing decides.
CLUSTER = {"fabric.simulated.profile": f'"{study.folder}/processors.profile.textproto"', "fabric.simulated.data": "REAL"}


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
    """By model, optimizer, method and whether a worker is slow: the reports of the seeds."""
    found = {}
    for model, optimizers in OPTIMIZERS.items():
        for optimizer, usual in optimizers.items():
            for method in METHODS if usual else (SYNCHRONOUS, SERVERS):
                for slow in (False, True):
                    if (method == SYNCHRONOUS and slow) or ("no bound" in method and not slow):
                        continue  # the same losses as without a slow worker, or as with the bound
                    reports = [twofold.report(study.folder / f"{model}.textproto",
                                              {**CLUSTER, **straggler("simulated", method, slow), **settings_of(method, 30 if quick else None, seed),
                                               "train.optimizer": f"{{ {optimizer} }}"})
                               for seed in (SEEDS[:1] if quick else SEEDS)]
                    progress(f"{model}, {optimizer}, {method}{', a slow worker' if slow else ''}: loss {statistics.mean(map(last_loss, reports)):.4f}")
                    found[model, optimizer, method, slow] = reports
    return found


def learning_rows(found):
    rows, missed = [], []
    for (model, optimizer, method, slow), reports in found.items():
        losses = list(map(last_loss, reports))
        base = statistics.mean(map(last_loss, found[model, optimizer, SYNCHRONOUS, False]))
        loss, bounded = statistics.mean(losses), METHODS[method][1] and OPTIMIZERS[model][optimizer]
        met = loss <= base * (1 + ALLOWED)
        stale = [r["async_sgd"] for r in reports if "async_sgd" in r]
        name = f"{model}, {optimizer}, {method}{', slow worker' if slow else ''}"
        cells = [model, f"`{optimizer}`", method, "yes" if slow else "", f"{loss:.4f}", f"{max(losses) - min(losses):.4f}", "" if method == SYNCHRONOUS else signed(loss / base - 1),
                 signed(ALLOWED, 0) if bounded else "", f"{statistics.mean(s['mean_staleness'] for s in stale):.2f}" if stale else "",
                 str(max(s["max_staleness"] for s in stale)) if stale else "", "" if not bounded else "met" if met else "NOT MET"]
        rows.append(row(name, base, loss, "nats", role="none", part="learning", cells=cells))
        if bounded and not met:
            missed.append(f"{name}: {signed(loss / base - 1)}")
    return rows, missed


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
        for method in (SYNCHRONOUS, SERVERS):
            for fabric, more in (("simulated", {"fabric.simulated.profile": f'"{profile}"', "fabric.simulated.data": "REAL"}), ("in_memory", {})):
                found[fabric, method] = twofold.report(study.folder / "gpt.textproto", {**more, **straggler(fabric, method, True), **settings_of(method, 30 if quick else None, 1)},
                                                       f"--fabric={fabric}", timeout=3600)
                progress(f"{method} on {fabric}: {sum(s['seconds'] for s in found[fabric, method]['steps']):.1f} s")
    return found


def time_rows(found):
    rows, missed = [], []
    for fabric, word in (("simulated", "predicted"), ("in_memory", "measured")):
        losses = [s["loss"] for s in found[fabric, SYNCHRONOUS]["steps"]]
        at = max(10, 2 * len(losses) // 3)
        goal = statistics.mean(losses[at - 10:at])  # of synchronous training after two thirds of its steps
        times = {method: time_to(found[fabric, method], goal) for method in (SYNCHRONOUS, SERVERS)}
        for method, seconds in times.items():
            report = found[fabric, method]
            gradients = [w["gradients"] for w in report.get("async_sgd", {}).get("workers", [])]
            cells = [f"{fabric} ({word})", method, f"{goal:.3f}", "never" if seconds is None else f"{seconds:.2f} s",
                     "" if None in times.values() else percent(seconds / times[SYNCHRONOUS], 0), f"{sum(s['seconds'] for s in report['steps']):.2f} s",
                     str(gradients[-1]) if gradients else "", str(max(gradients)) if gradients else ""]
            rows.append(row(f"time to a loss, {method}, {word}", times[SYNCHRONOUS], seconds, "s", role="none", part="time", cells=cells))
        if None in times.values() or times[SERVERS] >= times[SYNCHRONOUS]:
            missed.append(f"{word}: asynchronous training does not reach the loss sooner")
    return rows, missed


HEADERS = {
    "learning": ("model", "optimizer", "method", "one worker is slow", "training loss", "spread of seeds", "against synchronous", "allowed", "mean staleness", "at most", ""),
    "time": ("fabric", "method", "loss to reach", "time to it", "of synchronous", "all steps", "gradients of the slow worker", "of the fastest"),
}


def lines_of(rows):
    lines = []
    for part, header in HEADERS.items():
        table = Table(*header)
        for each in (r for r in rows if r["part"] == part):
            table.add(*each["cells"])
        lines += [f"## {part.capitalize()}", "", *table.lines, ""]
    return lines


def kept(part):
    """The rows of the other part, as they were written."""
    written = study.folder / "results.json"
    return [r for r in read_json(written)["rows"] if r["part"] != part] if written.exists() else []


def main():
    options, twofold = study.start()
    rows, missed = kept(options.only) if options.only and options.write else [], []
    for part, work in (("learning", lambda: learning_rows(learn(twofold, options.quick))), ("time", lambda: time_rows(measure_time(twofold, options.quick)))):
        if options.only in (None, part):
            more, misses = work()
            rows += more
            missed += misses
    study.publish("Asynchronous training: what it learns, and what it saves", [*lines_of(rows), *[f"* not met: {text}" for text in missed]], rows)
    study.end([] if options.quick else [f"not met: {text}" for text in missed])


if __name__ == "__main__":
    main()
