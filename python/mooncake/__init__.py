# SPDX-License-Identifier: Apache-2.0
"""The names by which engines import the store; everything is mckv's."""
from mckv.buffer_pool import BufferPool, RegisteredBufferPool

__all__ = ["BufferPool", "RegisteredBufferPool"]
