# SPDX-License-Identifier: Apache-2.0
"""`adaptcp export`: a checkpoint in the format of others."""

from __future__ import annotations

import argparse
import dataclasses
from typing import Any

from adaptcp_tf._src.cli import terminal
from adaptcp_tf._src.cli.arguments import add_export, add_verb
from adaptcp_tf._src.export import npz_files, parquet_files, tfra_files

_FORMATS = {"npz": npz_files, "parquet": parquet_files, "tfra": tfra_files}

_DESCRIPTION = """Writes the rows and slots of a checkpoint to the new directory OUT, without the model.

tfra:    TFRA's own -keys and -values files, which its Variable.load_from_file_system reads.
npz:     files for NumPy, with the arrays keys and values.
parquet: files for pandas, Spark and the like, with the columns key and values; needs pyarrow.
adaptcp-export.json in OUT says which file is of which table.

Example:
  adaptcp export /data/run1 --step 1200 --format tfra /data/for_tfra
"""


def add_parser(verbs: Any) -> None:
    """Adds the verb to the command line."""
    parser = add_verb(
        verbs,
        "export",
        _run,
        summary="write a checkpoint in the format of others",
        text=_DESCRIPTION,
    )
    add_export(parser)
    parser.add_argument("--format", required=True, choices=sorted(_FORMATS))


def _run(args: argparse.Namespace) -> int:
    with terminal.progress("exporting") as watch:
        report = _FORMATS[args.format](args.directory, args.out, args.step, watch=watch)
    if args.json:
        terminal.print_json(dataclasses.asdict(report))
    else:
        terminal.say_exported(report, f"{terminal.number(report.files)} files, ")
    return 0
