"""Data for training on a GPU."""
import array
import random


def write_tokens(path, vocabulary, count=4 << 20):
    """A file of random tokens as llm.c writes them: 256 int32 (magic, version, count), then uint16 tokens."""
    header = array.array("i", [20240520, 1, count] + [0] * 253)
    wide = array.array("I", random.Random(1).randbytes(4 * count))
    path.write_bytes(header.tobytes() + array.array("H", (w % vocabulary for w in wide)).tobytes())
