#!/usr/bin/env python3
"""A real network: predictions against measurements on the miniature cluster of testbed.py, and SimGrid's SMPI beside them.

    experiments/studies/testbed/run.py [--write] [--reuse] [PATH_OF_TWOFOLD]

Four testbeds (star and oversubscribed tree, 4 and 8 hosts). On each, `twofold calibrate --fabric=mpi` measures messages between
pairs of hosts (and between all neighbours at once), never a collective; its cluster file and the structure as configured are all
that the predictions know. Measured, by collectives.cc over Open MPI 4.1 with its own choice of algorithms: five collectives, 1 KB
to 16 MB, medians. Predicted: `twofold bench --fabric=simulated`, and SMPI with the same calibration and the same algorithms.
Then whole training steps with EMULATED compute on 8 hosts, measured by `twofold run` on the mpi fabric and predicted by the same
program on the simulated one. Fails when a bound is not met; --write renews table.md and errors.svg beside this file, and what
was measured in measured/; --reuse predicts from what lies there (needs no rights). Needs root, about fifteen minutes, and
nothing else that wants the cores: ranks run with real-time priority.
"""
import csv
import functools
import io
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent.parent
MEASURED = HERE / "measured"
TESTBEDS = [("star-4", "star", 4), ("star-8", "star", 8), ("tree-4", "tree", 4), ("tree-8", "tree", 8)]
OPERATIONS = ["all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast"]
LEAST, MOST, LARGE = 1 << 10, 16 << 20, 64 << 10
REPETITIONS = 9
EAGER = 32 << 20  # bytes: larger than any message; what asking the receiver costs on a busy network varies by a third
FAR_DELAY = 500  # us, where --delay-us is 300
OVERSUBSCRIPTION = 2
BOUND_LARGE, BOUND_SMALL, BOUND_STEP, BOUND_EXPOSED = 0.03, 0.10, 0.05, 0.12
# (name, settings of training.textproto)
STEPS = [("DDP", ["parallel.bucket_mib=0.5"]), ("ZeRO-2", ["parallel.sharding=SHARD_GRAD_OP"]), ("ZeRO-3", ["parallel.sharding=FULL_SHARD"])]


def testbed(*arguments):
    return subprocess.run([str(HERE / "testbed.py"), *map(str, arguments)], check=True, stdout=subprocess.PIPE, text=True).stdout


def on_hosts(*command):
    return testbed("run", "--realtime", f"--eager-bytes={EAGER}", "--", *command)


def assignments(settings):
    return [part for s in settings for part in ("--set", s)]


# ---- Measure ----
def measure(name, shape, hosts, program, folder):
    testbed("down")
    testbed("up", f"--hosts={hosts}", f"--topology={shape}", f"--far-delay-us={FAR_DELAY}", f"--oversubscription={OVERSUBSCRIPTION}")
    try:
        structure = folder / "structure.textproto"
        structure.write_text(testbed("cluster"))
        print(f"{name}: calibrating", file=sys.stderr, flush=True)
        text = on_hosts(program, "calibrate", "--fabric=mpi", "--quick", f"--cluster={structure}", f"--cluster-out={MEASURED / name}.textproto")
        print(text, file=sys.stderr, flush=True)
        print(f"{name}: measuring collectives", file=sys.stderr, flush=True)
        helper = ROOT / "build/release/experiments/studies/testbed/testbed_collectives"
        (MEASURED / f"{name}.csv").write_text(on_hosts(helper, LEAST, MOST, REPETITIONS, *OPERATIONS))
        if hosts == 8:
            for case, settings in STEPS:
                print(f"{name}: measuring {case}", file=sys.stderr, flush=True)
                out = folder / "out"
                on_hosts(program, "run", HERE / "training.textproto", "--quiet", "--fabric=mpi", *assignments(settings), f"--out={out}")
                report = json.loads((out / "report.json").read_text())
                kept = {k: report[k] for k in ("median_step_seconds", "low", "high", "exposed_communication_seconds")}
                (MEASURED / f"{name}-{case}.json").write_text(json.dumps(kept, indent=1) + "\n")
    finally:
        testbed("down")


def measured(name):
    rows = csv.DictReader(io.StringIO((MEASURED / f"{name}.csv").read_text()))
    return {(r["operation"], int(r["bytes"])): tuple(float(r[k]) for k in ("median_us", "least_us", "most_us")) for r in rows}


# ---- Predict ----
def predict(name, hosts, program, folder):
    times = {}
    for operation in OPERATIONS:
        out = folder / "bench.csv"
        subprocess.run([program, "bench", operation, "--fabric=simulated", f"--cluster={MEASURED / name}.textproto", f"--ranks={hosts}", "-b", str(LEAST),
                        "-e", str(MOST), "-f", "4", f"--out={out}"], check=True, stdout=subprocess.DEVNULL)
        for row in csv.DictReader(open(out)):
            times[operation, int(row["size"])] = float(row["out_of_place_time_us"] or row["in_place_time_us"])
    return times


def predict_step(name, settings, program, folder):
    out = folder / "predicted"
    subprocess.run([program, "run", str(HERE / "training.textproto"), "--quiet", "--fabric=simulated", 
                    *assignments([f"fabric.simulated.cluster={MEASURED / name}.textproto", *settings]), f"--out={out}"], check=True, stdout=subprocess.DEVNULL)
    return json.loads((out / "report.json").read_text())


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
            f"smpi/async-small-thresh:{EAGER}", f"smpi/send-is-detached-thresh:{EAGER}", "smpi/barrier:ompi_recursivedoubling"]


@functools.cache
def smpi_program(folder):
    program = pathlib.Path(folder) / "collectives_smpi"
    subprocess.run(["smpicxx", "-std=c++20", "-O2", "-DSIMULATED", "-o", str(program), str(HERE / "collectives.cc")], check=True)
    return str(program)


def smpi(name, shape, hosts, folder):
    text = (MEASURED / f"{name}.textproto").read_text()
    (folder / "platform.xml").write_text(platform(name, shape, hosts, text))
    (folder / "hosts").write_text("".join(f"h{h}\n" for h in range(hosts)))
    times = {}
    for operation in OPERATIONS:
        size = LEAST
        while size <= MOST:
            own, settings = smpi_algorithm(operation, hosts, size)
            command = ["smpirun", "-np", str(hosts), "-hostfile", str(folder / "hosts"), "-platform", str(folder / "platform.xml"),
                       *[f"--cfg={s}" for s in smpi_settings(text) + settings], smpi_program(str(folder)), str(size), str(size), "1", own]
            result = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
            if result.returncode != 0:
                sys.exit(f"{' '.join(command)}: {result.stderr}")
            out = result.stdout
            times[operation, size] = float(out.strip().splitlines()[-1].split(",")[3])
            size *= 4
    return times


# ---- Table and picture ----
def size_text(size):
    return f"{size >> 20} MB" if size >= 1 << 20 else f"{size >> 10} KB"


def time_text(us):
    return f"{us / 1e3:.1f} ms" if us >= 1e4 else f"{us / 1e3:.2f} ms"


def percent(x):
    return f"{100 * x:+.1f} %"


def cells(program, folder):
    """(testbed, operation, size, measured, least, most, ours, SMPI's)"""
    rows = []
    for name, shape, hosts in TESTBEDS:
        ours, theirs = predict(name, hosts, program, folder), smpi(name, shape, hosts, folder)
        for (operation, size), (median, least, most) in measured(name).items():
            rows.append((name, operation, size, median, least, most, ours[operation, size], theirs[operation, size]))
    return rows


def means(rows):
    lines, verdicts = ["| | cells | Twofold | SMPI |", "|---|---|---|---|"], []
    for text, chosen, bound in ((f"64 KB and more (at most {100 * BOUND_LARGE:.0f} %)", [r for r in rows if r[2] >= LARGE], BOUND_LARGE),
                                (f"below (at most {100 * BOUND_SMALL:.0f} %)", [r for r in rows if r[2] < LARGE], BOUND_SMALL)):
        own, theirs = (statistics.mean(abs(r[k] / r[3] - 1) for r in chosen) for k in (6, 7))
        lines.append(f"| {text} | {len(chosen)} | {100 * own:.1f} % | {100 * theirs:.1f} % |")
        verdicts.append(own <= bound)
    for name, _, _ in TESTBEDS:
        for text, chosen in (("64 KB and more", [r for r in rows if r[0] == name and r[2] >= LARGE]), ("below", [r for r in rows if r[0] == name and r[2] < LARGE])):
            own, theirs = (statistics.mean(abs(r[k] / r[3] - 1) for r in chosen) for k in (6, 7))
            lines.append(f"| {name}, {text} | {len(chosen)} | {100 * own:.1f} % | {100 * theirs:.1f} % |")
    return lines, verdicts


def worse(rows):
    """Cells in which SMPI is nearer by more than the measurements' own spread around their median."""
    return [r for r in rows if abs(r[6] - r[3]) - abs(r[7] - r[3]) > max(r[3] - r[4], r[5] - r[3])]


def cell_table(rows):
    lines = ["| testbed | operation | size | measured (least to most) | Twofold | error | SMPI | error |", "|---|---|---|---|---|---|---|---|"]
    for name, operation, size, median, least, most, own, theirs in rows:
        lines.append(f"| {name} | {operation} | {size_text(size)} | {time_text(median)} ({time_text(least)} to {time_text(most)}) | {time_text(own)} | {percent(own / median - 1)} | "
                     f"{time_text(theirs)} | {percent(theirs / median - 1)} |")
    return lines


def step_table(program, folder):
    lines = ["| testbed | strategy | measured step (p10 to p90) | predicted | error | exposed communication, measured | predicted | error |", "|---|---|---|---|---|---|---|---|"]
    step_errors, exposed_errors = [], []
    for name, _, hosts in TESTBEDS:
        for case, settings in STEPS if hosts == 8 else []:
            m, p = json.loads((MEASURED / f"{name}-{case}.json").read_text()), predict_step(name, settings, program, folder)
            step, exposed = (p[k] / m[k] - 1 for k in ("median_step_seconds", "exposed_communication_seconds"))
            step_errors.append(abs(step)), exposed_errors.append(abs(exposed))
            lines.append(f"| {name} | {case} | {m['median_step_seconds'] * 1e3:.1f} ms ({m['low'] * 1e3:.1f} to {m['high'] * 1e3:.1f}) | {p['median_step_seconds'] * 1e3:.1f} ms | "
                         f"{percent(step)} | {m['exposed_communication_seconds'] * 1e3:.1f} ms | {p['exposed_communication_seconds'] * 1e3:.1f} ms | {percent(exposed)} |")
    step, exposed = statistics.median(step_errors), statistics.median(exposed_errors)
    lines += ["", f"Medians: step time {100 * step:.1f} % (at most {100 * BOUND_STEP:.0f} %), exposed communication {100 * exposed:.1f} % (at most {100 * BOUND_EXPOSED:.0f} %)."]
    return lines, [step <= BOUND_STEP, exposed <= BOUND_EXPOSED]


def picture(rows):
    """Error by size, one panel a testbed, one line an operation; SMPI's dashed."""
    colours = dict(zip(OPERATIONS, ("#1b6ca8", "#c8553d", "#588157", "#8e5ea2", "#d99a1c")))
    sizes = sorted({r[2] for r in rows})
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
            for column, dashes in ((6, ""), (7, ' stroke-dasharray="3 3" opacity="0.6"')):
                points = " ".join(point(r[2], r[column] / r[3] - 1) for r in rows if r[0] == name and r[1] == operation)
                out.append(f'<polyline points="{points}" fill="none" stroke="{colours[operation]}" stroke-width="1.6"{dashes}/>')
    return "\n".join([*out, "</svg>"]) + "\n"


def main():
    arguments = [a for a in sys.argv[1:] if not a.startswith("--")]
    program = str(pathlib.Path(arguments[0] if arguments else ROOT / "build/release/experiments/program/twofold").resolve())
    MEASURED.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        if "--reuse" not in sys.argv:
            for name, shape, hosts in TESTBEDS:
                measure(name, shape, hosts, program, folder)
        rows = cells(program, folder)
        summary, verdicts = means(rows)
        steps, step_verdicts = step_table(program, folder)
    lost = worse(rows)
    against = [f"SMPI is nearer by more than the measurement's own spread in {len(lost)} of {len(rows)} cells" + (":" if lost else "."), ""]
    against += [f"- {r[0]}, {r[1]}, {size_text(r[2])}: {percent(r[6] / r[3] - 1)} against {percent(r[7] / r[3] - 1)}" for r in lost]
    text = "\n".join(["# A miniature cluster: predicted against measured", "",
                      "Calibrated, on each testbed, from messages between pairs of hosts alone; validated on all collectives and training steps below.", "",
                      "## Mean absolute errors of collectives", "", *summary, "", *against, "", "![errors by size](errors.svg)", "",
                      "## Training steps, 8 hosts, EMULATED compute", "", *steps, "", "## Every cell", "", *cell_table(rows), ""])
    print(text)
    if "--write" in sys.argv:
        (HERE / "table.md").write_text(text)
        (HERE / "errors.svg").write_text(picture(rows))
    sys.exit(0 if all(verdicts + step_verdicts) else "a bound is not met")


if __name__ == "__main__":
    main()
