# SPDX-License-Identifier: Apache-2.0
"""The arguments that the training examples have in common."""

from __future__ import annotations

import argparse


def parser(description: str, batch: int) -> argparse.ArgumentParser:
    """A parser of the common arguments, with `batch` as default batch size."""
    arguments = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument("--directory", required=True, help="where checkpoints are kept")
    arguments.add_argument("--epochs", type=int, default=3)
    arguments.add_argument("--batch", type=int, default=batch, help="samples per batch")
    arguments.add_argument("--samples", type=int, help="use the first samples only; default: all")
    arguments.add_argument("--save_freq", type=int, default=5, help="batches between checkpoints")
    arguments.add_argument("--strategy", default="adaptive", help="none: no checkpoints")
    arguments.add_argument(
        "--when_busy",
        default="skip",
        help="skip a checkpoint, or wait, while the previous one is being written",
    )
    arguments.add_argument("--digest_out", help="write a digest of the trained model to this file")
    return arguments
