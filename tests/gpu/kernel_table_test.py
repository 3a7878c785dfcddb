#!/usr/bin/env python3
"""kernel_table.py finds what it is for: kernel_table_test.py CXX CUDA_INCLUDE NVCC ARCHITECTURE

  * Occupancies are those of NVIDIA's cuda_occupancy.h, on random kernels.
  * What cubins.py reads from an object is what ptxas says of it, for a kernel that spills and one that does not.
  * The table's checks fail for a kernel that spills, one with less occupancy, and one that is new or gone.
"""
import pathlib
import random
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts"))
import cubins  # noqa: E402
import kernel_table  # noqa: E402
import occupancy  # noqa: E402

KERNELS = """
__global__ void __launch_bounds__(192) Plain(float* x) { __shared__ float s[48]; s[threadIdx.x % 48] = *x; __syncthreads(); x[threadIdx.x] = s[0]; }
__global__ void Spills(float* x) {
  float a[64];
#pragma unroll
  for (int i = 0; i < 64; ++i) a[i] = x[i * 32];
  __syncthreads();
#pragma unroll
  for (int i = 0; i < 64; ++i) x[i * 32 + 1] = a[63 - i] * a[i];
}
"""


def check_rules(scratch, cxx, include):
    program = scratch / "rules"
    subprocess.run([cxx, "-w", f"-I{include}", pathlib.Path(__file__).with_name("occupancy_rules.cc"), "-o", program], check=True)
    draw = random.Random(1)
    cases = [(draw.choice(list(occupancy.GPUS)), draw.randint(8, 255), draw.choice([32, 64, 128, 256, 512, 1024, draw.randint(1, 1024)]),
              draw.choice([0, draw.randint(0, 60000), draw.randint(0, 232448)])) for _ in range(20000)]
    said = subprocess.run([program], input="\n".join(" ".join(map(str, c)) for c in cases), capture_output=True, text=True, check=True).stdout.split()
    ours = [occupancy.occupancy(*c).blocks for c in cases]
    wrong = [(c, o, int(s)) for c, o, s in zip(cases, ours, said) if o != int(s)]
    assert len(said) == len(cases) and not wrong, f"{len(wrong)} of {len(cases)} differ: (case, ours, NVIDIA's) {wrong[:3]}"
    assert len(set(ours)) > 20, "the cases are all alike"


def check_objects(scratch, nvcc, architecture):
    source, made = scratch / "kernels.cu", scratch / "kernels.cu.o"
    source.write_text(KERNELS)
    real = architecture.removesuffix("-real").removesuffix("-virtual")
    said = subprocess.run([nvcc, "-c", f"-gencode=arch=compute_{real},code=sm_{real}", "-maxrregcount=32", "--resource-usage", source, "-o", made],
                          capture_output=True, text=True, check=True).stderr
    read = {k.name: k for k in cubins.kernels_of([made])}
    assert set(read) == {"Plain", "Spills"}, read
    for name, frame, registers in re.findall(r"properties for _Z\d+(Plain|Spills)Pf\n\s*(\d+) bytes stack frame.*\n.*Used (\d+) registers", said):
        assert (read[name].local_bytes, read[name].registers) == (int(frame), int(registers)), f"{name}: {read[name]}; ptxas says:\n{said}"
    assert read["Spills"].local_bytes > 0 and read["Plain"].local_bytes == 0, f"wanted one to spill: {read}"
    assert read["Plain"].static_shared == 192 and read["Plain"].bound_threads == 192, read["Plain"]
    return made


def check_complaints(made):
    launches = {("Plain", 192, 0), ("Spills", 64, 0)}
    rows, _, complaints = kernel_table.figures([made], launches)
    assert len(rows) == 2 and len(complaints) == 1 and "Spills" in complaints[0] and "local memory" in complaints[0], complaints
    for changed, text in (({("Plain", 192, 0)}, "does not say with what blocks"), (launches | {("Gone", 32, 0)}, "Gone")):
        assert any(text in c for c in kernel_table.figures([made], changed)[2]), (text, changed)
    architecture = next(iter(rows["Plain"]))
    column = f"occupancy, {architecture // 10}.{architecture % 10}"
    table = {name: {column: f"{by[architecture][4].percent:.1f} %"} for name, by in rows.items()}
    kernel_table.read_table = lambda: table
    assert kernel_table.compare(rows) == []
    table["Plain"] = {column: "100.0 %"}
    assert ["occupancy has fallen" in c for c in kernel_table.compare(rows)] == [True], kernel_table.compare(rows)
    table["Gone"] = table.pop("Plain")
    assert len(kernel_table.compare(rows)) == 2, kernel_table.compare(rows)


def check_launches():
    known = {("A", 32, 0), ("A", 256, 0), ("B<64>", 128, 1024)}
    for launch, fine in ((("A", 96, 0), True), (("A", 512, 0), False), (("A", 32, 16), False), (("B<64>", 128, 1024), True), (("C", 32, 0), False)):
        assert (kernel_table.unknown({launch}, known) == []) == fine, launch
    assert kernel_table.row_name("Flash<Bf16, 128>", {"Flash"}) == "Flash<128>" and kernel_table.row_name("Flash<Bf16, 128>", set()) == "Flash"


with tempfile.TemporaryDirectory() as folder:
    check_rules(pathlib.Path(folder), *sys.argv[1:3])
    check_complaints(check_objects(pathlib.Path(folder), *sys.argv[3:5]))
    check_launches()
print("passed")
