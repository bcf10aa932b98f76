#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Plants one fault at a time in a small tree, and wants the checks to name it:
plant_faults.py FOLDER_OF_CHECKS."""
import pathlib
import subprocess
import sys
import tempfile

LICENCE = "/* SPDX-License-Identifier: Apache-2.0 */\n"

CLEAN = {
    "base/mc_err.h": "",
    "base/mci_map.h": '#include "mc_err.h"\n',
    "base/mci_tool.h": "",
    "base/alloc.c": "#include <stdlib.h>\nvoid f(void) { free(0); }\n",
    "schema/mc_event.h": '#include "mc_err.h"\n',
    "schema/token.h": "",
    "schema/event.c": '#include "token.h"\n#include "mci_map.h"\n'
                      '/* malloc( and strcpy( in words */\n'
                      'const char *s = "sprintf(";\n'
                      "void g(void) { p.free(0); q->free(0); }\n",
    "store/mc_client.h": "",
    "store/object.c": '#include "mc_event.h"\n#include <pthread.h>\n',
    "subscriber/cursor.c": '#include "mc_event.h"\n',
    "subscriber/tool_x.c": '#include "mc_event.h"\n#include "mci_tool.h"\n'
                           'void h(void) {free(0);}\n',
    "tests/test_x.c": "void t(void) { malloc(1); }\n",
    "examples/follow.c": '#include "mc_client.h"\n#include <mc_err.h>\n',
}

# Which check, where, what is written there, and a word of the complaint.
FAULTS = [
    ("includes", "base/map.c", '#include "mc_event.h"\n', "must not know"),
    ("includes", "store/a.c", '#include "token.h"\n', "must not leave"),
    ("includes", "subscriber/a.c", '#include "mc_client.h"\n',
     "must not know"),
    ("includes", "schema/a.c", "#include <mc_client.h>\n", "must not know"),
    ("includes", "schema/a.c", '#include "nobody.h"\n', "no header"),
    ("includes", "schema/a.c", "#  include <zmq.h>\n", "without I/O"),
    ("includes", "store/object_x.c", "#include <sys/socket.h>\n",
     "without I/O"),
    ("includes", "store/a.c", "#include <xxhash.h>\n", "doors"),
    ("includes", "subscriber/tool_x.c", '#include "mci_map.h"\n',
     "public headers only"),
    ("includes", "store/a.c", '#include "mci_tool.h"\n', "tools only"),
    ("includes", "schema/mc_a.h", '#include "token.h"\n', "is installed"),
    ("includes", "examples/a.c", '#include "mci_map.h"\n',
     "public headers only"),
    ("includes", "examples/a.c", "int x = mci_map_get(0);\n", "not public"),
    ("includes", "store/mc_err.h", "", "stands in"),
    ("banned", "base/a.c", "void f(void) { malloc(1); }\n", "malloc"),
    ("banned", "schema/a.c", "void f(void)\n{\n    free (0);\n}\n", ":4:"),
    ("banned", "tests/test_x.c", "void f(void) { strcpy(a, b); }\n", "strcpy"),
    ("banned", "tests/test_x.c", "void f(void) { usleep(1); }\n", "usleep"),
    ("banned", "store/a.c", "void f(void) { sscanf(a, b); }\n", "sscanf"),
    ("banned", "store/a.c", "typedef struct { int a; } b;\n", "typedef"),
    ("banned", "store/a.c", "typedef enum mc_err err;\n", "typedef"),
    ("banned", "store/a.c", "/* x */ int a = atoi(\"1\"); /* y */\n", "atoi"),
]


def write(root, name, text, licence=LICENCE):
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(licence + text, encoding="utf-8")


def run(checks, name, root):
    done = subprocess.run([sys.executable, str(checks / f"check_{name}.py"),
                           str(root)], capture_output=True, text=True,
                          check=False)
    return done.returncode, done.stdout + done.stderr


def try_tree(checks, name, planted, licence=LICENCE):
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        for path, text in CLEAN.items():
            write(root, path, text)
        for path, text in planted.items():
            write(root, path, text, licence)
        return run(checks, name, root)


def main():
    checks = pathlib.Path(sys.argv[1]).resolve()
    missed = []
    for name in ("includes", "banned"):
        status, said = try_tree(checks, name, {})
        if status != 0:
            missed.append(f"{name}: complains of a clean tree: {said}")
    for name, path, text, word in FAULTS:
        status, said = try_tree(checks, name, {path: text})
        if status != 1 or word not in said:
            missed.append(f"{name}: {path}: {text!r} gives {status} {said!r}")
    status, said = try_tree(checks, "banned", {"base/a.c": ""}, licence="")
    if status != 1 or "licence" not in said:
        missed.append("banned: a file without licence line is let through")
    for line in missed:
        print(line)
    print(f"{len(FAULTS) + 1} planted faults, {len(missed)} missed")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
