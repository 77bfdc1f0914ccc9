# SPDX-License-Identifier: Apache-2.0
"""TFRA as it is, before our hooks are in it; the others get it from here."""

from __future__ import annotations

import contextlib
import sys

with contextlib.redirect_stdout(sys.stderr):
    # TFRA 0.8.1 prints a remark when it is imported; standard output belongs to the program.
    from tensorflow_recommenders_addons import dynamic_embedding as de

Table = de.CuckooHashTable

# What TFRA does by itself; `tfra_hooks` puts others in their places, which call these.
lookup = Table.lookup
insert = Table.insert
remove = Table.remove
accum = Table.accum
clear = Table.clear
load_from_file_system = Table.load_from_file_system
restore_saveable = Table._Saveable.restore
init_variable = de.Variable.__init__
