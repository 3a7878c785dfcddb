"""A Slurm cluster of two nodes on this machine: its own munged, slurmctld and slurmd, on loopback, in a temporary folder.

Needs Slurm with several slurmd per host (Debian's has it) and no privileges. The nodes are named 127.0.0.1 and 127.0.0.2, so that their
names are addresses.
"""
import contextlib
import getpass
import os
import pathlib
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "srun", "scontrol", "scancel", "squeue", "sinfo")
NODES = ("127.0.0.1", "127.0.0.2")
SYSTEM_PATH = "/usr/sbin:/usr/bin:/sbin:/bin"

CONFIGURATION = """
ClusterName=test
SlurmctldHost=localhost(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge/socket
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/%n.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerType=sched/builtin
SchedulerParameters=sched_interval=1,sched_min_interval=0
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
SlurmdParameters=config_overrides
ReturnToService=2
KillWait=10
NodeName=127.0.0.[1-2] NodeHostname=localhost Port=[{ports[1]}-{ports[2]}] CPUs=4
PartitionName=main Nodes=ALL Default=YES PriorityTier=1 GraceTime=20
PartitionName=urgent Nodes=ALL PriorityTier=2
"""


def missing():
    """The programs of Slurm and MUNGE that are not installed."""
    return [name for name in PROGRAMS if shutil.which(name, path=SYSTEM_PATH) is None]


def free_ports():
    """Three ports that follow each other."""
    for first in range(20000 + os.getpid() % 9000, 32000, 3):
        with contextlib.ExitStack() as held:
            try:
                for port in range(first, first + 3):
                    held.enter_context(socket.socket()).bind(("127.0.0.1", port))
            except OSError:
                continue
            return tuple(range(first, first + 3))
    raise RuntimeError("no three free ports follow each other between 20000 and 32000")


class Cluster:
    def __init__(self, path):
        """`path` is searched for programs before the system's folders, in jobs too."""
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="slurm-"))
        self.folder.chmod(0o755)
        self.daemons = {}
        # Open MPI takes ranks of one host for ranks of one node, and both nodes' ranks for the same: no shared memory.
        self.environment = {"PATH": f"{path}:{SYSTEM_PATH}", "HOME": str(self.folder), "LANG": "C.UTF-8",
                            "SLURM_CONF": str(self.folder / "slurm.conf"), "OMPI_MCA_btl": "self,tcp",
                            "OMPI_MCA_btl_tcp_if_include": "lo"}
        try:
            self._start()
        except BaseException:
            self.close()
            raise

    def _start(self):
        for name in ("munge", "state", *NODES, *(f"conf/{node}" for node in NODES), *(f"tmp/{node}" for node in NODES)):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        key = self.folder / "munge/key"
        key.touch(mode=0o600)
        key.write_bytes(secrets.token_bytes(128))
        files = (f"--{word}={self.folder}/munge/{file}" for word, file in
                 (("key-file", "key"), ("socket", "socket"), ("pid-file", "pid"), ("log-file", "log"), ("seed-file", "seed")))
        self._daemon("munged", "--foreground", "--force", *files)
        self.wait_for(lambda: (self.folder / "munge/socket").exists(), "munged's socket", 10)
        text = CONFIGURATION.format(folder=self.folder, ports=free_ports(), user=getpass.getuser())
        (self.folder / "slurm.conf").write_text(text)
        self._daemon("slurmctld", "-D", "-f", self.folder / "slurm.conf")
        self.began = time.monotonic()
        for node in NODES:  # PMIx's files of a step have the same names on all nodes: a folder for each
            (self.folder / "conf" / node / "slurm.conf").write_text(text)
            (self.folder / "conf" / node / "mpi.conf").write_text(f"PMIxCliTmpDirBase={self.folder}/tmp/{node}\n")
            self._daemon("slurmd", "-D", "-N", node, "-f", self.folder / "conf" / node / "slurm.conf", name=node)
        self.wait_for(lambda: self.call("sinfo", "-h", "-N", "-p", "main", "-o", "%T").split() == ["idle"] * len(NODES), "idle nodes", 20)

    def _daemon(self, *words, name=None):
        log = self.folder / f"{name or words[0]}.out"
        with open(log, "w") as out:
            self.daemons[name or words[0]] = (subprocess.Popen(
                ["setpriv", "--pdeathsig", "TERM", *map(str, words)], stdout=out, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, env=self.environment,
                cwd=self.folder, start_new_session=True), log)

    def call(self, *words, cwd=None, timeout=60):
        """The output of a command, which is expected to succeed within so many seconds."""
        result = subprocess.run([*map(str, words)], env=self.environment, cwd=cwd or self.folder, capture_output=True, text=True, timeout=timeout)
        if result.returncode != 0:
            raise RuntimeError(f"{' '.join(map(str, words))}: status {result.returncode}: {result.stderr}")
        return result.stdout

    def submit(self, script, *options, cwd):
        return self.call("sbatch", "--parsable", *options, script, cwd=cwd).strip()

    def state(self, job):
        """Such as RUNNING or COMPLETED; for an array, that of each of its jobs."""
        lines = self.call("scontrol", "show", "job", job).split()
        return " ".join(word.removeprefix("JobState=") for word in lines if word.startswith("JobState="))

    def steps(self, job):
        """Sockets of the processes that look after the job's steps, the batch script's too."""
        return [socket for node in NODES for socket in (self.folder / node).glob(f"{node}_{job}.*")]

    def wait_for(self, condition, what, seconds=60):
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            for name, (process, _) in self.daemons.items():
                if process.poll() is not None:
                    raise RuntimeError(f"{name} has ended with status {process.returncode}\n{self.logs()}")
            value = condition()
            if value:
                return value
            time.sleep(0.05)
        raise RuntimeError(f"{what}: not within {seconds} s\n{self.logs()}")

    def logs(self):
        return "\n".join(f"== {name}\n{log.read_text(errors='replace')[-2000:]}" for name, (_, log) in self.daemons.items())

    def close(self):
        """Ends all jobs and daemons, and removes the folder."""
        if "slurmctld" in self.daemons:
            with contextlib.suppress(RuntimeError, subprocess.TimeoutExpired):
                self.call("scancel", "--signal=KILL", "--full", "--user", getpass.getuser())
                self.call("scancel", "--user", getpass.getuser())
                self.wait_for(lambda: not self.call("squeue", "-h"), "the end of all jobs", 15)
        for name in (*NODES, "slurmctld", "munged"):
            process = self.daemons.get(name, (None,))[0]
            if process is None:
                continue
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)
