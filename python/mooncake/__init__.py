# SPDX-License-Identifier: Apache-2.0
"""The names by which engines import the store; everything is mckv's."""
