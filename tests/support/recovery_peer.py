# SPDX-License-Identifier: Apache-2.0
"""A recovery server of a test's own: a ROUTER that answers each request with what a function makes of it."""
import threading

import zmq


class Peer(threading.Thread):
    """answer(frames behind the delimiter) gives a list of answers, each a list of frames; heard keeps the requests."""

    def __init__(self, case, answer, keys=None):
        super().__init__(daemon=True)
        self.answer = answer
        self.heard = []
        self.ends = False
        self.context = zmq.Context()
        self.socket = self.context.socket(zmq.ROUTER)
        self.socket.setsockopt(zmq.SNDHWM, 0)
        self.socket.setsockopt(zmq.LINGER, 0)
        if keys:
            self.socket.curve_server = True
            self.socket.curve_secretkey = keys[1]
        self.endpoint = "tcp://127.0.0.1:%d" % self.socket.bind_to_random_port("tcp://127.0.0.1")
        case.addCleanup(self.end)
        self.start()

    def run(self):
        while not self.ends:
            if self.socket.poll(20):
                name, delimiter, *frames = self.socket.recv_multipart()
                self.heard.append(frames)
                for answer in self.answer(frames):
                    self.socket.send_multipart([name, delimiter, *answer])
        self.socket.close()

    def end(self):
        self.ends = True
        self.join()
        self.context.term()
