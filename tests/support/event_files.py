# SPDX-License-Identifier: Apache-2.0
"""What TensorBoard was told of checkpoints, read back from its event files."""

import pytest
import tensorflow as tf

# Scalars of a checkpoint, and the field of its report that each has.
ALWAYS = {
    "adaptcp/stall_ms": "stall_ms",
    "adaptcp/room_wait_ms": "room_wait_ms",
    "adaptcp/seconds_to_durable": "seconds_to_durable",
    "adaptcp/rows/hot": "rows_hot",
    "adaptcp/rows/cold": "rows_cold",
    "adaptcp/rows/removed": "tombstones",
    "adaptcp/rows/saved_on_update": "rows_saved_on_update",
    "adaptcp/rows/drained": "rows_drained",
    "adaptcp/rows/prefetched": "rows_prefetched",
    "adaptcp/bytes/base": "bytes_base",
    "adaptcp/bytes/increment": "bytes_increment",
    "adaptcp/bytes/differential": "bytes_differential",
    "adaptcp/bytes/dense": "bytes_dense",
    "adaptcp/bytes/written": "bytes",
    "adaptcp/bytes/read_at_restore": "restore_bytes",
    "adaptcp/chain_length": "chain_length",
}
TIERS = {
    "adaptcp/tiers/buffer_bytes",
    "adaptcp/tiers/uploaded_bytes",
    "adaptcp/tiers/upload_retries",
}
UPLOADED = {"adaptcp/seconds_to_uploaded", "adaptcp/upload_lag_secs"}
RATES = "adaptcp/rows/update_rate"


def events(log_dir):
    """(step, tag) -> value or histogram, of every event."""
    found = {}
    for path in sorted(log_dir.glob("events.out.tfevents.*")):
        for record in tf.data.TFRecordDataset(str(path)):
            event = tf.compat.v1.Event.FromString(record.numpy())
            for value in event.summary.value:
                kind = value.WhichOneof("value")
                found[event.step, value.tag] = getattr(value, kind)
    return found


def check_agreement(found, history):
    """Each checkpoint of a history, dicts with the fields of `SaveReport`, is told as it was."""
    assert history
    for one in history:
        step = one["step"]
        tags = {tag for at, tag in found if at == step}
        assert tags >= {*ALWAYS, *TIERS, RATES}
        for tag, field in ALWAYS.items():
            assert found[step, tag] == pytest.approx(one[field]), (step, tag)
        uploaded = one["seconds_to_uploaded"]
        lag = None if uploaded is None else uploaded - one["seconds_to_durable"]
        for tag, value in (
            ("adaptcp/seconds_to_uploaded", uploaded),
            ("adaptcp/upload_lag_secs", lag),
            (
                "adaptcp/policy/threshold",
                one["hot_threshold"] if one["hot_threshold"] <= 1 else None,
            ),
            ("adaptcp/policy/rho", one["rho"]),
        ):
            assert (tag in tags) == (value is not None), (step, tag)
            if value is not None:
                assert found[step, tag] == pytest.approx(value, rel=1e-3, abs=1e-5), (step, tag)
        rates = found[step, RATES]
        assert rates.num == sum(rates.bucket) > 0
        assert 0 < rates.min <= rates.max <= 1
