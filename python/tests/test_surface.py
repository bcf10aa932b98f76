# SPDX-License-Identifier: Apache-2.0
"""What is there: names, signatures, words."""
import copy
import inspect

import mooncake.store
import pytest
from mooncake.store import MooncakeDistributedStore, ReplicateConfig, SoftPinAction

# The methods that consumers call (K5), and those of the API document.
METHODS = """
setup close get_hostname health_check register_buffer unregister_buffer put get put_batch get_batch
put_parts put_from batch_put_from get_into batch_get_into batch_put_from_multi_buffers
batch_get_into_multi_buffers get_into_ranges batch_get_session_start batch_get_session_end
batch_get_into_multi_buffer_ranges batch_put_session_start batch_put_from_multi_buffer_ranges
batch_put_session_end batch_put_session_revoke is_exist batch_is_exist get_size remove batch_remove
remove_by_regex remove_all get_replica_desc batch_get_replica_desc upsert upsert_from
batch_upsert_from upsert_parts upsert_batch get_buffer batch_get_buffer put_from_with_metadata
alloc_from_mem_pool init_all setup_dummy mount_segment unmount_segment allocate_and_mount_segment
unmount_and_free_segment create_copy_task create_move_task query_task put_tensor get_tensor
batch_put_tensor batch_get_tensor pub_tensor batch_pub_tensor get_tensor_into batch_get_tensor_into
put_tensor_from batch_put_tensor_from put_tensor_with_tp pub_tensor_with_tp get_tensor_with_tp
batch_put_tensor_with_tp batch_pub_tensor_with_tp batch_get_tensor_with_tp get_tensor_with_tp_into
batch_get_tensor_with_tp_into put_tensor_with_tp_from batch_put_tensor_with_tp_from upsert_tensor
upsert_tensor_from batch_upsert_tensor_from batch_upsert_tensor upsert_pub_tensor
batch_upsert_pub_tensor begin_weight_snapshot
""".split()

SIGNATURES = {
    "put": "(self, key, value, config=None)",
    "upsert": "(self, key, value, config=None)",
    "get": "(self, key)",
    "put_batch": "(self, keys, values, config=None)",
    "put_parts": "(self, key, /, *parts, config=None)",
    "put_from": "(self, key, buffer_ptr, size, config=None)",
    "put_from_with_metadata":
        "(self, key, buffer_ptr, metadata_buffer_ptr, size, metadata_size, config=None)",
    "batch_put_from": "(self, keys, buffer_ptrs, sizes, config=None)",
    "batch_get_into": "(self, keys, buffer_ptrs, sizes)",
    "batch_put_from_multi_buffers": "(self, keys, all_buffer_ptrs, all_sizes, config=None)",
    "batch_get_into_multi_buffers":
        "(self, keys, all_buffer_ptrs, all_sizes, prefer_alloc_in_same_node=False)",
    "batch_put_session_start": "(self, keys, sizes, config=None)",
    "batch_put_from_multi_buffer_ranges":
        "(self, keys, all_buffer_ptrs, all_sizes, all_dst_offsets)",
    "batch_get_into_multi_buffer_ranges":
        "(self, keys, all_buffer_ptrs, all_sizes, all_src_offsets)",
    "remove": "(self, key, force=False)",
    "batch_remove": "(self, keys, force=False)",
    "remove_all": "(self, force=False)",
    "mount_segment": "(self, path, size, offset=0, protocol='tcp', location='')",
    "unmount_segment": "(self, segment_ids, grace_period_seconds=0)",
    "init_all": "(self, protocol, device_name, mount_segment_size=16777216)",
    "put_tensor_with_tp": "(self, key, tensor, tp_rank=0, tp_size=1, split_dim=0)",
}


@pytest.mark.parametrize("name", METHODS)
def test_every_method_is_there_and_says_what_it_does(name):
    method = getattr(MooncakeDistributedStore, name)
    assert inspect.signature(method).parameters["self"]
    assert method.__doc__ and len(method.__doc__) > 10


@pytest.mark.parametrize("name", SIGNATURES)
def test_signatures_are_those_of_the_document(name):
    shown = str(inspect.signature(getattr(MooncakeDistributedStore, name)))
    assert shown.replace("(self, /, ", "(self, ") == SIGNATURES[name]


def test_setup_names_its_keywords():
    names = list(inspect.signature(MooncakeDistributedStore.setup).parameters)
    assert names[1:] == [
        "local_hostname", "metadata_server", "global_segment_size", "local_buffer_size", "protocol",
        "rdma_devices", "master_server_addr", "engine", "enable_ssd_offload", "ssd_offload_path",
        "tenant_id", "enable_client_http_server", "client_http_port"]
    for name in names[1:]:
        assert name in MooncakeDistributedStore.setup.__doc__


def test_names_that_setup_does_not_know_are_named():
    store = MooncakeDistributedStore()
    with pytest.raises(TypeError, match="enable_warp"):
        store.setup("h", "P2PHANDSHAKE", 0, 0, "tcp", "", "embedded", None, enable_warp=True)
    with pytest.raises(TypeError, match="rdma_device"):
        store.setup({"local_hostname": "h", "metadata_server": "P2PHANDSHAKE", "rdma_device": ""})
    with pytest.raises(TypeError, match="metadata_server"):
        store.setup({"local_hostname": "h"})
    with pytest.raises(TypeError, match="master_server_addr"):
        store.setup("h", "P2PHANDSHAKE", 0, 0, "tcp", "")
    with pytest.raises(TypeError):
        store.setup("h", "P2PHANDSHAKE", "much", 0, "tcp", "", "embedded")
    with pytest.raises(OverflowError):
        store.setup("h", "P2PHANDSHAKE", -1, 0, "tcp", "", "embedded")


def test_config_has_every_attribute_on_the_class_and_on_instances():
    for name in ("replica_num", "nof_replica_num", "dfs_replica_num", "soft_pin_action",
                 "soft_pin_ttl_ms", "with_hard_pin", "preferred_segment", "preferred_segments",
                 "preferred_nof_segments", "prefer_alloc_in_same_node", "data_type", "group_ids",
                 "session_ids"):
        assert hasattr(ReplicateConfig, name)
        assert hasattr(ReplicateConfig(), name)
    config = ReplicateConfig()
    assert (config.replica_num, config.soft_pin_action, config.group_ids, config.session_ids) == (
        1, SoftPinAction.PRESERVE, None, None)
    with pytest.raises(AttributeError):
        config.session_id = "a"


def test_a_copied_config_has_everything_and_is_its_own():
    config = ReplicateConfig(replica_num=2, with_hard_pin=True, session_ids=["a"], group_ids=["g"],
                             soft_pin_action=SoftPinAction.ENABLE, soft_pin_ttl_ms=5)
    other = copy.copy(config)
    assert repr(other) == repr(config) and "session_ids=['a']" in repr(other)
    other.session_ids = ["b"]
    assert config.session_ids == ["a"]
    assert copy.deepcopy(config).group_ids == ["g"]


def test_enumerations():
    assert int(mooncake.store.ObjectDataType.GENERAL) == 9
    assert mooncake.store.TaskStatus.SUCCESS != mooncake.store.TaskStatus.FAILED
    assert mooncake.store.TaskType.REPLICA_COPY == 0
    assert mooncake.store.ReplicaStatus.COMPLETE == 3


def test_codes_have_words():
    assert mooncake.store.error_text(-704) == "MC_ERR_OBJECT_NOT_FOUND: object not found" or \
        mooncake.store.error_text(-704) == "OBJECT_NOT_FOUND: object not found"
