#!/usr/bin/env python3
"""Checkpoints: killed while they are saved, written as fast as the disk, and beside training.

    experiments/studies/checkpoints/run.py [--write] [--kills=200] [--rounds=5] [--only=kills|rate|overlap] [--seed=1] [TWOFOLD]

Kills: a job that saves after every step (in turn sharded, full, and both asynchronously) is killed (SIGKILL) at a random
moment, over and over in the same folder, each time going on from the latest checkpoint. After every kill what was whole before it
must still be there, unless keep_last newer ones are, and every remaining checkpoint must load: a step is trained from each.
Rate: full checkpoints against a file of the same size written in blocks of 4 MiB and synced, in the same folder, in turn; at
least 70 %, medians. Overlap: steps during which an asynchronous checkpoint is written against the others of the run; less than
5 % more, medians over checkpoints. Nothing else should run beside the last two. --write renews table.md beside this file, of
--only one part that part.
"""
import json
import os
import pathlib
import random
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent.parent
MODES = [("sharded", "SHARDED", "false"), ("full", "FULL", "false"), ("sharded, asynchronous", "SHARDED", "true"),
         ("full, asynchronous", "FULL", "true")]
KEEP = 2  # as killed.textproto has it
BLOCK = 4 << 20
PLACE = ROOT / "build"  # on the disk that is measured


def command(twofold, spec, out, *sets):
    return [str(twofold), "run", str(HERE / spec), f"--out={out}", *[f"--set={s}" for s in sets]]


def run(twofold, spec, out, *sets):
    done = subprocess.run(command(twofold, spec, out, *sets) + ["--quiet"], cwd=ROOT, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(done.stderr.strip() or done.stdout.strip())
    return json.loads((pathlib.Path(out) / "report.json").read_text())


def whole(folder):
    """Names of checkpoints, oldest first."""
    return sorted(p.name for p in folder.iterdir() if not p.name.endswith(".partial")) if folder.exists() else []


def loads(twofold, folder, name, out):
    """Why a checkpoint does not load; None: it does."""
    step = int(name.split("-")[-1])
    try:
        report = run(twofold, "killed.textproto", out, f"train.resume={folder / name}", f"train.steps={step + 1}",
                     f"train.checkpoint.path={out / 'after'}")
        shutil.rmtree(out / "after")
        return None if report["first_step"] == step and len(report["steps"]) == 1 else f"went on from step {report['first_step']}"
    except (RuntimeError, OSError) as error:
        return str(error)


def kill_once(twofold, base, mode, dice):
    """One kill; returns whether a save was going on, checkpoints loaded, and what was wrong."""
    title, kind, asynchronous = mode
    folder = base / "checkpoints"
    before = whole(folder)
    sets = [f"train.checkpoint.path={folder}", f"train.checkpoint.kind={kind}", f"train.checkpoint.asynchronous={asynchronous}"]
    if before:
        sets.append(f"train.resume={folder}")
    process = subprocess.Popen(command(twofold, "killed.textproto", base / "out", *sets) + ["--quiet"], cwd=ROOT,
                               stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    while whole(folder)[-1:] == before[-1:] and process.poll() is None:  # it has saved once
        time.sleep(0.002)
    time.sleep(0.6 * dice.random())
    seen = whole(folder)  # may be older than the kill: what comes after it only adds
    process.send_signal(signal.SIGKILL)
    process.wait()
    if process.returncode != -signal.SIGKILL:
        return False, 0, ["ended by itself: " + process.stderr.read().strip()]
    process.stderr.close()
    saving = any(p.name.endswith(".partial") for p in folder.iterdir())
    after = whole(folder)
    wrong = []
    for name in seen[-KEEP:]:
        newer = sum(other > name for other in after)
        if name not in after and newer < KEEP:
            wrong.append(f"{name} is lost, of newer ones there are {newer}")
    for name in after:
        why = loads(twofold, folder, name, base / "load")
        if why:
            wrong.append(f"{name} does not load: {why}")
    return saving, len(after), wrong


def kills(twofold, count, dice):
    rows, wrong, bases = [], [], {}
    totals = {mode[0]: [0, 0, 0, 0] for mode in MODES}
    with tempfile.TemporaryDirectory(prefix="twofold-checkpoints-", dir=PLACE) as place:
        for i in range(count):
            mode = MODES[i % len(MODES)]
            base = bases.setdefault(mode[0], pathlib.Path(place) / mode[0].replace(", ", "-"))
            base.mkdir(exist_ok=True)
            saving, loaded, bad = kill_once(twofold, base, mode, dice)
            for total, add in enumerate((1, saving, loaded, len(bad))):
                totals[mode[0]][total] += add
            wrong += [f"{mode[0]}, kill {i + 1}: {w}" for w in bad]
            print(f"kill {i + 1} of {count}: {mode[0]}, {'while saving, ' if saving else ''}{loaded} checkpoints load"
                  f"{' WRONG: ' + '; '.join(bad) if bad else ''}", file=sys.stderr, flush=True)
    rows = ["| saved | kills | while a save was going on | checkpoints loaded after them | lost or bad |", "|---|---|---|---|---|"]
    rows += [f"| {title} | {n} | {saving} | {loaded} | {bad} |" for title, (n, saving, loaded, bad) in totals.items()]
    return rows, wrong


def plain_write(path, size):
    block = memoryview(os.urandom(BLOCK))
    begun = time.monotonic()
    with open(path, "wb", buffering=0) as out:
        for at in range(0, size, BLOCK):
            out.write(block[:min(BLOCK, size - at)])
        os.fsync(out.fileno())
    seconds = time.monotonic() - begun
    os.remove(path)
    return size / seconds / 1e6


def rate(twofold, rounds):
    ours, disks = [], []
    with tempfile.TemporaryDirectory(prefix="twofold-checkpoints-", dir=PLACE) as place:
        place = pathlib.Path(place)
        for i in range(rounds):
            os.sync()
            report = run(twofold, "written.textproto", place / "out")
            saved = report["checkpoints"]
            ours += [c["bytes"] / c["seconds"] / 1e6 for c in saved]
            shutil.rmtree(place / "out/checkpoints")
            os.sync()
            disks += [plain_write(place / "plain", saved[0]["bytes"]) for _ in saved]
            print(f"round {i + 1} of {rounds}: {statistics.median(ours):.0f} MB/s, the disk {statistics.median(disks):.0f} MB/s",
                  file=sys.stderr, flush=True)
    share = statistics.median(ours) / statistics.median(disks)
    rows = ["| bytes of a checkpoint | full checkpoint, MB/s | the disk, MB/s | share |", "|---|---|---|---|",
            f"| {saved[0]['bytes']:,} | {statistics.median(ours):.0f} ({min(ours):.0f} to {max(ours):.0f}) | "
            f"{statistics.median(disks):.0f} ({min(disks):.0f} to {max(disks):.0f}) | {100 * share:.0f} % |"]
    return rows, [] if share >= 0.7 else [f"a full checkpoint is written at {100 * share:.0f} % of the disk's rate"]


def overlap(twofold, rounds):
    added, steps_each, still = [], [], []
    with tempfile.TemporaryDirectory(prefix="twofold-checkpoints-", dir=PLACE) as place:
        place = pathlib.Path(place)
        for i in range(rounds):
            report = run(twofold, "overlapped.textproto", place / "out")
            seconds = [s["seconds"] for s in report["steps"]]
            busy = {}
            for c in report["checkpoints"]:
                if c["step"] == len(seconds):
                    continue  # nothing is trained beside the last
                at, left = c["step"], c["seconds"] - c["stood_still_seconds"]
                while left > 0 and at < len(seconds):
                    busy.setdefault(c["step"], []).append(at)
                    left -= seconds[at]
                    at += 1
                still.append(c["stood_still_seconds"])
            beside = {s for steps in busy.values() for s in steps}
            quiet = statistics.median(s for n, s in enumerate(seconds) if n >= 10 and n not in beside)
            added += [statistics.mean(seconds[s] for s in steps) / quiet - 1 for steps in busy.values()]
            steps_each += [len(steps) for steps in busy.values()]
            shutil.rmtree(place / "out/checkpoints")
            print(f"round {i + 1} of {rounds}: {100 * statistics.median(added):+.1f} % a step", file=sys.stderr, flush=True)
    more = statistics.median(added)
    rows = ["| a step alone | asynchronous saves | steps beside each, median | they take more, median | training stood still, median |",
            "|---|---|---|---|---|",
            f"| {1000 * quiet:.0f} ms | {len(added)} | {statistics.median(steps_each):.0f} | {100 * more:+.1f} % "
            f"({100 * min(added):+.1f} to {100 * max(added):+.1f}) | {1000 * statistics.median(still):.0f} ms |"]
    return rows, [] if more < 0.05 else [f"an asynchronous save adds {100 * more:.1f} % to the steps beside it"]


def main():
    options = {a.split("=")[0]: a.split("=")[-1] for a in sys.argv[1:] if a.startswith("--")}
    arguments = [a for a in sys.argv[1:] if not a.startswith("--")]
    twofold = pathlib.Path(arguments[0] if arguments else ROOT / "build/release/experiments/program/twofold").resolve()
    dice, only, rounds = random.Random(int(options.get("--seed", 1))), options.get("--only"), int(options.get("--rounds", 5))
    table, wrong = HERE / "table.md", []
    sections = dict(re.findall(r"^## (.*)\n\n(.*?)(?=\n## |\Z)", table.read_text() if table.exists() else "", re.MULTILINE | re.DOTALL))
    parts = [("kills", "Killed (2 ranks in memory, ZeRO-3, the last 2 are kept)", lambda: kills(twofold, int(options.get("--kills", 200)), dice)),
             ("rate", "Written, against a synced file of the same size", lambda: rate(twofold, rounds)),
             ("overlap", "Beside training (1 rank)", lambda: overlap(twofold, rounds))]
    for name, title, part in parts:
        if only in (None, name):
            rows, bad = part()
            sections[title] = "\n".join(rows) + f"\n\nBroken rules: {len(bad)}. {os.cpu_count()} cores.\n"
            print(f"## {title}\n\n{sections[title]}", flush=True)
            wrong += bad
    text = "# Checkpoints: killed, written, and beside training\n" + "".join(
        f"\n## {title}\n\n{sections[title].strip()}\n" for _, title, _ in parts if title in sections)
    for w in wrong:
        print("WRONG:", w)
    if "--write" in options:
        table.write_text(text)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
