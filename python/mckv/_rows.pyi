# SPDX-License-Identifier: Apache-2.0
from typing import Any, Dict, List, Optional, Tuple

REASONS: List[Tuple[str, str, int]]
STATUSES: List[str]

State = Tuple[int, int, int, bool, bool]

def read_file(path: str, /) -> Tuple[Optional[Dict[str, Any]], Optional[str]]: ...

class Operation:
    def states(self) -> Tuple[List[State], int]: ...
    def wait(self, timeout_ms: int, /) -> bool: ...
    def cancel(self) -> None: ...
    def release(self) -> bool: ...

class Driver:
    def __new__(
        cls,
        local_hostname: str,
        metadata_server: str,
        segment_bytes: int,
        local_buffer_bytes: int,
        protocol: str,
        master: str,
        tenant: str,
        config: Optional[str],
        workers: int,
        rows_per_call: int,
        bytes_per_call: int,
        rows_max: int,
        timeout_ms: int,
        close_ms: int,
        replicas: int,
        /,
    ) -> "Driver": ...
    def close(self) -> None: ...
    def register(self, ptr: int, size: int, /) -> int: ...
    def unregister(self, region: int, /) -> None: ...
    def drain(self, timeout_ms: int, /) -> bool: ...
    def fileno(self) -> int: ...
    def poll(self) -> List[int]: ...
    def stat(self) -> Dict[str, Any]: ...
    def submit(
        self,
        is_put: bool,
        keys: Tuple[str, ...],
        spans: Tuple[Tuple[Tuple[int, int, int], ...], ...],
        session_ids: Optional[Tuple[Optional[str], ...]],
        timeout_ms: int,
        number: int,
        /,
    ) -> Operation: ...
    def probe(self, keys: Tuple[str, ...], timeout_ms: int, /) -> List[State]: ...
