# SPDX-License-Identifier: Apache-2.0
"""Values of Python as bytes and back: what a manifest, metadata and rows of
arbitrary values are written in.

MessagePack, with five extensions for what it lacks. Nothing that is read can name
a class or run code; what cannot be written is refused before anything is stored.
numpy and torch are looked for only when a value needs them.
"""
from __future__ import annotations

import sys
from typing import Any, Tuple

import msgpack

EXT_NDARRAY = 1
EXT_TENSOR = 2
EXT_TUPLE = 3
EXT_BIG_INT = 4
EXT_SCALAR = 5

#: Integers beyond 64 bits are written as text; longer ones are refused.
INT_DIGITS_MAX = 4000


class ValueNotStorable(TypeError):
    """A value of a kind that cannot be stored: an object of a class, a function."""


def numpy():
    """The module numpy; ImportError says what needs it."""
    try:
        import numpy as module
    except ImportError as error:
        raise ImportError("array members need the package numpy") from error
    return module


def torch():
    """The module torch; ImportError says what needs it."""
    try:
        import torch as module
    except ImportError as error:
        raise ImportError("tensor members need the package torch") from error
    return module


def is_ndarray(value: Any) -> bool:
    module = sys.modules.get("numpy")
    return module is not None and isinstance(value, module.ndarray)


def is_tensor(value: Any) -> bool:
    module = sys.modules.get("torch")
    return module is not None and isinstance(value, module.Tensor)


def is_scalar(value: Any) -> bool:
    """A scalar of numpy."""
    module = sys.modules.get("numpy")
    return module is not None and isinstance(value, module.generic)


def dtype_name(dtype: Any) -> str:
    """A dtype without objects, as text that ``read_dtype`` takes.

    Raises ValueNotStorable for dtypes that hold Python objects or have fields.
    """
    if dtype.hasobject or dtype.names is not None or dtype.subdtype is not None:
        raise ValueNotStorable(f"an array of dtype {dtype} has no bytes of its own")
    return dtype.str


def read_dtype(name: Any):
    """The dtype of a name that was stored; ValueError if it is none."""
    if not isinstance(name, str) or len(name) > 32 or name.lstrip("<>|=")[:1] in ("O", "V", ""):
        raise ValueError(f"not a dtype: {name!r}")
    try:
        return numpy().dtype(name)
    except TypeError:
        raise ValueError(f"not a dtype: {name!r}") from None


def torch_dtype_name(dtype: Any) -> str:
    return str(dtype).rpartition(".")[2]


def read_torch_dtype(name: Any):
    module = torch()
    dtype = getattr(module, name, None) if isinstance(name, str) else None
    if not isinstance(dtype, module.dtype):
        raise ValueError(f"not a dtype of torch: {name!r}")
    return dtype


def raw_view(ptr: int, size: int, is_writable: bool = False) -> memoryview:
    """Bytes at an address. It keeps nothing alive: whoever makes one does."""
    import ctypes

    make = ctypes.pythonapi.PyMemoryView_FromMemory
    make.restype = ctypes.py_object
    make.argtypes = [ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int]
    return make(ptr, size, 0x200 if is_writable else 0x100)


def tensor_bytes(tensor: Any) -> Tuple[memoryview, Any]:
    """The bytes of a tensor in order of its elements, and what keeps them. Of a
    contiguous one on the host they are its own; of others they are copied."""
    plain = tensor.detach().cpu().contiguous()
    nbytes = plain.numel() * plain.element_size()
    if nbytes == 0:
        return memoryview(b""), plain
    return raw_view(plain.data_ptr(), nbytes), plain


def tensor_of(data: Any, dtype: Any, shape) -> Any:
    """A tensor over writable bytes, which it keeps."""
    module = torch()
    if len(data) == 0:
        return module.empty(tuple(shape), dtype=dtype)
    return module.frombuffer(data, dtype=dtype).reshape(tuple(shape))


def array_bytes(array: Any) -> memoryview:
    """The bytes of an array in C order; its own where it has that order."""
    plain = numpy().ascontiguousarray(array)
    return memoryview(plain.reshape(-1).view("u1")) if plain.size else memoryview(b"")


def array_of(data: Any, dtype: Any, shape) -> Any:
    """An array over bytes, which it keeps."""
    module = numpy()
    if len(data) == 0:
        return module.empty(tuple(shape), dtype=dtype)
    return module.frombuffer(data, dtype=dtype).reshape(tuple(shape))


def _tensor_copy(tensor: Any) -> bytes:
    view, owner = tensor_bytes(tensor)
    copy = bytes(view)
    del owner
    return copy


def _write_other(value: Any) -> msgpack.ExtType:
    if is_ndarray(value):
        if value.dtype.hasobject:
            head = [None, list(value.shape), value.reshape(-1).tolist()]
        else:
            head = [dtype_name(value.dtype), list(value.shape), bytes(array_bytes(value))]
        return msgpack.ExtType(EXT_NDARRAY, dump(head))
    if is_tensor(value):
        head = [torch_dtype_name(value.dtype), list(value.shape), _tensor_copy(value)]
        return msgpack.ExtType(EXT_TENSOR, dump(head))
    if is_scalar(value):
        return msgpack.ExtType(EXT_SCALAR, dump([dtype_name(value.dtype), value.tobytes()]))
    if isinstance(value, tuple):
        return msgpack.ExtType(EXT_TUPLE, dump(list(value)))
    if isinstance(value, int):  # over 64 bits: the packer hands it on
        if abs(value).bit_length() > INT_DIGITS_MAX * 3:
            raise ValueNotStorable("an integer of more than 4000 digits")
        return msgpack.ExtType(EXT_BIG_INT, str(value).encode())
    raise ValueNotStorable(f"a value of type {type(value).__name__} cannot be stored")


def dump(value: Any) -> bytes:
    """A value as bytes.

    None, bool, int, float, str, bytes, list, tuple, dict with keys of these, arrays
    and scalars of numpy, tensors of torch; nothing else: ValueNotStorable, and for
    strings with surrogates UnicodeEncodeError.
    """
    try:
        return msgpack.packb(value, default=_write_other, use_bin_type=True, strict_types=True)
    except OverflowError as error:
        raise ValueNotStorable(str(error)) from None
    except (ValueError, TypeError) as error:
        if isinstance(error, (ValueNotStorable, UnicodeError)):
            raise
        raise ValueNotStorable(str(error)) from None


def _read_array(data: bytes) -> Any:
    name, shape, content = load(data)
    if name is None:
        array = numpy().empty(len(content), dtype=object)
        for i, item in enumerate(content):
            array[i] = item
        return array.reshape(shape)
    return array_of(bytearray(content), read_dtype(name), shape)


def _read_ext(code: int, data: bytes) -> Any:
    if code == EXT_NDARRAY:
        return _read_array(data)
    if code == EXT_TENSOR:
        name, shape, content = load(data)
        return tensor_of(bytearray(content), read_torch_dtype(name), shape)
    if code == EXT_TUPLE:
        return tuple(load(data))
    if code == EXT_BIG_INT:
        if len(data) > INT_DIGITS_MAX + 1:
            raise ValueError("an integer of more than 4000 digits")
        return int(data)
    if code == EXT_SCALAR:
        name, content = load(data)
        return numpy().frombuffer(content, dtype=read_dtype(name))[0]
    raise ValueError(f"unknown extension {code}")


def load(data: Any) -> Any:
    """The value of bytes that ``dump`` made; ValueError for any other bytes."""
    try:
        return msgpack.unpackb(data, ext_hook=_read_ext, raw=False, strict_map_key=False)
    except ValueError:
        raise
    except Exception as error:  # every fault of bytes from outside is one
        raise ValueError(f"not readable: {error}") from None
