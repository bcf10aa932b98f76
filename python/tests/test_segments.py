# SPDX-License-Identifier: Apache-2.0
"""Memory that is lent beyond that of setup, and memory for others."""
import ctypes
import os
import threading

import pytest
from conftest import MIB, set_up
from mooncake.store import (MooncakeDistributedStore, MooncakeHostMemAllocator, ReplicateConfig,
                            bind_to_numa_node)


@pytest.fixture
def bare(master_of_its_own):
    """A store that lends nothing yet, on a master to which nobody does."""
    one = MooncakeDistributedStore()
    assert set_up(one, master_of_its_own().address, segment=0) == 0
    yield one
    one.close()


def test_made_segments(bare):
    assert bare.put("a", b"x") == -200
    answer = bare.allocate_and_mount_segment(2 * MIB + 1)
    assert answer["ret"] == 0 and answer["allocated_size"] >= 2 * MIB + 1
    assert bare.put("a", b"x") == 0
    assert bare.unmount_and_free_segment(answer["segment_ids"]) == 0
    assert bare.is_exist("a") == 0
    assert bare.unmount_and_free_segment(answer["segment_ids"]) == -600


def test_files_as_segments(bare, tmp_path):
    path = tmp_path / "segment"
    path.write_bytes(bytes(4 * MIB))
    answer = bare.mount_segment(str(path), 2 * MIB, offset=MIB)
    assert answer["ret"] == 0
    value = os.urandom(100000)
    assert bare.put("a", value) == 0
    assert value in path.read_bytes()[MIB:3 * MIB]
    assert bare.get("a") == value
    assert bare.unmount_segment(answer["segment_ids"], grace_period_seconds=0) == 0
    assert bare.is_exist("a") == 0
    again = bare.mount_segment(str(path), MIB)
    assert again["ret"] == 0  # and is left to close()


def test_files_that_cannot_be(bare, tmp_path):
    path = tmp_path / "short"
    path.write_bytes(bytes(4096))
    for arguments, code in (((str(tmp_path / "none"), 4096), -1101), ((str(path), 4097), -600),
                            ((str(path), 4096, 1), -600), ((str(path), 4096, 4096), -600),
                            ((str(path), 0), -600), ((str(path), 2**63, 2**63), -600),
                            ((str(path), 2**64 - 1, 4096), -600),
                            ((str(path), 4096, 0, "rdma"), -1012)):
        assert bare.mount_segment(*arguments) == {"ret": code, "segment_ids": []}, arguments
    for ids in (["7"], ["x"], [""], ["-1"], [str(2**32 + 1)], [str(2**70)]):
        assert bare.unmount_segment(ids) == -600
    assert bare.unmount_segment([]) == 0
    assert bare.allocate_and_mount_segment(0)["ret"] < 0


def test_segments_of_odd_sizes(master):
    """J9: rounded, or a clear error; 0 means that it lends nothing and works all the same."""
    for size in (0, 1, 4095, 16 * MIB + 1):
        one = MooncakeDistributedStore()
        assert set_up(one, master.address, segment=size) == 0
        assert one.get("none") == b""
        config = ReplicateConfig(preferred_segment=one.get_hostname())
        assert one.put(f"of {size}", b"x", config) == (0 if size else -200)
        one.close()


def test_host_memory():
    allocator = MooncakeHostMemAllocator()
    address = allocator.alloc(MIB)
    assert address and address % 4096 == 0
    ctypes.memset(address, 7, MIB)
    del allocator
    assert ctypes.string_at(address, 4) == b"\7" * 4
    other = MooncakeHostMemAllocator()
    assert other.free(address) == 0
    assert other.free(address) == -600
    assert other.free(0) == -600
    assert other.alloc(0) == 0
    assert other.alloc(2**63) == 0
    for wrong in (-1, 2**64, "a", None):
        with pytest.raises((TypeError, OverflowError)):
            other.alloc(wrong)


def test_binding_to_a_node():
    failures = []

    def work():
        before = os.sched_getaffinity(0)
        try:
            bind_to_numa_node(0)  # also where nobody tells of nodes
            for wrong in (1023, 5000):
                with pytest.raises(ValueError):
                    bind_to_numa_node(wrong)
            with pytest.raises(OverflowError):
                bind_to_numa_node(-1)
        except BaseException as error:  # told by the test's thread
            failures.append(error)
        os.sched_setaffinity(0, before)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert not failures
