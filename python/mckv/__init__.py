# SPDX-License-Identifier: Apache-2.0
"""mckv: a KV cache store for LLM inference clusters, with exact events.

mckv.store     the store, with the calls that engines know
mckv.aio       the store for asyncio
mckv.config    how objects are to be stored
mckv.settings  a client's settings from a file or the environment
mckv.buffer_pool  registered memory, lent for a while
mckv.structured   objects of several named members
mckv.events       the event stream, and the session prefix index over it
mckv.row_driver   rows of registered memory, moved in the background
"""
