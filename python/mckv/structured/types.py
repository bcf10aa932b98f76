# SPDX-License-Identifier: Apache-2.0
"""What structured objects are described with: payloads, references, selections,
policies, and memory that the caller owns."""
from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Dict, Mapping, Optional, Tuple

COPY_MODES = ("auto", "copy", "zero_copy")
PUT_MODES = ("auto", "serial", "parallel")
SECTIONS = ("batch", "non_tensor_batch", "meta_info")
INFLIGHT_MAX = 64


class StructuredObjectError(RuntimeError):
    """A structured object could not be written, read or removed.

    ``code`` is the store's code, 0 where the store did not refuse; ``key`` the key
    it is about, or None.
    """

    def __init__(self, message: str, code: int = 0, key: Optional[str] = None):
        super().__init__(message)
        self.code = code
        self.key = key


class StructuredObjectMissing(StructuredObjectError, LookupError):
    """The object, or a part of it, is not in the store."""


class StructuredObjectCorrupt(StructuredObjectError, ValueError):
    """What is stored under the object's keys is not what a writer left there."""


@dataclass(frozen=True)
class BundleTransferPolicy:
    """How payloads are written.

    ``copy_mode``: "auto" writes each payload by the shortest way (contiguous memory
    as it is, rows of many pieces gathered in a lease of the buffer pool); "copy"
    uses the plain put calls alone; "zero_copy" takes ``tensor_object_buffer``
    payloads alone, and reads their registered memory directly.
    ``put_mode`` "parallel" has up to ``max_inflight_put`` calls of the store under
    way at a time, 1 to 64; "serial" one; "auto" is parallel where more than one is
    allowed.
    """

    max_inflight_put: int = 1
    put_mode: str = "auto"
    copy_mode: str = "auto"

    def __post_init__(self) -> None:
        if self.copy_mode not in COPY_MODES:
            raise ValueError(f"copy_mode must be one of {COPY_MODES}, not {self.copy_mode!r}")
        if self.put_mode not in PUT_MODES:
            raise ValueError(f"put_mode must be one of {PUT_MODES}, not {self.put_mode!r}")
        if not isinstance(self.max_inflight_put, int) or not 1 <= self.max_inflight_put <= INFLIGHT_MAX:
            raise ValueError(f"max_inflight_put must be 1 to {INFLIGHT_MAX}")

    @property
    def lanes(self) -> int:
        """Calls of the store under way at a time."""
        return 1 if self.put_mode == "serial" else self.max_inflight_put


@dataclass(frozen=True)
class FieldSchema:
    """How one member is written, where its value alone should not decide.

    ``codec``: "auto", "bytes", "ndarray", "tensor", "typed_ragged" (rows of numbers),
    "msgpack_ragged" (rows of any values), "ragged_tensor_dict" (rows of dicts of
    tensors or None), "msgpack" (one value).
    ``nullable``: rows of typed_ragged may be None.
    ``metadata``: "dtype" (of ndarray, tensor and typed_ragged; a name) and
    "section" ("batch", "non_tensor_batch", "meta_info").
    """

    codec: str = "auto"
    nullable: bool = False
    metadata: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        from .codecs import CODECS

        if self.codec != "auto" and self.codec not in CODECS:
            raise ValueError(f"unknown codec {self.codec!r}; there are auto, {', '.join(CODECS)}")
        section = self.metadata.get("section")
        if section is not None and section not in SECTIONS:
            raise ValueError(f"unknown section {section!r}; there are {', '.join(SECTIONS)}")

    @property
    def dtype(self) -> Optional[str]:
        return self.metadata.get("dtype")


@dataclass
class StructuredObjectPayload:
    """An object to write: members by name in ``buffers``, and ``metadata``, which
    is small and read with every read of the object. ``schemas`` may say how
    members are written."""

    metadata: Optional[Mapping[str, Any]] = None
    buffers: Mapping[str, Any] = field(default_factory=dict)
    schemas: Optional[Mapping[str, FieldSchema]] = None


@dataclass(frozen=True)
class StructuredMemberSlice:
    """Elements start to end of one axis of a member; None: from the first, to the
    last. Negative ones count from the end, as in Python."""

    axis: int = 0
    start: Optional[int] = None
    end: Optional[int] = None

    def bounds(self, length: int) -> Tuple[int, int]:
        """Within an axis of this length: first and one past the last."""
        first, last, _ = slice(self.start, self.end).indices(length)
        return first, max(first, last)


@dataclass(frozen=True)
class RemoteBundleRef:
    """An object in the store. It holds keys and no bytes, and may be pickled."""

    manifest_key: str
    object_id: str
    kind: str = "structured"  # or "bundle"


@dataclass(frozen=True)
class StructuredObjectReadSpec:
    """What is to be read of an object: all of it, unless narrowed. Each call
    answers a new one."""

    ref: RemoteBundleRef
    members: Optional[Tuple[str, ...]] = None
    slices: Mapping[str, StructuredMemberSlice] = field(default_factory=dict)

    def select_members(self, names) -> "StructuredObjectReadSpec":
        """These members alone; TypeError for a str, which is no list of names."""
        if isinstance(names, (str, bytes)):
            raise TypeError("select_members takes a list of names")
        return replace(self, members=tuple(dict.fromkeys(names)))

    def slice_member(
        self, name: str, axis: int = 0, start: Optional[int] = None, end: Optional[int] = None
    ) -> "StructuredObjectReadSpec":
        """Elements start to end of one axis of an array or tensor member."""
        slices = dict(self.slices)
        slices[name] = StructuredMemberSlice(axis, start, end)
        return replace(self, slices=slices)


@dataclass
class StructuredObjectResult:
    """What was read: ``objects`` by member name, and the object's ``metadata``."""

    objects: Dict[str, Any]
    metadata: Dict[str, Any]


@dataclass(frozen=True)
class TensorObjectBuffer:
    """Registered memory that holds a tensor as ``get_tensor_into`` leaves it: a
    header of 40 bytes, then its elements. ``owner`` keeps the memory alive."""

    ptr: int
    size: int
    owner: Any = None
    batch_size: Optional[int] = None


@dataclass(frozen=True)
class RawDestination:
    """Memory of the caller to read a member's bytes into. ``pre_registered``: the
    store knows it already, as a lease of a BufferPool."""

    ptr: int
    size: int
    owner: Any = None
    pre_registered: bool = False


def _check_memory(ptr: int, size: int) -> None:
    if not isinstance(ptr, int) or not isinstance(size, int) or ptr <= 0 or size <= 0:
        raise ValueError("an address and a size over 0 are needed")


def tensor_object_buffer(
    ptr: int, size: int, owner: Any = None, batch_size: Optional[int] = None
) -> TensorObjectBuffer:
    """A tensor object in memory that is registered; ``size`` bytes with its header."""
    _check_memory(ptr, size)
    return TensorObjectBuffer(ptr, size, owner, batch_size)


def raw_destination(
    ptr: int, size: int, owner: Any = None, pre_registered: bool = False
) -> RawDestination:
    """Memory to read into, of at least as many bytes as are read."""
    _check_memory(ptr, size)
    return RawDestination(ptr, size, owner, pre_registered)


@dataclass(frozen=True)
class FieldPlace:
    """Where a field of a dataproto is: a member of one stage's object."""

    stage: str
    member: str
    section: str


@dataclass(frozen=True)
class MooncakeDataProtoRef:
    """Fields that were written in one or more stages, each an object of its own.
    It holds keys and no bytes, and may be pickled."""

    stage_refs: Mapping[str, RemoteBundleRef]
    field_index: Mapping[str, FieldPlace]
    batch_size: Optional[int] = None
    namespace: str = "default"
    partition: str = "default"
    meta_info: Tuple[str, ...] = ()  # names
    global_indexes: Optional[Tuple[int, ...]] = None

    @property
    def object_id(self) -> str:
        return "+".join(ref.object_id for ref in self.stage_refs.values())
