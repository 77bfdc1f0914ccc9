# SPDX-License-Identifier: Apache-2.0
"""An S3 object store on this machine, in a process of its own that no test kills by accident.

TensorFlow reaches it through tensorflow-io, whose S3 file system can abort the interpreter when it
ends. So only processes that a test starts use `s3://`, with `S3Server.environment`; the test itself
looks into the bucket with boto3.
"""

import contextlib
import subprocess
import sys

import boto3

from tests.support import processes

BUCKET = "checkpoints"
_REGION = "us-east-1"
_SECRET = "not-a-secret"


class S3Server:
    """A running server with one empty bucket.

    Args:
        folder: an empty folder for its files.
    """

    def __init__(self, folder):
        self._folder = folder
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.moto_process", folder],
            env=processes.ENVIRONMENT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        port = self._process.stdout.readline().strip()
        assert port, "the server did not start"
        self.endpoint = f"http://127.0.0.1:{port}"
        self.environment = {
            "AWS_ACCESS_KEY_ID": _SECRET,
            "AWS_SECRET_ACCESS_KEY": _SECRET,
            "AWS_REGION": _REGION,
            # Credentials and region are looked for nowhere else, least of all on the network.
            "AWS_EC2_METADATA_DISABLED": "true",
            "AWS_CONFIG_FILE": str(folder / "none"),
            "AWS_SHARED_CREDENTIALS_FILE": str(folder / "none"),
            "S3_ENDPOINT": self.endpoint,
            "S3_USE_HTTPS": "0",
            "S3_VERIFY_SSL": "0",
            # Otherwise each read of a few bytes asks for a part of five megabytes.
            "S3_DISABLE_MULTI_PART_DOWNLOAD": "1",
            # By default a request to a store that is down is repeated for 25 seconds.
            "AWS_RETRY_MODE": "standard",
            "AWS_MAX_ATTEMPTS": "2",
        }
        self.client = boto3.client(
            "s3",
            endpoint_url=self.endpoint,
            region_name=_REGION,
            aws_access_key_id=_SECRET,
            aws_secret_access_key=_SECRET,
        )
        self.client.create_bucket(Bucket=BUCKET)

    def url(self, directory):
        """What TensorFlow calls a directory of the bucket."""
        return f"s3://{BUCKET}/{directory}"

    def stop(self):
        """Ends it; whoever asks it from now on is refused."""
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()

    def objects(self, directory):
        """Name below the directory -> size, of every object there."""
        pages = self.client.get_paginator("list_objects_v2").paginate(
            Bucket=BUCKET, Prefix=f"{directory}/"
        )
        return {
            entry["Key"][len(directory) + 1 :]: entry["Size"]
            for page in pages
            for entry in page.get("Contents", [])
        }

    def read(self, directory, name):
        """The bytes of an object."""
        answer = self.client.get_object(Bucket=BUCKET, Key=f"{directory}/{name}")
        return answer["Body"].read()

    def requests(self):
        """What it answered so far, as "PUT /bucket/key"."""
        return (self._folder / "requests").read_text().splitlines()

    def hold(self, pattern):
        """Leaves the next request that matches unanswered for ever, and without effect."""
        with contextlib.suppress(FileNotFoundError):
            (self._folder / "held").unlink()
        (self._folder / "hold.new").write_text(pattern)
        (self._folder / "hold.new").rename(self._folder / "hold")

    def holds(self):
        """Whether a request waits since `hold`."""
        return (self._folder / "held").exists()

    @contextlib.contextmanager
    def unavailable(self):
        """Meanwhile it answers every request with 503."""
        refuse = self._folder / "refuse"
        refuse.touch()
        try:
            yield
        finally:
            refuse.unlink()


@contextlib.contextmanager
def s3_server(folder):
    """Starts a server, and stops it in the end.

    Args:
        folder: where it keeps its files; made here.
    """
    folder.mkdir()
    server = S3Server(folder)
    try:
        yield server
    finally:
        server.stop()
