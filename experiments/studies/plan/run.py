#!/usr/bin/env python3
"""Does `twofold plan --gap=0` find the layout that simulating every layout finds, and is no bound on the wrong side?"""
import json
import pathlib
import re
import statistics
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from common import Study, Table, count, percent, progress, row  # noqa: E402

study = Study(__file__, __doc__, needs="`twofold`. No GPU.", takes="half an hour of a core, a third of it for the last job.")
LONGEST = 4 * 3600  # seconds of one plan
ROUNDING = 1e-9  # bounds and simulations add the same times in other orders


def gpt(layers, hidden, heads, sequence, vocab=50257):
    return f"gpt {{ layers: {layers} hidden: {hidden} heads: {heads} vocab: {vocab} sequence: {sequence} }}"


def llama(layers, hidden, heads, kv_heads, ffn, sequence, vocab=32000):
    return f"llama {{ layers: {layers} hidden: {hidden} heads: {heads} kv_heads: {kv_heads} ffn: {ffn} vocab: {vocab} sequence: {sequence} }}"


PLAIN = 'cp: 1 bucket_mib: 25 order: "pp dp cp tp"'
IN_MEMORY = PLAIN + " offload: NO_OFFLOAD"
ONE = "micro_batch: 1"
# name, devices, cluster, model, samples of a step, what else is fixed of `train` and `parallel`
JOBS = [
    ("GPT 4 x 512", 8, "dgx-h100", gpt(4, 512, 8, 512), 8, "", PLAIN),
    ("GPT 4 x 512", 8, "alps", gpt(4, 512, 8, 512), 8, ONE, PLAIN),
    ("GPT 6 x 768", 8, "dgx-a100", gpt(6, 768, 12, 1024), 16, ONE, "cp: 1 offload: NO_OFFLOAD"),
    ("GPT-2 124M", 8, "dgx-a100", 'preset: "gpt2-124m"', 16, ONE, IN_MEMORY),
    ("GPT-2 124M", 16, "dgx-h100", 'preset: "gpt2-124m"', 16, ONE, IN_MEMORY),
    ("GPT-2 350M", 16, "alps", 'preset: "gpt2-350m"', 16, "micro_batch: 1 activation_checkpointing { every: 0 }", IN_MEMORY),
    ("GPT 8 x 2048", 32, "dgx-a100", gpt(8, 2048, 16, 1024), 32, ONE, IN_MEMORY),
    ("Llama 4 x 1024", 8, "dgx-h100", llama(4, 1024, 16, 8, 2816, 1024), 8, "", IN_MEMORY),
    ("Llama 4 x 1024, sequences of 4,096", 8, "alps", llama(4, 1024, 16, 8, 2816, 4096), 8, ONE, 'bucket_mib: 25 order: "pp dp cp tp" offload: NO_OFFLOAD'),
    ("Llama 8 x 1024", 8, "dgx-a100", llama(8, 1024, 16, 8, 2816, 1024), 16, ONE, PLAIN),
    ("Llama 10 x 1536", 12, "alps", llama(10, 1536, 12, 6, 4096, 1024), 24, ONE, IN_MEMORY),
    ("Llama 8 x 2048", 16, "dgx-h100", llama(8, 2048, 16, 4, 5632, 2048), 16, ONE, "cp: 1 offload: NO_OFFLOAD"),
    ("Llama 8 x 2048, with cp", 16, "dgx-a100", llama(8, 2048, 16, 4, 5632, 2048), 16, ONE, 'bucket_mib: 25 order: "pp dp cp tp" offload: NO_OFFLOAD'),
    ("Llama 8 x 4096", 64, "dgx-h100", llama(8, 4096, 32, 8, 14336, 4096), 64, "micro_batch: 1 activation_checkpointing { every: 0 }", IN_MEMORY),
    ("Llama-2 7B", 8, "dgx-h100", 'preset: "llama2-7b"', 8, ONE, IN_MEMORY),
    ("Llama-2 7B", 8, "dgx-a100", 'preset: "llama2-7b"', 16, "micro_batch: 1 activation_checkpointing { every: 1 }", PLAIN),
    ("Llama-3 8B", 16, "dgx-h100", 'preset: "llama3-8b"', 16, ONE, IN_MEMORY),
    ("Mixture of 8 experts", 8, "dgx-h100", f"moe {{ experts: 8 top_k: 2 {llama(4, 1024, 16, 8, 2048, 512)} }}", 16, ONE, IN_MEMORY),
    ("Mixture of 8 experts", 16, "alps", f"moe {{ experts: 8 top_k: 2 {llama(4, 1024, 16, 8, 2048, 512)} }}", 16, ONE, IN_MEMORY),
    ("Llama 8 x 4096", 32, "alps", llama(8, 4096, 32, 8, 14336, 4096), 32, ONE, IN_MEMORY),
]


def spec(cluster, model, batch, train, parallel):
    return (f'model {{ {model} }}\ntrain {{ global_batch: {batch} clip_norm: 1 precision {{ parameter: BF16 reduce: F32 }} {train} }}\n'
            f'parallel {{ {parallel} }}\nfabric {{ simulated {{ cluster: "{cluster}" }} }}\n')


def wrong_bounds(job, layouts):
    """What is wrong with what was known of layouts before they were simulated."""
    for layout in layouts:
        known, text = layout["foretold"], f"{job}: {layout['text']}"
        for name in ("quick", "path", "tight"):
            if known[name] > layout["seconds"] * (1 + ROUNDING):
                yield f"{text}: the {name} bound is {known[name]:.9g} s, the simulated time {layout['seconds']:.9g} s"
        if known["bytes"] > layout["bytes"]:
            yield f"{text}: at least {known['bytes']:,} bytes are foretold, but {layout['bytes']:,} reserved"
        if known["too_large"]:
            yield f"{text}: fits, and a bound says that it does not"


class Plans:
    """Asks `twofold plan`. With a folder, what was simulated is kept there, and a study that was cut goes on."""

    def __init__(self, twofold, folder):
        self.twofold, self.folder = twofold, folder

    def ask(self, job, kind, file, ranks, *words):
        kept = [f"--out={self.folder / re.sub('[^A-Za-z0-9]+', '-', job)}-{kind}"] if self.folder else []
        return json.loads(self.twofold("plan", file, f"--ranks={ranks}", "--json", *words, *kept, statuses=(0, 3), timeout=LONGEST).output)


def costs_of(everything, searched):
    """Seconds of a core that one took of each kind: a combination to screen, a better bound, a simulation (None: all were kept)."""
    of_search, of_all = searched["core_seconds"], everything["core_seconds"]
    return {"screened": of_search["screening"] / searched["combinations"], "bound": of_search["better_bounds"] / max(1, searched["better_bounds"]),
            "simulation": of_all["simulations"] / of_all["simulations_here"] if of_all["simulations_here"] else None}


def study_job(plans, table, name, ranks, cluster, *rest):
    """A row, and what is wrong."""
    job = f"{name}, {ranks} on {cluster}"
    with tempfile.NamedTemporaryFile("w", suffix=".textproto") as file:
        file.write(spec(cluster, *rest))
        file.flush()
        everything = plans.ask(job, "all", file.name, ranks, "--exhaustive", "--top=100000")
        searched = plans.ask(job, "searched", file.name, ranks, "--gap=0", "--top=1")
    layouts, best = everything["layouts"], searched["layouts"][0]
    problems = list(wrong_bounds(job, layouts))
    if best["layout"] != layouts[0]["layout"]:
        problems.append(f"{job}: the search finds {best['text']} ({best['seconds']:.9g} s), all are led by {layouts[0]['text']} ({layouts[0]['seconds']:.9g} s)")
    if not searched["proven"]:
        problems.append(f"{job}: nothing was proven")
    of_time = [max(known["path"], known["tight"]) / layout["seconds"] for layout in layouts for known in [layout["foretold"]]]
    of_memory = [layout["foretold"]["bytes"] / layout["bytes"] for layout in layouts]
    legal, simulated = everything["legal"], searched["simulated"]
    cost = costs_of(everything, searched)
    table.add(job, count(legal), count(legal - len(layouts)), count(simulated), best["text"], percent(min(of_time)), percent(statistics.median(of_time)),
              percent(max(of_time)), percent(statistics.median(of_memory)), percent(max(of_memory)), *("–" if each is None else f"{1e3 * each:.2g} ms" for each in cost.values()),
              len(problems) or "none")
    return row(job, best["seconds"], layouts[0]["seconds"], "s", "none", legal=legal, fit=len(layouts), simulated=simulated, layout=best["text"],
               bound_least=min(of_time), bound_median=statistics.median(of_time), bound_most=max(of_time), memory_median=statistics.median(of_memory),
               memory_most=max(of_memory), **cost, wrong=len(problems)), problems


def main():
    study.option("--jobs", type=int, default=len(JOBS), help="only the first so many jobs (default: all)")
    study.option("--after", type=int, default=0, help="without the first so many (default: 0)")
    study.option("--plans", type=pathlib.Path, help="keep what was simulated in this folder, and go on from what it has; delete it after a change of the program")
    options, twofold = study.start(lambda options: None if 0 <= options.after < options.jobs <= len(JOBS)
                                   else f"--jobs must be from 1 to {len(JOBS)}, and --after less than that")
    table = Table("job", "legal layouts", "do not fit", "simulated by the search", "the fastest", "bound on time / simulated: least", "median", "most",
                  "bound on memory / reserved: median", "most", "a screened combination takes of a core", "a better bound", "a simulation", "wrong")
    plans = Plans(twofold, options.plans)
    rows, problems = [], []
    for job in JOBS[options.after:options.jobs]:
        found, wrong = study_job(plans, table, *job)
        rows.append(found)
        problems += wrong
        for message in wrong:
            progress(message)
    layouts, simulated = (sum(r[key] for r in rows) for key in ("legal", "simulated"))
    study.publish("Does a plan find the fastest layout?", [
        *table.lines, "",
        f"{count(layouts)} layouts were simulated; the searches simulated {count(simulated)} of them. {count(len(problems))} bounds or results were wrong.",
        "Calculon is said to take 2.8 ms for each configuration that it evaluates; that was not measured here."], rows)
    study.end(problems)


if __name__ == "__main__":
    main()
