# SPDX-License-Identifier: Apache-2.0
"""Tensors as the store's tensor calls lay them out: a header of 40 bytes (i32
type, i32 axes, four i64 lengths of which unused ones are -1, little-endian), then
the elements in C order."""
from __future__ import annotations

import math
import struct
from typing import Any, Tuple

from . import values
from .types import StructuredObjectCorrupt

HEADER = struct.Struct("<ii4q")
#: By number: the name in torch, and the dtype of numpy or None where it has none.
TYPES = (
    ("float32", "<f4"), ("float64", "<f8"), ("int8", "|i1"), ("uint8", "|u1"), ("int16", "<i2"),
    ("uint16", "<u2"), ("int32", "<i4"), ("uint32", "<u4"), ("int64", "<i8"), ("uint64", "<u8"),
    ("bool", "|b1"), ("float16", "<f2"), ("bfloat16", None), ("float8_e4m3fn", None), ("float8_e5m2", None),
)
SIZES = (4, 8, 1, 1, 2, 2, 4, 4, 8, 8, 1, 2, 2, 1, 1)


def header_of(data: Any, size: int) -> Tuple[int, Tuple[int, ...]]:
    """Type and shape of an object of this size that begins with these bytes;
    StructuredObjectCorrupt for bytes that are no tensor object."""
    view = memoryview(data)
    if len(view) < HEADER.size:
        raise StructuredObjectCorrupt("a tensor object is shorter than its header")
    kind, axes, *lengths = HEADER.unpack_from(view)
    if not 0 <= kind < len(TYPES) or not 0 <= axes <= 4:
        raise StructuredObjectCorrupt("a tensor object's header is none")
    shape = tuple(lengths[:axes])
    if any(length < 0 for length in shape):
        raise StructuredObjectCorrupt("a tensor object's shape is none")
    if math.prod(shape) * SIZES[kind] != size - HEADER.size:
        raise StructuredObjectCorrupt("a tensor object's size is not that of its shape")
    return kind, shape


def make(kind: int, shape: Any, body: Any) -> Any:
    """A tensor over writable bytes, which it keeps; an array without torch."""
    name, dtype = TYPES[kind]
    try:
        return values.tensor_of(body, values.read_torch_dtype(name), shape)
    except ImportError:
        if dtype is None:
            raise
        return values.array_of(body, values.numpy().dtype(dtype), shape)


def read(data: Any) -> Any:
    """The tensor of a whole object."""
    kind, shape = header_of(data, len(data))
    return make(kind, shape, memoryview(data)[HEADER.size :])
