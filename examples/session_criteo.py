# SPDX-License-Identifier: Apache-2.0
"""Trains the click model of estimator_criteo.py in a MonitoredTrainingSession; may be killed.

TensorFlow 2.16 has no Estimators any more; this runs under every TensorFlow that is supported.

Example:
  python examples/session_criteo.py --directory /tmp/criteo --epochs 3 --save_freq 5
"""

from __future__ import annotations

import sys
from pathlib import Path

import tensorflow as tf

import adaptcp_tf as acp  # before TFRA, which would choose Keras 3 where there is one

sys.path.append(str(Path(__file__).resolve().parents[1] / "benchmarks"))
import estimator_criteo
from workloads import criteo_file, digest


def main() -> None:
    """Trains to the end of the input, continuing where a killed run left off."""
    args = estimator_criteo.parser(__doc__).parse_args()
    samples = criteo_file.read(args.data or criteo_file.locate(), args.samples)
    hooks = [digest.SessionDigest(args.digest_out)] if args.digest_out else []
    checkpoint_dir = None
    with tf.Graph().as_default():
        batches = estimator_criteo.batched(samples, args.batch).repeat(args.epochs)
        if args.strategy != "none":
            hook = acp.estimator.AdaptiveCheckpointHook(
                args.directory,
                save_steps=args.save_freq,
                strategy=args.strategy,
                when_busy=args.when_busy,
                max_to_keep=3,
            )
            hooks.insert(0, hook)
            batches = hook.resume(batches)
            # TensorFlow's own checkpoints, of the same steps, with all but the tables.
            checkpoint_dir = f"{args.directory}/session"
        features, labels = tf.compat.v1.data.make_one_shot_iterator(batches).get_next()
        logits, trained_rows = estimator_criteo.click_logits(features)
        loss = estimator_criteo.click_loss(logits, labels)
        step = estimator_criteo.adam_step(loss, trained_rows)
        with tf.compat.v1.train.MonitoredTrainingSession(
            checkpoint_dir=checkpoint_dir,
            hooks=hooks,
            save_checkpoint_secs=None,  # the hook writes them
            save_summaries_steps=None,
        ) as session:
            while not session.should_stop():
                session.run(step)


if __name__ == "__main__":
    main()
