# SPDX-License-Identifier: Apache-2.0
"""Settings of a store's client from a JSON file or the environment.

    settings = MooncakeConfig.load_from_env()
    store.setup(settings.local_hostname, settings.metadata_server, settings.global_segment_size,
                settings.local_buffer_size, settings.protocol, settings.device_name,
                settings.master_server_address)
"""
from __future__ import annotations

import json
import os
from dataclasses import dataclass
from typing import Any, Mapping, Optional, Union

__all__ = ["DEFAULT_GLOBAL_SEGMENT_SIZE", "DEFAULT_LOCAL_BUFFER_SIZE", "MooncakeConfig", "parse_size"]

DEFAULT_GLOBAL_SEGMENT_SIZE = 3355443200
DEFAULT_LOCAL_BUFFER_SIZE = 1073741824
_UNITS = {"": 1, "b": 1, "k": 1 << 10, "kb": 1 << 10, "m": 1 << 20, "mb": 1 << 20, "g": 1 << 30, "gb": 1 << 30,
          "t": 1 << 40, "tb": 1 << 40}
_TRUE, _FALSE = ("1", "true", "yes", "on"), ("", "0", "false", "no", "off")

#: The environment, by name of the setting.
_ENVIRONMENT = {
    "local_hostname": ("MOONCAKE_LOCAL_HOSTNAME", "LOCAL_HOSTNAME"),
    "metadata_server": ("MOONCAKE_TE_META_DATA_SERVER",),
    "global_segment_size": ("MOONCAKE_GLOBAL_SEGMENT_SIZE",),
    "local_buffer_size": ("MOONCAKE_LOCAL_BUFFER_SIZE",),
    "protocol": ("MOONCAKE_PROTOCOL",),
    "device_name": ("MOONCAKE_DEVICE",),
    "master_server_address": ("MOONCAKE_MASTER",),
    "client_server_address": ("MOONCAKE_CLIENT",),
    "enable_ssd_offload": ("MOONCAKE_ENABLE_SSD_OFFLOAD",),
    "ssd_offload_path": ("MOONCAKE_OFFLOAD_FILE_STORAGE_PATH",),
    "tenant_id": ("MOONCAKE_TENANT_ID",),
}


def parse_size(value: Union[int, str]) -> int:
    """Bytes of a number, or of a text as "4gb", "512 MB", "1.5g", "1024"; units are
    powers of 1024. ValueError for anything else, TypeError for another kind."""
    if isinstance(value, bool) or not isinstance(value, (int, str)):
        raise TypeError(f"a size is a number or a text, not {type(value).__name__}")
    if isinstance(value, int):
        size: float = value
    else:
        text = value.strip().lower()
        number = text.rstrip("abcdefghijklmnopqrstuvwxyz").rstrip()
        unit = text[len(number) :].strip()
        if unit not in _UNITS:
            raise ValueError(f"not a size: {value!r}")
        try:
            size = int(number) * _UNITS[unit] if number.isdigit() else float(number) * _UNITS[unit]
        except ValueError:
            raise ValueError(f"not a size: {value!r}") from None
    if not 0 <= size < 1 << 63:
        raise ValueError(f"not a size: {value!r}")
    return int(size)


def _truth(value: Any, name: str) -> bool:
    if isinstance(value, bool):
        return value
    text = str(value).strip().lower()
    if text not in _TRUE and text not in _FALSE:
        raise ValueError(f"{name}: true or false, not {value!r}")
    return text in _TRUE


@dataclass
class MooncakeConfig:
    """What a client is set up with; sizes are bytes."""

    local_hostname: str
    metadata_server: str
    global_segment_size: int
    local_buffer_size: int
    protocol: str
    device_name: Optional[str]
    master_server_address: str
    client_server_address: Optional[str] = None
    enable_ssd_offload: bool = False
    ssd_offload_path: str = ""
    tenant_id: str = "default"

    @staticmethod
    def _of(given: Mapping[str, Any], where: str) -> "MooncakeConfig":
        for name in ("local_hostname", "metadata_server", "master_server_address"):
            if not given.get(name):
                raise ValueError(f"{where}: {name} is missing")
        return MooncakeConfig(
            local_hostname=str(given["local_hostname"]),
            metadata_server=str(given["metadata_server"]),
            global_segment_size=parse_size(given.get("global_segment_size", DEFAULT_GLOBAL_SEGMENT_SIZE)),
            local_buffer_size=parse_size(given.get("local_buffer_size", DEFAULT_LOCAL_BUFFER_SIZE)),
            protocol=str(given.get("protocol") or "tcp"),
            device_name=str(given.get("device_name") or ""),
            master_server_address=str(given["master_server_address"]),
            client_server_address=given.get("client_server_address"),
            enable_ssd_offload=_truth(given.get("enable_ssd_offload", False), "enable_ssd_offload"),
            ssd_offload_path=str(given.get("ssd_offload_path") or ""),
            tenant_id=str(given.get("tenant_id") or "default"),
        )

    @staticmethod
    def from_file(file_path: str) -> "MooncakeConfig":
        """From a JSON file with the names of the attributes; local_hostname,
        metadata_server and master_server_address are needed, others of its names
        are not looked at. OSError, ValueError."""
        with open(file_path, encoding="utf-8") as file:
            given = json.load(file)
        if not isinstance(given, dict):
            raise ValueError(f"{file_path}: not a JSON object")
        return MooncakeConfig._of(given, file_path)

    @staticmethod
    def load_from_env() -> "MooncakeConfig":
        """From the file that MOONCAKE_CONFIG_PATH names, else from MOONCAKE_MASTER
        and its like: MOONCAKE_LOCAL_HOSTNAME ("localhost"),
        MOONCAKE_TE_META_DATA_SERVER ("P2PHANDSHAKE"), MOONCAKE_GLOBAL_SEGMENT_SIZE,
        MOONCAKE_LOCAL_BUFFER_SIZE, MOONCAKE_PROTOCOL ("tcp"), MOONCAKE_DEVICE,
        MOONCAKE_TENANT_ID. ValueError where neither is set."""
        path = os.environ.get("MOONCAKE_CONFIG_PATH")
        if path:
            return MooncakeConfig.from_file(path)
        given = {"local_hostname": "localhost", "metadata_server": "P2PHANDSHAKE"}
        for name, variables in _ENVIRONMENT.items():
            found = [os.environ[variable] for variable in variables if os.environ.get(variable)]
            if found:
                given[name] = found[0]
        if "master_server_address" not in given:
            raise ValueError("neither MOONCAKE_CONFIG_PATH nor MOONCAKE_MASTER is set")
        return MooncakeConfig._of(given, "environment")
