#!/usr/bin/env python3
"""What stands for a constant that one system alone calibrates, if that system is left out: clusters and a profile for the scoreboard."""
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from common import ROOT, Study  # noqa: E402
from common.published import Unseen  # noqa: E402
from tables import FOLDER  # noqa: E402

SUFFIX = "-left-out"
CATALOGUE = ROOT / "topologies/catalogue"
MI300X_SHARE = 500 / 1307.4  # of the data sheet's peak that is assumed of MI300X (its file says why), the only other GPU of AMD
MI250X_PEAK = 191.5
# Without llm.c nothing tells that H100 sustains less than its law: A100's share of Bekman's rate is above 1
HOPPER = Unseen("rate of H100's products in training", "llm.c", "the rate of its law, which is of products alone")
CDNA = Unseen("rate of MI250X's products in training", "LUMI", "the share of the peak that is assumed of MI300X")
TRITON = Unseen("Triton's attention on A100 (two factors)", "Mosaic, one node of A100-80GB", "1: the law's, of FlashAttention-2, as in PYTORCH_EAGER")
ASSUMED = 0.3  # half-width for a rate that is assumed, as of MI300X; it was chosen when H100's rate was known (README.md)
SOURCES = ("without llm.c: the law's own rate", "without LUMI: MI300X's share of the peak")  # of a rate of 0, and of others
# A cluster's file, and the rate of products in training that it is left with; 0: of the law
CLUSTERS = {CATALOGUE / "dgx-h100.textproto": 0, FOLDER / "fms-h100.textproto": 0, FOLDER / "lumi.textproto": MI300X_SHARE * MI250X_PEAK}
PROFILE = FOLDER / "llm-foundry.textproto"


def left_out(path):
    return FOLDER / f"{path.stem}{SUFFIX}{path.suffix}"


def of_case(case):
    """(Unseen, settings that differ) of a row whose prediction rests on such a constant; None: it does not."""
    cluster = lambda path: {"fabric.simulated.cluster": left_out(path)}
    if case["table"] == "mosaic_h100" or (case["table"] == "llmc" and case["gpu"] == "H100"):
        return HOPPER, cluster(CATALOGUE / "dgx-h100.textproto")
    if case["table"] == "fms" and case["gpu"] == "H100":
        return HOPPER, cluster(FOLDER / "fms-h100.textproto")
    if case["table"] == "lumi_time":
        return CDNA, cluster(FOLDER / "lumi.textproto")
    if case["table"] == "mosaic_a100":
        return TRITON, {"framework_profile": left_out(PROFILE)}
    return None


def texts():
    """{path: text} of what this study writes."""
    head = "# Written by leave_out.py.\n"
    found = {}
    for path, rate in CLUSTERS.items():
        laws = f'training_tflops: {rate:.3g} training_error: {ASSUMED} training_source: "{SOURCES[rate > 0]}"'
        text, count = re.subn(r'^device_profile: .*\n', lambda line: f"{line[0]}device {{ laws {{ {laws} }} }}\n", path.read_text(), flags=re.M)
        assert count == 1, path
        found[left_out(path)] = head + text.replace(f'name: "{path.stem}"', f'name: "{path.stem}{SUFFIX}"', 1)
    text, count = re.subn(r'^ *kernels \{ name: "attention_.*device: "A100" \}\n', "", PROFILE.read_text(), flags=re.M)
    assert count == 2, PROFILE
    found[left_out(PROFILE)] = head + text.replace('name: "llm-foundry"', f'name: "llm-foundry{SUFFIX}"', 1)
    return found


def main():
    study = Study(__file__, __doc__, needs="nothing.", takes="no time.", writes=f"*{SUFFIX}.textproto", always=True)
    study.parser.parse_args()
    for path, text in texts().items():
        path.write_text(text)


if __name__ == "__main__":
    main()
