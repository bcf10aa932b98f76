# SPDX-License-Identifier: Apache-2.0
"""The first minutes of a new user."""
import json
import os
import shutil
import subprocess

from mooncake.store import MooncakeDistributedStore, ReplicateConfig


def test_hello_world(master):
    store = MooncakeDistributedStore()
    assert store.setup("localhost", master.metadata, 64 << 20, 16 << 20, "tcp", "",
                       master.address) == 0
    assert store.put("hello_key", b"Hello, store!") == 0
    assert store.get("hello_key") == b"Hello, store!"
    assert store.is_exist("hello_key") == 1
    assert store.remove("hello_key", force=True) == 0
    assert store.get("hello_key") == b""
    assert store.close() == 0
    assert store.close() == 0


def test_two_stores_share_a_master(master, store):
    other = MooncakeDistributedStore()
    assert other.setup("127.0.0.1", "P2PHANDSHAKE", 0, 1 << 20, "tcp", "", master.address) == 0
    assert store.put("shared", b"x" * 100000) == 0
    assert other.get("shared") == b"x" * 100000
    assert other.put("of the other", b"y") == 0
    assert store.get("of the other") == b"y"
    other.close()


def test_what_is_tagged_is_seen_by_who_follows(master_of_its_own):
    """`mc-events tail` shows a write with its session."""
    master = master_of_its_own("--enable_kv_events", "--kv_events_bind_endpoint=tcp://127.0.0.1:0",
                               "--kv_events_backend_id=n1")
    program = os.environ.get("MC_EVENTS") or shutil.which("mc-events")
    environment = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    with subprocess.Popen([program, "tail", "--endpoint", master.events, "--json", "--type", "stored",
                           "--count", "1"], stdout=subprocess.PIPE, text=True, env=environment) as tail:
        store = MooncakeDistributedStore()
        assert store.setup("127.0.0.1", "P2PHANDSHAKE", 1 << 20, 0, "tcp", "", master.address) == 0
        number = 0
        while tail.poll() is None and number < 100000:  # until the follower is there
            config = ReplicateConfig(session_ids=["conversation-7"])
            assert store.upsert(f"key{number % 100}", b"x", config) == 0
            number += 1
        lines = [json.loads(line) for line in tail.stdout]
        store.close()
    events = [line for line in lines if line.get("event_type") == "stored"]
    assert len(events) == 1 and events[0]["session_id"] == "conversation-7"
    assert events[0]["object_key"].startswith("key")
