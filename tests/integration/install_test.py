#!/usr/bin/env python3
"""What `cmake --install` puts below a prefix is whole, and find_package(Twofold) finds it.

    tests/integration/install_test.py [--compile] CMAKE BUILD_FOLDER

--compile builds examples/own-project with the installed library and runs its test and its program, which takes a minute.
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(sys.argv.pop()).resolve()
CMAKE = sys.argv.pop()
COMPILE = "--compile" in sys.argv and sys.argv.pop(sys.argv.index("--compile")) is not None
PROJECT = "cmake_minimum_required(VERSION 3.25)\nproject(a LANGUAGES CXX)\nfind_package(Twofold {version} REQUIRED COMPONENTS {components})\n"


def run(*words, status=0, **more):
    done = subprocess.run([str(w) for w in words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=1500, **more)
    if (done.returncode == 0) != (status == 0):
        raise AssertionError(f"{' '.join(map(str, words))}: status {done.returncode}\n{done.stdout[-4000:]}")
    return done.stdout


class Install(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.prefix = pathlib.Path(cls.folder.name) / "prefix"
        for component in ("program", "development"):
            run(CMAKE, "--install", BUILD, "--prefix", cls.prefix, "--component", component)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def configure(self, text, status=0):
        folder = pathlib.Path(tempfile.mkdtemp(dir=self.folder.name))
        (folder / "CMakeLists.txt").write_text(text)
        return run(CMAKE, "-S", folder, "-B", folder / "build", f"-DCMAKE_PREFIX_PATH={self.prefix}", status=status)

    def test_the_program_runs_and_has_pages_and_completions(self):
        installed, built = self.prefix / "bin/twofold", BUILD / "experiments/program/twofold"
        self.assertEqual(run(installed, "--version"), run(built, "--version"))
        self.assertEqual((self.prefix / "share/man/man1/twofold-run.1").read_text(), run(built, "man", "run"))
        for shell, file in {"bash": "bash-completion/completions/twofold", "zsh": "zsh/site-functions/_twofold",
                            "fish": "fish/vendor_completions.d/twofold.fish"}.items():
            self.assertEqual((self.prefix / "share" / file).read_text(), run(built, "completion", shell))

    def test_installed_headers_include_installed_headers_alone(self):
        headers = self.prefix / "include/twofold"
        found, folders = 0, {path.name for path in headers.iterdir()}
        self.assertEqual(folders, {"core", "kernels", "topologies", "sim", "backends", "strategies"})
        for path in headers.rglob("*.h"):
            for name in re.findall(r'^\s*#\s*include\s+"([^"]+)"', path.read_text(), re.M):
                if name.split("/")[0] in folders:
                    found += 1
                    self.assertTrue((headers / name).is_file(), f"{path} includes {name}, which is not installed")
        self.assertGreater(found, 100)

    def test_nothing_installed_names_the_build_or_the_checkout(self):
        for path in [*(self.prefix / "lib").rglob("*.cmake"), *(self.prefix / "include").rglob("*.h")]:
            text = path.read_text()
            self.assertNotIn(str(BUILD), text, path)
            self.assertNotIn(str(ROOT) + "/", text, path)

    def test_find_package_finds_it_and_says_what_is_lacking(self):
        self.configure(PROJECT.format(version="0.1", components="core strategies simulated"))
        answer = self.configure(PROJECT.format(version="0.1", components="core infiniband"), status=1)
        self.assertRegex(" ".join(answer.split()), r'component "infiniband" was asked for; the Twofold in \S+ has: core, strategies, simulated')
        self.configure(PROJECT.format(version="99.0", components="core"), status=1)

    def test_the_template_project_does_without_googletest(self):
        build = pathlib.Path(self.folder.name) / "without-googletest"
        answer = run(CMAKE, "-S", self.prefix / "share/doc/libtwofold-dev/own-project", "-B", build, f"-DCMAKE_PREFIX_PATH={self.prefix}",
                     "-DCMAKE_DISABLE_FIND_PACKAGE_GTest=ON")
        self.assertIn("the test is left out; install libgtest-dev", answer)

    @unittest.skipUnless(COMPILE, "takes a minute: --compile")
    def test_the_template_project_builds_and_passes_its_test(self):
        build = pathlib.Path(self.folder.name) / "own-project"
        run(CMAKE, "-S", self.prefix / "share/doc/libtwofold-dev/own-project", "-B", build, f"-DCMAKE_PREFIX_PATH={self.prefix}")
        run(CMAKE, "--build", build, "-j", os.cpu_count())
        run(build / "ring_averaging_test")
        answer = run(build / "predict_and_measure")
        self.assertRegex(answer, r"simulated +64 ranks .* \(predicted\)\n.*in_memory +4 ranks .* loss ")

    @unittest.skipUnless(COMPILE, "takes a minute: --compile")
    def test_the_template_project_takes_a_checkout(self):
        build = pathlib.Path(self.folder.name) / "with-checkout"
        run(CMAKE, "-S", ROOT / "examples/own-project", "-B", build, f"-DTWOFOLD_SOURCE={ROOT}", "-DTWOFOLD_CUDA=OFF")
        run(CMAKE, "--build", build, "-j", os.cpu_count(), "--target", "twofold_topologies")  # a library that reads files of the checkout


if __name__ == "__main__":
    unittest.main()
