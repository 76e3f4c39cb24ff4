"""What every backend does: each test runs on the memory backend and on a real server."""

import gc
import signal
import threading

import pytest
from helpers import Thread, until

from doclock import DoclockError, LockLost, LockManager, LockNotHeld, LockTimeout

QUICK = {"initial_delay": 0.01, "max_delay": 0.05}


def test_one_at_a_time(manager):
    with manager().lock():
        with pytest.raises(LockTimeout):
            manager().await_lock(timeout=0)
    with manager().lock(timeout=0):
        pass


def test_two_locks_of_one_process_do_not_pass_for_one(manager):
    one = manager()
    with one.lock():
        with pytest.raises(LockTimeout):
            one.await_lock(timeout=0)


def test_a_timeout_is_a_timeout_error_that_says_why(manager):
    with manager().lock():
        with pytest.raises(TimeoutError, match="was not granted within 0.2 s") as caught:
            manager().await_lock(timeout=0.2, **QUICK)
    assert isinstance(caught.value, DoclockError)
    assert caught.value.code == "LOCK_TIMEOUT"


def test_a_timeout_releases_nothing(manager):
    with manager().lock() as held:
        late = manager()
        with pytest.raises(LockTimeout):
            late.await_lock(timeout=0.2, **QUICK)
        late.release_lock()
        held.ensure_held()
        with pytest.raises(LockTimeout):
            manager().await_lock(timeout=0)
    with manager().lock(timeout=0) as next_one:
        assert next_one.fencing_token == held.fencing_token + 1


def test_with_releases_on_error_and_the_error_is_the_bodys_own(manager):
    with pytest.raises(ZeroDivisionError):
        with manager().lock() as held:
            1 / 0
    with pytest.raises(LockLost, match="has been released"):
        held.ensure_held()
    assert not held.lost.is_set()
    with manager().lock(timeout=0):
        pass


def test_parallelism_3_lets_three_in(manager):
    with manager(3).lock() as a, manager(3).lock() as b, manager(3).lock() as c:
        assert {a.fencing_token, b.fencing_token, c.fencing_token} == {1, 2, 3}
        with pytest.raises(LockTimeout):
            manager(3).await_lock(timeout=0)
        b.release()
        with manager(3).lock(timeout=0) as d:
            assert d.fencing_token == 4


def test_another_parallelism_is_refused_at_once(manager):
    with manager(3).lock():
        with pytest.raises(DoclockError) as caught:
            manager(2).await_lock(timeout=60)
    assert caught.value.code == "CAPACITY_MISMATCH"


def test_fencing_tokens_grow_by_one(manager):
    tokens = []
    for _ in range(5):
        with manager().lock() as held:
            tokens.append(held.fencing_token)
    assert tokens == [1, 2, 3, 4, 5]


def test_await_lock_and_release_lock(manager):
    lock_manager = manager()
    held = lock_manager.await_lock(timeout=1)
    held.ensure_held()
    lock_manager.release_lock(raise_exception=True)
    with pytest.raises(LockTimeout):
        with manager().lock():
            manager().await_lock(0)


def test_releasing_what_was_never_taken_does_nothing_or_raises(manager):
    with manager().lock() as held:
        manager().release_lock()
        with pytest.raises(LockNotHeld):
            manager().release_lock(raise_exception=True)
        held.ensure_held()


def test_a_thread_does_not_release_the_lock_of_another(manager):
    shared = manager()
    held = shared.await_lock()
    Thread(shared.release_lock).result()
    held.ensure_held()
    shared.release_lock(raise_exception=True)


def test_a_waiter_gets_it_when_it_is_released(manager):
    held = manager().await_lock()
    waiting = Thread(lambda: manager().await_lock(timeout=30, **QUICK).fencing_token)
    held.release()
    assert waiting.result() == 2


def test_a_release_done_twice_does_not_release_the_next_holder(manager):
    first = manager().await_lock()
    first.release()
    with manager().lock() as second:
        first.release()
        second.ensure_held()
        with pytest.raises(LockTimeout):
            manager().await_lock(timeout=0)


def test_a_lock_that_nobody_can_release_any_more_is_released(manager):
    lock_manager = manager()
    lock_manager.await_lock()
    del lock_manager
    gc.collect()
    manager().await_lock(timeout=20, **QUICK).release()


def test_a_thread_that_ends_gives_up_what_it_took(manager):
    shared = manager()
    Thread(lambda: shared.await_lock() and None).result()
    gc.collect()
    shared.await_lock(timeout=20, **QUICK).release()


def test_threads_that_share_a_manager_take_turns(manager):
    shared = manager()
    counter, inside = [0], threading.Lock()

    def work():
        for _ in range(5):
            with shared.lock(timeout=30, **QUICK):
                assert inside.acquire(blocking=False), "two were inside at once"
                counter[0] += 1
                inside.release()

    for thread in [Thread(work) for _ in range(4)]:
        thread.result()
    assert counter == [20]


class TimeLimit(BaseException):
    """As Celery raises into its tasks."""


def test_a_wait_broken_off_by_a_signal_takes_nothing(manager):
    def limit(number, frame):
        raise TimeLimit

    before = signal.signal(signal.SIGALRM, limit)
    try:
        with manager().lock():
            signal.setitimer(signal.ITIMER_REAL, 0.1)
            with pytest.raises(TimeLimit):
                manager().await_lock(timeout=30, **QUICK)
        with manager().lock(timeout=20, **QUICK):
            pass
    finally:
        signal.signal(signal.SIGALRM, before)


def test_a_guard_can_be_used_again(manager):
    guard = manager().lock(timeout=1)
    for token in (1, 2):
        with guard as held:
            assert held.fencing_token == token


# With less, a machine that is busy elsewhere for a second would lose it, rightly.
@pytest.mark.parametrize("ttl", [4])
def test_heartbeats_keep_it_past_its_ttl(manager, ttl):
    with manager(ttl=ttl).lock() as held:
        # More than a whole ttl has passed by then; the cause is waited for, not the time.
        lease = held._lease
        for _ in range(4):
            deadline = lease._deadline
            until(lambda: lease._deadline > deadline, "a heartbeat")
        held.ensure_held()
        with pytest.raises(LockTimeout):
            manager(ttl=ttl).await_lock(timeout=0)


@pytest.mark.parametrize(
    "wrong",
    [
        {"name": ""},
        {"name": "/x"},
        {"name": "room/"},
        {"name": "a\nb"},
        {"name": "é" * 101},
        {"parallelism": 0},
        {"parallelism": 1001},
        {"parallelism": 1.5},
        {"parallelism": True},
        {"ttl": 0},
        {"ttl": 2.5},
    ],
)
def test_nonsense_is_refused_where_it_is_written(wrong):
    with pytest.raises(ValueError):
        LockManager(**{"name": "x", **wrong})


@pytest.mark.parametrize("wrong", [{"timeout": -1}, {"timeout": float("nan")}, {"initial_delay": 0}, {"max_delay": -1}])
def test_nonsense_waits_are_refused(wrong, manager):
    with pytest.raises(ValueError):
        manager().await_lock(**wrong)
