#!/usr/bin/env python3
"""How far are the laws of kernel times from measured kernels that took no part in their fit, by GPU, type and source?"""
import pathlib
import re
import shutil
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from common import Study, markdown, row  # noqa: E402

study = Study(__file__, __doc__, needs="`twofold` alone: it fits, and measures nothing.", takes="about ten minutes.",
              writes="table.md, results.json and the measured devices of topologies/catalogue/devices")
TABLES = study.folder / "tables"
DEVICES = study.folder.parents[2] / "topologies/catalogue/devices"
GPUS = {"a100-sxm": "a100_sxm", "h100-sxm": "h100_sxm", "h200-sxm": "h200_sxm", "b200-sxm": "b200_sxm", "gb200": "gb200"}
SOURCES = ("us_sglang", "us_trtllm", "us_vllm")
# Tables of factors, of another machine with the same GPU or the nearest one: SimuMax.
FACTORS = {"a100-sxm": "a100_pcie", "b200-sxm": "b200_sxm", "gb200": "b200_sxm"}
FACTOR_TABLES = ("simumax_gemm_layouts", "simumax_grouped_gemm", "simumax_attention_passes")
# Of products of m, n, k >= 512, and attention of 512 tokens or more: the most that the median and the p90 may be.
LIMITS = {"bf16": (0.05, 0.15), "attention": (0.08, None), "fp8": (0.08, None), "fp8_block": (0.08, None)}
LINE = re.compile(r"^  (.+?) +(\d+) rows: median +([\d.]+) %, p90 +([\d.]+) %$")


def fits(gpu):
    """The fits of a GPU: family, table, columns, words of the command. The first of a family is what predictions use."""
    name = GPUS[gpu]
    full = gpu != "a100-sxm"  # TensorRT-LLM and vLLM measured a quarter of A100's shapes
    for columns in (["us_sglang,us_trtllm"] if full else []) + list(SOURCES):
        yield "bf16", f"gemm_bf16_{name}.csv.gz", columns, []
    for columns in ("us_vllm", "us_trtllm"):
        yield "attention", f"attention_forward_bf16_{name}.csv.gz", columns, []
    for dtype in ("fp8", "fp8_block") if full else ():
        for columns in SOURCES:
            yield dtype, f"gemm_{dtype}_{name}.csv.gz", columns, [f"--dtype={dtype}"]


def calibrate(twofold, gpu, scratch):
    """(family, columns, region, rows, median, p90) of every fit of a GPU, and the file of the device."""
    device, found = scratch / f"{gpu}.textproto", []
    shutil.copyfile(DEVICES / device.name, device)
    for family, table, columns, words in fits(gpu):
        out = twofold("calibrate", f"--from={TABLES / table}", f"--gpu={device}", f"--column={columns}", f"--out={device}", *words).output
        lines = [LINE.match(line) for line in out.splitlines()]
        found += [(family, columns, m[1], int(m[2]), float(m[3]) / 100, float(m[4]) / 100) for m in lines if m]
    for table in FACTOR_TABLES if gpu in FACTORS else ():
        twofold("calibrate", f"--from={TABLES / f'{table}_{FACTORS[gpu]}.csv'}", f"--gpu={device}", f"--out={device}")
    return found, device


def is_large(region):
    return region.endswith("or more")


def short(columns):
    return columns.replace("us_", "").replace(",", " + ")


def over(gpu, family, columns, median, p90):
    most, most_p90 = LIMITS[family]
    return [f"{gpu}, {family}, {short(columns)}: {what} of {value:.1%} is over {limit:.0%}"
            for what, value, limit in (("a median", median, most), ("a p90", p90, most_p90)) if limit is not None and value > limit]


def page(found):
    percent = lambda share: f"{100 * share:.1f} %"  # noqa: E731
    lines = ["Errors |predicted / measured - 1| on shapes that were left out of the fit: every fifth, by hash.", "",
             "## Products with m, n, k >= 512, and attention over 512 tokens or more", "",
             *markdown(["GPU", "family", "fitted to", "rows", "median", "p90"],
                       [[gpu, family, short(columns), rows, percent(median), percent(p90)]
                        for gpu, family, columns, region, rows, median, p90 in found if is_large(region)]),
             "", "## By region", "",
             *markdown(["GPU", "family", "fitted to", "region", "rows", "median", "p90"],
                       [[gpu, family, short(columns), region, rows, percent(median), percent(p90)]
                        for gpu, family, columns, region, rows, median, p90 in found if not is_large(region)])]
    return lines


def main():
    options, twofold = study.start()
    found = []
    with tempfile.TemporaryDirectory() as scratch:
        for gpu in GPUS:
            of_gpu, device = calibrate(twofold, gpu, pathlib.Path(scratch))
            found += [(gpu, *one) for one in of_gpu]
            if options.write:
                shutil.copyfile(device, DEVICES / device.name)
    rows = [row(f"{gpu}, {family}, {short(columns)}, {region}", median, None, "median error", gpu=gpu, family=family, columns=columns, region=region, rows=count,
                p90=p90) for gpu, family, columns, region, count, median, p90 in found]
    study.publish("Laws of kernel times beside measured kernels", page(found), rows)
    study.end([text for gpu, family, columns, region, _, median, p90 in found if is_large(region) for text in over(gpu, family, columns, median, p90)])


if __name__ == "__main__":
    main()
