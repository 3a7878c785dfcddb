#!/usr/bin/env python3
"""Constants that have not seen a system: their search, the files that are written of them, and how the scoreboard compares them."""
import collections
import contextlib
import io
import math
import pathlib
import sys
import types
import unittest
import unittest.mock

ROOT = pathlib.Path(__file__).resolve().parents[2]
STUDIES = ROOT / "experiments/studies"
sys.path[:0] = [str(STUDIES), str(STUDIES / "scoreboard")]
import lines  # noqa: E402
import picture  # noqa: E402
import score  # noqa: E402
from common import read_csv  # noqa: E402
from common.published import Prediction, Row, STEP, Unseen, load, once_more  # noqa: E402

leave_out = load("published_runs", "leave_out")
calibrate = leave_out.calibrate
composed = calibrate.run.composed
UNSEEN = Unseen("a constant", "a system", "a guess")


def pair(name, measured, predicted, without, **interval):
    row = Row(name, "a table", "calibration", STEP, "a system", 8, measured, "s", "a family", True)
    return [(row, Prediction(predicted, **interval)), (once_more(row, UNSEEN), Prediction(without, **interval))]


class Straight(calibrate.Objective):
    """Rows whose times are a^power1 b^power2, as measured with a = 2 and b = 3; `without` leaves the last rows out. No program runs."""
    POWERS, TRUE = ((1, 0), (1, 0.5), (0.5, 0.5), (0, 1), (0.2, 1)), (2, 3)

    def __init__(self, count, spoilt=0.0):
        table = [{"name": "a", "prior": "1.6", "sigma": "0.5"}, {"name": "b", "prior": "3.6", "sigma": "0.5"}]
        super().__init__(None, table, {}, None)
        self.count, self.spoilt, self.runs = count, spoilt, 0

    def errors(self, point):
        self.runs += 1
        c = self.constants(point)
        found = [sum(p * math.log(c[name] / true) for p, name, true in zip(powers, "ab", self.TRUE)) for powers in self.POWERS]
        found[-1] += self.spoilt
        return found[:self.count]


class Search(unittest.TestCase):
    def search(self, objective):
        with contextlib.redirect_stderr(io.StringIO()):
            return calibrate.search(objective, {"a": 1.6, "b": 3.6}, 30)

    def test_it_finds_the_constants_and_moves_each_of_them_seldom(self):
        objective = Straight(5)
        _, found, _ = self.search(objective)
        self.assertAlmostEqual(found["a"], 2, delta=0.06)
        self.assertAlmostEqual(found["b"], 3, delta=0.1)
        self.assertLess(objective.runs, 25)

    def test_rows_that_are_left_out_do_not_count(self):
        without, other = self.search(Straight(4))[1], self.search(Straight(4, spoilt=5.0))[1]
        self.assertEqual(without, other)
        self.assertNotAlmostEqual(self.search(Straight(5, spoilt=5.0))[1]["b"], without["b"], delta=0.01)

    def test_errors_are_of_the_rows_that_take_part(self):
        def predict(_, case):
            case["predicted"] = float(case["layers"] * case["global_batch"])

        with unittest.mock.patch.object(calibrate.run, "predict", predict):
            both, selene, vtrain = (set(calibrate.errors(None, {}, without)) for without in ("", "vTrain", "Selene"))
        self.assertEqual((len(both), len(selene), len(vtrain)), (30, 5, 25))
        self.assertEqual({name for name in both if name.startswith("table 4")}, selene)
        self.assertEqual(both - selene, vtrain)

    def test_slopes_are_corrected_to_what_was_seen(self):
        slopes = [[1.0, 0.0], [0.0, 1.0]]  # of two errors by two constants
        step, change = [0.1, 0.2], [0.5, 0.2]
        found = calibrate.corrected(slopes, step, change)
        self.assertTrue(all(math.isclose(sum(slope[i] * by for slope, by in zip(found, step)), change[i]) for i in range(2)))
        self.assertEqual([slope[1] for slope in found], [0.0, 1.0])


class PutTogether(unittest.TestCase):
    """Rows of single_node.csv, which a program added up from profiles of single layers."""
    CASE = {"table": "single_node", "layers": 12, "hidden": 1024, "sequence": 1024, "vocab": 50257, "tp": 1, "pp": 1, "dp": 1, "micro_batch": 4, "global_batch": 16}
    PROFILE = composed.Profile(layer=1000, embedding=100, head=300, update_layer=10, update_embedding=50, core_seconds=1, peak_bytes=2)

    def test_their_times_are_a_straight_line_over_layers(self):
        times = collections.defaultdict(dict)
        for case in calibrate.run.cases():
            if case["table"] == "single_node" and case["dp"] == 1:
                times[tuple(case[key] for key in ("hidden", "tp", "pp", "micro_batch", "global_batch"))][case["layers"]] = case["measured"]
        self.assertEqual(len(times), 8 * 8)  # of eight meshes, two hidden sizes and four micro-batches
        for key, seconds in times.items():
            for layers in (16, 20):
                line = seconds[12] + (seconds[24] - seconds[12]) * (layers - 12) / 12
                self.assertAlmostEqual(seconds[layers] / line, 1, delta=2e-6, msg=key)

    def test_messages_between_stages_take_what_the_program_counts(self):
        times = {}
        for case in calibrate.run.cases():
            if case["table"] == "single_node" and case["dp"] == 1 and case["tp"] == 2 and case["layers"] == 12:
                times.setdefault((case["hidden"], case["micro_batch"]), {})[case["pp"]] = case
        self.assertEqual(len(times), 8)
        line = {key: {} for key in times}
        for case in calibrate.run.cases():
            if case["table"] == "single_node" and case["dp"] == 1 and case["tp"] == 2 and case["layers"] in (12, 24):
                line[case["hidden"], case["micro_batch"]][case["pp"], case["layers"]] = case["measured"]
        for key, cases in times.items():
            without_layers = {pp: 2 * line[key][pp, 12] - line[key][pp, 24] for pp in (2, 4)}  # at no layers; what remains differs by four messages
            self.assertAlmostEqual(without_layers[4] - without_layers[2], 4 * composed.message_us(cases[2]) * 1e-6, delta=4e-9, msg=key)

    def added_up(self, **changes):
        case = {**self.CASE, **changes}
        cluster = unittest.mock.Mock(read_text=lambda: "a device\nmachines { links }")
        with unittest.mock.patch.object(composed, "profile", lambda *_: self.PROFILE), unittest.mock.patch.object(
                composed, "all_reduce_us", lambda _, links, size, ranks: (links, size, ranks) == ("machines { links }", self.sum_of, case["dp"]) and 7000):
            return composed.predict(None, "spec", {"fabric.simulated.cluster": cluster}, case)[0] * 1e6

    def test_they_are_added_up_as_that_program_does(self):
        updates = 12 * 10 + 50
        self.assertAlmostEqual(self.added_up(), 4 * (12 * 1000 + 300 + 100) + updates)
        message = 2 * 2 * 4 * 1024 * 1024 / (800 * 2**30 / 32) * 1e6
        self.assertAlmostEqual(self.added_up(pp=2), 5 * 6 * 1000 + 4 * 300 + 100 + 2 * message + 6 * 10 + 50)
        self.sum_of = 2 * (12 * 12 * 1024**2 + (50257 + 1024) * 1024)
        self.assertAlmostEqual(self.added_up(dp=2, global_batch=32), 4 * (12 * 1000 + 300 + 100) + updates + 7000)
        self.sum_of = 2 * (12 * 12 * 2048**2 + (50257 + 1024) * 2048)  # 1.32 GiB
        self.assertAlmostEqual(self.added_up(dp=4, hidden=2048, global_batch=64), 4 * (12 * 1000 + 300 + 100) + updates + 7000 / 1.5)

    def test_their_interval_is_a_steps_as_a_share(self):
        published = load("published_runs")
        step = types.SimpleNamespace(seconds=10.0, low=9.0, high=12.0, report={"outcome": "OK"})
        row = types.SimpleNamespace(id="a row")
        with unittest.mock.patch.object(published, "step_of", lambda *_: step), unittest.mock.patch.object(
                published.composed, "predict", lambda *_: (20.0, self.PROFILE)), unittest.mock.patch.object(published.run, "settings", lambda _: {}):
            self.assertEqual(published.predict(None, self.CASE, row), {"a row": Prediction(20.0, 18.0, 24.0, True)})
            self.assertEqual(published.predict(None, {**self.CASE, "table": "multi_node"}, row), {"a row": Prediction(10.0, 9.0, 12.0, True)})
            step.report["outcome"] = "OUT_OF_MEMORY"
            self.assertEqual(published.predict(None, self.CASE, row), {"a row": Prediction(None, None, None, False)})

    def test_a_serialized_kernel_waits_for_its_launch_and_for_the_kernel_before(self):
        kernel = lambda begin, took, **args: {"ts": begin * composed.SLOW, "dur": took, "args": args}
        late = kernel(0, 40 + 3, waiting_us=3)
        late["ts"] -= 3
        self.assertEqual([round(t, 6) for t in composed.serialized([late, kernel(60, 90), kernel(130, 5)])], [60, 95, 10])

    def test_launches_are_slow_and_those_of_sums_the_last_ranks(self):
        cluster = 'launch_us: 40 communication_launch_us: 60\nkernels { name: "a" launch_us: 90 }'
        self.assertEqual(composed.slow_host(cluster, 1), 'launch_us: 400000 communication_launch_us: 600000\nkernels { name: "a" launch_us: 900000 }')
        self.assertIn("communication_launch_us: 900000\n", composed.slow_host(cluster, 2))

    def test_a_trace_is_taken_apart(self):
        names = ["embedding_forward", "layer_norm_forward", "matmul", "layer_norm_forward", "matmul", "layer_norm_forward", "head", "head", "layer_norm_backward",
                 "layer_norm_weights", "matmul", "layer_norm_weights", "matmul", "layer_norm_weights", "embedding_backward", "squared_norm", *["adam_step"] * 15]
        events = [{"ph": "X", "pid": 0, "name": name, "ts": i * 100 * composed.SLOW, "dur": 10 + i, "args": {}} for i, name in enumerate(names)]
        others = [{"ph": "X", "pid": 1, "name": "layer_norm_forward", "ts": 0, "dur": 1, "args": {}}, {"ph": "M", "pid": 0, "ts": 0, "name": "a name"}]
        found = composed.parts(events + others)
        self.assertEqual({name: round(us, 6) for name, us in found.items()},
                         {"layer": 800, "embedding": 200, "head": 200, "update_embedding": 26, "update_layer": sum(range(27, 39))})


class Scores(unittest.TestCase):
    ENTRIES = pair("a", 10, 10.4, 11, low=9, high=10.8) + pair("b", 10, 9.6, 9.8, low=9.7, high=10.2) + pair("c", 10, 10.4, 12, low=9, high=11)

    def test_the_ratio_is_of_medians_of_the_same_rows(self):
        lonely = pair("d", 10, 10, 99)[1:]
        found = score.pairs(self.ENTRIES + lonely)
        self.assertEqual([(one[0].id, other[0].id) for one, other in found], [("a", "a-unseen"), ("b", "b-unseen"), ("c", "c-unseen")])
        self.assertAlmostEqual(score.ratio(found), 2.5)
        self.assertIsNone(score.ratio(score.pairs(pair("e", 10, 10, 11))))

    def test_the_table_says_what_is_too_much(self):
        head, _, line = lines.unseen_steps(self.ENTRIES)
        self.assertEqual(head.count("|"), line.count("|"))
        self.assertEqual(line, "| a constant | a system | a guess | a table | calibration | 3 | 4.0 % | 4.0 % | 100 % | 10.0 % | 18.0 % | 100 % | **2.50** |")
        self.assertTrue(lines.unseen_steps(pair("a", 10, 11, 11.5))[2].endswith("| 1.50 |"))
        self.assertTrue(lines.unseen_steps(pair("a", 10, 10.001, 12))[2].endswith("| fitted to it alone |"))
        self.assertEqual(len(lines.unseen(self.ENTRIES)), 2)  # which is of collectives

    def test_rows_that_are_predicted_once_more_count_nowhere_else(self):
        row = self.ENTRIES[1][0]
        self.assertEqual((row.role, row.family, row.fitted), ("validation", "", None))
        self.assertEqual(len(lines.published(self.ENTRIES)), 3)
        self.assertEqual(len(picture.shown(self.ENTRIES)), 3)
        self.assertIsNone(score.verdicts(self.ENTRIES[1::2]))


class Files(unittest.TestCase):
    def test_clusters_are_of_the_constants_in_the_tables(self):
        of = {row["name"]: row for row in read_csv(leave_out.HERE / "left_out.csv")}
        self.assertEqual({name: row["value"] for name, row in of.items()}, {row["name"]: row["value"] for row in calibrate.constants()})
        for system, names in leave_out.SYSTEMS.items():
            c = {name: float(row[f"without_{system}"]) for name, row in of.items() if row[f"without_{system}"] != "none"}
            self.assertEqual(set(of) - set(c), set(leave_out.UNKNOWN[system]))
            for name in names:
                text = (leave_out.HERE / f"{name}-left-out.textproto").read_text()
                self.assertEqual(text, calibrate.cluster(name, c, "leave_out.py from left_out.csv", "-left-out"))
        for name in calibrate.CLUSTERS:
            c = {row["name"]: float(row["value"]) for row in calibrate.constants()}
            self.assertEqual((leave_out.HERE / f"{name}.textproto").read_text(), calibrate.cluster(name, c, "calibrate.py from constants.csv"))

    def test_other_frameworks_files_follow_those_that_they_change(self):
        texts = load("other_frameworks").leave_out.texts()
        self.assertEqual(len(texts), 4)
        for path, text in texts.items():
            self.assertEqual(path.read_text(), text, path)

    def test_every_system_that_calibrates_steps_is_left_out_once(self):
        jobs = [job for name in ("published_runs", "other_frameworks") for job in load(name).jobs()]
        rows = {row.id: row for job in jobs for row in job.rows}
        calibrating = [row for row in rows.values() if row.role == "calibration" and row.kind == STEP]
        self.assertGreater(len(calibrating), 80)
        self.assertEqual([row.id for row in calibrating if f"{row.id}-unseen" not in rows], [])


if __name__ == "__main__":
    unittest.main()
