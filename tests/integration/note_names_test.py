#!/usr/bin/env python3
"""Notes and their names (experiments/program/cli/note_names.cc) stay together: each text by which a kind is known is part of a string of the source,
and each call that adds a note has a string with such a text."""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
TABLE = "experiments/program/cli/note_names.cc"
FOLDERS = ("core", "kernels", "strategies", "backends", "sim", "experiments/program", "topologies")
CALL = re.compile(r"(?:add_notes|notes\w*(?:\.|->)(?:push_back|emplace_back)|\.Note|AddNote)\(")
STRING = re.compile(r'"((?:[^"\\\n]|\\.)*)"')
# Calls that add no note of a report, or one whose text is a variable's.
OTHERS = re.compile(r"experiments/program/(pictures/|sweep/picture\.cc|comparison_text\.cc)|topologies/import/")


def text_of(path):
    """The source with the parts of each string joined."""
    return re.sub(r'"\s*\n\s*"', "", path.read_text())


def strings_of_call(text, at):
    """The strings within the parentheses that open at `at`."""
    depth, end = 0, at
    for token in re.finditer(r'"(?:[^"\\\n]|\\.)*"|[()]', text[at:]):
        depth += {"(": 1, ")": -1}.get(token.group(), 0)
        if depth == 0:
            end = at + token.end()
            break
    return [string for string in STRING.findall(text[at:end]) if re.search("[a-z]{2}", string)]


def faults(sources, table):
    """`sources`: text by path; `table`: the texts of kinds."""
    found = []
    strings = {string for path, text in sources.items() if path != TABLE for string in STRING.findall(text)}
    found += [f'{TABLE}: "{known}" is in no string of the source' for known in table if not any(known in string for string in strings)]
    for path, text in sources.items():
        if OTHERS.search(path):
            continue
        for call in CALL.finditer(text):
            said = strings_of_call(text, call.end() - 1)
            if said and not any(known in string for known in table for string in said):
                found.append(f'{path}:{text.count(chr(10), 0, call.start()) + 1}: a note without a name: "{" ... ".join(said)}"; add its kind to {TABLE}')
    return found


sources = {str(path.relative_to(ROOT)): text_of(path) for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*"))
           if path.suffix in (".cc", ".h")}
table = [text for _, text in re.findall(r'\{"([a-z0-9-]+)", "((?:[^"\\]|\\.)*)"\}', sources[TABLE])]
problems = faults(sources, table)
if len(table) < 50:
    problems.append(f"{TABLE} has {len(table)} kinds; is its form another one?")
# What the test is for.
if len(faults({"a.cc": 'o.add_notes(StrCat("no arithmetic, ", name));', TABLE: ""}, ["no arithmetic: "])) != 2:
    problems.append("a text that has changed is not found")
if faults({"a.cc": 'notes.push_back("the run " + (early ? "stopped early, after " : "ended"));', TABLE: ""}, ["stopped early, "]):
    problems.append("a note with a name is called one without")
print("\n".join([*problems, f"{len(table)} texts, {len(problems)} problems"]))
sys.exit(1 if problems else 0)
