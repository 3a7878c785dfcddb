"""Fifteen bugs that the storm was not written for (bugs/*.patch): which of them does it find, and how soon?"""
import os
import pathlib
import re
import shutil
import tempfile
import time

from common import ROOT, Table, Twofold, count, progress, read_json, run

FOLDER = pathlib.Path(__file__).resolve().parent / "bugs"
TREE = ROOT / "build/storm-bugs"  # a copy of the sources, and its build, which stay for the next time
OF_CONTROL = "backends/control/"  # what is in there runs in no simulation, but has a storm among the tests
# Without it, git would take the copy for a part of this repository
ENVIRONMENT = {**os.environ, "GIT_CEILING_DIRECTORIES": str(TREE.parent)}


def patches():
    """By name: (the patch's file, what it breaks: its first line)."""
    return {path.stem: (path, path.read_text().splitlines()[0].removeprefix("# ")) for path in sorted(FOLDER.glob("*.patch"))}


def copy_sources():
    """Files that are the same keep their times, so that only what has changed is built again."""
    for name in run(["git", "-C", ROOT, "ls-files", "-z"]).output.split("\0"):
        source, copy = ROOT / name, TREE / name
        if not name or not source.is_file() or (copy.is_file() and copy.read_bytes() == source.read_bytes()):
            continue
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, copy)


def apply(path, *options):
    run(["git", "apply", *options, path], cwd=TREE, env=ENVIRONMENT)


def build(*targets):
    run(["cmake", "--build", "--preset", "release", "--target", *targets], cwd=TREE, timeout=4 * 3600)


def storm_of_control():
    """(rule, what it says) of the control plane's own storm, whose seeds are fixed; None: it found nothing."""
    begun = time.monotonic()
    done = run([TREE / "build/release/tests/storm/storm_test", "--gtest_filter=ControlStorms.*"], cwd=TREE, statuses=(0, 1))
    seconds = time.monotonic() - begun
    found = re.search(r'Which is: "(.*)"[\s\S]*?seed (\d+)', done.output)
    return {"job": "the control plane's", "rule": found[1], "seconds": seconds, "schedules": int(found[2]) + 1, "seed": found[2], "reduced": "-", "replays": "yes"} if found else None


def storm(program, right, spec, minutes, seed):
    """(what one storm found or None, its seconds, its schedules)."""
    with tempfile.TemporaryDirectory() as folder:
        words = ("storm", spec)
        done = program(*words, "--schedules=1000000", f"--minutes={minutes}", "--most-broken=1", f"--seed={seed}", f"--out={folder}", statuses=(0, 1))
        summary = read_json(f"{folder}/summary.json")
        seconds, schedules = summary["real_seconds"], summary["schedules"]
        broken = re.search(r"seed (0x\w+) broke (\S+):", done.output)
        if not broken:
            return None, seconds, schedules
        reduced = re.search(r"reduced from (\d+) to (\d+) disasters", done.output)
        case = next(pathlib.Path(folder).glob("broken-*.textproto"))
        replays = [one(*words, f"--replay={case}", statuses=(0, 1)).status == status for one, status in ((program, 1), (right, 0))]
        return {"job": spec.stem, "rule": broken[2], "seed": broken[1], "reduced": f"{reduced[1]} to {reduced[2]}",
                "replays": "yes" if all(replays) else "no" if not replays[0] else "also in the right code"}, seconds, schedules


def hunt_one(program, right, specs, options):
    """All jobs by turns, until one finds it."""
    seconds = schedules = 0
    for turn in range(2):
        for spec in specs:
            share = 60 * options.minutes / 2 / len(specs)
            found, took, ran = storm(program, right, spec, share / 60, options.seed + turn)
            seconds, schedules = seconds + took, schedules + ran
            if found:
                return {**found, "seconds": seconds, "schedules": schedules}
    return {"job": "-", "rule": "not found", "seed": "-", "reduced": "-", "replays": "-", "seconds": seconds, "schedules": schedules}


def hunt(study, options, right, specs):
    """Applies each patch to a copy of the sources, builds it, and lets the storm look for it."""
    copy_sources()
    for path, _ in patches().values():
        apply(path, "--check")
    if options.quick:
        return progress(f"all {len(patches())} patches apply")
    if not (TREE / "build/release/CMakeCache.txt").exists():
        run(["cmake", "--preset", "release"], cwd=TREE)
    build("twofold", "storm_test")
    table, missed = Table("bug", "found by", "job", "after", "schedules", "seed", "disasters", "replays"), []
    for name, (path, what) in patches().items():
        apply(path)
        try:
            of_control = OF_CONTROL in path.read_text()
            build("storm_test" if of_control else "twofold")
            found = storm_of_control() if of_control else None
            found = found or hunt_one(Twofold(TREE / "build/release"), right, specs, options)
        finally:
            apply(path, "--reverse")
        table.add(what, found["rule"], found["job"], f"{found['seconds']:.1f} s", count(found["schedules"]), found["seed"], found["reduced"], found["replays"])
        if found["job"] == "-":
            missed.append(f"{name}: not found in {found['schedules']} schedules")
    text = "\n".join(["# Bugs", "", f"{len(patches()) - len(missed)} of {len(patches())} were found.", "", *table.lines]) + "\n"
    print(text, flush=True)
    if options.write:
        (FOLDER / "table.md").write_text(text)
    study.end(missed)
