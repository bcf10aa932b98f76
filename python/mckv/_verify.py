# SPDX-License-Identifier: Apache-2.0
"""A master's snapshot beside a mirror."""
from __future__ import annotations

import json
import urllib.request
from dataclasses import dataclass, field
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Tuple

Key = Tuple[str, str, str]  # tenant, object key, medium
LINE_MAX = 1 << 20


class Difference(NamedTuple):
    """One entry that is not the same: what the stream told, what the master says;
    None: not there. Values are (session_id, group_id, event_id)."""

    tenant_id: str
    object_key: str
    medium: str
    told: Optional[Tuple[Optional[str], Optional[str], int]]
    stored: Optional[Tuple[Optional[str], Optional[str], int]]


@dataclass
class Verdict:
    """``keys``: entries that were compared; ``differences``: those that differ. True
    in a condition if there are none."""

    keys: int
    differences: List[Difference] = field(default_factory=list)

    def __bool__(self) -> bool:
        return not self.differences

    def confirmed(self, later: "Verdict") -> "Verdict":
        """What both show, unchanged in between."""
        before = set(self.differences)
        return Verdict(later.keys, [one for one in later.differences if one in before])


@dataclass
class Snapshot:
    first_id: int
    last_id: int
    rows: Dict[Key, Tuple[Optional[str], Optional[str], int]]

    def compare(self, mirror: Mapping[Key, Any]) -> Verdict:
        told = {key: (row.session_id, row.group_id, row.event_id) for key, row in mirror.items()}
        found = [
            Difference(*key, told.get(key), self.rows.get(key))
            for key in sorted(told.keys() | self.rows.keys())
            if told.get(key) != self.rows.get(key)
        ]
        return Verdict(len(told.keys() | self.rows.keys()), found)


def read_snapshot(admin: str, timeout: float) -> Snapshot:
    """Asks a master. OSError: it cannot be asked; ValueError: it says nonsense."""
    with urllib.request.urlopen(admin.rstrip("/") + "/kv_events/snapshot", timeout=timeout) as answer:
        lines = [json.loads(line) for line in answer if line.strip()]
    if len(lines) < 2 or "first_id" not in lines[0] or "last_id" not in lines[-1]:
        raise ValueError("the snapshot is not whole")
    rows = {
        (row["tenant_id"], row["object_key"], row["medium"]): (
            row.get("session_id"), row.get("group_id"), row["event_id"],
        )
        for row in lines[1:-1]
    }
    return Snapshot(lines[0]["first_id"], lines[-1]["last_id"], rows)
