import threading
import time


class Thread(threading.Thread):
    """Keeps what the work returned or raised."""

    def __init__(self, work):
        super().__init__(daemon=True)
        self._work, self._result, self._error = work, None, None
        self.start()

    def run(self):
        try:
            self._result = self._work()
        except BaseException as error:
            self._error = error

    def result(self):
        self.join(30)
        assert not self.is_alive(), "it is still at work after 30 s"
        if self._error is not None:
            raise self._error
        return self._result


def until(condition, what):
    """Waits for a cause, not for a time."""
    limit = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < limit, f"waited 20 s for: {what}"
        time.sleep(0.01)
