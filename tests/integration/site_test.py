#!/usr/bin/env python3
"""scripts/site.py makes a site whose links lead somewhere, and names those that do not."""
import importlib.util
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.dont_write_bytecode = True
specification = importlib.util.spec_from_file_location("site_script", ROOT / "scripts/site.py")
site_script = importlib.util.module_from_spec(specification)
specification.loader.exec_module(site_script)


class Site(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)

    def has(self, page, text):
        self.assertTrue(text in page.read_text(), f"{page} does not have {text}")

    @unittest.skipUnless(shutil.which("mkdocs") and shutil.which("doxygen"), "mkdocs and doxygen are not installed")
    def test_is_whole(self):
        site = self.folder / "site"
        done = subprocess.run([ROOT / "scripts/site.py", site], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.has(site / "reference/ddp_8h.html", "every rank holds the whole model")  # the file's comment
        self.has(site / "reference/ddp_8h.html", "Assigns parameters to buckets.")    # a function's
        self.has(site / "reference/structtwofold_1_1DdpOptions.html", "false: all buckets are reduced after backward")  # one at the end of a line
        self.has(site / "docs/data_parallelism.html", 'href="../reference/sharded_8h.html"')
        self.has(site / "sources/core/proto/spec.proto.html", "message Spec {")
        self.has(site / "search/search_index.js", "Stich")
        outside = [f"{page.name}: {link}" for page in site.rglob("*.html") if page.parts[len(site.parts)] != "reference"
                   for link in site_script.Page(page).loads if link.startswith(("http:", "https:", "//"))]
        self.assertEqual(outside, [])  # it needs no network
        if browser := shutil.which("chromium"):  # search in pages opened from a folder
            words = [browser, "--headless", "--no-sandbox", f"--user-data-dir={self.folder}/chromium", "--virtual-time-budget=20000", "--dump-dom"]
            found = subprocess.run([*words, f"{(site / 'index.html').as_uri()}?q=PowerSGD"], capture_output=True, text=True, timeout=100).stdout
            self.assertTrue(re.search(r"search-result__meta\">\d+ matching documents", found), "a search for PowerSGD finds nothing")
        again = subprocess.run([ROOT / "scripts/site.py", ROOT / "docs"], capture_output=True, text=True)
        self.assertIn("holds something else than a site", again.stderr)

    def test_names_broken_links_of_the_site(self):
        (self.folder / "a.html").write_text('<h1 id="there">A</h1><a href="b.html#there">b</a><a href="#there">a</a><a href="c.html">c</a>')
        (self.folder / "b.html").write_text('<a name="other"></a><a href="a.html#there">a</a><img src="no.svg"><a href="https://example.org/x">x</a>')
        _, errors = site_script.broken_links(self.folder)
        self.assertEqual(errors, ["a.html: links to b.html#there, and that page has no such anchor", "a.html: links to c.html, which is not there",
                                  "b.html: links to no.svg, which is not there"])

    def test_names_broken_links_of_pages(self):
        site_script.ROOT = self.folder.resolve()
        self.addCleanup(setattr, site_script, "ROOT", ROOT)
        (self.folder / "docs").mkdir()
        (self.folder / "core").mkdir()
        (self.folder / "core/a.h").write_text("// A <header>.\n#pragma once\n")
        (self.folder / "docs/a.md").write_text("# A\n\nOne:\n* [header](../core/a.h)\n* [lost](../core/b.h)\n\n```\n[code](no.md)\n```\n[gone](c.md#d)\n\n```mermaid\na --> b\n```\n")
        staging = site_script.Staging(self.folder / "pages")
        staging.add_page(site_script.ROOT / "docs/a.md")
        self.assertEqual(staging.errors, ["docs/a.md:5: links to ../core/b.h, which is not there", "docs/a.md:10: links to c.md, which is not there"])
        self.assertIn("One:\n\n* [header](../sources/core/a.h.html)", (self.folder / "pages/docs/a.md").read_text())
        self.assertRegex((self.folder / "pages/docs/a.md").read_text(), r"\n\n\*A diagram as Mermaid's text.*\*\n\n```text\na --> b\n```\n")
        self.assertIn("A &lt;header&gt;.", (self.folder / "pages/sources/core/a.h.html").read_text())
        staging.settings(self.folder / "site")
        self.assertIn("scripts/site/mkdocs.yml: nav does not have docs/a.md", staging.errors)


if __name__ == "__main__":
    unittest.main()
