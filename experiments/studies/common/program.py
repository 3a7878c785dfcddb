"""Finds and runs programs, `twofold` first of all, and reads what they write."""
import csv
import dataclasses
import json
import os
import pathlib
import shlex
import signal
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[3]
BUILD = ROOT / "build/release"
TIMEOUT = 3600  # seconds of one command
TAIL = 4000  # characters of a failed command's messages


class Failed(SystemExit):
    """A command that failed. Unless it is caught, the study ends with its message and exit status 1."""


def fail(message, status=1):
    print(message, file=sys.stderr)
    raise SystemExit(status)


def progress(text):
    print(text, file=sys.stderr, flush=True)


def read_json(path):
    return json.loads(pathlib.Path(path).read_text())


def read_csv(path):
    """Rows of a table whose comments begin with "#"."""
    with open(path, newline="") as file:
        return list(csv.DictReader(line for line in file if not line.startswith("#")))


def sets(settings):
    return [f"--set={path}={value}" for path, value in (settings or {}).items()]


@dataclasses.dataclass
class Done:
    """A command that has ended; times and memory include its children's."""
    status: int
    output: str
    messages: str
    seconds: float
    core_seconds: float
    peak_bytes: int


def run(command, *, timeout=TIMEOUT, statuses=(0,), cwd=None, env=None):
    """Runs a command to its end. Raises Failed if it takes longer than `timeout` or its exit status is none of `statuses`."""
    words = [str(word) for word in command]
    with tempfile.TemporaryFile("w+", errors="replace") as output, tempfile.TemporaryFile("w+", errors="replace") as messages:
        begun = time.monotonic()
        process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=output, stderr=messages, cwd=cwd, env=env)
        timer = threading.Timer(timeout, os.kill, (process.pid, signal.SIGKILL))
        timer.start()
        try:
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
        finally:
            timer.cancel()
            process.kill(), process.wait()  # which do nothing unless the wait was interrupted
        seconds = time.monotonic() - begun
        output.seek(0), messages.seek(0)
        done = Done(process.returncode, output.read(), messages.read(), seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024)
    if done.status not in statuses:
        what = f"not done after {timeout} s" if seconds >= timeout else f"exit status {done.status}"
        raise Failed(f"{shlex.join(words)}: {what}\n{(done.messages.strip() or done.output.strip())[-TAIL:]}")
    return done


class Twofold:
    """The program `twofold`: at `path`, or in the build folder `path`."""

    def __init__(self, path=BUILD):
        self.path = pathlib.Path(path).resolve()
        if self.path.is_dir():
            self.path /= "experiments/program/twofold"
        self.exists(self.path)

    @staticmethod
    def exists(path):
        if not os.access(path, os.X_OK):
            fail(f"{path} is not there, or not executable. Build it with `cmake --preset release && cmake --build --preset release`, or name "
                 f"the program or its build folder as the last argument.", 2)
        return path

    def of_studies(self, name):
        """A program of the same build's folder of studies."""
        return self.exists(self.path.parents[1] / "studies" / name)

    def __call__(self, *words, start=(), **options):
        return run([*start, self.path, *words], **options)

    def job(self, spec, settings=None, *words, out=None, start=(), launch=(), command=("run", "--quiet"), file="report.json", **options):
        """(`file` as `twofold run` wrote it, how it ran). It runs in an empty folder, so that no calibration lies there. `out` is the folder of
        its files, if they are to stay; `start` are the words before the program's path, `launch` those between it and "run"."""
        with tempfile.TemporaryDirectory() as empty:
            out = out or f"{empty}/out"
            done = self(*launch, command[0], spec, *command[1:], f"--out={out}", *words, *sets(settings), start=start, cwd=empty, **options)
            return read_json(f"{out}/{file}"), done

    def report(self, *job, **options):
        """The report of a job."""
        return self.job(*job, **options)[0]

    def bench(self, operation, least, most, *words, factor=2, side=None):
        """Microseconds by size of a simulated collective; `side`: in_place or out_of_place."""
        done = self("bench", operation, "--fabric=simulated", "-b", least, "-e", most, "-f", factor, "--json", *words)
        return {row["size"]: (row[side] if side else row["out_of_place"] or row["in_place"])["time"] for row in json.loads(done.output)["results"]}
