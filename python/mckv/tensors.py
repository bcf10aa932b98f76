# SPDX-License-Identifier: Apache-2.0
"""Tensors as objects: 40 bytes of header, then the elements.

The header is little-endian: the number of the element type and the number of dimensions as i32,
then four lengths as i64, -1 for those that are not used. Tensors of torch and arrays of numpy
are written; what is read is a tensor of torch where torch can be imported, else an array.
"""
import copy
import ctypes
import struct
import sys

HEADER = struct.Struct("<ii4q")
DIMENSIONS_MAX = 4
INVALID = -600

# By number: the name in torch, the name in numpy (None: numpy has none).
_TYPES = (("float32", "float32"), ("float64", "float64"), ("int8", "int8"), ("uint8", "uint8"),
          ("int16", "int16"), ("uint16", "uint16"), ("int32", "int32"), ("uint32", "uint32"),
          ("int64", "int64"), ("uint64", "uint64"), ("bool", "bool"), ("float16", "float16"),
          ("bfloat16", None), ("float8_e4m3fn", None), ("float8_e5m2", None))
_SIZES = (4, 8, 1, 1, 2, 2, 4, 4, 8, 8, 1, 2, 2, 1, 1)


class NotStorable(ValueError):
    """A tensor of a type or with dimensions that the header has no room for."""


def _module(name):
    """An importable module, or None."""
    try:
        return __import__(name)
    except ImportError:
        return None


def _is_torch(tensor):
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(tensor, torch.Tensor)


def _is_numpy(tensor):
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(tensor, numpy.ndarray)


def _type_number(tensor):
    if _is_torch(tensor):
        name = str(tensor.dtype).partition(".")[2]
        numbers = [i for i, (of_torch, _) in enumerate(_TYPES) if of_torch == name]
    else:
        name = tensor.dtype.name if tensor.dtype.isnative else ""
        numbers = [i for i, (_, of_numpy) in enumerate(_TYPES) if of_numpy == name]
    if not numbers:
        raise NotStorable(f"elements of type {tensor.dtype}")
    return numbers[0]


def header_of(tensor):
    """The 40 bytes that stand before its elements. NotStorable."""
    shape = tuple(tensor.shape)
    if len(shape) > DIMENSIONS_MAX:
        raise NotStorable(f"{len(shape)} dimensions")
    lengths = shape + (-1,) * (DIMENSIONS_MAX - len(shape))
    return HEADER.pack(_type_number(tensor), len(shape), *lengths)


def elements_of(tensor):
    """Its elements in memory in order, as something with a buffer, and what keeps that alive."""
    if _is_torch(tensor):
        tensor = tensor.detach().cpu().contiguous()
        size = tensor.numel() * tensor.element_size()
        return (ctypes.c_char * size).from_address(tensor.data_ptr()) if size else b"", tensor
    numpy = sys.modules["numpy"]
    array = numpy.ascontiguousarray(tensor)
    return array.reshape(-1).view(numpy.uint8) if array.size else b"", array


def check(tensor):
    """TypeError: neither a tensor of torch nor an array of numpy."""
    if not _is_torch(tensor) and not _is_numpy(tensor):
        raise TypeError(f"expected a tensor, not {type(tensor).__name__}")


def layout_of(buffer, size):
    """Type number and shape of an object that has size bytes. NotStorable: it is no tensor."""
    if size < HEADER.size:
        raise NotStorable("shorter than a header")
    number, dimensions, *lengths = HEADER.unpack_from(buffer)
    if not 0 <= number < len(_TYPES) or not 0 <= dimensions <= DIMENSIONS_MAX:
        raise NotStorable("no header")
    shape, count = lengths[:dimensions], 1
    for length in shape:
        if length < 0:
            raise NotStorable("no shape")
        count *= length
    if count * _SIZES[number] != size - HEADER.size:
        raise NotStorable("another size than its shape")
    return number, shape, count


def tensor_of(buffer, size=None):
    """The tensor whose header and elements a buffer holds, on that memory. NotStorable."""
    size = len(buffer) if size is None else size
    number, shape, count = layout_of(buffer, size)
    of_torch, of_numpy = _TYPES[number]
    torch = _module("torch")
    if torch is not None and hasattr(torch, of_torch):
        dtype = getattr(torch, of_torch)
        if count == 0:
            return torch.empty(shape, dtype=dtype)
        return torch.frombuffer(buffer, dtype=dtype, count=count, offset=HEADER.size).reshape(shape)
    numpy = _module("numpy")
    if numpy is None or of_numpy is None:
        raise NotStorable(f"nothing here has elements of type {of_torch}")
    return numpy.frombuffer(buffer, of_numpy, count, HEADER.size).reshape(shape)


def shards_of(tensor, count, dimension):
    """Equal pieces along a dimension, the last one what is left. NotStorable: not so many."""
    dimensions = len(tensor.shape)
    if count < 1 or not -dimensions <= dimension < dimensions:
        raise NotStorable("no such split")
    dimension %= dimensions
    length = tensor.shape[dimension]
    step = -(-length // count)
    if step * (count - 1) >= length:
        raise NotStorable(f"{length} in {count} pieces")
    before = (slice(None),) * dimension
    return [tensor[before + (slice(i * step, min(length, (i + 1) * step)),)] for i in range(count)]


def shard_key(key, rank, count):
    return key if count == 1 else f"{key}_tp_{rank}"


def spread_config(config, times):
    """The config for so many keys in place of each: its vectors say the same for all of those."""
    if config is None or times == 1:
        return config
    config = copy.copy(config)
    for name in ("group_ids", "session_ids"):
        ids = getattr(config, name)
        if ids is not None:
            setattr(config, name, [one for one in ids for _ in range(times)])
    return config


class TensorCalls:
    """The calls with tensors, over those with bytes. Where an answer is a code: -600 for what
    cannot be stored as a tensor; TypeError for what is none. Where it is a tensor: None."""

    # -- writing

    def _write_tensors(self, keys, tensors, config, replaces, tp_size=1, split_dim=0):
        """A code per key: the first that is not 0 of its shards."""
        keys, tensors = list(keys), list(tensors)
        for tensor in tensors:
            check(tensor)
        if len(keys) != len(tensors) or tp_size < 1:
            return [INVALID] * len(keys)
        results, alive, names, rows, wanted = [0] * len(keys), [], [], [], []
        for i, (key, tensor) in enumerate(zip(keys, tensors)):
            try:
                shards = [tensor] if tp_size == 1 else shards_of(tensor, tp_size, split_dim)
                parts = [(header_of(shard), *elements_of(shard)) for shard in shards]
            except NotStorable:
                results[i] = INVALID
                continue
            wanted.append(i)
            names += [shard_key(key, rank, tp_size) for rank in range(tp_size)]
            rows += [part[:2] for part in parts]
            alive += [part[2] for part in parts]
        config = self._config_of(config, wanted, len(keys))
        codes = self._write_parts(names, rows, spread_config(config, tp_size), replaces)
        for place, i in enumerate(wanted):
            mine = codes[place * tp_size:(place + 1) * tp_size]
            results[i] = next((code for code in mine if code != 0), 0)
        return results

    @staticmethod
    def _config_of(config, wanted, count):
        """The config for some of the keys; vectors of the wrong length stay wrong."""
        if config is None or len(wanted) == count:
            return config
        config = copy.copy(config)
        for name in ("group_ids", "session_ids"):
            ids = getattr(config, name)
            if ids is not None:
                ids = list(ids)
                kept = [ids[i] for i in wanted] if len(ids) == count else ids + [""] * count
                setattr(config, name, kept)
        return config

    def put_tensor(self, key, tensor):
        """Stores a tensor. Returns 0 or a negative code."""
        return self._write_tensors([key], [tensor], None, False)[0]

    def pub_tensor(self, key, tensor, config=None):
        """put_tensor() with a config."""
        return self._write_tensors([key], [tensor], config, False)[0]

    def upsert_tensor(self, key, tensor):
        """put_tensor() in place of what is there."""
        return self._write_tensors([key], [tensor], None, True)[0]

    def upsert_pub_tensor(self, key, tensor, config=None):
        """upsert_tensor() with a config."""
        return self._write_tensors([key], [tensor], config, True)[0]

    def batch_put_tensor(self, keys, tensors_list):
        """Stores many tensors. Returns a code per key."""
        return self._write_tensors(keys, tensors_list, None, False)

    def batch_pub_tensor(self, keys, tensors_list, config=None):
        """batch_put_tensor() with a config."""
        return self._write_tensors(keys, tensors_list, config, False)

    def batch_upsert_tensor(self, keys, tensors_list):
        """batch_put_tensor() in place of what is there."""
        return self._write_tensors(keys, tensors_list, None, True)

    def batch_upsert_pub_tensor(self, keys, tensors_list, config=None):
        """batch_upsert_tensor() with a config."""
        return self._write_tensors(keys, tensors_list, config, True)

    # -- reading

    def batch_get_tensor(self, keys):
        """A list of tensors on memory of their own, None where there is none."""
        return [self._tensor(block) for block in self._get_blocks(keys)]

    def get_tensor(self, key):
        """The tensor, on memory of its own, or None."""
        return self.batch_get_tensor([key])[0]

    @staticmethod
    def _tensor(block):
        if isinstance(block, int):
            return None
        try:
            return tensor_of(block)
        except NotStorable:
            return None

    # -- in registered memory

    def _read_at(self, address, size):
        """size bytes of registered memory as a buffer, or None."""
        if not 0 < size <= self._registered_len(address):
            return None
        return (ctypes.c_char * size).from_address(address)

    def _is_tensor_at(self, address, size):
        buffer = self._read_at(address, size)
        try:
            return buffer is not None and layout_of(buffer, size) is not None
        except NotStorable:
            return False

    def put_tensor_from(self, key, buffer_ptr, size):
        """Stores a tensor as it lies in registered memory: header and elements, size bytes."""
        return self.batch_put_tensor_from([key], [buffer_ptr], [size])[0]

    def upsert_tensor_from(self, key, buffer_ptr, size):
        """put_tensor_from() in place of what is there."""
        return self.batch_upsert_tensor_from([key], [buffer_ptr], [size])[0]

    def batch_put_tensor_from(self, keys, buffer_ptrs, sizes):
        """put_tensor_from() per key. Returns a code per key."""
        return self._write_from(keys, buffer_ptrs, sizes, self.batch_put_from)

    def batch_upsert_tensor_from(self, keys, buffer_ptrs, sizes):
        """upsert_tensor_from() per key. Returns a code per key."""
        return self._write_from(keys, buffer_ptrs, sizes, self.batch_upsert_from)

    def _write_from(self, keys, addresses, sizes, write):
        keys, addresses, sizes = list(keys), list(addresses), list(sizes)
        if len(addresses) != len(keys) or len(sizes) != len(keys):
            return [INVALID] * len(keys)
        good = [i for i in range(len(keys)) if self._is_tensor_at(addresses[i], sizes[i])]
        codes = write([keys[i] for i in good], [addresses[i] for i in good],
                      [sizes[i] for i in good])
        results = [INVALID] * len(keys)
        for i, code in zip(good, codes):
            results[i] = code
        return results

    def get_tensor_into(self, key, buffer_ptr, size):
        """Reads a tensor to registered memory of size bytes, header and elements; the tensor
        that is returned lies on that memory. None: there is none, or it is longer."""
        return self.batch_get_tensor_into([key], [buffer_ptr], [size])[0]

    def batch_get_tensor_into(self, base_keys, buffer_ptrs, sizes):
        """get_tensor_into() per key."""
        addresses = list(buffer_ptrs)
        tensors = []
        for address, size in zip(addresses, self.batch_get_into(base_keys, addresses, sizes)):
            buffer = (ctypes.c_char * size).from_address(address) if size > 0 else -1
            tensors.append(self._tensor(buffer))
        return tensors

    # -- split over ranks: rank r has the key <key>_tp_<r>

    def put_tensor_with_tp(self, key, tensor, tp_rank=0, tp_size=1, split_dim=0):
        """Stores a tensor in tp_size pieces along split_dim, all of them whatever tp_rank."""
        return self._write_tensors([key], [tensor], None, False, tp_size, split_dim)[0]

    def pub_tensor_with_tp(self, key, tensor, config=None, tp_rank=0, tp_size=1, split_dim=0):
        """put_tensor_with_tp() with a config, which all pieces have."""
        return self._write_tensors([key], [tensor], config, False, tp_size, split_dim)[0]

    def batch_put_tensor_with_tp(self, base_keys, tensors_list, tp_rank=0, tp_size=1, split_dim=0):
        """put_tensor_with_tp() per key: a code per key."""
        return self._write_tensors(base_keys, tensors_list, None, False, tp_size, split_dim)

    def batch_pub_tensor_with_tp(self, base_keys, tensors_list, config=None, tp_rank=0, tp_size=1,
                                 split_dim=0):
        """pub_tensor_with_tp() per key: a code per key."""
        return self._write_tensors(base_keys, tensors_list, config, False, tp_size, split_dim)

    def get_tensor_with_tp(self, key, tp_rank=0, tp_size=1, split_dim=0):
        """The piece of a rank, or None."""
        return self.batch_get_tensor_with_tp([key], tp_rank, tp_size)[0]

    def batch_get_tensor_with_tp(self, base_keys, tp_rank=0, tp_size=1):
        """The piece of a rank of each."""
        if not 0 <= tp_rank < tp_size:
            return [None for _ in base_keys]
        return self.batch_get_tensor([shard_key(key, tp_rank, tp_size) for key in base_keys])

    def get_tensor_with_tp_into(self, key, buffer_ptr, size, tp_rank=0, tp_size=1, split_dim=0):
        """get_tensor_into() of the piece of a rank."""
        return self.batch_get_tensor_with_tp_into([key], [buffer_ptr], [size], tp_rank, tp_size)[0]

    def batch_get_tensor_with_tp_into(self, base_keys, buffer_ptrs, sizes, tp_rank=0, tp_size=1):
        """get_tensor_with_tp_into() per key."""
        if not 0 <= tp_rank < tp_size:
            return [None for _ in base_keys]
        keys = [shard_key(key, tp_rank, tp_size) for key in base_keys]
        return self.batch_get_tensor_into(keys, buffer_ptrs, sizes)

    def put_tensor_with_tp_from(self, key, buffer_ptr, size, tp_rank=0, tp_size=1, split_dim=0):
        """put_tensor_with_tp() of a whole tensor that lies in registered memory."""
        return self.batch_put_tensor_with_tp_from([key], [buffer_ptr], [size], tp_rank, tp_size,
                                                  split_dim)[0]

    def batch_put_tensor_with_tp_from(self, base_keys, buffer_ptrs, sizes, tp_rank=0, tp_size=1,
                                      split_dim=0):
        """put_tensor_with_tp_from() per key: a code per key."""
        keys, addresses, sizes = list(base_keys), list(buffer_ptrs), list(sizes)
        if tp_size == 1 or len(addresses) != len(keys) or len(sizes) != len(keys):
            return self.batch_put_tensor_from(keys, addresses, sizes)
        results, good, tensors = [INVALID] * len(keys), [], []
        for i, (address, size) in enumerate(zip(addresses, sizes)):
            buffer = self._read_at(address, size)
            tensor = None if buffer is None else self._tensor(buffer)
            if tensor is not None:
                good.append(i)
                tensors.append(tensor)
        codes = self._write_tensors([keys[i] for i in good], tensors, None, False, tp_size,
                                    split_dim)
        for i, code in zip(good, codes):
            results[i] = code
        return results
