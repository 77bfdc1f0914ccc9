# SPDX-License-Identifier: Apache-2.0
"""The command line: one module a verb, each with `add_parser`."""

from adaptcp_tf._src.cli.main import main

__all__ = ["main"]
