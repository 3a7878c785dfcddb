#!/usr/bin/env python3
"""How far are predicted collectives and training steps from those on a real network, and how far is SimGrid's SMPI?"""
import csv
import functools
import io
import json
import pathlib
import statistics
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from common import EAGER_BYTES, Study, Table, milliseconds, percent, progress, read_json, row, run, signed, step_cells, step_row, testbed  # noqa: E402

study = Study(__file__, __doc__, needs="`twofold` with MPI, the testbed's helpers, SMPI (smpicxx, smpirun), root (README.md), and nothing else that wants the "
              "cores: ranks have real-time priority. --reuse only simulates and needs no rights. No GPU.", takes="about a quarter of an hour.",
              writes="table.md, results.json, errors.svg and measured/")
study.option("--reuse", action="store_true", help="measure nothing: predict, and compare with what is in measured/")
MEASURED = study.folder / "measured"
TESTBEDS = [("star-4", "star", 4), ("star-8", "star", 8), ("tree-4", "tree", 4), ("tree-8", "tree", 8)]
OPERATIONS = ["all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast"]
LEAST, MOST, LARGE = 1 << 10, 16 << 20, 64 << 10
REPETITIONS = 9
FAR_DELAY = 500  # us, where --delay-us is 300
OVERSUBSCRIPTION = 2
BOUND_LARGE, BOUND_SMALL, BOUND_STEP, BOUND_EXPOSED = 0.03, 0.10, 0.05, 0.12
# (name, settings of training.textproto)
STEPS = [("DDP", {"parallel.bucket_mib": 0.5}), ("ZeRO-2", {"parallel.sharding": "SHARD_GRAD_OP"}), ("ZeRO-3", {"parallel.sharding": "FULL_SHARD"})]


# ---- Measure ----
def measure(name, shape, hosts, twofold, folder):
    options = [f"--topology={shape}", f"--far-delay-us={FAR_DELAY}", f"--oversubscription={OVERSUBSCRIPTION}"]
    with testbed(hosts, *options) as (structure, start):
        (folder / "structure.textproto").write_text(structure)
        progress(f"{name}: calibrating")
        done = twofold("calibrate", "--fabric=mpi", "--quick", f"--cluster={folder}/structure.textproto", f"--cluster-out={MEASURED / name}.textproto", start=start)
        progress(done.output)
        progress(f"{name}: measuring collectives")
        helper = twofold.of_studies("testbed/testbed_collectives")
        (MEASURED / f"{name}.csv").write_text(run([*start, helper, LEAST, MOST, REPETITIONS, *OPERATIONS]).output)
        for case, settings in STEPS if hosts == 8 else []:
            progress(f"{name}: measuring {case}")
            report = twofold.report(study.folder / "training.textproto", settings, "--fabric=mpi", start=start)
            kept = {k: report[k] for k in ("median_step_seconds", "low", "high", "exposed_communication_seconds")}
            (MEASURED / f"{name}-{case}.json").write_text(json.dumps(kept, indent=1) + "\n")


def measured(name):
    rows = csv.DictReader(io.StringIO((MEASURED / f"{name}.csv").read_text()))
    return {(r["operation"], int(r["bytes"])): tuple(float(r[k]) for k in ("median_us", "least_us", "most_us")) for r in rows}


# ---- Predict ----
def predict(name, hosts, twofold):
    """Microseconds by operation and size."""
    words = [f"--cluster={MEASURED / name}.textproto", f"--ranks={hosts}"]
    return {(operation, size): us for operation in OPERATIONS for size, us in twofold.bench(operation, LEAST, MOST, *words, factor=4).items()}


# ---- SMPI ----
def figure(text, field):
    """A number of a cluster file in text format."""
    for line in text.splitlines():
        if line.strip().startswith(field + ":"):
            return float(line.split(":")[1])
    return 0.0


def platform(name, shape, hosts, text):
    """The same cluster for SimGrid: rates and latencies as calibrated."""
    rate = figure(text, "link_gbytes_per_second") * 1e9
    hop = figure(text, "switch_us")  # of the tree's further switches: two on the way to another leaf
    near = figure(text, "latency_us") or 2 * figure(text, "nic_us") + hop
    leaves = 2 if shape == "tree" else 1
    per_leaf = hosts // leaves
    lines = ['<?xml version="1.0"?>', '<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">', '<platform version="4.1">', '<zone id="w" routing="Floyd">']
    lines += [f'<host id="h{h}" speed="10Gf"/>' for h in range(hosts)] + [f'<router id="{r}"/>' for r in ["root", *(f"leaf{leaf}" for leaf in range(leaves))]]
    lines += [f'<link id="L{h}" bandwidth="{rate}Bps" latency="{near / 2}us" sharing_policy="SPLITDUPLEX"/>' for h in range(hosts)]
    lines += [f'<link id="U{leaf}" bandwidth="{rate * per_leaf / OVERSUBSCRIPTION}Bps" latency="{hop}us" sharing_policy="SPLITDUPLEX"/>' for leaf in range(leaves)]

    def route(a, b, link):
        return "".join(f'<route src="{s}" dst="{d}" symmetrical="NO"><link_ctn id="{link}" direction="{way}"/></route>' for s, d, way in ((a, b, "UP"), (b, a, "DOWN")))

    lines += [route(f"h{h}", f"leaf{h // per_leaf}", f"L{h}") for h in range(hosts)]
    lines += [route(f"leaf{leaf}", "root", f"U{leaf}") for leaf in range(leaves)]
    return "\n".join([*lines, "</zone>", "</platform>"])


def smpi_algorithm(operation, hosts, size):
    """SMPI's name for what Open MPI 4.1 takes: (operation of collectives.cc, settings)."""
    block = size // hosts
    if operation == "all_reduce":
        return operation, ["smpi/allreduce:" + ("rdb" if size < 8192 else "rab_rdb")]
    if operation == "all_gather":
        return operation, ["smpi/allgather:rdb"]
    if operation == "reduce_scatter":
        if block >= (1 << 20 if hosts < 8 else 1 << 19):
            return "reduce_then_scatter", ["smpi/reduce:" + ("ompi_basic_linear" if hosts < 8 else "binomial"), "smpi/scatter:ompi_basic_linear"]
        return operation, ["smpi/reduce_scatter:ompi_basic_recursivehalving"]
    if operation == "all_to_all":
        pairwise = hosts < 8 and 1 << 19 <= block < 1 << 20
        return operation, ["smpi/alltoall:" + ("pair" if pairwise else "basic_linear")]
    if hosts < 8:
        tree = "binary" if size < 2048 else "binomial" if size < 8192 else "linear" if size < 1 << 20 else "chain"
    else:
        tree = "knomial" if size < 4096 else "binary" if size < 16384 else "binomial" if size < 32768 else "linear"
    return f"broadcast_{tree}", []


def smpi_settings(text):
    """Its counterparts of our library's figures: what passes at once is taken off the latency of larger messages."""
    rate = figure(text, "link_gbytes_per_second") * 1e9
    latency = figure(text, "latency_us") or 2 * figure(text, "nic_us") + figure(text, "switch_us")
    free = figure(text, "free_bytes")
    saved = max(0.0, 1 - free / rate * 1e6 / latency)
    return ["smpi/host-speed:10Gf", "smpi/simulate-computation:no", "smpi/display-timing:no", "network/model:SMPI", "network/TCP-gamma:0",
            "network/crosstraffic:0", "network/weight-S:0", "network/latency-factor:1", "network/bandwidth-factor:1",
            f"smpi/bw-factor:0:1000;{int(free)}:1", f"smpi/lat-factor:0:1;{int(free)}:{saved}", f"smpi/os:0:{figure(text, 'gap_us') * 1e-6}:0", "smpi/or:0:0:0",
            f"smpi/async-small-thresh:{EAGER_BYTES}", f"smpi/send-is-detached-thresh:{EAGER_BYTES}", "smpi/barrier:ompi_recursivedoubling"]


@functools.cache
def smpi_program(folder):
    run(["smpicxx", "-std=c++20", "-O2", "-DSIMULATED", "-o", f"{folder}/collectives_smpi", study.folder / "collectives.cc"])
    return f"{folder}/collectives_smpi"


def smpi(name, shape, hosts, folder):
    """As predict()."""
    text = (MEASURED / f"{name}.textproto").read_text()
    (folder / "platform.xml").write_text(platform(name, shape, hosts, text))
    (folder / "hosts").write_text("".join(f"h{h}\n" for h in range(hosts)))
    times = {}
    for operation in OPERATIONS:
        size = LEAST
        while size <= MOST:
            own, settings = smpi_algorithm(operation, hosts, size)
            done = run(["smpirun", "-np", hosts, "-hostfile", folder / "hosts", "-platform", folder / "platform.xml",
                        *[f"--cfg={s}" for s in smpi_settings(text) + settings], smpi_program(folder), size, size, 1, own])
            times[operation, size] = float(done.output.strip().splitlines()[-1].split(",")[3])
            size *= 4
    return times


# ---- Table and picture ----
def size_text(size):
    return f"{size >> 20} MB" if size >= 1 << 20 else f"{size >> 10} KB"


def time_text(us):
    return f"{us / 1e3:,.{1 if us >= 1e4 else 2}f} ms"


def off(cell, side):
    """The error of a cell; `side`: predicted (by Twofold) or smpi."""
    return cell[side] / cell["measured"] - 1


def cells(twofold, folder):
    """Rows of results.json: a testbed, operation and size each."""
    for name, shape, hosts in TESTBEDS:
        ours, theirs = predict(name, hosts, twofold), smpi(name, shape, hosts, folder)
        for (operation, size), (median, least, most) in measured(name).items():
            yield row(f"{name}, {operation}, {size} B", ours[operation, size], median, "µs", testbed=name, operation=operation, bytes=size,
                      measured_least=least, measured_most=most, smpi=theirs[operation, size])


def mean_errors(chosen):
    return [statistics.mean(abs(off(r, side)) for r in chosen) for side in ("predicted", "smpi")]


def means(rows):
    """Lines, and what was missed."""
    table, problems = Table("", "cells", "Twofold", "SMPI"), []
    large, small = [r for r in rows if r["bytes"] >= LARGE], [r for r in rows if r["bytes"] < LARGE]
    for text, chosen, bound in (("64 KB and more", large, BOUND_LARGE), ("below", small, BOUND_SMALL)):
        errors = mean_errors(chosen)
        table.add(f"{text} (at most {percent(bound, 0)})", len(chosen), *map(percent, errors))
        problems += [f"collectives, {text}: {percent(errors[0])}"] if errors[0] > bound else []
    for name, _, _ in TESTBEDS:
        for text, group in (("64 KB and more", large), ("below", small)):
            chosen = [r for r in group if r["testbed"] == name]
            table.add(f"{name}, {text}", len(chosen), *map(percent, mean_errors(chosen)))
    return table.lines, problems


def against(rows):
    """Lines about the cells in which SMPI is nearer by more than the measurements' own spread around their median."""
    lost = [r for r in rows if (abs(r["predicted"] - r["measured"]) - abs(r["smpi"] - r["measured"])
                                > max(r["measured"] - r["measured_least"], r["measured_most"] - r["measured"]))]
    return [f"SMPI is nearer by more than the measurement's own spread in {len(lost)} of {len(rows)} cells" + (":" if lost else "."), "",
            *(f"- {r['testbed']}, {r['operation']}, {size_text(r['bytes'])}: {signed(off(r, 'predicted'))} against {signed(off(r, 'smpi'))}" for r in lost)]


def cell_table(rows):
    table = Table("testbed", "operation", "size", "measured (least to most)", "Twofold", "error", "SMPI", "error")
    for r in rows:
        table.add(r["testbed"], r["operation"], size_text(r["bytes"]),
                  f"{time_text(r['measured'])} ({time_text(r['measured_least'])} to {time_text(r['measured_most'])})",
                  time_text(r["predicted"]), signed(off(r, "predicted")), time_text(r["smpi"]), signed(off(r, "smpi")))
    return table.lines


def steps(twofold):
    """Lines, rows of results.json, and what was missed."""
    table = Table("testbed", "strategy", "measured step (p10 to p90)", "predicted", "error", "exposed communication, measured", "predicted", "error")
    rows, exposed_errors = [], []
    for name, case, settings in ((name, *step) for name, _, hosts in TESTBEDS if hosts == 8 for step in STEPS):
        m = read_json(MEASURED / f"{name}-{case}.json")
        p = twofold.report(study.folder / "training.textproto", {"fabric.simulated.cluster": MEASURED / f"{name}.textproto", **settings}, "--fabric=simulated")
        exposed = p["exposed_communication_seconds"] / m["exposed_communication_seconds"] - 1
        rows.append(step_row(f"{name}, {case}", p, m, testbed=name))
        exposed_errors.append(abs(exposed))
        predicted, text, error = step_cells(p, m, 1)
        table.add(name, case, text, predicted, error, *(milliseconds(r["exposed_communication_seconds"], 1) for r in (m, p)), signed(exposed))
    step, exposed = statistics.median(abs(r["error"]) for r in rows), statistics.median(exposed_errors)
    text = (f"Medians: step time {percent(step)} (at most {percent(BOUND_STEP, 0)}), exposed communication {percent(exposed)} "
            f"(at most {percent(BOUND_EXPOSED, 0)}).")
    return [*table.lines, "", text], rows, [text] if step > BOUND_STEP or exposed > BOUND_EXPOSED else []


def picture(rows):
    """Error by size, one panel a testbed, one line an operation; SMPI's dashed."""
    colours = dict(zip(OPERATIONS, ("#1b6ca8", "#c8553d", "#588157", "#8e5ea2", "#d99a1c")))
    sizes = sorted({r["bytes"] for r in rows})
    width, height, left, top, limit = 300, 190, 46, 46, 0.30
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + 2 * width + 20}" height="{top + 2 * (height + 50)}" font-family="sans-serif" font-size="11">',
           '<rect width="100%" height="100%" fill="white"/>',
           f'<text x="{left}" y="16" font-size="13">Error of predicted collectives by size: Twofold (solid), SMPI (dashed); cut at 30 %</text>']
    for i, operation in enumerate(OPERATIONS):
        out.append(f'<text x="{left + 120 * i}" y="34" fill="{colours[operation]}">{operation}</text>')
    for n, (name, _, _) in enumerate(TESTBEDS):
        x0, y0 = left + n % 2 * (width + 10), top + n // 2 * (height + 50) + 14

        def point(size, error, x0=x0, y0=y0):
            clipped = max(-limit, min(limit, error))
            return f"{x0 + 8 + (width - 30) * sizes.index(size) / (len(sizes) - 1):.1f},{y0 + height / 2 - clipped / limit * height / 2:.1f}"

        out.append(f'<text x="{x0 + 4}" y="{y0 - 4}" font-weight="bold">{name}</text>')
        for tick in (-0.3, -0.1, -0.03, 0, 0.03, 0.1, 0.3):
            y = y0 + height / 2 - tick / limit * height / 2
            out.append(f'<line x1="{x0}" x2="{x0 + width - 14}" y1="{y:.1f}" y2="{y:.1f}" stroke="{"#666" if tick == 0 else "#ddd"}"/>')
            if n % 2 == 0 and abs(tick) != 0.03:
                out.append(f'<text x="{x0 - 6}" y="{y + 4:.1f}" text-anchor="end">{100 * tick:+.0f} %</text>')
        for size in sizes[::2]:
            out.append(f'<text x="{point(size, 0).split(",")[0]}" y="{y0 + height + 14}" text-anchor="middle">{size_text(size)}</text>')
        for operation in OPERATIONS:
            for side, dashes in (("predicted", ""), ("smpi", ' stroke-dasharray="3 3" opacity="0.6"')):
                points = " ".join(point(r["bytes"], off(r, side)) for r in rows if r["testbed"] == name and r["operation"] == operation)
                out.append(f'<polyline points="{points}" fill="none" stroke="{colours[operation]}" stroke-width="1.6"{dashes}/>')
    return "\n".join([*out, "</svg>"]) + "\n"


def main():
    global MEASURED
    options, twofold = study.start()
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        if not options.write and not options.reuse:  # what is committed stays as it is
            MEASURED = folder
        for name, shape, hosts in [] if options.reuse else TESTBEDS:
            measure(name, shape, hosts, twofold, folder)
        rows = list(cells(twofold, folder))
    summary, problems = means(rows)
    of_steps, step_rows, step_problems = steps(twofold)
    if options.write:
        (study.folder / "errors.svg").write_text(picture(rows))
    lines = ["Calibrated, on each testbed, from messages between pairs of hosts alone; validated on all collectives and training steps below.", "",
             "## Mean absolute errors of collectives", "", *summary, "", *against(rows), "", "![errors by size](errors.svg)", "",
             "## Training steps, 8 hosts, EMULATED compute", "", *of_steps, "", "## Every cell", "", *cell_table(rows)]
    study.publish("A miniature cluster: predicted against measured", lines, rows + step_rows)
    study.end(problems + step_problems)


if __name__ == "__main__":
    main()
