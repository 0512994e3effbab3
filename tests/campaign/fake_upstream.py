"""A tiny apiserver behind the fault proxy: it answers, counts what arrived, and sends what watches are given."""

from __future__ import annotations

import queue
import ssl
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType

from kscheduler.testing.controlplane.certificates import CertificateAuthority

ANSWER = b'{"kind":"Status","status":"Success"}'


class FakeUpstream:
    """Every request is answered 200 (a POST 201); a watch gets the lines put into the queue of its path."""

    def __init__(self, authority: CertificateAuthority) -> None:
        self.arrived: list[tuple[str, str]] = []  # method and path
        self.bodies: list[bytes] = []
        self.tokens: list[str] = []
        self._lines: dict[str, queue.SimpleQueue[bytes]] = {}
        self._lock = threading.Lock()
        pair = authority.server("upstream")
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(pair.public, pair.key)
        upstream = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def handle_one_request(self) -> None:
                try:
                    super().handle_one_request()
                except OSError:
                    self.close_connection = True

            def do_GET(self) -> None:
                if "watch=true" in self.path:
                    self._watch()
                else:
                    self._answer(200)

            def do_POST(self) -> None:
                self._answer(201)

            def log_message(self, format: str, *args: object) -> None:
                pass

            def _answer(self, status: int) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                upstream.arrived.append((self.command, self.path))
                upstream.bodies.append(body)
                upstream.tokens.append(self.headers.get("Authorization", ""))
                self.send_response(status)
                self.send_header("Content-Length", str(len(ANSWER)))
                self.end_headers()
                self.wfile.write(ANSWER)

            def _watch(self) -> None:
                upstream.arrived.append((self.command, self.path))
                self.send_response(200)
                self.send_header("Transfer-Encoding", "chunked")
                self.end_headers()
                lines = upstream.lines(self.path.partition("?")[0])
                while True:
                    line = lines.get()
                    self.wfile.write(b"%x\r\n%b\r\n" % (len(line), line))
                    if not line:
                        return

        class Server(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, request: object, client_address: object) -> None:
                pass

        self._server = Server(("127.0.0.1", 0), Handler)
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self.url = f"https://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)

    def __enter__(self) -> FakeUpstream:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def lines(self, path: str) -> queue.SimpleQueue[bytes]:
        """Where the lines of a watch are put; an empty one ends it."""
        with self._lock:
            return self._lines.setdefault(path, queue.SimpleQueue())
