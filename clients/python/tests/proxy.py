"""A TCP proxy that drops answers and nothing else: requests always arrive."""

import random
import socket
import threading


class DropsAnswers:
    def __init__(self, url, seed, share):
        host, port = url.removeprefix("http://").split(":")
        self._server = (host, int(port))
        self._chance, self._share = random.Random(seed), share
        self._guard = threading.Lock()
        self.dropped = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client):
        server = socket.create_connection(self._server)
        threading.Thread(target=self._forward_requests, args=(client, server), daemon=True).start()
        try:
            while answer := server.recv(65536):
                with self._guard:
                    drop = self._chance.random() < self._share
                    self.dropped += drop
                if drop:
                    break
                client.sendall(answer)
        except OSError:
            pass
        finally:
            for side in (client, server):
                try:
                    side.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass

    def _forward_requests(self, client, server):
        try:
            while request := client.recv(65536):
                server.sendall(request)
        except OSError:
            pass
        finally:
            try:
                server.shutdown(socket.SHUT_WR)
            except OSError:
                pass

    def close(self):
        self._listener.close()
