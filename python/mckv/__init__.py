# SPDX-License-Identifier: Apache-2.0
"""mckv: a KV cache store for LLM inference clusters, with exact events.

mckv.store     the store, with the calls that engines know
mckv.config    how objects are to be stored
"""
