#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What must not be written: check_banned.py [ROOT].

Calls without a bound, memory that does not come from mci_alloc, struct
typedefs, fences that ThreadSanitizer does not know, sleeps in tests, and files
without their licence line.
"""
import pathlib
import re
import sys

PRODUCT = ["base", "schema", "transfer", "events", "store", "subscriber"]
OTHERS = ["tests", "tests/conformance", "tests/support", "tests/fuzz", "tests/install", "bench",
          "examples", "examples/quickstart", "python/src"]

UNBOUNDED = ["strcpy", "stpcpy", "strcat", "sprintf", "vsprintf", "gets",
             "atoi", "atol", "atoll", "atof", "strtok", "strtok_r", "alloca",
             "tmpnam", "mktemp", "setjmp", "longjmp", "atomic_thread_fence",
             "rand", "srand"]
HEAP = ["malloc", "calloc", "realloc", "reallocarray", "free", "strdup",
        "strndup", "asprintf", "vasprintf", "aligned_alloc", "posix_memalign",
        "memalign", "valloc", "getline", "getdelim", "open_memstream"]
INPUT = ["scanf", "sscanf", "fscanf", "system", "popen"]
SLEEPS = ["sleep", "usleep", "nanosleep", "clock_nanosleep"]

# The one place where the libraries meet the heap of the C library; the tools are
# programs on the public headers, which have no allocator.
HEAP_DOOR = re.compile(r"^(base/alloc\.c|\w+/tool\w*\.[ch])$")

# Tests wait for a condition, with a bound, by what support offers.
WAITS = re.compile(r"^tests/(conformance/)?\w+\.[ch]$")

# Comments, strings and characters, in the order in which they may begin.
NOT_CODE = re.compile(
    r"/\*.*?\*/|//[^\n]*|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'", re.S)
# The opening of a struct typedef that has a body or names a struct.
TYPEDEF = re.compile(r"\btypedef\s+(struct|union|enum)\b[^;(]*[;{]")
LICENCE = "SPDX-License-Identifier: Apache-2.0"


def code_of(text):
    """The text with all that is no code blanked, line numbers kept."""
    return NOT_CODE.sub(lambda m: re.sub(r"[^\n]", " ", m.group()), text)


def calls_of(code, names):
    """Calls of these names, also as members of nothing: a.free( is none."""
    pattern = r"(?<![\w.>])(" + "|".join(names) + r")\s*\("
    for match in re.finditer(pattern, code):
        yield match.group(1), code.count("\n", 0, match.start()) + 1


def check_file(path, relative, names, faults):
    text = path.read_text(encoding="utf-8")
    code = code_of(text)
    if LICENCE not in "\n".join(text.split("\n")[:3]):
        faults.append(f"{relative}:1: no licence line")
    for name, line in calls_of(code, names):
        faults.append(f"{relative}:{line}: {name} is not used here")
    for match in TYPEDEF.finditer(code):
        line = code.count("\n", 0, match.start()) + 1
        faults.append(f"{relative}:{line}: no typedef of a struct")


def main():
    default = pathlib.Path(__file__).resolve().parent.parent
    root = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else default
    root = root.resolve()
    faults = []
    count = 0
    for folder in PRODUCT + OTHERS:
        for path in sorted((root / folder).glob("*.[ch]")):
            relative = path.relative_to(root).as_posix()
            names = list(UNBOUNDED)
            if folder in PRODUCT:
                names += INPUT
            if folder in PRODUCT and not HEAP_DOOR.match(relative):
                names += HEAP
            if WAITS.match(relative):
                names += SLEEPS
            check_file(path, relative, names, faults)
            count += 1
    for fault in faults:
        print(fault)
    print(f"banned: {count} files, {len(faults)} faults")
    return 1 if faults or count == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
