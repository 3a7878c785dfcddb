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
              takes="about half an hour for 200 kills, and eight minutes for the three ways of recovery (estimates).")
study.option("--kills", type=int, default=200, metavar="N", help="kills of real processes (default: 200)")
study.option("--seed", type=int, default=1, metavar="N", help="of the ranks and moments that are drawn (default: 1)")
study.option("--only", choices=("kills", "goodput"), help="one part of the study")
RANKS, PATIENCE = 4, 200  # seconds that a run may take
EVERY = 20  # seconds between faults
FAULTS = 3
WAYS = ["peers", "spare", "checkpoint"]
REPLACED_AFTER = 5  # seconds from a loss to the start of the process that replaces it, as if a machine had to be found
SAVE_EVERY = 20  # steps: faults come about half way between two saves, so a little more or less time does not change from where it goes on
PARTS = {"known": "from the beginning of the step that was interrupted until the loss is known", "agreed": "until the members have agreed",
         "recovered": "until the first step can begin"}


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
    rows = []
    for (part, name), of in zip(PARTS.items(), zip(*parts)):
        rows.append(row(f"kills: {part}", None, statistics.median(of), "s", "none", what=name, worst=max(of)))
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
    unfinished = len({b.split(":")[1] for b in broken if b.startswith("WRONG: kill")})
    rows[0:0] = [row("kills: runs", None, count, "runs", "none", hit=hit, unfinished=unfinished, formed=len(parts))]
    rows.append(row("kills: started again from a checkpoint, the whole run", None, statistics.median(restarts), "s", "none", runs=len(restarts)))
    rows.append(row("kills: undisturbed, the whole run", None, statistics.median(undisturbed), "s", "none", runs=len(undisturbed)))
    return rows, broken


def kills_page(rows):
    """The part of the page that says what the rows say."""
    runs, *parts, again, alone = rows
    table = Table("time", "median", "worst")
    for part in parts:
        table.add(part["what"], f"{1e3 * part['measured']:,.0f} ms", f"{1e3 * part['worst']:,.0f} ms")
    return ["## Kills", "", *table.lines, "",
            f"Of {runs['measured']} runs {runs['hit']} lost a rank by SIGKILL at a random moment after the first step (the others had ended before it); "
            f"{runs['unfinished']} did not finish the training. {runs['formed']} of them formed a new generation; the others lost the rank after the last step.",
            "", f"Started again from the last checkpoint instead (`launch --restarts=1`, a checkpoint every 5 steps), a killed run took {again['measured']:.1f} s in all, "
            f"median of {again['runs']}; an undisturbed one {alone['measured']:.1f} s. With fewer ranks than before, each has more of the cores."]


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
    if way == "checkpoint":
        sets += ["--set=train.elastic.on_loss=CHECKPOINT", f"--set=train.checkpoint.every_steps={SAVE_EVERY}"]
    return sets


def replace_lost_ones(job):
    """Until the run ends, starts a process REPLACED_AFTER seconds after each loss."""
    known, due, newcomers = {}, [], []
    while job.process.poll() is None and time.monotonic() < job.begun + PATIENCE:
        time.sleep(0.02)
        if not known and "step 1 of " in job.text():
            pid = ranks_of(job.folder)[1]  # is never lost: newcomers are started as it was
            words, variables = (pathlib.Path(f"/proc/{pid}/{what}").read_bytes().rstrip(b"\0").split(b"\0") for what in ("cmdline", "environ"))
            known = {"args": words, "env": dict(v.split(b"=", 1) for v in variables) | {b"TWOFOLD_JOIN": b"1"}}
        lost = job.text().count("was killed by signal") + sum(newcomer.poll() is not None for newcomer in newcomers)  # launch's ranks, and ours
        due += [time.monotonic() + REPLACED_AFTER] * (lost - len(due))
        if len(newcomers) < len(due) and due[len(newcomers)] <= time.monotonic():
            newcomers.append(subprocess.Popen(**known, cwd=ROOT, stdout=job.log, stderr=subprocess.STDOUT))
    return newcomers


def measure(twofold, way, faults, steps=300):
    job = Job(twofold, [f"--ranks={RANKS + (way == 'spare')}", "--fabric=gloo"],
              ["--", "run", str(study.folder / "goodput.textproto"), f"--set=train.steps={steps}", *settings(way, faults, False)])
    newcomers = replace_lost_ones(job)
    status = job.end()
    for newcomer in newcomers:
        newcomer.kill(), newcomer.wait()  # which do nothing to those that have ended with the run
    if status != 0:
        raise SystemExit(f"{way}: exit status {status}\n{job.text()}")
    report = job.report()
    job.close()
    return report


def block(fields):
    return f"{{ {' '.join(f'{name}: {value:.6g}' for name, value in fields.items())} }}"


def predict(twofold, way, faults, profile, membership, storage):
    more = [f"--set=fabric.simulated.profile={profile}", "--set=fabric.simulated.links=gloo", f"--set=fabric.simulated.membership={block(membership)}"]
    if way == "checkpoint":
        more.append(f"--set=fabric.simulated.storage={block(storage)}")
    folder = pathlib.Path(tempfile.mkdtemp(prefix="twofold-elastic-"))
    twofold("run", study.folder / "goodput.textproto", "--fabric=simulated", f"--out={folder}", "--quiet", *more, *settings(way, faults, True))
    report = read_json(folder / "report.json")
    shutil.rmtree(folder)
    return report


def learn(twofold, profile):
    """What predictions need to know of this machine: its messages go into `profile`; what the control plane and files take. From no row that is compared."""
    progress("calibration: messages of Gloo")
    twofold("launch", f"--ranks={RANKS}", "--fabric=gloo", "--", "calibrate", "--fabric=gloo", f"--out={profile}")
    progress("calibration: one loss")
    report = measure(twofold, "checkpoint", 1, steps=120)
    later = report["generations"][1:]
    loaded = [g for g in later if g["load_bytes"] > 0]
    saves = [c["bytes"] / RANKS / c["stood_still_seconds"] for c in report["checkpoints"]]
    came = later[-1]["began_seconds"] - later[-1]["recover_seconds"] - later[-1]["reform_seconds"] - details(report)["step"] / 2  # it came within a step
    membership = {"reform_s": statistics.median(g["reform_seconds"] for g in later), "arrive_s": came - EVERY}
    storage = {"write_gbytes_per_second": statistics.median(saves) / 1e9,
               "read_gbytes_per_second": statistics.median(g["load_bytes"] / g["load_seconds"] for g in loaded) / 1e9}
    return membership, storage


def goodput(twofold):
    folder = pathlib.Path(tempfile.mkdtemp(prefix="twofold-elastic-"))
    membership, storage = learn(twofold, folder / "profile.textproto")
    rows = [row(f"goodput: learnt: {name}", None, value, "s" if name.endswith("_s") else "GB/s", "calibration") for name, value in {**membership, **storage}.items()]
    for way in WAYS:
        progress(f"{way}: predicted, then measured")
        predicted, measured = predict(twofold, way, FAULTS, folder / "profile.textproto", membership, storage), measure(twofold, way, FAULTS)
        more = {f"{name}_{how}": value for how, report in (("predicted", predicted), ("measured", measured)) for name, value in details(report).items()}
        rows.append(row(f"goodput: {way}", predicted["trained_seconds"], measured["trained_seconds"], "s", "validation", faults=FAULTS, **more))
        progress(str(rows[-1]))
    shutil.rmtree(folder)
    return rows, wrong_goodput(rows)


def details(report):
    return {"goodput": report["goodput"], "step": statistics.median(s["seconds"] for s in report["steps"]), "lost_steps": sum(g["lost_steps"] for g in report["generations"]),
            "saving": sum(c["stood_still_seconds"] for c in report["checkpoints"])}


def compared(rows):
    return {r["name"].removeprefix("goodput: "): r for r in rows if r["role"] == "validation"}


def orders(rows):
    """The ways, the fastest first: predicted, measured."""
    ways = compared(rows)
    return [sorted(ways, key=lambda way: ways[way][how]) for how in ("predicted", "measured")]


def wrong_goodput(rows):
    broken = [f"WRONG: {way}: predicted {r['predicted']:.1f} s, measured {r['measured']:.1f} s" for way, r in compared(rows).items() if abs(r["error"]) > 0.10]
    predicted, measured = orders(rows)
    return broken + ([] if predicted == measured else [f"WRONG: order: predicted {', '.join(predicted)}; measured {', '.join(measured)}"])


def goodput_page(rows):
    table = Table("recovery", "faults", "predicted", "measured", "error", "a step, predicted", "measured", "steps done again, predicted", "measured",
                  "saving, predicted", "measured", "goodput, predicted", "measured")
    for way, r in compared(rows).items():
        both = lambda name, text: [text(r[f"{name}_predicted"]), text(r[f"{name}_measured"])]  # noqa: E731
        table.add(way, r["faults"], f"{r['predicted']:.1f} s", f"{r['measured']:.1f} s", signed(r["error"]), *both("step", lambda s: f"{1e3 * s:.1f} ms"),
                  *both("lost_steps", str), *both("saving", lambda s: f"{s:.2f} s"), *both("goodput", percent))
    predicted, measured = orders(rows)
    learnt = {r["name"].removeprefix("goodput: learnt: "): r["measured"] for r in rows if r["role"] == "calibration"}
    return ["## Goodput", "", *table.lines, "", f"Order, fastest first: predicted {', '.join(predicted)}; measured {', '.join(measured)}.", "",
            f"Learnt from other runs: the members agree in {1e3 * learnt['reform_s']:.0f} ms, a new process has come after {learnt['arrive_s']:.2f} s, and each rank "
            f"writes checkpoints at {learnt['write_gbytes_per_second']:.3f} GB/s and reads them at {learnt['read_gbytes_per_second']:.3f} GB/s."]


def kept(part):
    """The published rows of a part that is not done again."""
    rows = [r for r in read_json(study.folder / "results.json")["rows"] if r["name"].startswith(f"{part}: ")]
    if part == "kills" and not any("hit" in r for r in rows) or not rows:
        raise SystemExit(f"results.json has no complete rows of the part {part}: do both parts (leave --only out)")
    return rows


def main():
    options, twofold = study.start()
    dice = random.Random(options.seed)
    lines, rows, broken = [], [], []
    for part, do, page in (("kills", lambda: kills(twofold, options.kills, dice), kills_page), ("goodput", lambda: goodput(twofold), goodput_page)):
        if options.only in (None, part):
            of, wrong = do()
            broken += wrong
        elif options.write:
            of = kept(part)
        else:
            continue
        rows += of
        lines += [*page(of), ""]
    study.publish("What the loss of a rank costs", lines, rows)
    study.end(broken)


if __name__ == "__main__":
    main()
