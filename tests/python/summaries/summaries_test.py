# SPDX-License-Identifier: Apache-2.0
"""What TensorBoard gets: read back from the event files, and asked of TensorBoard itself."""

import contextlib
import dataclasses
import json
import shutil
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request

import numpy as np
import pytest
import tensorflow as tf
from matplotlib import image

import adaptcp_tf as acp
from adaptcp_tf._src.policy import RateHistogram
from adaptcp_tf._src.reports import SaveReport, StorageStats
from adaptcp_tf._src.summaries import log
from adaptcp_tf._src.summaries.scalars import rates_histogram
from tests.support import checkpoints, faults, models, processes, tables, two_tiers
from tests.support.event_files import ALWAYS, RATES, TIERS, UPLOADED, check_agreement, events

BROWSER = shutil.which("chromium")


def test_callback_writes_each_checkpoint(tmp_path):
    model = models.build("functional")
    callback = acp.keras.AdaptiveCheckpoint(
        str(tmp_path / "run"), save_freq=3, when_busy="wait", log_dir=str(tmp_path / "logs")
    )
    model.fit(callback.resume(models.dataset(9)), epochs=1, callbacks=[callback], verbose=0)
    callback.close()
    found = events(tmp_path / "logs")
    history = callback.history
    assert [one["step"] for one in history] == [3, 6, 9]
    check_agreement(found, history)
    assert found[3, "adaptcp/policy/threshold"] == pytest.approx(history[0]["hot_threshold"])
    assert found[9, "adaptcp/policy/rho"] > 0, "solved by then"


def test_upload_is_written_when_it_is_over(tmp_path):
    with two_tiers.running(tmp_path) as run:
        manager = run.manage(log_dir=str(tmp_path / "logs"))
        run.save(manager, 1)
        manager.wait()
        manager.close()
        (report,) = manager.reports
    found = events(tmp_path / "logs")
    lag = report.seconds_to_uploaded - report.seconds_to_durable
    assert found[1, "adaptcp/upload_lag_secs"] == pytest.approx(lag, rel=1e-3, abs=1e-6)
    assert found[1, "adaptcp/tiers/uploaded_bytes"] >= report.bytes


def test_no_log_dir_writes_nothing(tmp_path):
    checkpoints.chain(tmp_path)
    assert not list(tmp_path.rglob("events.out*"))


def test_threshold_of_cold_rows_is_left_out(tmp_path):
    checkpoints.chain(tmp_path / "run", log_dir=str(tmp_path / "logs"))
    tags = {tag for _, tag in events(tmp_path / "logs")}
    assert "adaptcp/policy/threshold" not in tags and "adaptcp/policy/rho" not in tags


def test_histogram_has_the_rows_at_their_rates():
    rates = RateHistogram(np.array([4.0, 0.0, 5.0, 1.0]), np.array([0.1, 0.0, 0.5, 0.9]))
    histogram = rates_histogram(rates)
    assert list(histogram.bucket) == [4, 5, 1]
    assert list(histogram.bucket_limit) == pytest.approx([0.3, 0.7, 1.0])
    assert (histogram.num, histogram.min, histogram.max) == (10, 0.1, 0.9)
    assert histogram.sum == pytest.approx(3.8)
    assert rates_histogram(RateHistogram(np.zeros(1), np.zeros(1))).num == 0


def test_nothing_is_written_on_the_thread_that_trains(tmp_path, monkeypatch):
    threads = set()
    write = log.SummaryLog._write

    def noted(self, *arguments):
        threads.add(threading.current_thread())
        write(self, *arguments)

    monkeypatch.setattr(log.SummaryLog, "_write", noted)
    checkpoints.chain(tmp_path / "run", log_dir=str(tmp_path / "logs"))
    assert threads and threading.current_thread() not in threads


def test_unwritable_log_harms_no_checkpoint(tmp_path, caplog):
    (tmp_path / "logs").write_text("a file")
    with checkpoints.training(tmp_path / "run", log_dir=str(tmp_path / "logs")) as (manager, _, _):
        checkpoints.save(manager, 1)
        checkpoints.save(manager, 2)
        assert manager.all_steps() == [1, 2]
    assert len([r for r in caplog.records if "TensorBoard" in r.getMessage()]) == 1


def report_of(step):
    """A report of which only the step matters."""
    values = {field.name: 1 for field in dataclasses.fields(SaveReport)}
    return SaveReport(**{**values, "step": step})


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_log_goes_on_after_a_write_that_failed(tmp_path):
    summaries = log.SummaryLog(str(tmp_path), lambda: StorageStats(1, 1))
    rates = RateHistogram(np.ones(1), np.ones(1))
    summaries.saved(report_of(1), lambda: rates)
    (path,) = tmp_path.iterdir()
    with faults.file_size_limit(path.stat().st_size), pytest.raises(IndexError):
        summaries.saved(report_of(2), lambda: rates)
    summaries.saved(report_of(3), lambda: rates)
    summaries.close()
    found = set()
    for path in tmp_path.iterdir():
        with contextlib.suppress(tf.errors.DataLossError):  # the record that was cut
            for event in tf.compat.v1.train.summary_iterator(str(path)):
                found.add(event.step)
    assert {1, 3} <= found


@pytest.mark.parametrize("remote", [False, True])
def test_only_a_local_log_is_flushed_at_each_checkpoint(tmp_path, monkeypatch, remote):
    two_tiers.slow_store.configure()
    flushed = []
    flush = tf.compat.v1.summary.FileWriter.flush

    def noted(self):
        flushed.append(self)
        flush(self)

    monkeypatch.setattr(tf.compat.v1.summary.FileWriter, "flush", noted)
    directory = two_tiers.slow_store.url(tmp_path) if remote else str(tmp_path)
    summaries = log.SummaryLog(directory, lambda: StorageStats(1, 1))
    for step in (1, 2):
        summaries.uploaded(report_of(step))
    assert len(flushed) == (0 if remote else 2)
    summaries.close()
    assert {step for step, _ in events(tmp_path)} >= {1, 2}


TF1_LOOP = """
import sys
import tensorflow as tf
tf.compat.v1.disable_eager_execution()
from adaptcp_tf._src.policy import RateHistogram
from adaptcp_tf._src.reports import SaveReport, StorageStats
from adaptcp_tf._src.summaries import SummaryLog
import dataclasses, numpy as np
values = {f.name: 1 for f in dataclasses.fields(SaveReport)}
log = SummaryLog(sys.argv[1], lambda: StorageStats(1, 1))
log.saved(SaveReport(**values), lambda: RateHistogram(np.ones(1), np.ones(1)))
log.close()
"""


def test_program_without_eager_execution_writes_too(tmp_path):
    command = [sys.executable, "-c", TF1_LOOP, str(tmp_path)]
    subprocess.run(command, env=processes.ENVIRONMENT, check=True)
    assert events(tmp_path)[1, "adaptcp/stall_ms"] == 1


@contextlib.contextmanager
def tensorboard(log_dir):
    """Yields the address of a running TensorBoard."""
    command = [sys.executable, "-m", "tensorboard.main", "--logdir", str(log_dir)]
    command += ["--host", "127.0.0.1", "--port", "0", "--load_fast", "false"]
    process = subprocess.Popen(
        command, env=processes.ENVIRONMENT, stderr=subprocess.PIPE, text=True
    )
    address = None
    for line in process.stderr:
        if "http://" in line:
            address = line[line.index("http://") :].split()[0].rstrip("/")
            break
    assert address, "TensorBoard did not start"
    threading.Thread(target=process.stderr.read, daemon=True).start()

    try:
        yield address
    finally:
        process.terminate()
        process.wait()


def browse(address, profile, option):
    """Opens a page in a browser without a window; returns what it prints."""
    command = [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--window-size=1500,1500"]
    command += [f"--user-data-dir={profile}", "--virtual-time-budget=30000", option, address]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    return done.stdout


def eventually(holds):
    """Waits until something holds; it must within two minutes."""
    deadline = time.monotonic() + 120
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.2)


def test_tensorboard_shows_them(tmp_path):
    with checkpoints.training(
        tmp_path / "run", strategy="adaptive", log_dir=str(tmp_path / "logs")
    ) as (manager, users, _):
        for step in (10, 20, 30):
            tables.fill(users, range(step), seed=step)
            checkpoints.save(manager, step)
    with tensorboard(tmp_path / "logs") as address:

        def ask(path):
            with urllib.request.urlopen(f"{address}/{path}", timeout=30) as answer:
                return json.load(answer)

        # TensorBoard loads a log bit by bit, and shows what it has.
        def loaded():
            with contextlib.suppress(urllib.error.URLError):
                bins = ask(
                    f"data/plugin/histograms/histograms?run=.&tag={RATES.replace('/', '%2F')}"
                )
                return [step for _, step, _ in bins] == [10, 20, 30]

        eventually(loaded)
        tags = ask("data/plugin/scalars/tags")["."]
        assert set(tags) >= {*ALWAYS, *TIERS, *UPLOADED, "adaptcp/policy/threshold"}
        points = ask("data/plugin/scalars/scalars?run=.&tag=adaptcp%2Fbytes%2Fwritten")
        written = [report.bytes for report in manager.reports]
        assert [(step, value) for _, step, value in points] == list(zip((10, 20, 30), written))
        assert RATES in ask("data/plugin/histograms/tags")["."]
        if BROWSER is not None:  # .ci/system_packages installs it where the system has one
            picture = tmp_path / "tensorboard.png"
            page = f"{address}/?tagFilter=stall|threshold|update_rate#timeseries"
            shown = ("adaptcp/stall_ms", "adaptcp/policy/threshold", RATES)

            def drawn():  # which takes a busy machine longer than the browser may wait
                html = browse(page, tmp_path / "profile", "--dump-dom")
                return all(tag in html for tag in shown)

            eventually(drawn)
            browse(page, tmp_path / "profile", f"--screenshot={picture}")
            pixels = image.imread(picture)
            assert pixels.shape[:2] == (1500, 1500)
            assert len(np.unique(pixels.reshape(-1, pixels.shape[2])[::97], axis=0)) > 20
