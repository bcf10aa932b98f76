# SPDX-License-Identifier: Apache-2.0
"""A real master, on ports of its own, and stores on it.

Where the commands are: MC_MASTER, MC_STORE and MC_EVENTS, or PATH.
"""
import os
import shutil
import subprocess
import time

import pytest

from mckv.store import MooncakeDistributedStore

MIB = 1 << 20
PATIENCE_S = 60
SANITIZED = bool(os.environ.get("MC_SANITIZED"))


class Master:
    """mc-master as a process; its addresses are attributes."""

    def __init__(self, *flags):
        program = os.environ.get("MC_MASTER") or shutil.which("mc-master")
        assert program, "no mc-master: set MC_MASTER"
        environment = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
        self.process = subprocess.Popen(
            [program, "--rpc_port=0", "--metrics_port=0", "--enable_http_metadata_server=true",
             "--http_metadata_server_port=0", *flags],
            stdout=subprocess.PIPE, text=True, env=environment)
        words = self.process.stdout.readline().split()
        assert words and words[0] == "ready", words
        places = dict(word.split("=", 1) for word in words[1:])
        self.address = self.local(places["rpc"])
        self.admin = "http://" + self.local(places["admin"])
        self.metadata = "http://" + self.local(places["metadata"]) + "/metadata"
        self.events = places["events"]
        self.recovery = places["recovery"]

    @staticmethod
    def local(place):
        return "127.0.0.1:" + place.rsplit(":", 1)[1]

    def close(self):
        self.process.terminate()
        self.process.wait(PATIENCE_S)
        self.process.stdout.close()


@pytest.fixture(scope="session")
def master():
    """Shared by all; keys are told apart by their tests."""
    running = Master()
    yield running
    running.close()


@pytest.fixture
def master_of_its_own():
    """Master(flags), ended with the test."""
    running = []

    def start(*flags):
        running.append(Master(*flags))
        return running[-1]

    yield start
    for one in running:
        one.close()


def until(question, what, seconds=PATIENCE_S):
    """Waits until it answers something true."""
    end = time.monotonic() + seconds
    while not question():
        assert time.monotonic() < end, "in vain: " + what
        time.sleep(0.01)


def set_up(store, address, segment=16 * MIB, local_buffer=4 * MIB, **more):
    return store.setup("127.0.0.1", "P2PHANDSHAKE", segment, local_buffer, "tcp", "", address,
                       **more)


@pytest.fixture
def store(master):
    """A store that is set up on the shared master."""
    one = MooncakeDistributedStore()
    assert set_up(one, master.address) == 0
    yield one
    one.remove_all(force=True)
    one.close()


@pytest.fixture
def embedded():
    """A store inside this process."""
    one = MooncakeDistributedStore()
    assert set_up(one, "embedded") == 0
    yield one
    one.close()
