#!/usr/bin/env python3
"""experiments/studies/which_strategy: the documents' table, how layouts are named and compared, which answers are kept, and that the guide has the study's tables."""
import json
import pathlib
import re
import sys
import tempfile
import types
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
STUDIES = ROOT / "experiments/studies"
STUDY = STUDIES / "which_strategy"
sys.path[:0] = [str(STUDIES), str(STUDY)]
import documents  # noqa: E402
import lines  # noqa: E402
import picture  # noqa: E402
from asked import Plans  # noqa: E402
from jobs import CLUSTERS, MODELS, Job, plain, spec  # noqa: E402


class Documents(unittest.TestCase):
    def test_each_model_has_the_row_of_its_size(self):
        rows = {model.name: documents.advice(model.billions, 16, 8)[0].sizes for model in MODELS}
        self.assertEqual(rows, {"1B": "1B - 7B", "7B": "1B - 7B", "13B": "7B - 13B", "30B": "13B - 70B", "Mixtral 8x7B": "13B - 70B", "70B": "13B - 70B",
                                "175B": "> 70B", "405B": "> 70B"})
        self.assertEqual(documents.advice(0.5, 1, 8)[0].sizes, "< 1B")

    def test_a_row_covers_the_gpus_that_it_names(self):
        row, layouts = documents.advice(7, 8, 8)
        self.assertEqual([row.covers(gpus) for gpus in (1, 2, 8, 16)], [False, True, True, False])
        self.assertEqual([layout.words for layout in layouts], ["DDP", "FSDP ShardGradOp"])

    def test_three_axes_fill_a_node_and_leave_replicas(self):
        self.assertEqual([documents.three_axes(gpus, 8).words for gpus in (16, 64, 512)],
                         ["FullShard, tp 8, pp 2", "FullShard, tp 8, pp 2", "FullShard, tp 8, pp 8"])
        self.assertEqual(documents.three_axes(16, 1).words, "FullShard, tp 1, pp 4")


class Lines(unittest.TestCase):
    def test_layouts_have_common_names(self):
        for text, name in (("tp 1 pp 1 dp 8 SHARD_OPTIMIZER mb 1", "dp 8, ZeRO-1"), ("tp 1 pp 1 dp 1 mb 8", "one process"),
                           ("tp 1 pp 1 dp 4 mb 2 recompute 1 OFFLOAD_OPTIMIZER", "DDP, dp 4, recomputation, optimizer offloaded"),
                           ("tp 1 pp 1 dp 512 HYBRID_SHARD of 32 mb 1", "dp 512, HSDP of 32"),
                           ("tp 8 pp 16 dp 1 INTERLEAVED_ONE_F_ONE_B v 2 mb 1 sp", "tp 8, pp 16, INTERLEAVED_ONE_F_ONE_B, v 2, sp")):
            self.assertEqual(lines.short(text), name)

    def row(self, **more):
        return {"predicted": 10.0, "high": 11.0, "layout_text": "tp 1 pp 1 dp 8 FULL_SHARD mb 1", "proven": True, "open": 0, "documents_covers": True, **more}

    def test_the_documents_layout_is_told_apart_by_the_interval(self):
        theirs = {"words": "DDP", "fits": True, "text": "tp 1 pp 1 dp 8 mb 1", "seconds": 10.9}
        self.assertEqual(lines.of_one(theirs, self.row()), "DDP: +9 %, not told apart")
        self.assertEqual(lines.of_one({**theirs, "seconds": 12}, self.row()), "DDP: +20 %")
        self.assertEqual(lines.of_one({**theirs, "text": self.row()["layout_text"]}, self.row()), "DDP: the same")
        lacks = {"words": "DDP", "fits": False, "open": 0, "closest": {"least_bytes": 3 << 30, "device_bytes": 2 << 30}}
        self.assertEqual(lines.of_one(lacks, self.row()), "DDP: does not fit, 1.0 GiB too many")
        self.assertEqual(lines.of_one({**lacks, "open": 4}, self.row()), "DDP: budget ended")

    def test_what_is_open_is_said(self):
        self.assertEqual(lines.state(self.row(proven=False, least_seconds=9.0)), "10.0 % open")
        self.assertEqual(lines.state(self.row()), "proven")
        self.assertEqual(lines.cell(self.row(predicted=None, open=3, least_seconds=2.5)), "not within 2.5 s")


class Asked(unittest.TestCase):
    """With a stand-in for the program, which counts how often it is asked."""

    def plans(self, folder, budget, proven):
        def program(*words, statuses):
            self.assertIn(f"--budget={budget}s", words)
            self.calls += 1
            document = {"proven": proven, "layouts": [{"seconds": 1}, {"seconds": 2}]}
            return types.SimpleNamespace(output=json.dumps(document), messages="", status=0, core_seconds=1)
        return Plans(program, folder, budget, "3%")

    def test_answers_are_kept_unless_more_time_could_say_more(self):
        for proven, again in ((True, 1), (False, 2)):
            self.calls = 0
            with tempfile.TemporaryDirectory() as folder:
                first = self.plans(folder, 10, proven).ask("a spec", 8)
                self.assertEqual((first["layouts"], self.calls), ([{"seconds": 1}], 1))
                self.plans(folder, 5, proven).ask("a spec", 8)
                self.assertEqual(self.calls, 1)
                self.plans(folder, 20, proven).ask("a spec", 8)
                self.assertEqual(self.calls, again)
                self.plans(folder, 20, proven).ask("a spec", 16)
                self.assertEqual(self.calls, again + 1)

    def test_specs_have_what_the_job_fixes(self):
        cluster, model = CLUSTERS[0], next(m for m in MODELS if m.name == "13B")
        few, many = spec(Job(model, cluster, 16)), spec(Job(model, cluster, 64))
        self.assertEqual(few, many)  # the plan has the GPUs, and every job the same tokens
        self.assertIn("global_batch: 512 ", many)
        self.assertNotIn("schedule", many)
        self.assertIn("offload: NO_OFFLOAD", many)
        self.assertNotIn("offload", spec(Job(model, cluster, 64), offload=True))
        self.assertIn("tp: 8 sharding: SHARD_OPTIMIZER", plain(Job(model, cluster, 64)).fields)
        self.assertIn("tp: 4 pp: 1 sharding: NO_SHARD", plain(Job(model, cluster, 4)).fields)


class Pages(unittest.TestCase):
    def setUp(self):
        self.rows = json.loads((STUDY / "results.json").read_text())["rows"]

    def test_the_guide_has_the_tables_of_the_results(self):
        guide = (ROOT / "docs/which-strategy.md").read_text()
        block = guide.partition(lines.BEGIN)[2].partition(lines.END)[0]
        tables = [line for cluster in CLUSTERS for line in lines.grid(self.rows, cluster)]
        self.assertEqual([line for line in block.splitlines() if line.startswith("|")], tables)
        self.assertIn(lines.tally(self.rows), block)

    def test_every_job_has_a_cell_of_the_picture(self):
        text = (STUDY / "grid.svg").read_text()
        self.assertEqual(text, picture.svg(self.rows))
        self.assertEqual(len(re.findall(f'<rect [^>]*width="{picture.WIDE}"', text)), len(self.rows))
        self.assertEqual(len(self.rows), len(MODELS) * sum(len(cluster.gpus) for cluster in CLUSTERS))


if __name__ == "__main__":
    unittest.main()
