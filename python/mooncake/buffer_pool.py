# SPDX-License-Identifier: Apache-2.0
"""The names by which users import buffer pools; everything is mckv.buffer_pool's."""
from mckv.buffer_pool import *  # noqa: F401,F403
from mckv.buffer_pool import __all__  # noqa: F401
