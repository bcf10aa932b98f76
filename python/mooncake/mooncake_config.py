# SPDX-License-Identifier: Apache-2.0
"""The name by which launchers import their settings; it is mckv.settings'."""
from mckv.settings import *  # noqa: F401,F403
from mckv.settings import __all__  # noqa: F401
