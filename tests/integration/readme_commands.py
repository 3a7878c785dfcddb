#!/usr/bin/env python3
"""The commands and specs of README.md and docs/, run.

    tests/integration/readme_commands.py PATH_OF_TWOFOLD

They are read from the pages' fenced blocks, so that a new one is run, too. A folder with two small specs stands in for the user's:

* `twofold memory`, `compare`, `sweep SPEC`, `report`, `list`, `schedule`, `topology`, `spec`, `init`, `doctor`, `help`, `completion`, `man`,
  predictions by `bench` and replays of storms run as they are;
* so does `run`, with --check where it is not of fabric simulated or in_memory, and with a small spec in the place of SPEC and my.textproto;
  measured benches are cut to 4 KiB;
* `launch`, `mpirun`, `srun`, `torchrun` and processes started by hand: what they start is run with --check, their own options are looked up;
* what takes minutes (`calibrate`) or needs what is not here, such as the results of the lab (lab_test has them): every option stands in `twofold COMMAND --help`;
* scripts: the file is there and executable, and names every option; `cmake --preset`: there is such a preset;
* specs are checked, on fabric simulated where they name none; alternatives, which name the same field again, each for itself.

What this build does not have (a fabric, GPUs) may be refused for that reason alone.
"""
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
SMALL = """name: "small"
model { gpt { layers: 2 hidden: 64 heads: 2 vocab: 256 sequence: 32 } }
train { steps: 2 micro_batch: 1 }
parallel { dp: 2 }
"""
MODEL = 'model { gpt { layers: 2 hidden: 64 heads: 2 vocab: 256 sequence: 32 } }\n'
NOT_HERE = re.compile(r"not in this build|this build has no|needs? (a|one) GPU|no GPU|without CUDA|was built without|there are no GPUs|which `twofold calibrate --device=cuda` writes")
SCRIPT = re.compile(r"^(tests|examples|experiments|scripts)/\S+\.(sh|py)\b")
COMMAND = re.compile(r"^(twofold (?!: )|mpirun |srun |torchrun |cmake |[A-Z_]+=\S+ )")
FIELD = re.compile(r"^(name|model|data|train|parallel|fabric|device|memory|emulated|framework|trace|cuda)\b *[:{]")


def blocks(text):
    """(line, lines) of every fenced block that is no C++."""
    lines, number = text.split("\n"), 0
    while number < len(lines):
        if lines[number].startswith("```"):
            kind, begin = lines[number][3:].strip(), number + 1
            number = begin
            while not lines[number].startswith("```"):
                number += 1
            if kind in ("", "textproto", "bash", "sh"):
                yield begin + 1, lines[begin:number]
        number += 1


def without_comment(line):
    return re.sub(r"(^|\s+)#.*$", "", line).strip()


def commands(text):
    """(line, words) of every command of a block; a list of alternatives `a|b|c` is as many commands."""
    for begin, lines in blocks(text):
        for number, line in enumerate(lines, begin):
            line = without_comment(line)
            if not (COMMAND.match(line) or SCRIPT.match(line)):
                continue
            for part in re.split(r" && |; ", line):
                words = [w for w in shlex.split(part) if not re.fullmatch(r"\[\S*|\S*\]|\$\w+", w)]  # what may be left out
                choice = next((w for w in words if re.fullmatch(r"\w+(\|\w+)+", w)), None)
                for word in choice.split("|") if choice else [None]:
                    yield number, [word if w == choice and word else w for w in words]


def specs(text):
    """(line, text) of every spec."""
    for begin, lines in blocks(text):
        fields, depth, starts = [], 0, False
        for number, line in enumerate(lines, begin):
            line = without_comment(line)
            if depth == 0 and line:
                starts = bool(FIELD.match(line))
                if not starts:
                    break
                fields.append((number, []))
            if line:
                fields[-1][1].append(line)
            depth += line.count("{") - line.count("}")
        if not fields or not starts:
            continue
        by_name = {}
        for number, field in fields:
            by_name.setdefault(FIELD.match(field[0]).group(1), []).append((number, "\n".join(field)))
        repeated = next((name for name, all_of in by_name.items() if len(all_of) > 1), next(iter(by_name)))
        for number, field in by_name[repeated]:
            yield number, "\n".join([field] + [text for name, all_of in by_name.items() if name != repeated for _, text in all_of])


class Runner:
    def __init__(self, program, folder):
        self.program, self.folder, self.failures, self.helps, self.page = program, pathlib.Path(folder), [], {}, ""
        (self.folder / "bin").mkdir()
        for name in ("experiments", "examples", "tests"):
            (self.folder / name).symlink_to(ROOT / name)
        for name in ("SPEC", "my.textproto"):
            (self.folder / name).write_text(SMALL)
        (self.folder / "my.json").write_text('{"model": {"preset": "gpt-3m"}, "parallel": {"dp": 2}}')
        (self.folder / "8-ranks.textproto").write_text("parallel { dp: 8 }\n")
        shutil.copy(ROOT / "tests/data/topologies/dgx-h100.nccl.xml", self.folder / "node.xml")
        shutil.copy(ROOT / "tests/data/topologies/dgx-h100.smi.txt", self.folder / "node.txt")

    def call(self, number, words, may_lack=False, statuses=(0,)):
        result = subprocess.run([self.program, *words], cwd=self.folder, capture_output=True, text=True, timeout=120)
        if result.returncode in statuses or (may_lack and NOT_HERE.search(result.stderr)):
            return
        self.failures.append(f"{self.page}:{number}: twofold {shlex.join(words)}: exit status {result.returncode}\n{result.stderr.strip()}")

    def options_of(self, number, words):
        """Every option of a command stands in its help."""
        name = " ".join(words[:2]) if words[0] == "topology" else words[0]
        if name not in self.helps:
            self.helps[name] = subprocess.run([self.program, *name.split(), "--help"], capture_output=True, text=True).stdout
        if not self.helps[name]:
            self.failures.append(f"{self.page}:{number}: twofold {name}: there is no such command")
        for word in words[1:]:
            option = word.split("=")[0]
            if option.startswith("-") and not re.search(rf"(^|[\s,]){re.escape(option)}\b", self.helps[name]):
                self.failures.append(f"{self.page}:{number}: twofold {name} has no {option}")

    def twofold(self, number, words):
        name = words[0]
        words = [{"DIR_PREDICTED": "runs/small-simulated", "DIR_MEASURED": "runs/small-in_memory", "DIR": "runs/small-simulated"}.get(w, w) for w in words]
        if name == "run" or (name == "launch" and "--" in words):
            inner = words[words.index("--") + 1:] if name == "launch" else words
            if name == "launch":
                self.options_of(number, words[:words.index("--")])
            if inner[0] != "run":
                return self.twofold(number, inner)
            if any("fabric.simulated.profile=" in w for w in inner):
                return self.options_of(number, inner)  # of a file that calibration makes
            if any(w.startswith("--fabric=nccl") for w in words) and not any("device=" in w for w in inner):
                inner = [*inner, "--set=device=CUDA"]  # as docs/launching.md says of nccl's specs
            if name == "run":
                inner = ["--fabric=in_memory" if w == "--fabric=mpi" else w for w in inner]  # that its launcher is not there is checked first
            quick = inner[1] == "SPEC" and name == "run" and inner[2:] in (["--fabric=simulated"], ["--fabric=in_memory"])
            return self.call(number, [*inner, "--quiet"] if quick else [*inner, "--check"], may_lack=not quick)
        if name == "bench":
            if "--fabric=simulated" not in words:
                words = ["4K" if before == "-e" else word for before, word in zip([""] + words, words)]
            return self.call(number, words, may_lack=True)
        if name == "storm" and any(word.startswith("--replay=") for word in words):  # a page's `twofold report` draws it
            return self.call(number, words)
        if name == "sweep" and words[1] == "SPEC":  # a point whose ranks cannot share the small spec's batch fails
            return self.call(number, words, statuses=(0, 1))
        if name == "init":
            return self.call(number, [f"init-{number}.textproto" if word.endswith(".textproto") else word for word in words])  # it overwrites nothing
        if name == "doctor":  # what it finds here is not the page's fault
            return self.call(number, words, statuses=(0, 1))
        if any(word.startswith("runs/lab/") for word in words[1:]):  # of what the lab's commands have written: lab_test runs them in order
            return self.options_of(number, words)
        if name in ("memory", "compare", "report", "list", "schedule", "topology", "spec", "help", "completion", "man"):
            return self.call(number, words, statuses=(0, 3) if name == "memory" else (0,))
        self.options_of(number, words)

    def run(self, number, words):
        if SCRIPT.match(words[0]):
            path = ROOT / words[0]
            if not os.access(path, os.X_OK):
                self.failures.append(f"{self.page}:{number}: {words[0]} is not there, or not executable")
                return
            text = path.read_text()
            self.failures += [f"{self.page}:{number}: {words[0]} does not know {word}" for word in words[1:]
                              if word.startswith("--") and word.split("=")[0].lstrip("-") not in text]
        elif words[0] == "cmake":
            presets = (ROOT / "CMakePresets.json").read_text()
            for before, word in zip(words, words[1:]):
                if before == "--preset" and f'"name": "{word}"' not in presets:
                    self.failures.append(f"{self.page}:{number}: there is no preset {word}")
        else:
            self.twofold(number, words[words.index("twofold") + 1:])

    def check(self, number, spec):
        text = spec if re.search(r"^model", spec, re.M) else MODEL + spec
        if not re.search(r"^(fabric|emulated)", text, re.M):
            text += "\nfabric { simulated {} }"
        if not re.search(r"^parallel", text, re.M):
            text += "\nparallel { dp: 8 }"
        if not re.search(r"^train", text, re.M):
            text += "\ntrain { micro_batch: 1 steps: 1 }"
        path = self.folder / f"{pathlib.Path(self.page).stem}{number}.textproto"
        path.write_text(text + "\n")
        before = len(self.failures)
        self.call(number, ["run", path.name, "--check"])
        if len(self.failures) > before:
            self.failures[-1] += f"\nwhere the spec is\n{text}"


def main():
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    counts = [0, 0]
    with tempfile.TemporaryDirectory() as folder:
        runner = Runner(str(pathlib.Path(sys.argv[1]).resolve()), folder)
        for page in pages:
            runner.page = str(page.relative_to(ROOT))
            for number, words in commands(page.read_text()):
                counts[0] += 1
                runner.run(number, words)
            for number, spec in specs(page.read_text()):
                counts[1] += 1
                runner.check(number, spec)
    print("\n\n".join(runner.failures))
    print(f"{counts[0]} commands and {counts[1]} specs of {len(pages)} pages, {len(runner.failures)} failures")
    sys.exit(1 if runner.failures or counts[0] < 40 or counts[1] < 12 else 0)


if __name__ == "__main__":
    main()
