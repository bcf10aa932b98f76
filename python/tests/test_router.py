# SPDX-License-Identifier: Apache-2.0
"""The example router: it computes hardly more than what has to be, and all workers as much."""
import json
import os
import pathlib
import re
import subprocess
import sys

SOURCE = pathlib.Path(os.environ.get("MC_SOURCE") or pathlib.Path(__file__).resolve().parents[2])


def test_routing_by_prefix_saves_work():
    trace = SOURCE / "examples/data/conversation.jsonl"
    done = subprocess.run([sys.executable, SOURCE / "python/examples/router.py", trace], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    rows = re.findall(r"(in turn|by prefix): computed (\d+) .* the busiest worker (\d+)", done.stdout)
    figures = {name: (int(count), int(busiest)) for name, count, busiest in rows}
    total = int(re.search(r"blocks (\d+)", done.stdout).group(1))
    once = len({block for line in trace.open() for block in json.loads(line)["hash_ids"]})
    routed, busiest = figures["by prefix"]
    assert once <= routed < 1.02 * once < 0.9 * figures["in turn"][0] < total, done.stdout
    assert busiest < 1.1 * routed / 4, done.stdout
