"""The code in docs/backends.md, run as it stands."""

import json
import os
import pathlib
import re
import shutil
import sqlite3
import subprocess
import sys
import urllib.error
import urllib.request

import pytest

PAGE = pathlib.Path(__file__).parents[3] / "docs" / "backends.md"
LARAVEL = pathlib.Path(__file__).parent / "laravel.php"


def files_of_the_page():
    """Blocks whose first line is a comment with the name of a file."""
    blocks = re.findall(r"^```\w+\n(.*?)^```$", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    named = [(re.match(r"(?:<\?php )?(?:#|//) ([\w.]+)$", block.split("\n", 1)[0]), block) for block in blocks]
    return {match[1]: block for match, block in named if match}


FILES = files_of_the_page()


@pytest.fixture
def folder(tmp_path):
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    return tmp_path


def run(folder, *command, **environment):
    program = shutil.which(command[0])
    assert program, f"{command[0]} is missing: on Debian, apt-get install nodejs php-cli php-sqlite3 php-curl"
    done = subprocess.run(
        [program, *command[1:]], cwd=folder, env={**os.environ, **environment}, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.strip()


def can_lock(server, token, room):
    request = urllib.request.Request(
        f"{server.url}/api/documents/{room}/minting/lock", method="POST", headers={"authorization": f"Bearer {token}"}
    )
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            owner = json.load(answer)["holder"]["owner_id"]
    except urllib.error.HTTPError as error:
        return json.load(error)["code"]
    urllib.request.urlopen(
        urllib.request.Request(request.full_url, method="DELETE", headers=dict(request.headers)), timeout=10
    ).close()
    return owner


@pytest.mark.parametrize(
    "command", [(sys.executable, "mint_token.py"), ("php", "mint_token.php"), ("node", "mint_token.mjs")]
)
def test_a_minted_token_locks_in_its_rooms_and_nowhere_else(server, folder, command):
    token = run(folder, *command, DOCLOCK_SECRET=server.secret)
    assert can_lock(server, token, "invoices") == "billing"
    assert can_lock(server, token, "elsewhere") == "ROOM_FORBIDDEN"


@pytest.mark.parametrize("file", ["refresh.py", "refresh_async.py"])
def test_the_first_example_runs(server, folder, file):
    output = run(folder, sys.executable, file, DOCLOCK_URL=server.url, DOCLOCK_TOKEN=server.token)
    assert re.fullmatch(r"alone, with token \d+", output)


def test_the_example_of_a_test_passes(folder):
    run(folder, sys.executable, "test_job.py")


def test_the_django_example_saves(server, folder):
    code = """
import django
from django.conf import settings
settings.configure(DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}})
django.setup()
from django.db import connection
from invoices import Invoice, add
with connection.schema_editor() as editor:
    editor.create_model(Invoice)
Invoice.objects.create(pk=1)
add(1, 5)
add(1, 7)
print(*Invoice.objects.values_list("total").get(pk=1))
"""
    assert run(folder, sys.executable, "-c", code, DOCLOCK_URL=server.url, DOCLOCK_TOKEN=server.token) == "12"


def test_the_node_example_locks_and_unlocks(server, folder):
    for _ in range(2):
        output = run(folder, "node", "add_line.mjs", DOCLOCK_URL=server.url, DOCLOCK_TOKEN=server.token)
        assert re.fullmatch(r"alone, with token \d+", output)


def test_the_node_example_is_told_when_its_lock_is_lost(server, folder):
    (folder / "lose.mjs").write_text("""
import { withDocLock } from "./doclock.mjs";
const headers = { authorization: `Bearer ${process.env.ADMIN_TOKEN}`, "content-type": "application/json" };
await withDocLock("invoices", "2", async (fencingToken, signal) => {
  const body = JSON.stringify({ filter: { room: "invoices", document: "2" } });
  await fetch(`${process.env.DOCLOCK_URL}/api/admin/locks/unlock`, { method: "POST", headers, body });
  await new Promise((resolve) => signal.addEventListener("abort", resolve));
  console.log(signal.reason.code);
}, 1);
""")
    output = run(
        folder, "node", "lose.mjs", DOCLOCK_URL=server.url, DOCLOCK_TOKEN=server.token, ADMIN_TOKEN=server.admin
    )
    assert output == "LEASE_REVOKED"


@pytest.fixture
def documents(folder):
    rows = sqlite3.connect(folder / "documents.db")
    rows.execute("CREATE TABLE documents (id INTEGER PRIMARY KEY, body TEXT, fencing_token INTEGER NOT NULL DEFAULT 0)")
    rows.execute("INSERT INTO documents VALUES (1, '', 0)")
    rows.commit()
    yield rows
    rows.close()


def laravel(server, folder, file):
    prepend = f"auto_prepend_file={LARAVEL}"
    return run(folder, "php", "-d", prepend, file, DOCLOCK_URL=server.url, DOCLOCK_TOKEN=server.token)


def test_the_laravel_example_saves_and_unlocks(server, folder, documents):
    for times in (1, 2):
        output = laravel(server, folder, "add_line.php")
        token = int(re.fullmatch(r"saved with token (\d+)", output)[1])
        assert documents.execute("SELECT body, fencing_token FROM documents").fetchone() == ("one more line" * times, token)


def test_the_laravel_save_of_an_earlier_holder_is_refused(server, folder, documents):
    (folder / "late.php").write_text("""<?php
require __DIR__ . '/doclock.php';
load_for_editing(1, 1);
load_for_editing(1, 2);
try { save(1, 'late', 1); } catch (StaleToken $refused) { echo 'save refused, '; }
try { load_for_editing(1, 1); } catch (StaleToken $refused) { echo 'load refused'; }
save(1, 'in time', 2);
""")
    assert laravel(server, folder, "late.php") == "save refused, load refused"
    assert documents.execute("SELECT body, fencing_token FROM documents").fetchone() == ("in time", 2)


def test_the_laravel_example_is_told_who_holds_it(server, folder, documents):
    (folder / "held.php").write_text("""<?php
require __DIR__ . '/doclock.php';
DocLock::with('invoices', '3', function () {
    try {
        DocLock::with('invoices', '3', fn () => print('taken twice'));
    } catch (Illuminate\\Http\\Client\\RequestException $error) {
        echo $error->response->json('code');
    }
});
""")
    assert laravel(server, folder, "held.php") == "LOCK_HELD"
