# SPDX-License-Identifier: Apache-2.0
"""Structured objects and bundles: what is written is what is read, whole or in
parts; what is wrong is refused and leaves nothing."""
import json
import pickle
import random

import pytest

np = pytest.importorskip("numpy")
pytest.importorskip("msgpack")

from mckv.store import MooncakeDistributedStore, ReplicateConfig  # noqa: E402
from mckv.structured import (  # noqa: E402
    BundleTransferPolicy,
    FieldSchema,
    MooncakeBundleTransfer,
    RemoteBundleRef,
    StructuredMemberSlice,
    StructuredObjectCorrupt,
    StructuredObjectError,
    StructuredObjectMissing,
    StructuredObjectPayload,
    ValueNotStorable,
    export_ref,
    import_ref,
    raw_destination,
    tensor_object_buffer,
    values,
)
from mckv.structured import tensor_object  # noqa: E402


def torch_or_skip():
    return pytest.importorskip("torch", reason="python3-torch is not installed")


@pytest.fixture
def transfer(embedded):
    made = MooncakeBundleTransfer(embedded, key_prefix="t", default_chunk_bytes=1 << 20)
    yield made
    made.close()


def keys_of(store):
    """All keys: those of this test's embedded store."""
    return store.remove_all(force=True)


def put(transfer, buffers, metadata=None, **options):
    return transfer.put_structured_object(StructuredObjectPayload(metadata, buffers), **options)


def same(one, other):
    if isinstance(one, np.ndarray) and one.dtype.hasobject:
        return isinstance(other, np.ndarray) and one.shape == other.shape and all(map(same, one.ravel(), other.ravel()))
    if isinstance(one, np.ndarray):
        return isinstance(other, np.ndarray) and one.dtype == other.dtype and np.array_equal(one, other)
    if isinstance(one, (list, tuple)):
        return type(one) is type(other) and len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict):
        return list(one) == list(other) and all(same(one[key], other[key]) for key in one)
    return type(one) is type(other) and one == other


def objects(count):
    made = np.empty(count, dtype=object)
    for i in range(count):
        made[i] = {"i": i}
    return made


VALUES = {
    "bytes": b"sample-ids",
    "no bytes": b"",
    "array": np.arange(24, dtype=np.int32).reshape(6, 4),
    "no rows": np.empty((0, 4), dtype=np.float64),
    "scalar array": np.array(7.5),
    "fortran": np.asfortranarray(np.arange(12, dtype=np.int16).reshape(3, 4)),
    "every other": np.arange(20, dtype=np.uint8)[::2],
    "bool": np.array([True, False]),
    "complex": np.array([1 + 2j]),
    "big endian": np.arange(3, dtype=">u4"),
    "half": np.arange(3, dtype=np.float16),
    "text array": np.array(["a", "bcd"]),
    "dates": np.array(["2026-01-02"], dtype="datetime64[D]"),
    "rows": [np.arange(n, dtype=np.int32) for n in (3, 0, 5)],
    "rows of rows": [np.ones((n, 2), dtype=np.float32) for n in (1, 2)],
    "objects": objects(3),
    "list": [1, 2.5, None, "x", b"y", [True], {"k": (1, 2)}],
    "tuple": (1, (2, 3)),
    "dict": {3: "int keys", "n": None},
    "empty list": [],
    "text": "Straße",
    "none": None,
    "int": -(1 << 63),
    "large int": 1 << 64,
    "huge int": -(1 << 200),
    "numpy scalar": np.float32(1.5),
}


@pytest.mark.parametrize("name", list(VALUES))
def test_a_member_comes_back_as_it_was(transfer, name):
    ref = put(transfer, {name: VALUES[name]}, {"about": VALUES[name]})
    result = transfer.materialize(transfer.read_spec(ref))
    assert same(VALUES[name], result.objects[name])
    assert same({"about": VALUES[name]}, result.metadata)


def test_all_of_them_in_one_object(transfer):
    ref = put(transfer, VALUES, {"step": 7}, chunk_bytes=17)
    result = transfer.materialize(transfer.read_spec(ref))
    assert same(VALUES, result.objects) and result.metadata == {"step": 7}
    assert transfer.remove_structured_object(ref) > len(VALUES)
    assert keys_of(transfer.store) == 0


@pytest.mark.parametrize("chunk_bytes", (1, 7, 96, 97, 1 << 20))
@pytest.mark.parametrize("mode", ("auto", "copy"))
def test_chunks_and_policies_make_no_difference(transfer, chunk_bytes, mode):
    given = {"tokens": VALUES["array"], "rows": VALUES["rows"], "ids": b"12345"}
    for policy in (BundleTransferPolicy(copy_mode=mode), BundleTransferPolicy(4, "parallel", mode)):
        ref = put(transfer, given, policy=policy, chunk_bytes=chunk_bytes)
        assert same(given, transfer.materialize(transfer.read_spec(ref)).objects)


def test_arrays_own_their_memory_and_can_be_written(transfer):
    ref = put(transfer, {"a": VALUES["array"], "rows": VALUES["rows"]})
    first = transfer.materialize(transfer.read_spec(ref)).objects
    transfer.remove_structured_object(ref)
    transfer.store.close()
    first["a"][:] = 0
    first["rows"][0][:] = 9
    MooncakeBundleTransfer.release_result(first)


# ---- parts ---------------------------------------------------------------------------


def test_slices_are_those_of_numpy(transfer):
    chance = random.Random(5)
    array = np.arange(5 * 6 * 7, dtype=np.int16).reshape(5, 6, 7)
    ref = put(transfer, {"a": array}, chunk_bytes=50)
    for _ in range(60):
        axis = chance.randrange(-3, 3)
        start, end = (chance.choice([None, *range(-9, 9)]) for _ in range(2))
        spec = transfer.read_spec(ref).slice_member("a", axis=axis, start=start, end=end)
        cut = [slice(None)] * 3
        cut[axis] = slice(start, end)
        assert same(array[tuple(cut)].copy(), transfer.materialize(spec).objects["a"])


def test_a_slice_of_very_many_pieces_is_read_whole_and_cut(transfer):
    array = np.arange(5000 * 3, dtype=np.int32).reshape(5000, 3)
    ref = put(transfer, {"a": array})
    spec = transfer.read_spec(ref).slice_member("a", axis=1, start=1, end=2)
    assert same(array[:, 1:2].copy(), transfer.materialize(spec).objects["a"])
    with pytest.raises(ValueError):
        transfer.materialize_into(spec, {"a": np.empty((5000, 1), np.int32)})


@pytest.mark.parametrize("rows", (slice(1, 3), slice(0, 0), slice(4, 6)))
def test_a_store_without_calls_for_ranges(embedded, rows):
    class Plain:
        def __getattr__(self, name):
            if name == "get_into_ranges":
                raise AttributeError(name)
            return getattr(embedded, name)

    transfer = MooncakeBundleTransfer(Plain(), "t")
    array = np.arange(6 * 4, dtype=np.int32).reshape(6, 4)
    ref = put(transfer, {"a": array}, chunk_bytes=7)
    spec = transfer.read_spec(ref).slice_member("a", start=rows.start, end=rows.stop)
    assert same(array[rows].copy(), transfer.materialize(spec).objects["a"])
    embedded.remove(keys_of_ref(transfer, ref)[1][5], force=True)
    if rows.stop == 3:
        with pytest.raises(StructuredObjectMissing):
            transfer.materialize(spec)
    transfer.close()


@pytest.mark.skipif(not hasattr(MooncakeDistributedStore, "get_into_ranges"), reason="no calls for ranges")
def test_a_slice_moves_its_own_bytes_alone(transfer, monkeypatch):
    array = np.arange(1 << 16, dtype=np.uint8).reshape(1 << 10, 64)
    ref = put(transfer, {"a": array}, chunk_bytes=1 << 12)
    asked = []
    plain = transfer.store.get_into_ranges

    class Watched:
        def __getattr__(self, name):
            return getattr(transfer_store, name)

        def get_into_ranges(self, *args):
            asked.extend(size for buffer in args[4] for row in buffer for size in row)
            return plain(*args)

    transfer_store = transfer.store
    transfer._reader.store = Watched()
    spec = transfer.read_spec(ref).slice_member("a", start=60, end=70)
    assert same(array[60:70].copy(), transfer.materialize(spec).objects["a"])
    assert sum(asked) == 640


def test_rows_of_ragged_members(transfer):
    ref = put(transfer, {"r": VALUES["rows"], "v": VALUES["list"], "o": objects(4)},
              schemas={"v": FieldSchema("msgpack_ragged")})
    spec = transfer.read_spec(ref)
    for name in ("r", "v", "o"):
        spec = spec.slice_member(name, start=1, end=3)
    got = transfer.materialize(spec).objects
    assert same(VALUES["rows"][1:3], got["r"]) and same(VALUES["list"][1:3], got["v"]) and same(objects(4)[1:3], got["o"])


def test_specs_are_narrowed_without_being_changed(transfer):
    ref = put(transfer, {"a": VALUES["array"], "b": b"1"})
    whole = transfer.read_spec(ref)
    narrow = whole.select_members(["b"])
    assert list(transfer.materialize(whole).objects) == ["a", "b"]
    assert list(transfer.materialize(narrow).objects) == ["b"]
    assert transfer.materialize(whole.select_members([])).objects == {}


def test_what_a_spec_cannot_name(transfer):
    ref = put(transfer, {"a": VALUES["array"], "b": b"1"})
    spec = transfer.read_spec(ref)
    with pytest.raises(KeyError):
        transfer.materialize(spec.select_members(["none"]))
    with pytest.raises(KeyError):
        transfer.materialize(spec.select_members(["b"]).slice_member("a"))
    with pytest.raises(ValueError):
        transfer.materialize(spec.slice_member("b", start=0))
    with pytest.raises(IndexError):
        transfer.materialize(spec.slice_member("a", axis=2))
    with pytest.raises(TypeError):
        spec.select_members("ab")


# ---- memory of the caller -------------------------------------------------------------


def test_destinations_are_filled_and_answered(transfer):
    ref = put(transfer, {"a": VALUES["array"], "b": b"12345", "c": b"not named"})
    array, memory = np.empty((2, 4), np.int32), bytearray(8)
    spec = transfer.read_spec(ref).slice_member("a", start=2, end=4)
    result = transfer.materialize_into(spec, {"a": array, "b": memory})
    assert result.objects["a"] is array and result.objects["b"] is memory
    assert np.array_equal(array, VALUES["array"][2:4]) and memory == b"12345\0\0\0"
    assert result.objects["c"] == b"not named"


def test_destinations_that_are_registered_stay_so(transfer):
    ref = put(transfer, {"a": VALUES["array"]})
    space = np.zeros((8, 4), np.int32)
    assert transfer.store.register_buffer(space.ctypes.data, space.nbytes) == 0
    transfer.materialize_into(transfer.read_spec(ref), {"a": space[1:7]})
    assert np.array_equal(space[1:7], VALUES["array"]) and not space[7].any()
    assert transfer.store.unregister_buffer(space.ctypes.data) == 0
    assert transfer.store.unregister_buffer(space.ctypes.data) == -600


def test_destinations_that_do_not_fit_are_left_alone(transfer):
    ref = put(transfer, {"a": VALUES["array"], "b": b"12345"})
    spec = transfer.read_spec(ref)
    wrong = [np.zeros((6, 4), np.int64), np.zeros((4, 6), np.int32), np.zeros((12, 4), np.int32)[::2],
             np.zeros((6, 8), np.int32)[:, :4], np.zeros(24, np.int32), bytearray(95), b"x" * 96]
    for memory in wrong:
        with pytest.raises(ValueError):
            transfer.materialize_into(spec, {"a": memory})
        assert not np.asarray(memory, dtype=object).astype(bool).any() or memory == b"x" * 96
    with pytest.raises(ValueError):
        transfer.materialize_into(spec, {"b": bytearray(4)})
    with pytest.raises(KeyError):
        transfer.materialize_into(spec, {"none": bytearray(4)})


def test_a_lease_as_destination(transfer):
    from mckv.buffer_pool import BufferPool

    ref = put(transfer, {"b": b"12345"})
    with BufferPool(transfer.store).buffer(64) as lease:
        memory = raw_destination(lease.ptr, lease.size, lease, pre_registered=True)
        assert transfer.materialize_into(transfer.read_spec(ref), {"b": memory}).objects["b"] is memory
        assert bytes(lease.buffer[:5]) == b"12345"
    with pytest.raises(ValueError):
        raw_destination(0, 5)


# ---- tensors -------------------------------------------------------------------------------


def tensor_object_bytes(array):
    kind = next(i for i, (_, dtype) in enumerate(tensor_object.TYPES) if dtype and np.dtype(dtype) == array.dtype)
    shape = [*array.shape, *[-1] * (4 - array.ndim)]
    return tensor_object.HEADER.pack(kind, array.ndim, *shape) + array.tobytes()


def test_tensor_objects_are_written_where_they_are(transfer):
    from mckv.buffer_pool import BufferPool

    data = tensor_object_bytes(VALUES["array"])
    policy = BundleTransferPolicy(copy_mode="zero_copy")
    with BufferPool(transfer.store).buffer(len(data)) as lease:
        lease.buffer[:] = data
        ref = put(transfer, {"t": tensor_object_buffer(lease.ptr, len(data), lease)}, policy=policy, chunk_bytes=33)
    spec = transfer.read_spec(ref)
    assert np.array_equal(np.asarray(transfer.materialize(spec).objects["t"]), VALUES["array"])
    part = transfer.materialize(spec.slice_member("t", start=1, end=3)).objects["t"]
    assert np.array_equal(np.asarray(part), VALUES["array"][1:3])
    with BufferPool(transfer.store).buffer(len(data)) as lease:
        aim = tensor_object_buffer(lease.ptr, lease.size, lease)
        got = transfer.materialize_into(spec, {"t": aim}).objects["t"]
        assert np.array_equal(np.asarray(got), VALUES["array"]) and bytes(lease.buffer) == data
        del got


def test_zero_copy_takes_nothing_else(transfer):
    policy = BundleTransferPolicy(copy_mode="zero_copy")
    for value in (b"1", VALUES["array"], [1]):
        with pytest.raises(TypeError):
            put(transfer, {"a": value}, policy=policy)
    with pytest.raises(TypeError):
        transfer.put_bundle({"a": b"1"}, policy=policy)
    assert keys_of(transfer.store) == 0


def test_memory_that_is_no_tensor_object_is_refused(transfer):
    for data in (b"short", b"\xff" * 64, tensor_object.HEADER.pack(0, 1, 3, -1, -1, -1) + b"1" * 13):
        memory = np.frombuffer(bytearray(data), np.uint8)
        with pytest.raises(ValueError):
            put(transfer, {"t": tensor_object_buffer(memory.ctypes.data, memory.nbytes, memory)})


def test_tensors_of_torch(transfer):
    torch = torch_or_skip()
    given = {
        "t": torch.arange(24, dtype=torch.int32).reshape(6, 4),
        "turned": torch.arange(6.0).reshape(2, 3).T,
        "brain": torch.ones(3, dtype=torch.bfloat16),
        "scalar": torch.tensor(3.5),
        "rows": [torch.arange(n, dtype=torch.int32) for n in (3, 1)],
        "dicts": [{"pixel": torch.ones(2, 2)}, None],
    }
    ref = put(transfer, given, {"m": given["t"]}, schemas={"dicts": FieldSchema("ragged_tensor_dict")})
    spec = transfer.read_spec(ref)
    got = transfer.materialize(spec).objects
    for name in ("t", "turned", "brain", "scalar"):
        assert torch.equal(given[name], got[name]) and given[name].dtype == got[name].dtype
    assert all(map(torch.equal, given["rows"], got["rows"]))
    assert torch.equal(got["dicts"][0]["pixel"], torch.ones(2, 2)) and got["dicts"][1] is None
    aim = torch.empty((2, 4), dtype=torch.int32)
    spec = spec.select_members(["t"]).slice_member("t", start=1, end=3)
    assert transfer.materialize_into(spec, {"t": aim}).objects["t"] is aim and torch.equal(aim, given["t"][1:3])


# ---- write options -----------------------------------------------------------------------


def keys_of_ref(transfer, ref):
    from mckv.structured.reader import load_manifest

    manifest = load_manifest(transfer.store, ref.manifest_key)
    return manifest, [*manifest.payload_keys(), manifest.key]


class Recording:
    """A store that notes the options of each write."""

    def __init__(self, store):
        self.plain, self.rows = store, {}

    def __getattr__(self, name):
        return getattr(self.plain, name)

    def note(self, keys, config):
        for i, key in enumerate(keys):
            self.rows[key] = None if config is None else (
                (config.session_ids or [""] * len(keys))[i], (config.group_ids or [""] * len(keys))[i],
                config.with_hard_pin, config.replica_num)
            assert config is None or all(
                given is None or len(given) == len(keys) for given in (config.session_ids, config.group_ids))

    def put_batch(self, keys, data, config=None):
        self.note(keys, config)
        return self.plain.put_batch(keys, data, *([] if config is None else [config]))

    def batch_put_from(self, keys, ptrs, sizes, config=None):
        self.note(keys, config)
        return self.plain.batch_put_from(keys, ptrs, sizes, *([] if config is None else [config]))


@pytest.mark.parametrize("policy", (None, BundleTransferPolicy(3, "parallel"), BundleTransferPolicy(copy_mode="copy")))
def test_every_key_has_the_options_of_the_object(embedded, policy):
    store = Recording(embedded)
    transfer = MooncakeBundleTransfer(store, "t")
    config = ReplicateConfig()
    config.session_ids, config.group_ids, config.with_hard_pin = ["agent-7"], ["g"], True
    ref = put(transfer, {"a": VALUES["array"], "r": VALUES["rows"], "b": b"1" * 50}, config=config, policy=policy, chunk_bytes=9)
    _, keys = keys_of_ref(transfer, ref)
    assert len(keys) > 15 and set(store.rows) == set(keys)
    assert set(store.rows.values()) == {("agent-7", "g", True, 1)}
    assert config.session_ids == ["agent-7"] and config.group_ids == ["g"]
    transfer.close()


def test_a_member_may_have_a_session_of_its_own(embedded):
    store = Recording(embedded)
    transfer = MooncakeBundleTransfer(store, "t")
    config = ReplicateConfig()
    config.session_ids = ["s-a", "s-b"]
    ref = put(transfer, {"a": b"1" * 30, "b": b"2" * 30}, config=config, chunk_bytes=10)
    manifest, _ = keys_of_ref(transfer, ref)
    for name, tag in (("a", "s-a"), ("b", "s-b")):
        for key, _ in manifest.chunks(manifest.members[name]):
            assert store.rows[key][0] == tag
    transfer.close()


def test_options_that_do_not_fit_are_refused_before_anything_is_written(transfer):
    config = ReplicateConfig()
    for name in ("session_ids", "group_ids"):
        config.session_ids = config.group_ids = None
        setattr(config, name, ["1", "2", "3"])
        with pytest.raises(ValueError):
            put(transfer, {"a": b"1", "b": b"2"}, config=config)
    config.group_ids, config.session_ids = None, ["x" * 257]
    with pytest.raises(StructuredObjectError) as caught:
        put(transfer, {"a": b"1"}, config=config)
    assert caught.value.code == -600
    assert keys_of(transfer.store) == 0


# ---- what is refused -----------------------------------------------------------------------


class Thing:
    pass


def test_values_that_cannot_be_stored(transfer):
    loop = []
    loop.append(loop)
    objects_of = np.empty(1, dtype=object)
    objects_of[0] = Thing()
    fields = np.zeros(2, dtype=[("x", "i4")])
    for value in (Thing(), {1, 2}, [Thing()], {"k": Thing()}, loop, objects_of, fields, "\ud800", {"a": "\udfff"},
                  1 << 100000, len, 3 + 4j):
        with pytest.raises((TypeError, ValueError)):
            put(transfer, {"ok": b"1" * 100, "a": value})
        with pytest.raises((TypeError, ValueError)):
            put(transfer, {"ok": b"1"}, {"a": value})
    with pytest.raises(ValueNotStorable):
        put(transfer, {"a": [None, [1]]}, schemas={"a": FieldSchema("typed_ragged")})
    with pytest.raises(TypeError):
        put(transfer, {3: b"1"})
    with pytest.raises(TypeError):
        transfer.put_structured_object({"a": b"1"})
    assert keys_of(transfer.store) == 0


def test_settings_that_are_none(embedded):
    for prefix in ("", "a\0b", "x" * 5000):
        with pytest.raises(ValueError):
            MooncakeBundleTransfer(embedded, prefix)
    for chunk in (0, -1, 1 << 60):
        with pytest.raises(ValueError):
            MooncakeBundleTransfer(embedded, default_chunk_bytes=chunk)
    for wrong in ({"copy_mode": "x"}, {"put_mode": "x"}, {"max_inflight_put": 0}, {"max_inflight_put": 65}):
        with pytest.raises(ValueError):
            BundleTransferPolicy(**wrong)
    for wrong in ({"codec": "pickle"}, {"metadata": {"section": "x"}}):
        with pytest.raises(ValueError):
            FieldSchema(**wrong)


def test_a_write_that_fails_leaves_nothing(embedded):
    class Failing:
        def __init__(self, at):
            self.left = at

        def __getattr__(self, name):
            return getattr(embedded, name)

        def put_batch(self, *args):
            self.left -= 1
            return -901 if self.left == 0 else embedded.put_batch(*args)

        def batch_put_from(self, keys, *args):
            self.left -= 1
            return [-200] * len(keys) if self.left == 0 else embedded.batch_put_from(keys, *args)

    given, failures = {"a": b"1" * 30, "r": VALUES["rows"]}, 0
    for at in range(1, 100):
        transfer = MooncakeBundleTransfer(Failing(at), "t")
        try:
            put(transfer, given, chunk_bytes=8)
            break
        except StructuredObjectError as error:
            assert error.code in (-901, -200)
            failures += 1
            assert keys_of(embedded) == 0
        finally:
            transfer.close()
    assert failures >= 3


def test_what_is_gone_is_told(transfer):
    ref = put(transfer, {"a": b"1" * 100, "b": b"2"}, chunk_bytes=10)
    manifest, keys = keys_of_ref(transfer, ref)
    assert transfer.store.remove(keys[3], force=True) == 0
    with pytest.raises(StructuredObjectMissing) as caught:
        transfer.materialize(transfer.read_spec(ref))
    assert caught.value.code == -704 and caught.value.key == keys[3]
    assert transfer.remove_structured_object(ref) == len(keys) - 1
    with pytest.raises(LookupError):
        transfer.materialize(transfer.read_spec(ref))
    assert transfer.remove_structured_object(ref) == 0


def test_a_store_that_cannot_be_asked_is_no_absence(embedded):
    transfer = MooncakeBundleTransfer(embedded, "t")
    ref = put(transfer, {"a": b"1"})
    embedded.close()
    for call in (lambda: transfer.materialize(transfer.read_spec(ref)), lambda: transfer.remove_structured_object(ref),
                 lambda: put(transfer, {"a": b"1"}), lambda: transfer.put_bundle({"a": b"1"})):
        with pytest.raises(StructuredObjectError) as caught:
            call()
        assert caught.value.code == -600 and not isinstance(caught.value, StructuredObjectMissing)


def test_removing_beside_readers(transfer):
    import threading

    given = {"a": np.arange(5000), "r": VALUES["rows"], "b": b"1" * 5000}
    faults, over = [], threading.Event()
    refs = [put(transfer, given, chunk_bytes=999)]

    def read():
        while not over.is_set():
            try:
                got = transfer.materialize(transfer.read_spec(refs[-1])).objects
                if not same(given, got):
                    faults.append(got)
            except StructuredObjectMissing:
                pass
            except Exception as error:
                faults.append(error)

    threads = [threading.Thread(target=read) for _ in range(3)]
    for thread in threads:
        thread.start()
    for _ in range(40):
        refs.append(put(transfer, given, chunk_bytes=999))
        assert transfer.remove_structured_object(refs[-2]) > 0
    over.set()
    for thread in threads:
        thread.join(60)
    assert not faults, faults[0]


def test_a_payload_of_another_size_is_told(transfer):
    ref = put(transfer, {"a": b"1" * 100})
    manifest, keys = keys_of_ref(transfer, ref)
    for data in (b"1" * 99, b"1" * 101):
        assert transfer.store.upsert(keys[0], data) == 0
        with pytest.raises(StructuredObjectCorrupt):
            transfer.materialize(transfer.read_spec(ref))


def test_manifests_that_are_none(transfer):
    """Each byte of a manifest changed or left out: refused by name, or an object."""
    ref = put(transfer, {"a": VALUES["array"], "r": VALUES["rows"], "v": [1, "x"]}, {"m": (1, 2)})
    good = transfer.store.get(ref.manifest_key)
    chance, refused = random.Random(11), 0
    for i in range(400):
        data = bytearray(good)
        if i % 4 == 0:
            del data[chance.randrange(len(data)) :]
        else:
            data[chance.randrange(len(data))] = chance.randrange(256)
        assert transfer.store.upsert(ref.manifest_key, bytes(data or b"\xc1")) == 0
        try:
            transfer.materialize(transfer.read_spec(ref))
        except (StructuredObjectError, KeyError, ImportError):
            refused += 1
    assert refused > 200


def test_members_that_are_none(transfer):
    ref = put(transfer, {"a": VALUES["array"], "r": VALUES["rows"], "v": VALUES["list"]}, schemas={"v": FieldSchema("msgpack_ragged")})
    good = transfer.store.get(ref.manifest_key)
    lies = [("codec", [1]), ("codec", None), ("codec", "pickle"), ("shape", [-6, -4]), ("shape", [6, 5]), ("shape", "x"), ("shape", [1] * 99),
            ("shape", [True]), ("dtype", "O"), ("dtype", "|V8"), ("dtype", [1]), ("dtype", "nonsense"), ("size", -1), ("size", 10**30),
            ("size", 97), ("size", "x"), ("rows", -1), ("rows", 4), ("rows", 1 << 40), ("dims", 0), ("dims", 99), ("dims", 2),
            ("container", 3), ("container", [1]), ("kind", [1]), ("cut", [1]), ("part", [1])]
    for place in range(3):
        for name, lie in lies:
            top = values.load(good)
            params = top["members"][place][2]
            if name not in params and name not in ("cut", "part"):
                continue
            params[name] = lie
            assert transfer.store.upsert(ref.manifest_key, values.dump(top)) == 0
            with pytest.raises(StructuredObjectCorrupt):
                transfer.materialize(transfer.read_spec(ref))
                pytest.fail(f"{place} {name} {lie}")
    for name, lie in (("format", "x"), ("version", 2), ("chunk_bytes", 0), ("chunk_bytes", "x"), ("metadata", [1]), ("members", 3),
                      ("members", [[]]), ("members", [["a", -1, {}, 0]]), ("members", [[3, 1, {"size": 1}, 0]])):
        top = values.load(good)
        top[name] = lie
        assert transfer.store.upsert(ref.manifest_key, values.dump(top)) == 0
        with pytest.raises(StructuredObjectCorrupt):
            transfer.materialize(transfer.read_spec(ref))


def test_bytes_that_no_value_has():
    chance = random.Random(3)
    good = values.dump([1, (2, 3), {"k": VALUES["array"]}, 1 << 80, np.float32(1)])
    for _ in range(3000):
        data = bytearray(good)
        for _ in range(chance.randrange(1, 4)):
            data[chance.randrange(len(data))] = chance.randrange(256)
        try:
            values.load(bytes(data))
        except (ValueError, ImportError):
            pass


# ---- references ------------------------------------------------------------------------------


def test_references_cross_processes(transfer):
    ref = put(transfer, {"a": b"1"})
    handle = json.loads(json.dumps(export_ref(ref)))
    for other in (import_ref(handle), pickle.loads(pickle.dumps(ref)), handle):
        assert transfer.materialize(transfer.read_spec(other)).objects == {"a": b"1"}
    assert import_ref(ref) is ref and export_ref(handle) == handle


def test_handles_that_are_none():
    good = {"type": "mooncake_bundle_ref", "version": 1, "manifest_key": "a/manifest", "kind": "bundle"}
    assert import_ref(good) == RemoteBundleRef("a/manifest", "a", "bundle")
    for change in ({"type": "x"}, {"version": 2}, {"manifest_key": "a"}, {"manifest_key": 3}, {"kind": "x"}):
        with pytest.raises(ValueError):
            import_ref({**good, **change})
    for wrong in (None, 3, "a/manifest", [good]):
        with pytest.raises(TypeError):
            import_ref(wrong)


# ---- bundles ------------------------------------------------------------------------------------


def test_bundles_of_named_bytes(transfer):
    given = {"a": b"1", "empty": b"", "long": bytes(range(256)) * 10, "memory": bytearray(b"23")}
    ref = transfer.put_bundle(given, metadata={"k": 1}, chunk_bytes=100)
    assert transfer.get_bundle(ref) == given
    assert transfer.get_bundle(export_ref(ref), ["a"]) == {"a": b"1"}
    assert transfer.materialize(transfer.read_spec(ref)).metadata == {"k": 1}
    assert transfer.remove_bundle(ref) == 29
    with pytest.raises((TypeError, ValueError)):
        transfer.put_bundle({"a": "text"})
    assert keys_of(transfer.store) == 0


def test_slices_have_bounds():
    assert StructuredMemberSlice(0, -2, None).bounds(5) == (3, 5)
    assert StructuredMemberSlice(0, 4, 2).bounds(5) == (4, 4)
