#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Who may include whom: check_includes.py [ROOT].

Folders know only the folders below them; mc_*.h and mci_*.h may cross, any
other header stays in its folder; each outside library has few doors; what is
decided without I/O includes no socket header; examples and tools see public
headers only, tools also what they share among themselves, which is no library's.
"""
import pathlib
import re
import sys

MAY_INCLUDE = {
    "base": [],
    "schema": ["base"],
    "transfer": ["base", "schema"],
    "events": ["base", "schema"],
    "store": ["base", "schema", "transfer", "events"],
    "subscriber": ["base", "schema"],
}
OF_TOOLS = "mci_tool.h"
PUBLIC_ONLY = ["examples", "examples/quickstart", "python/src"]

# Header of an outside library: how many files of which folder are its door.
DOORS = {
    "utf8proc.h": {"base": 1},
    "xxhash.h": {"base": 1},
    "msgpack.h": {"schema": 1},
    "zmq.h": {"events": 2, "subscriber": 2},
    "json-c/": {"store": 8, "subscriber": 8},
    "json.h": {},
    "pcre2.h": {"store": 1},
    "curl/": {"transfer": 1, "store": 1, "subscriber": 1},
    "infiniband/": {"transfer": 1},
    "openssl/": {"transfer": 1},
    "microhttpd.h": {"store": 4, "subscriber": 1},
    "yaml.h": {"store": 1},
}

# Decided without I/O.
PURE = re.compile(
    r"^(schema/.*"
    r"|events/(event_log|record_ring|batcher|history)\w*\.[ch]"
    r"|events/recovery(_reader|_line|_request|_walk)?\.[ch]"
    r"|subscriber/(cursor|mirror|recovery|index|lint)\w*\.[ch]"
    r"|store/(object|extent|lease|evict|attempt|group)\w*\.[ch])$")
SOCKETS = re.compile(
    r"^(zmq\.h|poll\.h|netdb\.h|netinet/.*|arpa/.*"
    r"|sys/(socket|epoll|un|eventfd|timerfd|select|poll)\.h)$")

# An include under an #if counts too.
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.M)


def includes_of(path):
    return INCLUDE.findall(path.read_text(encoding="utf-8"))


class Check:
    def __init__(self, root):
        self.root = root
        self.faults = []
        self.files = 0
        self.doors = {}
        self.home = {}
        for folder in MAY_INCLUDE:
            for header in sorted((root / folder).glob("*.h")):
                if header.name in self.home:
                    self.fault(header, f"{header.name} stands in "
                               f"{self.home[header.name]}/ too")
                self.home.setdefault(header.name, folder)

    def fault(self, path, text):
        self.faults.append(f"{path.relative_to(self.root)}: {text}")

    def own(self, path, name):
        """An include of a header of ours."""
        folder = path.parent.name
        if (path.parent / name).is_file():
            return
        home = self.home.get(name)
        if home is None:
            self.fault(path, f'"{name}" is no header of this project')
        elif home not in MAY_INCLUDE[folder]:
            self.fault(path, f"{folder} must not know {home} ({name})")
        elif not name.startswith(("mc_", "mci_")):
            self.fault(path, f"{name} must not leave {home}")

    def outside(self, path, name):
        """An include of a header of somebody else."""
        folder = path.parent.name
        for door in DOORS:
            if name == door or (door.endswith("/") and name.startswith(door)):
                doors = self.doors.setdefault((door, folder), [])
                if path not in doors:
                    doors.append(path)
        relative = path.relative_to(self.root).as_posix()
        if PURE.match(relative) and SOCKETS.match(name):
            self.fault(path, f"decides without I/O, so no <{name}>")

    def product_file(self, path):
        is_tool = path.name.startswith("tool")
        self.files += 1
        for kind, name in includes_of(path):
            if name in self.home or kind == '"':
                self.own(path, name)
            else:
                self.outside(path, name)
            if not is_tool and name == OF_TOOLS:
                self.fault(path, f"{name} is for tools only")
            if is_tool and name.startswith("mci_") and name != OF_TOOLS:
                self.fault(path, f"tools see public headers only ({name})")
        if path.suffix == ".h" and path.name.startswith("mc_"):
            for _, name in includes_of(path):
                if name in self.home and not name.startswith("mc_"):
                    self.fault(path, f"is installed, {name} is not")

    def public_only(self, path):
        self.files += 1
        for kind, name in includes_of(path):
            is_ours = name in self.home or kind == '"'
            if is_ours and not (path.parent / name).is_file() and \
                    not name.removeprefix("mckv/").startswith("mc_"):
                self.fault(path, f"sees public headers only ({name})")
        if re.search(r"\bmci_", path.read_text(encoding="utf-8")):
            self.fault(path, "uses names that are not public")

    def count_doors(self):
        for (door, folder), paths in sorted(self.doors.items()):
            allowed = DOORS[door].get(folder, 0)
            if len(paths) > allowed:
                names = ", ".join(path.name for path in paths)
                self.fault(paths[0], f"<{door}> has {len(paths)} doors in "
                           f"{folder}, {allowed} allowed: {names}")

    def run(self):
        for folder in MAY_INCLUDE:
            for path in sorted((self.root / folder).glob("*.[ch]")):
                self.product_file(path)
        for folder in PUBLIC_ONLY:
            for path in sorted((self.root / folder).glob("*.[ch]")):
                self.public_only(path)
        self.count_doors()
        return self.faults


def main():
    default = pathlib.Path(__file__).resolve().parent.parent
    root = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else default
    check = Check(root.resolve())
    for fault in check.run():
        print(fault)
    print(f"includes: {check.files} files, {len(check.faults)} faults")
    return 1 if check.faults or check.files == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
