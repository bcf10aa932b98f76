# SPDX-License-Identifier: Apache-2.0
"""A subscriber that asks the master's recovery server for what it missed."""
import time

import pytest

from mckv.events import Event, Index, Signal, Source, Subscriber
from mckv.store import MooncakeDistributedStore, ReplicateConfig

from conftest import set_up
from test_events import listening, message

PATIENCE_S = 60


@pytest.fixture
def publishing(master_of_its_own):
    """A master that publishes and keeps history, and a store on it."""
    running = master_of_its_own("--enable_kv_events", "--kv_events_bind_endpoint=tcp://127.0.0.1:*", "--kv_events_backend_id=n1",
                                "--kv_events_replay_endpoint=tcp://127.0.0.1:*", "--kv_events_heartbeat=100ms")
    store = MooncakeDistributedStore()
    assert set_up(store, running.address) == 0
    running.store = store
    yield running
    store.close()


def put(store, keys, session="s"):
    config = ReplicateConfig()
    config.session_ids = [session] * len(keys)
    assert store.put_batch(list(keys), [b"v"] * len(keys), config) == 0


def until(subscriber, question):
    """Items in order, until one of them answers the question."""
    seen, end = [], time.monotonic() + PATIENCE_S
    while not any(map(question, seen)):
        assert time.monotonic() < end, seen
        seen += subscriber.poll(1)
    return seen


def told(publishing, key):
    """The first subscriber gets everything; who comes after it was told is late."""
    with Subscriber(publishing.events) as first:
        until(first, lambda item: isinstance(item, Event) and item.object_key == key)


def is_recovered(item):
    return isinstance(item, Signal) and item.type == "recovered"


def test_a_late_joiner_begins_with_all_that_there_is(publishing):
    put(publishing.store, [str(i) for i in range(100)])
    told(publishing, "99")
    index = Index("u64")
    source = Source(publishing.events, publishing.recovery, begin="snapshot")
    with Subscriber(source, index=index) as subscriber:
        seen = until(subscriber, is_recovered)
        rows = [item for item in seen if isinstance(item, Event) and item.type == "stored"]
        assert {row.object_key for row in rows} == {str(i) for i in range(100)}
        assert {row.session_id for row in rows} == {"s"} and "snapshot" in {row.origin for row in rows}
        assert [item.by for item in seen if is_recovered(item)] == ["snapshot"]
        assert subscriber.verify(publishing.admin).keys == 100
        assert index.match([0, 1, 2]).store == 3
        stats = subscriber.stats()
        assert stats["recoveries_by_snapshot"] == 1 and not stats["is_recovering"]


def test_a_loss_is_made_good(publishing):
    with Subscriber(Source(publishing.events, publishing.recovery)) as subscriber:
        listening(subscriber)
        put(publishing.store, ["a"])
        until(subscriber, lambda item: isinstance(item, Event) and item.object_key == "a")
        # As if messages had been lost on the way: one that is far ahead of what came.
        epoch, stats = subscriber.lookup("a"), subscriber.stats()
        seq, last = stats["last_seq"], stats["last_event_id"]
        assert epoch.event_id == last
        items = subscriber.inject(message(seq + 2, (last + 3, "stored", "later", "s"), epoch=stats["epoch"]))
        assert "gap" in [item.type for item in items]
        put(publishing.store, ["b", "c", "later"])
        until(subscriber, is_recovered)
        assert all(subscriber.lookup(key) is not None for key in ("b", "c", "later"))
        assert subscriber.verify(publishing.admin, settle=0.2)
        assert subscriber.stats()["recoveries"] == 1


def test_a_beginning_by_number_replays(publishing):
    put(publishing.store, ["a"])
    told(publishing, "a")
    time_left = time.monotonic() + PATIENCE_S
    with Subscriber(Source(publishing.events, publishing.recovery, begin=1)) as subscriber:
        seen = until(subscriber, lambda item: isinstance(item, Event) and item.object_key == "a")
        assert time.monotonic() < time_left
        assert "replay" in {item.origin for item in seen if isinstance(item, Event)}


def test_several_publishers_are_one_source(publishing):
    others = (("tcp://127.0.0.1:1", None), ("tcp://127.0.0.1:2", "tcp://127.0.0.1:3"))
    with Subscriber(Source(publishing.events, publishing.recovery, others=others)) as subscriber:
        listening(subscriber)
        put(publishing.store, ["a"])
        until(subscriber, lambda item: isinstance(item, Event) and item.object_key == "a")
        assert subscriber.source_count == 1


def test_a_server_that_does_not_answer_is_asked_again(publishing):
    put(publishing.store, ["a"])
    told(publishing, "a")
    source = Source(publishing.events, "tcp://127.0.0.1:1", begin="snapshot")
    with Subscriber(source, recovery_patience=0.05) as subscriber:
        end = time.monotonic() + PATIENCE_S
        while subscriber.stats()["failed_requests"] < 2:
            assert time.monotonic() < end
            assert not any(map(is_recovered, subscriber.poll(0.1)))
        assert subscriber.stats()["is_recovering"]


def test_beginnings_that_are_none():
    for wrong in ("yesterday", "snapshot", 5):  # the last two have nobody to ask
        with pytest.raises((ValueError, RuntimeError)):
            Subscriber(Source("tcp://127.0.0.1:1", begin=wrong))
    with pytest.raises(OverflowError):
        Subscriber(Source("tcp://127.0.0.1:1", "tcp://127.0.0.1:2", begin=-1))
    with pytest.raises(ValueError):
        Subscriber(Source("tcp://127.0.0.1:1", others=(("tcp://127.0.0.1:2", None),) * 8))
    for wrong in ((3,), ("a",), (("a",),)):
        with pytest.raises(TypeError):
            Subscriber(Source("tcp://127.0.0.1:1", others=wrong))
