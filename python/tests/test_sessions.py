# SPDX-License-Identifier: Apache-2.0
"""Objects piece by piece."""
import pytest
from mooncake.store import ReplicateConfig
from test_store import Memory

INVALID = -600


def ranges(memory, *places):
    """Lists for one key: (offset in memory, bytes, offset in the object)."""
    return ([[memory.ptr + place[0] for place in places]], [[place[1] for place in places]],
            [[place[2] for place in places]])


def test_layer_by_layer(store):
    """As the API document shows it."""
    page, layers, keys = 1024, 4, ["block0", "block1"]
    source, target = Memory(store, page * layers), Memory(store, page * layers)
    source.fill(b"".join(bytes([layer]) * page for layer in range(layers)))
    assert store.batch_put_session_start(keys, [page * layers] * 2) == [0, 0]
    for layer in range(layers):
        assert store.batch_put_from_multi_buffer_ranges(
            keys, [[source.ptr + layer * page]] * 2, [[page]] * 2, [[layer * page]] * 2) == [page] * 2
        assert store.batch_is_exist(keys) == [0, 0]
    assert store.batch_put_session_end(keys) == [0, 0]
    assert store.batch_get_session_start(keys) == [0, 0]
    for layer in range(layers):
        assert store.batch_get_into_multi_buffer_ranges(
            keys, [[target.ptr + layer * page]] * 2, [[page]] * 2, [[layer * page]] * 2) == [page] * 2
    assert store.batch_get_session_end(keys) == 0
    assert target.bytes() == source.bytes()


def test_a_session_that_is_revoked_leaves_nothing(store):
    memory = Memory(store, 64)
    assert store.batch_put_session_start(["a"], [8]) == [0]
    assert store.batch_put_from_multi_buffer_ranges(["a"], *ranges(memory, (0, 8, 0))) == [8]
    assert store.batch_put_session_revoke(["a"]) == [0]
    assert store.is_exist("a") == 0
    assert store.batch_put_session_revoke(["a"]) == [INVALID]
    assert store.batch_put_session_end(["a"]) == [INVALID]
    assert store.put("a", b"x") == 0


def test_ranges_outside_cost_their_key(store):
    memory = Memory(store, 64)
    assert store.batch_put_session_start(["a"], [8]) == [0]
    for size, offset in ((9, 0), (1, 8), (8, 1), (2**64 - 1, 1), (1, 2**64 - 1)):
        assert store.batch_put_from_multi_buffer_ranges(
            ["a"], *ranges(memory, (0, size, offset))) == [INVALID]
    assert store.batch_put_from_multi_buffer_ranges(["a"], [[memory.ptr]], [[1, 1]], [[0]]) == [INVALID]
    assert store.batch_put_from_multi_buffer_ranges(["a"], [[memory.ptr]], [[1]], []) == [INVALID]
    assert store.batch_put_from_multi_buffer_ranges(["a"], [[]], [[]], [[]]) == [0]
    assert store.batch_put_from_multi_buffer_ranges(["a"], *ranges(memory, (0, 8, 0))) == [8]
    assert store.batch_put_session_end(["a"]) == [0]
    assert store.batch_get_session_start(["a", "none"]) == [0, -704]
    assert store.batch_get_into_multi_buffer_ranges(
        ["a", "none"], [[memory.ptr]] * 2, [[9]] * 2, [[0]] * 2) == [INVALID, INVALID]
    assert store.batch_get_into_multi_buffer_ranges(["a"], [[]], [[]], [[]]) == [0]
    assert store.batch_get_session_end(["a", "none"]) == 0


def test_starting_twice(store):
    assert store.batch_put_session_start(["a"], [8]) == [0]
    config = ReplicateConfig(session_ids=["of a", "of b"], group_ids=["g", "h"])
    assert store.batch_put_session_start(["a", "b"], [8, 8], config) == [INVALID, 0]
    assert store.batch_put_session_end(["b"]) == [0]
    assert store.probe("b").session_id == "of b"
    assert store.batch_put_session_start(["c"], [8], config) == [INVALID]
    assert store.batch_put_session_start(["c"], []) == [INVALID]
    assert store.batch_put_session_revoke(["a"]) == [0]


def test_two_users_of_one_key_share_its_session(store):
    memory = Memory(store, 64)
    assert store.put("a", b"12345678") == 0
    assert store.batch_get_session_start(["a"]) == [0]
    assert store.batch_get_session_start(["a"]) == [0]
    assert store.batch_get_session_end(["a"]) == 0
    assert store.batch_get_into_multi_buffer_ranges(["a"], *ranges(memory, (0, 4, 4))) == [4]
    assert store.batch_get_session_end(["a"]) == 0
    assert store.batch_get_into_multi_buffer_ranges(["a"], *ranges(memory, (0, 4, 4))) == [INVALID]
    assert memory.bytes(0, 4) == b"5678"


@pytest.mark.parametrize("call", ["batch_get_session_start", "batch_put_session_end",
                                  "batch_put_session_revoke"])
def test_no_keys_no_answers(store, call):
    assert getattr(store, call)([]) == []


def test_pieces_of_objects_in_buffers(store):
    """The example of the API document, and each kind of refusal beside what is fine."""
    assert store.put("key1", bytes(range(40))) == 0
    assert store.put("key2", bytes(range(100, 140))) == 0
    one, two = Memory(store, 32), Memory(store, 32)
    assert store.get_into_ranges(
        [one.ptr, two.ptr], [["key1", "key2"], ["key2", "key1"]], [[[0, 20], [8]], [[4], [16]]],
        [[[1, 30], [2]], [[0], [10]]], [[[4, 3], [5]], [[6], [4]]]) == [[[4, 3], [5]], [[6], [4]]]
    assert one.bytes(0, 4) == b"\1\2\3\4" and one.bytes(20, 3) == b"\x1e\x1f\x20"
    assert one.bytes(8, 5) == bytes(range(102, 107)) and two.bytes(16, 4) == b"\x0a\x0b\x0c\x0d"

    def ask(to, source, size, key="key1", ptr=one.ptr):
        return store.get_into_ranges([ptr], [["key2", key]], [[[0], to]], [[[0], source]],
                                     [[[1], size]])

    assert ask([0], [39], [2]) == [[[1], [INVALID]]]
    assert ask([30], [0], [3]) == [[[1], [INVALID]]]
    assert ask([2**64 - 1], [0], [3]) == [[[1], [INVALID]]]
    assert ask([0, 4], [0], [1, 1]) == [[[1], [INVALID, INVALID]]]
    assert ask([0], [0], [1], key="none") == [[[1], [-704]]]
    assert ask([0], [0], [1], ptr=8) == [[[INVALID], [INVALID]]]
    assert store.get_into_ranges([one.ptr], [["key1"]], [], [[[0]]], [[[1]]]) == [INVALID]
    assert store.get_into_ranges([one.ptr], [["key1"]], [[]], [[[0]]], [[[1]]]) == [[INVALID]]
    assert store.get_into_ranges([], [], [], [], []) == []
