"""Heartbeats, deadlines and loss, on a clock that the test moves."""

import asyncio
import threading
import time

import pytest
from helpers import Thread, until

from doclock import AsyncLockManager, DoclockError, LockLost, LockManager, LockTimeout, Refused
from doclock.clock import SystemClock
from doclock.testing import FakeClock, FakeLocks, fake_locks


@pytest.fixture
def locks():
    return FakeLocks()


@pytest.fixture
def manager(locks):
    return LockManager("job", ttl=30, backend=locks)


def heartbeats(locks, monkeypatch):
    times, extend = [], locks.extend

    async def watched(place, lease_id):
        times.append(locks.clock.now())
        return await extend(place, lease_id)

    monkeypatch.setattr(locks, "extend", watched)
    return times


def test_heartbeats_go_out_every_third_of_the_ttl(locks, manager, monkeypatch):
    times, start = heartbeats(locks, monkeypatch), locks.clock.now()
    with manager.lock() as held:
        locks.clock.advance(100)
        assert [moment - start for moment in times] == [10, 20, 30, 40, 50, 60, 70, 80, 90, 100]
        held.ensure_held()


def test_no_heartbeat_after_the_release(locks, manager, monkeypatch):
    times = heartbeats(locks, monkeypatch)
    with manager.lock():
        pass
    locks.clock.advance(100)
    assert times == []


def test_cut_off_it_keeps_trying_until_the_deadline_and_is_lost_then(locks, manager, monkeypatch):
    times = heartbeats(locks, monkeypatch)
    with manager.lock() as held:
        locks.clock.advance(10)
        locks.cut_off()
        locks.clock.advance(29.9)
        assert not held.lost.is_set()
        held.ensure_held()
        assert len(times) > 10
        locks.clock.advance(0.1)
        assert held.lost.is_set()
        with pytest.raises(LockLost) as caught:
            held.ensure_held()
        assert caught.value.code == "DEADLINE_PASSED"


def test_cut_off_for_less_than_the_ttl_it_is_kept(locks, manager):
    with manager.lock() as held:
        locks.cut_off()
        locks.clock.advance(28)
        locks.reconnect()
        locks.clock.advance(60)
        held.ensure_held()
        assert locks.held("job") == [held.fencing_token]


def test_lost_answers_lose_nothing_and_take_nothing_twice(locks, manager):
    locks.drop_answers(1)
    waiting = Thread(lambda: manager.await_lock(timeout=60))
    until(lambda: not waiting.is_alive() or locks.clock._sleepers, "the repeat")
    locks.clock.advance(1)
    held = waiting.result()
    assert held.fencing_token == 1
    locks.drop_answers(2)
    locks.clock.advance(25)
    held.ensure_held()
    locks.drop_answers(1)
    held.release()
    assert locks.held("job") == []


def test_revoked_by_an_admin_it_is_lost_at_the_next_heartbeat(locks, manager):
    with manager.lock() as held:
        locks.revoke("job")
        locks.clock.advance(10)
        assert held.lost.is_set()
        with pytest.raises(LockLost) as caught:
            held.ensure_held()
        assert caught.value.code == "LEASE_REVOKED"


def test_the_bodys_error_is_not_masked_by_a_loss(locks, manager):
    with pytest.raises(ZeroDivisionError):
        with manager.lock():
            locks.revoke("job")
            1 / 0


def test_the_bodys_error_is_not_masked_by_a_server_that_is_away(locks, manager):
    with pytest.raises(ZeroDivisionError):
        with manager.lock():
            locks.cut_off()
            1 / 0


def test_release_lock_raises_only_when_asked_to(locks, manager):
    manager.await_lock()
    locks.revoke("job")
    manager.release_lock()
    manager.await_lock()
    locks.revoke("job")
    with pytest.raises(LockLost):
        manager.release_lock(raise_exception=True)
    manager.await_lock()
    locks.cut_off()
    with pytest.raises(DoclockError) as caught:
        manager.release_lock(raise_exception=True)
    assert caught.value.code == "UNREACHABLE"


def test_a_stopped_process_knows_at_once_that_its_time_is_over(locks, manager):
    with manager.lock() as held:
        locks.clock.jump(31)  # nothing has run meanwhile, the renewer neither
        assert held.lost.is_set()
        with pytest.raises(LockLost):
            held.ensure_held()


def test_lost_stays_lost_when_a_late_heartbeat_is_answered(locks, manager, monkeypatch):
    with manager.lock() as held:
        extend = locks.extend

        async def late(place, lease_id):
            monkeypatch.setattr(locks, "extend", extend)
            grant = await extend(place, lease_id)
            locks.clock.jump(21)  # past the deadline, and not past the one that this answer would set
            assert held.lost.is_set()
            return grant

        monkeypatch.setattr(locks, "extend", late)
        locks.clock.advance(10)
        assert held.lost.is_set()


def test_the_deadline_counts_from_before_the_request_was_sent(locks, manager, monkeypatch):
    lock = locks.lock

    async def slow(request):
        grant = await lock(request)
        locks.clock.jump(9)  # the answer's way back
        return grant

    monkeypatch.setattr(locks, "lock", slow)
    with manager.lock() as held:
        locks.cut_off()
        locks.clock.jump(20.9)
        assert not held.lost.is_set()
        locks.clock.jump(0.2)
        assert held.lost.is_set()


def test_lost_wakes_those_who_wait_for_it(locks, manager):
    with manager.lock() as held:
        assert held.lost.wait(0) is False
        waiting = Thread(held.lost.wait)
        locks.cut_off()
        locks.clock.advance(31)
        assert waiting.result() is True


def test_lost_wakes_tasks_that_wait_for_it(locks):
    async def main():
        async with AsyncLockManager("job", backend=locks).lock() as held:
            waiting = asyncio.create_task(held.lost.wait())
            await asyncio.sleep(0)
            locks.cut_off()
            locks.clock.advance(31)
            assert await asyncio.wait_for(waiting, 10) is True

    asyncio.run(main())


def test_a_failing_token_function_does_not_end_the_renewing(locks, manager, monkeypatch):
    extend, failures = locks.extend, iter([RuntimeError("no token today")] * 3)

    async def failing(place, lease_id):
        if error := next(failures, None):
            raise error
        return await extend(place, lease_id)

    monkeypatch.setattr(locks, "extend", failing)
    with manager.lock() as held:
        locks.clock.advance(60)
        held.ensure_held()


def test_a_server_that_asks_for_patience_gets_some_and_not_all_that_is_left(locks, manager, monkeypatch):
    times, start = [], locks.clock.now()

    async def limited(place, lease_id):
        times.append(locks.clock.now() - start)
        problem = {"retry_after_ms": 60_000}
        raise Refused("Too many requests.", code="RATE_LIMITED", status=429, retryable=True, problem=problem)

    monkeypatch.setattr(locks, "extend", limited)
    with manager.lock():
        locks.clock.advance(29)
        assert times[:3] == [10, 20, 25]


def test_the_clock_counts_the_time_a_machine_sleeps(monkeypatch):
    asked = []
    monkeypatch.setattr(time, "clock_gettime", lambda clock: asked.append(clock) or 5.0)
    assert SystemClock().now() == 5.0
    assert asked == [time.CLOCK_BOOTTIME]


def test_one_thread_renews_all_locks_of_a_process(locks):
    held = [LockManager(f"job-{number}", backend=locks).await_lock() for number in range(200)]
    assert [thread.name for thread in threading.enumerate()].count("doclock-renewer") == 1
    locks.clock.advance(100)
    for lock in held:
        lock.ensure_held()
        lock.release()


def test_fake_locks_stand_in_for_every_manager():
    manager = LockManager("job", url="http://nowhere.test", token="none")
    with fake_locks() as locks:
        with manager.lock():
            assert locks.held("job") == [1]
            with pytest.raises(LockTimeout):
                LockManager("job").await_lock(timeout=0)
        assert locks.held("job") == []


def test_a_fake_clock_stops_wherever_something_is_due():
    clock = FakeClock(0)
    locks = FakeLocks(clock)
    with LockManager("a", ttl=3, backend=locks).lock() as a, LockManager("b", ttl=30, backend=locks).lock() as b:
        clock.advance(1000)
        a.ensure_held()
        b.ensure_held()
    assert clock.now() == 1000
