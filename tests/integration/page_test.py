#!/usr/bin/env python3
"""`twofold report`'s page of runs in a real browser: it can be used, and its figures are those of the files.

    tests/integration/page_test.py PATH_OF_TWOFOLD
"""
import collections
import csv
import gzip
import json
import pathlib
import shutil
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from browser import ENTER  # noqa: E402
from page_case import PROGRAM, PageCase  # noqa: E402

GPUS = """
model { preset: "gpt2-124m" }
parallel { dp: 8 }
train { steps: 3 warmup_steps: 1 global_batch: 64 precision { parameter: BF16 } }
fabric { simulated { cluster: "dgx-h100" } }
"""


class Page(PageCase):
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

    def test_a_damaged_order_of_axes_is_refused(self):  # found by FoldersFuzz
        folder = self.folder / "bad-order"
        shutil.copytree(self.both()[0], folder, dirs_exist_ok=True)
        spec = folder / "spec.textproto"
        spec.write_text(spec.read_text().replace('order: "pp dp cp tp"', 'order: "ppp dp cp tp"'))
        result = subprocess.run([PROGRAM, "report", str(folder)], capture_output=True, text=True, timeout=60)
        self.assertEqual(result.returncode, 2, result.stderr)
        self.assertIn('spec.textproto: parallel.order: must list pp, dp, cp and tp once each', result.stderr)

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

    def test_loads_of_links_are_the_files(self):
        folder = self.both()[0]
        with open(folder / "links.csv", newline="") as file:
            flows = list(csv.DictReader(file))
        with open(folder / "link_loads.csv", newline="") as file:
            bins = list(csv.DictReader(file))
        moved, over = collections.Counter(), collections.Counter()
        for row in bins:
            moved[row["link"]] += float(row["bytes"])
            self.assertLessEqual(float(row["load"]), 1 + 1e-9)
        for row in flows:
            over[row["link"]] += float(row["bytes"])
        self.assertEqual(set(moved), set(over))
        for link in moved:  # what crossed it when, and what crossed it of which operation
            self.assertAlmostEqual(over[link] / moved[link], 1, delta=1e-9)
        self.opened(folder)
        cells = self.browser.script("return [...document.querySelectorAll('#link-table tr')].slice(1).map((r) => [r.cells[0].textContent, Number(r.cells[4].dataset.bytes)])")
        self.assertEqual(len(cells), min(10, len(moved)))
        for link, total in cells:
            self.assertAlmostEqual(total / moved[link], 1, delta=1e-12)
        # the second row by a click into the picture, the first by its button
        x, y, link = self.browser.script("""const view = twofold.views.network, at = view.places[1];
            view.view.canvas.scrollIntoView({block: "center"});
            const box = view.view.canvas.getBoundingClientRect(); return [box.left + box.width / 2, box.top + at.y + 8, at.row.link]""")
        self.browser.point(x, y)
        self.assertIn(" of its ", self.browser.wait("const tip = document.querySelector('.tip'); return tip && tip.style.display === 'block' && tip.innerText"))
        self.browser.point(x, y, click=True)
        told = lambda: self.browser.script("return [...document.querySelectorAll('#link-flows tr')].map((r) => [r.cells[0].textContent, r.cells[2].dataset.bytes])")  # noqa: E731
        self.assertEqual(self.browser.wait("return document.getElementById('link-flows').rows[0].cells[0].textContent"), f"over {link}")
        self.browser.script("document.querySelector('#link-table button').click()")
        first = cells[0][0]
        own = [row for row in flows if row["link"] == first]
        self.assertEqual(told(), [[f"over {first}", None]] + [[f"{row['operation']} on {row['group']}" if row["operation"] else "what had begun before the traced steps", str(float(row["bytes"])).removesuffix(".0")] for row in own])
        self.assertEqual(self.browser.errors(), [])

    def test_the_networks_picture_has_what_links_carry(self):
        folder = self.run_of("hybrid", "examples/hybrid.textproto")
        with open(folder / "links.csv", newline="") as file:
            flows = list(csv.DictReader(file))
        with open(folder / "link_loads.csv", newline="") as file:
            bins = list(csv.DictReader(file))
        of_kind = collections.Counter()  # bytes, of all links
        for row in flows:
            of_kind[row["kind"]] += int(row["links"]) * float(row["bytes"])
        self.opened(folder)
        self.browser.script("document.getElementById('network-picture').scrollIntoView({block: 'center'})")
        details = self.browser.script("return [...document.getElementById('network-detail').options].map((o) => o.textContent)")
        self.assertTrue(details[0].startswith("levels"), details)
        self.assertGreater(len(details), 1)
        self.browser.click("#network-links summary")
        choose = "const s = document.getElementById('network-detail'); s.value = arguments[0]; s.dispatchEvent(new Event('change'))"
        cells = """return [...document.querySelectorAll('#network-links tr')].slice(1).map((r) =>
            [r.cells[0].textContent, r.cells[1].textContent, Number(r.cells[2].dataset.links), Number(r.cells[4].dataset.bytes), Number(r.cells[5].dataset.load), Number(r.cells[6].dataset.load)])"""
        sums = []
        for number in range(len(details)):
            self.browser.script(choose, number)
            rows = self.browser.wait(cells)
            sums.append((sum(r[2] for r in rows), sum(r[3] for r in rows)))
        for links, moved in sums:  # all levels of detail draw all links and bytes
            self.assertEqual(links, sums[0][0])
            self.assertAlmostEqual(moved / sum(of_kind.values()), 1, delta=1e-6)
        self.browser.script(choose, 0)
        kinds = self.browser.script("const p = twofold.views.network.picture.picture; return p.edges.map((e) => `${p.cells[e.from].kind} to ${p.cells[e.to].kind}`)")
        drawn = {kind: row[3] for kind, row in zip(kinds, self.browser.wait(cells), strict=True) if row[3] > 0}
        self.assertEqual(set(drawn), set(of_kind))
        for kind, moved in drawn.items():
            self.assertAlmostEqual(moved / of_kind[kind], 1, delta=1e-6, msg=kind)
        # at a moment, the busiest links of the table carry what link_loads.csv says of that bin
        busiest = max(bins, key=lambda row: float(row["load"]))
        same = [float(row["load"]) for row in bins if row["start"] == busiest["start"]]
        middle = self.browser.script("const l = twofold.data.runs[0].links, k = arguments[0]; return l.begin + (k + 0.5) * l.width",
                                     round((float(busiest["start"]) - min(float(row["start"]) for row in bins)) / float(busiest["seconds"])))
        self.browser.script("twofold.shared.set({cursor: arguments[0]})", middle)
        self.assertTrue(self.browser.wait("return document.getElementById('network-words').textContent.startsWith('At ')"))
        self.assertAlmostEqual(max(row[5] for row in self.browser.wait(cells)), max(same), delta=1e-6)
        # a click on `mean` leaves the moment; the tooltip of a line tells its load both ways
        self.browser.click("#network-mean")
        self.assertTrue(self.browser.wait("return document.getElementById('network-words').textContent.startsWith('Mean ')"))
        x, y = self.browser.script("""const picture = twofold.views.network.picture, wire = picture.wires.find((w) => w.a !== w.b);
            picture.canvas.scrollIntoView({block: "center"});
            const box = picture.canvas.getBoundingClientRect(); return [box.left + (wire.a.x + wire.b.x) / 2, box.top + (wire.a.y + wire.b.y) / 2]""")
        self.browser.point(x, y)
        self.assertIn(" in use", self.browser.wait("const tip = document.querySelector('.tip'); return tip && tip.style.display === 'block' && tip.innerText"))
        self.assertEqual(self.browser.script("return [5e-9, 0.00009, 0.5, 0].map(shareText)"), ["< 0.01 %", "< 0.01 %", "50.0 %", "0.00 %"])
        self.assertEqual(self.browser.errors(), [])

    def test_loads_of_links_do_not_depend_on_folding_or_solver(self):
        def moved(name, *sets):
            spec = "examples/hybrid.textproto"
            with open(self.run_of(name, spec, "simulated", *sets) / "links.csv", newline="") as file:
                rows = list(csv.DictReader(file))
            sums = collections.Counter()
            for row in rows:
                sums[row["kind"], row["operation"], row["group"]] += int(row["links"]) * float(row["bytes"])
            return sums
        folded = moved("hybrid")
        self.assertGreater(len(folded), 3)
        for name, sets in (("unfolded", ["--set=fabric.simulated.folding=OFF"]), ("flow-by-flow", ["--set=fabric.simulated.solver=SIMGRID", "--set=fabric.simulated.folding=OFF"])):
            other = moved(name, *sets)
            self.assertEqual(set(folded), set(other), name)
            for of, total in folded.items():
                self.assertAlmostEqual(other[of] / total, 1, delta=1e-6, msg=f"{of} {name}")

    def test_kernels_have_shapes(self):
        folders = self.both()
        self.opened(*folders)
        for column, folder in enumerate(folders):
            events = json.loads((folder / "trace.json").read_text())["traceEvents"]
            kernels = [e for e in events if e["ph"] == "X" and e["name"].startswith("matmul") and e["pid"] == 0]
            self.assertTrue(kernels)
            shapes = collections.Counter(e["args"]["shape"] for e in kernels)
            self.assertTrue(all(len(shape.split(",")[0].split(" x ")) == 3 for shape in shapes), shapes)
            shown = self.browser.script("""const run = twofold.data.runs[arguments[0]], lane = run.lanes.find((l) => l.rank === 0 && l.stream === "compute");
                return [...lane.name].flatMap((name, i) => run.names[name].startsWith("matmul") ? [describe({lane, index: i})] : [])""", column)
            self.assertEqual(collections.Counter(line for lines in shown for line in lines if " x " in line), shapes)

    def test_kernels_say_where_their_times_come_from(self):
        folders = [*self.both(), self.run_of("gpus", GPUS)]
        self.opened(*folders)
        self.browser.script("for (const button of document.querySelectorAll('#step-table .opens')) button.click()")
        kernel, shown, words = None, {}, {}
        for shape, hidden, title, cells in self.browser.script("""return [...document.querySelectorAll('#step-table tr.inside')].map((row) =>
                [row.classList.contains("shape"), row.hidden, row.cells[0].textContent, [...row.cells].slice(1).map((c) => [c.innerText, {...c.dataset}])])"""):
            self.assertFalse(hidden)
            kernel, of = (kernel, title.split(":")[0]) if shape else (title.split(",")[0], None)
            for column, (text, data) in enumerate(cells):
                if data:
                    shown[column, kernel, of], words[column, kernel, of] = data, text
        sources = collections.Counter()
        for column, folder in enumerate(folders):
            report = json.loads((folder / "report.json").read_text())
            for k in report["kernels"]:
                of = shown.pop((column, k["kernel"], None))
                self.assertEqual(float(of["seconds"]), k["seconds"])
                if k["shapes"]:
                    self.assertEqual(set(of["sources"].split()), {s["source"] for s in k["shapes"]})
                    self.assertAlmostEqual(sum(s["seconds"] for s in k["shapes"]), k["seconds"], delta=1e-12)
                    self.assertEqual(round(sum(s["count"] for s in k["shapes"])), k["count"])
                    for end in ("low", "high"):
                        self.assertAlmostEqual(float(of[end]), sum(s[end] for s in k["shapes"]), delta=1e-12)
                for s in k["shapes"]:
                    of, text = shown.pop((column, k["kernel"], s["shape"])), words[column, k["kernel"], s["shape"]]
                    self.assertEqual({name: float(of[name]) for name in ("seconds", "low", "high", "count", "flops", "bytes")}, {name: s[name] for name in ("seconds", "low", "high", "count", "flops", "bytes")})
                    self.assertEqual(of["sources"], s["source"])
                    sources[column, s["source"]] += 1
                    self.assertLessEqual(s["low"], s["high"])
                    self.assertIn("GB/s" if s["flops"] == 0 else "TFLOP/s", text)
                    if report["predicted"]:
                        self.assertTrue(s["low"] <= s["seconds"] <= s["high"], s)
                    if s["source"] == "DATA_SHEET":
                        self.assertIn(f" · data sheet · ±{30 if column == 0 else 20} %", text)
        self.assertEqual({of: data for of, data in shown.items() if "on" not in of[1].split()}, {}, "what the reports do not say")  # but "all_reduce on dp"
        self.assertEqual({column: {s for c, s in sources if c == column} for column in range(3)}, {0: {"DATA_SHEET"}, 1: {"MEASURED"}, 2: {"DATA_SHEET", "LAW", "EXTRAPOLATED"}})
        legend = self.browser.script("const s = document.getElementById('step-sources'); return s.hidden ? [] : [...s.querySelectorAll('dt')].map((t) => t.textContent)")
        self.assertEqual(legend, ["measured", "law", "data sheet", "extrapolated"])
        x, y = self.browser.script("""const cell = [...document.querySelectorAll('#step-table tr.shape td')].find((c) => c.dataset.sources === "LAW"); cell.scrollIntoView({block: "center"});
            const box = cell.getBoundingClientRect(); return [box.left + box.width / 2, box.top + box.height / 2]""")
        self.browser.point(x, y)
        self.assertIn("law: a law whose constants", self.browser.wait("const tip = document.querySelector('.tip'); return tip && tip.style.display === 'block' && tip.innerText"))
        self.assertEqual(self.browser.script("""return [{low: 7, high: 13}, {low: 9.59, high: 11.2}, {low: 4, high: 9}, {low: 10, high: 10}].map((of) => intervalText({seconds: 10, ...of}))"""),
                         ["±30 %", "−4.1 % to +12 %", "−60 % to −10 %", ""])
        self.assertEqual(self.browser.errors(), [])

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
