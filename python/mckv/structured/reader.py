# SPDX-License-Identifier: Apache-2.0
"""Reads members of an object: which bytes are needed, in few calls, to memory that
is registered for as long as that takes."""
from __future__ import annotations

import ctypes
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any, Dict, Iterable, List, Optional, Sequence, Tuple

from . import codecs, values
from .manifest import Manifest, Member, read
from .types import (
    RawDestination,
    StructuredObjectCorrupt,
    StructuredObjectError,
    StructuredObjectMissing,
    TensorObjectBuffer,
)

ROWS_MAX = 4096
NOT_FOUND = -704
INVALID_PARAMS = -600


def failure(code: int, key: str, what: str) -> StructuredObjectError:
    """The exception for a code of the store."""
    kind = StructuredObjectMissing if code == NOT_FOUND else StructuredObjectError
    return kind(f"{what} of {key} ({code})", code, key)


def load_manifest(store: Any, key: str) -> Manifest:
    """Raises StructuredObjectMissing, StructuredObjectCorrupt, StructuredObjectError."""
    data = store.get(key)
    if data:
        return read(key, data)
    code = store.get_size(key)  # get() does not say why
    if code >= 0:
        raise StructuredObjectError(f"the manifest {key} could not be read", 0, key)
    raise failure(code, key, "no manifest")


@dataclass
class Target:
    """Memory for the bytes of one member. ``view`` is of ``size`` bytes at
    ``ptr``; ``owner`` keeps them."""

    ptr: int
    size: int
    view: Any
    owner: Any
    is_registered: bool = False


def fresh(size: int) -> Target:
    """New memory; of numpy where it is there, which does not fill it first."""
    if size == 0:
        return Target(0, 0, bytearray(), None, True)
    try:
        array = values.numpy().empty(size, dtype="u1")
        return Target(array.ctypes.data, size, array, array)
    except ImportError:
        data = bytearray(size)
        return Target(ctypes.addressof((ctypes.c_char * size).from_buffer(data)), size, data, data)


@dataclass
class Read:
    """One member on its way: where its bytes are, where they go, and what is made
    of them. ``answer`` is set where that is the caller's memory."""

    name: str
    member: Member
    codec: Any
    ranges: List[Tuple[int, int]]
    params: Dict[str, Any]
    index: bytes
    target: Optional[Target] = None
    answer: Any = None
    is_given: bool = False
    fragments: List[Tuple[str, int, int, int]] = field(default_factory=list)

    @property
    def size(self) -> int:
        return sum(length for _, length in self.ranges)

    @property
    def is_whole(self) -> bool:
        return self.ranges == [(0, self.member.size)]

    def value(self) -> Any:
        if self.is_given:
            return self.answer
        data = self.target.view
        return self.codec.decode(self.params, self.index, data)


def fragments_of(manifest: Manifest, member: Member, ranges: Iterable[Tuple[int, int]]):
    """(key, offset in the object, offset in the memory, bytes) for ranges of a
    member's data, which may cross chunks."""
    made, to, chunk_bytes = [], 0, manifest.chunk_bytes
    for offset, length in ranges:
        while length:
            chunk, at = divmod(offset, chunk_bytes)
            part = min(length, chunk_bytes - at)
            made.append((manifest.data_key(member, chunk), at, to, part))
            offset, to, length = offset + part, to + part, length - part
    return made


class Reader:
    """Reads from one store."""

    def __init__(self, store: Any):
        self.store = store

    def registered(self, targets: Iterable[Target]) -> ExitStack:
        """Memory that the store may write to until the stack is left. What the
        caller registered himself, alone or within more, stays so."""
        stack = ExitStack()
        for target in targets:
            if target.is_registered or target.size == 0:
                continue
            if self.store.register_buffer(target.ptr, target.size) == 0:
                stack.callback(self.store.unregister_buffer, target.ptr)
        return stack

    def whole(self, rows: Sequence[Tuple[str, int, int]]) -> None:
        """(key, address, bytes): objects of exactly these sizes."""
        for at in range(0, len(rows), ROWS_MAX):
            keys, ptrs, sizes = (list(column) for column in zip(*rows[at : at + ROWS_MAX]))
            results = self.store.batch_get_into(keys, ptrs, sizes)
            for key, size, result in zip(keys, sizes, results):
                if result == size:
                    continue
                if result < 0 and result != INVALID_PARAMS:
                    raise failure(result, key, "no bytes")
                raise StructuredObjectCorrupt(f"{key} has not {size} bytes, or they cannot go there ({result})", result, key)

    def cut(self, reads: Sequence[Read]) -> None:
        """As ``parts``, through a store that has no calls for ranges."""
        for one in reads:
            whole: Dict[str, bytes] = {}
            to = values.raw_view(one.target.ptr, one.target.size, True)
            for key, at, into, part in one.fragments:
                if key not in whole:
                    whole = {key: self.store.get(key)}  # the last one is enough: they are in order
                if len(whole[key]) < at + part:
                    code = NOT_FOUND if not whole[key] else INVALID_PARAMS
                    raise failure(code, key, "not the bytes asked for")
                to[into : into + part] = whole[key][at : at + part]

    def parts(self, reads: Sequence[Read]) -> None:
        """Fragments of objects, a member's memory at a time."""
        if not hasattr(self.store, "get_into_ranges"):
            self.cut(reads)
            return
        ptrs, keys, to, offsets, sizes = [], [], [], [], []
        for one in reads:
            by_key: Dict[str, List[Tuple[int, int, int]]] = {}
            for key, at, into, part in one.fragments:
                by_key.setdefault(key, []).append((into, at, part))
            ptrs.append(one.target.ptr)
            keys.append(list(by_key))
            to.append([[row[0] for row in rows] for rows in by_key.values()])
            offsets.append([[row[1] for row in rows] for rows in by_key.values()])
            sizes.append([[row[2] for row in rows] for rows in by_key.values()])
        results = self.store.get_into_ranges(ptrs, keys, to, offsets, sizes)
        for names, got, wanted in zip(keys, results, sizes):
            for key, got_row, wanted_row in zip(names, got, wanted):
                for result, size in zip(got_row, wanted_row):
                    if result != size:
                        raise failure(result, key, "not the bytes asked for")

    def indexes(self, manifest: Manifest, members: Sequence[Member]) -> Dict[int, bytes]:
        """The index of each member that has one, by number."""
        chosen = [member for member in members if member.index_size]
        targets = [fresh(member.index_size) for member in chosen]
        with self.registered(targets):
            self.whole([(manifest.index_key(m), t.ptr, t.size) for m, t in zip(chosen, targets)])
        return {m.number: bytes(t.view) for m, t in zip(chosen, targets)}

    def run(self, manifest: Manifest, reads: Sequence[Read]) -> None:
        """Fills the memory of each, made where there is none."""
        for one in reads:
            if one.target is None:
                one.target = fresh(one.size)
        whole = [one for one in reads if one.is_whole and one.size]
        parts = [one for one in reads if not one.is_whole and one.size]
        for one in parts:
            one.fragments = fragments_of(manifest, one.member, one.ranges)
        with self.registered([one.target for one in reads]):
            rows = []
            for one in whole:
                at = one.target.ptr
                for key, size in manifest.chunks(one.member):
                    rows.append((key, at, size))
                    at += size
            self.whole(rows)
            if parts:
                self.parts(parts)

    def plan(self, manifest: Manifest, selections: Dict[str, Any]) -> List[Read]:
        """What is to be read of the members of these names; KeyError for others."""
        for name in selections:
            if name not in manifest.members:
                raise KeyError(name)
        members = [manifest.members[name] for name in selections]
        for member in members:
            codecs.codec_of(member.params)
        indexes = self.indexes(manifest, members)
        reads = []
        for (name, selection), member in zip(selections.items(), members):
            codec = codecs.codec_of(member.params)
            plan = codec.plan(member.params, indexes.get(member.number, b""), selection)
            reads.append(Read(name, member, codec, *plan))
        return reads


# ---- memory of the caller --------------------------------------------------


def _array_target(one: Read, array: Any) -> Target:
    if one.params.get("codec") != "ndarray":
        raise ValueError(f"{one.name!r} is no array member")
    wanted = tuple(one.params["shape"])
    if array.dtype != values.read_dtype(one.params["dtype"]) or array.shape != wanted:
        raise ValueError(f"{one.name!r} needs {one.params['dtype']} {wanted}, not {array.dtype.str} {array.shape}")
    if not array.flags.c_contiguous or not array.flags.writeable:
        raise ValueError(f"the array for {one.name!r} must be contiguous and writable")
    return Target(array.ctypes.data, array.nbytes, None, array)


def _tensor_target(one: Read, tensor: Any) -> Target:
    if one.params.get("codec") != "tensor":
        raise ValueError(f"{one.name!r} is no tensor member")
    wanted = tuple(one.params["shape"])
    if values.torch_dtype_name(tensor.dtype) != one.params["dtype"] or tuple(tensor.shape) != wanted:
        raise ValueError(f"{one.name!r} needs {one.params['dtype']} {wanted}")
    if not tensor.is_contiguous() or tensor.device.type != "cpu":
        raise ValueError(f"the tensor for {one.name!r} must be contiguous and on the host")
    return Target(tensor.data_ptr(), tensor.numel() * tensor.element_size(), None, tensor)


def _plain_target(one: Read, memory: Any) -> Target:
    if one.size > memory.size:
        raise ValueError(f"{one.name!r} needs {one.size} bytes, not {memory.size}")
    is_registered = isinstance(memory, TensorObjectBuffer) or memory.pre_registered
    return Target(memory.ptr, one.size, None, memory, is_registered)


def _bytes_target(one: Read, memory: Any) -> Target:
    view = memoryview(memory)
    if view.readonly or not view.c_contiguous or view.nbytes < one.size:
        raise ValueError(f"{one.name!r} needs {one.size} writable bytes")
    ptr = ctypes.addressof((ctypes.c_char * view.nbytes).from_buffer(memory)) if view.nbytes else 0
    return Target(ptr, one.size, None, memory)


def aim(one: Read, memory: Any) -> None:
    """Has a member read to memory of the caller; ValueError if that does not fit
    it, before anything is written there."""
    if "cut" in one.params:
        raise ValueError(f"{one.name!r}: a slice of so many pieces cannot be read into memory of the caller")
    one.answer, one.is_given = memory, True
    if isinstance(memory, (RawDestination, TensorObjectBuffer)):
        one.target = _plain_target(one, memory)
        if isinstance(memory, TensorObjectBuffer) and one.params.get("codec") == "tensor_object":
            one.target.view = values.raw_view(memory.ptr, one.size, True)
            one.is_given = False  # the answer is a tensor over that memory
    elif values.is_ndarray(memory) and one.params.get("codec") != "bytes":
        one.target = _array_target(one, memory)
    elif values.is_tensor(memory):
        one.target = _tensor_target(one, memory)
    else:
        one.target = _bytes_target(one, memory)
