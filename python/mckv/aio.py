# SPDX-License-Identifier: Apache-2.0
"""The store for asyncio: reads and writes that are awaited.

    async with AsyncStore(store) as pages:
        sizes = await pages.batch_get_into(keys, pointers, sizes)

Nothing blocks the loop: threads of the library do the work, and its descriptor wakes the loop. An
await that is cancelled makes its operation end soon, and is over when nobody touches its memory
any more. Answers are those of the calls of the same names; a timeout, in milliseconds, makes rows
that have not begun answer -901. At most 65 536 rows are under way at a time; one more answers -200.
"""
import asyncio

_GET, _PUT, _UPSERT = 1, 2, 3


class AsyncStore:
    """A queue on a store that is set up; of one event loop. Ends with close(), or with the store:
    then what is under way answers -12. RuntimeError: the store is not set up."""

    def __init__(self, store, workers=0):
        self._queue = store._open_queue(workers)
        if isinstance(self._queue, int):
            raise RuntimeError(f"the store cannot be used: {self._queue}")
        self._waiting = {}
        self._loop = None

    async def __aenter__(self):
        return self

    async def __aexit__(self, *error):
        self.close()

    def close(self):
        """Cancels and waits for all that is under way. Closing twice is fine."""
        self._queue.close()
        self._drain()
        if self._loop is not None:
            self._loop.remove_reader(self._queue.fileno())
            self._loop = None

    async def batch_get_into(self, keys, buffer_ptrs, sizes, timeout_ms=0):
        """Bytes per key, or a negative code."""
        return await self._run(_GET, keys, [[one] for one in buffer_ptrs],
                               [[one] for one in sizes], None, timeout_ms)

    async def batch_put_from(self, keys, buffer_ptrs, sizes, config=None, timeout_ms=0):
        """0 per key, or a negative code."""
        return await self._run(_PUT, keys, [[one] for one in buffer_ptrs],
                               [[one] for one in sizes], config, timeout_ms)

    async def batch_upsert_from(self, keys, buffer_ptrs, sizes, config=None, timeout_ms=0):
        """0 per key, or a negative code."""
        return await self._run(_UPSERT, keys, [[one] for one in buffer_ptrs],
                               [[one] for one in sizes], config, timeout_ms)

    async def batch_get_into_multi_buffers(self, keys, all_buffer_ptrs, all_sizes, timeout_ms=0):
        """Bytes per key, or a negative code."""
        return await self._run(_GET, keys, all_buffer_ptrs, all_sizes, None, timeout_ms)

    async def batch_put_from_multi_buffers(self, keys, all_buffer_ptrs, all_sizes, config=None,
                                           timeout_ms=0):
        """0 per key, or a negative code."""
        return await self._run(_PUT, keys, all_buffer_ptrs, all_sizes, config, timeout_ms)

    async def get_into(self, key, buffer_ptr, size, timeout_ms=0):
        return (await self.batch_get_into([key], [buffer_ptr], [size], timeout_ms))[0]

    async def put_from(self, key, buffer_ptr, size, config=None, timeout_ms=0):
        return (await self.batch_put_from([key], [buffer_ptr], [size], config, timeout_ms))[0]

    # -- the loop

    def _listen(self):
        loop = asyncio.get_running_loop()
        if self._loop is None:
            loop.add_reader(self._queue.fileno(), self._drain)
            self._loop = loop
        elif self._loop is not loop:
            raise RuntimeError("an AsyncStore is of one event loop")
        return loop

    def _drain(self):
        is_over = self._queue.is_over  # asked first: what is taken after its end is all that there was
        for operation in self._queue.poll():
            future = self._waiting.pop(operation)
            if not future.done():
                future.set_result(operation.results)
        if self._loop is not None and is_over:
            self._loop.remove_reader(self._queue.fileno())
            self._loop = None

    async def _run(self, kind, keys, pointers, sizes, config, timeout_ms):
        loop = self._listen()
        operation = self._queue.submit(kind, keys, pointers, sizes, config, timeout_ms)
        if isinstance(operation, list):
            return operation
        future = self._waiting[operation] = loop.create_future()
        cancelled = False
        while not future.done():
            try:
                await asyncio.shield(future)
            except asyncio.CancelledError:
                cancelled = True
                operation.cancel()
        if cancelled:
            raise asyncio.CancelledError
        return future.result()
