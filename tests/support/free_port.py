# SPDX-License-Identifier: Apache-2.0
"""Ports that stay free while their process is away."""
import random
import socket


def free_port():
    """A port of 127.0.0.1 that nobody has, outside of what the system gives to connecting sockets and of
    what nodes look through; so it can be taken again after its process was killed."""
    dice = random.SystemRandom()
    while True:
        port = dice.randrange(15000, 32000)
        with socket.socket() as trial:
            try:
                trial.bind(("127.0.0.1", port))
            except OSError:
                continue
        return port
