"""The server's own waiting line, as the client uses it."""

import multiprocessing

import pytest
from helpers import Thread, until

from doclock import LockManager, LockTimeout, acquiring

fork = multiprocessing.get_context("fork")


@pytest.fixture
def manager(server, name):
    backend = server.backend()
    return lambda **options: LockManager(name, backend=backend, **options)


@pytest.fixture
def waiting(server, name):
    room, document = name.split("/")
    return lambda: server.get(f"/api/documents/{room}/{document}/lock")["waiting"]


def test_first_come_first_served(manager, waiting):
    held = manager().await_lock()
    order, threads = [], []
    for number in range(5):

        def work(number=number):
            with manager().lock(timeout=60):
                order.append(number)

        threads.append(Thread(work))
        until(lambda: waiting() == len(threads), "the next one in line")
    held.release()
    for thread in threads:
        thread.result()
    assert order == [0, 1, 2, 3, 4]


def test_a_waiter_whose_time_is_up_leaves_the_line_and_takes_nothing(server, name, manager, waiting):
    with manager().lock():
        late = Thread(lambda: manager().await_lock(timeout=1))
        until(lambda: waiting() == 1, "the waiter in line")
        with pytest.raises(LockTimeout):
            late.result()
        until(lambda: waiting() == 0, "an empty line")
    with manager().lock(timeout=0):
        pass


def test_a_wait_of_several_polls_keeps_its_place(manager, waiting, monkeypatch):
    monkeypatch.setattr(acquiring, "LONGEST_WAIT_MS", 300)
    held = manager().await_lock()
    polls = []
    early_manager = manager()
    ask = early_manager._backend.lock

    async def counted(request):
        polls.append(request)
        return await ask(request)

    monkeypatch.setattr(early_manager._backend, "lock", counted)
    early = Thread(lambda: early_manager.await_lock(timeout=60))
    until(lambda: waiting() == 1, "the first in line")
    until(lambda: len(polls) >= 3, "its third poll")
    late = Thread(lambda: manager().await_lock(timeout=60))
    until(lambda: waiting() == 2, "the second in line")
    until(lambda: len(polls) >= 12, "more polls of both")
    held.release()
    assert early.result().fencing_token == 2
    assert late.is_alive()
    early.result().release()
    assert late.result().fencing_token == 3
    late.result().release()


def test_a_waiter_that_was_killed_does_not_hold_up_the_next(manager, waiting):
    held = manager().await_lock()
    dead = fork.Process(target=lambda: manager().await_lock(timeout=60))
    dead.start()
    until(lambda: waiting() == 1, "the one that will die")
    alive = Thread(lambda: manager().await_lock(timeout=60))
    until(lambda: waiting() == 2, "the one behind it")
    dead.kill()
    dead.join()
    until(lambda: waiting() == 1, "the dead one out of the line")
    held.release()
    assert alive.result().fencing_token == 2
    alive.result().release()


def test_a_semaphore_has_a_line_too(manager, waiting, server, name):
    backend = server.backend()
    three = [LockManager(name, 3, backend=backend).await_lock() for _ in range(3)]
    fourth = Thread(lambda: LockManager(name, 3, backend=backend).await_lock(timeout=60))
    until(lambda: waiting() == 1, "the fourth in line")
    three[1].release()
    assert fourth.result().fencing_token == 4
    for lock in (three[0], three[2], fourth.result()):
        lock.ensure_held()
        lock.release()
