#!/usr/bin/env python3
"""What would go wrong on the first GPU and can be seen in the sources: gpu_source_test.py

  * Instructions that one architecture alone has (wgmma, tcgen05 and others of sm_90a and sm_100a) stand behind a guard of that architecture.
  * PTX is in hopper.h, mma.h and numbers.h alone, so that the rule above has few places to look at.
  * events.cc alone calls cudaSetDevice, because it keeps what it was last called with (cuda::MakeCurrent).
  * Nobody catches CudaError in order to try another way, but through cuda::WhyNot, which lets an error of the GPU pass (kernels/cuda/error.h).
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Instructions, and the macro of the compiler that must be tested around them.
GUARDED = [(re.compile(r"\b(wgmma|setmaxnreg)\b"), "__CUDA_ARCH_FEAT_SM90_ALL"), (re.compile(r"\btcgen05\b"), "__CUDA_ARCH_FEAT_SM100_ALL"),
           (re.compile(r"\b(m16n8k32)\b"), "__CUDA_ARCH__ >= 890"),
           (re.compile(r"\b(mbarrier\.try_wait|cp\.async\.bulk|griddepcontrol|barrier\.cluster)\b"), "__CUDA_ARCH__ >= 900")]
STRICTER = {"__CUDA_ARCH__ >= 900": "__CUDA_ARCH_FEAT_SM90_ALL"}  # guards that do as well
PTX = ("mma.h", "numbers.h", "hopper.h")
CATCHERS = {"error.h": "WhyNot itself", "streams.cc": "CudaEvent::Done leaves the error to Wait", "streams.h": "adds the rank to the message",
            "graphs.cc": "ends the capture, and throws it again", "cuda_mover.cc": "makes it a status",
            "graph_plan.cc": "asks for the next engine; makes descriptors on the host, and runs nothing"}


def code_of(text):
    """The lines, without comments, and for each the conditions of #if that it stands in."""
    lines, conditions = [], []
    for line in text.splitlines():
        directive = re.match(r"\s*#\s*(if|ifdef|ifndef|elif|else|endif)\b(.*)", line)
        if directive:
            word, rest = directive.groups()
            if word.startswith("if"):
                conditions.append(rest)
            elif word in ("elif", "else") and conditions:
                conditions[-1] = rest if word == "elif" else ""
            elif word == "endif" and conditions:
                conditions.pop()
        lines.append((re.sub(r"//.*", "", line), list(conditions)))
    return lines


def complaints_of(name, text):
    complaints = []
    for number, (line, conditions) in enumerate(code_of(text), 1):
        for pattern, guard in GUARDED:
            found = pattern.search(line)
            if found and not any(g in c for c in conditions for g in (guard, STRICTER.get(guard, guard))):
                complaints.append(f"{name}:{number}: {found.group(1)} needs #if {guard}: other architectures lack it")
        if re.search(r"\basm\b", line) and name not in PTX:
            complaints.append(f"{name}:{number}: PTX belongs in {', '.join(PTX)}")
        if re.search(r"\bcudaSetDevice\b", line) and name != "events.cc":
            complaints.append(f"{name}:{number}: use cuda::MakeCurrent, which knows whether the call is needed")
        if re.search(r"catch \((const )?(cuda::)?CudaError\b", line) and name not in CATCHERS:
            complaints.append(f"{name}:{number}: use cuda::WhyNot, which tells a library that refuses from a GPU that has failed")
    return complaints


def self_check():
    """The rules find what they are for."""
    bad = {"a wgmma without a guard": ("mma.h", 'asm("wgmma.mma_async;");', 1),
           "one behind the wrong guard": ("mma.h", '#if __CUDA_ARCH__ >= 900\nasm("wgmma.mma_async;");\n#endif', 1),
           "one behind its guard": ("mma.h", '#ifdef __CUDA_ARCH_FEAT_SM90_ALL\nasm("wgmma.mma_async;");\n#endif', 0),
           "one in the other branch": ("mma.h", '#ifdef __CUDA_ARCH_FEAT_SM90_ALL\n#else\nasm("wgmma.mma_async;");\n#endif', 1),
           "a bulk copy behind the stricter guard": ("hopper.h", '#ifdef __CUDA_ARCH_FEAT_SM90_ALL\nasm("cp.async.bulk;");\n#endif', 0),
           "a bulk copy behind the emulation's": ("hopper.h", '#ifndef TWOFOLD_EMULATED_CUDA\nasm("cp.async.bulk;");\n#endif', 1),
           "a product of FP8 codes": ("mma.h", 'asm("mma.sync.aligned.m16n8k32;");', 1),
           "one behind its GPUs": ("mma.h", '#if A\n#elif __CUDA_ARCH__ >= 890\nasm("mma.sync.aligned.m16n8k32;");\n#endif', 0),
           "PTX elsewhere": ("loss.cu", 'asm("mov;");', 1), "a comment": ("loss.cu", "// asm and wgmma", 0),
           "a current GPU": ("memory.cc", "cudaSetDevice(gpu);", 1), "one by the rules": ("events.cc", "cudaSetDevice(gpu);", 0),
           "a catch": ("libraries.cc", "} catch (const CudaError&) {", 1), "a catch by the rules": ("streams.cc", "} catch (const CudaError&) {", 0)}
    return [f"self-check: {what}: {len(complaints_of(name, text))} complaints, wanted {want}" for what, (name, text, want) in bad.items()
            if len(complaints_of(name, text)) != want]


files = [p for folder in ("kernels/cuda", "backends/host", "backends/nccl", "backends/mpi") for pattern in ("*.cu", "*.h", "*.cc")
         for p in sorted((ROOT / folder).glob(pattern))]
complaints = self_check() + [c for path in files for c in complaints_of(path.name, path.read_text())]
if len(files) < 60:
    complaints.append(f"only {len(files)} sources of GPUs: not a checkout of Twofold?")
print("\n".join([*complaints, f"{len(files)} sources, {len(complaints)} complaints"]))
sys.exit(1 if complaints else 0)
