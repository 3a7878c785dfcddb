#!/usr/bin/env python3
"""How large is a report's page, and how fast is it written, opened and zoomed?

    tests/benchmarks/page.py PATH_OF_TWOFOLD

Two simulated jobs: Llama-3 405B on 16,384 GPUs, and a small hybrid job whose trace has a million spans. A headless Chromium without a GPU
opens the pages and zooms in frame by frame: `script` is what the page's scripts take of a frame, `script and paint` what passes until the page is laid out
and painted, too; the page measures both. `between frames` passes from one frame to the next: the screen shows 60 a second. Run it on a machine that does
nothing else.
"""
import pathlib
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/integration"))
from browser import Browser  # noqa: E402

LARGE = """
model { preset: "llama3-405b" }
parallel { tp: 8 pp: 16 dp: 128 sharding: ZERO_1 sequence_parallel: true }
train { steps: 2 warmup_steps: 1 global_batch: 2048 micro_batch: 1 activation_checkpointing { every: 1 } }
fabric { simulated { cluster: "dgx-h100-16k" } }
"""
JOBS = {"16,384 GPUs": (None, []), "a million spans": (ROOT / "examples/hybrid.textproto", ["--set=train.steps=320", "--set=trace.last_steps=300"])}
ZOOM = """
const done = arguments[arguments.length - 1], shared = twofold.shared, gaps = [];
document.getElementById("time-line").scrollIntoView();
let last = null, i = 0;
const tick = (now) => {
  if (last !== null) gaps.push(now - last);
  last = now;
  if (i++ === 240) return done({script: shared.frames.slice(-200, -1).map((f) => f.script), painted: shared.frames.slice(-200, -1).map((f) => f.painted), gaps});
  const width = shared.end * 0.96 ** i;
  shared.show((shared.end - width) * 0.4, (shared.end - width) * 0.4 + width);
  requestAnimationFrame(tick);
};
requestAnimationFrame(tick);
"""


def quantile(values, share):
    return sorted(values)[int(share * (len(values) - 1))]


def main():
    program, browser = sys.argv[1], Browser()
    with tempfile.TemporaryDirectory() as folder:
        for name, (spec, more) in JOBS.items():
            out = pathlib.Path(folder, name.replace(" ", "-"))
            if spec is None:
                spec = pathlib.Path(folder, "large.textproto")
                spec.write_text(LARGE)
            subprocess.run([program, "run", spec, "--fabric=simulated", f"--out={out}", "--quiet", *more], check=True, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            begin = time.monotonic()
            subprocess.run([program, "report", out], check=True, stdout=subprocess.DEVNULL)
            written = time.monotonic() - begin
            opened = browser.open(out / "report.html")
            spans = browser.script("return twofold.data.runs[0].lanes.reduce((sum, lane) => sum + lane.count, 0)")
            frames = browser.call("/execute/async", {"script": ZOOM, "args": []})
            of = lambda what: f"median {quantile(frames[what], 0.5):.1f} ms, p95 {quantile(frames[what], 0.95):.1f} ms"  # noqa: E731
            print(f"{name}: {spans:,} spans, page {(out / 'report.html').stat().st_size / 1e6:.2f} MB, written in {written:.1f} s, opened in {opened:.1f} s; of a frame, "
                  f"script: {of('script')}; script and paint: {of('painted')}; between frames: {of('gaps')}", flush=True)
    browser.close()


if __name__ == "__main__":
    main()
