#!/usr/bin/env python3
"""How runs end when ranks fail: kills on MPI, faults in memory, counted.

    experiments/studies/failures/run.py [--write] [--runs=100] [--only=mpi|in_memory] [--seed=1] [BUILD_FOLDER]

MPI: a training job, of which a random rank is killed (SIGKILL) at a random moment of training. In memory: a random fault (an exception,
exit(), a hang, a mismatched collective) at a random rank and sample. Every run must end within fabric.timeout_s (10 s; and 5 s
for what ends a process), with a status that is not zero and a message that names the rank, and leave no process and no file of
shared memory behind. Calibrated by nothing, held against nothing but these rules. --write renews table.md beside this file.
"""
import collections
import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent.parent
SPEC = HERE / "gpt.textproto"
RANKS, TIMEOUT, END = 3, 10, 5
FAULTS = ["exception", "exit", "hang", "count", "op", "dtype", "order"]
# What the message must say beside the rank. A rank's part in a mismatch is one of two calls.
WORDS = {"exception": "injected", "exit": "called exit(0)", "hang": "(fabric.timeout_s) for ", "count": "mismatch",
         "op": "mismatch", "dtype": "mismatch", "order": "mismatch"}


def processes_of(folder):
    """Ids of the processes that have `folder` in their environment: the job's."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and str(folder).encode() in (entry / "environ").read_bytes():
                found.append(int(entry.name))
        except OSError:
            pass
    return found


def rank_of(pid):
    """None: it is no rank, or has ended since it was listed."""
    try:
        variables = pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return None
    return next((int(v.split(b"=")[1]) for v in variables if v.startswith(b"OMPI_COMM_WORLD_RANK=")), None)


class Job:
    """One run in a folder of its own, by which all that it leaves behind is known."""

    def __init__(self, command):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="twofold-failures-"))
        (self.folder / "shared").mkdir()
        environment = dict(os.environ, OMPI_MCA_btl_vader_backing_directory=str(self.folder / "shared"),
                           OMPI_MCA_orte_tmpdir_base=str(self.folder))
        self.log = open(self.folder / "log", "w")
        self.process = subprocess.Popen([str(w).replace("OUT", str(self.folder / "out")) for w in command], cwd=ROOT,
                                        stdout=self.log, stderr=subprocess.STDOUT, env=environment)

    def end(self, since):
        """Seconds since `since` until it ended, and what was wrong with how."""
        wrong = []
        try:
            status = self.process.wait(timeout=TIMEOUT + END + 30)
        except subprocess.TimeoutExpired:
            status = None
            wrong.append("did not end")
        seconds = time.monotonic() - since
        if status == 0:
            wrong.append("ended well")
        left = []
        for _ in range(400):  # the launcher may still be cleaning up
            left = [f"process {p}" for p in processes_of(self.folder)] + [f.name for f in (self.folder / "shared").iterdir()]
            if not left:
                break
            time.sleep(0.05)
        if left:
            wrong.append("left behind " + ", ".join(left))
            for pid in processes_of(self.folder):
                os.kill(pid, signal.SIGKILL)
        return seconds, wrong

    def text(self):
        return (self.folder / "log").read_text()

    def close(self):
        self.log.close()
        shutil.rmtree(self.folder)


def kill_a_rank(build, dice):
    program = build / "experiments/program/twofold"
    job = Job([program, "launch", f"--ranks={RANKS}", "--", "run", SPEC, "--out=OUT"])
    rank = dice.randrange(RANKS)
    started = time.monotonic()
    victim = None
    while victim is None and time.monotonic() - started < 120:
        ranks = [p for p in processes_of(job.folder) if rank_of(p) is not None]
        victim = next((p for p in ranks if rank_of(p) == rank), None) if len(ranks) == RANKS else None
        time.sleep(0.01)
    while "step 1 of " not in job.text() and time.monotonic() - started < 240:
        time.sleep(0.05)
    time.sleep(2 * dice.random())
    killed = time.monotonic()
    os.kill(victim, signal.SIGKILL)
    seconds, wrong = job.end(killed)
    if seconds > TIMEOUT + END:
        wrong.append(f"took {seconds:.1f} s")
    steps = 0
    try:
        report = json.loads((job.folder / "out/report.json").read_text())
        steps = len(report["steps"])
        if f"lost rank {rank}: its process (process {victim} on " not in report["message"]:
            wrong.append("the report does not name the rank: " + report["message"])
        if "all_reduce" not in report["message"]:
            wrong.append("the report names no operation: " + report["message"])
    except (OSError, KeyError, ValueError) as error:
        wrong.append(f"no report ({error})")
    if wrong:
        print(job.text(), file=sys.stderr)
    job.close()
    return f"SIGKILL of rank {rank}", seconds, wrong, steps > 0


def inject_a_fault(build, dice):
    kind, rank, sample = dice.choice(FAULTS), dice.randrange(RANKS), dice.randrange(400)
    job = Job([build / "experiments/studies/failures/inject_fault", SPEC, "in_memory", kind, rank, sample])
    begun = time.monotonic()
    seconds, wrong = job.end(begun)
    fault = next((float(line.split()[1]) for line in job.text().splitlines() if line.startswith("fault ")), None)
    if fault is None:
        wrong.append("the fault never came")
    else:  # the program's clock is ours
        seconds -= fault - begun
        if seconds > TIMEOUT + END:
            wrong.append(f"took {seconds:.1f} s")
    message = next((line for line in job.text().splitlines() if line.startswith("message ")), "message (none)")
    if f"rank {rank}" not in message or WORDS[kind] not in message:
        wrong.append(f"rank {rank}, {kind}: {message}")
    if kind != "exception" and "group world" not in message:
        wrong.append(f"no operation and group: {message}")
    if wrong:
        print(job.text(), file=sys.stderr)
    job.close()
    return kind, seconds, wrong, True


def series(title, one, build, runs, dice):
    counts, times, failures, training = collections.Counter(), collections.defaultdict(list), [], 0
    for i in range(runs):
        what, seconds, wrong, trained = one(build, dice)
        counts[what] += 1
        times[what].append(seconds)
        training += trained
        failures += [(i, what, w) for w in wrong]
        print(f"{title} {i + 1} of {runs}: {what}, ended after {seconds:.2f} s{' WRONG: ' + '; '.join(wrong) if wrong else ''}",
              file=sys.stderr, flush=True)
    lines = [f"| {title}: {what} | {counts[what]} | {sorted(times[what])[len(times[what]) // 2]:.2f} s | {max(times[what]):.2f} s |"
             for what in sorted(counts)]
    return lines, failures, training


def main():
    options = {a.split("=")[0]: a.split("=")[-1] for a in sys.argv[1:] if a.startswith("--")}
    arguments = [a for a in sys.argv[1:] if not a.startswith("--")]
    build = pathlib.Path(arguments[0] if arguments else ROOT / "build/release").resolve()
    runs, dice = int(options.get("--runs", 100)), random.Random(int(options.get("--seed", 1)))
    lines = ["| what was done | runs | ended after, median | at most |", "|---|---|---|---|"]
    only = options.get("--only")
    mpi, wrong_mpi, training = series("mpi", kill_a_rank, build, 0 if only == "in_memory" else runs, dice)
    memory, wrong_memory, _ = series("in_memory", inject_a_fault, build, 0 if only == "mpi" else runs, dice)
    lines += mpi + memory
    wrong = wrong_mpi + wrong_memory
    text = "# How runs end when ranks fail\n\n" + "\n".join(lines) + (
        f"\n\nOf {0 if only == 'in_memory' else runs} kills and {0 if only == 'mpi' else runs} faults, {len({(w[0], w[1]) for w in wrong})} runs broke a rule (ended within {TIMEOUT} + {END} s, "
        f"not well, naming the rank, its operation and group, leaving no process and no file of shared memory). {training} of the "
        f"kills came when at least one training step had been done. Times count from the kill or fault "
        f"(a hang: {TIMEOUT} s until the others time out, 2 s until its thread is given up). {RANKS} ranks, "
        f"{os.cpu_count()} cores.\n")
    print(text)
    for w in wrong:
        print("WRONG:", *w)
    if "--write" in options:
        (HERE / "table.md").write_text(text)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
