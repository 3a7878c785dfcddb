#!/usr/bin/env python3
"""Rows of tests/gpu/run.sh's table, "check|result|figure|bound", of what gpu_kernels_benchmark wrote: benchmark_rows.py FILE.json"""
import json
import sys

AT_LEAST = 0.85  # of the bandwidth of a copy


def name_of(benchmark):
    return benchmark["name"].split("/iterations:")[0]


def rows(benchmarks):
    """Lines, worst kernels first."""
    copy = next(b for b in benchmarks if name_of(b).startswith("copy/"))
    yield f"copy within the GPU|measured|{copy['GB/s']:.0f} GB/s|"
    memory = sorted((b for b in benchmarks if "of_copy" in b), key=lambda b: b["of_copy"])
    for b in memory:
        result = "passed" if b["of_copy"] >= AT_LEAST else "FAILED"
        yield f"{name_of(b).removeprefix('memory/')}|{result}|{b['GB/s']:.0f} GB/s, {b['of_copy']:.3f} of a copy|>= {AT_LEAST}"
    for b in benchmarks:
        if "TFLOP/s" in b:
            yield f"{name_of(b).removeprefix('compute/')}|measured|{b['TFLOP/s']:.1f} TFLOP/s|"


if __name__ == "__main__":
    for line in rows(json.load(open(sys.argv[1]))["benchmarks"]):
        print(line)
