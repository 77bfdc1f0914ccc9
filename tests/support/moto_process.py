# SPDX-License-Identifier: Apache-2.0
"""The process behind `s3_server`: moto's S3 on a free port of the loopback interface.

Prints the port. Notes each request that it answered in a file; leaves one unanswered or refuses all
when it finds files that say so, see `s3_server`. Ends when its standard input does, so that it
outlives nobody.
"""

import os
import re
import sys
import threading
from pathlib import Path

from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import WSGIRequestHandler, make_server


class QuietHandler(WSGIRequestHandler):
    """Says nothing of requests; `Observed` does."""

    def log_request(self, *unused):
        pass


class Observed:
    """The application, with a file of what was answered, and with trouble on demand."""

    def __init__(self, application, folder):
        self._application = application
        self._hold = folder / "hold"
        self._held = folder / "held"
        self._refuse = folder / "refuse"
        self._log = open(folder / "requests", "w", buffering=1)  # noqa: SIM115
        self._mutex = threading.Lock()

    def __call__(self, environ, start_response):
        request = f"{environ['REQUEST_METHOD']} {environ['PATH_INFO']}"
        if self._is_to_be_held(request):
            threading.Event().wait()
        if self._refuse.exists():
            start_response("503 Service Unavailable", [("Content-Length", "0")])
            return [b""]
        answer = self._application(environ, start_response)
        with self._mutex:
            self._log.write(f"{request}\n")
        return answer

    def _is_to_be_held(self, request):
        with self._mutex:
            if not self._hold.exists() or not re.search(self._hold.read_text(), request):
                return False
            self._hold.rename(self._held)
            return True


def main():
    application = Observed(DomainDispatcherApplication(create_backend_app), Path(sys.argv[1]))
    server = make_server("127.0.0.1", 0, application, threaded=True, request_handler=QuietHandler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(server.port, flush=True)
    sys.stdin.read()
    # Requests that are held never end.
    os._exit(0)


if __name__ == "__main__":
    main()
