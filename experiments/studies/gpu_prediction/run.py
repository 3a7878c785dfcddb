#!/usr/bin/env python3
"""Step times on one GPU: predicted from a calibration of single kernels, and measured.

    experiments/studies/gpu_prediction/run.py [--write] [--quick] [--profile=FILE] [--only=NAME] [--json=FILE] [PATH_OF_TWOFOLD]

`twofold calibrate --device=cuda` measures kernels, launches and copies, and never a training step; --profile takes what it wrote
before. Then each case is run on the GPU and predicted by the simulated fabric from that profile alone. Calibration's rows of tokens are powers of
two, and those of no case are (experiments/program/calibrate/gpu_cases.h): no product, norm, loss or attention call of a case is a measured one.
Validation: every row. Of training steps (GPT-2 124M, 350M, 774M, 1.5B and Llama 1B, bf16 and f32, with and without activation
checkpointing) the median error is to be at most 3 % and the worst 5 %; of a step that the host's launches bound, and of the optimizer
alone (its kernels' time in the traced step of GPT-2 1.5B), which memory bounds, 10 %. Fails where one is not.

Needs a GPU of 80 GB or more; about four minutes on an H200 is a guess, nobody has run it on one yet. Without a GPU it says so, changes nothing and ends with exit status 3.
--write renews table.md and errors.svg beside this file, the profile in topologies/catalogue/profiles and the catalogue's entry that
names it; only from a GPU: not where `twofold` was built with an emulated one. --quick: tiny cases, for the test on an emulated GPU, whose times mean nothing; no
bounds are checked.
"""
import array
import json
import pathlib
import random
import re
import shutil
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent.parent
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
    LAUNCH_BOUND,
]
TINY = {"train.steps": 3, "train.warmup_steps": 1}
QUICK = [
    ("tiny GPT, bf16", "gpt", {**gpt(1, 32, 2, sequence=16, vocab=64), **BF16, **TINY, "train.micro_batch": 3}),
    ("tiny GPT, f32, checkpointed", "gpt", {**gpt(1, 32, 2, sequence=16, vocab=64), **F32, **CHECKPOINTED, **TINY, "train.micro_batch": 3}),
]
OPTIMIZER_OF = "GPT-2 1.5B, bf16, 5 samples"


def fail(text, status=1):
    print(f"experiments/studies/gpu_prediction/run.py: {text}", file=sys.stderr)
    sys.exit(status)


def run(command, **options):
    command = [str(c) for c in command]
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=TIMEOUT, cwd=ROOT, **options)
    except subprocess.TimeoutExpired:
        fail(f"{' '.join(command)}: not done after {TIMEOUT} s")
    return done


def write_tokens(path, vocabulary, count=4 << 20):
    """As llm.c writes them: 256 int32 (magic, version, count), then uint16 tokens."""
    dice = random.Random(1)
    header = array.array("i", [20240520, 1, count] + [0] * 253)
    tokens = array.array("H", (dice.randrange(vocabulary) for _ in range(count)))
    path.write_bytes(header.tobytes() + tokens.tobytes())


def calibrate(program, profile, quick):
    done = run([program, "calibrate", "--device=cuda", "--time-algorithms", f"--out={profile}", *(["--quick"] if quick else [])], stderr=subprocess.PIPE)
    if done.returncode == 2 and "cannot be had" in done.stderr:
        fail(f"no GPU, so that nothing was measured and nothing is changed: {done.stderr.strip().splitlines()[-1]}", NO_GPU)
    if done.returncode != 0:
        fail(f"calibrate: exit status {done.returncode}\n{done.stderr[-4000:]}")
    print(done.stdout, file=sys.stderr)


class Case:
    """One case on both fabrics."""

    def __init__(self, program, case, profile, folder):
        self.name, self.spec, self.settings = case
        self.folder, self.program = folder, program
        self.measured = self.of("in_memory", {})
        self.predicted = self.of("simulated", {"fabric.simulated.cluster": "this-machine", "fabric.simulated.profile": profile})

    def of(self, fabric, settings):
        out = self.folder / fabric
        shutil.rmtree(out, ignore_errors=True)
        everything = {"data.tokens.path": self.folder / f"tokens-{self.settings.get('model.gpt.vocab', VOCABULARY)}.bin", **self.settings, **settings}
        sets = [part for path, value in everything.items() for part in ("--set", f"{path}={value}")]
        done = run([self.program, "run", HERE / f"{self.spec}.textproto", "--quiet", f"--fabric={fabric}", f"--out={out}", *sets], stderr=subprocess.PIPE)
        if done.returncode != 0:
            fail(f"{self.name} on {fabric}: exit status {done.returncode}\n{done.stderr[-4000:]}")
        return json.loads((out / "report.json").read_text())

    def row(self):
        predicted, measured = (r["median_step_seconds"] for r in (self.predicted, self.measured))
        return {"name": self.name, "predicted": predicted, "measured": measured, "low": self.predicted["low"], "high": self.predicted["high"],
                "extrapolated": sum("is extrapolated" in n for n in self.predicted["notes"])}

    def optimizer_row(self):
        predicted, measured = (optimizer_seconds(self.folder / f) for f in ("simulated", "in_memory"))
        return {"name": f"optimizer alone, of {self.name}", "predicted": predicted, "measured": measured, "low": None, "high": None, "extrapolated": 0}


def optimizer_seconds(folder):
    """Of the traced steps: time of the optimizer's kernels."""
    trace = json.loads((folder / "trace.json").read_text())
    events = trace["traceEvents"] if isinstance(trace, dict) else trace
    return sum(e["dur"] for e in events if e.get("ph") == "X" and e["name"] in OPTIMIZER) * 1e-6


def error(row):
    return row["predicted"] / row["measured"] - 1


def milliseconds(seconds):
    return f"{seconds * 1e3:.2f} ms"


def table(rows):
    lines = ["| what | predicted | measured | error | kernels extrapolated |", "|---|---|---|---|---|"]
    for r in rows:
        interval = "" if r["low"] is None else f" ({milliseconds(r['low'])} to {milliseconds(r['high'])})"
        lines.append(f"| {r['name']} | {milliseconds(r['predicted'])}{interval} | {milliseconds(r['measured'])} | {100 * error(r):+.1f} % | {r['extrapolated']} |")
    return "\n".join(lines)


def is_training(row):
    return not row["name"].startswith(("launch-bound", "optimizer alone"))


def summary(rows):
    errors = [abs(error(r)) for r in rows if is_training(r)]
    return f"Training steps: median error {100 * statistics.median(errors):.1f} % (at most {100 * MEDIAN:.0f} %), worst {100 * max(errors):.1f} % (at most {100 * WORST:.0f} %)."


def breaches(rows):
    steps = [r for r in rows if is_training(r)]
    if steps and statistics.median(abs(error(r)) for r in steps) > MEDIAN:
        yield f"median error {100 * statistics.median(abs(error(r)) for r in steps):.1f} % > {100 * MEDIAN:.0f} %"
    for r in rows:
        most = WORST if is_training(r) else OTHERS
        if abs(error(r)) > most:
            yield f"{r['name']}: {100 * error(r):+.1f} %, at most {100 * most:.0f} %"


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


def main():
    known = ("--write", "--quick", "--profile", "--only", "--json")
    options = {a.split("=")[0]: a.split("=", 1)[-1] for a in sys.argv[1:] if a.startswith("--")}
    arguments = [a for a in sys.argv[1:] if not a.startswith("--")]
    for option in options:
        if option not in known:
            fail(f"{option}: one of {', '.join(known)} is right", 2)
    quick, write = "--quick" in options, "--write" in options
    if write and (quick or "--only" in options):
        fail("--write: the table has all rows; leave --quick and --only out", 2)
    program = pathlib.Path(arguments[0] if arguments else ROOT / "build/release/experiments/program/twofold").resolve()
    cases = [c for c in (QUICK if quick else CASES) if options.get("--only", "") in c[0]]
    if not cases:
        fail(f"--only={options['--only']}: no case's name has it", 2)
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        profile = pathlib.Path(options.get("--profile", folder / "gpu.profile.textproto")).resolve()
        if "--profile" not in options:
            calibrate(program, profile, quick)
        rows, device = [], ""
        for vocabulary in {c[2].get("model.gpt.vocab", VOCABULARY) for c in cases}:
            write_tokens(folder / f"tokens-{vocabulary}.bin", vocabulary, 1 << 16 if quick else 4 << 20)
        for given in cases:
            case = Case(program, given, profile, folder)
            device = case.measured["device"]
            rows.append(case.row())
            if case.name == OPTIMIZER_OF or quick:
                rows.append(case.optimizer_row())
            print(table(rows[-1:]).splitlines()[-1], file=sys.stderr, flush=True)
        print(table(rows))
        if any(map(is_training, rows)):
            print(f"\n{summary(rows)}")
        if "--json" in options:
            pathlib.Path(options["--json"]).write_text(json.dumps(rows))
        if write:
            if "emulated" in device.lower():
                fail("--write: figures of an emulated GPU are none")
            slug = add_to_catalogue(profile)
            (HERE / "errors.svg").write_text(picture(rows))
            (HERE / "table.md").write_text(f"One GPU, {device}. Written by experiments/studies/gpu_prediction/run.py, whose first lines say what was held against what. The profile "
                                           f"is the catalogue's {slug}.\n\n{summary(rows)}\n\n{table(rows)}\n\n![errors](errors.svg)\n")
    wrong = [] if quick else list(breaches(rows))
    if wrong:
        fail("; ".join(wrong))


if __name__ == "__main__":
    main()
