#!/usr/bin/env python3
"""What a run of tests/run.sh did: minutes by phase, the slowest tests and compilations, and second tries. Read by people, at its end.

The exit status is 1 when more than two tests needed a second try, else 0.
"""
import argparse
import csv
import pathlib
import re
import time
import xml.etree.ElementTree as xml

MOST_RETRIES = 2
SHOWN = 20


def phases(gate):
    with open(gate / "phases.csv", newline="") as file:
        return [(row["phase"], int(row["seconds"])) for row in csv.DictReader(file)]


def steps(build, since):
    """What ninja did in this run: (seconds, output) of each step."""
    log = build / ".ninja_log"
    rows = {}
    for line in log.read_text().splitlines()[1:] if log.exists() else []:
        start, end, _, output, _ = line.split("\t")
        rows[output] = (int(end) - int(start)) / 1000
    made = lambda output: (build / output).exists() and (build / output).stat().st_mtime >= since
    return [(seconds, output) for output, seconds in rows.items() if made(output)]


def tests(build, since):
    """(seconds, program, test) of each test of a GoogleTest program."""
    found = []
    for file in sorted((build / "times").glob("*.xml")):
        if file.stat().st_mtime < since:
            continue
        try:
            root = xml.parse(file).getroot()
        except xml.ParseError:  # a program that was ended while it wrote
            continue
        for case in root.iter("testcase"):
            found.append((float(case.get("time", 0)), file.stem, f"{case.get('classname')}.{case.get('name')}"))
    return found


def retried(gate):
    """Tests that failed first and passed then, by preset."""
    found = []
    for log in sorted(gate.glob("*.processes.log")):
        text = log.read_text(errors="replace")
        failed = re.findall(r"Test\s+#\d+: (\S+) \.*\s*\*\*\*", text)
        passed = set(re.findall(r"Test\s+#\d+: (\S+) \.*\s*Passed", text))
        found += [f"{log.name.split('.')[0]}: {name}" for name in dict.fromkeys(failed) if name in passed]
    return found


def print_slowest(title, rows):
    print(f"\n{title}")
    for seconds, where, what in sorted(rows, reverse=True)[:SHOWN]:
        print(f"  {seconds:7.1f} s  {where:9} {what}")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("gate", type=pathlib.Path, help="the folder of the run's logs, build/gate")
    parser.add_argument("--since", type=float, required=True, help="when the run began, in seconds since 1970; older results are left out")
    options = parser.parse_args()
    presets = [p for p in ("release", "asan", "tsan") if (options.gate.parent / p).exists()]
    built = {p: steps(options.gate.parent / p, options.since) for p in presets}

    compilations = [(s, p, output) for p in presets for s, output in built[p] if output.endswith((".o", ".gch"))]
    print_slowest(f"The {SHOWN} slowest compilations", compilations)
    print_slowest(f"The {SHOWN} slowest tests", [(s, p, f"{program} {test}") for p in presets for s, program, test in tests(options.gate.parent / p, options.since)])

    print(f"\n{'Minutes':61} wall")
    for name, seconds in phases(options.gate):
        print(f"  {name:58} {seconds / 60:6.1f}")
    for p in presets:
        compiled = sum(s for s, output in built[p] if output.endswith((".o", ".gch")))
        linked = sum(s for s, output in built[p] if not output.endswith((".o", ".gch")))
        print(f"  {p + ': steps':58} {compiled / 60:6.1f} to compile, {linked / 60:.1f} for linking and the rest, summed over {len(built[p])} steps")

    again = retried(options.gate)
    if again:
        print(f"\npassed on a second try: {', '.join(again)}" + (f"; at most {MOST_RETRIES} tests may need one" if len(again) > MOST_RETRIES else ""))
    phase_texts = [f"{name} ({seconds} s)" for name, seconds in phases(options.gate)]
    print(f"\ntests: {', '.join(phase_texts)}; {time.time() - options.since:.0f} s in all")
    return 1 if len(again) > MOST_RETRIES else 0


if __name__ == "__main__":
    raise SystemExit(main())
