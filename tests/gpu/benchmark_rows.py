#!/usr/bin/env python3
"""Rows of tests/gpu/run.sh's table, "check|result|figure|bound", of what gpu_kernels_benchmark wrote: benchmark_rows.py FILE.json"""
import json
import sys

AT_LEAST = 0.85  # of the bandwidth of a copy


def name_of(benchmark):
    return benchmark["name"].split("/iterations:")[0]


def rows(benchmarks):
    """Lines, worst kernels first."""
    for b in (b for b in benchmarks if b.get("error_occurred")):
        yield f"{name_of(b)}|FAILED|{b['error_message'][:100].replace('|', '/')}|"
    benchmarks = [b for b in benchmarks if not b.get("error_occurred")]
    copy = next((b for b in benchmarks if name_of(b).startswith("copy/")), None)
    yield f"copy within the GPU|measured|{copy['GB/s']:.0f} GB/s|" if copy else "copy within the GPU|FAILED|it was not measured|"
    memory = sorted((b for b in benchmarks if "of_copy" in b), key=lambda b: b["of_copy"])
    for b in memory:
        result = "passed" if b["of_copy"] >= AT_LEAST else "FAILED"
        yield f"{name_of(b).removeprefix('memory/')}|{result}|{b['GB/s']:.0f} GB/s, {b['of_copy']:.3f} of a copy|>= {AT_LEAST}"
    for b in benchmarks:
        if "TFLOP/s" in b:
            yield f"{name_of(b).removeprefix('compute/')}|measured|{b['TFLOP/s']:.1f} TFLOP/s|"
        if "host_us" in b:
            yield f"launching {name_of(b).removeprefix('host/')}|measured|{b['host_us']:.2f} us of the host|"


if __name__ == "__main__":
    for line in rows(json.load(open(sys.argv[1]))["benchmarks"]):
        print(line)
