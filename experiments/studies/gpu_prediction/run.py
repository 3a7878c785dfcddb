#!/usr/bin/env python3
"""How far are training steps on one GPU from what a calibration of single kernels predicts?"""
import json
import pathlib
import re
import shutil
import statistics
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from common import ROOT, Failed, Study, fail, markdown, milliseconds, percent, progress, read_json, row, signed, write_tokens  # noqa: E402

study = Study(__file__, __doc__, needs="`twofold` with CUDA, and a GPU of 80 GB or more to itself; without one it ends with exit status 3.",
              takes="not known: it has not run on a GPU yet.", writes="table.md, results.json, errors.svg, and the GPU's profile and entry in topologies/catalogue",
              quick="tiny cases and no bounds, for the test on an emulated GPU, whose times mean nothing")
study.option("--profile", type=pathlib.Path, metavar="FILE", help="what `twofold calibrate --device=cuda` wrote before; it is not run then")
study.option("--only", default="", metavar="TEXT", help="run the cases with TEXT in their names")
study.option("--json", type=pathlib.Path, metavar="FILE", help="write the rows there, too")
CATALOGUE = ROOT / "topologies/catalogue"
MEDIAN, WORST, OTHERS = 0.03, 0.05, 0.10
VOCABULARY = 50257  # of the tokens in the file
TIMEOUT = 600       # seconds of one command
NO_GPU = 3          # exit status
OPTIMIZER = ("adam_step", "squared_norm", "clip_factor")  # kernels


def gpt(layers, hidden, heads, **more):
    return {f"model.gpt.{k}": v for k, v in {"layers": layers, "hidden": hidden, "heads": heads, **more}.items()}


GPTS = {"GPT-2 124M": gpt(12, 768, 12), "GPT-2 350M": gpt(24, 1024, 16), "GPT-2 774M": gpt(36, 1280, 20), "GPT-2 1.5B": gpt(48, 1600, 25)}
BF16, F32 = {"train.precision.parameter": "BF16"}, {"train.precision.parameter": "F32"}
FP8, BLOCKS = {**BF16, "train.precision.matmul": "FP8"}, {"train.precision.fp8.scaling": "BLOCK"}
CHECKPOINTED = {"train.activation_checkpointing.every": 1}


def training(model, spec, sizes, batches):
    """Rows of one model: samples a step in bf16, in bf16 with checkpointing, in f32."""
    plain, checkpointed, wide = batches
    yield f"{model}, bf16, {plain} samples", spec, {**sizes, **BF16, "train.micro_batch": plain}
    yield f"{model}, bf16, checkpointed, {checkpointed} samples", spec, {**sizes, **BF16, **CHECKPOINTED, "train.micro_batch": checkpointed}
    yield f"{model}, f32, {wide} samples", spec, {**sizes, **F32, "train.micro_batch": wide}


LAUNCH_BOUND = ("launch-bound: GPT of 6 layers, hidden 256, 3 samples of 128 tokens", "gpt",
                {**gpt(6, 256, 4, sequence=128, vocab=1024), **BF16, "train.micro_batch": 3, "train.steps": 60, "train.warmup_steps": 20})
CASES = [
    *training("GPT-2 124M", "gpt", GPTS["GPT-2 124M"], (12, 20, 6)),
    *training("GPT-2 350M", "gpt", GPTS["GPT-2 350M"], (10, 12, 5)),
    *training("GPT-2 774M", "gpt", GPTS["GPT-2 774M"], (6, 12, 5)),
    *training("GPT-2 1.5B", "gpt", GPTS["GPT-2 1.5B"], (5, 10, 5)),
    *training("Llama 1B", "llama", {}, (3, 5, 3)),
    ("GPT-2 774M, fp8, 6 samples", "gpt", {**GPTS["GPT-2 774M"], **FP8, "train.micro_batch": 6}),
    ("GPT-2 774M, fp8 in blocks, 6 samples", "gpt", {**GPTS["GPT-2 774M"], **FP8, **BLOCKS, "train.micro_batch": 6}),
    LAUNCH_BOUND,
]
TINY = {"train.steps": 3, "train.warmup_steps": 1}
QUICK = [
    ("tiny GPT, bf16", "gpt", {**gpt(1, 32, 2, sequence=16, vocab=64), **BF16, **TINY, "train.micro_batch": 3}),
    ("tiny GPT, fp8", "gpt", {**gpt(1, 32, 2, sequence=16, vocab=64), **FP8, **TINY, "train.micro_batch": 3}),
    ("tiny GPT, fp8 in blocks", "gpt", {**gpt(1, 32, 2, sequence=16, vocab=64), **FP8, **BLOCKS, **TINY, "train.micro_batch": 3}),
    ("tiny GPT, f32, checkpointed", "gpt", {**gpt(1, 32, 2, sequence=16, vocab=64), **F32, **CHECKPOINTED, **TINY, "train.micro_batch": 3}),
]
OPTIMIZER_OF = "GPT-2 1.5B, bf16, 5 samples"


def calibrate(twofold, profile, quick):
    try:
        done = twofold("calibrate", "--device=cuda", "--time-algorithms", f"--out={profile}", *(["--quick"] if quick else []), timeout=TIMEOUT, cwd=ROOT)
        progress(done.output)
    except Failed as error:
        if "CUDA is not available" not in str(error):
            raise
        fail(f"{study.title}: no GPU, so nothing was measured and nothing is changed: {str(error).splitlines()[-1]}", NO_GPU)


def run(twofold, case, fabric, settings, folder):
    """The report of a case on one fabric; its files are in `folder`."""
    _, spec, own = case
    tokens = {"data.tokens.path": folder / f"tokens-{own.get('model.gpt.vocab', VOCABULARY)}.bin"}
    return twofold.report(study.folder / f"{spec}.textproto", {**tokens, **own, **settings}, f"--fabric={fabric}", out=folder / fabric, timeout=TIMEOUT)


def rows_of(twofold, case, profile, folder, quick):
    """Rows of results.json of one case, and the GPU's name."""
    measured = run(twofold, case, "in_memory", {}, folder)
    predicted = run(twofold, case, "simulated", {"fabric.simulated.cluster": "this-machine", "fabric.simulated.profile": profile}, folder)
    rows = [row(case[0], predicted["median_step_seconds"], measured["median_step_seconds"], "s", low=predicted["low"], high=predicted["high"],
                extrapolated=sum("is extrapolated" in n for n in predicted["notes"]))]
    if case[0] == OPTIMIZER_OF or quick:
        seconds = [optimizer_seconds(folder / fabric) for fabric in ("simulated", "in_memory")]
        rows.append(row(f"optimizer alone, of {case[0]}", *seconds, "s", low=None, high=None, extrapolated=0))
    return rows, measured["device"]


def optimizer_seconds(folder):
    """Of the traced steps: time of the optimizer's kernels."""
    trace = read_json(folder / "trace.json")
    events = trace["traceEvents"] if isinstance(trace, dict) else trace
    return sum(e["dur"] for e in events if e.get("ph") == "X" and e["name"] in OPTIMIZER) * 1e-6


def error(r):
    return r["predicted"] / r["measured"] - 1


def table(rows):
    lines = []
    for r in rows:
        interval = "" if r["low"] is None else f" ({milliseconds(r['low'])} to {milliseconds(r['high'])})"
        lines.append([r["name"], f"{milliseconds(r['predicted'])}{interval}", milliseconds(r["measured"]), signed(error(r)), r["extrapolated"]])
    return markdown(["what", "predicted", "measured", "error", "kernels extrapolated"], lines)


def is_training(row):
    return not row["name"].startswith(("launch-bound", "optimizer alone"))


def summary(rows):
    errors = [abs(error(r)) for r in rows if is_training(r)]
    return (f"Training steps: median error {percent(statistics.median(errors))} (at most {percent(MEDIAN, 0)}), worst {percent(max(errors))} "
            f"(at most {percent(WORST, 0)}).")


def breaches(rows):
    steps = [abs(error(r)) for r in rows if is_training(r)]
    if steps and statistics.median(steps) > MEDIAN:
        yield f"median error {percent(statistics.median(steps))} > {percent(MEDIAN, 0)}"
    for r in rows:
        most = WORST if is_training(r) else OTHERS
        if abs(error(r)) > most:
            yield f"{r['name']}: {signed(error(r))}, at most {percent(most, 0)}"


def picture(rows):
    """Errors as bars to the left and right of nothing, the bounds as lines."""
    left, middle, line, most = 10, 700, 22, max(0.12, *(abs(error(r)) for r in rows))
    scale, height = 180 / most, line * len(rows) + 40
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="900" height="{height}" font-family="sans-serif" font-size="13">',
           f'<rect width="900" height="{height}" fill="white"/>']
    for i, r in enumerate(rows):
        y, bound = 10 + line * i, WORST if is_training(r) else OTHERS
        x = middle + scale * min(0, error(r))
        out.append(f'<text x="{left}" y="{y + 14}">{r["name"]}</text>')
        out.append(f'<rect x="{x:.1f}" y="{y + 3}" width="{scale * abs(error(r)):.1f}" height="{line - 8}" fill="{"#1b9e77" if abs(error(r)) <= bound else "#d95f02"}"/>')
        for side in (-bound, bound):
            out.append(f'<line x1="{middle + scale * side:.1f}" x2="{middle + scale * side:.1f}" y1="{y}" y2="{y + line}" stroke="#777" stroke-dasharray="3 2"/>')
    out.append(f'<line x1="{middle}" x2="{middle}" y1="10" y2="{height - 30}" stroke="black"/>')
    out.append(f'<text x="{middle}" y="{height - 8}" text-anchor="middle">predicted over measured step time - 1; dashed: what is asked for</text>')
    return "\n".join(out) + "\n</svg>\n"


def number(text, path):
    """The number of a field in a profile's text, by the names of the messages around it."""
    for name in path[:-1]:
        text = text[re.search(rf"^\s*{name} \{{", text, re.M).end():]
    return re.search(rf"^\s*{path[-1]}: (\S+)", text, re.M).group(1)


def add_to_catalogue(profile):
    text = profile.read_text()
    gpu = re.search(r'^processor: "([^"]*)"', text, re.M).group(1)
    slug = re.sub(r"[^a-z0-9]+", "-", gpu.lower().replace("nvidia", "")).strip("-")
    peak = float(number(text, ["peak_flops_per_second"]))
    (CATALOGUE / "profiles").mkdir(exist_ok=True)
    shutil.copy(profile, CATALOGUE / "profiles" / f"{slug}.cuda.profile.textproto")
    (CATALOGUE / f"{slug}.textproto").write_text(f'''name: "{slug}"
summary: "one {gpu}, as measured"
source: "written by experiments/studies/gpu_prediction/run.py: measured by `twofold calibrate --device=cuda`, held against training steps there; peaks are of the fastest product"
device {{
  kind: GPU_DEVICE name: "{gpu}"
  memory_bytes: {number(text, ["gpu", "memory_bytes"])} memory_bytes_per_second: {2 * float(number(text, ["gpu", "within", "bytes_per_second"])):.4g}
  f32_flops_per_second: {peak:.4g} bf16_flops_per_second: {peak:.4g} memory_efficiency: 1
  profile: "{slug}.cuda.profile.textproto"
}}
machines {{ nodes: 1 node {{ single {{}} }} }}
''')
    return slug


def wrong(options):
    if options.write and (options.quick or options.only):
        return "--write: the table has all rows; leave --quick and --only out"
    return None if cases(options) else f"--only={options.only}: no case's name has it"


def cases(options):
    return [case for case in (QUICK if options.quick else CASES) if options.only in case[0]]


def measure(twofold, options, profile, folder):
    """Rows of results.json, and the GPU's name."""
    rows, device = [], ""
    for vocabulary in {case[2].get("model.gpt.vocab", VOCABULARY) for case in cases(options)}:
        write_tokens(folder / f"tokens-{vocabulary}.bin", vocabulary, 1 << 16 if options.quick else 4 << 20)
    for case in cases(options):
        of_case, device = rows_of(twofold, case, profile, folder, options.quick)
        rows += of_case
        progress(table(rows[-1:])[-1])
    return rows, device


def main():
    options, twofold = study.start(wrong)
    with tempfile.TemporaryDirectory() as folder:
        profile = (options.profile or pathlib.Path(folder) / "gpu.profile.textproto").resolve()
        if not options.profile:
            calibrate(twofold, profile, options.quick)
        rows, device = measure(twofold, options, profile, pathlib.Path(folder))
        if options.json:
            options.json.write_text(json.dumps(rows))
        about = f"One GPU, {device}."
        if options.write:
            study.only_from_a_gpu(device)
            (study.folder / "errors.svg").write_text(picture(rows))
            about += f" The profile is the catalogue's {add_to_catalogue(profile)}."
    summaries = [summary(rows), ""] if any(map(is_training, rows)) else []
    study.publish("Training steps on one GPU: predicted and measured", [about, "", *summaries, *table(rows), "", "![errors](errors.svg)"], rows)
    study.end([] if options.quick else list(breaches(rows)))


if __name__ == "__main__":
    main()
