"""doclock's sockets through Python's `websockets`, which knows nothing of doclock.

SERVER_URL, EDITOR_TOKEN and ADMIN_TOKEN are a running server and tokens for it.
"""

import json
import os
import sys
import traceback
import urllib.request
import uuid

from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

URL = os.environ["SERVER_URL"]
SOCKET = URL.replace("http://", "ws://") + "/ws"
EDITOR = os.environ["EDITOR_TOKEN"]
ADMIN = os.environ["ADMIN_TOKEN"]
SECONDS = 20


def call(method, path, token=EDITOR):
    request = urllib.request.Request(URL + path, method=method, headers={"Authorization": f"Bearer {token}"})
    with urllib.request.urlopen(request, timeout=SECONDS) as answer:
        return json.load(answer)


class Room:
    """Of this test alone."""

    def __init__(self):
        self.name = f"python-{uuid.uuid4()}"

    def lock(self):
        call("POST", f"/api/documents/{self.name}/lock")

    def unlock(self):
        call("DELETE", f"/api/documents/{self.name}/lock")

    def log(self):
        events = call("GET", f"/api/admin/events?room={self.name}", ADMIN)["items"]
        return [(event["sequence"], event["type"]) for event in events]


def by_header(token):
    return connect(SOCKET, additional_headers={"Authorization": f"Bearer {token}"})


def by_subprotocol(token):
    return connect(SOCKET, subprotocols=["doclock.v1", f"bearer.{token}"])


def hear(socket):
    while True:
        message = json.loads(socket.recv(timeout=SECONDS))
        if not message["type"].startswith("Participant"):
            return message


def subscribe(socket, room, after=None):
    message = {"type": "subscribe", "room": room.name} | ({"after": after} if after else {})
    socket.send(json.dumps(message))
    told = hear(socket)
    assert told["type"] == "subscribed" and not told["more"], told
    return told


def hears_a_room(socket):
    room = Room()
    assert hear(socket)["type"] == "welcome"
    assert subscribe(socket, room)["locks"] == []
    room.lock()
    room.unlock()
    heard = [(message["sequence"], message["type"]) for message in (hear(socket), hear(socket))]
    assert [kind for _, kind in heard] == ["DocumentLocked", "DocumentUnlocked"], heard
    assert heard == room.log(), (heard, room.log())


def a_token_by_header_hears_a_room():
    with by_header(EDITOR) as socket:
        hears_a_room(socket)


def a_token_by_subprotocol_hears_a_room():
    with by_subprotocol(EDITOR) as socket:
        assert socket.subprotocol == "doclock.v1", socket.subprotocol
        hears_a_room(socket)


def who_comes_back_with_after_gets_what_it_missed():
    room = Room()
    with by_header(EDITOR) as socket:
        hear(socket)
        told = subscribe(socket, room)
    room.lock()
    room.unlock()
    with by_header(EDITOR) as socket:
        hear(socket)
        again = subscribe(socket, room, {"epoch": told["epoch"], "sequence": told["sequence"]})
        assert again["recovered"], again
        assert [(event["sequence"], event["type"]) for event in again["events"]] == room.log(), again
        room.lock()
        assert (hear(socket)["sequence"], "DocumentLocked") == room.log()[-1]


def a_bad_token_is_closed_4401():
    for way_in in (by_header, by_subprotocol):
        with way_in("nonsense") as socket:
            try:
                raise AssertionError(socket.recv(timeout=SECONDS))
            except ConnectionClosed as closed:
                assert closed.rcvd.code == 4401 and closed.rcvd.reason == "TOKEN_INVALID", closed


def a_foreign_origin_is_refused():
    try:
        connect(SOCKET, origin="https://evil.example", additional_headers={"Authorization": f"Bearer {EDITOR}"})
        raise AssertionError("it is let in")
    except InvalidStatus as refused:
        assert refused.response.status_code == 403, refused


def main():
    tests = [
        a_token_by_header_hears_a_room,
        a_token_by_subprotocol_hears_a_room,
        who_comes_back_with_after_gets_what_it_missed,
        a_bad_token_is_closed_4401,
        a_foreign_origin_is_refused,
    ]
    failed = 0
    for test in tests:
        try:
            test()
            print(f"ok      {test.__name__}")
        except Exception:
            failed += 1
            print(f"FAILED  {test.__name__}\n{traceback.format_exc()}")
    print(f"{len(tests) - failed} passed, {failed} failed")
    sys.exit(failed > 0)


main()
