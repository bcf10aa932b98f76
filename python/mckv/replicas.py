# SPDX-License-Identifier: Apache-2.0
"""What is known of objects: where copies are, and what a probe answers."""
import enum
from typing import NamedTuple, Optional

from .config import ReplicaStatus

_CPU, _DISK = 1, 2


class BufferDescriptor:
    """Memory of a copy: address and size in bytes in its owner, and how to reach that."""

    __slots__ = ("size", "buffer_address", "transport_endpoint", "protocol")

    def __init__(self, size, buffer_address, transport_endpoint, protocol):
        self.size = size
        self.buffer_address = buffer_address
        self.transport_endpoint = transport_endpoint
        self.protocol = protocol

    # The names with which others have them too.
    size_ = property(lambda self: self.size)
    buffer_address_ = property(lambda self: self.buffer_address)
    transport_endpoint_ = property(lambda self: self.transport_endpoint)

    def __repr__(self):
        return (f"BufferDescriptor(size={self.size}, buffer_address={self.buffer_address:#x}, "
                f"transport_endpoint={self.transport_endpoint!r}, protocol={self.protocol!r})")


class MemoryDescriptor(NamedTuple):
    buffer_descriptor: BufferDescriptor


class DiskDescriptor(NamedTuple):
    """A copy on a client's disk. Its path is its owner's matter, and empty here."""
    file_path: str
    object_size: int


class ReplicaDescriptor:
    """One copy of an object that can be read."""

    __slots__ = ("status", "segment", "_medium", "_buffer")

    def __init__(self, medium, size, address, protocol, endpoint, segment):
        self.status = ReplicaStatus.COMPLETE
        self.segment = segment
        self._medium = medium
        self._buffer = BufferDescriptor(size, address, endpoint, protocol)

    def is_memory_replica(self):
        return self._medium == _CPU

    def is_disk_replica(self):
        return self._medium == _DISK

    def is_local_disk_replica(self):
        return self._medium == _DISK

    def is_dfs_replica(self):
        return False

    def is_nof_replica(self):
        return False

    def get_memory_descriptor(self):
        """ValueError: it is not in memory."""
        if not self.is_memory_replica():
            raise ValueError("not a replica in memory")
        return MemoryDescriptor(self._buffer)

    def get_disk_descriptor(self):
        """ValueError: it is not on a disk."""
        if not self.is_disk_replica():
            raise ValueError("not a replica on disk")
        return DiskDescriptor("", self._buffer.size)

    get_local_disk_descriptor = get_disk_descriptor

    def __repr__(self):
        kind = "memory" if self.is_memory_replica() else "disk"
        return f"ReplicaDescriptor({kind}, segment={self.segment!r}, {self._buffer!r})"


class ObjectState(enum.IntEnum):
    ABSENT = 0
    WRITING = 1
    READABLE = 2


class Probe(NamedTuple):
    """What a key was at some moment; asking leaves no lease and no trace.

    code        0, or why there is no answer
    state       ObjectState; what follows is of readable objects only
    media       of "cpu" and "disk"
    size        bytes
    version     differs between any two versions of a key
    lease_ms    time left of its lease, in milliseconds
    session_id  None: untagged
    """
    code: int
    state: ObjectState
    media: tuple
    size: int
    version: int
    lease_ms: int
    session_id: Optional[str]


def probe_of(row):
    code, state, media, size, version, lease_ms, session_id = row
    names = tuple(name for bit, name in ((_CPU, "cpu"), (_DISK, "disk")) if media & bit)
    return Probe(code, ObjectState(state), names, size, version, lease_ms, session_id)
