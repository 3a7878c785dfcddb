#!/usr/bin/env python3
"""Pages of all kinds in a real browser: of runs, plans, sweeps, storms and studies; and what is refused.

    tests/integration/page_kinds_test.py PATH_OF_TWOFOLD
"""
import collections
import csv
import json
import pathlib
import statistics
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from page_case import PROGRAM, ROOT, PageCase  # noqa: E402

LARGE = """
model { preset: "llama3-405b" }
parallel { tp: 8 pp: 16 dp: 128 sharding: ZERO_1 sequence_parallel: true }
train { steps: 2 warmup_steps: 1 global_batch: 2048 micro_batch: 1 activation_checkpointing { every: 1 } }
fabric { simulated { cluster: "dgx-h100-16k" } }
"""
THREE_AXES = """
model { preset: "llama3-8b" }
parallel { tp: 8 pp: 8 dp: 16 sharding: ZERO_1 sequence_parallel: true }
train { steps: 2 warmup_steps: 1 global_batch: 128 micro_batch: 1 }
fabric { simulated { cluster: "dgx-h100" } }
"""
OFFLOAD = """
model { preset: "gpt-3m" }
parallel { dp: 4 sharding: FULL_SHARD offload: OFFLOAD_OPTIMIZER }
train { steps: 2 warmup_steps: 1 global_batch: 4 micro_batch: 1 }
fabric { simulated { cluster: "dgx-a100" } }
"""
ELASTIC = """
model { mlp { inputs: 16 hidden: 32 classes: 4 } }
parallel { dp: 4 sharding: ZERO_1 }
train { steps: 20 warmup_steps: 1 global_batch: 12 micro_batch: 1 elastic { min_dp: 2 shard_copies: 1 events { step: 8 lose: [2] } } }
fabric { simulated { cluster: "dgx-a100" } }
"""


class PageKinds(PageCase):
    def sections(self):
        return self.browser.script("return [...document.querySelectorAll('section')].map((s) => s.id)")

    def test_kinds_of_runs(self):
        for name, spec, sections in (
            ("offload", OFFLOAD, ["step", "time-line", "memory", "network"]),
            ("experts", "examples/expert_parallel.textproto", ["step", "time-line", "memory", "network"]),
            ("zero-bubble", "examples/zero_bubble.textproto", ["step", "pipeline", "time-line", "memory", "network"]),
            ("context", "examples/context_parallel.textproto", ["step", "time-line", "memory", "network"]),
            ("elastic", ELASTIC, ["step", "time-line", "memory", "network"]),
        ):
            with self.subTest(name):
                self.opened(self.run_of(name, spec))
                self.assertEqual(self.sections(), sections)
        report = json.loads((self.folder / "elastic-simulated/report.json").read_text())
        self.assertEqual([len(g["members"]) for g in report["generations"]], [4, 3])
        self.assertEqual(self.browser.script("return [...document.querySelectorAll('.generations tr')].slice(1).map((row) => Number(row.cells[1].textContent))"), [4, 3])

    def test_1024_gpus(self):
        folder = self.run_of("three-axes", THREE_AXES)
        page = self.opened(folder)
        self.assertLess(page.stat().st_size, 3_000_000)
        self.assertEqual(self.sections(), ["step", "pipeline", "time-line", "memory", "network"])
        report = json.loads((folder / "report.json").read_text())
        self.assertEqual(report["world_size"], 1024)
        stages = self.browser.script("return twofold.data.runs[0].ranks.map((r) => r.place.pp)")
        self.assertEqual(set(stages), set(range(8)))
        # all ranks' traffic is on the links, also where one rank stands for many: each of 1,024 devices sends to its node's switch
        with open(folder / "links.csv", newline="") as file:
            up = {row["link"]: int(row["links"]) for row in csv.DictReader(file) if row["link"].endswith(">nvswitch")}
        self.assertEqual(sum(up.values()), 1024)
        self.assertEqual(self.browser.errors(), [])

    def test_16384_gpus(self):
        page = self.opened(self.run_of("large", LARGE))
        self.assertLess(page.stat().st_size, 3_000_000)
        self.assertIn("rank 1024 and 1023 like it", self.browser.script("return document.getElementById('ranks-0').textContent"))
        self.assertEqual(self.browser.script("return twofold.views.timeLine.chosen.get(twofold.data.runs[0]).size"), 4)  # a rank of each of the first stages

    def test_a_plan(self):
        folder = self.folder / "plan"
        self.twofold("plan", "--model=gpt2-124m", "--cluster=dgx-h100", "--nodes=1", "--global-batch=16", "--set=parallel.pp=1", "--set=parallel.cp=1", f"--out={folder}")
        plan = json.loads((folder / "plan.json").read_text())
        with open(folder / "layouts.csv", newline="") as file:
            rows = list(csv.DictReader(file))
        fates = collections.Counter(row["fate"] for row in rows)
        self.assertEqual(len(rows), plan["legal"])
        self.assertEqual((fates["simulated"] + len(plan["too_large"]), fates["slower"], fates["open"]), (plan["simulated"], plan["slower"], plan["open"]))
        best = plan["layouts"][0]
        self.assertEqual((rows[0]["layout"], float(rows[0]["seconds"])), (best["text"], best["seconds"]))
        for row in rows:
            self.assertLessEqual(float(row["least_seconds"]), float(row["seconds"] or "inf"))

        self.opened(folder)
        said = lambda: self.browser.script("return document.getElementById('plan-words').textContent")  # noqa: E731
        self.assertIn(f"{len(rows):,} of {len(rows):,} layouts", said())
        self.assertEqual(self.browser.script("return twofold.views.plan.pareto()[0].seconds"), best["seconds"])  # of equally fast ones, the smallest
        self.browser.click("#filter-tp summary")
        self.browser.click(f"#filter-tp input[value='{rows[0]['tp']}']")  # leaves out the fastest
        left = [row for row in rows if row["tp"] != rows[0]["tp"]]
        self.assertIn(f"{len(left):,} of {len(rows):,} layouts", said())
        self.assertNotIn(best["text"] + ",", said())
        x, y = self.browser.script("""const view = twofold.views.plan, l = view.shown[0];
            view.canvas.scrollIntoView({block: "center"});
            const box = view.canvas.getBoundingClientRect();
            return [box.left + view.x(l.memory), box.top + view.y(l.time)]""")
        self.browser.point(x, y)
        self.assertIn("a step", self.browser.wait("const tip = document.querySelector('.tip'); return tip && tip.innerText"))
        self.assertEqual(self.browser.errors(), [])

    def test_a_sweep(self):
        folder = self.folder / "sweep"
        self.twofold("sweep", "examples/ddp.textproto", "--vary=parallel.dp=1,2,4", "--vary=train.micro_batch=1,2", "--fabric=simulated", f"--out={folder}")
        points = json.loads((folder / "sweep.json").read_text())["points"]
        self.opened(folder)
        drawn = lambda: sorted(map(float, self.browser.script("return [...document.querySelectorAll('circle[data-value]')].map((c) => c.dataset.value)")))  # noqa: E731
        self.assertEqual(drawn(), sorted(p["predicted"]["median_step_seconds"] for p in points))
        self.browser.script("const s = document.getElementById('sweep-y'); s.value = 'peak_bytes'; s.dispatchEvent(new Event('change'))")
        self.assertEqual(drawn(), sorted(float(p["predicted"]["peak_bytes"]) for p in points))
        self.browser.script("const s = document.getElementById('sweep-x'); s.value = 'train.micro_batch'; s.dispatchEvent(new Event('change'))")
        self.browser.click("#sweep-log")
        self.assertEqual(len(drawn()), len(points))
        self.assertEqual(self.browser.errors(), [])

    STORM = """
disasters { members { step: 5 join: 1 } }
disasters { fault { rank: 2 step: 3 lost: true } }
disasters { fault { rank: 1 step: 1 slow { factor: 4 for_s: 0.001 } } }
disasters { fault { rank: 3 step: 4 hangs_s: 0.25 } }
disasters { fault { rank: 0 step: 99 lost: true } }
"""

    def test_a_storm(self):
        folder, case = self.folder / "storm", self.folder / "case.textproto"
        case.write_text(self.STORM)
        said = self.twofold("storm", "tests/storm/ddp.textproto", f"--replay={case}", f"--out={folder}")
        replay = json.loads((folder / "replay.json").read_text())
        self.opened(folder)
        ranks = {r["number"]: r for r in self.browser.script("return twofold.views.storm.ranks")}
        self.assertEqual(sorted(ranks), [0, 1, 2, 3, 4])
        self.assertEqual([s["number"] for s in ranks[2]["steps"]], [1, 2, 3])  # then it is lost
        # a step lies between two moments at which a rank has done one more, of the same generation
        for number, rank in ranks.items():
            done = [m[2:] for m in replay["moments"] if m[:2] == ["done", number]]
            self.assertEqual([(s["generation"], s["number"], s["from"], s["to"]) for s in rank["steps"]],
                             [(g, d, t, u) for (g, c, t), (h, d, u) in zip(done, done[1:]) if g == h and d == c + 1])
        self.assertEqual(ranks[0]["steps"][-1]["number"], 8)
        self.assertGreater(len({s["generation"] for s in ranks[0]["steps"]}), 1)
        self.assertGreater(ranks[4]["begins"], ranks[2]["threw"])  # a new rank
        # what struck whom, and when: as the run itself says
        struck = [(s["rank"], s["disaster"]) for s in replay["struck"]]
        self.assertEqual(sorted(struck), [(1, 2), (2, 1), (3, 3)])
        for s in replay["struck"]:
            self.assertIn(f"rank {s['rank']} {s['text']}, after {s['seconds']:.6g} s", said)
        lasts = {s["rank"]: s["stretches"] for s in replay["struck"]}
        self.assertEqual(lasts[2], [])
        for rank, seconds in ((1, 0.001), (3, 0.25)):
            (begin, end), = lasts[rank]
            self.assertAlmostEqual(end - begin, seconds)
        # the hang lies within what rank 3 does between its fourth and its fifth step
        (begin, end), = lasts[3]
        self.assertTrue(any(s["from"] - 1e-6 <= begin and end <= s["to"] + 1e-6 for s in ranks[3]["steps"]), (begin, end, ranks[3]["steps"]))
        self.browser.script("twofold.shared.set({cursor: arguments[0]})", begin + 0.1)
        words = self.browser.wait("return document.getElementById('storm-words').textContent")
        self.assertRegex(words, r"rank 3 does step 5 of generation \d+ \(hung for 0.25 s")
        self.assertIn("rank 2 has ended with an error", words)
        cells = self.browser.script("return [...document.querySelectorAll('#storm-disasters tr')].slice(1).map((r) => [...r.cells].map((c) => c.textContent))")
        self.assertEqual([c[0] for c in cells], replay["disasters"])
        self.assertIn("rank 2 was lost before the step after 3 steps, after", cells[1][1])
        self.assertIn("not before the run ended", cells[4][1])
        # every moment is in the table; a button shows a generation alone
        self.browser.click("#storm details summary")
        rows = self.browser.wait("const t = document.querySelector('#storm details table'); return t && t.rows.length - 1")
        self.assertEqual(rows, len(replay["moments"]))
        self.browser.click("#storm-generation-0")
        first = [m[4] for m in replay["moments"] if m[0] == "done" and m[2] == 0]
        begin, end = self.browser.wait("return twofold.shared.to < twofold.shared.end && [twofold.shared.from, twofold.shared.to]")
        self.assertTrue(begin <= min(first) and max(first) <= end < 2 * max(first), (begin, end))
        x, y = self.browser.script("""const canvas = twofold.views.storm.view.canvas; canvas.scrollIntoView({block: "center"});
            const box = canvas.getBoundingClientRect(); return [box.left + box.width / 2, box.top + 40]""")
        self.browser.point(x, y)
        self.assertIn("rank 0", self.browser.wait("const tip = document.querySelector('.tip'); return tip && tip.style.display === 'block' && tip.innerText"))
        self.assertEqual(self.browser.errors(), [])

    def test_a_storm_with_checkpoints(self):
        folder = self.folder / "storm-files"
        self.twofold("storm", "tests/storm/local_files.textproto", "--replay=2", f"--out={folder}")
        replay = json.loads((folder / "replay.json").read_text())
        self.opened(folder)
        saved = self.browser.script("return twofold.views.storm.ranks.flatMap((r) => r.saved)")
        self.assertEqual(sorted(saved), sorted(m[4] for m in replay["moments"] if m[0] == "saved"))
        self.assertGreater(len(saved), 0)

    def test_a_study(self):
        folder = ROOT / "experiments/studies/scoreboard"
        rows = [r for r in json.loads((folder / "results.json").read_text())["rows"] if (r["predicted"] or 0) > 0 and (r["measured"] or 0) > 0]
        page = self.opened(folder)
        self.assertLess(page.stat().st_size, 1_000_000)
        said = lambda: self.browser.script("return document.getElementById('study-words').textContent")  # noqa: E731

        def told(chosen):
            errors = sorted(abs(r["predicted"] / r["measured"] - 1) for r in chosen)
            text = f"{len(chosen):,} of {len(rows):,} rows are shown. Absolute errors: median "
            self.assertTrue(said().startswith(text), said())
            self.assertAlmostEqual(float(said()[len(text):].split(" ")[0]) / 100, statistics.median(errors), delta=0.005 * statistics.median(errors))
        told([r for r in rows if r["unit"] == "µs"])  # most rows
        self.browser.script("const s = document.getElementById('study-unit'); s.value = 's'; s.dispatchEvent(new Event('change'))")
        told([r for r in rows if r["unit"] == "s"])
        self.browser.click("#filter-role summary")
        for role in ("development", "calibration"):
            self.browser.click(f"#filter-role input[value='{role}']")
        left = [r for r in rows if r["unit"] == "s" and r["role"] == "validation"]
        told(left)
        intervals = [r["low"] <= r["measured"] <= r["high"] for r in left if r.get("low") is not None and r.get("high") is not None]
        self.assertIn(f"Of {len(intervals):,} stated intervals", said())
        self.browser.click("#filter-role summary")
        # a dot is where its figures say, and tells the command that predicts its row
        for picture in ("predicted", "ratio"):
            self.browser.script("const s = document.getElementById('study-figure'); s.value = arguments[0]; s.dispatchEvent(new Event('change'))", picture)
            name, x, y = self.browser.script("""const view = twofold.views.study, row = d3.greatest(view.shown, (r) => r.measured);
                view.canvas.scrollIntoView({block: "center"});
                const box = view.canvas.getBoundingClientRect();
                return [row.name, box.left + view.x(row.measured), box.top + view.y(arguments[0] === "ratio" ? row.predicted / row.measured : row.predicted)]""", picture)
            self.browser.point(x, y, click=True)
            words = self.browser.wait("return document.getElementById('study-row').textContent")
            self.assertIn(f"run.py --spec={name}", words)
        self.browser.click("#study details:not(.menu) summary")
        worst = self.browser.wait("const t = document.querySelector('#study details:not(.menu) table'); return t && t.rows[1].cells[0].textContent")
        self.assertEqual(worst, max(left, key=lambda r: abs(r["predicted"] / r["measured"] - 1))["name"])
        self.assertEqual(self.browser.errors(), [])
        self.opened(ROOT / "experiments/studies/less_communication")  # any study's rows

    def test_refusals_name_the_file_and_the_place(self):
        folder = self.folder / "broken"
        folder.mkdir()
        (folder / "spec.textproto").write_text("")

        def refused(*folders):
            result = subprocess.run([PROGRAM, "report", *map(str, folders)], capture_output=True, text=True, timeout=60)
            self.assertEqual(result.returncode, 2, result.stderr)
            return result.stderr

        empty = refused(folder)
        for kind in ("`twofold run`", "plan.json", "sweep.json", "replay.json", "results.json"):
            self.assertIn(kind, empty)
        (folder / "plan.json").write_text("{")
        self.assertIn("plan.json: is not JSON", refused(folder))
        self.assertIn("a page of its own", refused(folder, folder))
        (folder / "plan.json").write_text("{}")
        self.assertIn("layouts.csv: cannot be read", refused(folder))
        head = "layout,fate,least_seconds,least_bytes,seconds,bytes\n"
        for lines, error in (("layout\n", 'line 1: a column "fate" is missing'), (head + "a,open,1,2\n", "line 2: 4 values for 6 columns"),
                             (head + "a,open,1,x,,\n", 'line 2: least_bytes: "x" is not a number')):
            (folder / "layouts.csv").write_text(lines)
            self.assertIn(error, refused(folder))
        (folder / "layouts.csv").write_text(head)
        self.assertIn("plan.json: ", refused(folder))
        (folder / "plan.json").unlink()
        (folder / "sweep.json").write_text('{"name": "a"}')
        self.assertIn("sweep.json: ", refused(folder))
        (folder / "sweep.json").unlink()
        for text, error in (("{", "replay.json: is not JSON"), ("[]", "replay.json: "), ('{"kind": "run"}', "kind: expected storm")):
            (folder / "replay.json").write_text(text)
            self.assertIn(error, refused(folder))
        self.assertIn("is a storm, which has a page of its own", refused(folder, folder))
        (folder / "replay.json").unlink()
        for text, error in (("{", "results.json: is not JSON"), ("{}", "results.json: "), ('{"rows": 3}', "rows: is not a list")):
            (folder / "results.json").write_text(text)
            self.assertIn(error, refused(folder))


if __name__ == "__main__":
    unittest.main()
