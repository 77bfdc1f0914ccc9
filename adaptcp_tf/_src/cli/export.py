# SPDX-License-Identifier: Apache-2.0
"""`adaptcp export`: a checkpoint in the format of others."""

from __future__ import annotations

import argparse
import dataclasses
import json
from typing import Any

from adaptcp_tf._src.cli.arguments import add_directory, add_step, add_verb, reachable
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
    add_directory(parser)
    parser.add_argument("out", metavar="OUT", type=reachable, help="directory to make")
    add_step(parser, "the newest")
    parser.add_argument("--format", required=True, choices=sorted(_FORMATS))


def _run(args: argparse.Namespace) -> int:
    report = _FORMATS[args.format](args.directory, args.out, args.step)
    if args.json:
        print(json.dumps(dataclasses.asdict(report)))
        return 0
    print(
        f"step {report.step}: {report.rows} rows to {report.directory}: {report.files} files, "
        f"{report.bytes / 1e6:.1f} MB, {report.seconds:.1f} s"
    )
    if not report.exact:
        print("The checkpoint was quantised: rows are near what was trained, not the same.")
    return 0
