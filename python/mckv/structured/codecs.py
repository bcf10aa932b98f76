# SPDX-License-Identifier: Apache-2.0
"""Members as bytes: how each kind of value is laid out, which bytes of it a
selection needs, and how values are made of those.

A member is laid out as data, and for ragged ones an index (the length or shape of
each row) which is stored apart, so that rows can be found without the data. What
was read is judged before it is believed: params and index come from the store.
"""
from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Dict, List, Optional, Sequence, Tuple, Union

from . import values
from .types import FieldSchema, StructuredMemberSlice, StructuredObjectCorrupt, TensorObjectBuffer

#: More pieces than this of one member are read whole and cut afterwards.
RANGES_MAX = 4096
DIMS_MAX = 32

Selection = Union[None, StructuredMemberSlice, List[int]]
Ranges = List[Tuple[int, int]]  # offset and length in the data


@dataclass
class Encoded:
    """A member ready to be written. ``pieces`` are views of its data in order,
    which may be of the caller's memory; ``owners`` keep it alive."""

    params: Dict[str, Any]
    pieces: List[Any] = field(default_factory=list)
    owners: List[Any] = field(default_factory=list)
    index: bytes = b""
    direct: Optional[TensorObjectBuffer] = None

    @property
    def size(self) -> int:
        return self.direct.size if self.direct else sum(len(piece) for piece in self.pieces)


def corrupt(why: str) -> StructuredObjectCorrupt:
    return StructuredObjectCorrupt(f"not a stored member: {why}")


def _shape_of(params: Dict[str, Any]) -> Tuple[int, ...]:
    shape = params.get("shape")
    if not isinstance(shape, list) or len(shape) > DIMS_MAX:
        raise corrupt("its shape")
    if any(type(length) is not int or length < 0 for length in shape):
        raise corrupt("its shape")
    return tuple(shape)


def _itemsize(params: Dict[str, Any], is_tensor: bool) -> int:
    try:
        if is_tensor:
            return values.torch().empty((), dtype=values.read_torch_dtype(params.get("dtype"))).element_size()
        return values.read_dtype(params.get("dtype")).itemsize
    except ValueError as error:
        raise corrupt(str(error)) from None


# ---- arrays and tensors ----------------------------------------------------


def _fixed_ranges(shape: Sequence[int], item: int, selection: Selection):
    """Bytes of a selection, the shape that they make, and whether they have to be
    cut afterwards."""
    total = math.prod(shape) * item
    if selection is None:
        return [(0, total)], list(shape), False
    if isinstance(selection, list):
        if not shape:
            raise IndexError("a member without axes has no rows")
        row = math.prod(shape[1:]) * item
        return merge([(i * row, row) for i in selection]), [len(selection), *shape[1:]], False
    if not -len(shape) <= selection.axis < len(shape):
        raise IndexError(f"axis {selection.axis} of a member with {len(shape)}")
    axis = selection.axis % len(shape)
    first, last = selection.bounds(shape[axis])
    out = [*shape[:axis], last - first, *shape[axis + 1 :]]
    inner = math.prod(shape[axis + 1 :]) * item
    outer = math.prod(shape[:axis])
    if outer > RANGES_MAX:
        return [(0, total)], out, True
    step = shape[axis] * inner
    return merge([(i * step + first * inner, (last - first) * inner) for i in range(outer)]), out, False


def merge(ranges: Ranges) -> Ranges:
    """Neighbours as one, empty ones left out."""
    merged: Ranges = []
    for offset, length in ranges:
        if length == 0:
            continue
        if merged and sum(merged[-1]) == offset:
            merged[-1] = (merged[-1][0], merged[-1][1] + length)
        else:
            merged.append((offset, length))
    return merged


class _Fixed:
    """Elements of one size in C order."""

    is_tensor = False

    def plan(self, params, index, selection):
        shape = _shape_of(params)
        item = _itemsize(params, self.is_tensor)
        if math.prod(shape) * item != params["size"]:
            raise corrupt("its size")
        ranges, out, is_cut_later = _fixed_ranges(shape, item, selection)
        if is_cut_later:
            return ranges, {**params, "cut": selection}, b""
        return ranges, {**params, "shape": out}, b""

    def decode(self, params, index, data):
        whole = self._make(data, params["dtype"], params["shape"])
        cut = params.get("cut")
        if cut is None:
            return whole
        axis = cut.axis % len(params["shape"])
        first, last = cut.bounds(params["shape"][axis])
        part = whole[(slice(None),) * axis + (slice(first, last),)]
        return part.clone() if self.is_tensor else part.copy()


class _Ndarray(_Fixed):
    def encode(self, value, schema):
        array = values.numpy().asarray(value, dtype=schema.dtype)
        params = {"dtype": values.dtype_name(array.dtype), "shape": list(array.shape)}
        return Encoded(params, [values.array_bytes(array)])

    def _make(self, data, dtype, shape):
        return values.array_of(data, values.read_dtype(dtype), shape)


class _Tensor(_Fixed):
    is_tensor = True

    def encode(self, value, schema):
        module = values.torch()
        dtype = values.read_torch_dtype(schema.dtype) if schema.dtype else None
        tensor = value if values.is_tensor(value) else module.as_tensor(value)
        tensor = tensor.to(dtype) if dtype else tensor
        if tensor.layout != module.strided:
            raise values.ValueNotStorable("a tensor that is not strided")
        params = {"dtype": values.torch_dtype_name(tensor.dtype), "shape": list(tensor.shape)}
        view, owner = values.tensor_bytes(tensor)
        return Encoded(params, [view], [owner])

    def _make(self, data, dtype, shape):
        return values.tensor_of(data, values.read_torch_dtype(dtype), shape)


# ---- whole values ----------------------------------------------------------


class _Whole:
    """Cannot be narrowed."""

    def plan(self, params, index, selection):
        if selection is not None:
            raise ValueError("only array, tensor and ragged members can be narrowed")
        return [(0, params["size"])], params, b""


class _Bytes(_Whole):
    def encode(self, value, schema):
        try:
            return Encoded({}, [memoryview(value).cast("B")])
        except TypeError:  # not contiguous, or of a format that cannot be cast
            return Encoded({}, [memoryview(bytes(value))])

    def decode(self, params, index, data):
        return bytes(data)


class _Value(_Whole):
    def encode(self, value, schema):
        return Encoded({}, [memoryview(values.dump(value))])

    def decode(self, params, index, data):
        return values.load(data)


class _TensorObject:
    """As put_tensor_from writes it, and as get_tensor reads it: a header, then the
    elements."""

    def encode(self, value, schema):
        from . import tensor_object

        head = values.raw_view(value.ptr, min(value.size, tensor_object.HEADER.size))
        kind, shape = tensor_object.header_of(head, value.size)
        return Encoded({"kind": kind, "shape": list(shape)}, direct=value)

    def plan(self, params, index, selection):
        from . import tensor_object

        if selection is None:
            return [(0, params["size"])], params, b""
        shape, kind = _shape_of(params), params.get("kind")
        if type(kind) is not int or not 0 <= kind < len(tensor_object.SIZES):
            raise corrupt("its kind")
        item, head = tensor_object.SIZES[kind], tensor_object.HEADER.size
        if math.prod(shape) * item != params["size"] - head:
            raise corrupt("its size")
        ranges, out, is_cut_later = _fixed_ranges(shape, item, selection)
        if is_cut_later:
            raise ValueError("a slice of very many pieces of a tensor object")
        return [(at + head, length) for at, length in ranges], {**params, "part": out}, b""

    def decode(self, params, index, data):
        from . import tensor_object

        if "part" in params:
            return tensor_object.make(params["kind"], params["part"], data)
        return tensor_object.read(data)


# ---- rows ------------------------------------------------------------------

_CONTAINERS = {"list": list, "tuple": tuple}


def _container_of(value: Any) -> str:
    if values.is_ndarray(value):
        return "array"
    return "tuple" if isinstance(value, tuple) else "list"


def _contained(rows: List[Any], container: Any) -> Any:
    if container == "array":
        array = values.numpy().empty(len(rows), dtype=object)
        for i, row in enumerate(rows):
            array[i] = row
        return array
    if container not in _CONTAINERS:
        raise corrupt("its container")
    return _CONTAINERS[container](rows)


def _rows_of(value: Any) -> List[Any]:
    if isinstance(value, (str, bytes, dict)) or not hasattr(value, "__len__"):
        raise values.ValueNotStorable(f"a {type(value).__name__} is not rows")
    return list(value)


class _Ragged:
    """Rows of different lengths; the index has a number or a shape of each."""

    def _widths(self, params, numbers) -> List[int]:
        """Bytes of each row."""
        raise NotImplementedError

    def _numbers(self, params, index: bytes) -> List[int]:
        import array

        numbers = array.array("q")
        rows = params.get("rows")
        if type(rows) is not int or rows < 0 or len(index) != rows * self._columns(params) * 8:
            raise corrupt("its index")
        numbers.frombytes(index)
        if _is_big_endian():
            numbers.byteswap()
        return numbers.tolist()

    def _columns(self, params) -> int:
        return 1

    def plan(self, params, index, selection):
        numbers = self._numbers(params, index)
        widths = self._widths(params, numbers)
        if sum(widths) != params["size"]:
            raise corrupt("its index does not cover its data")
        if selection is None:
            return [(0, params["size"])], params, index
        if isinstance(selection, StructuredMemberSlice):
            if selection.axis != 0:
                raise IndexError("rows are selected along axis 0")
            selection = list(range(*selection.bounds(len(widths))))
        begins = [0]
        for width in widths:
            begins.append(begins[-1] + width)
        columns = self._columns(params)
        chosen = [numbers[i * columns + k] for i in selection for k in range(columns)]
        ranges = merge([(begins[i], widths[i]) for i in selection])
        return ranges, {**params, "rows": len(selection)}, pack_numbers(chosen)


def _is_big_endian() -> bool:
    import sys

    return sys.byteorder == "big"


def pack_numbers(numbers: Sequence[int]) -> bytes:
    """Signed 64-bit integers, little-endian."""
    import array

    packed = array.array("q", numbers)
    if _is_big_endian():
        packed.byteswap()
    return packed.tobytes()


class _ValueRows(_Ragged):
    """Each row a value of its own."""

    def encode(self, value, schema):
        rows = _rows_of(value)
        for row in rows:
            self._check(row)
        pieces = [values.dump(row) for row in rows]
        params = {"rows": len(rows), "container": _container_of(value)}
        index = pack_numbers([len(piece) for piece in pieces])
        return Encoded(params, [memoryview(b"".join(pieces))] if pieces else [], index=index)

    def _check(self, row) -> None:
        pass

    def _widths(self, params, numbers):
        if any(number <= 0 for number in numbers):
            raise corrupt("its index")
        return numbers

    def decode(self, params, index, data):
        at, rows, view = 0, [], memoryview(data)
        for width in self._numbers(params, index):
            rows.append(values.load(view[at : at + width]))
            at += width
        return _contained(rows, params.get("container"))


class _TensorDicts(_ValueRows):
    """Rows of dicts of tensors, or None."""

    def _check(self, row) -> None:
        if row is not None and not isinstance(row, dict):
            raise values.ValueNotStorable(f"a row of ragged_tensor_dict is a dict or None, not {type(row).__name__}")


class _TypedRows(_Ragged):
    """Rows of numbers of one type; a row may have any shape, all as many axes."""

    def encode(self, value, schema):
        rows = _rows_of(value)
        is_torch = any(values.is_tensor(row) for row in rows)
        if not schema.nullable and any(row is None for row in rows):
            raise values.ValueNotStorable("a row is None, and the schema is not nullable")
        plain = self._as_tensors(rows, schema.dtype) if is_torch else self._as_arrays(rows, schema.dtype)
        there = [row for row in plain if row is not None]
        dims = there[0].ndim if there else 1
        if dims == 0 or any(row.ndim != dims for row in there):
            raise values.ValueNotStorable("rows must have one axis or more, all as many")
        if is_torch:
            dtype = values.torch_dtype_name(there[0].dtype)
        else:
            dtype = values.dtype_name(there[0].dtype) if there else schema.dtype or "<i8"
        numbers: List[int] = []
        for row in plain:
            numbers.extend([-1] * dims if row is None else row.shape)
        params = {
            "kind": "tensor" if is_torch else "ndarray",
            "dtype": dtype,
            "rows": len(rows),
            "dims": dims,
            "container": _container_of(value),
        }
        if is_torch:
            pairs = [values.tensor_bytes(row) for row in there]
        else:
            pairs = [(values.array_bytes(row), None) for row in there]
        pieces = [piece for piece, _ in pairs if len(piece)]
        return Encoded(params, pieces, [owner for _, owner in pairs], pack_numbers(numbers))

    @staticmethod
    def _as_tensors(rows, dtype):
        module = values.torch()
        first = next(row for row in rows if values.is_tensor(row))
        wanted = values.read_torch_dtype(dtype) if dtype else first.dtype
        made = [None if row is None else module.as_tensor(row) for row in rows]
        if not dtype and any(row is not None and row.dtype != wanted for row in made):
            raise values.ValueNotStorable("rows of different types: name one in the schema")
        return [None if row is None else row.to(wanted) for row in made]

    @staticmethod
    def _as_arrays(rows, dtype):
        module = values.numpy()
        made = [None if row is None else module.asarray(row, dtype=dtype) for row in rows]
        kinds = {row.dtype for row in made if row is not None and row.size}
        if any(kind.kind not in "biufc" for kind in kinds):
            raise values.ValueNotStorable("rows of typed_ragged are numbers")
        wanted = module.result_type(*kinds) if kinds else module.dtype(dtype or "<i8")
        return [None if row is None else row.astype(wanted, copy=False) for row in made]

    def _columns(self, params):
        dims = params.get("dims")
        if type(dims) is not int or not 1 <= dims <= DIMS_MAX:
            raise corrupt("its dims")
        return dims

    def _shapes(self, params, numbers):
        dims = params["dims"]
        for at in range(0, len(numbers), dims):
            shape = numbers[at : at + dims]
            if all(length == -1 for length in shape):
                yield None
            elif any(length < 0 for length in shape):
                raise corrupt("its index")
            else:
                yield shape

    def _widths(self, params, numbers):
        if params.get("kind") not in ("tensor", "ndarray"):
            raise corrupt("its kind")
        item = _itemsize(params, params["kind"] == "tensor")
        return [0 if shape is None else math.prod(shape) * item for shape in self._shapes(params, numbers)]

    def decode(self, params, index, data):
        is_tensor = params.get("kind") == "tensor"
        dtype = (values.read_torch_dtype if is_tensor else values.read_dtype)(params["dtype"])
        make = values.tensor_of if is_tensor else values.array_of
        item = _itemsize(params, is_tensor)
        at, rows, view = 0, [], memoryview(data)
        for shape in self._shapes(params, self._numbers(params, index)):
            if shape is None:
                rows.append(None)
                continue
            width = math.prod(shape) * item
            rows.append(make(view[at : at + width], dtype, shape))
            at += width
        return _contained(rows, params.get("container"))


CODECS = {
    "bytes": _Bytes(),
    "ndarray": _Ndarray(),
    "tensor": _Tensor(),
    "tensor_object": _TensorObject(),
    "typed_ragged": _TypedRows(),
    "msgpack_ragged": _ValueRows(),
    "ragged_tensor_dict": _TensorDicts(),
    "msgpack": _Value(),
}


def _is_row_of_numbers(row: Any) -> bool:
    if values.is_tensor(row):
        return row.ndim > 0
    return values.is_ndarray(row) and row.ndim > 0 and row.dtype.kind in "biufc"


def _of_one_type(rows: Sequence[Any]) -> bool:
    return len(rows) > 0 and all(
        _is_row_of_numbers(row) and row.dtype == rows[0].dtype and row.ndim == rows[0].ndim for row in rows
    )


def choose(value: Any) -> str:
    """The codec of a value for which no schema names one."""
    if isinstance(value, TensorObjectBuffer):
        return "tensor_object"
    if isinstance(value, (bytes, bytearray, memoryview)):
        return "bytes"
    if values.is_tensor(value):
        return "tensor"
    if values.is_ndarray(value):
        if not value.dtype.hasobject:
            return "ndarray"
        if value.ndim != 1:
            return "msgpack"
        return "typed_ragged" if _of_one_type(value) else "msgpack_ragged"
    if isinstance(value, (list, tuple)) and _of_one_type(value):
        return "typed_ragged"
    return "msgpack"


def encode(value: Any, schema: Optional[FieldSchema] = None) -> Encoded:
    """A member ready to be written. Raises ValueNotStorable, TypeError, ValueError."""
    schema = schema or FieldSchema()
    name = choose(value) if schema.codec == "auto" else schema.codec
    if (name == "tensor_object") != isinstance(value, TensorObjectBuffer):
        raise TypeError("tensor_object is for tensor_object_buffer payloads, and they for it")
    encoded = CODECS[name].encode(value, schema)
    encoded.params["codec"] = name
    encoded.params["size"] = encoded.size
    return encoded


def codec_of(params: Any):
    """The codec of params that were read; StructuredObjectCorrupt."""
    if not isinstance(params, dict) or type(params.get("size")) is not int or params["size"] < 0:
        raise corrupt("its params")
    name = params.get("codec")
    if not isinstance(name, str) or name not in CODECS:
        raise corrupt(f"codec {name!r} is not known")
    return CODECS[name]
