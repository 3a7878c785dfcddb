"""Asks processes of the program `twofold`: where it is, how arguments are written, what its errors are."""
import json
import math
import os
import threading

from . import _native

INTERNAL = 13  # of absl::StatusCode


class Error(Exception):
    """What the program refuses, or what failed; its text is the program's."""


class InputError(Error, ValueError):
    """A spec, an argument or a file is wrong: the text names it, its value, and what would be right."""


class RunError(Error, RuntimeError):
    """Something failed at run time, or the program is not there."""


def program():
    """The path of the program: $TWOFOLD_PROGRAM, else that of the build or of the prefix that this module stands in, else of PATH."""
    if given := os.environ.get("TWOFOLD_PROGRAM"):
        return given
    above = os.path.dirname(os.path.abspath(__file__))  # not resolved: a build's folder has links to the sources
    while above != os.path.dirname(above):
        above = os.path.dirname(above)
        for place in ("experiments/program/twofold", "bin/twofold"):
            path = os.path.join(above, place)
            if os.access(path, os.X_OK) and os.path.isfile(path):
                return path
    import shutil  # here: it takes long to load
    if found := shutil.which("twofold"):
        return found
    raise RunError("the program `twofold` is not found: it is neither beside this module nor in PATH; set TWOFOLD_PROGRAM to its path")


class Pool:
    """Processes of the program that answer questions."""

    def __init__(self, processes=0):
        if isinstance(processes, bool) or not isinstance(processes, int):
            raise InputError(f"processes: expected a whole number (got {processes!r})")
        self.native, why = _native.make(processes, program())
        if self.native is None:
            raise (InputError if why.startswith("processes: ") else RunError)(why)

    def ask(self, command, arguments, another=False):
        """The JSON of the answer, as text. `another`: by a process of its own."""
        said = answer(*self.native.ask(command, os.getcwd(), dumped(arguments), name_of(command, arguments), another))
        if isinstance(said, Error):
            raise said
        return said

    def ask_all(self, command, arguments, each):
        """The answers to a list of questions, in order, as many at a time as there are processes: each the JSON, as text, or an Error. A
        question's arguments are `arguments` and an element of `each`."""
        common = dumped(arguments)[:-1]  # written once: all but the brace
        asked = [f"{common}, {dumped(one)[1:]}" for one in each]
        return [answer(*said) for said in self.native.ask_all(command, os.getcwd(), asked, name_of(command, arguments))]


def name_of(command, arguments):
    """What begins the error if the process ends that is asked."""
    name = arguments.get("spec")
    return name if isinstance(name, str) else command


def answer(code, message, text):
    """The answer's text, or an Error."""
    return text if code == 0 else (RunError if code == INTERNAL else InputError)(message)


def dumped(arguments):
    """As JSON, without those that are None."""
    try:
        return json.dumps({name: value for name, value in arguments.items() if value is not None}, allow_nan=False, default=plain)
    except (TypeError, ValueError) as error:
        raise InputError(f"arguments: {error}") from None


def plain(value):
    """What JSON has no form for: paths, and NumPy's numbers."""
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if hasattr(value, "item"):
        return value.item()
    raise TypeError(f"{value!r} is neither a number, a text, true or false, a list nor a dict")


_default, _lock = None, threading.Lock()


def default():
    """The pool that is used where none is given: made when it is first needed."""
    global _default
    with _lock:
        if _default is None:
            _default = Pool()
        return _default


def _forget():
    """In a forked child: the processes are its parent's."""
    global _default, _lock
    _default, _lock = None, threading.Lock()


os.register_at_fork(after_in_child=_forget)


def spec_of(spec):
    """The arguments that name a spec."""
    if isinstance(spec, dict):
        return {"spec": spec}
    if isinstance(spec, os.PathLike):
        return {"spec": os.fspath(spec)}
    if isinstance(spec, str):
        return {"text": spec} if "{" in spec or "\n" in spec else {"spec": spec}
    raise InputError(f"spec: expected a path, a text or a dict (got {type(spec).__name__})")


def sets_of(*settings):
    """{"parallel.dp": 8}, {"parallel": {"dp": 8}} or {"parallel__dp": 8} as --set takes it, in order."""
    return [f"{path}={value}" for some in settings for path, value in flat(some or {})]


def changes_of(settings, overrides):
    """The arguments that change a spec: `set`, and fields that were written like arguments."""
    return {"set": sets_of(settings, overrides), "names": list(overrides) or None}


def flat(settings, above=""):
    if not isinstance(settings, dict):
        raise InputError(f"set: expected a dict of fields and values (got {settings!r})")
    for name, value in settings.items():
        path = above + str(name).replace("__", ".")
        if isinstance(value, dict) and value:
            yield from flat(value, path + ".")
        else:
            yield path, written(path, value)


def written(path, value):
    """A value as --set takes it."""
    if isinstance(value, dict):
        return "{}"
    if isinstance(value, (list, tuple)):
        return ",".join(written(path, one) for one in value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (str, os.PathLike)):
        return os.fspath(value)
    if hasattr(value, "item"):
        return written(path, value.item())
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float) and math.isfinite(value):
        return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)
    raise InputError(f"{path}: expected a number, a text, true or false, a list or a dict (got {value!r})")


def varied_of(vary):
    """{"parallel.dp": [1, 2]} as --vary takes it; a number or a text stands for itself."""
    if not isinstance(vary, dict):
        raise InputError(f"vary: expected a dict of fields and lists of values (got {vary!r})")
    varied = {}
    for path, values in flat_lists(vary):
        if not values:
            raise InputError(f"vary: {path}: expected a list of values, which is empty")
        varied[path] = [written(path, value) for value in values]
        if wrong := [value for value in varied[path] if "," in value]:
            raise InputError(f"vary: {path}: a value cannot have a comma (got {wrong[0]!r})")
    return varied


def flat_lists(vary, above=""):
    for name, values in vary.items():
        path = above + str(name).replace("__", ".")
        if isinstance(values, dict):
            yield from flat_lists(values, path + ".")
        else:
            yield path, [values] if isinstance(values, (str, bool, int, float)) else list(values)
