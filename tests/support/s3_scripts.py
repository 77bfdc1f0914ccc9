# SPDX-License-Identifier: Apache-2.0
"""What processes do that use `s3://`: `python -m tests.support.s3_scripts NAME ARGUMENTS_AS_JSON`.

They end without the interpreter's own end, in which tensorflow-io may abort.
"""

import contextlib
import io
import json
import os
import sys
import traceback
from pathlib import Path

import tensorflow_io  # noqa: F401, which registers s3://

import adaptcp_tf as acp
from adaptcp_tf import cli, errors
from adaptcp_tf._src.checkpoint import background
from adaptcp_tf._src.storage import files
from tests.support import models


def train(directory, out, batches, epochs, **options):
    """Trains with `fit` to the end, from the newest checkpoint; writes the model's digests.

    Args:
        directory: of the checkpoints.
        out: file for the digests.
        batches: of an epoch.
        epochs: how many.
        **options: of the callback.
    """
    # After every checkpoint, so that a kill during retention is one of a known step.
    background._RETENTION_RESTS_SECS = 0.0
    model = models.build()
    callback = acp.keras.AdaptiveCheckpoint(directory, when_busy="wait", **options)
    dataset = callback.resume(models.dataset(batches))
    model.fit(dataset, epochs=epochs, callbacks=[callback], verbose=0)
    callback.wait()
    callback.close()
    _write(out, models.parts(model))


def save_in_a_loop(directory, out, batches):
    """Trains in a loop of its own, saving twice; writes the digests at the second save."""
    model = models.build()
    manager = acp.CheckpointManager(directory, model=model)
    for step, batch in enumerate(models.dataset(batches), start=1):
        models.train(model, [batch])
        if step % (batches // 2) == 0:
            manager.save(step)
            manager.wait()
    manager.close()
    _write(out, models.parts(model))


def command_line(directory, out, commands):
    """Runs `adaptcp VERB DIRECTORY ...` for each of some commands; writes what they print as JSON."""
    printed = []
    for verb, *arguments in commands:
        with contextlib.redirect_stdout(io.StringIO()) as shown:
            status = cli.main([verb, directory, *arguments, "--json"])
        printed.append({"status": status, **json.loads(shown.getvalue())})
    _write(out, printed)


def restore(directory, out):
    """Restores into a fresh model; writes its digests."""
    model = models.build()
    manager = acp.CheckpointManager(directory, model=model)
    manager.restore()
    manager.close()
    _write(out, models.parts(model))


def ask(directory, out, paths):
    """Asks the store about paths below a directory; writes its answers, question by question."""
    questions = (files.exists, files.list_dir, files.size, files.read_bytes)
    _write(
        out,
        {
            question.__name__: [_outcome(question, files.join(directory, path)) for path in paths]
            for question in questions
        },
    )


def _outcome(question, path):
    try:
        return repr(question(path))
    except errors.AdaptCPError as error:
        return type(error).__name__


def _write(path, content):
    Path(path).write_text(json.dumps(content))


def main():
    name, arguments = sys.argv[1:]
    status = 1
    try:
        globals()[name](**json.loads(arguments))
        status = 0
    except BaseException:
        traceback.print_exc()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


if __name__ == "__main__":
    main()
