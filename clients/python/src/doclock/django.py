"""A model whose saves cannot overwrite the work of a later holder of its lock.

    class Invoice(FencedModel):
        total = models.IntegerField()

    with LockManager(f"invoices/{pk}").lock() as lock:
        invoice = Invoice.claim(lock, pk=pk)    # from here on, saves of earlier holders are refused
        invoice.total += 1
        invoice.save(fence=lock)                # StaleToken if a later holder has claimed it meanwhile

Where a browser holds the lock, `fence` is the `fencing_token` that it sends along.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.db import models, router, transaction

from .errors import DoclockError, StaleToken
from .held import _Held

if TYPE_CHECKING:
    from typing_extensions import Self

Fence = int | _Held


class FencedModel(models.Model):
    """Adds the column `fencing_token`, the highest token that has claimed or saved the row, and saves that respect it.

    A row that exists is saved with `fence` only. `QuerySet.update` and `bulk_update` go past it, as they go past `save`.
    """

    fencing_token: models.PositiveBigIntegerField[int, int] = models.PositiveBigIntegerField(default=0, editable=False)

    class Meta:
        abstract = True

    @classmethod
    def claim(cls, fence: Fence, using: str | None = None, **lookup: Any) -> Self:
        """Loads the one row for editing, after marking it as ours.

        The mark comes first: a holder whose lock ran out, and who saves between our reading and our saving, is refused
        and cannot be overwritten unseen. Raises `StaleToken` if a later holder was here, `DoesNotExist` as `get` does.
        """
        token = _token(fence)
        rows = cls._base_manager.using(using or router.db_for_write(cls))
        with transaction.atomic(using=rows.db):
            pk = rows.values_list("pk", flat=True).get(**lookup)
            _mark(rows, pk, token)
            return rows.get(pk=pk)

    def save(self, *args: Any, fence: Fence | None = None, **options: Any) -> None:
        """Saves if no later holder has claimed the row; otherwise raises `StaleToken` and changes nothing.

        With a lock as `fence`, raises `LockLost` before asking the database if the lock is known to be lost.
        """
        if self._state.adding and fence is None:
            super().save(*args, **options)
            return
        if fence is None:
            detail = f"A {type(self).__name__} that exists is saved with its lock: save(fence=lock)."
            raise DoclockError(detail, code="NO_FENCING_TOKEN")
        token = _token(fence)
        if self._state.adding:
            self.fencing_token = token
            super().save(*args, **options)
            return
        using = options.get("using") or router.db_for_write(type(self), instance=self)
        # One transaction: the mark locks the row until the save is committed, so nobody can come between.
        with transaction.atomic(using=using):
            _mark(type(self)._base_manager.using(using), self.pk, token)
            self.fencing_token = token
            super().save(*args, **{**options, "using": using, "force_update": True})


def _mark(rows: models.QuerySet[Any], pk: Any, token: int) -> None:
    if rows.filter(pk=pk, fencing_token__lte=token).update(fencing_token=token) == 1:
        return
    seen = rows.filter(pk=pk).values_list("fencing_token", flat=True).first()
    if seen is None:
        raise rows.model.DoesNotExist(f"{rows.model.__name__} {pk} does not exist any more.")
    raise StaleToken(f"{rows.model.__name__} {pk} has been claimed with token {seen}; this save has {token}.")


def _token(fence: Fence) -> int:
    if isinstance(fence, _Held):
        if fence.parallelism > 1:
            raise ValueError("Several may hold this lock at once, so its fencing tokens cannot keep saves apart.")
        fence.ensure_held()
        return fence.fencing_token
    if isinstance(fence, bool) or not isinstance(fence, int) or fence < 1:
        raise ValueError(f"A fencing token is a whole number, 1 or more, not {fence!r}.")
    return fence
