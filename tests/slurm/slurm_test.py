#!/usr/bin/env python3
"""The Slurm scripts of docs/launching.md and docs/elastic_training.md, in a real cluster of two nodes on this machine.

    tests/slurm/slurm_test.py PATH_OF_TWOFOLD [TEST ...]
"""
import csv
import json
import os
import pathlib
import re
import sys
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import cluster as slurm  # noqa: E402

PROGRAM = pathlib.Path(sys.argv.pop(1)).resolve()
WITH = {fabric: False for fabric in ("mpi", "gloo")}
# Both nodes' names are loopback addresses, at which rank 0 would not listen for other hosts.
SPEC = """
model {{ mlp {{ inputs: 64 hidden: [128, 128] classes: 8 }} }}
data {{ synthetic {{ samples: 1000 }} }}
parallel {{ dp: {ranks} }}
train {{ micro_batch: 8 global_batch: 64 steps: {steps} {more} }}
fabric {{ rendezvous {{ bind: "0.0.0.0" }} }}
"""
# The tests' `twofold`: a job that Slurm has started again waits until the test has written how many steps it shall do.
WRAPPER = """#!/bin/bash
if ((${SLURM_RESTART_COUNT:-0} > 0)); then until [[ -e steps_are_known ]]; do sleep 0.05; done; fi
exec %s "$@"
"""
MANY_STEPS = 50000  # so that a run ends some day, even if the test is killed


def script(page, having):
    """The Slurm script of a page that has this text, with Gloo for NCCL, as there are no GPUs."""
    blocks = re.findall(r"```\n(#!/bin/bash\n.*?)```", (ROOT / "docs" / page).read_text(), re.DOTALL)
    found, = [block for block in blocks if having in block]
    return found.replace("--fabric=nccl", "--fabric=gloo").replace(" --gpus-per-node=8", "")


def losses(folder):
    """The loss of each step of a run, by the step's number, as written in its report."""
    report = json.loads((folder / "report.json").read_text())
    return {report.get("first_step", 0) + i: step["loss"] for i, step in enumerate(report["steps"])}


class Slurm(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = slurm.Cluster(path="bin")  # in the folder of a job
        cls.addClassCleanup(cls.cluster.close)
        version = cls.cluster.call(PROGRAM, "--version")
        fabrics = re.search(r"^fabrics: (.*)$", version, re.MULTILINE)[1].split(", ")
        WITH.update({fabric: fabric in fabrics for fabric in WITH})

    def setUp(self):
        self.folder = self.cluster.folder / self._testMethodName
        (self.folder / "bin").mkdir(parents=True)
        wrapper = self.folder / "bin/twofold"
        wrapper.write_text(WRAPPER % PROGRAM)
        wrapper.chmod(0o755)
        self.cluster.environment["PATH"] = f"{self.folder}/bin:{slurm.SYSTEM_PATH}"

    def needs(self, fabric):
        if not WITH[fabric]:
            self.skipTest(f"this build has no fabric {fabric}")

    def spec(self, **values):
        (self.folder / "my.textproto").write_text(SPEC.format(**{"more": "", **values}))

    def submit(self, text, *options):
        (self.folder / "job.sh").write_text(text)
        return self.cluster.submit("job.sh", "--output=job.out", *options, cwd=self.folder)

    def output(self):
        file = self.folder / "job.out"
        return file.read_text() if file.exists() else ""

    def ends(self, job, state="COMPLETED"):
        try:
            self.cluster.wait_for(lambda: not {"PENDING", "RUNNING", "COMPLETING"} & set(self.cluster.state(job).split()),
                                  f"the end of job {job}")
        except RuntimeError as error:
            self.fail(f"{error}\nThe job's output:\n{self.output()}")
        self.assertEqual(set(self.cluster.state(job).split()), {state}, f"{self.output()}\n{self.cluster.logs()}")

    def report(self, folder):
        return json.loads((self.folder / folder / "report.json").read_text())

    def undisturbed(self, ranks, steps):
        """The losses of the same training on threads: with two ranks sums have one order, on all fabrics. On a busy machine it may take longer than the job."""
        self.cluster.call(PROGRAM, "run", "my.textproto", "--fabric=in_memory", "--quiet", "--out=undisturbed",
                          f"--set=parallel.dp={ranks}", f"--set=train.steps={steps}", cwd=self.folder, timeout=300)
        return losses(self.folder / "undisturbed")

    def expect_run(self, fabric, text):
        self.needs(fabric)
        self.spec(ranks=4, steps=5)
        self.ends(self.submit(text, "--ntasks-per-node=2"))
        report = self.report(f"runs/my-{fabric}")
        self.assertEqual((report["outcome"], report["world_size"], len(report["steps"])), ("OK", 4, 5))
        self.assertEqual(len(report["ranks"]), 4)
        for (step, loss), expected in zip(losses(self.folder / f"runs/my-{fabric}").items(), self.undisturbed(4, 5).values()):
            self.assertAlmostEqual(loss, expected, delta=1e-5 * expected, msg=f"step {step}")

    def test_a_run_on_gloo(self):
        self.expect_run("gloo", script("launching.md", "--fabric=nccl"))

    def test_a_run_on_mpi(self):
        self.expect_run("mpi", script("launching.md", "--fabric=mpi"))

    def test_a_script_that_launch_prints(self):
        self.needs("gloo")
        self.spec(ranks=4, steps=5)
        words = ("launch", "--slurm", "--ranks=4", "--nodes=2", "--time=10", "--", "run", "my.textproto", "--fabric=gloo")
        self.expect_run("gloo", self.cluster.call(PROGRAM, *words, cwd=self.folder))

    def test_doctor_on_each_node(self):
        words, = re.findall(r"^(srun .* twofold doctor)$", (ROOT / "docs/launching.md").read_text(), re.MULTILINE)
        said = self.cluster.call(*words.replace("twofold", str(PROGRAM)).split(), cwd=self.folder, timeout=100)
        for node in "01":
            self.assertRegex(said, rf"(?m)^{node}: 0 faults, ")
            self.assertRegex(said, rf"(?m)^{node}: ok     launcher          this process is rank {node} of 2, started by Slurm's srun")

    def test_a_run_on_mpi_without_pmix(self):
        self.needs("mpi")
        self.spec(ranks=2, steps=1)
        with self.assertRaisesRegex(RuntimeError, r"Slurm's srun\) does not tell MPI so; .* `srun --mpi=pmix -n 2 twofold"):
            self.cluster.call("srun", "--ntasks=2", "--mpi=none", PROGRAM, "run", "my.textproto", "--fabric=mpi", cwd=self.folder)

    def test_an_array_of_points_of_a_sweep(self):
        self.needs("gloo")
        self.spec(ranks=1, steps=5)
        text = script("launching.md", "--array")
        self.ends(self.submit(text, "--output=job-%a.out"))
        collect = text.splitlines()[-1].replace("$SLURM_ARRAY_TASK_ID", "1,2,4")
        output = self.cluster.call(*collect.split(), cwd=self.folder)
        self.assertIn("9 runs of 9 of an earlier sweep", output)  # three points, three times each
        with open(self.folder / "runs/my-sweep/sweep.csv") as file:
            self.assertEqual([row["parallel.dp"] for row in csv.DictReader(file)], ["1", "2", "4"])

    # The script of docs/elastic_training.md.

    def begin_job_that_requeues(self, *options):
        self.needs("gloo")
        self.spec(ranks=2, steps=MANY_STEPS, more="checkpoint {}")
        job = self.submit(script("elastic_training.md", "--requeue"), "--ntasks-per-node=1", *options)
        self.cluster.wait_for(lambda: "step 1 of" in self.output(), "the first step of the job")
        return job

    def expect_resumed(self, job, seconds=20):
        """That the job has saved and is in the queue again; then it does five steps more, as if nothing had happened."""
        folder = self.folder / "runs/my"
        self.cluster.wait_for(lambda: (folder / "report.json").exists(), "the report of the first part", seconds)
        first = self.report("runs/my")
        self.assertEqual(first["outcome"], "INTERRUPTED", first.get("message"))
        done = len(first["steps"])
        self.assertIn(f"it saved a checkpoint after step {done}", first["message"])
        before = losses(folder)
        self.spec(ranks=2, steps=done + 5, more="checkpoint {}")
        (self.folder / "steps_are_known").touch()
        self.cluster.wait_for(lambda: self.cluster.state(job) == "PENDING", f"job {job} in the queue again")
        # Slurm would let it wait for two minutes. But slurmd refuses a job in the second in which it has ended its first part.
        self.cluster.wait_for(lambda: not self.cluster.steps(job), f"the end of job {job}'s steps")
        time.sleep(1.5)
        self.cluster.call("scontrol", "update", f"JobId={job}", "StartTime=now")
        self.ends(job)
        self.assertEqual(self.report("runs/my")["outcome"], "OK")
        after = losses(folder)
        self.assertEqual(list(after), list(range(done, done + 5)))
        self.assertEqual({**before, **after}, self.undisturbed(2, done + 5))

    def test_a_job_that_is_told_to_end_resumes(self):
        job = self.begin_job_that_requeues()
        self.cluster.call("scancel", "--signal=TERM", job)
        self.expect_resumed(job)

    def test_a_job_that_is_preempted_resumes(self):
        job = self.begin_job_that_requeues()
        urgent = self.submit("#!/bin/bash\nsleep 0.1\n", "--partition=urgent", "--nodes=2", "--exclusive", "--output=urgent.out")
        self.expect_resumed(job)
        self.ends(urgent)

    def test_z_a_job_whose_time_is_up_resumes(self):
        """Slurm looks at time limits every 30 s: the last test, and it begins shortly before."""
        time.sleep(max(0, self.cluster.began + 26 - time.monotonic()))
        job = self.begin_job_that_requeues("--time=1", "--signal=USR1@60")
        self.expect_resumed(job, seconds=40)


if __name__ == "__main__":
    lacking = slurm.missing()
    if lacking:
        print(f"SKIPPED: Slurm is not installed ({', '.join(lacking)} not found); scripts/setup.sh installs it", file=sys.stderr)
        sys.exit(77)
    unittest.main(verbosity=2)
