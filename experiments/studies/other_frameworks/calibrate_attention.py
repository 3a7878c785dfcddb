#!/usr/bin/env python3
"""By what do the calibration rows of Mosaic multiply attention's law of A100, forward and backward (llm-foundry.textproto)?"""
import concurrent.futures
import math
import os
import pathlib
import re
import statistics
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from common import Study, percent  # noqa: E402
from tables import FOLDER, job, rows_of  # noqa: E402

study = Study(__file__, __doc__, needs="`twofold` alone.", takes="less than a minute on 2 cores.", writes="nothing", always=True)
FACTORS = ((1, 1), (2, 1), (1, 2))  # forward and backward: a step's time is linear in them while communication is hidden
STEPS = (0.1, 0.02)


def profile(folder, forward, backward):
    text = (FOLDER / "llm-foundry.textproto").read_text()
    for name, factor in (("forward", forward), ("backward", backward)):
        text = re.sub(rf'(kernels {{ name: "attention_{name}" factor: )[0-9.]+( device: "A100")', rf"\g<1>{factor}\g<2>", text)
    path = pathlib.Path(folder) / f"{forward}_{backward}.textproto"
    path.write_text(text)
    return path


def seconds(twofold, case, path):
    spec, settings = job(case)
    return twofold.report(spec, {**settings, "framework_profile": path})["median_step_seconds"]


def error(rows, forward, backward):
    """The sum of |log(predicted / measured)|, which single slow rows hardly move."""
    return sum(abs(math.log((t[0] + (forward - 1) * (t[1] - t[0]) + (backward - 1) * (t[2] - t[0])) / measured)) for measured, *t in rows)


def best(rows):
    at = (1.0, 1.0)
    for step in STEPS:
        near = [(at[0] + i * step, at[1] + j * step) for i in range(-15, 16) for j in range(-15, 16)]
        at = min((p for p in near if min(p) > 0), key=lambda p: error(rows, *p))
    return at


def by_model(cases, rows):
    """(sizes of the errors of every row by factors of all rows, and by factors of the rows of other models)"""
    everything, found = best(rows), []
    for model in dict.fromkeys(case["model"] for case in cases):
        others = best([row for case, row in zip(cases, rows) if case["model"] != model])
        found += [[abs(math.expm1(error([row], *factors))) for factors in (everything, others)] for case, row in zip(cases, rows) if case["model"] == model]
    return zip(*found)


def main():
    _, twofold = study.start()
    cases = [case for case in rows_of("mosaic_a100") if case["role"] == "calibration"]
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        paths = [profile(folder, *factors) for factors in FACTORS]
        times = list(pool.map(lambda job: seconds(twofold, *job), [(case, path) for case in cases for path in paths]))
    rows = [(float(case["seconds"]), *times[3 * i:3 * i + 3]) for i, case in enumerate(cases)]
    forward, backward = best(rows)
    print(f"attention_forward {forward:.2f}, attention_backward {backward:.2f}: mean error {percent(error(rows, forward, backward) / len(rows))} of {len(rows)} rows; "
          f"with 1 and 1 {percent(error(rows, 1, 1) / len(rows))}")
    medians = [statistics.median(sizes) for sizes in by_model(cases, rows)]
    print(f"median error {percent(medians[0])}, and of models whose rows took no part {percent(medians[1])}: {medians[1] / medians[0]:.2f} times")


if __name__ == "__main__":
    main()
