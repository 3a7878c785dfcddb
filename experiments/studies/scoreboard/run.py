#!/usr/bin/env python3
"""How good are predictions, over every published row of all studies: errors, intervals, order of layouts, verdicts of memory?"""
import concurrent.futures
import difflib
import math
import os
import pathlib
import shlex
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from common import Failed, ROOT, Study, fail, golden, progress, row, signed  # noqa: E402
from common.published import load  # noqa: E402
import lines  # noqa: E402
import page  # noqa: E402
import picture  # noqa: E402
import score  # noqa: E402

STUDIES = ("published_runs", "other_frameworks", "collective_sweeps", "memory_tables", "activation_memory")
GATE = ("multi_0000", "multi_0014", "single_0000", "single_0119", "sc21_1.7B", "sc21_39.1B", "table5_175B_dp1_selective", "table4/baseline", "table4/baseline-unseen", "single_0209-unseen", "mosaic_00", "mosaic_67", "nemo_07",
        "fms_00", "fms_01", "vldb_0", "prequel_16", "prequel_16.memory", "1b3_00.memory", "1b3_24.memory", "a100/8x1/all_reduce/1048576", "h100_sxm-2.23/8x1/all_gather/1048576",
        "h100_sxm-2.23-unseen/8x1/all_gather/1048576", "polaris_nccl_2.21/4x2/all_reduce/1048576", "zero/table-1/7.5B/ZeRO-2/64", "layer/22B/tp8/nothing")
WHOLE = ("sc21_39.1B", "table5_175B_dp1_selective")  # also run as `--spec` prints them, with all their steps and micro-batches; the gate runs the first alone
MOST_SHORTENED = 1e-3  # the slowest of many devices is waited for at the beginning and at the end, whatever the number of micro-batches
SECONDS_BETWEEN_REPORTS = 5

study = Study(__file__, __doc__, needs="`twofold` alone: it only simulates, on all cores.", takes="about 10 minutes on 2 cores.",
              writes="table.md, scatter.svg, page.html, results.json, golden.json, and the summaries in README.md and docs/accuracy.md", golden="GATE's rows")
study.option("--only", default="", metavar="TEXT", help="predict the rows with TEXT in their ids or tables, print each, and check nothing")
study.option("--spec", default="", metavar="ROW", help="print a row, and the command that predicts it; predict nothing")
study.option("--renew", action="store_true", help="predict GATE's rows, and renew golden.json alone")


def wrong(options):
    modes = [name for name in ("only", "spec", "renew", "write", "golden") if getattr(options, name)]
    return f"--{modes[0]} and --{modes[1]} do not go together" if len(modes) > 1 else None


def all_jobs():
    return [job for name in STUDIES for job in load(name).jobs()]


def find(jobs, name):
    """(job, row) of an id. Ends the study if there is none."""
    rows = {row.id: (job, row) for job in jobs for row in job.rows}
    if name not in rows:
        near = difflib.get_close_matches(name, rows, 3, 0.5)
        fail(f"{study.title}: --spec={name}: no row has this id" + (f"; do you mean {', '.join(near)}?" if near else "; --only=TEXT prints ids"), 2)
    return rows[name]


def chosen(jobs, text):
    """Those with rows that have `text` in their ids or tables. Ends the study if there are none."""
    found = [job for job in jobs if any(text.lower() in f"{row.id}\n{row.table}".lower() for row in job.rows)]
    if not found:
        tables = sorted({row.table for job in jobs for row in job.rows})
        fail(f"{study.title}: --only={text}: no row has this in its id or table; the tables are: {'; '.join(tables)}", 2)
    return found


def command_text(twofold, words):
    """To be pasted into a shell at the root of the project."""
    text = [str(word).replace(f"{ROOT}/", "") for word in (twofold.path, *words)]
    return " \\\n    ".join([shlex.join(text[:3]), *(shlex.join([word]) for word in text[3:])])


def show_spec(twofold, job, row):
    measured = "nothing but whether it fitted" if row.measured is None else f"{row.measured:g} {row.unit}"
    print(f"# {row.id}: {row.table}, {row.role}; {row.system}, {row.gpus} GPUs; measured: {measured}")
    print(command_text(twofold, job.command(row)))


# ---- Predictions ----
def predict(twofold, jobs):
    """(entries in the order of the jobs, messages of jobs that failed). As many jobs at a time as there are cores, the longest first."""
    begun, reported, found, failed = time.monotonic(), 0, {}, []
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        waiting = {pool.submit(job.predict, twofold): job for job in sorted(jobs, key=lambda job: -job.cost)}
        for number, done in enumerate(concurrent.futures.as_completed(waiting), 1):
            job = waiting[done]
            try:
                found.update(done.result())
            except Failed as problem:
                failed.append(f"{job.rows[0].id}: {problem}")
            if (now := time.monotonic() - begun) - reported >= SECONDS_BETWEEN_REPORTS or number == len(jobs):
                reported = now
                progress(f"{number} of {len(jobs)} jobs in {now:.0f} s; now {job.rows[0].id}")
    return [(row, found[row.id]) for job in jobs for row in job.rows if row.id in found], failed


def figures(entries):
    """What golden.json holds."""
    return [(row.id, row.measured, p.value) for row, p in entries if row.id in GATE and p.value is not None]


def shortened(twofold, jobs, entries, names):
    """Messages of predictions from fewer micro-batches that are not those of whole runs."""
    found = []
    for name in names:
        job, wanted = find(jobs, name)
        _, spec, *words = job.command(wanted)
        whole = twofold.report(spec, None, *words)["median_step_seconds"]
        short = next((p.value for row, p in entries if row.id == name), math.nan)
        if not abs(short / whole - 1) <= MOST_SHORTENED:
            found.append(f"{name}: {whole} s as --spec prints it, {short} s from fewer micro-batches")
    return found


def gate(options, twofold, jobs):
    jobs = [job for job in jobs if any(row.id in GATE for row in job.rows)]
    entries, problems = predict(twofold, jobs)
    if options.renew and problems:
        study.end([*problems, "golden.json is as it was"])
    problems += golden.hold(study.folder, figures(entries), everything=True, write=options.renew)
    study.end(problems + shortened(twofold, jobs, entries, WHOLE[:1]))


# ---- What is written ----
def row_of(entry):
    """Of results.json."""
    r, p = entry
    more = {"low": p.low, "high": p.high} if p.low is not None else {}
    more |= {} if r.fitted is None else {"fitted": r.fitted, "fits": p.fits}
    return row(r.id, p.value, r.measured, r.unit, r.role, table=r.table, system=r.system, gpus=r.gpus, **more)


def text_of(entry):
    r, p = entry
    value = lambda v: "-" if v is None else f"{v:.6g}"
    interval = "" if p.low is None else f" ({value(p.low)} to {value(p.high)})"
    fits = "" if r.fitted is None else f", {'fitted' if r.fitted else 'ran out of memory'}, {'fits' if p.fits else 'does not fit'}"
    e = score.error(entry)
    return f"{r.id}: {r.role}, measured {value(r.measured)}, predicted {value(p.value)}{interval} {r.unit}{'' if e is None else ', ' + signed(e)}{fits}"


def write(entries, body):
    dots = picture.dots(score.with_errors(entries))
    svg = picture.draw(dots)
    (study.folder / "scatter.svg").write_text(svg)
    (study.folder / "page.html").write_text(page.html(body, svg, dots))
    lines.insert(ROOT / "README.md", lines.short(entries))
    lines.insert(ROOT / "docs/accuracy.md", lines.summary(entries))


def main():
    options, twofold = study.start(wrong)
    jobs = all_jobs()
    if options.spec:
        show_spec(twofold, *find(jobs, options.spec))
        return
    if options.golden or options.renew:
        gate(options, twofold, jobs)
    jobs = chosen(jobs, options.only)
    begun = time.monotonic()
    entries, problems = predict(twofold, jobs)
    if options.only:
        entries = [e for e in entries if options.only.lower() in f"{e[0].id}\n{e[0].table}".lower()]
        print("\n".join([*map(text_of, entries), "", *lines.by_table(entries)]))
        study.end(problems)
    problems += shortened(twofold, jobs, entries, WHOLE)
    progress(f"{len(entries)} rows in {time.monotonic() - begun:.0f} s on {os.cpu_count()} cores")
    if options.write and problems:
        study.end([*problems, "nothing was written"])
    body = lines.body(entries)
    if options.write:
        write(entries, body)
    study.publish("Every published row, predicted", body, [row_of(e) for e in entries])
    study.end(problems + golden.hold(study.folder, figures(entries), everything=True, write=options.write))


if __name__ == "__main__":
    main()
