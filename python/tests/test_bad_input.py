# SPDX-License-Identifier: Apache-2.0
"""What cannot be asked is an exception or a code, never a crash, and changes nothing."""
import pytest
from conftest import set_up
from mooncake.store import MooncakeDistributedStore, ReplicateConfig

INVALID = -600
WRONG = [None, 5, 1.5, object(), [], {}, "text", b"bytes", ["a"], [1], [None], [[]], [["a"]],
         [[None]], -1, 2**64, 2**200, [-1], [2**64], [[-1]], [[2**64]], "\ud800", ["\ud800"],
         ReplicateConfig(), iter("ab"), {1: 2}, memoryview(b"abc"), range(3), True]

METHODS = {
    "put": 3, "upsert": 3, "put_parts": 3, "upsert_parts": 3, "put_batch": 3, "upsert_batch": 3,
    "put_from": 4, "upsert_from": 4, "put_from_with_metadata": 6, "batch_put_from": 4,
    "batch_upsert_from": 4, "batch_put_from_multi_buffers": 4, "get": 1, "get_batch": 1,
    "get_buffer": 1, "batch_get_buffer": 1, "get_into": 3, "batch_get_into": 3,
    "batch_get_into_multi_buffers": 4, "get_into_ranges": 5, "is_exist": 1, "batch_is_exist": 1,
    "get_size": 1, "remove": 2, "batch_remove": 2, "remove_by_regex": 2, "register_buffer": 2,
    "unregister_buffer": 1, "batch_get_session_start": 1, "batch_get_into_multi_buffer_ranges": 4,
    "batch_get_session_end": 1, "batch_put_session_start": 3,
    "batch_put_from_multi_buffer_ranges": 4, "batch_put_session_end": 1,
    "batch_put_session_revoke": 1, "mount_segment": 3, "unmount_segment": 2,
    "allocate_and_mount_segment": 1, "get_replica_desc": 1, "batch_get_replica_desc": 1, "probe": 1,
    "put_tensor": 2, "get_tensor": 1, "batch_get_tensor": 1, "batch_put_tensor": 2,
    "get_tensor_into": 3, "put_tensor_from": 3, "batch_put_tensor_from": 3,
    "put_tensor_with_tp": 5, "get_tensor_with_tp": 4,
}
HARMLESS = (TypeError, ValueError, OverflowError)  # UnicodeEncodeError is a ValueError


def no_harm(call, arguments):
    try:
        call(*arguments)
    except HARMLESS:
        pass


@pytest.mark.parametrize("name", METHODS)
def test_anything_anywhere(embedded, name):
    """Every wrong thing in every place, beside things that are right or wrong too."""
    assert embedded.put("kept", b"value") == 0
    call, count = getattr(embedded, name), METHODS[name]
    for wrong in WRONG:
        for place in range(count):
            for filler in ("a", ["a"], [["a"]], [1], [[1]], 1, None):
                arguments = [filler] * count
                arguments[place] = wrong
                if name == "register_buffer" and all(isinstance(one, int) for one in arguments):
                    continue  # which is right, of memory that is none
                if "mount" in name and isinstance(arguments[0], int) and 0 < arguments[0] < 10**6:
                    continue
                no_harm(call, arguments)
    for arguments in ([], [None] * 20):
        with pytest.raises(HARMLESS):
            if name == "put_parts" or name == "upsert_parts":
                arguments = [None] * len(arguments)
            call(*arguments)
    assert embedded.get("kept") == b"value" or name in ("upsert", "remove")


def test_lists_of_other_lengths(embedded):
    """E8: a code for each key, or one for the call; TypeError for what is no list."""
    memory = bytearray(64)
    store = embedded
    assert store.put_batch(["a", "b"], [b"x"]) == INVALID
    for name in ("batch_put_from", "batch_upsert_from", "batch_get_into"):
        assert getattr(store, name)(["a", "b"], [1], [1]) == [INVALID] * 2
        assert getattr(store, name)(["a", "b"], [1, 1], [1]) == [INVALID] * 2
        assert getattr(store, name)([], [1], [1]) == []
    for name in ("batch_put_from_multi_buffers", "batch_get_into_multi_buffers"):
        assert getattr(store, name)(["a", "b"], [[1]], [[1]]) == [INVALID] * 2
    for name in ("batch_is_exist", "get_batch", "batch_remove"):
        assert len(getattr(store, name)(["a"])) == 1
        with pytest.raises(TypeError):
            getattr(store, name)("ab")
    assert store.put("there", b"x") == 0
    assert store.batch_is_exist(["a"] * 65536 + ["there"] * 2) == [0] * 65536 + [1] * 2
    assert store.batch_get_into(["a"] * 65537, [1] * 65537, [1] * 65537) == [INVALID] * 65537
    del memory


def test_keys_beyond_the_limits(embedded):
    assert embedded.put("", b"x") == INVALID
    assert embedded.put("k" * 4096, b"x") == 0
    assert embedded.put("k" * 4097, b"x") == -400
    assert embedded.put("a\0b", b"x") == -400
    assert embedded.put(b"\xff", b"x") == -400
    assert embedded.put("a", b"") == INVALID
    assert embedded.is_exist("k" * 4097) == -1
    assert embedded.batch_is_exist(["k" * 4097, "k" * 4096]) == [-1, 1]
    with pytest.raises(UnicodeEncodeError):
        embedded.put("\ud800", b"x")
    with pytest.raises(UnicodeEncodeError):
        embedded.put("a", b"x", ReplicateConfig(session_ids=["\ud800"]))
    assert embedded.is_exist("a") == 0


def test_configs_that_are_none(embedded):
    for config in (5, "config", object(), ReplicateConfig(session_ids="ab"),
                   ReplicateConfig(group_ids=[5]), ReplicateConfig(preferred_segment=5),
                   ReplicateConfig(preferred_segments="ab"), ReplicateConfig(replica_num="1")):
        with pytest.raises(TypeError):
            embedded.put("a", b"x", config)
    for config in (ReplicateConfig(replica_num=-1), ReplicateConfig(replica_num=2**32),
                   ReplicateConfig(soft_pin_ttl_ms=-1), ReplicateConfig(soft_pin_ttl_ms=2**64)):
        with pytest.raises(OverflowError):
            embedded.put("a", b"x", config)
    for config in (ReplicateConfig(soft_pin_action=3), ReplicateConfig(data_type=10),
                   ReplicateConfig(preferred_segment="a\0b")):
        with pytest.raises(ValueError):
            embedded.put("a", b"x", config)
    assert embedded.is_exist("a") == 0


class Spoiler:
    """An int that changes the list it stands in."""

    def __init__(self, numbers):
        self.numbers = numbers

    def __index__(self):
        self.numbers.clear()
        return 1


def test_lists_that_change_while_they_are_read(embedded):
    numbers = [1, 2, 3]
    numbers[0] = Spoiler(numbers)
    with pytest.raises(RuntimeError):
        embedded.batch_put_from(["a"] * 3, numbers, [1] * 3)
    rows = [[1], [2]]
    rows[0][0] = Spoiler(rows)
    assert embedded.batch_put_from_multi_buffers(["a"] * 2, rows, [[1], [1]]) == [INVALID] * 2


def test_unusable_settings():
    store = MooncakeDistributedStore()
    for settings in (("127.0.0.1", "P2PHANDSHAKE", 0, 0, "warp", "", "127.0.0.1:1"),
                     ("127.0.0.1", "P2PHANDSHAKE", 0, 0, "efa", "", "127.0.0.1:1"),
                     ("127.0.0.1", "nonsense", 0, 0, "tcp", "", "127.0.0.1:1"),
                     ("127.0.0.1", "P2PHANDSHAKE", 0, 0, "tcp", "", "no address"),
                     ("127.0.0.1:99999", "P2PHANDSHAKE", 0, 0, "tcp", "", "127.0.0.1:1")):
        code = store.setup(*settings)
        assert code < 0, settings
    assert set_up(store, "embedded", tenant_id="other") == -1011
    assert set_up(store, "embedded", enable_ssd_offload=True) == -1012
    assert store.setup("127.0.0.1", "P2PHANDSHAKE", 0, 0, "tcp", "", "embedded", object()) == -1012
    assert store.get("a") == b""
    assert set_up(store, "embedded") == 0
    assert set_up(store, "embedded") == -1010
    assert store.close() == 0
