#!/usr/bin/env python3
"""Do checkpoints survive kills while they are saved, are they written as fast as the disk allows, and do they delay training?"""
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

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from common import ROOT, Failed, Study, Table, count, milliseconds, percent, progress, read_json, row, sets, signed  # noqa: E402

study = Study(__file__, __doc__, needs="`twofold` and a disk under build/. It measures this machine and its disk: run nothing else beside the parts rate and "
              "overlap. No GPU.", takes="about 20 minutes (an estimate); --only takes a part.")
study.option("--kills", type=int, default=200, metavar="N", help="jobs that are killed (default: 200)")
study.option("--rounds", type=int, default=5, metavar="N", help="repetitions of the parts rate and overlap (default: 5)")
study.option("--only", choices=("kills", "rate", "overlap"), help="one part; --write keeps the others as they are")
study.option("--seed", type=int, default=1, metavar="N", help="of the moments of kills (default: 1)")
MODES = [("sharded", "SHARDED", "false"), ("full", "FULL", "false"), ("sharded, asynchronous", "SHARDED", "true"),
         ("full, asynchronous", "FULL", "true")]
KEEP = 2  # as killed.textproto has it
BLOCK = 4 << 20
PLACE = ROOT / "build"  # on the disk that is measured
AT_LEAST, ADDED_AT_MOST = 0.7, 0.05  # of the disk's rate; to a step


def scratch():
    PLACE.mkdir(exist_ok=True)
    return tempfile.TemporaryDirectory(prefix="twofold-checkpoints-", dir=PLACE)


def whole(folder):
    """Names of checkpoints, oldest first."""
    return sorted(p.name for p in folder.iterdir() if not p.name.endswith(".partial")) if folder.exists() else []


def loads(twofold, folder, name, out):
    """Why a checkpoint does not load; None: it does."""
    step = int(name.split("-")[-1])
    try:
        report = twofold.report(study.folder / "killed.textproto", {"train.resume": folder / name, "train.steps": step + 1,
                                                                    "train.checkpoint.path": out / "after"}, out=out)
        shutil.rmtree(out / "after")
        return None if report["first_step"] == step and len(report["steps"]) == 1 else f"went on from step {report['first_step']}"
    except (Failed, OSError) as error:
        return str(error)


def start_and_kill(twofold, base, mode, dice):
    """What was whole shortly before the kill, and why there was none (None: there was)."""
    _, kind, asynchronous = mode
    folder = base / "checkpoints"
    before = whole(folder)
    settings = {"train.checkpoint.path": folder, "train.checkpoint.kind": kind, "train.checkpoint.asynchronous": asynchronous,
                **({"train.resume": folder} if before else {})}
    command = [twofold.path, "run", study.folder / "killed.textproto", f"--out={base / 'out'}", "--quiet", *sets(settings)]
    process = subprocess.Popen(list(map(str, command)), cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    while whole(folder)[-1:] == before[-1:] and process.poll() is None:  # it has saved once
        time.sleep(0.002)
    time.sleep(0.6 * dice.random())
    seen = whole(folder)  # may be older than the kill: what comes after it only adds
    process.send_signal(signal.SIGKILL)
    process.wait()
    with process.stderr as messages:
        return seen, None if process.returncode == -signal.SIGKILL else "ended by itself: " + messages.read().strip()


def kill_once(twofold, base, mode, dice):
    """One kill; returns whether a save was going on, checkpoints loaded, and what was wrong."""
    folder = base / "checkpoints"
    seen, ended = start_and_kill(twofold, base, mode, dice)
    if ended:
        return False, 0, [ended]
    saving = any(p.name.endswith(".partial") for p in folder.iterdir())
    after = whole(folder)
    wrong = []
    for name in seen[-KEEP:]:
        newer = sum(other > name for other in after)
        if name not in after and newer < KEEP:
            wrong.append(f"{name} is lost, of newer ones there are {newer}")
    for name in after:
        if why := loads(twofold, folder, name, base / "load"):
            wrong.append(f"{name} does not load: {why}")
    return saving, len(after), wrong


# ---- The parts: each returns its table, its rows of results.json, and what was wrong ----
def kills(twofold, options):
    dice, wrong = random.Random(options.seed), []
    totals = {title: [0, 0, 0, 0] for title, *_ in MODES}
    with scratch() as place:
        for i in range(options.kills):
            mode = MODES[i % len(MODES)]
            base = pathlib.Path(place) / mode[0].replace(", ", "-")
            base.mkdir(exist_ok=True)
            saving, loaded, bad = kill_once(twofold, base, mode, dice)
            totals[mode[0]] = [a + b for a, b in zip(totals[mode[0]], (1, saving, loaded, len(bad)))]
            wrong += [f"{mode[0]}, kill {i + 1}: {w}" for w in bad]
            progress(f"kill {i + 1} of {options.kills}: {mode[0]}, {'while saving, ' if saving else ''}{loaded} checkpoints load"
                     f"{' WRONG: ' + '; '.join(bad) if bad else ''}")
    table = Table("saved", "kills", "while a save was going on", "checkpoints loaded after them", "lost or bad")
    for title, total in totals.items():
        table.add(title, *map(count, total))
    rows = [row(f"kills: {title}", None, bad, "checkpoints lost or bad", "none", kills=n, while_saving=saving, loaded=loaded)
            for title, (n, saving, loaded, bad) in totals.items()]
    return table, rows, wrong


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


def rate(twofold, options):
    ours, disks = [], []
    with scratch() as place:
        place = pathlib.Path(place)
        for i in range(options.rounds):
            os.sync()
            saved = twofold.report(study.folder / "written.textproto", out=place / "out")["checkpoints"]
            ours += [c["bytes"] / c["seconds"] / 1e6 for c in saved]
            shutil.rmtree(place / "out/checkpoints")
            os.sync()
            disks += [plain_write(place / "plain", saved[0]["bytes"]) for _ in saved]
            progress(f"round {i + 1} of {options.rounds}: {statistics.median(ours):.0f} MB/s, the disk {statistics.median(disks):.0f} MB/s")
    share = statistics.median(ours) / statistics.median(disks)
    table = Table("bytes of a checkpoint", "full checkpoint, MB/s", "the disk, MB/s", "share")
    table.add(count(saved[0]["bytes"]), *(f"{statistics.median(of):,.0f} ({min(of):,.0f} to {max(of):,.0f})" for of in (ours, disks)), percent(share, 0))
    rows = [row("rate: full checkpoint", None, statistics.median(ours), "MB/s", "none", bytes=saved[0]["bytes"], disk=statistics.median(disks), share=share)]
    return table, rows, [] if share >= AT_LEAST else [f"a full checkpoint is written at {percent(share, 0)} of the disk's rate"]


def steps_beside(report):
    """Of every asynchronous save but the last, beside which nothing is trained, the steps during which it was written."""
    seconds, busy = [s["seconds"] for s in report["steps"]], {}
    for c in report["checkpoints"]:
        at, left = c["step"], c["seconds"] - c["stood_still_seconds"]
        while left > 0 and at < len(seconds):
            busy.setdefault(c["step"], []).append(at)
            left -= seconds[at]
            at += 1
    return seconds, list(busy.values())


def overlap(twofold, options):
    added, steps_each, still = [], [], []
    with scratch() as place:
        place = pathlib.Path(place)
        for i in range(options.rounds):
            report = twofold.report(study.folder / "overlapped.textproto", out=place / "out")
            seconds, busy = steps_beside(report)
            beside = {step for steps in busy for step in steps}
            quiet = statistics.median(s for n, s in enumerate(seconds) if n >= 10 and n not in beside)
            added += [statistics.mean(seconds[s] for s in steps) / quiet - 1 for steps in busy]
            steps_each += map(len, busy)
            still += [c["stood_still_seconds"] for c in report["checkpoints"] if c["step"] != len(seconds)]
            shutil.rmtree(place / "out/checkpoints")
            progress(f"round {i + 1} of {options.rounds}: {signed(statistics.median(added))} a step")
    more = statistics.median(added)
    table = Table("a step alone", "asynchronous saves", "steps beside each, median", "they take more, median", "training stood still, median")
    table.add(milliseconds(quiet, 0), len(added), f"{statistics.median(steps_each):.0f}", f"{signed(more)} ({100 * min(added):+.1f} to {100 * max(added):+.1f})",
              milliseconds(statistics.median(still), 0))
    rows = [row("overlap: a step beside an asynchronous save takes more", None, more, "share of a step", "none", step_seconds=quiet, saves=len(added),
                stood_still_seconds=statistics.median(still))]
    return table, rows, [] if more < ADDED_AT_MOST else [f"an asynchronous save adds {percent(more)} to the steps beside it"]


PARTS = {"kills": ("Killed (2 ranks in memory, ZeRO-3, the last 2 are kept)", kills), "rate": ("Written, against a synced file of the same size", rate),
         "overlap": ("Beside training (1 rank)", overlap)}


def main():
    options, twofold = study.start()
    before = {name: study.folder / name for name in ("table.md", "results.json")}
    text = before["table.md"].read_text() if before["table.md"].exists() else ""
    sections = dict(re.findall(r"^## (.*)\n\n(.*?)(?=\n## |\Z)", text, re.MULTILINE | re.DOTALL))
    old, rows, wrong = read_json(before["results.json"])["rows"] if before["results.json"].exists() else [], [], []
    for name, (title, part) in PARTS.items():
        if options.only in (None, name):
            table, of_part, bad = part(twofold, options)
            sections[title] = "\n".join([*table.lines, "", f"Broken rules: {len(bad)}. {os.cpu_count()} cores."])
            rows, wrong = rows + of_part, wrong + bad
        else:
            rows += [r for r in old if r["name"].startswith(f"{name}: ")]
    lines = [line for title, _ in PARTS.values() if title in sections for line in (f"## {title}", "", sections[title].strip(), "")]
    study.publish("Checkpoints: killed, written, and beside training", lines, rows)
    study.end([f"WRONG: {w}" for w in wrong])


if __name__ == "__main__":
    main()
