"""Many processes, dead ones, stopped ones, and a network that loses answers: all against a real server."""

import multiprocessing
import os
import pathlib
import signal
import sqlite3
import subprocess
import sys

import pytest
from helpers import Thread, until
from proxy import DropsAnswers

from doclock import LockLost, LockManager, LockTimeout

QUICK = {"initial_delay": 0.005, "max_delay": 0.05}
fork = multiprocessing.get_context("fork")


def holders_of_the_log(server, name):
    events = server.events(name.split("/")[0])
    grants = [event["fencing_token"] for event in events if event["type"] == "DocumentLocked"]
    ends = [event["reason"] for event in events if event["type"] == "DocumentUnlocked"]
    return grants, ends


def increment(manager, counter, times, tokens):
    for _ in range(times):
        with manager.lock(timeout=120, **QUICK) as lock:
            counter.write_text(str(int(counter.read_text()) + 1))
            tokens.append(lock.fencing_token)


def in_forks(count, work):
    """What `work(number)` returned in each of `count` forked processes."""

    def run(number, pipe):
        pipe.send(work(number))
        pipe.close()

    pipes, processes = [], []
    for number in range(count):
        here, there = fork.Pipe(duplex=False)
        process = fork.Process(target=run, args=(number, there))
        process.start()
        there.close()
        pipes.append(here)
        processes.append(process)
    results = []
    for pipe, process in zip(pipes, processes, strict=True):
        try:
            results.append(pipe.recv())
        except EOFError:
            results.append(None)
        process.join(60)
        assert process.exitcode == 0
    return results


def test_ten_forked_processes_count_to_a_thousand(server, name, tmp_path):
    counter = tmp_path / "counter"
    counter.write_text("0")
    manager = LockManager(name, backend=server.backend())
    # The parent's renewer and connections exist before the fork, as in a preforking server.
    with manager.lock() as before:
        assert before.fencing_token == 1

    def work(number):
        tokens = []
        increment(manager, counter, 100, tokens)
        return tokens

    tokens = sorted(token for part in in_forks(10, work) for token in part)
    assert counter.read_text() == "1000"
    assert tokens == list(range(2, 1002)), "each grant was used, by one process"
    grants, ends = holders_of_the_log(server, name)
    assert grants == list(range(1, 1002)) and ends == ["released"] * 1001


def test_a_child_neither_holds_nor_releases_its_parents_lock(server, name):
    manager = LockManager(name, backend=server.backend())
    held = manager.await_lock()

    def work(number):
        manager.release_lock()
        with pytest.raises(LockLost) as caught:
            held.ensure_held()
        with pytest.raises(LockLost):
            held.release()
        with pytest.raises(LockTimeout):
            manager.await_lock(timeout=0)
        return caught.value.code

    assert in_forks(1, work) == ["NOT_OURS"]
    held.ensure_held()
    manager.release_lock(raise_exception=True)


def test_a_child_forked_inside_with_leaves_the_lock_to_its_parent(server, name):
    manager = LockManager(name, backend=server.backend())
    with manager.lock() as held:
        child = os.fork()
        if child == 0:
            # Leaves the block as the parent will, and must not unlock by that.
            try:
                manager_guard_exit(manager, held)
            finally:
                os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        with pytest.raises(LockTimeout):
            manager.await_lock(timeout=0)
        held.ensure_held()


def manager_guard_exit(manager, held):
    guard = manager.lock()
    guard._held.append(held)
    guard.__exit__(None, None, None)


def test_a_child_renews_its_own_locks(server, name):
    manager = LockManager(name, ttl=1, backend=server.backend())
    with manager.lock():
        pass

    def work(number):
        with manager.lock() as held:
            for _ in range(4):
                deadline = held._lease._deadline
                until(lambda: held._lease._deadline > deadline, "a heartbeat")
            held.ensure_held()
        return True

    assert in_forks(1, work) == [True]


class Holder:
    def __init__(self, server, name, ttl, database):
        script = pathlib.Path(__file__).parent / "holder.py"
        command = [sys.executable, script, server.url, server.token, name, str(ttl), database]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self.hear() == "holds 1"

    def hear(self):
        return self.process.stdout.readline().strip()

    def tell(self, command):
        self.process.stdin.write(command + "\n")
        self.process.stdin.flush()

    def ask(self, command):
        self.tell(command)
        return self.hear()


@pytest.fixture
def holder(server, name, tmp_path):
    database = tmp_path / "notes.db"
    with sqlite3.connect(database) as rows:
        rows.execute("CREATE TABLE notes (id INTEGER PRIMARY KEY, body TEXT, fencing_token INTEGER)")
        rows.execute("INSERT INTO notes VALUES (1, '', 0)")
    rows.close()
    holder = Holder(server, name, 1, str(database))
    holder.database = database
    yield holder
    holder.process.kill()
    holder.process.wait()
    holder.process.stdin.close()
    holder.process.stdout.close()


def test_after_kill_9_the_next_goes_on_after_the_ttl_and_not_before(server, name, holder):
    holder.process.kill()
    holder.process.wait()
    room, document = name.split("/")
    lock = server.get(f"/api/documents/{room}/{document}/lock")["lock"]
    assert lock is not None, "the server does not know that its holder is dead"
    with LockManager(name, backend=server.backend()).lock(timeout=30, **QUICK) as next_one:
        assert next_one.fencing_token == 2
        taken = server.get(f"/api/documents/{room}/{document}/lock")["lock"]
    # Both by the server's clock.
    assert taken["acquired_at"] >= lock["expires_at"]
    assert holders_of_the_log(server, name)[1] == ["expired", "released"]


def test_a_holder_stopped_past_its_ttl_knows_before_it_writes_and_its_fenced_write_is_refused(server, name, holder):
    assert holder.ask("write") == "written"
    holder.process.send_signal(signal.SIGSTOP)
    with LockManager(name, backend=server.backend()).lock(timeout=30, **QUICK) as lock:
        with sqlite3.connect(holder.database, timeout=30) as rows:
            claim = "UPDATE notes SET body = 'next', fencing_token = :t WHERE id = 1 AND fencing_token <= :t"
            assert rows.execute(claim, {"t": lock.fencing_token}).rowcount == 1
        holder.process.send_signal(signal.SIGCONT)
        assert holder.ask("write while held") == "lost DEADLINE_PASSED"
        assert holder.ask("lost") == "True"
        assert holder.ask("write") == "refused"
        assert rows.execute("SELECT body FROM notes").fetchone() == ("next",)
        rows.close()
        lock.ensure_held()


def test_answers_that_get_lost_lose_no_lock_and_take_none_twice(server, name, tmp_path):
    counter = tmp_path / "counter"
    counter.write_text("0")
    proxy = DropsAnswers(server.url, seed=15, share=0.3)
    manager = LockManager(name, backend=server.backend(url=proxy.url))
    tokens = []
    for thread in [Thread(lambda: increment(manager, counter, 10, tokens)) for _ in range(4)]:
        thread.result()
    proxy.close()
    assert proxy.dropped > 10
    assert counter.read_text() == "40"
    assert sorted(tokens) == list(range(1, 41))
    grants, ends = holders_of_the_log(server, name)
    assert grants == list(range(1, 41)), "no grant that nobody used"
    assert ends == ["released"] * 40, "no lock was lost"


def test_a_process_that_ends_without_releasing_frees_its_lock(server, name, holder):
    holder.tell("exit")
    holder.process.wait(20)
    assert holders_of_the_log(server, name)[1] == ["released"]
