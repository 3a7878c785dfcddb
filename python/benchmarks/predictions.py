#!/usr/bin/env python3
"""Times predictions from Python against the same ones by the C++ call, Predictor::PredictAll.

    python/benchmarks/predictions.py [--predictions=1000] [--pairs=5] [BUILD]

BUILD: the build folder, by default build/release, with the targets twofold_python and predictions_benchmark. Both predict so many variants of one
spec, on all cores, in turns. Printed are medians over the pairs of the seconds and of the user and system seconds of one prediction, with those of
the processes that predict, and the median of the ratios.
"""
import argparse
import os
import pathlib
import resource
import statistics
import subprocess
import sys
import time

SPEC = """model { preset: "gpt2-124m" }
train { steps: 2 global_batch: 64 micro_batch: 2 }
parallel { dp: 8 }
fabric { simulated { cluster: "dgx-a100" nodes: 4 } }
"""


def used():
    own, children = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    return own.ru_utime + children.ru_utime, own.ru_stime + children.ru_stime


def from_python(count):
    """What a notebook would do."""
    import twofold
    with twofold.Predictor() as predictor:
        variants = predictor.predict_each(SPEC, [{"train.seed": seed} for seed in range(count)])
    assert all(one.median_step_seconds > 0 for one in variants)


def timed(command):
    """Wall, user and system seconds of a command and its processes."""
    before, begun = used(), time.monotonic()
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL)
    seconds, after = time.monotonic() - begun, used()
    return seconds, after[0] - before[0], after[1] - before[1]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--predictions", type=int, default=1000)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--only", action="store_true", help="only predict, from Python; nothing is timed")
    parser.add_argument("build", nargs="?", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parents[2] / "build/release")
    arguments = parser.parse_args()
    build = arguments.build.absolute()
    sys.path.insert(0, str(build / "python"))
    if arguments.only:
        return from_python(arguments.predictions)
    program = build / "experiments/program/twofold"
    ways = {"C++": [build / "python/predictions_benchmark", program, str(arguments.predictions), SPEC],
            "Python": [sys.executable, "-B", __file__, "--only", f"--predictions={arguments.predictions}", build]}
    os.environ["TWOFOLD_PROGRAM"] = str(program)
    figures = {way: [] for way in ways}
    for pair in range(arguments.pairs):
        for way in list(ways) if pair % 2 == 0 else reversed(ways):
            figures[way].append([value / arguments.predictions for value in timed(ways[way])])
    print(f"milliseconds of one of {arguments.predictions} predictions on {os.cpu_count()} cores, medians of {arguments.pairs} runs each")
    print(f"{'':8}{'wall':>8}{'user':>8}{'system':>8}")
    for way, runs in figures.items():
        print(f"{way:8}" + "".join(f"{1000 * statistics.median(column):8.2f}" for column in zip(*runs)))
    ratios = [[mine / theirs for mine, theirs in zip(*pair)] for pair in zip(figures["Python"], figures["C++"])]
    print(f"{'ratio':8}" + "".join(f"{statistics.median(column):8.3f}" for column in zip(*ratios)))


if __name__ == "__main__":
    main()
