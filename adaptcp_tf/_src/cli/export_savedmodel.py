# SPDX-License-Identifier: Apache-2.0
"""`adaptcp export-savedmodel`: a SavedModel with the rows of a checkpoint."""

from __future__ import annotations

import argparse
import dataclasses
from typing import Any

from adaptcp_tf._src.cli import terminal
from adaptcp_tf._src.cli.arguments import add_export, add_verb, reachable
from adaptcp_tf._src.export import saved_model_from_template

_DESCRIPTION = """Copies a SavedModel to the new directory OUT, with the rows and dense variables of a
checkpoint in place of its own. Needs no code of the model.

Example:
  adaptcp export-savedmodel /data/run1 --step 1200 --template /models/ctr/1 /models/ctr/2
"""


def add_parser(verbs: Any) -> None:
    """Adds the verb to the command line."""
    parser = add_verb(
        verbs,
        "export-savedmodel",
        _run,
        summary="refresh a SavedModel from a checkpoint",
        text=_DESCRIPTION,
    )
    add_export(parser)
    parser.add_argument(
        "--template",
        required=True,
        metavar="SAVED_MODEL",
        type=reachable,
        help="SavedModel of the model",
    )


def _run(args: argparse.Namespace) -> int:
    with terminal.progress("exporting") as watch:
        report = saved_model_from_template(
            args.template, args.directory, args.step, export_dir=args.out, watch=watch
        )
    if args.json:
        terminal.print_json(dataclasses.asdict(report))
    else:
        terminal.say_exported(report)
    return 0
