#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""An independent strict follower of a busy store ends up with what the store holds.

The follower knows the rules of docs/events.md and libraries of others only. The
store is written to through every call that changes something, in a space too
small for what is put.
"""
import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "support"))
from event_bytes import StrictFollower, Subscriber  # noqa: E402
from flow_case import PATIENCE, FlowCase  # noqa: E402

OPERATIONS = int(os.environ.get("MC_FLOW_OPERATIONS", "20000"))


class Follow(FlowCase):
    def follow_until(self, writer, subscriber, follower, event_id):
        """Applies messages until this event; acknowledges on the way."""
        acked = 0
        while follower.event_id is None or follower.event_id < event_id():
            frames = subscriber.receive(PATIENCE / 4)
            if frames is None:
                self.fail("silence after event %r: %s" % (follower.event_id, follower.faults))
            follower.message(frames)
            if follower.event_id and follower.event_id >= acked + 500:
                acked = follower.event_id
                writer.tell("ack %d" % acked)

    def test_the_followers_state_is_the_stores_list(self):
        for seed in (1, 2):
            writer = self.writer(seed)
            subscriber = Subscriber(writer.endpoint)
            self.addCleanup(subscriber.close)
            writer.ask("wait 1", "waited")
            follower = StrictFollower()
            writer.tell("pace 20000")
            writer.tell("go %d" % OPERATIONS)
            last = []

            def told():
                """The last id, once the writer has said it; until then, more than any."""
                import select
                if not last and select.select([writer.process.stdout], [], [], 0)[0]:
                    last.append(int(writer.answer("did")[0]))
                return last[0] if last else 2**64

            self.follow_until(writer, subscriber, follower, told)
            objects, listed_id = writer.listed(self.path("list"))
            self.follow_until(writer, subscriber, follower, lambda: listed_id)
            self.assertEqual(follower.faults, [])
            self.assertEqual(follower.event_id, listed_id)
            self.assertGreater(follower.events, OPERATIONS)
            media = {1: ["cpu"], 2: ["disk"], 3: ["cpu", "disk"]}
            wanted = {(tenant, key, medium): (session, group)
                      for (tenant, key), (mask, session, group, _) in objects.items() for medium in media[mask]}
            self.assertEqual({p: v[:2] for p, v in follower.places.items()}, wanted)
            for (tenant, key), (mask, _, _, event_id) in objects.items():
                self.assertEqual(max(follower.places[(tenant, key, m)][2] for m in media[mask]), event_id, key)
            for _ in range(20000):      # a message is counted after it was sent
                dropped, _, published, evicted = map(int, writer.ask("stat", "stat"))
                if published >= listed_id:
                    break
            self.assertEqual((dropped, published), (0, listed_id))
            self.assertGreater(evicted, 100)
            self.assertGreater(len(wanted), 20)
            self.assertEqual(writer.close(), 0)


if __name__ == "__main__":
    unittest.main()
