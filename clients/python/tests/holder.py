"""A process that holds a lock, told what to do by lines on its standard input. Run by test_processes.py."""

import sqlite3
import sys

from doclock import LockLost, LockManager, ServerBackend


def say(*words):
    print(*words, flush=True)


def fenced_write(database, text, token):
    with sqlite3.connect(database, timeout=10) as rows:
        changed = rows.execute(
            "UPDATE notes SET body = ?, fencing_token = ? WHERE id = 1 AND fencing_token <= ?", (text, token, token)
        ).rowcount
    rows.close()
    return changed == 1


def main(url, token, name, ttl, database):
    manager = LockManager(name, ttl=int(ttl), backend=ServerBackend(url, token))
    lock = manager.await_lock(timeout=60)
    say("holds", lock.fencing_token)
    for command in sys.stdin:
        if command == "write\n":
            say("written" if fenced_write(database, "holder", lock.fencing_token) else "refused")
        elif command == "lost\n":
            say(lock.lost.is_set())
        elif command == "write while held\n":
            try:
                while True:
                    lock.ensure_held()
                    say("written" if fenced_write(database, "holder", lock.fencing_token) else "refused")
            except LockLost as reason:
                say("lost", reason.code)
        elif command == "exit\n":
            return


if __name__ == "__main__":
    main(*sys.argv[1:])
