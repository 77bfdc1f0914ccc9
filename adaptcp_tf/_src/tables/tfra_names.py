# SPDX-License-Identifier: Apache-2.0
"""How TFRA names the files of a table; docs/FORMAT.md has what is in them."""

from __future__ import annotations

import re

from adaptcp_tf._src.tables.group import PARAMETER

# As TFRA's Variable.save_to_file_system has it. Of a variable whose own name matches, TFRA drops all
# from there on; so do we, since TFRA looks for the files under such names.
_SHARD = re.compile(r"_mht_([^/]*)of([^/]*)")
_RESTRICT_POLICY_STATES = ("timestamp", "frequency")


def variable_name(group: str, table: str) -> str:
    """Returns what TFRA calls the variable of a table.

    Example:
        >>> variable_name("emb", "parameter"), variable_name("emb", "DynamicEmbedding/emb-shadow/m")
        ('emb', 'emb/DynamicEmbedding/emb-shadow/m')

    Args:
        group: the name of the table group.
        table: the name of the table in the group.
    """
    if table == PARAMETER:
        return group
    # Made in a variable scope, the state of a restrict policy does not begin with the group's name.
    if any(table.endswith(f"{group}/{state}") for state in _RESTRICT_POLICY_STATES):
        return table
    return f"{group}/{table}"


def file_prefix(variable: str) -> str:
    """Returns how the names of all files of a variable begin.

    Example:
        >>> file_prefix("emb/Adam/m")
        'emb_Adam_m_mht_'

    Args:
        variable: the name of the variable.
    """
    return _SHARD.sub("", f"{variable.replace('/', '_')}_mht_1of1") + "_mht_"


def file_stem(variable: str, shard: int, num_shards: int) -> str:
    """Returns the name of a shard's two files without `-keys` or `-values`.

    Example:
        >>> file_stem("emb", 0, 2)
        'emb_mht_1of2_rank0_size1'

    Args:
        variable: the name of the variable.
        shard: the shard, from 0.
        num_shards: how many there are.
    """
    return f"{file_prefix(variable)}{shard + 1}of{num_shards}_rank0_size1"
