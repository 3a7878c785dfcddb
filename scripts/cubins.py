"""What the GPU code inside compiled objects needs, read from the objects themselves: no GPU and no tool of CUDA takes part.

An object of nvcc has a section .nv_fatbin with one cubin for each architecture. A cubin is an ELF file (of the machine EM_CUDA) in which
kernel K has the sections .text.K and, if it needs shared memory, .nv.shared.K; the section .nv.info has a list of attributes. Each is one byte of
format, one of kind, and a 16-bit size or value; those used here (the names are those of `readelf` for CUDA, cuobjdump prints the same values)
are pairs of a symbol's index and a number:
  0x2f REGCOUNT    registers of a thread
  0x11 FRAME_SIZE  bytes of a thread's stack in local memory: registers that were spilled, and arrays that are indexed by variables
and, in .nv.info.K, three numbers:
  0x05 MAX_THREADS the block for which __launch_bounds__ compiled it
"""
import dataclasses
import pathlib
import struct
import subprocess

EM_CUDA = 190
REGISTERS, FRAME, BOUNDS = 0x2F, 0x11, 0x05
RESERVED_SHARED = 1024  # bytes of a block that the driver uses; cubins from compute capability 9.0 on include them in .nv.shared.K


class BadObject(Exception):
    pass


class Elf:
    """The sections of a 64-bit ELF file that begins at `start` of `data`."""

    def __init__(self, data, start=0):
        self.data, self.start = data, start
        if data[start:start + 5] != b"\x7fELF\x02":
            raise BadObject("not a 64-bit ELF file")
        self.machine, = struct.unpack_from("<H", data, start + 18)
        first, self.flags = struct.unpack_from("<QI", data, start + 40)
        size, count, names = struct.unpack_from("<HHH", data, start + 58)
        headers = [struct.unpack_from("<IIQQQQIIQQ", data, start + first + i * size) for i in range(count)]
        self.sections = [(self._text(headers[names][4], h[0]), h) for h in headers]

    def _text(self, table, offset):
        begin = self.start + table + offset
        return self.data[begin:self.data.index(b"\0", begin)].decode()

    def content(self, header):
        return self.data[self.start + header[4]:self.start + header[4] + header[5]]

    def first_address(self):
        """The address of the file's first byte: that of the segment that is loaded from offset 0."""
        first, = struct.unpack_from("<Q", self.data, self.start + 32)
        size, count = struct.unpack_from("<HH", self.data, self.start + 54)
        for i in range(count):
            kind, _, offset, address = struct.unpack_from("<IIQQ", self.data, self.start + first + i * size)
            if kind == 1 and offset == 0:  # PT_LOAD
                return address
        return 0

    def symbols(self):
        """Pairs of name and value, by index."""
        for _, header in self.sections:
            if header[1] == 2:  # SHT_SYMTAB
                table, strings = self.content(header), self.sections[header[6]][1][4]
                return [(self._text(strings, name), value) for name, _, _, _, value, _ in struct.iter_unpack("<IBBHQQ", table)]
        return []


@dataclasses.dataclass
class Kernel:
    name: str  # demangled, without namespaces
    architecture: int  # 90
    registers: int
    local_bytes: int  # of a thread
    static_shared: int  # bytes of a block, without those that are reserved
    bound_threads: int  # 0 without __launch_bounds__


def attributes(info):
    """Pairs of kind and value, which is bytes if the attribute has a size."""
    at = 0
    while at < len(info):
        form, kind, size = struct.unpack_from("<BBH", info, at)
        if form not in (1, 2, 3, 4):
            raise BadObject(f"attribute {kind:#x} has the unknown format {form}")
        at += 4
        if form == 4:
            yield kind, info[at:at + size]
            at += size
        else:
            yield kind, size


def kernels_of_cubin(elf):
    architecture = elf.flags >> 8 & 0xFF
    symbols = elf.symbols()
    by_name = {name: header for name, header in elf.sections}
    pairs = {REGISTERS: {}, FRAME: {}}
    for kind, value in attributes(elf.content(by_name[".nv.info"])):
        if kind in pairs:
            symbol, number = struct.unpack("<II", value)
            pairs[kind][symbols[symbol][0]] = number
    for section, header in by_name.items():
        if not section.startswith(".text."):
            continue
        name = section.removeprefix(".text.")
        info = by_name.get(".nv.info." + name)
        if info is None:  # a function that kernels call
            continue
        if name not in pairs[REGISTERS] or name not in pairs[FRAME]:
            raise BadObject(f"{name}: the cubin does not say how many registers and bytes of stack it needs")
        bound = 0
        for kind, value in attributes(elf.content(info)):
            if kind == BOUNDS:
                x, y, z = struct.unpack("<III", value)
                bound = x * y * z
        header = by_name.get(".nv.shared." + name)
        shared = (header[5] - (RESERVED_SHARED if architecture >= 90 else 0)) if header else 0
        yield Kernel(name, architecture, pairs[REGISTERS][name], pairs[FRAME][name], shared, bound)


def demangled(names):
    """C++ names without return types, parameters and namespaces: Forward<Bf16, 128>."""
    out = subprocess.run(["c++filt"], input="\n".join(names), capture_output=True, text=True, check=True).stdout.splitlines()
    return [plain(name) for name in out]


def plain(name):
    for namespace in ("(anonymous namespace)::", "twofold::cuda::", "twofold::"):
        name = name.replace(namespace, "")
    name = name.removeprefix("void ")
    depth = 0
    for i, c in enumerate(name):
        depth += (c == "<") - (c == ">")
        if c == "(" and depth == 0:
            return name[:i]
    return name


def kernels_of(paths):
    """All kernels in these object files. Raises BadObject if one of them has no GPU code that can be read."""
    kernels = []
    for path in paths:
        data = pathlib.Path(path).read_bytes()
        found = False
        for section, header in Elf(data).sections:
            if section != ".nv_fatbin":
                continue
            begin, end = header[4], header[4] + header[5]
            at = data.find(b"\x7fELF\x02", begin, end)
            while at >= 0:
                elf = Elf(data, at)
                if elf.machine == EM_CUDA:
                    found = True
                    kernels += kernels_of_cubin(elf)
                at = data.find(b"\x7fELF\x02", at + 5, end)
        if not found:
            raise BadObject(f"{path}: no GPU code, or it is compressed (nvcc --compress-mode=none would leave it readable)")
    for kernel, name in zip(kernels, demangled([k.name for k in kernels])):
        kernel.name = name
    return kernels
