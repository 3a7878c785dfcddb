#!/usr/bin/env python3
"""What includes what: no folder includes one of a floor above it, no folders include each other in a circle, and strategies know no spec.

    tests/integration/include_graph.py [--dot] [FOLDER]

FOLDER: the checkout, by default the one that this file stands in. --dot prints the graph of the folders for Graphviz instead. What is
wrong is printed with the files and lines that cause it.
"""
import argparse
import collections
import pathlib
import re
import sys

# A folder may include the folders on its right, and itself. The longest name that matches a folder counts.
FLOORS = {
    "core": {"core"},
    "kernels": {"core", "kernels"},
    "topologies": {"core/base", "core/proto", "topologies"},
    "sim": {"core", "topologies", "sim"},
    "backends": {"core", "kernels", "topologies", "sim/cost", "sim/collectives", "sim/sharing", "backends"},
    "backends/simulated": {"core", "kernels", "topologies", "sim", "backends"},
    "strategies": {"core", "strategies"},
    "experiments/program": {"core", "topologies", "sim", "backends", "strategies", "experiments/program"},
    "experiments/studies": {"core", "topologies", "sim", "backends", "strategies", "experiments"},
    "python": {"core", "experiments/program", "python"},
    "examples": {"core", "topologies", "sim", "backends", "strategies", "examples"},
}
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.M)
# The files of strategies/ that read specs: from_spec turns them into options, and each kind of model reads its own sizes.
READS_SPECS = re.compile(r"strategies/(from_spec\.(h|cc)|models/\w+\.cc)")
SPEC = re.compile(r'\bspec::|"core/proto/spec\.pb\.h"')
MESSAGE = re.compile(r'\.pb\.h"')


def within(folder, names):
    return any(folder == name or folder.startswith(name + "/") for name in names)


def includes(root):
    """{folder: {included folder: [file:line, ...]}} of the product's code."""
    edges = collections.defaultdict(lambda: collections.defaultdict(list))
    tops = sorted({name.split("/")[0] for name in FLOORS})
    for path in sorted(p for top in tops for p in (root / top).rglob("*") if p.suffix in (".h", ".cc", ".cu")):
        text, here = path.read_text(), path.relative_to(root)
        for match in INCLUDE.finditer(text):
            there = pathlib.PurePosixPath(match[1])
            if there.parts[0] in tops:
                edges[str(here.parent)][str(there.parent)].append(f"{here}:{text.count(chr(10), 0, match.start(1)) + 1}")
    return edges


def upward(edges):
    """(folder, included) pairs that the floors do not allow."""
    for folder in sorted(edges):
        floor = max((name for name in FLOORS if within(folder, [name])), key=len)
        for other in sorted(edges[folder]):
            if not within(other, FLOORS[floor]):
                yield folder, other


def circles(edges):
    """Sets of folders each of which reaches all others of the set."""
    def reached(start):
        found, left = set(), [start]
        while left:
            for other in edges.get(left.pop(), {}):
                if other not in found and other != start:
                    found.add(other)
                    left.append(other)
        return found

    reach = {folder: reached(folder) for folder in edges}
    seen = set()
    for folder in sorted(edges):
        circle = {folder} | {other for other in reach[folder] if folder in reach.get(other, ())}
        if len(circle) > 1 and folder not in seen:
            seen |= circle
            yield circle


def messages(root):
    """Where strategies name a spec, or one of their headers includes a message: file:line."""
    for path in sorted((root / "strategies").rglob("*")):
        here = path.relative_to(root)
        if path.suffix not in (".h", ".cc") or READS_SPECS.fullmatch(str(here)):
            continue
        for number, line in enumerate(path.read_text().split("\n"), 1):
            if SPEC.search(line) or (path.suffix == ".h" and MESSAGE.search(line)):
                yield f"{here}:{number}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dot", action="store_true", help="print the graph of the folders for Graphviz")
    parser.add_argument("folder", nargs="?", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parents[2])
    arguments = parser.parse_args()
    edges = includes(arguments.folder)
    if arguments.dot:
        print("digraph folders {\n  rankdir=BT;")
        print("\n".join(f'  "{a}" -> "{b}";' for a in sorted(edges) for b in sorted(edges[a]) if a != b) + "\n}")
        return 0
    if len(edges) < 20:
        print(f"{arguments.folder}: only {len(edges)} folders with includes: not a checkout of Twofold?", file=sys.stderr)
        return 2
    problems = [f"{a} must not include {b}:\n  " + "\n  ".join(edges[a][b]) for a, b in upward(edges)]
    for circle in circles(edges):
        problems.append(f"{', '.join(sorted(circle))} include each other:\n  " + "\n  ".join(
            f"{a} includes {b}: {edges[a][b][0]} and {len(edges[a][b]) - 1} more" for a in sorted(circle) for b in sorted(edges[a]) if b in circle and a != b))
    if found := list(messages(arguments.folder)):
        problems.append("strategies must not know specs, nor their headers messages:\n  " + "\n  ".join(found))
    print("\n\n".join([*problems, f"{len(edges)} folders, {len(problems)} problems"]))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
