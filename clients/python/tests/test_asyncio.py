"""AsyncLockManager, on both backends."""

import asyncio

import pytest
from helpers import until

from doclock import AsyncLockManager, LockLost, LockNotHeld, LockTimeout

QUICK = {"initial_delay": 0.01, "max_delay": 0.05}


@pytest.fixture
def manager(backend, name):
    return lambda parallelism=1, **options: AsyncLockManager(name, parallelism, backend=backend, **options)


def test_one_at_a_time(manager):
    async def main():
        async with manager().lock() as held:
            held.ensure_held()
            with pytest.raises(LockTimeout):
                await manager().await_lock(timeout=0)
        async with manager().lock(timeout=0) as second:
            assert second.fencing_token == held.fencing_token + 1

    asyncio.run(main())


def test_it_is_released_on_error_and_the_error_is_the_bodys_own(manager):
    async def main():
        with pytest.raises(ZeroDivisionError):
            async with manager().lock() as held:
                1 / 0
        with pytest.raises(LockLost):
            held.ensure_held()
        async with manager().lock(timeout=0):
            pass

    asyncio.run(main())


def test_tasks_take_turns_and_three_fit_in_a_semaphore_of_three(manager):
    inside, most = 0, 0

    async def work():
        nonlocal inside, most
        async with manager(3).lock(timeout=30, **QUICK):
            inside += 1
            most = max(most, inside)
            await asyncio.sleep(0.01)
            inside -= 1

    async def main():
        await asyncio.gather(*(work() for _ in range(9)))

    asyncio.run(main())
    assert 1 <= most <= 3


def test_a_cancelled_wait_takes_nothing(manager):
    async def main():
        async with manager().lock():
            waiting = asyncio.create_task(manager().await_lock(timeout=30, **QUICK))
            await asyncio.sleep(0.1)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
        async with manager().lock(timeout=20, **QUICK):
            pass

    asyncio.run(main())


def test_a_cancelled_body_releases(manager):
    async def hold(entered):
        async with manager().lock():
            entered.set()
            await asyncio.Event().wait()

    async def main():
        entered = asyncio.Event()
        task = asyncio.create_task(hold(entered))
        await entered.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        async with manager().lock(timeout=0):
            pass

    asyncio.run(main())


def test_release_lock_is_of_the_task_that_took_it(manager):
    async def main():
        shared = manager()
        held = await shared.await_lock()

        async def other():
            with pytest.raises(LockNotHeld):
                await shared.release_lock(raise_exception=True)

        await asyncio.create_task(other())
        held.ensure_held()
        await shared.release_lock(raise_exception=True)

    asyncio.run(main())


def test_a_blocked_event_loop_does_not_lose_the_lock(manager):
    async def main():
        async with manager(ttl=1).lock() as held:
            lease = held._lease
            for _ in range(4):
                deadline = lease._deadline
                # Blocks this event loop on purpose.
                until(lambda: lease._deadline > deadline, "a heartbeat")
            held.ensure_held()

    asyncio.run(main())
