"""What tests of `twofold report`'s pages in a real browser have in common."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from browser import Browser  # noqa: E402

PROGRAM = str(pathlib.Path(sys.argv.pop()).resolve())


class PageCase(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory()
        cls.folder = pathlib.Path(cls.scratch.name)
        cls.checkout = cls.folder / "checkout"  # without runs/, whose profile of this machine would change predictions
        cls.checkout.mkdir()
        for name in ("examples", "experiments", "tests"):
            (cls.checkout / name).symlink_to(ROOT / name)
        cls.browser = Browser()

    @classmethod
    def tearDownClass(cls):
        cls.browser.close()
        cls.scratch.cleanup()

    def twofold(self, *words):
        result = subprocess.run([PROGRAM, *map(str, words)], cwd=self.checkout, capture_output=True, text=True, timeout=120)
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
