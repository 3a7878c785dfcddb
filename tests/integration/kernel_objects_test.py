#!/usr/bin/env python3
"""The objects of the kernels' levels (kernels/cpu/CMakeLists.txt): nothing in them but their table can be linked to, and no level uses
instructions of a higher one.

    tests/integration/kernel_objects_test.py NM OBJDUMP OBJECT...
"""
import re
import subprocess
import sys

# Registers that a level does not have.
FORBIDDEN = {"v2": re.compile(r"%[yz]mm"), "v3": re.compile(r"%zmm|%k[0-7]\b|%[xy]mm(1[6-9]|2\d|3[01])\b")}
REQUIRED = {"v3": re.compile(r"vfmadd.*%ymm"), "v4": re.compile(r"vfmadd.*%zmm")}


def faults(nm, objdump, path):
    level = re.search(r"kernels_(\w+)\.o$", path)[1]
    symbols = subprocess.run([nm, "--extern-only", "--defined-only", "-P", path], capture_output=True, text=True, check=True).stdout
    names = [line.split()[0] for line in symbols.splitlines()]
    if names != [f"twofold_kernels_{level}"]:
        yield f"defines {len(names)} names that others can link to, not its table alone: {names[:5]}"
    if level not in FORBIDDEN and level not in REQUIRED:
        return
    code = subprocess.run([objdump, "-d", "--no-show-raw-insn", path], capture_output=True, text=True, check=True).stdout
    if level in FORBIDDEN and (found := FORBIDDEN[level].search(code)):
        yield "has an instruction that the level lacks: " + code[code.rfind("\n", 0, found.start()) + 1:code.find("\n", found.end())].strip()
    if level in REQUIRED and not REQUIRED[level].search(code):
        yield "has no fused multiply-add of the level's registers"


def main():
    nm, objdump, *objects = sys.argv[1:]
    found = [f"{path}: {fault}" for path in objects for fault in faults(nm, objdump, path)]
    print("\n".join(found) or f"{len(objects)} objects are as they should be")
    return 1 if found or not objects else 0


if __name__ == "__main__":
    sys.exit(main())
