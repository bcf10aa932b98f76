# SPDX-License-Identifier: Apache-2.0
"""What an object consists of: the manifest, and the keys of its payloads.

The manifest stands under ``BASE/manifest`` and is written last: whoever can read it
can read all of the object. Data of member N is cut into chunks under ``BASE/N/d/0``,
``BASE/N/d/1`` ..., an index of rows stands under ``BASE/N/i``.
"""
from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Dict, List, Tuple

from . import values
from .types import StructuredObjectCorrupt

FORMAT = "mckv-object"
VERSION = 1
SUFFIX = "/manifest"
KEY_BYTES_MAX = 4096
CHUNK_BYTES_MAX = 1 << 48
CHUNKS_MAX = 1 << 20


@dataclass
class Member:
    """One member as it is stored."""

    number: int
    params: Dict[str, Any]
    index_size: int = 0

    @property
    def size(self) -> int:
        return self.params["size"]


@dataclass
class Manifest:
    base: str
    kind: str
    chunk_bytes: int
    metadata: Dict[str, Any]
    members: Dict[str, Member] = field(default_factory=dict)

    def dump(self) -> bytes:
        rows = [[name, m.number, m.params, m.index_size] for name, m in self.members.items()]
        return values.dump(
            {
                "format": FORMAT,
                "version": VERSION,
                "kind": self.kind,
                "chunk_bytes": self.chunk_bytes,
                "metadata": self.metadata,
                "members": rows,
            }
        )

    @property
    def key(self) -> str:
        return self.base + SUFFIX

    def index_key(self, member: Member) -> str:
        return f"{self.base}/{member.number}/i"

    def data_key(self, member: Member, chunk: int) -> str:
        return f"{self.base}/{member.number}/d/{chunk}"

    def chunks(self, member: Member) -> List[Tuple[str, int]]:
        """Keys and sizes of a member's data, in order."""
        sizes = range(0, member.size, self.chunk_bytes)
        return [
            (self.data_key(member, i), min(self.chunk_bytes, member.size - at)) for i, at in enumerate(sizes)
        ]

    def payload_keys(self) -> List[str]:
        """All keys but the manifest's own."""
        keys: List[str] = []
        for member in self.members.values():
            keys.extend(key for key, _ in self.chunks(member))
            if member.index_size:
                keys.append(self.index_key(member))
        return keys


def base_of(manifest_key: str) -> str:
    """ValueError for a key that is no manifest's."""
    if not isinstance(manifest_key, str) or not manifest_key.endswith(SUFFIX):
        raise ValueError(f"not the key of a manifest: {manifest_key!r}")
    return manifest_key[: -len(SUFFIX)]


def check_chunk_bytes(chunk_bytes: int) -> int:
    if isinstance(chunk_bytes, bool) or not isinstance(chunk_bytes, int):
        raise TypeError("chunk_bytes is a number of bytes")
    if not 1 <= chunk_bytes <= CHUNK_BYTES_MAX:
        raise ValueError("chunk_bytes must be 1 to 2^48")
    return chunk_bytes


def _is_count(value: Any, limit: int) -> bool:
    return type(value) is int and 0 <= value <= limit


def _read_member(row: Any) -> Tuple[str, Member]:
    if not isinstance(row, list) or len(row) != 4:
        raise ValueError("a member")
    name, number, params, index_size = row
    if not isinstance(name, str) or not _is_count(number, 1 << 32) or not _is_count(index_size, 1 << 40):
        raise ValueError("a member")
    if not isinstance(params, dict) or not _is_count(params.get("size"), 1 << 62):
        raise ValueError(f"the params of {name!r}")
    if "cut" in params or "part" in params:  # what only a plan adds
        raise ValueError(f"the params of {name!r}")
    return name, Member(number, params, index_size)


def read(manifest_key: str, data: bytes) -> Manifest:
    """The manifest that these bytes are; StructuredObjectCorrupt if they are none."""
    try:
        top = values.load(data)
        if not isinstance(top, dict) or top.get("format") != FORMAT:
            raise ValueError("it is none")
        if top.get("version") != VERSION:
            raise ValueError(f"version {top.get('version')!r} is not known")
        manifest = Manifest(base_of(manifest_key), top["kind"], top["chunk_bytes"], top["metadata"])
        check_chunk_bytes(manifest.chunk_bytes)
        if not isinstance(manifest.metadata, dict):
            raise ValueError("its metadata")
        for row in top["members"]:
            name, member = _read_member(row)
            if name in manifest.members or member.size > CHUNKS_MAX * manifest.chunk_bytes:
                raise ValueError(f"member {name!r}")
            manifest.members[name] = member
        return manifest
    except (ValueError, TypeError, KeyError) as error:
        raise StructuredObjectCorrupt(f"manifest {manifest_key}: {error}", key=manifest_key) from None
