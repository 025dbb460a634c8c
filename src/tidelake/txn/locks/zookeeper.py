"""A lock in ZooKeeper, for which the oldest of the nodes below one path stands.

Apache Hudi's `ZookeeperBasedLockProvider` keeps its lock with Curator, whose nodes are named
`_c_<id>-lock-<number>` and stand in a queue by their numbers. Ours are named alike, so both exclude
each other. A node goes with the session of whoever made it: a dead holder blocks nobody for longer
than its session timeout.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException, NoNodeError
from kazoo.handlers.threading import KazooTimeoutError

from tidelake.config import ZooKeeperOptions
from tidelake.env import Env
from tidelake.errors import ConfigError, StorageError
from tidelake.txn.locks.process import ThisProcess, process_name
from tidelake.txn.locks.provider import Holder, look_and_release

_QUEUED = "-lock-"


class ZooKeeperLock:
    """The queue at `<base path>/<key>`; a session is open from the first attempt to the release."""

    def __init__(self, env: Env, options: ZooKeeperOptions, key: str) -> None:
        self._options = options
        self._folder = f"/{options.base_path.strip('/')}/{key}"
        self._ids = env.ids
        self._process = ThisProcess()
        self._id = env.ids.new()
        self._client: KazooClient | None = None
        self._node: str | None = None

    @property
    def place(self) -> str:
        """Return where the lock is, for messages."""
        return f"zookeeper://{self._options.url}{self._folder}"

    def try_acquire(self) -> bool:
        """Stand in the queue; take the lock as its first, leave the queue otherwise."""
        self._forget_parent()
        if self._client is None:
            self._client = self._connected()
        with self._told():
            client = self._client
            client.ensure_path(self._folder)
            try:
                client.create(
                    f"{self._folder}/_c_{self._id}{_QUEUED}",
                    process_name().encode(),
                    ephemeral=True,
                    sequence=True,
                )
            except KazooException:
                # The node may be there all the same.
                if self._mine(client) is None:
                    raise
            mine = self._mine(client)
            if mine is not None and self._queue(client)[0] == mine:
                self._node = f"{self._folder}/{mine}"
                return True
            if mine is not None:
                client.delete(f"{self._folder}/{mine}")
            return False

    def still_held(self, margin_ms: int) -> bool:
        """Return whether our node is there, in a session that will last `margin_ms` more."""
        self._forget_parent()
        if self._client is None or self._node is None or not self._client.connected:
            return False
        if margin_ms >= self._options.session_ms:
            raise ConfigError(
                f"a session of {self._options.session_ms} ms ends before what needs its lock",
                next_step="set hoodie.write.lock.zookeeper.session_timeout_ms higher",
            )
        with self._told():
            # An answer from the server is a sign of life, which extends the session.
            return self._client.exists(self._node) is not None

    def lasts(self, margin_ms: int) -> bool:
        """Return whether the lock is ours; see `LockProvider.lasts`."""
        return self.still_held(margin_ms)

    def release(self) -> None:
        """End the session, and with it the hold."""
        self._forget_parent()
        client, self._client, self._node = self._client, None, None
        if client is not None:
            client.stop()
            client.close()

    def give_back(self) -> bool:
        """Give the lock back; return whether nobody else had it until then."""
        return look_and_release(self)

    def holder(self) -> Holder | None:
        """Return whose node is the first, or None when there is none."""
        with self._any_client() as client:
            return self._first(client)

    def break_lock(self) -> Holder | None:
        """Take the first node out of the queue."""
        with self._any_client() as client:
            found = self._first(client)
            if found is not None:
                for name in self._queue(client)[:1]:
                    client.delete(f"{self._folder}/{name}")
            return found

    def _forget_parent(self) -> None:
        """Hold nothing, under a name of its own, in a child that was forked from the holder."""
        if self._process.is_inherited:
            self._process = ThisProcess()
            self._id = self._ids.new()
            # The session is the parent's, and to end it here would end it there.
            self._client, self._node = None, None

    def _first(self, client: KazooClient) -> Holder | None:
        for name in self._queue(client):
            try:
                data, stat = client.get(f"{self._folder}/{name}")
            except NoNodeError:
                continue
            return Holder(owner=data.decode(errors="replace"), since_ms=stat.ctime)
        return None

    def _queue(self, client: KazooClient) -> list[str]:
        try:
            names = client.get_children(self._folder)
        except NoNodeError:
            return []
        queued = [name for name in names if _QUEUED in name]
        return sorted(queued, key=lambda name: name.rpartition(_QUEUED)[2])

    def _mine(self, client: KazooClient) -> str | None:
        return next((name for name in self._queue(client) if self._id in name), None)

    def _connected(self) -> KazooClient:
        client = KazooClient(hosts=self._options.url, timeout=self._options.session_ms / 1_000)
        try:
            client.start(timeout=self._options.connection_ms / 1_000)
        except KazooTimeoutError as cause:
            client.close()
            raise StorageError(
                self.place,
                f"no ZooKeeper answers within {self._options.connection_ms} ms",
                next_step="check hoodie.write.lock.zookeeper.url, and that the server runs",
            ) from cause
        return client

    @contextmanager
    def _any_client(self) -> Iterator[KazooClient]:
        client = self._client or self._connected()
        try:
            with self._told():
                yield client
        finally:
            if client is not self._client:
                client.stop()
                client.close()

    @contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except KazooException as cause:
            raise StorageError(
                self.place,
                f"the lock could not be asked for: {type(cause).__name__} {cause}",
                next_step="nothing became visible; run the write again when ZooKeeper answers",
            ) from cause
