"""How a lock is waited for: in the server's line, and by seed 002's table of pauses where there is none."""

import asyncio
import itertools
import json
import random

import httpx
import pytest
from helpers import Thread, until

from doclock import LockManager, LockTimeout, ServerBackend, Unauthorized
from doclock.repeating import delays
from doclock.testing import FakeLocks


class Script:
    """A server that answers what it is told to, on a clock that moves when it is slept on."""

    def __init__(self, *answers, seconds_per_wait=0.0):
        self.now, self.slept, self.bodies = 1000.0, [], []
        self._answers = iter(answers)
        self._seconds = seconds_per_wait

    def manager(self, **options):
        transport = httpx.MockTransport(self._answer)
        backend = ServerBackend("http://doclock.test", "token", clock=ScriptClock(self), transport=lambda: transport)
        return LockManager("job", backend=backend, **options)

    async def _answer(self, request):
        self.bodies.append((request.method, json.loads(request.content)))
        if request.method == "POST":
            self.now += self._seconds
        answer = next(self._answers)
        if isinstance(answer, Exception):
            raise answer
        status, body = answer
        return httpx.Response(status, json=body)


class ScriptClock:
    """Jumps over the pauses of who waits for the lock. Limits of requests and heartbeats never come."""

    def __init__(self, script):
        self._script = script

    def now(self):
        return self._script.now

    async def sleep_until(self, moment):
        if asyncio.current_task().get_coro().__name__ in ("sleep_until", "_renew"):
            await asyncio.Event().wait()
        self._script.slept.append(round(moment - self._script.now, 6))
        self._script.now = max(self._script.now, moment)


HELD = (409, {"code": "LOCK_HELD", "detail": "Alice holds it.", "retryable": True})
NO_WAIT = (422, {"code": "UNKNOWN_FIELD", "field": "wait_ms", "detail": "`wait_ms` is not known.", "retryable": False})
GRANTED = (200, {"lease_id": "l", "fencing_token": 7, "ttl_seconds": 30, "expires_in_ms": 30000})
RELEASED = (200, {"released": True, "fencing_token": 7})


def test_seed_002_table_of_waits():
    first, second, third = itertools.islice(delays(1, 30, lambda low, high: low), 3)
    assert (first, second, third) == (0.5, 0.75, 1.125)
    first, second, third = itertools.islice(delays(1, 30, lambda low, high: high), 3)
    assert (first, second, third) == (1.5, 2.25, 3.375)
    far = list(itertools.islice(delays(1, 30, lambda low, high: low), 20))
    assert far[-1] == 15.0, "the delay stops growing at max_delay"
    assert max(itertools.islice(delays(1, 30, lambda low, high: high), 20)) == 30, "no pause is longer than max_delay"


def test_pauses_of_a_seeded_source_are_those_of_seed_002():
    source, expected, delay = random.Random(2), [], 1.0
    for _ in range(12):
        expected.append(min(delay * source.uniform(0.5, 1.5), 30.0))
        delay = min(delay * 1.5, 30.0)
    assert list(itertools.islice(delays(1.0, 30.0, random.Random(2).uniform), 12)) == expected


def test_a_server_without_a_line_is_polled_with_those_pauses():
    script = Script(NO_WAIT, HELD, HELD, HELD, GRANTED, RELEASED)
    manager = script.manager(uniform=random.Random(2).uniform)
    held = manager.await_lock(timeout=600, initial_delay=1, max_delay=30)
    pauses = [round(pause, 6) for pause in itertools.islice(delays(1, 30, random.Random(2).uniform), 3)]
    assert [pause for pause in script.slept if pause > 0][:3] == pauses
    held.release()
    posts = [body for method, body in script.bodies if method == "POST"]
    assert "wait_ms" in posts[0] and all("wait_ms" not in body for body in posts[1:])
    assert len({body["request_id"] for body in posts[1:]}) == 1


def test_a_server_that_refuses_sooner_than_asked_is_polled_with_those_pauses():
    script = Script(HELD, HELD, GRANTED, RELEASED)
    manager = script.manager(uniform=lambda low, high: 1.0)
    manager.await_lock(timeout=600, initial_delay=1, max_delay=30).release()
    assert [pause for pause in script.slept if pause > 0][:2] == [1.0, 1.5]


def test_in_line_the_same_request_is_sent_again_at_once():
    script = Script(HELD, HELD, GRANTED, GRANTED, RELEASED, seconds_per_wait=55)
    script.manager().await_lock(timeout=600).release()
    posts = [body for method, body in script.bodies if method == "POST"]
    assert len(posts) == 3
    assert all(body == posts[0] for body in posts), "its place in line hangs on request_id and session_id"
    assert posts[0]["wait_ms"] == 55000
    assert not [pause for pause in script.slept if pause > 0]


def test_a_grant_that_came_after_a_long_wait_is_extended_before_it_is_used():
    script = Script(GRANTED, GRANTED, RELEASED, seconds_per_wait=50)
    manager = script.manager()
    held = manager.await_lock(timeout=600)
    held.ensure_held()
    assert [method for method, _ in script.bodies] == ["POST", "PUT"]
    held.release()


def test_a_grant_that_cannot_be_extended_is_given_up():
    refused = (401, {"code": "TOKEN_EXPIRED", "detail": "The token has expired.", "retryable": False})
    script = Script(GRANTED, refused, RELEASED, seconds_per_wait=50)
    with pytest.raises(Unauthorized):
        script.manager().await_lock(timeout=600)
    assert [method for method, _ in script.bodies] == ["POST", "PUT", "DELETE"]


def test_no_answer_and_503_are_repeated_with_the_same_request_id():
    unknown = (503, {"code": "OUTCOME_UNKNOWN", "detail": "…", "retryable": True})
    script = Script(httpx.ReadError("cut"), unknown, (502, {}), GRANTED, RELEASED)
    script.manager().await_lock(timeout=60).release()
    posts = [body for method, body in script.bodies if method == "POST"]
    assert len(posts) == 4 and all(body == posts[0] for body in posts)


def test_retry_after_is_respected():
    limited = (429, {"code": "RATE_LIMITED", "detail": "…", "retryable": True, "retry_after_ms": 7000})
    script = Script(limited, GRANTED, RELEASED)
    script.manager().await_lock(timeout=60).release()
    assert 7.0 in script.slept


def test_a_token_that_is_refused_is_not_tried_again():
    script = Script((401, {"code": "TOKEN_EXPIRED", "detail": "The token has expired.", "retryable": False}))
    with pytest.raises(Unauthorized) as caught:
        script.manager().await_lock(timeout=600)
    assert caught.value.code == "TOKEN_EXPIRED" and len(script.bodies) == 1


def test_a_grant_that_ended_unheard_is_asked_for_anew():
    expired = (409, {"code": "LEASE_EXPIRED", "detail": "…", "retryable": False})
    script = Script(httpx.ReadError("cut"), expired, GRANTED, RELEASED)
    script.manager().await_lock(timeout=60).release()
    posts = [body for method, body in script.bodies if method == "POST"]
    assert posts[0]["request_id"] == posts[1]["request_id"] != posts[2]["request_id"]


def test_time_up_after_a_refusal_sends_no_unlock():
    script = Script(*[NO_WAIT] + [HELD] * 100)
    with pytest.raises(LockTimeout):
        script.manager().await_lock(timeout=60)
    assert {method for method, _ in script.bodies} == {"POST"}


def test_a_refusal_settles_the_doubt_of_an_answer_that_was_lost_before():
    script = Script(NO_WAIT, httpx.ReadError("cut"), *[HELD] * 100)
    with pytest.raises(LockTimeout):
        script.manager().await_lock(timeout=60)
    assert {method for method, _ in script.bodies} == {"POST"}


def test_time_up_without_an_answer_unlocks_only_the_session_of_that_attempt():
    script = Script(NO_WAIT, *[httpx.ReadError("cut")] * 30, *[RELEASED] * 5)
    with pytest.raises(LockTimeout) as caught:
        script.manager().await_lock(timeout=20, initial_delay=1, max_delay=2)
    assert "did not answer" in str(caught.value)
    until(lambda: script.bodies[-1][0] == "DELETE", "the unlock of what may have been granted")
    unlock, posts = script.bodies[-1][1], [body for method, body in script.bodies if method == "POST"]
    assert unlock["session_id"] == posts[-1]["session_id"] and "lease_id" not in unlock


def test_the_line_is_first_come_first_served():
    locks = FakeLocks()
    first = LockManager("job", backend=locks).await_lock()
    order, threads = [], []
    for number in range(5):

        def work(number=number):
            with LockManager("job", backend=locks).lock(timeout=600):
                order.append(number)

        threads.append(Thread(work))
        until(lambda: locks.waiting("job") == len(threads), "the next one in line")
    first.release()
    for thread in threads:
        thread.result()
    assert order == [0, 1, 2, 3, 4]


def test_a_waiter_goes_on_when_the_holders_ttl_is_over_and_not_before():
    locks = FakeLocks()
    held = LockManager("job", backend=locks, ttl=30).await_lock()
    waiting = Thread(lambda: LockManager("job", backend=locks).await_lock(timeout=600))
    until(lambda: locks.waiting("job") == 1, "the waiter in line")
    # A holder that died: nobody renews it.
    held._lease._renewing.get_loop().call_soon_threadsafe(held._lease._renewing.cancel)
    locks.clock.advance(29.9)
    assert locks.held("job") == [1]
    locks.clock.advance(0.2)
    assert waiting.result().fencing_token == 2
    assert held.lost.is_set()


def test_a_waiter_that_waits_longer_than_one_poll_keeps_its_place():
    locks = FakeLocks()
    held = LockManager("job", backend=locks).await_lock()
    early = Thread(lambda: LockManager("job", backend=locks).await_lock(timeout=600))
    until(lambda: locks.waiting("job") == 1, "the first in line")
    locks.clock.advance(30)
    late = Thread(lambda: LockManager("job", backend=locks).await_lock(timeout=600))
    until(lambda: locks.waiting("job") == 2, "the second in line")
    locks.clock.advance(40)  # past the end of the first one's poll, which it repeats
    held.release()
    assert early.result().fencing_token == 2
    locks.clock.settle()
    assert late.is_alive()
    early.result().release()
    assert late.result().fencing_token == 3


def test_a_waiter_whose_time_is_up_leaves_the_line():
    locks = FakeLocks()
    with LockManager("job", backend=locks).lock():
        waiting = Thread(lambda: LockManager("job", backend=locks).await_lock(timeout=20))
        until(lambda: locks.waiting("job") == 1, "the waiter in line")
        locks.clock.advance(20.1)
        with pytest.raises(LockTimeout):
            waiting.result()
        assert locks.waiting("job") == 0
