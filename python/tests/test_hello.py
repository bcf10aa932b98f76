# SPDX-License-Identifier: Apache-2.0
"""The first minutes of a new user."""
from mooncake.store import MooncakeDistributedStore


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
