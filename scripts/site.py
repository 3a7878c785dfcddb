#!/usr/bin/env python3
"""Builds the documentation as a site: every Markdown page, with search, and a reference of the installed headers.

    scripts/site.py [DIR]

DIR (build/site by default) is replaced. DIR/index.html opens in a browser, without a server and without a network. Links to headers
lead to the reference; links to other files and to folders lead to pages that show them. A link that leads nowhere is an error: a page,
an anchor or a file that is not there. All of them are listed, and the exit status is 1. It needs mkdocs, its theme Material, and Doxygen
(scripts/setup.sh installs them).
"""
import argparse
import html
import html.parser
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import urllib.parse
import xml.etree.ElementTree

ROOT = pathlib.Path(__file__).resolve().parents[1]
SITE = ROOT / "scripts/site"
PAGES = ["README.md", "CHANGELOG.md", "CONTRIBUTING.md", "docs/**/*.md", "tests/**/*.md", "examples/**/*.md", "experiments/studies/**/*.md"]
# What cmake/install.cmake puts into include/twofold; of protobuf's headers the reference has none, but their .proto files are shown.
HEADERS = ["core", "kernels/cpu", "kernels/cuda", "topologies", "sim", "backends", "strategies"]
AS_THEY_ARE = {".svg", ".png", ".html"}  # a browser shows them
LINK = re.compile(r"(\]\()([^)#\s]+)((?:#[^)]*)?\))")
FRAME = """<!DOCTYPE html><html lang="en"><meta charset="utf-8"><title>{name} - Twofold</title>
<meta name="viewport" content="width=device-width"><link rel="stylesheet" href="{root}site.css"><body class="source">
<p><a href="{root}index.html">Twofold</a> / {name}</p>{body}</body></html>"""


def headers():
    return [f for folder in HEADERS for f in sorted((ROOT / folder).rglob("*.h")) if "emulated" not in f.parts]


class Staging:
    """The folder that mkdocs reads: the pages with links rewritten, what they show, and the reference."""

    def __init__(self, folder):
        self.folder, self.errors, self.shown, self.reference = folder, [], set(), {}
        self.pages = sorted({p for pattern in PAGES for p in ROOT.glob(pattern)})

    def make_reference(self):
        files = headers()
        tags = self.folder.parent / "tags.xml"
        settings = (SITE / "Doxyfile").read_text() + f"""
INPUT = {' '.join(f'"{f}"' for f in [SITE / 'headers.md', *files])}
STRIP_FROM_PATH = "{ROOT}"
FILTER_PATTERNS = "*.h=sed -f {SITE}/comments.sed"
OUTPUT_DIRECTORY = "{self.folder}"
HTML_OUTPUT = reference
GENERATE_TAGFILE = "{tags}"
"""
        subprocess.run(["doxygen", "-"], input=settings, text=True, check=True)
        for entry in xml.etree.ElementTree.parse(tags).findall("compound[@kind='file']"):
            page = entry.findtext("filename")
            self.reference[entry.findtext("path").rstrip("/") + "/" + entry.findtext("name")] = page if page.endswith(".html") else page + ".html"
        self.reference = {str(pathlib.Path(k).relative_to(ROOT)) if k.startswith("/") else k: "reference/" + v for k, v in self.reference.items()}
        for file in files:
            if str(file.relative_to(ROOT)) not in self.reference:
                self.errors.append(f"{file.relative_to(ROOT)}: the reference does not have it")

    def place(self, target):
        """Where the site has what a link leads to: a path from the site's root."""
        path = str(target.relative_to(ROOT))
        if target in self.pages:
            return path
        if target.is_dir() and target / "README.md" in self.pages:
            return path + "/README.md"
        if path in self.reference:
            return self.reference[path]
        if target.is_file() and target.suffix in AS_THEY_ARE:
            content = target.read_bytes()
            if target.suffix == ".html":  # links to Markdown
                content = re.sub(rb'href="(?!\w+:)([^"]*?)(README|(\w+))\.md', lambda m: b'href="' + m[1] + (m[3] or b"index") + b".html", content)
            self.write(path, content)
            return path
        page = f"sources/{path}.html"
        if page not in self.shown:
            self.shown.add(page)
            self.write(page, self.source_page(target, page).encode())
        return page

    def source_page(self, target, page):
        if target.is_dir():
            entries = [e for e in sorted(target.iterdir(), key=lambda e: (e.is_file(), e.name)) if e.name[0] not in "._"]
            body = "<ul>" + "".join(f'<li><a href="{self.address(e, page)}">{html.escape(e.name + "/" * e.is_dir())}</a></li>' for e in entries) + "</ul>"
        else:
            body = f"<pre>{html.escape(target.read_text(errors='replace'))}</pre>"
        return FRAME.format(name=html.escape(str(target.relative_to(ROOT))), root="../" * page.count("/"), body=body)

    def address(self, target, page):
        place = os.path.relpath(self.place(target), os.path.dirname(page))
        return re.sub(r"(README|(\w+))\.md$", lambda m: (m[2] or "index") + ".html", place)

    def write(self, path, content):
        file = self.folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)

    def add_page(self, page):
        name, lines, fenced = str(page.relative_to(ROOT)), [], False

        def rewrite(match):
            if re.match(r"\w+:", match[2]):
                return match[0]
            target = pathlib.Path(os.path.normpath(page.parent / match[2]))
            if not target.exists() or not target.is_relative_to(ROOT):
                self.errors.append(f"{name}:{number}: links to {match[2]}, which is not there")
                return match[0]
            return match[1] + os.path.relpath(self.place(target), os.path.dirname(name) or ".") + match[3]

        for number, line in enumerate(page.read_text().split("\n"), 1):
            if line.lstrip().startswith("```"):
                fenced = not fenced
                if line.strip() == "```mermaid":  # Mermaid is no package of Debian's, and the site loads nothing from the network
                    lines += ["*A diagram as Mermaid's text; the page on GitHub draws it. `A --> B` is an arrow from A to B, `[...]` a box's text.*", ""]
                    line = "```text"
            elif not fenced:
                line = LINK.sub(rewrite, line)
                if re.match(r"([*-]|\d+\.) ", line) and lines and lines[-1] and not re.match(r"\s|([*-]|\d+\.) ", lines[-1]):
                    lines.append("")  # GitHub begins a list below a paragraph without an empty line
            lines.append(line)
        self.write(name, "\n".join(lines).encode())

    def settings(self, site):
        """mkdocs' settings, with the studies."""
        text = (SITE / "mkdocs.yml").read_text().replace("custom_dir: theme", f'custom_dir: "{SITE}/theme"')
        for page in self.pages:
            name = str(page.relative_to(ROOT))
            if page.name == "README.md" and name.startswith("experiments/studies/"):
                text += f"      - {page.parent.name.replace('_', ' ')}: {name}\n"
            elif (name.startswith("docs/") or "/" not in name) and not re.search(rf"[ ]{re.escape(name)}$", text, re.M):
                self.errors.append(f"scripts/site/mkdocs.yml: nav does not have {name}")
        return text + f'docs_dir: "{self.folder}"\nsite_dir: "{site}"\n'


class Page(html.parser.HTMLParser):
    """A page's anchors, its links, and what a browser loads with it."""

    def __init__(self, file):
        super().__init__()
        self.anchors, self.links, self.loads = set(), [], []
        self.feed(file.read_text())

    def handle_starttag(self, tag, attributes):
        for name, value in attributes:
            if name == "id" or (tag == "a" and name == "name"):
                self.anchors.add(value)
            elif name in ("href", "src") and value:
                self.links.append(value)
                if tag != "a":
                    self.loads.append(value)


def broken_links(site):
    """Links of the site's pages that lead nowhere; those within the reference are Doxygen's own."""
    pages, errors = {}, set()

    def read(file):
        if file not in pages:
            pages[file] = Page(file)
        return pages[file]

    for file in sorted(site.rglob("*.html")):
        name = file.relative_to(site)
        if name.parts[0] == "reference" or name == pathlib.Path("404.html"):
            continue
        for link in read(file).links:
            part = urllib.parse.urlsplit(link)
            if part.scheme or part.netloc:
                continue
            target = pathlib.Path(os.path.normpath(file.parent / urllib.parse.unquote(part.path))) if part.path else file
            target = target / "index.html" if target.is_dir() else target
            if not target.is_file():
                errors.add(f"{name}: links to {link}, which is not there")
            elif part.fragment and target.suffix == ".html" and urllib.parse.unquote(part.fragment) not in read(target).anchors:
                errors.add(f"{name}: links to {link}, and that page has no such anchor")
    return len(pages), sorted(errors)


def build(site):
    with tempfile.TemporaryDirectory() as folder:
        staging = Staging(pathlib.Path(folder) / "pages")
        staging.folder.mkdir()
        staging.make_reference()
        for page in staging.pages:
            staging.add_page(page)
        for file in ("site.css", "site.js"):
            staging.write(file, (SITE / file).read_bytes())
        settings = pathlib.Path(folder) / "mkdocs.yml"
        settings.write_text(staging.settings(site))
        done = subprocess.run(["mkdocs", "build", "--quiet", "--clean", "-f", settings], env=dict(os.environ, PYTHONPATH=str(SITE), PYTHONDONTWRITEBYTECODE="1"))
        if done.returncode != 0:
            sys.exit("site: mkdocs has failed, and says above why; if it lacks the theme, `scripts/setup.sh` installs it (Debian: mkdocs-material)")
    index = site / "search/search_index.json"
    (site / "search/search_index.js").write_text(f"var __search = {{index: Promise.resolve({index.read_text()})}};\n")
    count, errors = broken_links(site)
    return count, len(staging.reference), staging.errors + errors


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dir", nargs="?", type=pathlib.Path, default=ROOT / "build/site", help="the folder of the site (build/site)")
    site = parser.parse_args().dir.resolve()
    missing = [program for program in ("mkdocs", "doxygen") if not shutil.which(program)]
    if missing:
        sys.exit(f"site: {' and '.join(missing)} not found; `scripts/setup.sh` installs what is needed (Debian: mkdocs, mkdocs-material, doxygen)")
    if site.exists() and any(site.iterdir()) and not (site / "search/search_index.json").exists():
        sys.exit(f"site: {site} holds something else than a site; name an empty folder or a new one")
    pages, files, errors = build(site)
    print("\n".join(errors), end="\n" if errors else "", file=sys.stderr)
    if errors:
        sys.exit(f"site: {len(errors)} broken links")
    print(f"{site}/index.html: {pages} pages, {files} headers")


if __name__ == "__main__":
    main()
