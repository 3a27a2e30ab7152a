"""What can be wrong with the files that hold relations and their versions."""

from __future__ import annotations

from typing import ClassVar

from laminar.errors.base import LaminarError


class StoreError(LaminarError):
    """The store could not write, read or make sense of its own files.

    Catch this to handle every error of durable state in one place.
    """

    code: ClassVar[str] = "LMR-6000"


class ManifestCorrupt(StoreError):
    """The file that describes a committed epoch is damaged.

    It is not skipped in silence, because its epoch may already have been published.
    Restore the file from a backup, or move it away to go back to the epoch before it.
    """

    code: ClassVar[str] = "LMR-6001"

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(
            f"manifest corrupt: {path}",
            detail=reason,
            hint="restore the file, or move it away to go back to the epoch before it",
        )
        self.path = path
        self.reason = reason


class UnsupportedFormat(StoreError):
    """A file of the store was written by another version of Laminar, in a format not known here.

    Upgrade Laminar; an older version could read such a store wrongly, so it does not try.
    """

    code: ClassVar[str] = "LMR-6002"

    def __init__(self, found: int, supported: int, what: str = "") -> None:
        is_newer = found > supported
        super().__init__(
            f"unsupported format version {found}" + (f" of {what}" if what else ""),
            detail=f"this version of Laminar reads formats 1 to {supported}",
            hint="upgrade Laminar" if is_newer else "open it with the version that wrote it",
        )
        self.found = found
        self.supported = supported


class EpochNotFound(StoreError):
    """An epoch was asked for that is not kept, or not yet committed.

    Choose an epoch from the range in the detail, or keep more of them with a longer retention.
    """

    code: ClassVar[str] = "LMR-6003"

    def __init__(self, epoch: int, oldest: int | None, newest: int | None) -> None:
        kept = "nothing is committed yet" if newest is None else f"kept: {oldest} to {newest}"
        super().__init__(
            f"epoch {epoch} not found",
            detail=kept,
            hint="" if newest is None else "choose an epoch from that range",
        )
        self.epoch = epoch
        self.oldest = oldest
        self.newest = newest


class SegmentMissing(StoreError):
    """A data file that a committed epoch names is not there.

    Something outside Laminar removed it. Restore the file from a backup, or restore an older
    epoch that does not need it.
    """

    code: ClassVar[str] = "LMR-6004"

    def __init__(self, path: str) -> None:
        super().__init__(
            f"data file missing: {path}",
            hint="restore the file from a backup, or go back to an older epoch",
        )
        self.path = path


class SegmentCorrupt(StoreError):
    """A data file does not hold the bytes that were once written to it.

    Restore the file from a backup, or restore an older epoch that does not need it.
    """

    code: ClassVar[str] = "LMR-6005"

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(
            f"data file corrupt: {path}",
            detail=reason,
            hint="restore the file from a backup, or go back to an older epoch",
        )
        self.path = path
        self.reason = reason


class StoreUnwritable(StoreError):
    """The store's folder could not be written: no space, no permission, or read-only.

    Nothing was committed and the last epoch stays valid. Make room or correct the permissions,
    then step again. What cannot be written can still be read: `connect(path, read_only=True)`.
    """

    code: ClassVar[str] = "LMR-6006"

    def __init__(self, path: str, reason: str) -> None:
        denied = ("read-only", "permission", "not permitted")
        is_denied = any(word in reason.lower() for word in denied)
        super().__init__(
            f"cannot write {path}",
            detail=reason,
            hint="make it writable for this user, or only read it: connect(path, read_only=True)"
            if is_denied
            else "make room or correct the permissions, then try again",
        )
        self.path = path
        self.reason = reason


class StoreUnreadable(StoreError):
    """The operating system did not let a file or folder of the state be read.

    It says nothing about what is in there, so nothing is taken for damaged or gone, and nothing was
    changed. Look at the disk and at the permissions, then try again.
    """

    code: ClassVar[str] = "LMR-6024"

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(
            f"cannot read {path}",
            detail=reason,
            hint="look at the disk and at the permissions, then try again",
        )
        self.path = path
        self.reason = reason


class EpochExists(StoreError):
    """An epoch was to be committed that is committed already.

    Most likely another process writes to the same store. Close one of the two.
    """

    code: ClassVar[str] = "LMR-6007"

    def __init__(self, epoch: int) -> None:
        super().__init__(
            f"epoch {epoch} is committed already",
            hint="another process may be writing to this store; close one of the two",
        )
        self.epoch = epoch


class DatabaseNotFound(StoreError):
    """Something was to be read from a folder that holds no database.

    Name the folder that was given to `laminar.connect` or to `--state`.
    """

    code: ClassVar[str] = "LMR-6010"

    def __init__(self, path: str) -> None:
        super().__init__(
            f"no database in {path}", hint="name its folder with --state, or create it: laminar run"
        )
        self.path = path


class CursorCorrupt(StoreError):
    """The small file that says how far a sink or a subscription has come is damaged.

    Restore it from a backup. Without it the consumer starts again from its beginning: move the
    file away if that is what you want.
    """

    code: ClassVar[str] = "LMR-6020"

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(
            f"cursor corrupt: {path}",
            detail=reason,
            hint="restore the file, or move it away to let the consumer start again",
        )
        self.path = path
        self.reason = reason


class SubscriptionEnded(StoreError):
    """What a subscription reads was dropped, or defined anew, since it was last read.

    The rows before and after do not add up, so it does not go on. Subscribe again: that starts
    with all rows of the new definition.
    """

    code: ClassVar[str] = "LMR-6021"

    def __init__(self, relation: str, reason: str, name: str | None = None) -> None:
        first = "" if name is None else f'db.unsubscribe("{name}"), then '
        super().__init__(
            f'the subscription of "{relation}" has ended',
            detail=reason,
            hint=f"{first}subscribe again without from_epoch: it starts with all rows there are",
        )
        self.relation = relation
        self.reason = reason


class ReadOnlyDatabase(StoreError):
    """Something was to be changed through a database that was opened for reading only.

    Open it without `read_only=True`, where no other process writes to it.
    """

    code: ClassVar[str] = "LMR-6022"

    def __init__(self, what: str, path: str) -> None:
        super().__init__(
            f"the database is open for reading only, and this would change it: {what}",
            detail=path,
            hint="open it without read_only (--read-only), where nobody else writes to it",
        )
        self.what = what
        self.path = path


class ReadTooLate(StoreError):
    """Files of the epoch that a query reads were removed while it ran.

    An epoch is kept for a while only. Read it faster, or keep more epochs:
    `SET laminar.retained_epochs = n`.
    """

    code: ClassVar[str] = "LMR-6023"

    def __init__(self, epoch: int) -> None:
        super().__init__(
            f"epoch {epoch} was removed while it was read",
            hint="run the query again, or keep more epochs: SET laminar.retained_epochs = n",
        )
        self.epoch = epoch


class DatabaseLocked(StoreError):
    """Two writers wanted the same state directory; the first one keeps it.

    The message names its owner. Close that connection or end that process: the lock goes with it,
    so nothing has to be removed by hand.
    """

    code: ClassVar[str] = "LMR-6011"

    def __init__(self, path: str, owner: str) -> None:
        super().__init__(
            f"another writer has {path}",
            detail=f"its owner: {owner}",
            hint="close that connection, or end that process",
        )
        self.path = path
        self.owner = owner


class CheckpointCorrupt(StoreError):
    """The description of a checkpoint is damaged, so it cannot be used.

    Restore the folder from a backup, or use another checkpoint; SHOW CHECKPOINTS lists them.
    """

    code: ClassVar[str] = "LMR-6012"

    def __init__(self, checkpoint_id: int, path: str, reason: str) -> None:
        super().__init__(
            f"checkpoint {checkpoint_id} is damaged: {path}",
            detail=reason,
            hint="use another checkpoint: SHOW CHECKPOINTS",
        )
        self.checkpoint_id = checkpoint_id
        self.path = path
        self.reason = reason
