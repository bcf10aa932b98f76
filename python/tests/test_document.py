# SPDX-License-Identifier: Apache-2.0
"""The examples of the API document that users of mooncake.store start from, written anew.

Changed in each: addresses are those of the test's master, sizes are smaller, and what is printed is
asserted. Where an example leaves something undefined it is supplied: python/README.md has the list.
"""
import ctypes
import json
import subprocess
import time

import pytest

from mooncake.store import MooncakeDistributedStore, ReplicateConfig

MIB = 1 << 20


def numpy():
    return pytest.importorskip("numpy", reason="python3-numpy is not installed")


def torch():
    return pytest.importorskip("torch", reason="python3-torch is not installed")


def has(name):
    """Left out where the store lacks a call."""
    return pytest.mark.skipif(not hasattr(MooncakeDistributedStore, name), reason=f"the store has no {name}")


@pytest.fixture
def store(master):
    one = MooncakeDistributedStore()
    assert one.setup("localhost", master.metadata, 64 * MIB, 16 * MIB, "tcp", "", master.address) == 0
    yield one
    one.remove_all(force=True)
    one.close()


# ---- quick start -----------------------------------------------------------------------------------


@pytest.mark.parametrize("metadata", ("http", "P2PHANDSHAKE"))
def test_hello_world(master, metadata):
    store = MooncakeDistributedStore()
    store.setup("localhost", master.metadata if metadata == "http" else metadata, 64 * MIB, 16 * MIB, "tcp", "", master.address)
    store.put("hello_key", b"Hello, Mooncake Store!")
    assert store.get("hello_key").decode() == "Hello, Mooncake Store!"
    store.remove("hello_key", force=True)
    store.close()


def test_get_and_put_with_arrays(store):
    np = numpy()
    store.put("config", b'{"model": "llama-7b", "temperature": 0.7}')
    model_weights = np.random.randn(100, 100).astype(np.float32)
    store.put("weights", model_weights.tobytes())
    store.put("cache", b"some serialized cache data")
    config = json.loads(store.get("config").decode())
    weights = np.frombuffer(store.get("weights"), dtype=np.float32).reshape(100, 100)
    assert config["model"] == "llama-7b" and np.array_equal(weights, model_weights)
    assert bool(store.is_exist("cache"))


def test_simple_batches(store):
    data = b"Hello, World!" * 1000
    store.put("message", data)
    assert store.get("message") == data
    keys, values = ["key1", "key2", "key3"], [b"value1", b"value2", b"value3"]
    store.put_batch(keys, values)
    assert store.get_batch(keys) == values


# ---- structured objects -----------------------------------------------------------------------------


@pytest.fixture
def transfer(store):
    numpy()
    pytest.importorskip("msgpack")
    from mooncake.structured_object_store import MooncakeBundleTransfer

    return MooncakeBundleTransfer(store, key_prefix="demo/structured")


def payload():
    from mooncake.structured_object_store import StructuredObjectPayload

    np = numpy()
    return StructuredObjectPayload(
        metadata={"step": 7, "layout": "rollout"},
        buffers={
            "tokens": np.array(range(24), dtype=np.int32).reshape(6, 4),
            "mask": np.ones((6, 4), dtype=np.int8),
            "prompt_ids": b"sample-ids",
        },
    )


def test_structured_object_write_and_full_read(transfer):
    ref = transfer.put_structured_object(payload())
    result = transfer.materialize(transfer.read_spec(ref))
    assert result.objects["tokens"].tolist() == [list(range(i, i + 4)) for i in range(0, 24, 4)]
    assert result.objects["prompt_ids"] == b"sample-ids" and result.metadata == {"step": 7, "layout": "rollout"}


def test_structured_object_transfer_policy(transfer):
    from mooncake.structured_object_store import BundleTransferPolicy

    ref = transfer.put_structured_object(payload(), policy=BundleTransferPolicy(copy_mode="copy"))
    assert transfer.materialize(transfer.read_spec(ref)).metadata["step"] == 7


def test_partial_reads_and_destinations(transfer):
    np = numpy()
    ref = transfer.put_structured_object(payload())
    spec = transfer.read_spec(ref).select_members(["tokens"]).slice_member("tokens", axis=0, start=2, end=5)
    selected_tokens = transfer.materialize(spec).objects["tokens"]
    assert selected_tokens.tolist() == [[8, 9, 10, 11], [12, 13, 14, 15], [16, 17, 18, 19]]
    destination = np.empty((3, 4), dtype=np.int32)
    result = transfer.materialize_into(spec, {"tokens": destination})
    assert result.objects["tokens"] is destination and np.array_equal(destination, selected_tokens)


def test_generic_bundles(transfer):
    ref = transfer.put_bundle({"head": b"1", "body": b"2" * 1000})
    assert transfer.remove_bundle(ref) == 3


# ---- zero copy ---------------------------------------------------------------------------------------


def test_buffer_registration(store):
    np = numpy()
    buffer = np.zeros(10 * MIB, dtype=np.uint8)
    assert store.register_buffer(buffer.ctypes.data, buffer.nbytes) == 0
    assert store.unregister_buffer(buffer.ctypes.data) == 0


def test_buffer_pool(store):
    from mooncake.buffer_pool import BufferPool

    store.put("my_key", b"seven")
    pool = BufferPool(store)
    with pool.buffer(1024 * 1024) as lease:
        n = store.get_into("my_key", lease.ptr, lease.size)
        view = lease.buffer[:n]
        data = bytes(view)
    pool.close()
    assert data == b"seven"


def test_complete_zero_copy_workflow(store):
    np = numpy()
    original_data = np.random.randn(100, 100).astype(np.float32)
    buffer_ptr, size = original_data.ctypes.data, original_data.nbytes
    assert store.register_buffer(buffer_ptr, size) == 0
    assert store.put_from("large_tensor", buffer_ptr, size) == 0
    retrieved_data = np.empty((100, 100), dtype=np.float32)
    recv_buffer_ptr, recv_size = retrieved_data.ctypes.data, retrieved_data.nbytes
    assert store.register_buffer(recv_buffer_ptr, recv_size) == 0
    assert store.get_into("large_tensor", recv_buffer_ptr, recv_size) == size
    assert np.array_equal(original_data, retrieved_data)
    assert store.unregister_buffer(buffer_ptr) == 0 and store.unregister_buffer(recv_buffer_ptr) == 0


@has("get_into_ranges")
def test_get_into_ranges(store):
    # The document does not say what key1 and key2 are.
    store.put("key1", bytes(range(64)))
    store.put("key2", bytes(range(100, 164)))
    buffer_size = 32
    buffer0, buffer1 = (ctypes.c_ubyte * buffer_size)(), (ctypes.c_ubyte * buffer_size)()
    buffer_ptr0, buffer_ptr1 = ctypes.addressof(buffer0), ctypes.addressof(buffer1)
    store.register_buffer(buffer_ptr0, buffer_size)
    store.register_buffer(buffer_ptr1, buffer_size)
    results = store.get_into_ranges(
        [buffer_ptr0, buffer_ptr1],
        [["key1", "key2"], ["key2", "key1"]],
        [[[0, 20], [8]], [[4], [16]]],
        [[[1, 30], [2]], [[0], [10]]],
        [[[4, 3], [5]], [[6], [4]]],
    )
    assert results == [[[4, 3], [5]], [[6], [4]]]
    assert bytes(buffer0)[:4] == bytes(range(1, 5)) and bytes(buffer0)[20:23] == bytes(range(30, 33))
    assert bytes(buffer0)[8:13] == bytes(range(102, 107)) and bytes(buffer1)[4:10] == bytes(range(100, 106))
    assert bytes(buffer1)[16:20] == bytes(range(10, 14))


def test_batch_zero_copy_retrieval(store):
    np = numpy()
    keys, buffer_size = ["tensor1", "tensor2", "tensor3"], 64 << 10
    for key in keys[:2]:  # the document stores nothing; one is missing so that both outcomes are seen
        store.put(key, key.encode() * 100)
    buffers, buffer_ptrs = [], []
    for _ in keys:
        buffer = np.empty(buffer_size, dtype=np.uint8)
        buffers.append(buffer)
        buffer_ptrs.append(buffer.ctypes.data)
        store.register_buffer(buffer.ctypes.data, buffer_size)
    assert store.batch_get_into(keys, buffer_ptrs, [buffer_size] * 3) == [700, 700, -704]
    for ptr in buffer_ptrs:
        store.unregister_buffer(ptr)


def test_multiple_buffers(store):
    np, rank = numpy(), 0  # the document's rank is not defined
    tensor, target = np.ones((10, 61, 1024), np.int8), np.zeros((10, 61, 1024), np.int8)
    store.register_buffer(tensor.ctypes.data, tensor.nbytes)
    store.register_buffer(target.ctypes.data, target.nbytes)
    rows = [[i * 61 + k for k in range(61)] for i in range(10)]
    local = [[tensor.ctypes.data + n * 1024 for n in row] for row in rows]
    remote = [[target.ctypes.data + n * 1024 for n in row] for row in rows]
    sizes, keys = [[1024] * 61] * 10, [f"kv_{rank}_{i}" for i in range(10)]
    config = ReplicateConfig()
    config.prefer_alloc_in_same_node = True
    assert store.batch_put_from_multi_buffers(keys, local, sizes, config) == [0] * 10
    assert store.batch_get_into_multi_buffers(keys, remote, sizes, True) == [61 * 1024] * 10
    assert np.array_equal(tensor, target)
    store.unregister_buffer(tensor.ctypes.data)
    store.unregister_buffer(target.ctypes.data)


@has("batch_put_session_start")
def test_sessions_layer_by_layer(store):
    np = numpy()
    page, layers, keys = 1024, 4, ["block0", "block1"]
    object_sizes = [page * layers] * len(keys)
    src = [np.full(page, i, dtype=np.uint8) for i in range(layers)]
    dst = [np.zeros(page, dtype=np.uint8) for _ in range(layers)]
    for buf in src + dst:
        store.register_buffer(buf.ctypes.data, buf.nbytes)
    assert all(rc == 0 for rc in store.batch_put_session_start(keys, object_sizes))
    for layer in range(layers):
        ptrs, sizes, offsets = [[src[layer].ctypes.data]] * 2, [[page]] * 2, [[layer * page]] * 2
        assert all(rc == page for rc in store.batch_put_from_multi_buffer_ranges(keys, ptrs, sizes, offsets))
    assert all(rc == 0 for rc in store.batch_put_session_end(keys))
    assert all(rc == 0 for rc in store.batch_get_session_start(keys))
    for layer in range(layers):
        ptrs, sizes, offsets = [[dst[layer].ctypes.data]] * 2, [[page]] * 2, [[layer * page]] * 2
        assert all(rc == page for rc in store.batch_get_into_multi_buffer_ranges(keys, ptrs, sizes, offsets))
    assert store.batch_get_session_end(keys) == 0
    assert all(np.array_equal(a, b) for a, b in zip(src, dst))
    for buf in src + dst:
        store.unregister_buffer(buf.ctypes.data)


@has("put_from_with_metadata")
def test_put_with_metadata(store):
    np = numpy()
    data, metadata = np.random.randn(1000).astype(np.float32), np.array([42, 100], dtype=np.int32)
    store.register_buffer(data.ctypes.data, data.nbytes)
    store.register_buffer(metadata.ctypes.data, metadata.nbytes)
    assert store.put_from_with_metadata("data_with_metadata", data.ctypes.data, metadata.ctypes.data, data.nbytes, metadata.nbytes) == 0
    assert store.get("data_with_metadata") == metadata.tobytes() + data.tobytes()
    store.unregister_buffer(data.ctypes.data)
    store.unregister_buffer(metadata.ctypes.data)


# ---- the reference, call by call ---------------------------------------------------------------------


def test_configs(store):
    from mooncake.store import SoftPinAction

    config = ReplicateConfig()
    config.soft_pin_action = SoftPinAction.ENABLE
    config.soft_pin_ttl_ms = 60_000
    config.with_hard_pin = True
    config.preferred_segment = store.get_hostname() if hasattr(store, "get_hostname") else ""
    assert store.put("pinned", b"1", config) == 0
    config = ReplicateConfig()
    config.group_ids = ["session-a", "", "session-b"]
    assert store.put_batch(["key-a", "key-b", "key-c"], [b"value-a", b"value-b", b"value-c"], config) == 0
    config.group_ids = ["session-a"]
    assert store.put("key-a", b"value-a", config) == 0
    config = ReplicateConfig()
    config.nof_replica_num = 1
    assert store.put("nof", b"1", config) == -600
    config = ReplicateConfig()
    config.dfs_replica_num = 1
    assert store.put("dfs", b"1", config) == -1601


def test_rdma_is_said_not_to_be_there(master):
    for devices in ("", "mlx5_0,mlx5_1"):
        one = MooncakeDistributedStore()
        assert one.setup("localhost", master.metadata, MIB, MIB, "rdma", devices, master.address) == -1012
        one.close()


def test_upserts_and_parts(store):
    config = ReplicateConfig()
    config.replica_num = 2
    assert store.upsert("weights", b"new-bytes", config) == 0
    assert store.upsert_parts("greeting", b"Hello, ", b"World!") == 0
    assert store.upsert_batch(["key1", "key2"], [b"value1", b"value2"]) == 0
    assert store.put_parts("three", b"Hello, ", b"World!", b" From Mooncake") == 0
    assert store.get("greeting") == b"Hello, World!" and store.get("three") == b"Hello, World! From Mooncake"
    assert store.get("weights") == b"new-bytes"


def test_removing_and_asking(store):
    for key in ("user_session_1", "user_session_2", "key1"):
        store.put(key, b"12345")
    assert store.is_exist("key1") == 1 and store.batch_is_exist(["key1", "key2", "key3"]) == [1, 0, 0]
    assert store.get_size("key1") == 5 and store.get_size("none") == -704
    assert store.remove_by_regex("^user_session_.*", force=True) == 2
    assert store.batch_remove(["key1", "key2"], force=True) == [0, -704]
    assert store.remove_all() == 0
    assert store.get("Key not found") == b""


def test_buffers(store):
    np = numpy()
    store.put("large_object", b"x" * 1000)
    buffer = store.get_buffer("large_object")
    assert buffer and len(buffer) == 1000 and buffer.size() == 1000 and buffer.ptr() > 0
    assert np.array(buffer, copy=False).tobytes() == b"x" * 1000
    found = store.batch_get_buffer(["large_object", "none"])
    assert found[0].size() == 1000 and found[1] is None and store.get_buffer("none") is None


@has("get_replica_desc")
def test_replica_descriptors(store):
    store.put("mooncake_key", b"12345")
    for desc in store.get_replica_desc("mooncake_key"):
        assert desc.is_memory_replica() and not desc.is_disk_replica()
        assert desc.get_memory_descriptor().buffer_descriptor is not None and desc.status is not None
    assert set(store.batch_get_replica_desc(["mooncake_key"])) == {"mooncake_key"}


@has("mount_segment")
def test_segments(store, tmp_path):
    path = tmp_path / "segment"  # the document's file in /dev/shm is one that nobody makes
    path.write_bytes(b"")
    path.open("r+b").truncate(16 * MIB)
    result = store.mount_segment(str(path), 16 * MIB, offset=0, protocol="tcp", location="")
    assert result["ret"] == 0 and result["segment_ids"]
    assert store.unmount_segment(list(result["segment_ids"]), grace_period_seconds=0) == 0
    result = store.allocate_and_mount_segment(16 * MIB, protocol="tcp", location="")
    assert result["ret"] == 0 and result["allocated_size"] >= 16 * MIB
    assert store.unmount_and_free_segment(list(result["segment_ids"]), grace_period_seconds=0) == 0


@has("create_copy_task")
def test_tasks_answer(store):
    store.put("my_key", b"1")
    for task_id, error in (store.create_copy_task("my_key", ["a", "b"]), store.create_move_task("my_key", "a", "b")):
        assert error < 0
        response, status = store.query_task(task_id)
        assert response is None and status < 0


@has("setup_dummy")
def test_dummy_clients_answer():
    store = MooncakeDistributedStore()
    assert store.setup_dummy(MIB, MIB, "localhost:1") != 0


@has("put_tensor")
def test_tensors(store):
    t = torch()
    tensor = t.randn(10, 10)
    assert store.put_tensor("my_tensor", tensor) == 0 and t.equal(store.get_tensor("my_tensor"), tensor)
    assert store.batch_put_tensor(["tensor1", "tensor2"], [t.randn(3), t.randn(2, 2)]) == [0, 0]
    assert [None if x is None else tuple(x.shape) for x in store.batch_get_tensor(["tensor1", "tensor2", "none"])] == [(3,), (2, 2), None]
    config = ReplicateConfig()
    config.replica_num = 2
    assert store.pub_tensor("published", tensor, config) == 0 and store.upsert_pub_tensor("my_tensor", tensor, config) == 0
    assert store.put_tensor_with_tp("sharded", tensor, tp_size=2, split_dim=0) == 0
    assert t.equal(store.get_tensor_with_tp("sharded", tp_rank=1, tp_size=2), tensor[5:])


def test_host_memory():
    import mooncake.store as named

    if not hasattr(named, "MooncakeHostMemAllocator"):
        pytest.skip("the store has no MooncakeHostMemAllocator")
    allocator = named.MooncakeHostMemAllocator()
    ptr = allocator.alloc(MIB)
    assert ptr != 0 and allocator.free(ptr) == 0
    named.bind_to_numa_node(0)


# ---- as a new user: tags seen from outside ------------------------------------------------------------


def test_tags_are_seen_by_the_event_tool(master_of_its_own):
    import os
    import shutil

    running = master_of_its_own("--enable_kv_events", "--kv_events_bind_endpoint=tcp://127.0.0.1:*", "--kv_events_backend_id=n1")
    program = os.environ.get("MC_EVENTS") or shutil.which("mc-events")
    environment = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    tail = subprocess.Popen([program, "tail", "--endpoint", running.events, "--json", "--type", "stored", "--count", "1"],
                            stdout=subprocess.PIPE, text=True, env=environment)
    store = MooncakeDistributedStore()
    assert store.setup("localhost", "P2PHANDSHAKE", 16 * MIB, MIB, "tcp", "", running.address) == 0
    config = ReplicateConfig()
    config.session_ids = ["agent-7"]
    end, number = time.monotonic() + 60, 0
    while tail.poll() is None:  # it may still be connecting
        assert time.monotonic() < end
        number += 1
        assert store.put(f"tagged{number}", b"1", config) == 0
        time.sleep(0.05)
    line = json.loads([row for row in tail.stdout.read().splitlines() if "event_type" in row][0])
    tail.stdout.close()
    assert line["session_id"] == "agent-7" and line["object_key"].startswith("tagged")
    store.close()
