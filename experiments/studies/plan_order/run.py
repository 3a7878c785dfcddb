#!/usr/bin/env python3
"""Are layouts of one job measured in the order in which `twofold plan` ranks them?"""
import itertools
import os
import pathlib
import random
import re
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from common import Study, Table, count, error_summary, milliseconds, percent, progress, read_csv, signed, step_row  # noqa: E402

study = Study(__file__, __doc__, needs="`twofold` and this machine to itself: it measures. No GPU.", takes="about five minutes.")
RANKS = 8
BEST, DRAWN = 3, 3  # layouts of a job: the first ones of its plan, and random ones of the rest
TELLS_APART = 0.03  # predictions that differ by more say which layout is the faster one
MOST_ERROR = 0.03
STEPS = "steps: 20 warmup_steps: 2"


def gpt(layers, hidden, sequence):
    return f"gpt {{ layers: {layers} hidden: {hidden} heads: 8 vocab: 4096 sequence: {sequence} }}"


def llama(layers, hidden, sequence):
    return f"llama {{ layers: {layers} hidden: {hidden} heads: 8 kv_heads: 4 ffn: {3 * hidden} vocab: 4096 sequence: {sequence} }}"


NO_CP, WITH_CP = "cp: 1 ", ""
# name, model, samples of a step, speed of the device, links, what else is fixed of the layout
JOBS = [
    ("GPT 4 x 256, 2 Gb/s", gpt(4, 256, 128), 16, 0.01, "link_gbps: 2 latency_us: 50", NO_CP),
    ("GPT 8 x 256, 10 Gb/s", gpt(8, 256, 256), 32, 0.01, "link_gbps: 10 latency_us: 50", NO_CP),
    ("GPT 4 x 512, 1 Gb/s and 500 µs", gpt(4, 512, 128), 16, 0.01, "link_gbps: 1 latency_us: 500", NO_CP),
    ("Llama 4 x 256, sequences of 2,048, cp too", llama(4, 256, 2048), 8, 0.02, "link_gbps: 5 latency_us: 50", WITH_CP),
    ("Mixture of 8 experts, 5 Gb/s", f"moe {{ experts: 8 top_k: 2 {llama(4, 256, 256)} }}", 16, 0.01, "link_gbps: 5 latency_us: 50", NO_CP),
    ("Llama 8 x 256 on two sites", llama(8, 256, 256), 16, 0.01, "link_gbps: 5 latency_us: 50 sites { count: 2 between_gbps: 2 latency_ms: 2 }", NO_CP),
]


def spec(fabric, model, batch, speed, links, fixed):
    return (f'model {{ {model} }}\ntrain {{ {STEPS} global_batch: {batch} clip_norm: 1 precision {{ parameter: BF16 reduce: F32 }} activation_checkpointing {{ every: 0 }} }}\n'
            f'parallel {{ {fixed}offload: NO_OFFLOAD order: "pp dp cp tp" }}\n'
            f'device: EMULATED emulated {{ cluster: "star-a100" speed: {speed} }}\n'
            f"fabric {{ {fabric} {{ {links} }} }}\n")


def settings(layout):
    """A line of layouts.csv as fields of the spec."""
    axes = {f"parallel.{axis}": layout[axis] for axis in ("tp", "pp", "cp", "ep", "dp")}
    bucket = re.search(r" bucket ([\d.]+)", layout["layout"])
    return {**axes, **({"parallel.bucket_mib": bucket[1]} if bucket else {}), "parallel.sharding": layout["sharding"], "parallel.schedule": layout["schedule"], "parallel.virtual_stages": layout["virtual_stages"],
            "parallel.sequence_parallel": layout["sequence_parallel"], "train.micro_batch": layout["micro_batch"]}


def chosen(layouts, job):
    """The first ones, and some of the others: always the same."""
    ranked = sorted(layouts, key=lambda layout: float(layout["seconds"]))
    rest = ranked[BEST:]
    return ranked[:BEST] + sorted(random.Random(job).sample(rest, DRAWN), key=lambda layout: float(layout["seconds"]))


def study_job(twofold, number, name, *rest):
    """Rows, and how many layouts there were."""
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        files = [folder / f"{fabric}.textproto" for fabric in ("simulated", "in_memory")]
        for file in files:
            file.write_text(spec(file.stem, *rest))
        twofold("plan", files[0], f"--ranks={RANKS}", "--exhaustive", f"--out={folder / 'plan'}", "--quiet")
        layouts = [layout for layout in read_csv(folder / "plan" / "layouts.csv") if layout["seconds"]]
        rows = []
        for layout in chosen(layouts, number):
            progress(f"{name}: {layout['layout']}")
            predicted, measured = (twofold.report(file, settings(layout)) for file in files)
            rows.append(step_row(f"{name}: {layout['layout']}", predicted, measured, job=name, layout=layout["layout"], planned=float(layout["seconds"])))
    return rows, len(layouts)


def order(rows):
    """Pairs that the prediction tells apart, and those of them which are measured the other way round."""
    pairs = [sorted(pair, key=lambda r: r["planned"]) for pair in itertools.combinations(rows, 2)]
    apart = [(fast, slow) for fast, slow in pairs if slow["planned"] > fast["planned"] * (1 + TELLS_APART)]
    return apart, [(fast, slow) for fast, slow in apart if slow["measured"] < fast["measured"]]


def main():
    _, twofold = study.start()
    jobs, table = Table("job", "legal layouts", "pairs told apart", "measured the other way round", "the first was the fastest of them"), []
    layouts, rows, problems = Table("job", "layout", "planned", "measured", "error"), [], []
    for number, job in enumerate(JOBS):
        of_job, legal = study_job(twofold, number, *job)
        apart, wrong = order(of_job)
        fastest = min(of_job, key=lambda r: r["measured"])
        jobs.add(job[0], count(legal), len(apart), len(wrong) or "none",
                 "yes" if fastest is of_job[0] else f"no: {percent(of_job[0]['measured'] / fastest['measured'] - 1)} slower")
        problems += [f"{job[0]}: {slow['layout']} is faster than {fast['layout']}" for fast, slow in wrong]
        for r in of_job:
            layouts.add(job[0], r["layout"], milliseconds(r["planned"]), milliseconds(r["measured"]), signed(r["error"]))
        rows += of_job
    median, worst = error_summary(rows)
    study.publish("Are layouts measured in the order of their plan?", [
        *jobs.lines, "",
        f"{RANKS} ranks are threads on {os.cpu_count()} cores, with EMULATED compute and slow links: the first {BEST} layouts of each plan, and {DRAWN} random ones. "
        f"Predictions tell two layouts apart if they differ by more than {percent(TELLS_APART, 0)}. Median error of a step {percent(median)}, worst {percent(worst)}.",
        "", "## Every layout", "", *layouts.lines], rows)
    study.end(problems + ([f"the median error is {percent(median)}"] if median > MOST_ERROR else []))


if __name__ == "__main__":
    main()
