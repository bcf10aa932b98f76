# SPDX-License-Identifier: Apache-2.0
"""The store for asyncio."""
import asyncio
import gc
import os

import pytest
from conftest import MIB, set_up
from mckv.aio import AsyncStore
from mckv.store import MooncakeDistributedStore, ReplicateConfig
from test_store import Memory


def test_reads_and_writes_are_awaited(store):
    memory = Memory(store, MIB)
    memory.fill(bytes(range(200)))

    async def work():
        async with AsyncStore(store) as pages:
            keys = [f"k{i}" for i in range(100)]
            places = [memory.ptr + i for i in range(100)]
            config = ReplicateConfig(session_ids=["turn"] * 100)
            assert await pages.batch_put_from(keys, places, [8] * 100, config) == [0] * 100
            many = [pages.batch_get_into(keys, [memory.ptr + 1024 * (j + 1) + 8 * i for i in range(100)],
                                         [8] * 100) for j in range(50)]
            assert await asyncio.gather(*many) == [[8] * 100] * 50
            assert await pages.get_into("none", memory.ptr, 8) == -704
            assert await pages.put_from("one", memory.ptr, 4) == 0
            assert await pages.batch_upsert_from(["one"], [memory.ptr + 4], [4]) == [0]
            assert await pages.batch_put_from_multi_buffers(
                ["m"], [[memory.ptr, memory.ptr + 9]], [[1, 1]]) == [0]
            assert await pages.batch_get_into_multi_buffers(
                ["m"], [[memory.ptr + 300, memory.ptr + 400]], [[1, 1]]) == [2]
            # What cannot be asked answers as it does without a loop.
            assert await pages.batch_get_into(["a", "b"], [1], [1]) == [-600] * 2
            assert await pages.batch_get_into(["m"], [8], [8]) == [-600]
            with pytest.raises(TypeError):
                await pages.batch_get_into("a", [1], [1])
            with pytest.raises(OverflowError):
                await pages.batch_get_into(["a"], [-1], [1])
            assert await pages.batch_get_into([], [], []) == []

    asyncio.run(work())
    assert store.probe("k7").session_id == "turn"
    assert store.get_batch(["one", "m"]) == [b"\4\5\6\7", b"\0\x09"]
    assert memory.bytes(1024, 8) == bytes(range(8))


def test_an_await_that_is_cancelled_is_over_when_memory_is_left_alone(store):
    memory = Memory(store, 8 * MIB)

    async def work():
        async with AsyncStore(store, workers=1) as pages:
            tasks = [asyncio.create_task(
                pages.batch_put_from([f"c{i}-{j}" for j in range(8)], [memory.ptr] * 8, [MIB // 2] * 8))
                for i in range(20)]
            await asyncio.sleep(0)
            for task in tasks:
                task.cancel()
            done = await asyncio.gather(*tasks, return_exceptions=True)
            assert all(isinstance(one, asyncio.CancelledError) or isinstance(one, list) for one in done)
            assert any(isinstance(one, asyncio.CancelledError) for one in done)
            assert store.unregister_buffer(memory.ptr) == 0
            assert store.register_buffer(memory.ptr, memory.size) == 0
            assert await pages.get_into("none", memory.ptr, 8) == -704

    asyncio.run(work())


@pytest.mark.parametrize("what", ["queue", "store"])
def test_whoever_closes_answers_those_who_wait(master, what):
    store = MooncakeDistributedStore()
    assert set_up(store, master.address) == 0
    memory = Memory(store, 8 * MIB)

    async def work():
        pages = AsyncStore(store, workers=1)
        tasks = [asyncio.create_task(
            pages.batch_put_from([f"e{i}-{j}" for j in range(8)], [memory.ptr] * 8, [MIB] * 8))
            for i in range(20)]
        await asyncio.sleep(0)
        if what == "queue":
            pages.close()
        else:
            await asyncio.get_running_loop().run_in_executor(None, store.close)
        codes = [code for answer in await asyncio.wait_for(asyncio.gather(*tasks), 60) for code in answer]
        assert len(codes) == 160 and set(codes) <= {0, -12, -200, -800, -901} and -12 in codes
        assert await pages.batch_get_into(["a"], [memory.ptr], [8]) == [-600]
        pages.close()

    asyncio.run(work())
    assert store.close() == 0


def test_an_end_between_taking_and_asking_for_it_loses_nobody():
    """Another thread closes the store right after the loop has looked, and found nothing."""
    class Operation:
        results = [7]

    class Queue:
        is_over, polls = False, 0

        def __init__(self):
            self.operation, (self.end, self.other) = Operation(), os.pipe()
            os.write(self.other, b"1")

        def fileno(self):
            return self.end

        def submit(self, *_):
            return self.operation

        def poll(self):
            self.polls += 1
            if self.polls == 1:
                self.is_over = True
                return []
            return [self.operation]

        def close(self):
            os.close(self.end)
            os.close(self.other)

    class Store:
        def _open_queue(self, _):
            return Queue()

    async def work():
        pages = AsyncStore(Store())
        task = asyncio.create_task(pages.batch_get_into(["a"], [1], [7]))
        done, _ = await asyncio.wait([task], timeout=5)
        assert done, "nobody answered"
        assert task.result() == [7]

    asyncio.run(work())


def test_queues_that_nobody_closes_leave_nothing(store):
    memory = Memory(store, MIB)

    async def work():
        pages = AsyncStore(store)
        assert await pages.put_from("a", memory.ptr, 8) in (0,)
        asyncio.get_running_loop().remove_reader(pages._queue.fileno())

    asyncio.run(work())
    gc.collect()
    before = len(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task"))
    for _ in range(20):
        asyncio.run(work())
    gc.collect()
    assert (len(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task"))) == before


def test_a_store_that_is_not_set_up_has_no_queue():
    with pytest.raises(RuntimeError):
        AsyncStore(MooncakeDistributedStore())
