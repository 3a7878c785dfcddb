#!/usr/bin/env python3
"""What do the calibration rows say of boundary_tensors and communicator_mib in topologies/catalogue/frameworks?"""
import pathlib
import statistics
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from common import Study  # noqa: E402
from run import MIB, predicted_memory, stage_of  # noqa: E402
from tables import GB_OF_SMI, rows_of  # noqa: E402

study = Study(__file__, __doc__, needs="`twofold` alone.", takes="about a minute.", writes="nothing", always=True)
TENSOR = 2 * 2 * 2048 * 14336  # bytes of what passes between two blocks of LUMI's model


def part(memory, name):
    return sum(p["bytes"] for p in memory["parts"] if p["name"] == name)


def main():
    _, twofold = study.start()
    known, tensors, each = {}, [], []
    for case in rows_of("lumi_memory"):
        if case["role"] == "calibration":
            stage = stage_of(predicted_memory(twofold, case, known), case)
            rest = float(case["reserved_MiB"]) * MIB - stage["reserved_bytes"] + part(stage, "slack of the allocator")
            tensors.append(rest / TENSOR)
    for case in rows_of("bigscience_1b3"):
        first = predicted_memory(twofold, case, known)["ranks"][0]["framework"] if case["gpu_GB"] and case["tp"] == 1 else None
        if first:
            communicators = part(first, "communicators")
            # all ranks; in a pipeline also replicas if any, the neighbour, and the two that hold the table
            count = 1 if case["pp"] == 1 else 3 + (case["dp"] > 1)
            each.append((float(case["gpu_GB"]) * GB_OF_SMI - first["device_bytes"] + communicators) / count / MIB)
    print(f"boundary_tensors, by stage: {', '.join(f'{t:.1f}' for t in tensors)}; median {statistics.median(tensors):.1f}")
    print(f"communicator_mib, by row: {', '.join(f'{m:.0f}' for m in each)}; median {statistics.median(each):.0f}")


if __name__ == "__main__":
    main()
