# SPDX-License-Identifier: Apache-2.0
from typing import Any, Dict, Iterable, List, NamedTuple, Optional, Sequence, Tuple, Union

Hashes = Union[Sequence[int], Iterable[int], memoryview]

class EngineEvent(NamedTuple):
    hashes: List[int]
    parent: Optional[int]
    is_unordered: bool
    token_count: int
    block_size: int
    medium: Optional[str]
    group_idx: Optional[int]
    lora_id: Optional[int]
    lora_name: Optional[str]
    cache_salt: Optional[str]
    locality: Optional[str]

class Event(NamedTuple):
    type: str
    event_id: int
    object_key: Optional[str]
    tenant_id: Optional[str]
    backend_id: Optional[str]
    medium: Optional[str]
    session_id: Optional[str]
    group_id: Optional[str]
    epoch: int
    seq: int
    timestamp_ms: int
    dp_rank: int
    source: int
    replaces: bool
    origin: str
    is_derived: bool
    engine: Optional[EngineEvent]

class Signal(NamedTuple):
    type: str
    source: int
    from_id: int
    to_id: int
    from_seq: int
    to_seq: int
    epoch: int
    by: Optional[str]
    reason: Optional[str]
    offset: int
    seq: int

class MirrorEntry(NamedTuple):
    object_key: str
    medium: str
    tenant_id: str
    session_id: Optional[str]
    group_id: Optional[str]
    event_id: int
    source: int

class Place(NamedTuple):
    owner: str
    tier: str
    blocks: int
    prefix: int

class Worker(NamedTuple):
    owner: str
    own: int
    with_store: int

class Match(NamedTuple):
    places: List[Place]
    workers: List[Worker]
    store: int

class Session(NamedTuple):
    tenant_id: str
    session_id: str
    heads: int
    blocks: int
    bytes: int

class Tenant(NamedTuple):
    tenant_id: str
    nodes: int
    sessions: int
    resident: int
    resident_bytes: int

class Index:
    def __new__(
        cls,
        layout: str,
        prefix: str = "",
        *,
        max_nodes: int = 0,
        max_sessions: int = 0,
        max_heads: int = 0,
        max_marks: int = 0,
        max_bytes: int = 0,
        max_owners: int = 0,
        max_tenants: int = 0,
        block_bytes: int = 0,
    ) -> "Index": ...
    @property
    def layout(self) -> str: ...
    @property
    def prefix(self) -> str: ...
    def observe(self, session: str, hashes: Hashes, tenant: str = "default") -> str: ...
    def session_end(self, session: str, tenant: str = "default") -> None: ...
    def worker_lost(self, worker: str, /) -> None: ...
    def apply(self, line: str, /) -> str: ...
    def maintain(self, steps: int = 1000, /) -> bool: ...
    def export(self) -> List[str]: ...
    def match(self, hashes: Hashes, tenant: str = "default") -> Match: ...
    def heads(self, session: str, tenant: str = "default") -> List[int]: ...
    def chain(self, head: int, tenant: str = "default") -> Tuple[List[int], bool]: ...
    def resident(self, session: str, tenant: str = "default") -> Tuple[List[Place], int]: ...
    def sessions_of(self, hash: int, limit: int = 100, tenant: str = "default") -> Tuple[int, List[str]]: ...
    def sessions(self, tenant: Optional[str] = None) -> List[Session]: ...
    def tenants(self) -> List[Tenant]: ...
    def stats(self) -> Dict[str, int]: ...

class Subscriber:
    def __new__(
        cls,
        sources: Tuple[Dict[str, Any], ...],
        index: Optional[Index] = None,
        no_mirror: bool = False,
        max_queue_bytes: int = 0,
        max_mirror_entries: int = 0,
        max_message_events: int = 0,
        recovery_patience_ms: int = 0,
    ) -> "Subscriber": ...
    @property
    def closed(self) -> bool: ...
    @property
    def index(self) -> Optional[Index]: ...
    @property
    def source_count(self) -> int: ...
    def close(self) -> None: ...
    def poll(self, timeout: Optional[float] = None, max_items: int = 1024) -> List[Union[Event, Signal]]: ...
    def fileno(self) -> int: ...
    def start(self) -> None: ...
    def stop(self) -> None: ...
    def _signals(self) -> Tuple[List[Signal], int]: ...
    def inject(self, frames: Iterable[bytes], source: int = 0) -> List[Union[Event, Signal]]: ...
    def mirror(self) -> List[MirrorEntry]: ...
    def mirror_count(self) -> int: ...
    def lookup(
        self, key: str, medium: str = "cpu", tenant: str = "default", source: int = 0
    ) -> Optional[MirrorEntry]: ...
    def stats(self, source: int = 0, /) -> Dict[str, Any]: ...

def decode(frames: Iterable[bytes], /) -> List[Event]: ...
