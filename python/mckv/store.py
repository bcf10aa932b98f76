# SPDX-License-Identifier: Apache-2.0
"""The store: blocks by key, with the calls that engines know.

Calls on one key return 0, a size, or a negative code; calls on lists return a list of those,
one per key; error_text() says what a code means. What cannot be an argument at all, such as a
key that is no str, is an exception. The interpreter's lock is not held while bytes move. Any
thread may call, and may close: calls under way are waited for, later ones answer -600.
"""
import os

from ._store import BufferHandle, Store, bind_to_numa_node, error_text
from .config import (ObjectDataType, ReplicaStatus, ReplicateConfig, SoftPinAction, TaskStatus,
                     TaskType)
from .memory import MooncakeHostMemAllocator
from .replicas import ObjectState, Probe, ReplicaDescriptor, probe_of
from .tensors import TensorCalls

__all__ = ["BufferHandle", "MooncakeDistributedStore", "MooncakeHostMemAllocator",
           "ObjectDataType", "ObjectState", "Probe", "ReplicaDescriptor", "ReplicaStatus",
           "ReplicateConfig", "SoftPinAction", "TaskStatus", "TaskType", "bind_to_numa_node",
           "error_text"]

NOT_SUPPORTED = -1012
TASK_NOT_FOUND = -1400

_DICT_DEFAULTS = {
    "global_segment_size": 16 << 20, "local_buffer_size": 16 << 20, "protocol": "tcp",
    "rdma_devices": "", "master_server_addr": "127.0.0.1:50051", "ipc_socket_path": "",
    "enable_ssd_offload": False, "ssd_offload_path": "", "tenant_id": "default",
    "enable_client_http_server": False, "client_http_port": 9300,
}
_DICT_REQUIRED = ("local_hostname", "metadata_server")


class MooncakeDistributedStore(TensorCalls, Store):
    """A client of a store; setup() connects it, close() or its end disconnects it."""

    def setup(self, local_hostname, metadata_server=None, global_segment_size=None,
              local_buffer_size=None, protocol=None, rdma_devices=None, master_server_addr=None,
              engine=None, enable_ssd_offload=False, ssd_offload_path="", tenant_id="default",
              enable_client_http_server=False, client_http_port=9300):
        """Connects to a master, lends it memory, and returns 0 or a negative code.

        local_hostname             "host" or "host:port" by which others reach this process
        metadata_server            "P2PHANDSHAKE", or "http://host:port/metadata"
        global_segment_size        bytes lent to the store, 0 for none
        local_buffer_size          bytes for get_buffer() and buffer pools, 0 for none
        protocol                   "tcp"; "rdma" answers -1012 where it is not built
        rdma_devices               devices of rdma, "" for all
        master_server_addr         "host:port"; "embedded" for a store inside this process
        engine                     None; an engine of others answers -1012
        enable_ssd_offload         not built: True answers -1012
        ssd_offload_path           without enable_ssd_offload of no consequence
        tenant_id                  key space; others than "default" need a master with tenants
        enable_client_http_server  /health /metrics /metrics/summary /version of this client
        client_http_port           its port, 0 for a free one

        With a dict in place of all that: the same names but engine, and ipc_socket_path; only
        local_hostname and metadata_server are required. Names that are none are a TypeError
        which has them. Blocks until the master has answered, at most MC_RPC_TIMEOUT_MS. A store
        that is set up answers -1010; after close() it can be set up again.
        """
        if isinstance(local_hostname, dict):
            return self._setup_dict(local_hostname, metadata_server)
        required = {"metadata_server": metadata_server, "global_segment_size": global_segment_size,
                    "local_buffer_size": local_buffer_size, "protocol": protocol,
                    "rdma_devices": rdma_devices, "master_server_addr": master_server_addr}
        missing = [name for name, value in required.items() if value is None]
        if missing:
            raise TypeError("setup() is missing " + ", ".join(missing))
        if engine is not None or enable_ssd_offload:
            return NOT_SUPPORTED
        return self._open(local_hostname, metadata_server, global_segment_size, local_buffer_size,
                          protocol, master_server_addr, tenant_id, "", enable_client_http_server,
                          client_http_port, False)

    def _setup_dict(self, given, more):
        if more is not None:
            raise TypeError("setup() takes a dict alone")
        for name in given:
            if name not in _DICT_DEFAULTS and name not in _DICT_REQUIRED:
                raise TypeError(f"setup() got an unexpected key {name!r}")
        for name in _DICT_REQUIRED:
            if name not in given:
                raise TypeError(f"setup() is missing {name}")
        settings = {**_DICT_DEFAULTS, **given}
        if settings.pop("ipc_socket_path"):
            return NOT_SUPPORTED
        return self.setup(**settings)

    def init_all(self, protocol, device_name, mount_segment_size=16 << 20):
        """setup() with what the environment says: MOONCAKE_MASTER (127.0.0.1:50051),
        MOONCAKE_TE_META_DATA_SERVER (P2PHANDSHAKE), MOONCAKE_LOCAL_HOSTNAME (localhost)."""
        return self.setup(os.environ.get("MOONCAKE_LOCAL_HOSTNAME", "localhost"),
                          os.environ.get("MOONCAKE_TE_META_DATA_SERVER", "P2PHANDSHAKE"),
                          mount_segment_size, 16 << 20, protocol, device_name,
                          os.environ.get("MOONCAKE_MASTER", "127.0.0.1:50051"))

    # -- where objects are

    def batch_get_replica_desc(self, keys):
        """A dict of lists of ReplicaDescriptor; keys that cannot be read have none of their own.
        Takes a read lease."""
        keys = list(keys)
        return {key: [ReplicaDescriptor(*row) for row in rows]
                for key, rows in zip(keys, self._replicas(keys)) if not isinstance(rows, int)}

    def get_replica_desc(self, key):
        """A list of ReplicaDescriptor, empty if there is no such object."""
        return self.batch_get_replica_desc([key]).get(key, [])

    def probe(self, key):
        """What a key is at this moment, as a Probe; leaves no lease."""
        return probe_of(self._probe(key))

    # -- what is not built, with the answers that its callers know

    def setup_dummy(self, mem_pool_size, local_buffer_size, server_address):
        """A client without memory on the process of another: not built, -1012."""
        return NOT_SUPPORTED

    def alloc_from_mem_pool(self, size):
        """Memory of a dummy client: not built, 0."""
        return 0

    def create_copy_task(self, key, targets):
        """Not built: ((0, 0), -1012)."""
        return (0, 0), NOT_SUPPORTED

    def create_move_task(self, key, source, target):
        """Not built: ((0, 0), -1012)."""
        return (0, 0), NOT_SUPPORTED

    def query_task(self, task_id):
        """There are no tasks: (None, -1400)."""
        return None, TASK_NOT_FOUND

    def begin_weight_snapshot(self, descriptor, adapter):
        """Not built: NotImplementedError."""
        raise NotImplementedError("weight snapshots are not built")
