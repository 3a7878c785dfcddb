#!/usr/bin/env python3
"""experiments/studies/scoreboard: what it computes, that a row's id leads to its command, what it refuses, and that pages have its summary."""
import contextlib
import io
import json
import math
import pathlib
import re
import subprocess
import sys
import types
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
STUDIES = ROOT / "experiments/studies"
SCOREBOARD = STUDIES / "scoreboard"
sys.path[:0] = [str(STUDIES), str(SCOREBOARD)]
import lines  # noqa: E402
import page  # noqa: E402
import picture  # noqa: E402
import score  # noqa: E402
from common import short_steps  # noqa: E402
from common.published import Prediction, Row, STEP, load, word  # noqa: E402


def entry(name, measured, predicted, **more):
    prediction = {key: more.pop(key) for key in ("low", "high", "fits") if key in more}
    return Row(name, more.pop("table", "a table"), "validation", STEP, "a system", 8, measured, "s", **more), Prediction(predicted, **prediction)


class Scores(unittest.TestCase):
    def test_errors_are_signed_where_they_say_so(self):
        found = score.errors([entry("a", 10, 9), entry("b", 10, 8), entry("c", 10, 11), entry("d", None, 5)])
        self.assertEqual(found["rows"], 3)
        for key, value in (("median", 0.1), ("p90", 0.18), ("bias", -0.1), ("worst", -0.2)):
            self.assertAlmostEqual(found[key], value, msg=key)
        self.assertIsNone(score.errors([entry("d", None, 5)]))

    def test_coverage_tells_below_from_above(self):
        inside, below, above = ({"low": 9, "high": 11, **of} for of in ({}, {}, {}))
        found = score.coverage([entry("a", 11, 10, **inside), entry("b", 8, 10, **below), entry("c", 12, 10, **above), entry("d", 8.9, 10, **below), entry("e", 1, 2)])
        self.assertEqual((found["rows"], found["inside"], found["below"], found["above"]), (4, 0.25, 0.5, 0.25))
        self.assertAlmostEqual(found["width"], 0.1)
        self.assertAlmostEqual(found["needed"], 0.2)
        self.assertIsNone(score.coverage([entry("e", 1, 2)]))

    def test_equal_values_share_their_ranks(self):
        self.assertEqual(score.ranks([5, 1, 5, 7]), [2.5, 1, 2.5, 4])
        self.assertAlmostEqual(score.spearman([1, 2, 3], [10, 20, 90]), 1)
        self.assertAlmostEqual(score.spearman([1, 2, 3], [3, 2, 1]), -1)
        self.assertAlmostEqual(score.spearman([1, 2, 3, 4, 5], [2, 1, 4, 3, 5]), 0.8)
        self.assertIsNone(score.spearman([1, 1, 1], [1, 2, 3]))

    def test_regret_is_what_the_chosen_layout_takes_more(self):
        three = [entry("a", 10, 5, family="f"), entry("b", 8, 7, family="f"), entry("c", 12, 6, family="f")]
        two = [entry("d", 1, 1, family="g"), entry("e", 2, 2, family="g")]
        (family, table, rows, correlation, regret, chosen, best), = score.families(three + two)
        self.assertEqual((family, table, rows, chosen, best), ("f", "a table", 3, "a", "b"))
        self.assertAlmostEqual(correlation, -0.5)
        self.assertAlmostEqual(regret, 0.25)

    def test_jobs_that_a_table_has_twice(self):
        (rows, apart), = score.repeats([entry("a", 10, 5), entry("b", 12, 5), entry("c", 9, 6), entry("d", 20, 5, table="another table")])
        self.assertEqual([row.id for row in rows], ["a", "b"])
        self.assertAlmostEqual(apart, 0.2)

    def test_verdicts(self):
        found = score.verdicts([entry("a", 1, 1, fitted=True, fits=True), entry("b", 1, 1, fitted=True, fits=False), entry("c", None, 1, fitted=False, fits=False),
                                entry("d", None, 1, fitted=False, fits=True), entry("e", 1, 1)])
        self.assertEqual(found, {"rows": 4, "out": 2, "found": 1, "missed": ["d"], "false": ["b"]})


class ShortSteps(unittest.TestCase):
    def settings(self, batch, stages, chunks=1):
        return {"train.micro_batch": 2, "train.global_batch": batch, "parallel.dp": 4, "parallel.pp": stages, "parallel.virtual_stages": chunks}

    def test_two_steps_are_fewer_micro_batches_than_all_or_none_are_left_out(self):
        self.assertEqual(short_steps.fewer(self.settings(8 * 64, 8)), (64, (9, 11)))
        self.assertEqual(short_steps.fewer(self.settings(8 * 20, 8)), (20, None))
        self.assertEqual(short_steps.fewer(self.settings(8 * 64, 8, 3)), (64, (16, 24)))

    def test_a_straight_line_is_followed(self):
        class Program:
            def job(self, _, settings, **how):
                count = settings["train.global_batch"] // 8
                report = {"median_step_seconds": 3 + 2 * count, "low": count, "high": 9 * count, "count": count, "steps": settings["train.steps"]}
                return report, types.SimpleNamespace(core_seconds=count / 10, peak_bytes=count)

        step = short_steps.short_step(Program(), "spec", self.settings(8 * 64, 8))
        self.assertEqual((step.seconds, step.report["count"], step.report["steps"]), (131, 11, 1))
        self.assertEqual((step.core_seconds, step.peak_bytes), (2, 11))
        self.assertEqual(short_steps.short_step(Program(), "spec", self.settings(8 * 20, 8)).report["count"], 20)

    def test_the_interval_has_the_errors_of_computing_and_of_links(self):
        def report(count):  # each micro-batch computes a second, off by a tenth; a step waits 6 s for links, off by 0.4 of them above and 0.2 below, and 2 s in a bubble
            seconds = count + 8
            off = lambda links: math.hypot(0.1 * (count + 2), links * 6)
            return {"median_step_seconds": seconds, "exposed_communication_seconds": 8, "bubble_fraction": 2 / seconds, "low": seconds - off(0.2), "high": seconds + off(0.4)}

        class Program:
            def job(self, _, settings, **how):
                return report(settings["train.global_batch"] // 8), types.SimpleNamespace(core_seconds=1, peak_bytes=1)

        step, whole = short_steps.short_step(Program(), "spec", self.settings(8 * 64, 8)), report(64)
        self.assertAlmostEqual(step.seconds, 72)
        self.assertAlmostEqual(step.low, whole["low"])
        self.assertAlmostEqual(step.high, whole["high"])

    def test_where_nothing_tells_both_errors_apart_the_longer_steps_share_counts(self):
        class Program:
            def job(self, _, settings, **how):
                count = settings["train.global_batch"] // 8
                return {"median_step_seconds": count, "low": 0.9 * count, "high": 1.2 * count}, types.SimpleNamespace(core_seconds=1, peak_bytes=1)

        step = short_steps.short_step(Program(), "spec", self.settings(8 * 64, 8))
        self.assertAlmostEqual(step.low, 0.9 * 64)
        self.assertAlmostEqual(step.high, 1.2 * 64)


class Rows(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.jobs = [job for name in ("published_runs", "other_frameworks", "collective_sweeps", "memory_tables", "activation_memory") for job in load(name).jobs()]
        cls.rows = [row for job in cls.jobs for row in job.rows]

    def test_ids_are_unique_words(self):
        ids = [row.id for row in self.rows]
        self.assertEqual(len(ids), len(set(ids)))
        self.assertGreater(len(ids), 5000)
        for name in ids:
            self.assertRegex(name, r"^[A-Za-z0-9._+/-]+$")
        self.assertEqual(word("a, b", "1.5B (x)"), "a-b/1.5B-x")

    def test_a_study_has_its_own_neighbours(self):
        sys.modules["run"] = other = types.ModuleType("run")
        try:
            first, second = load("published_runs"), load("memory_tables")
            self.assertEqual((first.run.study.name, second.run.study.name), ("published_runs", "memory_tables"))
            self.assertIs(sys.modules["run"], other)
        finally:
            del sys.modules["run"]

    def test_rows_say_what_scores_need(self):
        for row in self.rows:
            self.assertIn(row.role, score.ROLES, row.id)
            self.assertIn(row.unit, picture.UNITS, row.id)
            self.assertTrue(row.measured or row.fitted is not None, row.id)

    def test_every_training_row_of_the_tables_is_there(self):
        have = {row.id for row in self.rows}
        for study, table in (("published_runs", "multi_node"), ("published_runs", "sc21"), ("published_runs", "table5"), ("other_frameworks", "mosaic_h100"),
                             ("other_frameworks", "fms"), ("other_frameworks", "vldb23"), ("other_frameworks", "lumi_time")):
            text = (STUDIES / study / f"{table}.csv").read_text()
            for name in re.findall(r"^((?!#|row_id)[^,\n]+),", text, re.M):
                self.assertIn(name, have)


class CommandLine(unittest.TestCase):
    def call(self, *arguments):
        return subprocess.run([sys.executable, "-B", SCOREBOARD / "run.py", *arguments, "/bin/true"], capture_output=True, text=True, timeout=60)

    def test_an_id_leads_to_the_row_and_its_command(self):
        done = self.call("--spec=prequel_16")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("measured: 130.43 s", done.stdout)
        self.assertIn("run experiments/studies/other_frameworks/bigscience.textproto", done.stdout)
        self.assertIn("--set=train.global_batch=512", done.stdout)
        done = self.call("--spec=a100/8x1/all_reduce/1048576")
        self.assertIn("bench all_reduce", done.stdout)
        self.assertIn("-b", done.stdout)

    def test_what_it_does_not_know_is_refused(self):
        for arguments, message in ((["--spec=multi_9999"], "--spec=multi_9999: no row has this id; do you mean multi_"),
                                   (["--only=no such row"], "--only=no such row: no row has this in its id or table; the tables are: "),
                                   (["--only=a", "--write"], "--only and --write do not go together")):
            done = self.call(*arguments)
            self.assertEqual(done.returncode, 2, arguments)
            self.assertIn(message, done.stderr)


class Pages(unittest.TestCase):
    def entries(self):
        return [entry("a", 10, 9, low=8, high=10.5), entry("b", 100, 130, low=120, high=140)]

    def test_a_dot_stands_where_its_row_is(self):
        (first, second), svg = picture.dots(self.entries()), picture.draw(picture.dots(self.entries()))
        self.assertLess(first.x, second.x)
        self.assertGreater(first.y, second.y)  # down is less
        left, bottom = picture.left_of(STEP), picture.TOP + picture.HIGH
        self.assertLess(bottom - first.y, first.x - left)  # predicted too low: below the diagonal
        self.assertGreater(bottom - second.y, second.x - left)
        self.assertGreater(first.y_ratio, picture.ratio_y(1))
        self.assertLess(second.y_ratio, picture.ratio_y(1))
        self.assertIn(f"M{first.x} {first.y}h0M{second.x} {second.y}h0", svg)

    def test_the_page_has_a_row_behind_every_dot(self):
        dots = picture.dots(self.entries())
        text = page.html(["A `word` and [a link](b.md)", "", "| h |", "|---|", "| c |", "", "![x](scatter.svg)"], picture.draw(dots), dots)
        self.assertIn('<p>A <code>word</code> and <a href="b.md">a link</a></p>', text)
        self.assertIn("<tr><td>c</td></tr>", text)
        self.assertIn(f'["b",0,100.0,130.0,120.0,140.0,{dots[1].x},{dots[1].y},{dots[1].y_ratio}]', text)

    def test_pages_have_the_summary_of_the_table(self):
        table = (SCOREBOARD / "table.md").read_text()
        for name in ("README.md", "docs/accuracy.md"):
            _, begin, rest = (ROOT / name).read_text().partition(lines.BEGIN + "\n")
            block, end, _ = rest.partition("\n" + lines.END)
            self.assertTrue(begin and end, name)
            for line in block.splitlines():
                self.assertIn(line, table, name)

    def test_only_what_is_between_the_marks_changes(self):
        path = types.SimpleNamespace(read_text=lambda: f"before\n{lines.BEGIN}\nold\n{lines.END}\nafter\n", write_text=lambda text: written.append(text))
        written = []
        lines.insert(path, ["new", "lines"])
        self.assertEqual(written, [f"before\n{lines.BEGIN}\nnew\nlines\n{lines.END}\nafter\n"])
        path.read_text = lambda: "no marks"
        with self.assertRaises(SystemExit), contextlib.redirect_stderr(io.StringIO()):
            lines.insert(path, ["new"])

    def test_results_hold_every_dot(self):
        results = {row["name"]: row for row in json.loads((SCOREBOARD / "results.json").read_text())["rows"]}
        text = (SCOREBOARD / "page.html").read_text()
        points = re.findall(r'^(?:.*DOTS = )?\[?\["([^"]+)",\d+,', text.partition("DOTS = ")[2], re.M)
        self.assertGreater(len(points), 3000)
        self.assertEqual([name for name in points if results[name]["error"] is None], [])


if __name__ == "__main__":
    unittest.main()
