#!/usr/bin/env python3
"""What ptxas says of Hopper's attention kernel: hopper_test.py NVCC

  * It compiles it for sm_90a without spills, and leaves the products asynchronous. Where a thread touches registers of a product under way ptxas
    puts in waits, and says so (C7517, C7519, C7520 and others about warpgroup and wgmma).
  * The same text with such a mistake makes it say that.
"""
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
SOURCE = ROOT / "kernels/cuda/attention_hopper.cu"
LAST = "16, 1024), k > 0);"  # of the products that start scores


def said_of(nvcc, source, made):
    command = [nvcc, "-arch=sm_90a", "-cubin", "-std=c++20", "-O3", "--expt-relaxed-constexpr", f"-I{ROOT}", "-Xptxas", "-v", source, "-o", made]
    return subprocess.run(command, capture_output=True, text=True, check=True).stderr


def complaints_of(said):
    spills = [f"spills: {line.strip()}" for line in said.splitlines() if re.search(r"[1-9]\d* bytes (stack frame|spill)", line)]
    return spills + [line.strip() for line in said.splitlines() if re.search(r"\(C75\d\d\)|wgmma|warpgroup|setmaxnreg", line)]


def main():
    nvcc = sys.argv[1]
    with tempfile.TemporaryDirectory() as folder:
        made, bad = pathlib.Path(folder) / "made.cubin", pathlib.Path(folder) / "bad.cu"
        said = said_of(nvcc, SOURCE, made)
        complaints = complaints_of(said)
        registers = sorted(int(r) for r in re.findall(r"Used (\d+) registers", said))
        if registers != [128, 128, 168, 168]:  # 65,536 by the threads of a block: what setmaxnreg goes on from
            complaints.append(f"registers of a thread at its start are {registers}, wanted 128 and 168 twice each")
        text = SOURCE.read_text()
        assert text.count(LAST) == 1, f"{SOURCE} has no line that ends with {LAST}"
        bad.write_text(text.replace(LAST, LAST + "\n    if (k == 2) scores[0][3][1] += 1;"))
        if not any("wgmma" in c for c in complaints_of(said_of(nvcc, bad, made))):
            complaints.append("ptxas says nothing of a kernel that touches the registers of a product under way")
    print("\n".join([*complaints, f"{len(complaints)} complaints"]))
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
