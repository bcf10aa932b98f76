# SPDX-License-Identifier: Apache-2.0
"""What engines do with a store: the sequences of calls of each, the shapes of their arguments, and
what they look at in the answers. Written from what is known of them; none of their code is here.
"""
import ctypes
import hashlib
import inspect
import threading
import uuid

import pytest
from conftest import MIB, set_up
from mooncake.store import MooncakeDistributedStore, ReplicateConfig
from test_store import Memory

KIB = 1024


def opened(*arguments, **keywords):
    store = MooncakeDistributedStore()
    if store.setup(*arguments, **keywords):
        raise RuntimeError("setup")
    return store


def page_keys(count, seed=b""):
    """Hashes of pages, each of the page before and its own tokens."""
    keys, digest = [], hashlib.sha256(seed).digest()
    for i in range(count):
        digest = hashlib.sha256(digest + i.to_bytes(4, "little") * 64).digest()
        keys.append(digest.hex())
    return keys


# ---- SGLang -------------------------------------------------------------------------------------


def warm_up(store):
    key, value = "sglang_mooncake_store_warmup_key" + uuid.uuid4().hex, bytes(4096)
    assert store.put(key, value) == 0
    assert store.is_exist(key) == 1
    assert store.get(key) == value


def test_sglang_hicache(master):
    """Eight positional arguments, the last one None; no close; two stores in one process."""
    for _ in range(2):
        store = opened("localhost", "P2PHANDSHAKE", 16 * MIB, 16 * MIB, "tcp", "", master.address, None)
        warm_up(store)
        pool = Memory(store, 26 * 8 * KIB)
        pool.fill(bytes(range(256)) * (13 * 16 * KIB // 256))
        suffixed = [f"{key}_0_{kind}" for key in page_keys(13, uuid.uuid4().bytes) for kind in "kv"]
        pointers = [pool.ptr + i * 4 * KIB for i in range(26)]
        assert store.batch_is_exist(suffixed) == [0] * 26
        config = ReplicateConfig()
        if hasattr(ReplicateConfig, "group_ids") and hasattr(config, "group_ids"):
            config.group_ids = ["sglang-hicache:" + key.rsplit("_", 2)[0] for key in suffixed]
        assert store.batch_put_from(suffixed, pointers, [4 * KIB] * 26, config) == [0] * 26
        assert store.batch_put_from(suffixed, pointers, [4 * KIB] * 26) == [0] * 26
        assert [code == 1 for code in store.batch_is_exist(suffixed)] == [True] * 26
        back = [pointer + 26 * 4 * KIB for pointer in pointers]
        results = store.batch_get_into(suffixed, back, [4 * KIB] * 26)
        assert all(result > 0 for result in results) and len(results) == 26
        half = 26 * 4 * KIB
        assert pool.bytes(half, half) == pool.bytes(0, half)
        # Pools of several buffers a page; the config is always given here.
        names = [f"{key}__k" for key in page_keys(4, uuid.uuid4().bytes)]
        places = [[pool.ptr + (4 * i + j) * KIB for j in range(4)] for i in range(4)]
        rows = [[KIB] * 4] * 4
        assert store.batch_put_from_multi_buffers(names, places, rows, ReplicateConfig()) == [0] * 4
        assert store.batch_get_into_multi_buffers(names, places, rows) == [4 * KIB] * 4
    assert store.remove_all() is not None


def test_sglang_drops_the_keyword_that_is_named(master):
    store, keywords = MooncakeDistributedStore(), {"enable_other_offload": True, "tenant_id": "default"}
    for _ in range(2):
        try:
            code = store.setup("localhost", "P2PHANDSHAKE", 0, MIB, "tcp", "", master.address, None,
                               **keywords)
            break
        except TypeError as error:
            (named,) = [name for name in keywords if name in str(error)]
            del keywords[named]
    assert code == 0 and keywords == {"tenant_id": "default"}
    store.close()


def test_sglang_direct_linker(store):
    """Get sessions, layer by layer; the ends stand in a finally."""
    layers, size = 4, 2 * KIB
    pool = Memory(store, 64 * KIB)
    assert store.register_buffer(pool.ptr, pool.size) in (0, None)
    pool.fill(bytes(range(256)) * 32)
    keys = page_keys(4)
    assert store.batch_put_from(keys, [pool.ptr + i * size * layers // 4 for i in range(4)],
                                [size * layers // 4] * 4) == [0] * 4
    assert getattr(store, "batch_get_session_start_with_sources", None) is None
    assert store.batch_get_session_start(keys) == [0] * 4
    try:
        for layer in range(layers):
            places = [[pool.ptr + 32 * KIB + (i * layers + layer) * 512] for i in range(4)]
            result = store.batch_get_into_multi_buffer_ranges(
                keys, places, [[512]] * 4, [[layer * 512]] * 4)
            assert result == [512] * 4
    finally:
        store.batch_get_session_end(keys)
    assert pool.bytes(32 * KIB, 8 * KIB) == pool.bytes(0, 8 * KIB)


def test_sglang_embeddings(master):
    """Seven arguments, and no config anywhere."""
    store = opened("localhost", "P2PHANDSHAKE", 4 * MIB, 16 * MIB, "tcp", "", master.address)
    pool, keys = Memory(store, 16 * KIB), [f"emb_{i:064x}" for i in range(4)]
    pointers, sizes = [pool.ptr + i * KIB for i in range(4)], [KIB] * 4
    assert all(code == 0 for code in store.batch_put_from(keys, pointers, sizes))
    assert all(code == 1 for code in store.batch_is_exist(keys))
    assert all(code > 0 for code in store.batch_get_into(keys, pointers, sizes))
    places, rows = [[p, p + 512] for p in pointers], [[512, 512]] * 4
    others = [key + "_m" for key in keys]
    assert all(code == 0 for code in store.batch_put_from_multi_buffers(others, places, rows))
    assert all(code > 0 for code in store.batch_get_into_multi_buffers(others, places, rows))


# ---- vLLM ---------------------------------------------------------------------------------------


def test_vllm_store_connector(master_of_its_own):
    master = master_of_its_own()
    store = opened("127.0.0.1", "P2PHANDSHAKE", 8 * MIB, MIB, "tcp", "", master.address)
    pool = Memory(store, 8 * MIB)
    config = ReplicateConfig()
    config.preferred_segment = store.get_hostname()
    keys = [f"Llama-3-8B@tp_rank:0@pcp0@dcp0@pp_rank:0@group:0@{i:064x}" for i in range(32)]
    segments, size = 64, 512

    def rows(count):
        places = [[pool.ptr + (i * segments + j) * size for j in range(segments)] for i in range(count)]
        return places, [[size] * segments] * count

    assert store.batch_is_exist(keys * 1000) == [0] * 32000
    assert store.batch_put_from_multi_buffers(keys, *rows(32), config) == [0] * 32
    codes = store.batch_get_into_multi_buffers(keys + ["missing"], *rows(33))
    assert [code < 0 for code in codes] == [False] * 32 + [True]
    descriptors = store.batch_get_replica_desc(keys)
    assert all(descriptors.get(key)[0].is_memory_replica() for key in keys)
    # Under pressure: what is leased is not evicted, and the code says that the pool is full.
    full = store.batch_put_from_multi_buffers(
        [f"more{i}" for i in range(16)], [[pool.ptr]] * 16, [[MIB]] * 16, config)
    assert -200 in full and set(full) <= {0, -200}
    assert store.remove_all(force=True) >= 32
    assert store.batch_is_exist(keys) == [0] * 32
    assert store.put("after", b"x") == 0
    assert store.close() == 0
    del store


def test_vllm_ascend_looks_for_a_word_in_setup():
    try:
        has = "enable_ssd_offload" in inspect.signature(MooncakeDistributedStore.setup).parameters
    except (TypeError, ValueError):
        has = "enable_ssd_offload" in (MooncakeDistributedStore.setup.__doc__ or "")
    assert has


def test_vllm_ascend_layerwise(store):
    """One key of a call fails, and is revoked by itself; sessions that live are renewed."""
    layers, size = 8, KIB
    pool = Memory(store, 3 * layers * size)
    pool.fill(bytes(range(256)) * (3 * layers * size // 256))
    keys = [f"model@{i:064x}@0" for i in range(3)]
    assert store.batch_put_session_start(keys, [layers * size] * 3, ReplicateConfig()) == [0] * 3
    for layer in range(layers):
        offsets = [[layer * size], [layer * size], [layer * size if layer != 5 else layers * size]]
        codes = store.batch_put_from_multi_buffer_ranges(
            keys, [[pool.ptr + (i * layers + layer) * size] for i in range(3)], [[size]] * 3, offsets)
        good = [i for i, code in enumerate(codes) if code == size]
        assert good == ([0, 1, 2] if layer != 5 else [0, 1])
        if layer == 5:
            assert store.batch_put_session_revoke([keys[2]]) == [0]
            keys.pop()
            assert store.batch_put_session_start([f"model@{9:064x}@0"], [8]) == [0]
            keys.append(f"model@{9:064x}@0")
            assert store.batch_put_session_revoke([keys.pop()]) == [0]
            break
    assert store.batch_put_session_end(keys) == [0, 0]
    assert store.batch_get_session_start(keys) == [0, 0]
    assert store.batch_get_session_start(keys) == [0, 0]  # renewed
    assert store.batch_get_into_multi_buffer_ranges(
        keys, [[pool.ptr]] * 2, [[size]] * 2, [[0]] * 2) == [size] * 2
    assert store.batch_get_session_end(keys) == 0
    assert store.batch_get_session_end(keys) == 0


# ---- LMCache --------------------------------------------------------------------------------------


def test_lmcache_connector(master):
    store = MooncakeDistributedStore()
    store.setup("127.0.0.1", "P2PHANDSHAKE", 16 * MIB, 4 * MIB, "tcp", "", master.address)
    config = ReplicateConfig()
    config.replica_num = 1
    config.preferred_segment = store.get_hostname()
    host, port = store.get_hostname().rsplit(":", 1)
    assert host and int(port) > 0
    pool = Memory(store, MIB)
    key = "vllm@/models/Llama@8@0@-6f3ca1"
    assert not store.is_exist(key)
    head, chunk = bytes(range(28)), memoryview(bytearray(range(200)))
    worker = threading.Thread(target=lambda: store.put_parts(key, head, chunk))
    worker.start()
    worker.join()
    (buffer,) = store.batch_get_buffer([key])
    view = memoryview(buffer)
    assert bytes(view[:28]) == head and view[28:] == chunk
    assert store.batch_get_buffer(["vllm@none"]) == [None]
    assert store.put_from(key + "2", pool.ptr, 1000, config) == 0
    # The chunk may be shorter than the buffer.
    assert store.batch_get_into([key + "2", "vllm@none"], [pool.ptr, pool.ptr], [MIB, MIB]) == [1000, -704]
    assert store.is_exist(key + "2")
    assert store.unregister_buffer(pool.ptr) == 0
    assert store.close() == 0


# ---- TensorRT-LLM -----------------------------------------------------------------------------------


def test_tensorrt_llm_rows(master_of_its_own):
    """Every code that its driver tells apart."""
    master = master_of_its_own()
    store, other = MooncakeDistributedStore(), MooncakeDistributedStore()
    assert set_up(store, master.address, segment=4 * MIB) == 0
    assert set_up(other, master.address, segment=0) == 0
    pool, row = Memory(store, 2 * MIB), 64 * KIB
    keys = [f"blob/layer{i}" for i in range(8)]
    assert store.batch_put_session_start(keys, [row] * 8) == [0] * 8
    assert store.batch_is_exist(keys) == [0] * 8
    places = [[pool.ptr + i * row, pool.ptr + i * row + row // 2] for i in range(8)]
    assert store.batch_put_from_multi_buffer_ranges(
        keys, places, [[row // 2] * 2] * 8, [[0, row // 2]] * 8) == [row] * 8
    # Being written: not ready, the slot of a reader is untouched; another writer is turned away.
    theirs = Memory(other, row)
    theirs.fill(b"\x5a" * row)
    assert other.batch_get_into(keys[:1], [theirs.ptr], [row]) == [-703]
    assert theirs.bytes() == b"\x5a" * row
    assert other.batch_put_session_start(keys[:1], [row]) == [-705]
    assert other.batch_is_exist(keys[:1]) == [0]
    assert store.batch_put_session_end(keys[:7]) == [0] * 7
    assert store.batch_put_session_revoke(keys[7:]) == [0]
    assert other.batch_put_session_start(keys[:1], [row]) == [-705]
    assert other.batch_is_exist(keys[:1]) == [1]
    got = store.batch_get_into(keys, [pool.ptr + MIB + i * row for i in range(8)], [row] * 8)
    assert got == [row] * 7 + [-704]
    assert pool.bytes(MIB, 7 * row) == pool.bytes(0, 7 * row)
    # An object that is longer than the slot moves no byte; a shorter one fills its head.
    theirs.fill(b"\x5a" * row)
    assert other.batch_get_into(keys[:1], [theirs.ptr], [row - 1]) == [-600]
    assert theirs.bytes() == b"\x5a" * row
    assert store.put("blob/short", b"abc") == 0
    assert other.batch_get_into(["blob/short"], [theirs.ptr], [row]) == [3]
    assert theirs.bytes() == b"abc" + b"\x5a" * (row - 3)
    assert store.batch_put_session_start(["blob/large"], [8 * MIB]) == [-200]
    assert store.batch_put_session_start(["blob/none"], [0]) == [-600]
    # A session that is left open is the master's to end.
    assert store.batch_put_session_start(["blob/left"], [row]) == [0]
    assert store.close() == 0
    assert store.batch_put_session_end(["blob/left"]) == [-600]
    assert other.batch_is_exist(["blob/left"]) == [0]
    assert other.close() == 0


# ---- frameworks of training ----------------------------------------------------------------------------


def test_transfer_queue(store):
    numpy = pytest.importorskip("numpy")
    arrays = [numpy.full((4, i + 1), i, dtype=numpy.float32) for i in range(10)]
    keys = [f"{i}@responses" for i in range(10)]
    assert all(code == 0 for code in store.batch_put_tensor(keys, arrays))
    got = store.batch_get_tensor(keys)
    assert len(got) == 10 and not any(tensor is None for tensor in got)
    assert tuple(got[3].shape) == (4, 4) and float(got[3].sum()) == 48
    blobs = [f"{i}@meta" for i in range(10)]
    assert store.put_batch(blobs, [b"pickled %d" % i for i in range(10)]) == 0
    assert store.get_batch(blobs) == [b"pickled %d" % i for i in range(10)]
    # A header of their own beside the elements, in two buffers.
    pool = Memory(store, 4 * KIB)
    pool.fill(store.get(keys[0])[:40])
    pool.fill(arrays[0].tobytes(), at=64)
    rows = [[40, arrays[0].nbytes]]
    assert store.batch_put_from_multi_buffers(["0@copy"], [[pool.ptr, pool.ptr + 64]], rows) == [0]
    assert numpy.array_equal(numpy.asarray(store.get_tensor("0@copy")), arrays[0])
    assert store.batch_get_into_multi_buffers(["0@copy"], [[pool.ptr + 128, pool.ptr + 256]], rows) == [56]
    assert store.unregister_buffer(pool.ptr) == 0
    assert store.remove_by_regex(r"^\d+@(meta|copy)$", force=True) == 11
    assert store.remove_by_regex("^nothing", force=True) == 0
    assert store.batch_is_exist(blobs) == [0] * 10


def test_miles_opens_with_a_dict(master):
    store = MooncakeDistributedStore()
    assert store.setup({
        "local_hostname": "127.0.0.1", "metadata_server": "P2PHANDSHAKE",
        "global_segment_size": 4 * MIB, "local_buffer_size": 8 * MIB, "protocol": "tcp",
        "rdma_devices": "", "master_server_addr": master.address}) == 0
    pool = Memory(store, 4 * KIB)
    assert store.put("meta", b"x" * 300) == 0
    assert store.get_into("meta", pool.ptr, 4 * KIB) == 300
    assert store.get_into_ranges([pool.ptr], [["meta"]], [[[0]]], [[[100]]], [[[50]]]) == [[[50]]]
    assert store.remove("meta", force=True) == 0
    assert store.setup({"local_hostname": "a", "metadata_server": "P2PHANDSHAKE"}) == -1010
    store.close()


def test_spec_forge(store):
    """Hidden states: hard pins, and the three answers of remove."""
    config = ReplicateConfig(with_hard_pin=True)
    assert store.put("state", b"x" * 1000, config) == 0
    assert store.is_exist("state") == 1
    assert store.remove("state") == -706
    assert store.remove("state", force=True) == 0
    assert store.remove("state", force=True) == -704
    assert store.put_batch(["s0", "s1"], [b"x", b"y"], config) == 0
    assert store.batch_remove(["s0", "s1", "s2"], force=True) == [0, 0, -704]


def test_fast_deploy(master):
    store = opened("127.0.0.1", "P2PHANDSHAKE", 8 * MIB, 4 * MIB, "tcp", "", master.address)
    key, value = "fastdeploy_warmup_" + uuid.uuid4().hex, bytes(MIB)
    assert store.put(key, value) == 0
    assert store.is_exist(key) == 1
    assert store.get(key) == value
    assert store.remove(key) in (0, -706)
    pool, keys = Memory(store, 16 * KIB), [f"block_{i}_k" for i in range(8)]
    pointers, sizes = [pool.ptr + i * KIB for i in range(8)], [KIB] * 8
    assert store.batch_is_exist(keys) == [0] * 8
    assert store.batch_put_from(keys, pointers, sizes) == [0] * 8
    assert store.batch_get_into(keys, pointers, sizes) == sizes
    del store  # nobody closes it


def test_ucm(store):
    keys = [f"{i:032x}_{offset}" for i in range(8) for offset in (0, 4096)]
    for key in keys:
        assert not store.get(key) and store.is_exist(key) == 0
        assert store.put(key, key.encode() * 10) == 0
    for key in keys:
        assert store.is_exist(key) == 1
        assert store.get(key) == key.encode() * 10


def test_mmaped_and_shared_memory_can_be_registered(store, tmp_path):
    """H4: whatever is mapped, by whomever."""
    import mmap
    path = tmp_path / "file"
    path.write_bytes(bytes(64 * KIB))
    with open(path, "r+b") as file:
        for area in (mmap.mmap(-1, 64 * KIB), mmap.mmap(file.fileno(), 64 * KIB)):
            address = ctypes.addressof((ctypes.c_char * (64 * KIB)).from_buffer(area))
            assert store.register_buffer(address, 64 * KIB) == 0
            ctypes.memset(address, 7, 100)
            assert store.upsert_from("m", address, 100) == 0
            assert store.get_into("m", address + 200, 100) == 100
            assert ctypes.string_at(address + 200, 100) == b"\7" * 100
            assert store.unregister_buffer(address) == 0
