"""`doclock.django` with a real Django, on SQLite."""

import django
import pytest
from django.conf import settings

if not settings.configured:
    settings.configure(
        DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}},
        INSTALLED_APPS=[],
        DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
    )
    django.setup()

from django.db import connection, models  # noqa: E402

from doclock import DoclockError, LockLost, LockManager, StaleToken  # noqa: E402
from doclock.django import FencedModel  # noqa: E402
from doclock.testing import fake_locks  # noqa: E402


class Invoice(FencedModel):
    total = models.IntegerField(default=0)
    note = models.CharField(max_length=100, default="")
    changed_at = models.DateTimeField(auto_now=True)

    class Meta:
        app_label = "tests"


@pytest.fixture(autouse=True)
def table():
    with connection.schema_editor() as editor:
        editor.create_model(Invoice)
    yield
    with connection.schema_editor() as editor:
        editor.delete_model(Invoice)


@pytest.fixture
def locks():
    with fake_locks() as locks:
        yield locks


@pytest.fixture
def manager(locks):
    return LockManager("invoices/1")


def stored():
    return Invoice.objects.values("total", "fencing_token").get(pk=1)


def test_a_fenced_save_stores_the_token(manager):
    Invoice.objects.create(pk=1)
    with manager.lock() as lock:
        invoice = Invoice.claim(lock, pk=1)
        invoice.total = 5
        invoice.save(fence=lock)
        assert stored() == {"total": 5, "fencing_token": lock.fencing_token}


def test_a_save_after_a_later_holder_saved_is_refused():
    Invoice.objects.create(pk=1)
    first = Invoice.claim(1, pk=1)
    second = Invoice.claim(2, pk=1)
    second.total = 2
    second.save(fence=2)
    first.total = 1
    with pytest.raises(StaleToken) as caught:
        first.save(fence=1)
    assert caught.value.code == "STALE_TOKEN"
    assert stored() == {"total": 2, "fencing_token": 2}


def test_the_save_that_cannot_lose_a_claim_refuses_the_earlier_holder_before_anything_is_saved():
    """Without the claim the second would load 0, the first would save, and the second would overwrite that."""
    Invoice.objects.create(pk=1)
    first = Invoice.claim(1, pk=1)
    second = Invoice.claim(2, pk=1)
    first.total = 1
    with pytest.raises(StaleToken):
        first.save(fence=1)
    second.total += 10
    second.save(fence=2)
    assert stored() == {"total": 10, "fencing_token": 2}


def test_a_claim_after_a_later_one_is_refused():
    Invoice.objects.create(pk=1)
    Invoice.claim(2, pk=1)
    with pytest.raises(StaleToken):
        Invoice.claim(1, pk=1)
    assert stored()["fencing_token"] == 2


def test_a_lock_known_to_be_lost_is_refused_without_asking_the_database(locks, manager, django_queries):
    Invoice.objects.create(pk=1)
    with manager.lock() as lock:
        invoice = Invoice.claim(lock, pk=1)
        locks.clock.jump(31)
        with django_queries() as queries, pytest.raises(LockLost):
            invoice.save(fence=lock)
        assert queries == []


def test_a_row_that_exists_is_not_saved_without_its_lock():
    invoice = Invoice.objects.create(pk=1)
    Invoice.claim(3, pk=1)
    invoice.total = 9
    with pytest.raises(DoclockError, match=r"save\(fence=lock\)") as caught:
        invoice.save()
    assert caught.value.code == "NO_FENCING_TOKEN"
    assert stored() == {"total": 0, "fencing_token": 3}


def test_update_fields_and_auto_now_work_as_in_any_save():
    Invoice.objects.create(pk=1, note="as it was")
    invoice = Invoice.claim(1, pk=1)
    before = invoice.changed_at
    invoice.total, invoice.note = 4, "not to be saved"
    invoice.save(fence=1, update_fields=["total"])
    row = Invoice.objects.get(pk=1)
    assert (row.total, row.note, row.changed_at) == (4, "as it was", before)
    invoice.save(fence=1)
    assert Invoice.objects.get(pk=1).changed_at > before


def test_a_save_that_fails_leaves_the_mark_as_it_was():
    Invoice.objects.create(pk=1)
    invoice = Invoice.claim(1, pk=1)
    invoice.total = None
    with pytest.raises(Exception, match="NOT NULL"):
        invoice.save(fence=2)
    assert stored() == {"total": 0, "fencing_token": 1}


def test_a_row_deleted_meanwhile_is_told():
    Invoice.objects.create(pk=1)
    invoice = Invoice.claim(1, pk=1)
    Invoice.objects.all().delete()
    with pytest.raises(Invoice.DoesNotExist):
        invoice.save(fence=1)
    with pytest.raises(Invoice.DoesNotExist):
        Invoice.claim(2, pk=1)


def test_a_semaphore_cannot_fence(locks):
    Invoice.objects.create(pk=1)
    with LockManager("invoices/1", 3).lock() as lock:
        with pytest.raises(ValueError, match="Several"):
            Invoice.claim(lock, pk=1)


@pytest.mark.parametrize("nonsense", [0, -1, True, "7", 1.0])
def test_nonsense_is_no_fencing_token(nonsense):
    Invoice.objects.create(pk=1)
    with pytest.raises(ValueError):
        Invoice.claim(nonsense, pk=1)


@pytest.fixture
def django_queries():
    import contextlib

    @contextlib.contextmanager
    def watch():
        queries = []

        def note(execute, sql, params, many, context):
            queries.append(sql)
            return execute(sql, params, many, context)

        with connection.execute_wrapper(note):
            yield queries

    return watch


def test_django_is_only_imported_by_doclock_django():
    import subprocess
    import sys

    code = "import sys, doclock, doclock.testing; sys.exit('django' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
