#!/usr/bin/env python3
"""How much communication do sharded layouts hide behind computing, predicted and measured?"""
import os
import pathlib
import shutil
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from common import STEP_COLUMNS, Study, Table, check_memory, count, exposed_cells, percent, predict_and_measure, signed, step_cells, step_row  # noqa: E402

study = Study(__file__, __doc__, needs="`twofold` and this machine to itself: it measures emulated ranks. No GPU.", takes="less than a minute.",
              writes="table.md, results.json, prefetch.svg and no-prefetch.svg")
MOST = 0.04
LINKS = {"link_gbps": 2, "latency_us": 50}
NO_PREFETCH = {"parallel.prefetch": 0, "parallel.backward_prefetch": "BACKWARD_NONE"}
WITH, WITHOUT = "FULL_SHARD", "FULL_SHARD, no prefetch"
# (name, settings)
CASES = [
    ("NO_SHARD, buckets of 0.5 MiB", {"parallel.sharding": "NO_SHARD", "parallel.bucket_mib": 0.5}),
    ("SHARD_OPTIMIZER", {"parallel.sharding": "SHARD_OPTIMIZER"}),
    ("SHARD_GRAD_OP", {"parallel.sharding": "SHARD_GRAD_OP"}),
    (WITH, {}),
    (WITHOUT, NO_PREFETCH),
    ("FULL_SHARD, prefetch 2", {"parallel.prefetch": 2}),
    ("FULL_SHARD, backward prefetch POST", {"parallel.backward_prefetch": "BACKWARD_POST"}),
    ("FULL_SHARD, kept after forward", {"parallel.reshard_after_forward": "false"}),
    ("FULL_SHARD, no overlap", {"parallel.overlap": "false"}),
    ("FULL_SHARD, 2 micro-batches", {"train.global_batch": 32}),
    ("HYBRID_SHARD in groups of 2", {"parallel.sharding": "HYBRID_SHARD", "parallel.shard_group": 2}),
]


def main():
    options, twofold = study.start()
    table, rows = Table("layout", *STEP_COLUMNS, "exposed communication, predicted", "measured", "peak of a rank"), {}
    for name, settings in CASES:
        with tempfile.TemporaryDirectory() as folder:
            predicted, measured = predict_and_measure(twofold, study.folder / "gpt.textproto", settings, LINKS, folder)
            if options.write and name in (WITH, WITHOUT):
                twofold("report", "predicted", "measured", cwd=folder)
                shutil.copy(f"{folder}/measured/timeline.svg", study.folder / ("prefetch.svg" if name == WITH else "no-prefetch.svg"))
        check_memory(name, predicted, measured)
        peak = measured["ranks"][0]["peak_bytes"]
        table.add(name, *step_cells(predicted, measured), *exposed_cells(predicted, measured), count(peak))
        rows[name] = step_row(name, predicted, measured, peak_bytes=peak)
    shares = [rows[WITH][key] / rows[WITHOUT][key] for key in ("predicted_exposed", "measured_exposed")]
    problems = [f"{name}: predicted {signed(row['error'])} off" for name, row in rows.items() if abs(row["error"]) > MOST]
    if max(shares) >= 0.5:
        problems.append("prefetching does not halve the exposed communication")
    text = [f"With prefetching, FULL_SHARD exposes {percent(shares[0], 0)} (predicted) and {percent(shares[1], 0)} (measured) of the "
            "communication that it exposes without: the time lines are in prefetch.svg and no-prefetch.svg, the prediction above.",
            f"Errors are to be at most {percent(MOST, 0)}. Four ranks are threads on {os.cpu_count()} cores, links have 2 Gb/s and "
            "50 µs; memory was equal to the byte."]
    study.publish("What sharded layouts hide: predicted against measured", [*table.lines, "", *text], list(rows.values()))
    study.end(problems)


if __name__ == "__main__":
    main()
