#!/usr/bin/env python3
"""Rows of tests/gpu/run.sh's table, "check|result|figure|bound", of what experiments/studies/gpu_prediction/run.py wrote: prediction_rows.py FILE.json"""
import json
import pathlib
import statistics
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent.parent / "experiments/studies/gpu_prediction"))
import run  # noqa: E402


def rows(of):
    for r in of:
        most = run.WORST if run.is_training(r) else run.OTHERS
        figure = f"{run.milliseconds(r['predicted'])} against {run.milliseconds(r['measured'])}, {100 * run.error(r):+.1f} %"
        yield f"predicted: {r['name']}|{'passed' if abs(run.error(r)) <= most else 'FAILED'}|{figure}|<= {100 * most:.0f} %"
    steps = [abs(run.error(r)) for r in of if run.is_training(r)]
    if steps:
        median = statistics.median(steps)
        yield f"predicted: median of {len(steps)} trainings|{'passed' if median <= run.MEDIAN else 'FAILED'}|{100 * median:.1f} %|<= {100 * run.MEDIAN:.0f} %"


if __name__ == "__main__":
    for line in rows(json.load(open(sys.argv[1]))):
        print(line)
