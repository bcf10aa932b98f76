# SPDX-License-Identifier: Apache-2.0
"""The names by which users import structured objects; everything is mckv.structured's."""
from mckv.structured import *  # noqa: F401,F403
from mckv.structured import __all__  # noqa: F401
