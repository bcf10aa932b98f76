# SPDX-License-Identifier: Apache-2.0
"""Tensors of torch and arrays of numpy as objects."""
import ctypes
import struct
import subprocess
import sys

import pytest
from mooncake.store import ReplicateConfig
from test_store import Memory

numpy = pytest.importorskip("numpy")
INVALID = -600
KINDS = ["float32", "float64", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64",
         "uint64", "bool", "float16"]


@pytest.fixture(params=["numpy", "torch"])
def make(request):
    """Turns an array of numpy into what is stored."""
    if request.param == "numpy":
        return lambda array: array
    torch = pytest.importorskip("torch", reason="no torch (python3-torch)")
    return torch.from_numpy


def plain(tensor):
    return tensor if isinstance(tensor, numpy.ndarray) else tensor.numpy()


def same(tensor, array):
    got = plain(tensor)
    return got.dtype == array.dtype and got.shape == array.shape and (got == array).all()


def test_the_header_is_what_others_read(embedded, make):
    """i32 type, i32 dimensions, four i64 lengths of which -1 says unused; then the elements."""
    array = numpy.arange(6, dtype=numpy.float32).reshape(2, 3)
    assert embedded.put_tensor("a", make(array)) == 0
    data = embedded.get("a")
    assert struct.unpack_from("<ii4q", data) == (0, 2, 2, 3, -1, -1)
    assert data[40:] == array.tobytes()


@pytest.mark.parametrize("number, name", enumerate(KINDS))
def test_every_type_of_element_comes_back(embedded, number, name):
    array = numpy.arange(24).astype(name).reshape(2, 3, 4)
    assert embedded.put_tensor("a", array) == 0
    assert struct.unpack_from("<ii", embedded.get("a")) == (number, 3)
    assert same(embedded.get_tensor("a"), array)


@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2), (1, 1, 1, 1), (5, 4, 3, 2)])
def test_every_shape_comes_back(embedded, make, shape):
    array = numpy.arange(numpy.prod(shape, dtype=int)).reshape(shape)
    assert embedded.put_tensor("a", make(array)) == 0
    assert same(embedded.get_tensor("a"), array)


def test_views_are_stored_in_their_own_order(embedded, make):
    array = numpy.arange(24, dtype=numpy.int32).reshape(4, 6)
    assert embedded.put_tensor("a", make(array).T) == 0
    assert same(embedded.get_tensor("a"), array.T)


def test_what_was_read_can_be_written_and_stays(embedded, make):
    array = numpy.arange(6)
    assert embedded.put_tensor("a", make(array)) == 0
    tensor = embedded.get_tensor("a")
    assert embedded.remove_all(force=True) == 1
    embedded.close()
    tensor[0] = 9
    assert plain(tensor)[0] == 9 and plain(tensor)[5] == 5


def test_batches_and_upserts(embedded, make):
    arrays = [numpy.arange(i + 1) for i in range(20)]
    keys = [f"k{i}" for i in range(20)]
    assert embedded.batch_put_tensor(keys, [make(array) for array in arrays]) == [0] * 20
    got = embedded.batch_get_tensor(keys + ["none"])
    assert got.pop() is None and all(map(same, got, arrays))
    other = make(numpy.array([7]))
    assert embedded.put_tensor("k0", other) == 0 and plain(embedded.get_tensor("k0")) == [0]
    assert embedded.upsert_tensor("k0", other) == 0 and plain(embedded.get_tensor("k0")) == [7]
    assert embedded.batch_upsert_tensor(["k1", "k2"], [other] * 2) == [0, 0]
    assert embedded.upsert_pub_tensor("k3", other, ReplicateConfig()) == 0
    assert embedded.batch_upsert_pub_tensor(["k4"], [other], ReplicateConfig()) == [0]
    assert [plain(embedded.get_tensor(f"k{i}"))[0] for i in range(5)] == [7] * 5


def test_what_is_no_tensor(embedded):
    array = numpy.arange(4)
    for wrong in (b"bytes", [1, 2], None, 5):
        with pytest.raises(TypeError):
            embedded.put_tensor("a", wrong)
        with pytest.raises(TypeError):
            embedded.batch_put_tensor(["a", "b"], [array, wrong])
    five = numpy.zeros((1, 1, 1, 1, 1))
    text, swapped = numpy.array(["a"]), numpy.arange(4, dtype=">i4")
    for wrong in (five, text, swapped, numpy.zeros(2, dtype=complex)):
        assert embedded.put_tensor("a", wrong) == INVALID
    config = ReplicateConfig(session_ids=["one", "two", "three"])
    assert embedded.batch_pub_tensor(["a", "b", "c"], [array, five, array], config) == [0, INVALID, 0]
    assert embedded.probe("c").session_id == "three"
    assert embedded.batch_put_tensor(["d"], []) == [INVALID]
    # Objects that are none.
    for i, data in enumerate((b"x", bytes(39), bytes(40) + b"x", struct.pack("<ii4q", 0, 5, 1, 1, 1, 1),
                              struct.pack("<ii4q", 15, 0, -1, -1, -1, -1),
                              struct.pack("<ii4q", 0, 1, -4, -1, -1, -1),
                              struct.pack("<ii4q", 0, 2, 2**62, 2**62, -1, -1),
                              struct.pack("<ii4q", -1, 1, 1, -1, -1, -1) + bytes(4))):
        assert embedded.put(f"o{i}", data) == 0
        assert embedded.get_tensor(f"o{i}") is None


def test_registered_memory(embedded, make):
    array = numpy.arange(100, dtype=numpy.int16).reshape(10, 10)
    memory = Memory(embedded, 4096)
    assert embedded.put_tensor("a", make(array)) == 0
    tensor = embedded.get_tensor_into("a", memory.ptr, 240)
    assert same(tensor, array)
    memory.array[40] = 77
    assert plain(tensor)[0, 0] == 77  # it lies there
    assert embedded.put_tensor_from("b", memory.ptr, 240) == 0
    assert plain(embedded.get_tensor("b"))[0, 0] == 77
    assert embedded.upsert_tensor_from("a", memory.ptr, 240) == 0
    assert embedded.batch_put_tensor_from(["c", "d"], [memory.ptr] * 2, [240, 239]) == [0, INVALID]
    assert embedded.batch_upsert_tensor_from(["c"], [memory.ptr], [240]) == [0]
    assert embedded.get_tensor_into("a", memory.ptr, 239) is None
    assert embedded.batch_get_tensor_into(["a", "none"], [memory.ptr, memory.ptr + 1024],
                                          [240, 240])[1] is None
    for ptr, size in ((8, 240), (memory.ptr + 4000, 240), (memory.ptr, 0), (memory.ptr, 2**63)):
        assert embedded.put_tensor_from("e", ptr, size) == INVALID
        assert embedded.get_tensor_into("a", ptr, size) is None
    assert embedded.is_exist("e") == 0


@pytest.mark.parametrize("dimension", [0, 1, -1])
def test_split_over_ranks(embedded, make, dimension):
    array = numpy.arange(70).reshape(10, 7)
    config = ReplicateConfig(session_ids=["turn"], group_ids=["group"])
    assert embedded.pub_tensor_with_tp("a", make(array), config, 0, 4, dimension) == 0
    step = -(-array.shape[dimension] // 4)
    for rank in range(4):
        piece = array.take(range(rank * step, min((rank + 1) * step, array.shape[dimension])), dimension)
        if piece.size:
            assert same(embedded.get_tensor_with_tp("a", rank, 4, dimension), piece)
            assert embedded.probe(f"a_tp_{rank}").session_id == "turn"
    assert embedded.get_tensor_with_tp("a", 4, 4) is None
    assert embedded.get_tensor_with_tp("a", -1, 4) is None
    assert embedded.is_exist("a") == 0


def test_splits_of_many_and_of_memory(embedded, make):
    arrays = [numpy.arange(8) + i for i in range(3)]
    keys = ["x", "y", "z"]
    assert embedded.batch_put_tensor_with_tp(keys, [make(one) for one in arrays], 0, 2) == [0] * 3
    got = embedded.batch_get_tensor_with_tp(keys, 1, 2)
    assert all(map(same, got, [one[4:] for one in arrays]))
    ids = ReplicateConfig(session_ids=["s0", "s1", "s2"])
    assert embedded.batch_pub_tensor_with_tp(["p", "q", "r"], [make(one) for one in arrays], ids, 0, 2) == [0] * 3
    assert embedded.probe("q_tp_0").session_id == embedded.probe("q_tp_1").session_id == "s1"
    memory = Memory(embedded, 4096)
    assert embedded.put_tensor("whole", make(arrays[0])) == 0
    size = embedded.get_into("whole", memory.ptr, 4096)
    assert embedded.put_tensor_with_tp_from("w", memory.ptr, size, tp_size=2) == 0
    assert same(embedded.get_tensor_with_tp_into("w", memory.ptr, 4096, 1, 2), arrays[0][4:])
    assert embedded.batch_put_tensor_with_tp_from(["v"], [8], [size], tp_size=2) == [INVALID]
    assert embedded.put_tensor_with_tp("u", make(numpy.arange(3)), tp_size=4) == INVALID
    assert embedded.put_tensor_with_tp("u", make(numpy.arange(3)), tp_size=0) == INVALID
    assert embedded.put_tensor_with_tp("u", make(numpy.arange(3)), tp_size=2, split_dim=1) == INVALID
    assert embedded.put_tensor_with_tp("one", make(numpy.arange(3))) == 0
    assert same(embedded.get_tensor("one"), numpy.arange(3))


def test_half_floats_of_torch(embedded):
    torch = pytest.importorskip("torch", reason="no torch (python3-torch)")
    tensor = torch.arange(8, dtype=torch.float32).to(torch.bfloat16)
    assert embedded.put_tensor("a", tensor) == 0
    assert struct.unpack_from("<i", embedded.get("a")) == (12,)
    got = embedded.get_tensor("a")
    assert got.dtype == torch.bfloat16 and bool((got == tensor).all())


def test_arrays_where_there_is_no_torch():
    """As on a machine without it: reading gives arrays; bfloat16 cannot be, and is None."""
    done = subprocess.run([sys.executable, "-c", """
import struct, sys
sys.modules["torch"] = None
import numpy
from mooncake.store import MooncakeDistributedStore
store = MooncakeDistributedStore()
assert store.setup("h", "P2PHANDSHAKE", 1 << 20, 0, "tcp", "", "embedded") == 0
assert store.put_tensor("a", numpy.arange(3)) == 0
assert isinstance(store.get_tensor("a"), numpy.ndarray)
store.put("b", struct.pack("<ii4q", 12, 1, 2, -1, -1, -1) + bytes(4))
assert store.get_tensor("b") is None
"""], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


def test_memory_of_a_tensor_is_registered_as_any_other(embedded):
    array = numpy.zeros(1000, dtype=numpy.uint8)
    assert embedded.register_buffer(array.ctypes.data, array.nbytes) == 0
    assert embedded.put("a", b"12345") == 0
    assert embedded.get_into("a", array.ctypes.data, array.nbytes) == 5
    assert ctypes.string_at(array.ctypes.data, 5) == b"12345"
    assert embedded.unregister_buffer(array.ctypes.data) == 0
