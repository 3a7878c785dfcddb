#!/usr/bin/env python3
"""`twofold desk`: its list, its pages and its what-if answers in a real browser, and whom it refuses.

    tests/integration/desk_test.py PATH_OF_TWOFOLD
"""
import json
import pathlib
import signal
import subprocess
import sys
import tempfile
import unittest
import urllib.error
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from browser import Browser  # noqa: E402

PROGRAM = str(pathlib.Path(sys.argv.pop()).resolve())


def twofold(*words, status=0):
    result = subprocess.run([PROGRAM, *map(str, words)], cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert result.returncode == status, result.stderr
    return result


class Desk(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory()
        cls.folder = pathlib.Path(cls.scratch.name, "runs")
        for fabric in ("simulated", "in_memory"):
            twofold("run", "examples/ddp.textproto", f"--fabric={fabric}", f"--out={cls.folder}/deep/{fabric}", "--quiet")
        twofold("sweep", "examples/ddp.textproto", "--vary=parallel.dp=1,2", "--fabric=simulated", f"--out={cls.folder}/sweep")
        twofold("storm", "tests/storm/ddp.textproto", "--replay=2", f"--out={cls.folder}/storm")
        (cls.folder / "broken").mkdir()
        (cls.folder / "broken/report.json").write_text("{")
        cls.desk = subprocess.Popen([PROGRAM, "desk", str(cls.folder)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        cls.address = cls.desk.stdout.readline().strip()
        cls.browser = Browser()

    @classmethod
    def tearDownClass(cls):
        cls.browser.close()
        cls.desk.send_signal(signal.SIGTERM)
        status = cls.desk.wait(timeout=20)
        cls.desk.stdout.close()
        cls.scratch.cleanup()
        assert status == 0, status

    def ask(self, path, body=None, **headers):
        request = urllib.request.Request(self.address + path, None if body is None else json.dumps(body).encode(), headers)
        try:
            with urllib.request.urlopen(request, timeout=60) as response:
                return response.status, response.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()

    def opened(self):
        self.browser.call("/url", {"url": self.address})
        self.assertEqual(self.browser.wait("return document.body.dataset.ready"), "yes", self.browser.errors())

    def test_lists_filters_and_holds_runs_side_by_side(self):
        self.opened()
        browser = self.browser
        paths = lambda: browser.script("return [...document.querySelectorAll('#items tr')].slice(1).map((r) => r.cells[1].textContent)")  # noqa: E731
        self.assertTrue({"deep/simulated", "deep/in_memory", "sweep", "storm", "broken"} <= set(paths()), paths())
        self.assertIn("report.json", browser.script("return [...document.querySelectorAll('#items tr')].find((r) => r.cells[1].textContent === 'broken').cells[3].textContent"))
        browser.type("#filter", "deep")
        self.assertEqual(sorted(paths()), ["deep/in_memory", "deep/simulated"])
        for path in ("deep/simulated", "deep/in_memory"):
            browser.click(f"input[aria-label='{path}']")
        self.assertEqual(browser.script("return document.getElementById('open').textContent"), "hold 2 side by side")
        self.assertEqual(self.browser.errors(), [])
        browser.call("/url", {"url": self.address + "report?dir=deep%2Fsimulated&dir=deep%2Fin_memory"})
        self.assertEqual(browser.wait("return document.body.dataset.ready"), "yes")
        self.assertEqual(browser.script("return twofold.data.runs.map((r) => r.title)"), ["predicted (simulated)", "measured (in_memory)"])
        browser.call("/url", {"url": self.address + "report?dir=sweep"})
        self.assertEqual(browser.wait("return document.body.dataset.ready"), "yes")
        self.assertEqual(browser.script("return twofold.data.kind"), "sweep")

    def test_what_if(self):
        self.opened()
        browser = self.browser
        browser.click("#show-what-if")
        verdict = "const text = document.getElementById('verdict').textContent; return !text.startsWith('predicting') && text"
        self.assertIn("a step", browser.wait(verdict))
        sets = browser.script("return twofold.views.whatIf.sets()")
        self.assertEqual((sets["parallel.dp"], sets["parallel.tp"]), (8, 1))
        move = "const s = document.getElementById(arguments[0]); s.value = arguments[1]; s.dispatchEvent(new Event('input'))"
        browser.script(move, "tp", "2")
        browser.wait("return twofold.views.whatIf.answers.length === 2")
        sets = browser.script("return twofold.views.whatIf.sets()")
        self.assertEqual((sets["parallel.dp"], sets["parallel.tp"]), (2, 4))
        answer = browser.script("return twofold.views.whatIf.answers[0]")
        # the spec that is shown gives the same figures on the command line
        spec = self.folder / "copied.textproto"
        spec.write_text(browser.script("return document.getElementById('spec').value"))
        twofold("run", spec, f"--out={self.folder}/copied", "--quiet")
        report = json.loads((self.folder / "copied/report.json").read_text())
        self.assertEqual(answer["seconds"], report["median_step_seconds"])
        self.assertEqual(answer["peak_bytes"], max(rank["peak_bytes"] for rank in report["ranks"]))
        # less bandwidth between nodes; then what does not fit says so
        browser.script(move, "tp", "0")
        browser.script(move, "gpus", "4")
        browser.wait("return twofold.views.whatIf.answers.length === 3")
        browser.script(move, "bandwidth", "50")
        browser.wait("return twofold.views.whatIf.answers.length === 4")
        times = browser.script("return twofold.views.whatIf.answers.map((a) => a.seconds)")
        self.assertGreater(times[0], times[1])
        browser.script("document.getElementById('sharding').value = 'NO_SHARD'")
        browser.script(move, "bandwidth", "100")
        browser.wait("return document.getElementById('verdict').textContent.startsWith('OUT_OF_MEMORY')")
        # tp gives way to fewer GPUs
        browser.script(move, "tp", "3")
        browser.script(move, "gpus", "1")
        self.assertEqual(browser.script("return [twofold.views.whatIf.value('tp'), twofold.views.whatIf.dp()]"), [2, 1])
        self.assertEqual(browser.errors(), [])

    def test_what_if_from_a_run_and_its_errors(self):
        status, text = self.ask("what-if", {"base": "deep/in_memory", "sets": {"fabric.simulated.cluster": "dgx-a100", "parallel.dp": 4}})
        answer = json.loads(text)
        self.assertEqual((status, answer["outcome"]), (200, "OK"), text)
        self.assertIn('cluster: "dgx-a100"', answer["spec"])
        for body, error in (({"base": "deep/in_memory", "sets": {"parallel.dp": 7}}, "dp"), ({"base": "deep/in_memory", "sets": {"parallel.sharding": "FSDP"}}, "FULL_SHARD"),
                            ({"model": "llama-1t", "sets": {}}, "llama-1t"), ({"sets": {}}, "model"), ([], "the question")):
            status, text = self.ask("what-if", body)
            self.assertEqual(status, 400, text)
            self.assertIn(error, json.loads(text)["error"])

    def test_whom_it_refuses(self):
        base = self.address.rsplit("/", 2)[0]
        for path, headers in (("/", {}), ("/items", {}), ("/0000/items", {})):
            with self.assertRaises(urllib.error.HTTPError) as refused:
                urllib.request.urlopen(urllib.request.Request(base + path, headers=headers), timeout=10)
            self.assertEqual(refused.exception.code, 404)
            refused.exception.close()
        self.assertEqual(self.ask("items", Host="example.org")[0], 404)  # another site's name for this address
        for outside in ("../runs/broken/..", "/etc", "deep"):
            status, text = self.ask("report?dir=" + outside)
            self.assertEqual((status, "is not a run" in text), (404, True), text)
        self.assertEqual(self.ask("report")[0], 400)

    def test_wrong_input(self):
        self.assertIn("is not a folder", twofold("desk", "/nowhere", status=2).stderr)
        for port in (-1, 65536):
            self.assertIn("use a port from 1 to 65535", twofold("desk", str(self.folder), f"--port={port}", status=2).stderr)
        port = self.address.split(":")[2].split("/")[0]
        self.assertIn("is it taken", twofold("desk", str(self.folder), f"--port={port}", status=1).stderr)


if __name__ == "__main__":
    unittest.main()
