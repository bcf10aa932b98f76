# SPDX-License-Identifier: Apache-2.0
"""The example router: it computes less than dealing out in turn does."""
import os
import pathlib
import re
import subprocess
import sys

SOURCE = pathlib.Path(os.environ.get("MC_SOURCE") or pathlib.Path(__file__).resolve().parents[2])


def test_routing_by_prefix_saves_work():
    done = subprocess.run([sys.executable, SOURCE / "python/examples/router.py", SOURCE / "examples/data/conversation.jsonl"],
                          capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    figures = {name: int(count) for name, count in re.findall(r"(in turn|by prefix): computed (\d+)", done.stdout)}
    total = int(re.search(r"blocks (\d+)", done.stdout).group(1))
    assert 0 < figures["by prefix"] < 0.9 * figures["in turn"] < total, done.stdout
