# SPDX-License-Identifier: Apache-2.0
"""The calls on whole objects, over a master and inside this process."""
import array
import ctypes
import time

import pytest
from conftest import MIB, SANITIZED, set_up, until
from mooncake.store import MooncakeDistributedStore, ReplicateConfig, SoftPinAction

NOT_FOUND, LEASED, INVALID = -704, -706, -600


class Memory:
    """Memory of ours, and where it is."""

    def __init__(self, store, size, register=True):
        self.array = (ctypes.c_ubyte * size)()
        self.ptr = ctypes.addressof(self.array)
        self.size = size
        if register:
            assert store.register_buffer(self.ptr, size) == 0

    def fill(self, data, at=0):
        ctypes.memmove(self.ptr + at, data, len(data))

    def bytes(self, at=0, size=None):
        return bytes(self.array[at:self.size if size is None else at + size])


@pytest.fixture(params=["master", "embedded"])
def any_store(request, master):
    one = MooncakeDistributedStore()
    assert set_up(one, master.address if request.param == "master" else "embedded") == 0
    yield one
    one.remove_all(force=True)
    one.close()


def test_put_leaves_what_is_there_and_upsert_does_not(any_store):
    assert any_store.put("a", b"first") == 0
    assert any_store.put("a", b"second") == 0
    assert any_store.get("a") == b"first"
    assert any_store.upsert("a", b"third") == 0
    assert any_store.get("a") == b"third"
    assert any_store.get_size("a") == 5
    assert any_store.get("none") == b""
    assert any_store.get_size("none") == NOT_FOUND


def test_second_puts_of_every_kind_are_successes(any_store):
    memory = Memory(any_store, 64)
    assert any_store.put("a", b"first") == 0
    assert any_store.put_from("a", memory.ptr, 8) == 0
    assert any_store.batch_put_from(["a"], [memory.ptr], [8]) == [0]
    assert any_store.batch_put_from_multi_buffers(["a"], [[memory.ptr]], [[8]]) == [0]
    assert any_store.put_parts("a", b"x", b"y") == 0
    assert any_store.put_batch(["a"], [b"x"]) == 0
    assert any_store.batch_put_session_start(["a"], [5]) == [-705]
    assert any_store.get("a") == b"first"


def test_values_are_whatever_has_a_buffer(any_store):
    assert any_store.put("a", bytearray(b"1")) == 0
    assert any_store.put("b", memoryview(b"23")) == 0
    assert any_store.put("c", array.array("I", [7])) == 0
    assert any_store.put_parts("d", b"4", memoryview(b"56"), bytearray(b"7")) == 0
    assert any_store.upsert_parts("d", b"8", b"9") == 0
    assert any_store.get_batch(["a", "b", "c", "d", "e"]) == [
        b"1", b"23", b"\x07\0\0\0", b"89", b""]


def test_batches_answer_once(any_store):
    keys = [f"k{i}" for i in range(100)]
    assert any_store.put_batch(keys, [key.encode() for key in keys]) == 0
    assert any_store.get_batch(keys) == [key.encode() for key in keys]
    assert any_store.upsert_batch(keys, [b"x"] * 100) == 0
    assert any_store.get_batch(keys[:2]) == [b"x", b"x"]
    assert any_store.put_batch([], []) == 0
    assert any_store.get_batch([]) == []


def test_one_missing_key_costs_itself(any_store):
    """710 keys of which one is absent: 709 sizes and one code, in its place (E2)."""
    keys = [f"k{i}" for i in range(710)]
    there = keys[:300] + keys[301:]
    memory = Memory(any_store, 710 * 8)
    memory.fill(b"".join(b"%08d" % i for i in range(710)))
    pointers = [memory.ptr + 8 * i for i in range(710)]
    assert set(any_store.batch_put_from(there, pointers[:709], [8] * 709)) == {0}
    results = any_store.batch_get_into(keys, pointers, [8] * 710)
    assert results[300] == NOT_FOUND
    assert results[:300] + results[301:] == [8] * 709
    assert any_store.batch_is_exist(keys) == [1] * 300 + [0] + [1] * 409


def test_zero_copy(any_store):
    memory = Memory(any_store, MIB)
    memory.fill(bytes(range(256)) * 4)
    assert any_store.put_from("a", memory.ptr, 1024) == 0
    assert any_store.get_into("a", memory.ptr + 2048, 4096) == 1024
    assert memory.bytes(2048, 1024) == bytes(range(256)) * 4
    assert any_store.get_into("a", memory.ptr, 1023) == INVALID
    assert any_store.get_into("none", memory.ptr, 1024) == NOT_FOUND
    assert any_store.upsert_from("a", memory.ptr + 1, 3) == 0
    assert any_store.get("a") == b"\1\2\3"
    assert any_store.batch_upsert_from(["a", "b"], [memory.ptr, memory.ptr + 9], [2, 3]) == [0, 0]
    assert any_store.get_batch(["a", "b"]) == [b"\0\1", b"\x09\x0a\x0b"]
    assert any_store.unregister_buffer(memory.ptr) == 0
    assert any_store.unregister_buffer(memory.ptr) == INVALID


def test_memory_that_is_not_registered_is_refused(any_store):
    """H1: not registered, partly, null, and no longer registered."""
    assert any_store.put("a", b"12345678") == 0
    stranger = Memory(any_store, 64, register=False)
    part = Memory(any_store, 64, register=False)
    assert any_store.register_buffer(part.ptr, 32) == 0
    for ptr, size in ((stranger.ptr, 8), (part.ptr + 28, 8), (0, 8), (part.ptr + 64, 8)):
        assert any_store.get_into("a", ptr, size) == INVALID
        assert any_store.put_from("b", ptr, size) == INVALID
        assert any_store.batch_get_into(["a"], [ptr], [size]) == [INVALID]
        assert any_store.batch_get_into_multi_buffers(["a"], [[ptr]], [[size]]) == [INVALID]
    assert any_store.unregister_buffer(part.ptr) == 0
    assert any_store.get_into("a", part.ptr, 8) == INVALID
    assert any_store.is_exist("b") == 0
    assert not any(part.bytes()) and not any(stranger.bytes())


def test_registering(any_store):
    """H2: again the same is counted, another overlap is refused."""
    base = 1 << 40  # never touched
    assert any_store.register_buffer(base, 4096) == 0
    assert any_store.register_buffer(base, 4096) == 0
    for ptr, size in ((base, 4095), (base + 1, 8), (base - 1, 2), (0, 8), (base + 8192, 0),
                      (2**64 - 8, 16)):
        assert any_store.register_buffer(ptr, size) == INVALID
    assert any_store.register_buffer(base + 4096, 4096) == 0
    assert [any_store.unregister_buffer(base) for _ in range(3)] == [0, 0, INVALID]
    assert any_store.unregister_buffer(base + 4096) == 0


def test_many_buffers_make_one_object(any_store):
    memory = Memory(any_store, 4096)
    memory.fill(bytes(range(200)))
    assert any_store.batch_put_from_multi_buffers(
        ["a", "b"], [[memory.ptr, memory.ptr + 100], [memory.ptr + 5]], [[2, 3], [1]]) == [0, 0]
    assert any_store.get_batch(["a", "b"]) == [b"\0\1\x64\x65\x66", b"\5"]
    assert any_store.batch_get_into_multi_buffers(
        ["a", "none", "b"], [[memory.ptr + 1000, memory.ptr + 2000]] * 2 + [[memory.ptr + 3000]],
        [[1, 4]] * 2 + [[1]], True) == [5, NOT_FOUND, 1]
    assert memory.bytes(2000, 4) == b"\1\x64\x65\x66"
    assert any_store.batch_put_from_multi_buffers(
        ["c", "d"], [[memory.ptr], [memory.ptr]], [[1, 1], [1]]) == [INVALID, 0]
    assert any_store.batch_put_from_multi_buffers(["c"], [], [[1]]) == [INVALID]


def test_metadata_stands_before_the_data(any_store):
    memory = Memory(any_store, 64)
    memory.fill(b"datameta")
    assert any_store.put_from_with_metadata("a", memory.ptr, memory.ptr + 4, 4, 4) == 0
    assert any_store.get("a") == b"metadata"


def test_removing(any_store):
    assert any_store.put_batch(["a1", "a2", "b1"], [b"x"] * 3) == 0
    assert any_store.is_exist("a1") == 1
    assert any_store.remove("a1") == LEASED
    assert any_store.remove("a1", force=True) == 0
    assert any_store.remove("a1", True) == NOT_FOUND
    assert any_store.batch_remove(["a2", "none"], force=True) == [0, NOT_FOUND]
    assert any_store.remove_by_regex("^b", force=True) == 1
    assert any_store.remove_by_regex("(") == INVALID
    assert any_store.put_batch(["c", "d"], [b"x"] * 2) == 0
    assert any_store.remove_all(force=True) == 2
    assert any_store.remove_all() == 0


def test_a_config_reaches_the_object(any_store):
    config = ReplicateConfig(session_ids=["turn-1"])
    assert any_store.put("a", b"x", config) == 0
    assert any_store.probe("a").session_id == "turn-1"
    config.session_ids = ["turn-2", ""]
    assert any_store.put_batch(["b", "c"], [b"x", b"y"], config) == 0
    assert [any_store.probe(key).session_id for key in "bc"] == ["turn-2", None]
    assert any_store.put("d", b"x", config) == INVALID  # two ids for one key
    assert any_store.put("d", b"x", ReplicateConfig(session_ids=["x" * 257])) == INVALID
    assert any_store.put("d", b"x", ReplicateConfig(nof_replica_num=1)) == INVALID
    assert any_store.put("d", b"x", ReplicateConfig(dfs_replica_num=1)) == -1601
    assert any_store.put("d", b"x", ReplicateConfig(
        soft_pin_action=SoftPinAction.ENABLE, soft_pin_ttl_ms=60_000)) == 0
    assert any_store.probe("e").state == 0


def test_a_probe_leaves_no_lease(any_store):
    assert any_store.put("a", b"xyz") == 0
    probe = any_store.probe("a")
    assert (probe.code, int(probe.state), probe.media, probe.size) == (0, 2, ("cpu",), 3)
    assert any_store.remove("a") == 0


def test_buffers(any_store):
    assert any_store.put("a", b"0123456789") == 0
    buffer = any_store.get_buffer("a")
    assert len(buffer) == buffer.size() == 10 and buffer
    assert bytes(buffer) == b"0123456789"
    assert ctypes.string_at(buffer.ptr(), 10) == b"0123456789"
    assert memoryview(buffer).readonly
    assert any_store.get_buffer("none") is None
    both = any_store.batch_get_buffer(["none", "a"])
    assert both[0] is None and bytes(both[1]) == b"0123456789"


def test_the_local_buffer_is_bounded_and_comes_back(any_store):
    """J8: held handles fill it; the next one is refused; one that goes makes room."""
    assert any_store.put("a", bytes(2 * MIB)) == 0
    held = [any_store.get_buffer("a"), any_store.get_buffer("a")]
    assert held[0] is not None and held[1] is not None
    assert any_store.get_buffer("a") is None
    held.pop()
    assert any_store.get_buffer("a") is not None


def test_views_outlive_handle_and_store(any_store):
    assert any_store.put("outlived", b"0123456789") == 0
    view = memoryview(any_store.get_buffer("outlived"))
    handle = any_store.get_buffer("outlived")
    assert any_store.close() == 0
    assert bytes(view) == b"0123456789" == bytes(handle)


def test_replicas(store):
    assert store.put("a", b"0123456789") == 0
    (replica,) = store.get_replica_desc("a")
    assert replica.is_memory_replica() and not replica.is_disk_replica()
    assert not replica.is_local_disk_replica()
    descriptor = replica.get_memory_descriptor().buffer_descriptor
    assert descriptor.size == descriptor.size_ == 10
    assert descriptor.transport_endpoint == store.get_hostname()
    with pytest.raises(ValueError):
        replica.get_disk_descriptor()
    assert store.get_replica_desc("none") == []
    many = [f"k{i}" for i in range(600)]
    assert store.put_batch(many, [b"x"] * 600) == 0
    found = store.batch_get_replica_desc(many + ["none"])
    assert len(found) == 600 and "none" not in found


def test_a_preferred_segment(master, store):
    other = MooncakeDistributedStore()
    assert set_up(other, master.address) == 0
    config = ReplicateConfig(preferred_segment=other.get_hostname())
    assert store.put("a", b"x", config) == 0
    assert store.get_replica_desc("a")[0].segment == other.get_hostname()
    other.close()
    until(lambda: store.is_exist("a") == 0, "its segment goes")


def test_what_is_not_built_answers_its_code(store):
    assert store.setup_dummy(1 << 20, 1 << 20, "localhost:1") == -1012
    assert store.alloc_from_mem_pool(4096) == 0
    assert store.create_copy_task("a", ["s"]) == ((0, 0), -1012)
    assert store.create_move_task("a", "s", "t") == ((0, 0), -1012)
    assert store.query_task((1, 2)) == (None, -1400)
    with pytest.raises(NotImplementedError):
        store.begin_weight_snapshot(None, None)


def test_lists_of_numbers_of_every_kind(any_store):
    memory = Memory(any_store, 64)
    memory.fill(b"abcd")
    pointers, sizes = [memory.ptr, memory.ptr + 1], [1, 2]
    kinds = [list, tuple, lambda n: array.array("Q", n), lambda n: memoryview(array.array("Q", n)),
             lambda n: array.array("q", n)]
    numpy = pytest.importorskip("numpy")
    kinds += [lambda n: numpy.array(n, dtype=numpy.uint64), lambda n: numpy.array(n),
              lambda n: numpy.repeat(numpy.array(n), 2)[::2], lambda n: list(numpy.array(n))]
    for kind in kinds:
        assert any_store.batch_upsert_from(["a", "b"], kind(pointers), kind(sizes)) == [0, 0]
        assert any_store.get_batch(["a", "b"]) == [b"a", b"bc"]
    rows = numpy.array([pointers, pointers])
    assert any_store.batch_put_from_multi_buffers(
        ["c", "d"], rows, numpy.array([[1, 1], [2, 2]], dtype=numpy.int32)) == [0, 0]
    assert any_store.get_batch(["c", "d"]) == [b"ab", b"abbc"]
    with pytest.raises(OverflowError):
        any_store.batch_put_from(["c"], numpy.array([-1]), [1])
    with pytest.raises(TypeError):
        any_store.batch_put_from(["c"], numpy.array([1.0]), [1])


@pytest.mark.skipif(SANITIZED, reason="a sanitizer has a time of its own")
def test_4096_rows_are_converted_in_under_a_millisecond():
    """By a store that is not set up, which refuses them right after, at its best of many tries."""
    numpy = pytest.importorskip("numpy")
    store = MooncakeDistributedStore()
    keys = [f"key-{i:060d}" for i in range(4096)]
    numbers = list(range(10**6, 10**6 + 4096))

    def best_of(pointers, sizes, offsets):
        times = []
        for _ in range(100):
            begin = time.perf_counter()
            store.batch_get_into_multi_buffer_ranges(keys, pointers, sizes, offsets)
            times.append(time.perf_counter() - begin)
        return min(times)

    column = numpy.array(numbers, dtype=numpy.uint64).reshape(-1, 1)
    rows = [[number] for number in numbers]
    assert best_of(column, column, column) < 1e-3
    assert best_of(rows, rows, rows) < 1e-3  # three lists of 4 096 lists each
