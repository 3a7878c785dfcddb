"""Starts programs on the miniature cluster of experiments/studies/testbed."""
import contextlib

from .program import ROOT, run

TESTBED = ROOT / "experiments/studies/testbed/testbed.py"
EAGER_BYTES = 32 << 20  # larger than any message; what asking the receiver costs on a busy network varies by a third


@contextlib.contextmanager
def testbed(hosts, *shape):
    """A testbed that is up. Gives its structure as text, and the words that start a program on its hosts."""
    run([TESTBED, "down"])
    run([TESTBED, "up", f"--hosts={hosts}", *shape])
    try:
        yield run([TESTBED, "cluster"]).output, [TESTBED, "run", "--realtime", f"--eager-bytes={EAGER_BYTES}", "--"]
    finally:
        run([TESTBED, "down"])
