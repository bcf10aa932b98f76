# SPDX-License-Identifier: Apache-2.0
"""How objects are to be stored, and the enumerations of the store."""
import enum


class SoftPinAction(enum.IntEnum):
    """What a write does to the soft pin of its object."""
    PRESERVE = 0
    ENABLE = 1
    DISABLE = 2


class ObjectDataType(enum.IntEnum):
    """What an object is; kept with it, and of no consequence."""
    UNKNOWN = 0
    KVCACHE = 1
    TENSOR = 2
    WEIGHT = 3
    SAMPLE = 4
    ACTIVATION = 5
    GRADIENT = 6
    OPTIMIZER_STATE = 7
    METADATA = 8
    GENERAL = 9


class ReplicaStatus(enum.IntEnum):
    """State of one copy of an object. Only complete ones are shown."""
    UNDEFINED = 0
    INITIALIZED = 1
    PROCESSING = 2
    COMPLETE = 3
    REMOVED = 4
    FAILED = 5


class TaskType(enum.IntEnum):
    REPLICA_COPY = 0
    REPLICA_MOVE = 1


class TaskStatus(enum.IntEnum):
    PENDING = 0
    PROCESSING = 1
    SUCCESS = 2
    FAILED = 3


class ReplicateConfig:
    """How to store objects: attributes, or keywords of the constructor.

    replica_num                copies in memory, on distinct clients, best effort
    nof_replica_num            not built: over 0 is refused with -600
    dfs_replica_num            not built: over 0 is refused with -1601
    soft_pin_action            SoftPinAction
    soft_pin_ttl_ms            milliseconds, with ENABLE only; None: the master's default, 0: no pin
    with_hard_pin              never evicted
    preferred_segment          "host:port" of the segment to be tried first; "" for none
    preferred_segments         the same, several, in order
    preferred_nof_segments     kept, and of no consequence
    prefer_alloc_in_same_node  the writer's host before all others
    data_type                  ObjectDataType
    group_ids                  None, or a str per key; "": ungrouped
    session_ids                None, or a str per key, at most 256 bytes of UTF-8; "": untagged
    complete                   of put sessions: an end with holes is refused (-700)
    checksum                   a sum per 64 KiB, which reads look at
    """

    __slots__ = ("replica_num", "nof_replica_num", "dfs_replica_num", "soft_pin_action",
                 "soft_pin_ttl_ms", "with_hard_pin", "preferred_segment", "preferred_segments",
                 "preferred_nof_segments", "prefer_alloc_in_same_node", "data_type", "group_ids",
                 "session_ids", "complete", "checksum")

    def __init__(self, replica_num=1, nof_replica_num=0, dfs_replica_num=0,
                 soft_pin_action=SoftPinAction.PRESERVE, soft_pin_ttl_ms=None, with_hard_pin=False,
                 preferred_segment="", preferred_segments=None, preferred_nof_segments=None,
                 prefer_alloc_in_same_node=False, data_type=ObjectDataType.UNKNOWN, group_ids=None,
                 session_ids=None, complete=False, checksum=False):
        self.replica_num = replica_num
        self.nof_replica_num = nof_replica_num
        self.dfs_replica_num = dfs_replica_num
        self.soft_pin_action = soft_pin_action
        self.soft_pin_ttl_ms = soft_pin_ttl_ms
        self.with_hard_pin = with_hard_pin
        self.preferred_segment = preferred_segment
        self.preferred_segments = [] if preferred_segments is None else preferred_segments
        self.preferred_nof_segments = [] if preferred_nof_segments is None else preferred_nof_segments
        self.prefer_alloc_in_same_node = prefer_alloc_in_same_node
        self.data_type = data_type
        self.group_ids = group_ids
        self.session_ids = session_ids
        self.complete = complete
        self.checksum = checksum

    def __repr__(self):
        plain = ReplicateConfig.__new__(ReplicateConfig)
        plain.__init__()
        changed = [f"{name}={getattr(self, name)!r}" for name in self.__slots__
                   if getattr(self, name) != getattr(plain, name)]
        return f"ReplicateConfig({', '.join(changed)})"
