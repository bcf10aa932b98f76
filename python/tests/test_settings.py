# SPDX-License-Identifier: Apache-2.0
"""Settings of launchers: a file, the environment, sizes."""
import json
import os

import pytest

from mckv.settings import DEFAULT_GLOBAL_SEGMENT_SIZE, DEFAULT_LOCAL_BUFFER_SIZE, MooncakeConfig, parse_size
from mckv.store import MooncakeDistributedStore


@pytest.fixture(autouse=True)
def no_environment(monkeypatch):
    for name in list(os.environ):
        if name.startswith("MOONCAKE_") or name == "LOCAL_HOSTNAME":
            monkeypatch.delenv(name)


def write(tmp_path, settings):
    path = tmp_path / "settings.json"
    path.write_text(settings if isinstance(settings, str) else json.dumps(settings))
    return str(path)


GOOD = {"local_hostname": "h", "metadata_server": "P2PHANDSHAKE", "master_server_address": "m:1"}


@pytest.mark.parametrize("text,size", ((0, 0), (12345, 12345), ("12345", 12345), ("1kb", 1 << 10), ("2K", 2 << 10), (" 64 MB ", 64 << 20),
                                       ("3m", 3 << 20), ("2gb", 2 << 30), ("1.5g", 3 << 29), ("1tb", 1 << 40), ("7b", 7)))
def test_sizes(text, size):
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ("", "lots", "1x", "gb", "-1", -1, "1 2", "1.2.3gb", "nan", "inf", 1 << 63, "9999999tb", "0x10"))
def test_sizes_that_are_none(text):
    with pytest.raises(ValueError):
        parse_size(text)


@pytest.mark.parametrize("value", (None, 1.5, True, b"1", [1]))
def test_what_is_no_size_at_all(value):
    with pytest.raises(TypeError):
        parse_size(value)


def test_a_file(tmp_path):
    path = write(tmp_path, {**GOOD, "global_segment_size": "4gb", "local_buffer_size": 5, "protocol": "tcp", "device_name": "d",
                            "tenant_id": "t", "enable_ssd_offload": "true", "anything": 1})
    got = MooncakeConfig.from_file(path)
    assert (got.local_hostname, got.metadata_server, got.master_server_address) == ("h", "P2PHANDSHAKE", "m:1")
    assert (got.global_segment_size, got.local_buffer_size) == (4 << 30, 5)
    assert (got.protocol, got.device_name, got.tenant_id, got.enable_ssd_offload) == ("tcp", "d", "t", True)


def test_what_a_file_need_not_say(tmp_path):
    got = MooncakeConfig.from_file(write(tmp_path, GOOD))
    assert (got.global_segment_size, got.local_buffer_size) == (DEFAULT_GLOBAL_SEGMENT_SIZE, DEFAULT_LOCAL_BUFFER_SIZE)
    assert (got.protocol, got.device_name, got.tenant_id) == ("tcp", "", "default")


@pytest.mark.parametrize("name", tuple(GOOD))
def test_what_a_file_must_say(tmp_path, name):
    with pytest.raises(ValueError, match=name):
        MooncakeConfig.from_file(write(tmp_path, {key: value for key, value in GOOD.items() if key != name}))


def test_files_that_are_none(tmp_path):
    for text in ("", "{", "[]", "3", json.dumps({**GOOD, "global_segment_size": "x"}), json.dumps({**GOOD, "enable_ssd_offload": "x"})):
        with pytest.raises(ValueError):
            MooncakeConfig.from_file(write(tmp_path, text))
    with pytest.raises(OSError):
        MooncakeConfig.from_file(str(tmp_path / "none"))


def test_the_environment(tmp_path, monkeypatch):
    with pytest.raises(ValueError, match="MOONCAKE_MASTER"):
        MooncakeConfig.load_from_env()
    monkeypatch.setenv("MOONCAKE_MASTER", "m:2")
    got = MooncakeConfig.load_from_env()
    assert (got.local_hostname, got.metadata_server, got.master_server_address) == ("localhost", "P2PHANDSHAKE", "m:2")
    monkeypatch.setenv("LOCAL_HOSTNAME", "second")
    assert MooncakeConfig.load_from_env().local_hostname == "second"
    monkeypatch.setenv("MOONCAKE_LOCAL_HOSTNAME", "first")
    monkeypatch.setenv("MOONCAKE_GLOBAL_SEGMENT_SIZE", "1gb")
    monkeypatch.setenv("MOONCAKE_LOCAL_BUFFER_SIZE", "2mb")
    got = MooncakeConfig.load_from_env()
    assert (got.local_hostname, got.global_segment_size, got.local_buffer_size) == ("first", 1 << 30, 2 << 20)
    monkeypatch.setenv("MOONCAKE_CONFIG_PATH", write(tmp_path, GOOD))
    assert MooncakeConfig.load_from_env().master_server_address == "m:1"


def test_a_store_is_set_up_with_them(master, monkeypatch):
    from mooncake.mooncake_config import MooncakeConfig as Named

    monkeypatch.setenv("MOONCAKE_MASTER", master.address)
    monkeypatch.setenv("MOONCAKE_LOCAL_HOSTNAME", "127.0.0.1")
    monkeypatch.setenv("MOONCAKE_GLOBAL_SEGMENT_SIZE", "16mb")
    monkeypatch.setenv("MOONCAKE_LOCAL_BUFFER_SIZE", "1mb")
    got = Named.load_from_env()
    store = MooncakeDistributedStore()
    assert store.setup(got.local_hostname, got.metadata_server, got.global_segment_size, got.local_buffer_size, got.protocol,
                       got.device_name, got.master_server_address) == 0
    assert store.put("settings", b"1") == 0 and store.get("settings") == b"1"
    store.remove("settings", force=True)
    store.close()
