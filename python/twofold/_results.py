"""Results: objects that print as the program prints, have the fields of its JSON, and turn into data frames."""
import html
import json

from . import _ask


def frame(rows, what):
    try:
        import pandas
    except ImportError:
        raise _ask.Error(f"{what}.to_frame() needs pandas, which is not installed: apt-get install python3-pandas, or pip install pandas; "
                         f"rows() gives the same as a list of dicts") from None
    return pandas.DataFrame(rows)


def flattened(value, above=""):
    """Nested dicts as one, with the names joined by "_"."""
    row = {}
    for name, part in value.items():
        if isinstance(part, dict):
            row.update(flattened(part, f"{above}{name}_"))
        elif not isinstance(part, list):
            row[above + name] = part
    return row


def valued(settings):
    """Settings with numbers as numbers, so that frames sort by them."""
    def value(text):
        for kind in (int, float):
            try:
                return kind(text)
            except ValueError:
                pass
        return text
    return {path: value(text) for path, text in settings.items()}


class Result:
    """The fields of a JSON object as attributes; `to_dict()` is all of it."""

    def __init__(self, data):
        self._data = data

    def __getattr__(self, name):
        if name.startswith("_"):
            raise AttributeError(name)
        try:
            return self._field(name)
        except KeyError:
            known = ", ".join(self._data)
            raise AttributeError(f"{type(self).__name__} has no field {name!r}; it has {known}") from None

    def _field(self, name):
        return self._data[name]

    def _all(self):
        return self._data

    def __dir__(self):
        return [*super().__dir__(), *self._data]

    def __eq__(self, other):
        return type(self) is type(other) and self._all() == other._all()

    __hash__ = None

    def __getstate__(self):
        return self.__dict__

    def __setstate__(self, state):
        self.__dict__.update(state)

    def to_dict(self):
        """All fields, as the program's JSON has them."""
        return self._all()

    def rows(self):
        """The rows of to_frame(), as a list of dicts."""
        return [flattened(self._all())]

    def to_frame(self):
        """A pandas data frame."""
        return frame(self.rows(), type(self).__name__)


class Text(Result):
    """A result that prints as the command does."""

    def __init__(self, data, text):
        super().__init__(data)
        self.text = text

    def __repr__(self):
        return self.text.rstrip("\n")

    def _repr_html_(self):
        return f"<pre>{html.escape(self.text)}</pre>"


class Report(Result):
    """A report (docs/spec.md), with the fields of report.json."""

    TABLES = ("steps", "ranks", "collectives")
    _unread = {}  # fields that are still text

    def __init__(self, data, summary, settings=None):
        super().__init__(data)
        self.summary = {name: value for name, value in summary}
        self.settings = settings or {}

    @property
    def ok(self):
        """Whether it trains: the outcome is OK."""
        return self.outcome == "OK"

    @property
    def peak_bytes(self):
        """Of the rank that uses most."""
        return max((rank["peak_bytes"] for rank in self.ranks), default=0)

    @property
    def reserved_bytes(self):
        """Of the rank whose allocator takes most of its device."""
        return max((rank["reserved_bytes"] for rank in self.ranks), default=0)

    def figures(self):
        """The fields that are single numbers and texts, with what was set, and peak_bytes and reserved_bytes."""
        single = {name: value for name, value in self._data.items() if name not in self._unread and not isinstance(value, (dict, list))}
        return {**valued(self.settings), **single, "peak_bytes": self.peak_bytes, "reserved_bytes": self.reserved_bytes}

    def rows(self, table=None):
        """One row of figures(), or those of a table: steps, ranks or collectives."""
        if table is None:
            return [self.figures()]
        if table not in self.TABLES:
            raise _ask.InputError(f"table: expected one of {', '.join(self.TABLES)} (got {table!r})")
        return [flattened(row) for row in self._field(table)]

    def to_frame(self, table=None):
        """A pandas data frame of rows(table)."""
        return frame(self.rows(table), type(self).__name__)

    def _title(self):
        set_by = ", ".join(f"{path}={value}" for path, value in self.settings.items())
        return type(self).__name__ + (f" with {set_by}" if set_by else "")

    def __repr__(self):
        width = max(map(len, self.summary))
        return "\n".join([self._title(), *(f"  {name:{width}}  {value}" for name, value in self.summary.items())])

    def _repr_html_(self):
        rows = "".join(f"<tr><th>{html.escape(name)}</th><td>{html.escape(value)}</td></tr>" for name, value in self.summary.items())
        return f"<table><caption>{html.escape(self._title())}</caption>{rows}</table>"


class Prediction(Report):
    """What `twofold run --fabric=simulated` reports of a spec. Of the answer's lines, those of lists and objects are read when they are first
    asked for: most who compare many predictions look at single figures."""

    def __init__(self, answer, settings=None):
        head, *lines = answer.split("\n")
        head = json.loads(head)
        super().__init__(head["report"], head["summary"], settings)
        self._unread = dict(zip(head["lines"], lines))

    def _field(self, name):
        if (line := self._unread.get(name)) is not None:
            self._data[name] = json.loads(line)
            self._unread.pop(name, None)  # last: another thread, too, may read it
        return self._data[name]

    def _all(self):
        for name in list(self._unread):
            self._field(name)
        return self._data


class Run(Report):
    """The folder of a run, predicted or measured; `spec` is the text of its whole spec."""

    def __init__(self, data, summary, spec, folder):
        super().__init__(data, summary)
        self.spec, self.folder = spec, folder


class Memory(Text):
    """What `twofold memory` says: a spec's memory, by rank and category, and what makes it fit."""

    def __init__(self, data, text, advice, report):
        super().__init__(data, text)
        self.advice, self.report = advice, report

    def rows(self):
        """A row for each category of each kind of rank: of `ranks` ranks, from `first_rank` on."""
        return [{"first_rank": kind["ranks"][0], "ranks": len(kind["ranks"]), "category": category["name"], **{name: value for name, value in category.items() if name != "name"}}
                for kind in self._data["ranks"] for category in kind["categories"]]


class Plan(Text):
    """What `twofold plan` finds: `layouts`, the fastest first, and what is proven."""

    @property
    def best(self):
        """The fastest layout; None if none fits."""
        return self._data["layouts"][0] if self._data["layouts"] else None

    def rows(self):
        """A row for each layout."""
        return [flattened(layout) for layout in self._data["layouts"]]


class Sweep(Text):
    """What `twofold sweep` finds: `points`, with their figures."""

    def rows(self):
        """A row for each point: what varies, then the figures as predicted_... and measured_..."""
        return [{**valued(point["set"]), **flattened({name: part for name, part in point.items() if name != "set"})} for point in self._data["points"]]

    def __len__(self):
        return len(self._data["points"])


class Bench(Text):
    """What `twofold bench` measures or predicts: `results`, a row for each size, with times in microseconds."""

    def rows(self):
        """A row for each size."""
        return [flattened(row) for row in self._data["results"]]


class Predictions(list):
    """Predictions side by side, in order. What could not be predicted is an Error in its place."""

    def __init__(self, predictions, settings):
        super().__init__(predictions)
        self.settings = settings

    def rows(self):
        """A row for each: what was set, then its figures, or its error."""
        return [{**valued(settings), "error": str(one)} if isinstance(one, Exception) else one.figures() for one, settings in zip(self, self.settings)]

    def to_frame(self):
        """A pandas data frame of rows()."""
        return frame(self.rows(), "Predictions")

    def _table(self):
        shown = [{**settings, **({"outcome": str(one).split("\n")[0]} if isinstance(one, Exception) else one.summary)} for one, settings in zip(self, self.settings)]
        names = list(dict.fromkeys(name for row in shown for name in row if name != "outcome"))
        names += ["outcome"] if any("outcome" in row for row in shown) else []
        return [names, *([str(row.get(name, "")) for name in names] for row in shown)]

    def __repr__(self):
        table = self._table()
        widths = [max(map(len, column)) for column in zip(*table)]
        return "\n".join("  ".join(f"{cell:{width}}" for cell, width in zip(row, widths)).rstrip() for row in table)

    def _repr_html_(self):
        head, *rows = [[html.escape(cell) for cell in row] for row in self._table()]
        body = "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows)
        return "<table><tr>" + "".join(f"<th>{cell}</th>" for cell in head) + f"</tr>{body}</table>"
