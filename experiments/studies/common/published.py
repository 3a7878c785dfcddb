"""Published figures as rows, and the jobs of `twofold` that predict them: what the study `scoreboard` asks of the other studies.

A study that has published figures has a file published.py with a function jobs(), which yields every Job. A Job is one unit of work: a step
of one run, or all sizes of a series of a collective. The same names of systems, tables and roles stand in all studies.
"""
import dataclasses
import importlib
import pathlib
import re
import sys
import typing

STUDIES = pathlib.Path(__file__).resolve().parents[1]
STEP, COLLECTIVE, MEMORY = "step", "collective", "memory"  # what a row is about
LARGE = 1 << 20  # bytes: smaller messages are bound by latency


@dataclasses.dataclass(frozen=True)
class Unseen:
    """What a prediction of a training step does without."""
    constants: str
    system: str  # whose rows took no part in their fit
    instead: str  # what stands for the constants


@dataclasses.dataclass(frozen=True)
class Row:
    """A published figure."""
    id: str  # one word, of one row alone
    table: str
    role: str  # as in results.json
    kind: str  # STEP, COLLECTIVE or MEMORY
    system: str
    gpus: int
    measured: float | None  # None: nothing but whether it fitted
    unit: str
    family: str = ""  # rows of one family are layouts of one job, and what was measured says which is the best
    fitted: bool | None = None  # whether the job fitted into memory; None: the source does not say, or another row does
    bytes: int = 0  # of a message
    unseen: "Unseen | None" = None  # of a row that is predicted once more, as -unseen


@dataclasses.dataclass(frozen=True)
class Prediction:
    """In the row's unit. An interval if one is stated; `fits` if the row has `fitted`."""
    value: float | None
    low: float | None = None
    high: float | None = None
    fits: bool | None = None


@dataclasses.dataclass(frozen=True)
class Job:
    """What predicts some rows."""
    rows: tuple
    predict: typing.Callable  # of a Twofold: {id: Prediction} of all rows
    command: typing.Callable  # of a row: the words after `twofold` that predict it alone
    cost: float = 0.3  # roughly, seconds of a core


LEFT_OUT = " left out"  # how tables of rows end that are predicted once more
UNSEEN = "-unseen"  # in their ids


def once_more(row, unseen):
    """A row that is predicted once more, by constants that have not seen its system. It counts in no family and for no verdict."""
    return dataclasses.replace(row, id=row.id + UNSEEN, table=f"{row.table}, system{LEFT_OUT}", role="validation", family="", fitted=None, unseen=unseen)


def word(*parts):
    """An id from text: what a shell would take apart becomes a hyphen."""
    return "/".join(re.sub(r"[^A-Za-z0-9._+]+", "-", str(part)).strip("-") for part in parts)


def run_words(spec, settings):
    return ["run", spec, "--fabric=simulated", *(f"--set={path}={value}" for path, value in settings.items())]


def load(study, module="published"):
    """A module of a study's folder. It may import its neighbours by their names, which files of other studies have, too."""
    folder = STUDIES / study
    names = {path.stem for path in folder.glob("*.py")}
    others = {name: sys.modules.pop(name) for name in names & set(sys.modules)}
    sys.path.insert(0, str(folder))
    try:
        return importlib.import_module(module)
    finally:
        sys.path.remove(str(folder))
        for name in names & set(sys.modules):
            del sys.modules[name]
        sys.modules.update(others)
