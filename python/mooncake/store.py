# SPDX-License-Identifier: Apache-2.0
"""The names by which engines import the store; everything is mckv.store's."""
from mckv.store import *  # noqa: F401,F403
from mckv.store import __all__  # noqa: F401
