#!/usr/bin/env python3
"""Does every run end soon, and name the lost rank, when ranks are killed or fail?"""
import collections
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from common import ROOT, Study, Table, progress, read_json, row  # noqa: E402

study = Study(__file__, __doc__, needs="the build folder, with `twofold`, MPI and `inject_fault`; Linux. It measures this machine, which may be busy. No GPU.",
              takes="about a quarter of an hour for 100 runs of each kind (an estimate).")
study.option("--runs", type=int, default=100, metavar="N", help="kills, and as many faults (default: 100)")
study.option("--only", choices=("mpi", "in_memory"), help="kills alone, or faults alone")
study.option("--seed", type=int, default=1, metavar="N", help="of the ranks, moments and faults that are drawn (default: 1)")
SPEC = study.folder / "gpt.textproto"
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


def kill_a_rank(twofold, dice):
    job = Job([twofold.path, "launch", f"--ranks={RANKS}", "--", "run", SPEC, "--out=OUT"])
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
        report = read_json(job.folder / "out/report.json")
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


def inject_a_fault(twofold, dice):
    kind, rank, sample = dice.choice(FAULTS), dice.randrange(RANKS), dice.randrange(400)
    job = Job([twofold.of_studies("failures/inject_fault"), SPEC, "in_memory", kind, rank, sample])
    begun = time.monotonic()
    seconds, wrong = job.end(begun)
    lines = job.text().splitlines()
    fault = next((float(line.split()[1]) for line in lines if line.startswith("fault ")), None)
    if fault is None:
        wrong.append("the fault never came")
    else:  # the program's clock is ours
        seconds -= fault - begun
        if seconds > TIMEOUT + END:
            wrong.append(f"took {seconds:.1f} s")
    message = next((line for line in lines if line.startswith("message ")), "message (none)")
    if f"rank {rank}" not in message or WORDS[kind] not in message:
        wrong.append(f"rank {rank}, {kind}: {message}")
    if kind != "exception" and "group world" not in message:
        wrong.append(f"no operation and group: {message}")
    if wrong:
        print(job.text(), file=sys.stderr)
    job.close()
    return kind, seconds, wrong, True


def series(fabric, one, twofold, runs, dice):
    """Rows of results.json, the broken rules, and how many ranks had trained a step."""
    times, broken, training = collections.defaultdict(list), [], 0
    for i in range(runs):
        what, seconds, wrong, trained = one(twofold, dice)
        times[what].append(seconds)
        training += trained
        broken += [(fabric, i, f"WRONG: {fabric}, run {i + 1}, {what}: {w}") for w in wrong]
        progress(f"{fabric} {i + 1} of {runs}: {what}, ended after {seconds:.2f} s{' WRONG: ' + '; '.join(wrong) if wrong else ''}")
    rows = [row(f"{fabric}: {what}", None, sorted(of)[len(of) // 2], "s", "none", runs=len(of), at_most=max(of)) for what, of in sorted(times.items())]
    return rows, broken, training


def main():
    options, twofold = study.start()
    dice = random.Random(options.seed)
    kills, faults = (0 if options.only not in (None, fabric) else options.runs for fabric in ("mpi", "in_memory"))
    rows, broken, training = series("mpi", kill_a_rank, twofold, kills, dice)
    more, broken_too, _ = series("in_memory", inject_a_fault, twofold, faults, dice)
    rows, broken = rows + more, broken + broken_too
    table = Table("what was done", "runs", "ended after, median", "at most")
    for r in rows:
        table.add(r["name"], r["runs"], f"{r['measured']:.2f} s", f"{r['at_most']:.2f} s")
    text = (f"Of {kills} kills and {faults} faults, {len({of[:2] for of in broken})} runs broke a rule (ended within {TIMEOUT} + {END} s, "
            f"not well, naming the rank, its operation and group, leaving no process and no file of shared memory). {training} of the "
            f"kills came when at least one training step had been done. Times count from the kill or fault "
            f"(a hang: {TIMEOUT} s until the others time out, 2 s until its thread is given up). {RANKS} ranks, "
            f"{os.cpu_count()} cores.")
    study.publish("How runs end when ranks fail", [*table.lines, "", text], rows)
    study.end([message for *_, message in broken])


if __name__ == "__main__":
    main()
