"""A web server on this machine that can cut a transfer."""

import gc
import threading
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest


@dataclass
class Web:
    """The served files by path, the number of bytes after which a transfer is cut, and the paths requested so far."""

    address: str = ""
    files: dict[str, bytes] = field(default_factory=dict)
    cut_after: int | None = None
    asked: list[str] = field(default_factory=list)


def handler_for(web: Web) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            web.asked.append(self.path)
            payload = web.files.get(self.path)
            if payload is None:
                self.send_error(404)
                return
            self.send_response(200)
            self.send_header("Content-Length", str(len(payload)))
            self.end_headers()
            self.wfile.write(payload[: web.cut_after])

        def log_message(self, format: str, *args: object) -> None: ...

    return Handler


@pytest.fixture
def web() -> Iterator[Web]:
    web = Web()
    with ThreadingHTTPServer(("127.0.0.1", 0), handler_for(web)) as server:
        web.address = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield web
        server.shutdown()
        thread.join()
    with warnings.catch_warnings():  # pooch leaves the connection of a refused request to the garbage collector
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()
