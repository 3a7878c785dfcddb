#!/usr/bin/env python3
"""Do trainings survive the loss of ranks at any moment, what does that cost, and is the cost predicted?"""
import pathlib
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import os

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from common import ROOT, Study, Table, progress, read_json, row  # noqa: E402
from common.table import percent, signed  # noqa: E402

study = Study(__file__, __doc__, needs="the build folder, with Gloo and SimGrid; Linux. It measures this machine, which should have nothing else to do. No GPU.",
              takes="about half an hour for 200 kills and the two ways of recovery (an estimate).")
study.option("--kills", type=int, default=200, metavar="N", help="kills of real processes (default: 200)")
study.option("--seed", type=int, default=1, metavar="N", help="of the ranks and moments that are drawn (default: 1)")
study.option("--only", choices=("kills", "goodput"), help="one part of the study")
RANKS, PATIENCE = 4, 120  # seconds that a run may take
EVERY = 20  # seconds between faults
WAYS = ["peers", "spare"]


# ---- Kills at random moments ----

def ranks_of(folder):
    """Process ids of the ranks that have `folder` in their environment, by rank."""
    found = {}
    for entry in pathlib.Path("/proc").iterdir():
        try:
            variables = (entry / "environ").read_bytes().split(b"\0") if entry.name.isdigit() else []
        except OSError:
            continue
        if f"ELASTIC_STUDY={folder}".encode() in variables:
            rank = next((int(v[5:]) for v in variables if v.startswith(b"RANK=")), None)
            if rank is not None:
                found[rank] = int(entry.name)
    return found


class Job:
    def __init__(self, twofold, words, more=()):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="twofold-elastic-"))
        self.log = open(self.folder / "log", "w")
        command = [str(twofold.path), "launch", *words, *more, f"--out={self.folder / 'out'}"]
        self.begun = time.monotonic()
        self.process = subprocess.Popen(command, cwd=ROOT, stdout=self.log, stderr=subprocess.STDOUT,
                                        env=dict(os.environ, ELASTIC_STUDY=str(self.folder)))

    def text(self):
        return (self.folder / "log").read_text()

    def end(self):
        """Its exit status; None if it did not end in time."""
        try:
            return self.process.wait(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            for pid in ranks_of(self.folder).values():
                os.kill(pid, signal.SIGKILL)
            self.process.kill()
            return None

    def report(self):
        return read_json(self.folder / "out/report.json")

    def close(self):
        self.log.close()
        shutil.rmtree(self.folder)


def kill_once(twofold, dice, elastic):
    """What was wrong; the seconds of each part."""
    words = [f"--ranks={RANKS}", "--fabric=gloo"] + ([] if elastic else ["--restarts=1"])
    sets = [] if elastic else ["--set=train.checkpoint.every_steps=5"]
    spec = str(study.folder / ("kills.textproto" if elastic else "restarts.textproto"))
    job = Job(twofold, words, ["--", "run", spec, *sets])
    rank = dice.randrange(1, RANKS)
    while "step 1 of " not in job.text() and job.process.poll() is None:
        time.sleep(0.01)
    time.sleep(1.5 * dice.random())
    victim = ranks_of(job.folder).get(rank)
    killed = victim is not None and job.process.poll() is None
    if killed:
        os.kill(victim, signal.SIGKILL)
    status = job.end()
    seconds = time.monotonic() - job.begun
    wrong, parts = [], None
    if status != 0:
        wrong.append(f"exit status {status}")
    else:
        report = job.report()
        steps = report["first_step"] + len(report["steps"])
        if report["outcome"] != "OK" or steps != 40:
            wrong.append(f"outcome {report['outcome']} after {steps} steps")
        later = [g for g in report["generations"] if g["number"] > 0]
        if killed and elastic and later:
            parts = [later[0][f"{part}_seconds"] for part in ("detect", "reform", "recover")]
    if wrong:
        print(job.text(), file=sys.stderr)
    job.close()
    return wrong, parts, seconds, killed


def kills(twofold, count, dice):
    broken, parts, hit = [], [], 0
    for i in range(count):
        wrong, of, _, killed = kill_once(twofold, dice, True)
        hit += killed
        broken += [f"WRONG: kill {i + 1}: {w}" for w in wrong]
        if of:
            parts.append(of)
        progress(f"kill {i + 1} of {count}: {'WRONG: ' + '; '.join(wrong) if wrong else 'survived' if killed else 'came too late'}"
                 + (f", {' + '.join(f'{p:.3f}' for p in of)} s" if of else ""))
    table = Table("time", "median", "worst")
    rows = []
    names = ["from the beginning of the step that was interrupted until the loss is known", "until the members have agreed",
             "until the first step can begin"]
    for name, of in zip(names, zip(*parts)):
        table.add(name, f"{1e3 * statistics.median(of):,.0f} ms", f"{1e3 * max(of):,.0f} ms")
        rows.append(row(f"kills: {name}", None, statistics.median(of), "s", "none", worst=max(of)))
    restarts = []
    for i in range(min(10, count)):
        wrong, _, seconds, _ = kill_once(twofold, dice, False)
        broken += [f"WRONG: restart {i + 1}: {w}" for w in wrong]
        restarts.append(seconds)
        progress(f"restart {i + 1}: {seconds:.1f} s")
    undisturbed = []
    for _ in range(3):
        job = Job(twofold, [f"--ranks={RANKS}", "--fabric=gloo"], ["--", "run", str(study.folder / "restarts.textproto"), "--set=train.checkpoint.every_steps=5"])
        job.end()
        undisturbed.append(time.monotonic() - job.begun)
        job.close()
    whole, alone = statistics.median(restarts), statistics.median(undisturbed)
    text = [f"Of {count} runs {hit} lost a rank by SIGKILL at a random moment after the first step (the others had ended before it); "
            f"{len({b.split(':')[1] for b in broken})} did not finish the training. {len(parts)} of them formed a new generation; the others lost the rank after the last step.",
            "", f"Started again from the last checkpoint instead (`launch --restarts=1`, a checkpoint every 5 steps), a killed run took {whole:.1f} s in all, median of {len(restarts)}; "
            f"an undisturbed one {alone:.1f} s. With fewer ranks than before, each has more of the cores."]
    rows.append(row("restart from a checkpoint: the whole run", None, whole, "s", "none"))
    return [*table.lines, "", *text], rows, broken


# ---- Goodput: predicted, then measured ----

def events(way, faults):
    """The k-th fault loses the member that came last: the others' ranks stay."""
    first = RANKS - 1
    extra = 1 if way == "spare" else 0
    lost = [first] + [RANKS + extra + k for k in range(faults - 1)]
    return [(EVERY * (k + 1), member) for k, member in enumerate(lost)]


def settings(way, faults, joins):
    text = " ".join(f"{{ at_s: {at} lose: [{member}] }}, {{ at_s: {at} join: 1 }}," if joins else f"{{ at_s: {at} lose: [{member}] }}," for at, member in events(way, faults))
    sets = [f"--set=train.elastic.events=[{text.rstrip(',')}]"]
    if way == "spare":
        sets.append("--set=train.elastic.spare_replicas=1")
    return sets


def measure(twofold, way, faults, steps=300):
    job = Job(twofold, [f"--ranks={RANKS + (way == 'spare')}", "--fabric=gloo", f"--replace={faults}"],
              ["--", "run", str(study.folder / "goodput.textproto"), f"--set=train.steps={steps}", *settings(way, faults, False)])
    status = job.end()
    if status != 0:
        raise SystemExit(f"{way}: exit status {status}\n{job.text()}")
    report = job.report()
    job.close()
    return report


def trained(report):
    """From the first step's beginning to the last one's end."""
    return sum(s["seconds"] for s in report["steps"]) / report["goodput"]


def predict(twofold, way, faults, costs):
    more = [f"--set=fabric.simulated.membership={{ {' '.join(f'{k}: {v:.4f}' for k, v in costs.items())} }}"]
    folder = pathlib.Path(tempfile.mkdtemp(prefix="twofold-elastic-"))
    twofold("run", study.folder / "goodput.textproto", "--fabric=simulated", f"--out={folder}", "--quiet", *more, *settings(way, faults, True))
    report = read_json(folder / "report.json")
    shutil.rmtree(folder)
    return report


def goodput(twofold):
    progress("one loss, to learn what the control plane takes (not one of the rows that are compared)")
    learnt = measure(twofold, "peers", 1, steps=120)["generations"][1:]
    costs = {"detect_s": 0.0, "reform_s": statistics.median(g["reform_seconds"] for g in learnt),
             "arrive_s": max(0.05, learnt[-1]["began_seconds"] - learnt[0]["began_seconds"]) if len(learnt) > 1 else 0.3}
    table = Table("recovery", "faults", "predicted", "measured", "error", "goodput predicted", "goodput measured")
    rows, broken, order = [], [], []
    for way in WAYS:
        faults = 3
        predicted, measured = predict(twofold, way, faults, costs), measure(twofold, way, faults)
        p, m = trained(predicted), trained(measured)
        table.add(way, faults, f"{p:.1f} s", f"{m:.1f} s", signed(p / m - 1), percent(predicted["goodput"]), percent(measured["goodput"]))
        rows.append(row(f"goodput: {way}", p, m, "s", "validation", faults=faults))
        order.append((p, m, way))
        if abs(p / m - 1) > 0.10:
            broken.append(f"WRONG: {way}: predicted {p:.1f} s, measured {m:.1f} s")
    ranked = [way for *_, way in sorted(order)], [way for _, _, way in sorted(order, key=lambda o: o[1])]
    text = f"Order, fastest first: predicted {', '.join(ranked[0])}; measured {', '.join(ranked[1])}."
    if ranked[0] != ranked[1]:
        broken.append("WRONG: " + text)
    return [*table.lines, "", text], rows, broken


def main():
    options, twofold = study.start()
    dice = random.Random(options.seed)
    lines, rows, broken = [], [], []
    if options.only != "goodput":
        more, of, wrong = kills(twofold, options.kills, dice)
        lines += ["## Kills", "", *more, ""]
        rows, broken = rows + of, broken + wrong
    if options.only != "kills":
        more, of, wrong = goodput(twofold)
        lines += ["## Goodput", "", *more]
        rows, broken = rows + of, broken + wrong
    study.publish("What the loss of a rank costs", lines, rows)
    study.end(broken)


if __name__ == "__main__":
    main()
