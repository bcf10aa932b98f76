# SPDX-License-Identifier: Apache-2.0
"""The commands that the wheel carries: this process becomes the one asked for."""
import os
import sys


def _become(name, program):
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin", program)
    try:
        os.execv(path, [name, *sys.argv[1:]])
    except OSError as error:
        sys.exit(f"{name}: {path}: {error.strerror}")


def mc_master():
    _become("mc-master", "mc-master")


def mc_store():
    _become("mc-store", "mc-store")


def mc_events():
    _become("mc-events", "mc-events")


def mooncake_master():
    _become("mooncake_master", "mc-master")


def mooncake_client():
    _become("mooncake_client", "mc-store")
