# SPDX-License-Identifier: Apache-2.0
"""Trains a functional Keras model on MovieLens-100k; may be killed at any time and started again.

Example:
  python examples/keras_movielens.py --directory /tmp/movielens --epochs 3 --save_freq 5
"""

from __future__ import annotations

import sys
from pathlib import Path

import command_line
import tensorflow as tf

import adaptcp_tf as acp

sys.path.append(str(Path(__file__).resolve().parents[1] / "benchmarks"))
from workloads import digest, models, movielens


def main() -> None:
    """Trains, continuing where a killed run left off."""
    args = command_line.parser(__doc__, batch=256).parse_args()
    ratings = movielens.load(args.samples)
    inputs = {"user": ratings.users, "item": ratings.items}
    dataset = tf.data.Dataset.from_tensor_slices((inputs, ratings.ratings)).batch(args.batch)
    model = models.movielens_model()

    if args.strategy == "none":
        model.fit(dataset, epochs=args.epochs, verbose=2)
    else:
        callback = acp.keras.AdaptiveCheckpoint(
            args.directory,
            save_freq=args.save_freq,
            strategy=args.strategy,
            when_busy=args.when_busy,
            max_to_keep=3,
        )
        model.fit(callback.resume(dataset), epochs=args.epochs, callbacks=[callback], verbose=2)
        callback.wait()

    if args.digest_out:
        digest.digest(model).write(args.digest_out)


if __name__ == "__main__":
    main()
