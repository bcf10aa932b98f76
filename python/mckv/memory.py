# SPDX-License-Identifier: Apache-2.0
"""Memory of this process, for callers that want whole pages."""
from ._store import _host_alloc, _host_free


class MooncakeHostMemAllocator:
    """Memory that is there until it is given back, or to the end of the process: it outlives
    the allocator, so that tensors on it may. Pages are taken when they are touched."""

    def alloc(self, size):
        """The address of size bytes of zeros, page aligned; 0 if there are none."""
        return _host_alloc(size)

    def free(self, ptr):
        """0, or -600: no memory that alloc() gave begins there. Nobody may use it any more."""
        return _host_free(ptr)
