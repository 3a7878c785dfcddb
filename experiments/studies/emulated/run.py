#!/usr/bin/env python3
"""Are step times of emulated ranks, which sleep for the modelled time of operations and messages, as predicted?"""
import os
import pathlib
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from common import STEP_COLUMNS, Study, Table, check_memory, error_summary, exposed_cells, percent, predict_and_measure, step_cells, step_row  # noqa: E402

study = Study(__file__, __doc__, needs="`twofold` and this machine to itself: it measures. No GPU.", takes="less than a minute.")
MOST = 0.03
# (name, spec, link Gb/s, latency in µs, settings)
CASES = [
    ("gpt, overlap, one bucket", "gpt", 2, 50, {"parallel.bucket_mib": 25}),
    ("gpt, overlap, buckets of 0.5 MiB", "gpt", 2, 50, {"parallel.bucket_mib": 0.5}),
    ("gpt, overlap, buckets of 0.1 MiB, 500 µs", "gpt", 2, 500, {"parallel.bucket_mib": 0.1}),
    ("gpt, no overlap, buckets of 0.5 MiB", "gpt", 2, 50, {"parallel.bucket_mib": 0.5, "parallel.overlap": "false"}),
    ("gpt, no overlap, 10 Gb/s", "gpt", 10, 50, {"parallel.bucket_mib": 0.5, "parallel.overlap": "false"}),
    ("gpt, overlap, 2 micro-batches", "gpt", 2, 50, {"parallel.bucket_mib": 0.5, "train.global_batch": 32}),
    ("gpt, overlap, device at half speed", "gpt", 2, 50, {"parallel.bucket_mib": 0.5, "emulated.speed": 0.5}),
    ("mlp, overlap", "mlp", 2, 50, {"parallel.bucket_mib": 1}),
    ("mlp, no overlap", "mlp", 2, 50, {"parallel.bucket_mib": 1, "parallel.overlap": "false"}),
    ("mlp, overlap, 3 ranks", "mlp", 2, 50, {"parallel.bucket_mib": 1, "parallel.dp": 3, "train.global_batch": 384}),
]


def main():
    _, twofold = study.start()
    table, rows = Table("case", *STEP_COLUMNS, "exposed communication, predicted", "measured"), []
    for name, spec, rate, latency, settings in CASES:
        with tempfile.TemporaryDirectory() as folder:
            links = {"link_gbps": rate, "latency_us": latency}
            predicted, measured = predict_and_measure(twofold, study.folder / f"{spec}.textproto", settings, links, folder)
        check_memory(name, predicted, measured)
        table.add(name, *step_cells(predicted, measured), *exposed_cells(predicted, measured))
        rows.append(step_row(name, predicted, measured, ranks=len(measured["ranks"])))
    median, worst = error_summary(rows)
    text = (f"Median error {percent(median, 2)} (at most {percent(MOST, 0)}), worst {percent(worst, 2)}. Ranks are threads, 4 unless stated, on "
            f"{os.cpu_count()} cores; links of 2 Gb/s and 50 µs unless stated; memory was equal to the byte.")
    study.publish("Emulated compute and slow links: predicted against measured", [*table.lines, "", text], rows)
    study.end([f"the median error is {percent(median, 2)}"] if median > MOST else [])


if __name__ == "__main__":
    main()
