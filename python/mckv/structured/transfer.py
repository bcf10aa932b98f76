# SPDX-License-Identifier: Apache-2.0
"""MooncakeBundleTransfer: objects of several named members, and bundles of raw
payloads, over the calls of a store."""
from __future__ import annotations

import threading
import uuid
from typing import Any, Dict, List, Mapping, Optional, Sequence, Union

from . import codecs
from .dataproto import DataProtoCalls
from .manifest import KEY_BYTES_MAX, Manifest, Member, check_chunk_bytes
from .reader import NOT_FOUND, Reader, aim, failure, load_manifest
from .types import (
    BundleTransferPolicy,
    FieldSchema,
    RemoteBundleRef,
    StructuredMemberSlice,
    StructuredObjectError,
    StructuredObjectMissing,
    StructuredObjectPayload,
    StructuredObjectReadSpec,
    StructuredObjectResult,
    TensorObjectBuffer,
)
from .writer import Item, Options, Writer, check_chunks, items_of

DEFAULT_CHUNK_BYTES = 64 << 20
DEFAULT_PREFIX = "mooncake/object"
#: Room that keys of payloads need behind the prefix.
KEY_TAIL = 96


def _check_prefix(prefix: str) -> str:
    if not isinstance(prefix, str):
        raise TypeError("key_prefix is a str")
    if not prefix or "\0" in prefix or len(prefix.encode()) > KEY_BYTES_MAX - KEY_TAIL:
        raise ValueError("key_prefix must be 1 to 4000 bytes without NUL")
    return prefix


class MooncakeBundleTransfer(DataProtoCalls):
    """Writes and reads objects of several members through a store.

    ``store`` is a MooncakeDistributedStore that is set up. Keys begin with
    ``key_prefix``. Members of more than ``default_chunk_bytes`` bytes are cut.
    ``buffer_pool`` is where rows are gathered before they are written; without one
    a BufferPool of the store is made when it is needed.

    An object is readable when its write call has returned and not before; a write
    that fails leaves nothing. Calls may come from any thread. They raise
    StructuredObjectError, with the store's code in ``code``.
    """

    def __init__(
        self,
        store: Any,
        key_prefix: str = DEFAULT_PREFIX,
        default_chunk_bytes: int = DEFAULT_CHUNK_BYTES,
        buffer_pool: Any = None,
    ):
        self.store = store
        self.key_prefix = _check_prefix(key_prefix)
        self.default_chunk_bytes = check_chunk_bytes(default_chunk_bytes)
        self._pool = buffer_pool
        self._pool_lock = threading.Lock()
        self._has_no_pool = False
        self._reader = Reader(store)

    # ---- writing -----------------------------------------------------------

    def put_structured_object(
        self,
        payload: StructuredObjectPayload,
        *,
        policy: Optional[BundleTransferPolicy] = None,
        config: Any = None,
        chunk_bytes: Optional[int] = None,
        schemas: Optional[Mapping[str, FieldSchema]] = None,
        object_id: Optional[str] = None,
    ) -> RemoteBundleRef:
        """Writes an object and answers its reference.

        ``config`` is a ReplicateConfig: one session id and group id for the whole
        object, or one for each member, in order; its other options hold for all of
        it. Members that cannot be stored (ValueNotStorable, a TypeError), and a
        config of the wrong length (ValueError), are refused before anything is
        written.
        """
        if not isinstance(payload, StructuredObjectPayload):
            raise TypeError("put_structured_object takes a StructuredObjectPayload")
        schemas = {**(payload.schemas or {}), **(schemas or {})}
        policy = policy or BundleTransferPolicy()
        names = list(payload.buffers)
        encoded = []
        for name in names:
            if not isinstance(name, str):
                raise TypeError("names of members are str")
            value = payload.buffers[name]
            if policy.copy_mode == "zero_copy" and not isinstance(value, TensorObjectBuffer):
                raise TypeError(f"copy_mode zero_copy takes tensor_object_buffer payloads alone, {name!r} is none")
            encoded.append(codecs.encode(value, schemas.get(name)))
        metadata = dict(payload.metadata or {})
        return self._write("structured", metadata, names, encoded, policy, config, chunk_bytes, object_id)

    def put_bundle(
        self,
        payloads: Mapping[str, Any],
        *,
        metadata: Optional[Mapping[str, Any]] = None,
        policy: Optional[BundleTransferPolicy] = None,
        config: Any = None,
        chunk_bytes: Optional[int] = None,
        object_id: Optional[str] = None,
    ) -> RemoteBundleRef:
        """Writes named payloads of bytes, whatever they mean; ``config`` as in
        ``put_structured_object``."""
        names = list(payloads)
        policy = policy or BundleTransferPolicy()
        if policy.copy_mode == "zero_copy":
            raise TypeError("copy_mode zero_copy takes tensor_object_buffer payloads alone")
        encoded = [codecs.encode(payloads[name], FieldSchema("bytes")) for name in names]
        return self._write("bundle", dict(metadata or {}), names, encoded, policy, config, chunk_bytes, object_id)

    def _write(self, kind, metadata, names, encoded, policy, config, chunk_bytes, object_id) -> RemoteBundleRef:
        object_id = uuid.uuid4().hex if object_id is None else object_id
        base = f"{self.key_prefix}/{object_id}"
        if len(base.encode()) > KEY_BYTES_MAX - KEY_TAIL // 2:
            raise ValueError("key_prefix and object_id are too long for a key")
        chunk_bytes = self.default_chunk_bytes if chunk_bytes is None else check_chunk_bytes(chunk_bytes)
        manifest = Manifest(base, kind, chunk_bytes, metadata)
        for number, (name, one) in enumerate(zip(names, encoded)):
            manifest.members[name] = Member(number, one.params, len(one.index))
        check_chunks(manifest)
        last = manifest.dump()
        writer = Writer(self.store, policy, Options(config, len(names)), self._buffer_pool)
        try:
            writer.write(items_of(manifest, encoded))
            writer.write([Item(manifest.key, -1, len(last), [memoryview(last)])])
        except BaseException:
            self._take_back(manifest)
            raise
        return RemoteBundleRef(manifest.key, object_id, kind)

    def _take_back(self, manifest: Manifest) -> None:
        """What a write that failed may have left; nobody knows its keys, so what
        cannot be removed now is evicted some day."""
        try:
            self.store.batch_remove([manifest.key, *manifest.payload_keys()], True)
        except Exception:
            pass

    def _buffer_pool(self) -> Any:
        with self._pool_lock:
            if self._pool is None and not self._has_no_pool:
                from ..buffer_pool import BufferPool

                try:
                    self._pool = BufferPool(self.store)
                except (RuntimeError, ValueError, TypeError, AttributeError):
                    self._has_no_pool = True
            return self._pool

    # ---- reading -----------------------------------------------------------

    def read_spec(self, ref: Union[RemoteBundleRef, Mapping[str, Any]]) -> StructuredObjectReadSpec:
        """All of an object; nothing is read yet."""
        from .refs import as_ref

        return StructuredObjectReadSpec(as_ref(ref))

    def materialize(self, spec: StructuredObjectReadSpec) -> StructuredObjectResult:
        """Reads what the spec names, into new memory, which is the caller's.

        Raises StructuredObjectMissing, StructuredObjectCorrupt, KeyError (no such
        member), IndexError (no such axis), ValueError (a member that cannot be
        sliced).
        """
        return self.materialize_into(spec, {})

    def materialize_into(
        self, spec: StructuredObjectReadSpec, destinations: Mapping[str, Any]
    ) -> StructuredObjectResult:
        """The same, but members that ``destinations`` names are read into memory
        of the caller: an array or tensor of exactly the dtype and shape that is
        read, or for other members a writable buffer, ``raw_destination`` or
        ``tensor_object_buffer``. It is registered meanwhile, unless it is already.
        An error leaves any bytes in it, but ValueError and KeyError, which come
        before.
        """
        manifest = load_manifest(self.store, spec.ref.manifest_key)
        names = spec.members if spec.members is not None else tuple(manifest.members)
        for name in (*spec.slices, *destinations):
            if name not in names:
                raise KeyError(name)
        selections = {name: spec.slices.get(name) for name in names}
        return StructuredObjectResult(self._read(manifest, selections, destinations), dict(manifest.metadata))

    def _read(
        self,
        manifest: Manifest,
        selections: Mapping[str, Union[None, StructuredMemberSlice, List[int]]],
        destinations: Mapping[str, Any],
    ) -> Dict[str, Any]:
        reads = self._reader.plan(manifest, dict(selections))
        for one in reads:
            if one.name in destinations:
                aim(one, destinations[one.name])
        self._reader.run(manifest, reads)
        return {one.name: self._value(one) for one in reads}

    @staticmethod
    def _value(one) -> Any:
        try:
            return one.value()
        except (ValueError, TypeError) as error:
            if isinstance(error, StructuredObjectError):
                raise
            raise codecs.corrupt(f"{one.name!r}: {error}") from error

    def get_bundle(self, ref: Union[RemoteBundleRef, Mapping[str, Any]], names: Optional[Sequence[str]] = None):
        """Payloads of a bundle by name, all or those named, as bytes."""
        spec = self.read_spec(ref)
        return self.materialize(spec if names is None else spec.select_members(names)).objects

    # ---- removing ----------------------------------------------------------

    def remove_structured_object(self, ref: Union[RemoteBundleRef, Mapping[str, Any]]) -> int:
        """Removes an object, also while it is read: a reader gets all that it asked
        for or StructuredObjectMissing. Answers how many keys went; 0 if it was not
        there."""
        from .refs import as_ref

        key = as_ref(ref).manifest_key
        try:
            manifest = load_manifest(self.store, key)
        except StructuredObjectMissing:
            return 0
        keys = [*manifest.payload_keys(), key]
        codes = self.store.batch_remove(keys, True)
        for name, code in zip(keys, codes):
            if code not in (0, NOT_FOUND):
                raise failure(code, name, "not removed: part")
        return sum(code == 0 for code in codes)

    remove_bundle = remove_structured_object

    @staticmethod
    def release_result(result: Any) -> None:
        """Results own their memory: there is nothing to give back. Fine for any
        result, also twice."""

    def close(self) -> None:
        """Gives the buffer pool up that was made here. The store stays open."""
        with self._pool_lock:
            pool, self._pool = self._pool, None
            self._has_no_pool = True
        if pool is not None:
            pool.close()
