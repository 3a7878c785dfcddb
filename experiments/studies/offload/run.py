#!/usr/bin/env python3
"""What does offload save on the device, what does it cost in time, and how much of its transfers is hidden?"""
import os
import pathlib
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from common import (STEP_COLUMNS, Study, Table, check_memory, error_summary, exposed_cells, mebibytes, milliseconds, percent, predict_and_measure,  # noqa: E402
                    read_json, step_cells, step_row)

study = Study(__file__, __doc__, needs="`twofold` and this machine to itself: it measures emulated ranks. No GPU.", takes="one to two minutes.")
MOST = 0.04
LINKS = {"link_gbps": 4, "latency_us": 200}
LEDGERS = ("peak_bytes", "reserved_bytes", "host_peak_bytes", "host_reserved_bytes")
LATE = {"parallel.prefetch": 0, "parallel.backward_prefetch": "BACKWARD_NONE"}
# (name, settings)
CASES = [
    ("no offload", {}),
    ("optimizer", {"parallel.offload": "OFFLOAD_OPTIMIZER"}),
    ("all, prefetching", {"parallel.offload": "OFFLOAD_ALL"}),
    ("all, no prefetching", {"parallel.offload": "OFFLOAD_ALL", **LATE}),
    ("no offload, no prefetching", LATE),
    ("all, prefetching, 4 micro-batches", {"parallel.offload": "OFFLOAD_ALL", "train.global_batch": 16}),
    ("all, no prefetching, 4 micro-batches", {"parallel.offload": "OFFLOAD_ALL", "train.global_batch": 16, **LATE}),
    ("optimizer, DDP", {"parallel.offload": "OFFLOAD_OPTIMIZER", "parallel.sharding": "NO_SHARD"}),
]


def transfer_seconds(trace):
    """How long the traced step's transfers take on rank 0."""
    return sum(e["dur"] for e in read_json(trace)["traceEvents"] if e["ph"] == "X" and e["name"] == "transfer" and e["pid"] == 0) * 1e-6


def main():
    _, twofold = study.start()
    table = Table("offload", *STEP_COLUMNS, "transfers", "exposed, predicted", "exposed, measured", "device, peak", "host, peak")
    rows, device = {}, {"emulated.cluster": study.folder / "slow_link.textproto"}
    for name, settings in CASES:
        with tempfile.TemporaryDirectory() as folder:
            predicted, measured = predict_and_measure(twofold, study.folder / "gpt.textproto", {**settings, **device}, LINKS, folder)
            transfers = transfer_seconds(f"{folder}/predicted/trace.json")
        check_memory(name, predicted, measured, LEDGERS)
        peaks = {key: measured["ranks"][0][key] for key in ("peak_bytes", "host_peak_bytes")}
        table.add(name, *step_cells(predicted, measured), milliseconds(transfers), *exposed_cells(predicted, measured), *map(mebibytes, peaks.values()))
        rows[name] = step_row(name, predicted, measured, transfer_seconds=transfers, **peaks)
    median, worst = error_summary(rows.values())
    problems = [f"the median error is {percent(median, 2)}"] if median > MOST else []
    for more in ("", ", 4 micro-batches"):
        if any(rows[f"all, prefetching{more}"][side] >= rows[f"all, no prefetching{more}"][side] for side in ("predicted", "measured")):
            problems.append(f"prefetching does not hide transfers{more}")
    text = (f"Median error {percent(median, 2)} (at most {percent(MOST, 0)}), worst {percent(worst, 2)}. 2 ranks, ZeRO-3 unless "
            f"stated, on {os.cpu_count()} cores. Transfers: of a step, both ways together; exposed: what the compute stream waits "
            "for them and for communication. The ledgers of device and host were equal to the byte.")
    study.publish("Offload: predicted against measured", [*table.lines, "", text], list(rows.values()))
    study.end(problems)


if __name__ == "__main__":
    main()
