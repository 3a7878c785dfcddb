"""Tables in Markdown, in which numbers look alike everywhere: 16,384; 1,888.98 ms; 4.6 %; +4.6 %."""
from .program import progress


def line(cells):
    return "| " + " | ".join(map(str, cells)) + " |"


def markdown(header, rows):
    """The lines of a table."""
    return [line(header), "|" + "---|" * len(header), *map(line, rows)]


class Table:
    """A table that grows; each new line is shown at once, as progress."""

    def __init__(self, *header):
        self.lines = markdown(header, [])

    def add(self, *cells):
        self.lines.append(line(cells))
        progress(self.lines[-1])


def count(number):
    return f"{number:,}"


def percent(share, digits=1):
    return f"{100 * share:,.{digits}f} %"


def signed(share, digits=1):
    return f"{100 * share:+,.{digits}f} %"


def milliseconds(seconds, digits=2):
    return f"{seconds * 1e3:,.{digits}f} ms"


def mebibytes(size):
    return f"{size / 2**20:,.2f} MiB"
