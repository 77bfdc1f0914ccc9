# SPDX-License-Identifier: Apache-2.0
"""Trains a subclassed Keras model on a Criteo log; may be killed at any time and started again.

Example:
  python examples/keras_criteo.py --directory /tmp/criteo --epochs 3 --save_freq 5
"""

from __future__ import annotations

import sys
from pathlib import Path

import command_line
import tensorflow as tf

import adaptcp_tf as acp

sys.path.append(str(Path(__file__).resolve().parents[1] / "benchmarks"))
from workloads import criteo_file, digest, models


def main() -> None:
    """Trains, continuing where a killed run left off."""
    parser = command_line.parser(__doc__, batch=128)
    parser.add_argument("--data", help="a Criteo log; default: the sample in ADAPTCP_DATA")
    args = parser.parse_args()
    samples = criteo_file.read(args.data or criteo_file.locate(), args.samples)
    inputs = {"ids": samples.ids, "dense": samples.dense}
    dataset = tf.data.Dataset.from_tensor_slices((inputs, samples.labels)).batch(args.batch)
    model = models.criteo_model()

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
