#!/usr/bin/env python3
"""`twofold report`'s page in a real browser: it opens, it can be used, and its figures are those of the files.

    tests/integration/page_test.py PATH_OF_TWOFOLD
"""
import collections
import csv
import gzip
import json
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from browser import Browser, ENTER  # noqa: E402

PROGRAM = str(pathlib.Path(sys.argv.pop()).resolve())
LARGE = """
model { preset: "llama3-405b" }
parallel { tp: 8 pp: 16 dp: 128 sharding: ZERO_1 sequence_parallel: true }
train { steps: 2 warmup_steps: 1 global_batch: 2048 micro_batch: 1 activation_checkpointing { every: 1 } }
fabric { simulated { cluster: "dgx-h100-16k" } }
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


class Page(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory()
        cls.folder = pathlib.Path(cls.scratch.name)
        cls.browser = Browser()

    @classmethod
    def tearDownClass(cls):
        cls.browser.close()
        cls.scratch.cleanup()

    def twofold(self, *words):
        result = subprocess.run([PROGRAM, *map(str, words)], cwd=ROOT, capture_output=True, text=True, timeout=120)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stdout

    def run_of(self, name, spec, fabric="simulated", *more):
        out = self.folder / f"{name}-{fabric}"
        if not out.exists():
            path = pathlib.Path(spec)
            if not spec.endswith(".textproto"):
                path = self.folder / f"{name}.textproto"
                path.write_text(spec)
            self.twofold("run", path, f"--fabric={fabric}", f"--out={out}", "--quiet", *more)
        return out

    def opened(self, *folders):
        page = self.folder / "page.html"
        self.twofold("report", *folders, f"--out={page}")
        self.browser.open(page)
        self.assertEqual(self.browser.script("return document.body.dataset.ready"), "yes", self.browser.errors())
        self.assertEqual(self.browser.errors(), [])
        self.assertEqual(self.browser.requests(), [])
        return page

    # ---- Pages of all kinds of runs ----

    def sections(self):
        return self.browser.script("return [...document.querySelectorAll('section')].map((s) => s.id)")

    def test_kinds_of_runs(self):
        for name, spec, sections in (
            ("offload", OFFLOAD, ["step", "time-line", "memory"]),
            ("experts", "examples/expert_parallel.textproto", ["step", "time-line", "memory"]),
            ("zero-bubble", "examples/zero_bubble.textproto", ["step", "pipeline", "time-line", "memory"]),
            ("context", "examples/context_parallel.textproto", ["step", "time-line", "memory"]),
            ("elastic", ELASTIC, ["step", "time-line", "memory"]),
        ):
            with self.subTest(name):
                self.opened(self.run_of(name, spec))
                self.assertEqual(self.sections(), sections)
        report = json.loads((self.folder / "elastic-simulated/report.json").read_text())
        self.assertEqual([len(g["members"]) for g in report["generations"]], [4, 3])
        self.assertEqual(self.browser.script("return [...document.querySelectorAll('.generations tr')].slice(1).map((row) => Number(row.cells[1].textContent))"), [4, 3])

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
        intervals = [r["low"] <= r["measured"] <= r["high"] for r in left if r["low"] is not None and r["high"] is not None]
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

    # ---- Figures ----

    def both(self):
        spec = "examples/hybrid.textproto"
        return [self.run_of("hybrid", spec), self.run_of("hybrid", spec, "in_memory", "--set=train.steps=4")]

    def test_memory_is_the_ledgers(self):
        folders = self.both()
        self.opened(*folders)
        for column, folder in enumerate(folders):
            with open(folder / "memory.csv", newline="") as file:
                rows = [row for row in csv.DictReader(file)]
            for rank in (0, 4):
                own = [row for row in rows if int(row["rank"]) == rank]
                self.browser.script("const s = document.getElementById('memory-rank-' + arguments[0]); s.value = arguments[1]; s.dispatchEvent(new Event('change'))", column, str(rank))
                # moments between two changes of memory; the trace begins at the page's zero
                begin = self.browser.script("const r = twofold.data.runs[arguments[0]]; return r.memory.find((m) => m.rank === arguments[1]).time[0]", column, rank) - float(own[0]["time"])
                for i in (0, len(own) // 3, len(own) // 2, len(own) - 2):
                    at = (float(own[i]["time"]) + float(own[i + 1]["time"])) / 2 + begin
                    if float(own[i + 1]["time"]) - float(own[i]["time"]) < 1e-8:
                        continue
                    shown = self.shown_memory(at, column)
                    for name, label in (("live", "live"), ("reserved", "reserved"), ("activations", "activations"), ("optimizer_state", "optimizer state")):
                        self.assertEqual(shown[label], int(own[i][name]), f"{name} of rank {rank} in {folder.name}, change {i}")
                    self.assertEqual(shown["live"], sum(v for k, v in shown.items() if k not in ("live", "reserved", "reserved, but not live")))
                peak = self.shown_memory(None, column)
                self.assertEqual(peak["live"], max(int(row["live"]) for row in own))

    def shown_memory(self, at, column):
        self.browser.script("twofold.shared.cursor = arguments[0]; twofold.views.memory.tell()", at)
        return dict(self.browser.script("""return [...document.querySelectorAll('#memory-table tr')].slice(1).map((row) =>
            [row.cells[0].textContent, Number(row.cells[1 + arguments[0]].dataset.bytes)])""", column))

    def blocks_at(self, folder, rank, sample):
        """The blocks and segments of memory_blocks.json.gz at a sample: [(owner, bytes, segment, offset)], {segment: bytes}."""
        with gzip.open(folder / "memory_blocks.json.gz", "rt") as file:
            own = next(r for r in json.load(file)["ranks"] if r["rank"] == rank)
        blocks = [(own["owners"][o], b, s, at) for o, b, s, at, first, end in zip(*(own[c] for c in ("owner", "bytes", "segment", "offset", "first", "end"))) if first <= sample < end]
        segments = {n: b for n, b, first, end in zip(*(own[c] for c in ("segment_number", "segment_bytes", "segment_first", "segment_end"))) if first <= sample < end}
        return blocks, segments

    def shown_blocks(self, column):
        """Rows of the table of who holds the memory: [(cells of names, bytes)]; the last one is the sum."""
        return [(tuple(cells), held) for cells, held in self.browser.script("""
            return [...document.querySelectorAll('#blocks-table tr')].slice(1).map((row) => {
                const figures = [...row.cells].filter((c) => c.dataset.bytes !== undefined);
                return [[...row.cells].filter((c) => c.className === "left").map((c) => c.textContent), Number(figures[arguments[0]].dataset.bytes)];
            })""", column)]

    def test_who_holds_the_memory_at_an_instant(self):
        folders = self.both()
        self.opened(*folders)
        for column, folder in enumerate(folders):
            with open(folder / "memory.csv", newline="") as file:
                own = [row for row in csv.DictReader(file) if int(row["rank"]) == 4]
            self.browser.script("const s = document.getElementById('memory-rank-' + arguments[0]); s.value = '4'; s.dispatchEvent(new Event('change'))", column)
            begin = self.browser.script("return twofold.data.runs[arguments[0]].memory.find((m) => m.rank === 4).time[0]", column) - float(own[0]["time"])
            instants = [i for i in range(0, len(own) - 1, len(own) // 9) if float(own[i + 1]["time"]) - float(own[i]["time"]) > 1e-8]
            self.assertGreater(len(instants), 2)
            for i in instants:
                live = self.shown_memory((float(own[i]["time"]) + float(own[i + 1]["time"])) / 2 + begin, column)["live"]
                self.assertEqual(live, int(own[i]["live"]))
                rows, (blocks, segments) = self.shown_blocks(column), self.blocks_at(folder, 4, i)
                self.assertEqual(rows[-1], (("live", "", "", ""), live))
                self.assertEqual(sum(held for _, held in rows[:-1]), live)
                of = collections.Counter()
                for owner, held, _, _ in blocks:
                    of[owner["module"] or "(the whole model, or none)", owner["tensor"], owner["pass"], owner["category"].replace("_", " ")] += held
                told = {names: held for names, held in rows[:-1] if "more row" not in names[0]}
                self.assertEqual(told, {names: of[names] for names in told})  # none of this run's: 0
                self.assertGreater(sum(held > 0 for held in told.values()), 10)
                pool = self.browser.script("return {...document.getElementById('pool-words-' + arguments[0]).dataset}", column)
                self.assertEqual((int(pool["segments"]), int(pool["free"])), (len(segments), sum(segments.values()) - live))
                self.assertEqual(int(pool["free"]), int(own[i]["reserved"]) - live)
        # by module, and by a part of a name
        self.browser.script("twofold.shared.cursor = null; twofold.views.memory.tell()")
        self.browser.script("const s = document.getElementById('blocks-by'); s.value = 'module'; s.dispatchEvent(new Event('change'))")
        self.assertEqual(len(self.shown_blocks(0)[0][0]), 1)
        whole = self.shown_blocks(0)[-1][1]
        self.browser.script("const f = document.getElementById('blocks-filter'); f.value = 'attention'; f.dispatchEvent(new Event('input'))")
        part = self.shown_blocks(0)[-1][1]
        self.assertTrue(0 < part < whole, (part, whole))
        self.assertTrue(all("attention" in names[0] for names, _ in self.shown_blocks(0)[:-1] if "more rows" not in names[0]))
        self.assertEqual(self.browser.errors(), [])

    def test_a_click_keeps_the_instant(self):
        self.opened(*self.both())
        said = lambda: self.browser.script("return document.getElementById('blocks-when').textContent")  # noqa: E731
        self.assertIn("at the peak", said())
        x, y = self.browser.script("""const canvas = twofold.views.memory.view.canvas; canvas.scrollIntoView({block: "center"});
            const box = canvas.getBoundingClientRect(); return [box.left + box.width / 2, box.top + 80]""")
        self.browser.point(x, y, click=True)
        at = self.browser.wait("return twofold.views.memory.kept")
        self.browser.point(5, 5)
        self.browser.wait("return twofold.shared.cursor === null")
        self.assertNotIn("at the peak", said())
        self.assertAlmostEqual(at, self.browser.script("return twofold.views.memory.kept"))
        map_at = self.browser.script("""const canvas = twofold.views.memory.blocks.maps[0].canvas; canvas.scrollIntoView({block: "center"});
            const box = canvas.getBoundingClientRect(); return [box.left + 2, box.top + 6]""")
        self.browser.point(*map_at)
        self.assertIn("segment", self.browser.wait("const tip = document.querySelector('.tip'); return tip && tip.style.display === 'block' && tip.innerText"))
        self.browser.click("#memory-peak")
        self.assertIn("at the peak", self.browser.wait("const t = document.getElementById('blocks-when').textContent; return t.includes('peak') && t"))
        self.assertEqual(self.browser.errors(), [])

    def test_a_folder_without_blocks_is_said_to_lack_them(self):
        folder = self.folder / "without-blocks"
        shutil.copytree(self.both()[0], folder, dirs_exist_ok=True)
        (folder / "memory_blocks.json.gz").unlink()
        self.opened(folder)
        self.assertIn("not recorded", self.browser.script("return document.getElementById('blocks-table').innerText + document.getElementById('pool-words-0').textContent"))
        (folder / "memory_blocks.json.gz").write_bytes(b"no gzip")
        result = subprocess.run([PROGRAM, "report", str(folder)], capture_output=True, text=True, timeout=60)
        self.assertEqual(result.returncode, 2)
        self.assertIn("memory_blocks.json.gz: ", result.stderr)

    def test_parts_add_up_to_the_step(self):
        folders = self.both()
        self.opened(*folders)
        rows = self.browser.script("""return [...document.querySelectorAll('#step-table tr:not(.inside)')].slice(1).map((row) =>
            [row.cells[0].textContent, ...[...row.cells].filter((c) => c.dataset.seconds).map((c) => Number(c.dataset.seconds))])""")
        for column, folder in enumerate(folders, 1):
            report = json.loads((folder / "report.json").read_text())
            shown = {row[0]: row[column] for row in rows}
            self.assertEqual(shown.pop("all"), report["traced_step_seconds"])
            self.assertAlmostEqual(sum(shown.values()), report["traced_step_seconds"], delta=1e-6 * report["traced_step_seconds"])
            products = sum(k["seconds"] for k in report["kernels"] if k["kernel"].startswith("matmul"))
            self.assertAlmostEqual(shown["matrix products"], products, delta=1e-9)
            self.assertEqual(shown["waiting for other ranks"], report["waiting_seconds"])
        self.browser.click("#step-table .opens")
        self.assertGreater(self.browser.script("return [...document.querySelectorAll('#step-table .inside')].filter((r) => !r.hidden).length"), 0)

    # ---- Using it ----

    def spans(self, folder, rank, name):
        events = json.loads((folder / "trace.json").read_text())["traceEvents"]
        return [e for e in events if e["ph"] == "X" and e["pid"] == rank and e["name"] == name]

    def test_zoom_search_ranks_and_theme(self):
        folders = self.both()
        self.opened(*folders)
        browser = self.browser
        stretch = lambda: browser.script("return [twofold.shared.from, twofold.shared.to]")  # noqa: E731
        begin, end = stretch()
        browser.click("#zoom-in")
        self.assertAlmostEqual(stretch()[1] - stretch()[0], (end - begin) / 2)
        browser.script("document.querySelector('#time-line canvas').focus()")
        before = stretch()
        browser.key("d")
        self.assertAlmostEqual(stretch()[0] - before[0], 0.2 * (before[1] - before[0]))
        browser.key("w")
        self.assertAlmostEqual(stretch()[1] - stretch()[0], 0.7 * (before[1] - before[0]))
        browser.key("0")
        self.assertEqual(stretch(), [begin, end])

        # search: "/" leads to it; as many as the traces of the ranks drawn have; Enter goes to the first
        browser.key("/")
        browser.type("#search", "recv")
        found = sum(len(self.spans(folder, rank, "recv")) for folder in folders for rank in (0, 4))
        self.assertEqual(browser.script("return document.getElementById('found').textContent"), f"{found} found")
        browser.type("#search", ENTER)
        self.assertEqual(browser.script("return document.getElementById('found').textContent"), f"1 of {found}")
        self.assertIn("chosen: recv", browser.wait("return document.getElementById('words').textContent"))

        # the pointer over that span tells of it
        x, y = browser.script("""const {lane, index} = twofold.shared.chosen, line = twofold.views.timeLine, box = line.view.canvas;
            box.scrollIntoView();
            const at = box.getBoundingClientRect(), row = line.lanesOf.get(lane);
            return [at.left + line.view.scale((lane.start[index] + lane.end[index]) / 2), at.top + row.y + 8 - line.frame.scrollTop]""")
        browser.point(x, y)
        told = browser.wait("const tip = document.querySelector('.tip'); return tip && tip.style.display === 'block' && tip.innerText")
        self.assertTrue(told.startswith("recv"), told)
        self.assertIn("micro-batch 0", told)
        self.assertRegex(browser.wait("return document.getElementById('words').textContent"), "rank 4, at .*: (waits|computes)")

        # a further rank adds its streams
        lanes = browser.script("return twofold.views.timeLine.rows.length")
        browser.click("#ranks-0 summary")
        browser.click("#ranks-0 input[value='2']")
        self.assertGreater(browser.script("return twofold.views.timeLine.rows.length"), lanes)
        browser.click("#ranks-0 summary")

        ground = lambda: browser.script("return getComputedStyle(document.body).backgroundColor")  # noqa: E731
        light = ground()
        browser.click("#theme")
        self.assertNotEqual(ground(), light)
        self.assertEqual(browser.errors(), [])

    def test_arrows_lead_from_sends_to_receives(self):
        self.opened(self.both()[0])
        arrows = self.browser.script("""const line = twofold.views.timeLine;
            return arrowsIn(line.lanesOf, 0, twofold.shared.end, 400).map((a) =>
                [a.from, a.to].flatMap((s) => [s.lane.rank, s.lane.run.names[s.lane.name[s.index]], s.lane.run.labels[s.lane.label[s.index]]]).concat(a.start, a.end))""")
        messages = [a for a in arrows if a[1] == "send"]
        sends = self.spans(self.both()[0], 0, "send") + self.spans(self.both()[0], 4, "send")
        self.assertEqual(len(messages), len(sends))
        for from_rank, _, from_label, to_rank, to_name, to_label, start, end in messages:
            self.assertEqual((to_name, to_label), ("recv", from_label))
            self.assertEqual((from_rank, to_rank), (0, 4) if from_label.startswith("F") else (4, 0))
            self.assertLess(start, end)

    def test_the_critical_path_leads_through_the_step(self):
        self.opened(*self.both())
        self.browser.click("#critical")
        predicted = """const run = twofold.data.runs[0], path = twofold.views.timeLine.paths[0];"""
        spans = self.browser.script(predicted + """
            return path.spans.map(({lane, index}) => [lane.rank, lane.stream, run.names[lane.name[index]], lane.start[index], lane.end[index]])""")
        end = self.browser.script("return twofold.data.runs[0].lanes.map((l) => l.end[l.count - 1]).reduce((a, b) => Math.max(a, b))")
        self.assertAlmostEqual(spans[-1][4], end, delta=1e-8)
        self.assertLess(spans[0][3], 0.02 * end)
        for before, after in zip(spans, spans[1:]):
            self.assertLessEqual(before[3], after[4])
        self.assertEqual({span[0] // 4 for span in spans}, {0, 1})  # both stages
        shares = dict(self.browser.script(predicted + "return [...path.shares()]"))
        self.assertAlmostEqual(sum(shares.values()), end, delta=1e-8)
        self.assertGreater(shares["product"], 0.4 * end)
        self.assertLess(shares.get("nobody", 0), 0.05 * end)  # simulated ranks do nothing that is not traced
        self.assertIn("matrix products", self.browser.script("return document.getElementById('path-words').textContent"))
        self.assertEqual(self.browser.errors(), [])

    def test_a_page_says_what_it_cannot_read(self):
        page = self.opened(self.both()[0])
        text = page.read_text()
        at = text.index('id="data">') + len('id="data">')
        page.write_text(text[:at] + "AAAA" + text[at + 4:])
        self.browser.open(page)
        self.assertIn("cannot be shown", self.browser.script("return document.getElementById('failed').innerText"))
        self.assertIn("time of a step", self.browser.script("return document.body.innerText"))  # tables stay
        self.browser.errors()


if __name__ == "__main__":
    unittest.main()
