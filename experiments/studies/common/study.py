"""The command line of a study, and what it leaves in its folder."""
import argparse
import pathlib
import sys
import textwrap

from . import golden, results
from .program import BUILD, ROOT, Twofold, fail


class Study:
    """One script beside the study's specs. `question`: what it answers; `writes`: with --write, or `always`; `golden`: what --golden predicts;
    `quick`: what --quick does."""

    def __init__(self, file, question, *, needs, takes, writes="table.md and results.json", always=False, golden=None, quick=None):
        script = pathlib.Path(file).resolve()
        self.folder = script.parent
        self.title, self.name = str(script.relative_to(ROOT)), script.parent.name
        facts = {"Needs": needs, "Takes": takes, "Writes": f"{writes}." if always else f"{writes} with --write, otherwise nothing.",
                 "More": f"{self.folder.relative_to(ROOT)}/README.md says what is compared with what."}
        about = [textwrap.fill(question, 100), "", *(textwrap.fill(f"{name + ':':8} {text}", 100, subsequent_indent=" " * 9) for name, text in facts.items())]
        self.parser = argparse.ArgumentParser(prog=self.title, description="\n".join(about), allow_abbrev=False,
                                              formatter_class=argparse.RawDescriptionHelpFormatter)
        modes = self.parser if always else self.parser.add_mutually_exclusive_group()
        if not always:
            modes.add_argument("--write", action="store_true", help=f"renew {writes}")
        if golden:
            modes.add_argument("--golden", action="store_true", help=f"predict {golden}, compare with golden.json, and do nothing else")
        if quick:
            self.parser.add_argument("--quick", action="store_true", help=quick)
        self.parser.add_argument("twofold", nargs="?", type=pathlib.Path, default=BUILD, metavar="TWOFOLD",
                                 help=f"the program, or its build folder (default: {BUILD.relative_to(ROOT)})")

    def option(self, name, **how):
        self.parser.add_argument(name, **how)

    def start(self, wrong=lambda options: None):
        """The options, and the program. `wrong` says what is wrong with a combination of options."""
        self.options = self.parser.parse_args()
        if message := wrong(self.options):
            self.parser.error(message)
        return self.options, Twofold(self.options.twofold)

    def command(self):
        """The script with the options that it was given; paths, which belong to one machine, are left out."""
        given = {name: value for name, value in vars(self.options).items() if name != "twofold" and value != self.parser.get_default(name)}
        words = [f"--{name.replace('_', '-')}" + ("" if value is True else f"={value}") for name, value in given.items() if not isinstance(value, pathlib.Path)]
        return " ".join([self.title, *words])

    def hold(self, figures):
        """Messages of the figures that are no longer what golden.json has; --write renews it. With --golden, `figures` are a part of it."""
        return golden.hold(self.folder, figures, everything=not self.options.golden, write=self.options.write)

    def publish(self, title, lines, rows):
        """Prints the page; with --write it becomes table.md, and the rows results.json."""
        text = "\n".join([f"# {title}", "", *lines]).rstrip() + "\n"
        print(text, flush=True)
        if self.options.write:
            (self.folder / "table.md").write_text(text)
            results.write(self.folder, self.command(), rows)

    def only_from_a_gpu(self, device):
        """Ends the study if --write would keep what an emulated GPU measured."""
        if self.options.write and "emulated" in device.lower():
            fail(f"{self.title}: --write: an emulated GPU's times mean nothing")

    @staticmethod
    def end(problems):
        """Ends the study: exit status 1 if there is a problem."""
        sys.exit("\n".join(problems) or 0)
