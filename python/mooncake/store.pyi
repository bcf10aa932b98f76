# SPDX-License-Identifier: Apache-2.0
from mckv.store import *
