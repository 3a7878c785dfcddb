#!/usr/bin/env python3
"""Registers, local memory, shared memory and occupancy of every kernel: the table of docs/gpu_kernels.md, and its checks.

  kernel_table.py --check OBJECTS           OBJECTS is a folder with objects of nvcc, as build/release/kernels/cuda; none may have become worse
  kernel_table.py --write OBJECTS ...       writes the table; columns of architectures that these objects lack stay as they are
  kernel_table.py --check-launches RECORD   what the emulation has launched (TWOFOLD_EMULATED_LAUNCHES) is in kernels/cuda/launches.csv
  kernel_table.py --add-launches RECORD ... adds it to that file

--check fails if a kernel uses local memory that ALLOWED does not list (spilled registers, or an array with variable indices), if its occupancy is
lower than the table says, or if the table lacks a kernel or has one too many. The exit status is 1 then, and 2 if something cannot be read.
"""
import argparse
import csv
import collections
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import cubins  # noqa: E402
import occupancy  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[1]
PAGE, LAUNCHES = ROOT / "docs/gpu_kernels.md", ROOT / "kernels/cuda/launches.csv"
BEGIN, END = "<!-- scripts/kernel_table.py writes from here -->", "<!-- to here -->"

# Kernels that may use local memory, so many bytes a thread, and why that does no harm. Nor does it in F64, which serves comparisons.
ALLOWED = {
    "FillRotaryTable<": (40, "runs once for each table; sines of large angles need an array"),
    "SweepElements<1, 4, DrawElements<": (40, "draws initial values; cosines of large angles need an array"),
    "SweepElements<1, 2, DrawElements<": (40, "draws initial values; cosines of large angles need an array"),
    "BackwardOfQueries<": (8, "attention without tensor cores; two blocks of 128 registers are faster than one of more (expected, not measured)"),
    "BackwardOfKeys<float>": (8, "attention without tensor cores, as above"),
    "SoftmaxBackward<float, 1, true>": (8, "unfused attention in F32, on compute capability 8.0 alone"),
}


class Trouble(Exception):
    pass


def in_f64(name):
    return "double" in name


def allowed_local(name):
    return max((most for start, (most, _) in ALLOWED.items() if name.startswith(start)), default=0)


def family(name):
    return name.split("<")[0]


def parts_of(name):
    """Forward<Bf16, 128> -> Forward, [Bf16, 128]."""
    head, _, rest = name.partition("<")
    return head, [a.strip() for a in rest.rsplit(">", 1)[0].split(",")] if rest else []


def row_name(name, with_dynamic):
    """Variants of a kernel share a row, but if they have dynamic shared memory only those that need as much of it: FlashForward<128>."""
    head, arguments = parts_of(name)
    numbers = [a for a in arguments if a.isdigit() or a == "double"] if head in with_dynamic else []
    return f"{head}<{', '.join(numbers)}>" if numbers else head


def read_launches():
    with LAUNCHES.open() as file:
        return {(r["kernel"], int(r["threads"]), int(r["dynamic_shared"])) for r in csv.DictReader(file)}


def write_launches(launches):
    with LAUNCHES.open("w") as file:
        file.write("kernel,threads,dynamic_shared\n")
        file.writelines(f'"{k}",{t},{d}\n' if "," in k else f"{k},{t},{d}\n" for k, t, d in sorted(launches))


def recorded(paths):
    """What records of the emulation have, with the names of rows."""
    raw = collections.defaultdict(set)
    for path in paths:
        for line in pathlib.Path(path).read_text().splitlines():
            program, offset, threads, dynamic = line.rsplit(" ", 3)
            raw[program].add((int(offset, 16), int(threads), int(dynamic)))
    launches = []
    for program, rows in raw.items():
        names = collections.defaultdict(list)
        elf = cubins.Elf(pathlib.Path(program).read_bytes())
        for name, value in elf.symbols():
            if name.startswith("_ZN7twofold4cuda") and "_test" not in name:  # others are kernels of tests
                names[value - elf.first_address()].append(name)
        offsets = sorted({offset for offset, _, _ in rows if offset in names})
        if not offsets:
            raise Trouble(f"{program}: it has no symbols of recorded kernels; was it built anew after it was recorded?")
        plain = dict(zip(offsets, cubins.demangled([min(names[offset]) for offset in offsets])))
        launches += [(plain[offset], threads, dynamic) for offset, threads, dynamic in rows if offset in plain]
    with_dynamic = {family(name) for name, _, dynamic in launches if dynamic > 0}
    return {(row_name(name, with_dynamic), threads, dynamic) for name, threads, dynamic in launches}


def unknown(launches, known):
    """Complaints about launches with other shared memory, or with fewer or more threads, than any known one. (Threads may depend on sizes.)"""
    complaints = []
    for name, threads, dynamic in sorted(launches):
        alike = [t for k, t, d in known if (k, d) == (name, dynamic)]
        if not alike or not min(alike) <= threads <= max(alike):
            complaints.append(f"{LAUNCHES.relative_to(ROOT)} lacks {name} with {threads} threads and {dynamic} bytes of dynamic shared memory; run --add-launches, then --write")
    return complaints


def figures(objects, launches):
    """{row: {architecture: (variants, registers, static shared, local bytes, Occupancy of the worst)}}, and the complaints."""
    by_row = collections.defaultdict(set)
    for name, threads, dynamic in launches:
        by_row[name].add((threads, dynamic))
    with_dynamic = {family(name) for name, blocks in by_row.items() if any(d > 0 for _, d in blocks)}
    rows, complaints = collections.defaultdict(dict), []
    grouped = collections.defaultdict(list)
    for kernel in cubins.kernels_of(objects):
        grouped[row_name(kernel.name, with_dynamic), kernel.architecture].append(kernel)
    for (name, architecture), kernels in sorted(grouped.items()):
        if name not in by_row:
            complaints.append(f"{name}: {LAUNCHES.relative_to(ROOT)} does not say with what blocks it is launched; let a GPU test launch it, and run --add-launches")
            continue
        for kernel in kernels:
            if kernel.local_bytes > allowed_local(kernel.name) and not in_f64(kernel.name):
                complaints.append(f"sm_{architecture} {kernel.name}: {kernel.local_bytes} bytes of local memory a thread, with {kernel.registers} registers; "
                                  "a kernel must keep its values in registers")
        judged = [k for k in kernels if not in_f64(k.name)] or kernels
        worst = min((occupancy.occupancy(architecture, k.registers, threads, k.static_shared + dynamic)
                     for k in judged for threads, dynamic in by_row[name]), key=lambda o: o.percent)
        rows[name][architecture] = (len(kernels), max(k.registers for k in judged), max(k.static_shared for k in judged),
                                    max(k.local_bytes for k in judged), worst)
    for name in sorted(set(by_row) - {name for name, _ in grouped}):
        complaints.append(f"{name}: {LAUNCHES.relative_to(ROOT)} has this kernel, but the objects do not; remove its lines")
    return rows, by_row, complaints


HEAD = ["kernel", "variants", "threads", "dynamic shared"] + [f"{what}, {cc}" for cc in ("8.0", "9.0") for what in ("registers", "static shared", "local", "blocks", "occupancy")] + ["limit, 9.0"]
ARCHITECTURES = (80, 90)


def read_table():
    """{row: {head: cell}}."""
    text = PAGE.read_text()
    if BEGIN not in text or END not in text:
        raise Trouble(f"{PAGE}: the marks around the table are missing ({BEGIN})")
    lines = [line for line in text.split(BEGIN)[1].split(END)[0].splitlines() if line.startswith("| ")]
    cells = [[c.strip() for c in line.strip("|").split("|")] for line in lines]
    return {row[0].strip("`"): dict(zip(cells[0], row)) for row in cells[1:] if not row[0].startswith("-")} if cells else {}


def span(numbers):
    numbers = sorted(numbers)
    return f"{numbers[0]:,}" if len(numbers) == 1 or numbers[0] == numbers[-1] else f"{numbers[0]:,} to {numbers[-1]:,}"


def row_text(name, by_architecture, blocks, old):
    row = {"kernel": f"`{name}`", "variants": str(max((f[0] for f in by_architecture.values()), default=0)),
           "threads": span({t for t, _ in blocks}), "dynamic shared": span({d for _, d in blocks})}
    for architecture in ARCHITECTURES:
        cc = f"{architecture // 10}.{architecture % 10}"
        columns = [f"{what}, {cc}" for what in ("registers", "static shared", "local", "blocks", "occupancy")]
        if architecture in by_architecture:
            _, registers, static, local, worst = by_architecture[architecture]
            row |= dict(zip(columns, (str(registers), f"{static:,}", str(local), str(worst.blocks), f"{worst.percent:.1f} %")))
            if architecture == 90:
                row["limit, 9.0"] = worst.limit
        else:
            row |= {c: old.get(c, "") for c in columns}
    row.setdefault("limit, 9.0", old.get("limit, 9.0", ""))
    return "| " + " | ".join(row[h] for h in HEAD) + " |"


def write_table(rows, by_row):
    old = read_table()
    table = ["| " + " | ".join(HEAD) + " |", "|---|" + "---:|" * (len(HEAD) - 2) + "---|"]
    table += [row_text(name, rows[name], by_row[name], old.get(name, {})) for name in sorted(rows)]
    text = PAGE.read_text()
    PAGE.write_text(text.split(BEGIN)[0] + BEGIN + "\n\n" + "\n".join(table) + "\n\n" + END + text.split(END)[1])


def compare(rows):
    table, complaints = read_table(), []
    for name, by_architecture in sorted(rows.items()):
        if name not in table:
            complaints.append(f"{name}: {PAGE.relative_to(ROOT)} lacks this kernel; run --write")
            continue
        for architecture, (_, registers, _, _, worst) in by_architecture.items():
            if architecture not in ARCHITECTURES:
                continue
            cell = table[name].get(f"occupancy, {architecture // 10}.{architecture % 10}", "")
            if not re.fullmatch(r"[\d.]+ %", cell):
                complaints.append(f"{name}: {PAGE.relative_to(ROOT)} has no occupancy for sm_{architecture}; run --write")
            elif worst.percent < float(cell.split()[0]) - 0.05:
                complaints.append(f"sm_{architecture} {name}: occupancy has fallen from {cell} to {worst.percent:.1f} %, limited by {worst.limit} ({registers} registers a thread)")
    for name in sorted(set(table) - set(rows)):
        complaints.append(f"{name}: {PAGE.relative_to(ROOT)} has this kernel, but the objects do not; run --write")
    return complaints


def missing(architectures, rows):
    """Complaints if kernels were not compiled for just these architectures."""
    if not all(a[:1].isdigit() for a in architectures):  # native, all: unknown here
        return []
    wanted = {int(re.match(r"\d+", a).group()) for a in architectures if not a.endswith("-virtual")}
    return [f"{name}: compiled for {sorted(by)}, but the build is for {sorted(wanted)}" for name, by in sorted(rows.items()) if set(by) != wanted]


def objects_in(folders):
    paths = [p for folder in folders for p in sorted(pathlib.Path(folder).rglob("*.cu.o"))]
    if not paths:
        raise Trouble(f"{', '.join(map(str, folders))}: no objects of nvcc (*.cu.o); build with -DTWOFOLD_CUDA=ON")
    return paths


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    group = parser.add_mutually_exclusive_group(required=True)
    for option in ("--check", "--write"):
        group.add_argument(option, nargs="+", metavar="OBJECTS")
    for option in ("--check-launches", "--add-launches"):
        group.add_argument(option, nargs="+", metavar="RECORD")
    parser.add_argument("--architectures", nargs="+", metavar="90a", help="with --check: what the objects must have been compiled for, as CMAKE_CUDA_ARCHITECTURES has it")
    options = parser.parse_args()
    complaints, done = [], "written"
    try:
        if options.add_launches:
            write_launches((read_launches() if LAUNCHES.exists() else set()) | recorded(options.add_launches))
        elif options.check_launches:
            launches = recorded(options.check_launches)
            complaints = unknown(launches, read_launches())
            done = f"{len(launches)} launches are in the file"
        else:
            rows, by_row, complaints = figures(objects_in(options.check or options.write), read_launches())
            if options.architectures:
                complaints += missing(options.architectures, rows)
            if options.write:
                write_table(rows, by_row)
            else:
                complaints += compare(rows)
            variants = sum(max(f[0] for f in r.values()) for r in rows.values())
            done = f"{len(rows)} rows, {variants} kernels, for {', '.join(sorted({f'sm_{a}' for r in rows.values() for a in r}))}"
    except (Trouble, cubins.BadObject, OSError) as e:
        print(f"kernel_table.py: {e}", file=sys.stderr)
        return 2
    print("\n".join([*complaints, done if not complaints else f"{len(complaints)} complaints"]))
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
