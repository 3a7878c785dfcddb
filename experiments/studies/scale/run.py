#!/usr/bin/env python3
"""How much time and memory do simulations of up to 102,400 GPUs need, and does it change anything that ranks and flows are simulated by class?"""
import csv
import dataclasses
import json
import math
import os
import pathlib
import re
import statistics
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from common import Failed, Study, Table, count, milliseconds, progress, row  # noqa: E402
from jobs import EXACT, GROWTH, LARGE, OF_70B, SWEEP, TRACED_LARGE, VARIED  # noqa: E402

study = Study(__file__, __doc__, needs="`twofold` and this machine to itself: it measures the program. No GPU.", takes="about ten minutes.",
              writes="table.md, results.json, golden.json and growth.svg", golden="small jobs, folded and unfolded")
GPT2 = "gpt2-124m.textproto"
# (name, settings, wall seconds at most, GiB at most, MB of trace.json and memory.csv at most)
TRACED = [
    ("64 ranks, 1,000 steps, folded", {}, 10, 4, 50),
    ("64 ranks, 1,000 steps, unfolded", {"fabric.simulated.folding": "OFF"}, 60, 4, 50),
    ("1,024 ranks, 1 step, unfolded", {"fabric.simulated.folding": "OFF", "parallel.dp": 1024, "train.steps": 1, "train.warmup_steps": 0}, 10, 4, 50),
]
# Of the gate: as many steps as bring rounding into the clock's last bits, and layouts whose ranks are of several classes.
SMALL = [(f"8 ranks, 40 steps, {how}", {"fabric.simulated.folding": folding, "parallel.dp": 8, "train.steps": 40})
         for how, folding in (("folded", "AUTO"), ("unfolded", "OFF"))]
OF_THE_GATE = ("norms in few shards, ZeRO-1", "TP8, few key/value heads, ZeRO-1", "3D, interleaved", "a slow rank, A100", "context parallel, blocks limited by memory")
COUNTED_IN_THE_GATE = ("norms in few shards, TP4 cp",)  # whose ranks are apart by what depends on who is taken with whom first (sim/spread.h)
MOST_DIFFERENCE = 1e-9
MOST_BETWEEN_INTERVALS = 1e-3  # ranks that take equally long may have kernels of other shapes, whose intervals differ
MANY_STEPS = 12  # of jobs whose steps are counted
LONGEST = 40  # seconds of one job
LONGEST_COLLECTIVE = 10  # seconds
OPERATIONS = ("all_reduce", "all_gather", "reduce_scatter", "broadcast", "all_to_all")
MOST_ALL_TO_ALL = 4096  # ranks
SWEPT_SECONDS, SWEPT = 100, 10_000  # at most, for so many predictions
OF_70B_SECONDS = 0.04  # at most, for one
COLLECTIVES = {"alps": 10752, "dgx-1v": 992, "dgx-2": 1024, "dgx-a100": 4480, "dgx-b200": 2048, "dgx-h100": 2048, "dgx-h100-16k": 16384, "dgx-h100-100k": 102400, "frontier": 75264,
               "gb200-nvl72": 4608, "hammingmesh-1k": 1024, "hammingmesh-16k": 16384, "perlmutter": 7168, "polaris": 2240, "slingshot-100k": 102400, "star-h100": 16384,
               "summit": 27648, "tpu-v4-pod": 4096}  # all clusters of the catalogue at their full size, by ranks
SLOPE = 0.15
RUNS, SHORT = 5, 2  # a point of the growth that takes less than 2 s is run five times, and its median counts


def differences(a, b, path=""):
    """Relative differences of any two numbers of two reports, with their names; names and notes may differ."""
    if isinstance(a, dict):
        assert a.keys() == b.keys(), path
        return [d for k in a if k not in ("name", "notes", "note_names") for d in differences(a[k], b[k], f"{path}.{k}")]
    if isinstance(a, list):
        assert len(a) == len(b), path
        return [d for i, (x, y) in enumerate(zip(a, b)) for d in differences(x, y, f"{path}[{i}]")]
    if isinstance(a, (int, float)) and not isinstance(a, bool):
        found = abs(a - b) / max(abs(a), abs(b)) if a != b else 0
        if path.endswith((".low", ".high")) and found < MOST_BETWEEN_INTERVALS:
            found = 0
        return [(found, f"{path}: {a!r} against {b!r}")]
    assert a == b, f"{path}: {a} against {b}"
    return []


def run(twofold, job, costs=None, **how):
    """(report, how it ran), or None if it takes too long. `costs`: a dictionary for the counts of simulate.csv."""
    with tempfile.TemporaryDirectory() as folder:
        spec, out = pathlib.Path(folder) / "job.textproto", pathlib.Path(folder) / "out"
        spec.write_text(job.text(**how))
        try:
            done = twofold.job(spec, timeout=LONGEST, statuses=(0, 3), out=out)
            if costs is not None:
                costs.update((row["part"], int(row["count"])) for row in csv.DictReader((out / "simulate.csv").open()) if row["count"])
            return done
        except Failed as failed:
            if f"not done after {LONGEST} s" in str(failed):
                return None
            raise


def classes(report, ranks):
    """How many ranks were simulated."""
    for note in report["notes"]:
        if found := re.match(r"ranks are folded: (?:(\d+) ranks|ranks? ([\d, -]+)) ", note):
            ends = [part.split("-") for part in (found.group(2) or "").split(",")]
            return int(found.group(1)) if found.group(1) else sum(int(e[-1]) - int(e[0]) + 1 for e in ends)
    return ranks


def steps_counted(report):
    for note in report["notes"]:
        if found := re.match(r"steps? (\d+)(?: to (\d+))? repeats? ", note):
            first, last = int(found.group(1)), int(found.group(2) or found.group(1))
            return last - first + 1
    return 0


def large(twofold):
    table = Table("job", "classes", "wall time", "at most", "peak memory of one process", "at most", "predicted step", "")
    rows = []
    for job in LARGE:
        progress(job.name)
        done = run(twofold, job)
        if done is None:
            table.add(job.name, "", f"over {LONGEST} s", f"{job.seconds} s", "", "", "", "NOT MET")
            continue
        report, ran = done
        megabytes = ran.peak_bytes / 1e6
        met = ran.seconds <= job.seconds and (not job.megabytes or megabytes <= job.megabytes)
        ranks = math.prod(int(n) for n in re.findall(r"\b(?:tp|pp|cp|dp): (\d+)", job.parallel))
        table.add(job.name, count(classes(report, ranks)), f"{ran.seconds:.1f} s", f"{job.seconds} s", f"{megabytes:.0f} MB",
                  f"{job.megabytes} MB" if job.megabytes else "", milliseconds(report["median_step_seconds"], 0), "met" if met else "NOT MET")
        rows.append(row(job.name, report["median_step_seconds"], None, "s", "none", wall_seconds=ran.seconds, wall_seconds_at_most=job.seconds,
                        peak_bytes=ran.peak_bytes, classes=classes(report, ranks)))
    return table, rows


def with_batch(job):
    """The same, with 4 samples a rank along dp."""
    dp = int(re.search(r"\bdp: (\d+)", job.parallel).group(1))
    return dataclasses.replace(job, train=f"{job.train} global_batch: {4 * dp}")


def exact(twofold, jobs):
    """Whether folded runs give the figures of unfolded ones."""
    table = Table("job", "ranks", "simulated", "largest difference", "unfolded", "folded")
    rows, problems = [], []
    for job in jobs:
        (every, slow), (few, fast) = (run(twofold, with_batch(job), folding=folding) for folding in ("OFF", "AUTO"))
        ranks = len(every["ranks"])
        found, where = max(differences(every, few), default=(0, ""))
        if found > MOST_DIFFERENCE:
            problems.append(f"folded against unfolded: {job.name}: {where}")
        table.add(job.name, count(ranks), count(classes(few, ranks)), f"{found:.0e}" if found else "0", f"{slow.seconds:.1f} s", f"{fast.seconds:.1f} s")
        rows.append(row(f"exact: {job.name}", few["median_step_seconds"], every["median_step_seconds"], "s", "none", largest_difference=found, ranks=ranks,
                        classes=classes(few, ranks)))
    return table, rows, problems


def counted(twofold, jobs):
    """Whether steps that are counted are like those that are simulated."""
    table = Table("job", "ranks", "steps counted", "largest difference", "all simulated", "counted")
    rows, problems = [], []
    for job in jobs:
        job = dataclasses.replace(with_batch(job), steps=MANY_STEPS)
        (every, slow), (few, fast) = (run(twofold, job, steady_state=how) for how in ("SIMULATE", "COUNT"))
        found, where = max(differences(every, few), default=(0, ""))
        if found > MOST_DIFFERENCE:
            problems.append(f"counted against simulated: {job.name}: {where}")
        steps = steps_counted(few)
        table.add(job.name, count(len(few["ranks"])), str(steps), f"{found:.0e}" if found else "0", f"{slow.seconds:.1f} s", f"{fast.seconds:.1f} s")
        rows.append(row(f"counted: {job.name}", few["median_step_seconds"], every["median_step_seconds"], "s", "none", largest_difference=found, steps_counted=steps))
    return table, rows, problems


def traced(twofold, cases):
    table = Table("job", "wall time", "at most", "peak memory of one process", "at most", "trace files", "at most", "predicted step")
    reports, rows, problems = {}, [], []
    for name, settings, *bounds in cases:
        with tempfile.TemporaryDirectory() as out:
            report, ran = twofold.job(study.folder / GPT2, settings, out=out)
            traces = sum((pathlib.Path(out) / file).stat().st_size for file in ("trace.json", "memory.csv")) / 1e6
        reports[name], memory = report, ran.peak_bytes / 2**30
        if not bounds:
            continue
        seconds, gib, megabytes = bounds
        if report["outcome"] != "OK" or ran.seconds > seconds or memory > gib or traces > megabytes:
            problems.append(f"{name}: {report['outcome']}, {ran.seconds:.1f} s, {memory:.2f} GiB, {traces:.1f} MB")
        table.add(name, f"{ran.seconds:.1f} s", f"{seconds} s", f"{memory:.2f} GiB", f"{gib} GiB", f"{traces:.1f} MB", f"{megabytes} MB",
                  milliseconds(report["median_step_seconds"], 3))
        rows.append(row(name, report["median_step_seconds"], None, "s", "none", wall_seconds=ran.seconds, wall_seconds_at_most=seconds,
                        peak_bytes=ran.peak_bytes, trace_megabytes=traces))
    return reports, table, rows, problems


def traced_large(twofold, table):
    """The largest of the traced jobs: one rank of each class is traced."""
    job = TRACED_LARGE
    progress(job.name)
    with tempfile.TemporaryDirectory() as folder:
        spec = pathlib.Path(folder) / "job.textproto"
        spec.write_text(job.text(trace="enabled: true"))
        report, ran = twofold.job(spec, out=f"{folder}/out")
        traces = sum((pathlib.Path(folder) / "out" / file).stat().st_size for file in ("trace.json", "memory.csv")) / 1e6
    table.add(job.name, f"{ran.seconds:.1f} s", f"{job.seconds} s", f"{ran.peak_bytes / 2**30:.2f} GiB", "", f"{traces:.1f} MB", f"{job.megabytes} MB",
              milliseconds(report["median_step_seconds"], 3))
    return [] if ran.seconds <= job.seconds and traces <= job.megabytes else [f"{job.name}: {ran.seconds:.1f} s, {traces:.1f} MB"]


def collectives(twofold):
    table = Table("cluster", "ranks", *OPERATIONS)
    rows = []
    for cluster, ranks in COLLECTIVES.items():
        cells = []
        for operation in OPERATIONS:
            progress(f"{cluster}, {operation}")
            own = min(ranks, MOST_ALL_TO_ALL) if operation == "all_to_all" else ranks
            words = ["bench", operation, "--fabric=simulated", f"--cluster={cluster}", "-b", "1G", "-e", "1G", f"--ranks={own}"]
            try:
                done = twofold(*words, timeout=LONGEST_COLLECTIVE)
            except Failed as failed:
                cells.append(f"over {LONGEST_COLLECTIVE} s" if "not done" in str(failed) else "refused")
                continue
            cells.append(f"{done.seconds:.1f} s")
            rows.append(row(f"{cluster}, {operation} of 1 GiB", done.seconds, None, "s", "none", ranks=own))
        table.add(cluster, count(ranks), *cells)
    return table, rows


def predictions(twofold):
    """Many predictions of small jobs by `twofold predict`."""
    with tempfile.TemporaryDirectory() as folder:
        spec = pathlib.Path(folder) / "sweep.textproto"
        spec.write_text(SWEEP)
        progress("predictions of small jobs")
        done = twofold("predict", str(spec), *(f"--vary={path}={values}" for path, values in VARIED.items()), "--json", timeout=600)
    all_jobs = json.loads(done.output)
    predicted = [job for job in all_jobs if job.get("outcome") == "OK"]
    each = done.seconds / len(predicted)
    met = "met" if each * SWEPT < SWEPT_SECONDS else "NOT MET"
    text = [f"{count(len(predicted))} predictions of GPT-2 124M on up to {max(job['world_size'] for job in predicted)} GPUs, and {count(len(all_jobs) - len(predicted))} combinations "
            f"that are refused, in {done.seconds:.0f} s: {1000 * each:.1f} ms for each, {SWEPT * each:.0f} s for {count(SWEPT)} (at most {SWEPT_SECONDS} s: {met}). "
            f"Peak memory of one process: {done.peak_bytes / 1e6:.0f} MB."]
    return text, [row("a prediction of a small job", sum(job["median_step_seconds"] for job in predicted) / len(predicted), None, "s", "none",
                      wall_seconds=each, predictions=len(predicted))]


def predictions_of_70b(twofold):
    """Predictions of 70B on 512 GPUs, one after another on each core."""
    lines = []
    for name, job, times in OF_70B:
        with tempfile.TemporaryDirectory() as folder:
            spec = pathlib.Path(folder) / "spec.textproto"
            spec.write_text(job.text())
            progress(f"70B on 512 GPUs, {name}")
            done = twofold("predict", str(spec), "--vary=train.seed=" + ",".join(str(seed) for seed in range(1, times + 1)), "--json", timeout=600)
        each = done.seconds * os.cpu_count() / times
        met = "met" if each < OF_70B_SECONDS else "NOT MET"
        lines.append(f"70B on 512 GPUs, {name}: {1000 * each:.0f} ms of a core, mean of {times} with different seeds (at most {1000 * OF_70B_SECONDS:.0f} ms: {met}).")
    return lines


def repeated(twofold, job):
    """(report, median wall seconds, runs, counts of simulate.csv), or None if it takes too long."""
    costs = {}
    done = run(twofold, job, costs)
    if done is None:
        return None
    report, ran = done
    seconds = [ran.seconds]
    while seconds[0] < SHORT and len(seconds) < RUNS:
        again, ran = run(twofold, job)
        assert again["median_step_seconds"] == report["median_step_seconds"], job.parallel
        seconds.append(ran.seconds)
    return report, statistics.median(seconds), len(seconds), costs


def slope_of(points):
    """Of the wall seconds of (ranks, seconds, ...), from the first to the last point."""
    return math.log(points[-1][1] / points[0][1]) / math.log(points[-1][0] / points[0][0])


def verdict(kind, points, complete):
    """What the points (ranks, seconds, classes of ranks, classes of flows) say of the slope, in a line."""
    if len(points) < 2:
        return f"* {kind}: NOT MET: fewer than two points took less than {LONGEST} s"
    alike = [p for p in points if p[2] <= points[0][2] and p[3] <= points[0][3]]
    everywhere = f"over all points {slope_of(points):.2f}" + ("" if complete else f", up to {count(points[-1][0])} ranks: NOT MET, more take over {LONGEST} s")
    if len(alike) < 2:
        return f"* {kind}: no point has no more classes of ranks and of flows than the first one, so nothing is judged; slope {everywhere}"
    slope = slope_of(alike)
    where = " and ".join(count(p[0]) for p in (alike[0], alike[-1]))
    return f"* {kind}: slope {slope:.2f} between {where} ranks, where classes do not grow: {'met' if slope < SLOPE else 'NOT MET'}; {everywhere}"


def growth(twofold):
    """Wall seconds by kind and ranks, and the slope of each kind."""
    table = Table("kind", "ranks", "classes of ranks", "classes of flows", "wall time", "runs")
    lines, rows, drawn = [], [], []
    for kind, (make, sizes) in GROWTH.items():
        points = []
        for ranks in sizes:
            progress(f"{kind}, {ranks} ranks")
            done = repeated(twofold, make(ranks))
            if done is None:
                table.add(kind, count(ranks), "", "", f"over {LONGEST} s", "1")
                continue
            report, seconds, runs, costs = done
            assert report["outcome"] == "OK", f"{kind} on {ranks} ranks: {report['outcome']}"
            of_ranks, of_flows = classes(report, ranks), costs.get("classes of flows at most", 0)
            points.append((ranks, seconds, of_ranks, of_flows))
            table.add(kind, count(ranks), count(of_ranks), count(of_flows), f"{seconds:.2f} s", str(runs))
            rows.append(row(f"growth: {kind} on {ranks} ranks", report["median_step_seconds"], None, "s", "none", wall_seconds=seconds, runs=runs, ranks=ranks,
                            classes=of_ranks, classes_of_flows=of_flows))
        lines.append(verdict(kind, points, bool(points) and points[-1][0] == sizes[-1]))
        drawn.append((kind, points))
    return table, lines, rows, drawn


def svg(lines):
    """Wall time over ranks, both logarithmic."""
    colours = ["#4477aa", "#228833", "#ccbb44", "#ee6677", "#aa3377"]
    left, top, width, height = 60, 15, 560, 320
    x = lambda ranks: left + width * math.log(ranks / 64) / math.log(102400 / 64)  # noqa: E731
    y = lambda seconds: top + height * (2 - math.log10(seconds)) / 3  # noqa: E731
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {left + width + 110} {top + height + 45}" font-family="sans-serif" font-size="13">',
             "<style>text{fill:#222}.g{stroke:#ccc}@media(prefers-color-scheme:dark){text{fill:#ddd}.g{stroke:#555}}</style>"]
    for ranks in (64, 1024, 16384, 102400):
        parts.append(f'<line class="g" x1="{x(ranks):.1f}" y1="{top}" x2="{x(ranks):.1f}" y2="{top + height}"/>'
                     f'<text x="{x(ranks):.1f}" y="{top + height + 18}" text-anchor="middle">{ranks:,}</text>')
    for seconds in (0.1, 1, 10, 100):
        parts.append(f'<line class="g" x1="{left}" y1="{y(seconds):.1f}" x2="{left + width}" y2="{y(seconds):.1f}"/>'
                     f'<text x="{left - 8}" y="{y(seconds) + 4:.1f}" text-anchor="end">{seconds:g} s</text>')
    for (kind, points), colour in zip(lines, colours):
        path = " ".join(f"{x(ranks):.1f},{y(seconds):.1f}" for ranks, seconds, *_ in points)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts += [f'<circle cx="{x(ranks):.1f}" cy="{y(seconds):.1f}" r="3" fill="{colour}"/>' for ranks, seconds, *_ in points]
        parts.append(f'<text x="{x(points[-1][0]) + 8:.1f}" y="{y(points[-1][1]) + 4:.1f}" style="fill:{colour}">{kind}</text>')
    parts.append(f'<text x="{left + width / 2}" y="{top + height + 38}" text-anchor="middle">ranks</text></svg>')
    return "\n".join(parts) + "\n"


def main():
    options, twofold = study.start()
    reports, traces, rows, problems = traced(twofold, SMALL + ([] if options.golden else TRACED))
    found, where = max(differences(*(reports[case[0]] for case in SMALL)))
    if found > MOST_DIFFERENCE:
        problems.append(f"folded against unfolded: {where}")
    jobs = [job for job in EXACT if not options.golden or job.name in OF_THE_GATE]
    same, exact_rows, unlike = exact(twofold, jobs)
    problems += unlike
    problems += study.hold([(name, None, report["median_step_seconds"]) for name, report in reports.items()] +
                           [(r["name"], None, r["predicted"]) for r in exact_rows])
    repeated, repeated_rows, unlike = counted(twofold, [job for job in EXACT if not options.golden or job.name in COUNTED_IN_THE_GATE])
    problems += unlike
    if options.golden:
        study.end(problems)
    problems += traced_large(twofold, traces)
    big, big_rows = large(twofold)
    many, many_rows = predictions(twofold)
    whole, whole_rows = collectives(twofold)
    grown, slopes, grown_rows, lines = growth(twofold)
    if options.write:
        (study.folder / "growth.svg").write_text(svg(lines))
    worst = max(r["largest_difference"] for r in exact_rows)
    text = ["## Large jobs", "", *big.lines, "", f"Two steps, without traces. {os.cpu_count()} cores.", "",
            "## Ranks by class", "", *same.lines, "", f"Largest relative difference of any figure of the report: {worst:.0e} (at most {MOST_DIFFERENCE:.0e}).", "",
            "## Steps that repeat", "", *repeated.lines, "",
            f"The same jobs, of {MANY_STEPS} steps. Largest relative difference of any figure of the report: "
            f"{max(r['largest_difference'] for r in repeated_rows):.0e} (at most {MOST_DIFFERENCE:.0e}).", "",
            "## Traces", "", *traces.lines, "", "GPT-2 124M, 4 samples a rank, f32, if nothing else is said; report, traces and tables written.", "",
            "## Many predictions", "", *many, "", *[f"* {line}" for line in predictions_of_70b(twofold)], "",
            "## One collective of 1 GiB on a whole cluster", "", *whole.lines, "", f"Wall time of `twofold bench`; all_to_all among {count(MOST_ALL_TO_ALL)} ranks at most.", "",
            "## Growth", "", "![wall time over ranks](growth.svg)", "", *grown.lines, "",
            "Wall time: the median of so many runs. Classes of flows: of the collective, or the meeting of several, that has most; 0 if none had to be solved. "
            "The slope is that of the medians, from the first to the last point. The points that have no more classes of either kind than the first one are judged.", "",
            *slopes]
    study.publish("What simulations cost", text, [*big_rows, *exact_rows, *repeated_rows, *rows, *many_rows, *whole_rows, *grown_rows])
    study.end(problems)


if __name__ == "__main__":
    main()
