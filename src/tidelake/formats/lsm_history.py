"""History of timeline layout 2: Parquet files of instants, and the manifests that name them."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from tidelake.errors import Malformed
from tidelake.formats import commit_metadata, history_footer, jackson, table_path
from tidelake.formats._inflation import most_inflated
from tidelake.formats._wire_record import CORE, from_wire, to_wire
from tidelake.formats.avro_schemas import LSM_TIMELINE_INSTANT
from tidelake.model import WRITE_ACTIONS, Action

#: The file that holds the number of the current manifest.
VERSION_FILE = "_version_"

_FILE = re.compile(r"([0-9]+)_([0-9]+)_([0-9])\.parquet")
_MANIFEST = re.compile(r"manifest_([0-9]{1,18})")
_WITHOUT_CONTENT = ["instantTime", "completionTime", "action"]
_SCHEMA = pa.schema(
    [
        pa.field("instantTime", pa.string()),
        pa.field("completionTime", pa.string()),
        pa.field("action", pa.string()),
        pa.field("metadata", pa.binary()),
        pa.field("plan", pa.binary()),
        pa.field("version", pa.int32(), nullable=False),
    ]
)


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryInstant:
    """One archived instant; `metadata` and `plan` are the bytes of its timeline files, if any.

    `action` is that of the completed file, so a compaction is a commit with a plan.
    """

    requested_time: str
    completion_time: str
    action: Action
    metadata: bytes | None = None
    plan: bytes | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestFile:
    """One file of the history and its size in bytes.

    The name says two instants and the level, but after an upgrade the first may be the later one:
    it is no range to prune by.
    """

    file_name: str
    file_len: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """The files that make up the history; others in the folder do not count."""

    files: tuple[ManifestFile, ...] = field(metadata=CORE)


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryFileName:
    """The name of a history file; level 0 is as archived, higher ones are merged from lower."""

    first: str
    last: str
    level: int

    def format(self) -> str:
        """Return the name as written inside the history folder."""
        return f"{self.first}_{self.last}_{self.level}.parquet"

    @classmethod
    def parse(cls, name: str) -> HistoryFileName | None:
        """Take `name` apart, the inverse of `format`; return None for a file of another kind."""
        found = _FILE.fullmatch(name)
        return cls(first=found[1], last=found[2], level=int(found[3])) if found else None


def manifest_name(number: int) -> str:
    """Return the name of manifest `number`."""
    return f"manifest_{number}"


def manifest_number(name: str) -> int | None:
    """Return the number in a manifest's name, or None for a file of some other kind."""
    found = _MANIFEST.fullmatch(name)
    return int(found[1]) if found else None


def decode_version(data: bytes) -> int | None:
    """Return the number in `_version_`, or None when a crash left it empty or torn."""
    text = data.decode("ascii", "replace").strip()
    return int(text) if re.fullmatch("[0-9]{1,18}", text) else None


def encode_version(number: int) -> bytes:
    """Return the content of `_version_`."""
    return str(number).encode()


def decode_manifest(data: bytes) -> Manifest:
    """Return the content of a manifest, which names history files of its own folder alone."""
    found = from_wire(Manifest, jackson.decode(data))
    for file in found.files:
        table_path.entry(file.file_name)
    return found


def encode_manifest(manifest: Manifest) -> bytes:
    """Return the manifest as Hudi lays it out."""
    return jackson.encode(to_wire(manifest))


def decode_times(source: BinaryIO) -> dict[str, str]:
    """Return requested to completion times of the writes of a history file.

    The columns with contents are not read.
    """
    table = _read(source, _WITHOUT_CONTENT)
    requested, completed, actions = map(_values, table.columns)
    if None in requested or None in completed:
        raise Malformed("an archived instant has no requested or no completion time")
    return {
        time: done
        for time, done, action in zip(requested, completed, actions, strict=True)
        if action in WRITE_ACTIONS
    }


def decode_instants(source: BinaryIO, *, with_contents: bool) -> list[HistoryInstant]:
    """Return the instants of a history file in file order, on demand with the bytes of their files.

    Without contents `metadata` and `plan` are None throughout.
    """
    table = _read(source, _SCHEMA.names if with_contents else _WITHOUT_CONTENT)
    try:
        return [
            HistoryInstant(
                requested_time=_text(row["instantTime"]),
                completion_time=_text(row["completionTime"]),
                action=Action(row["action"]),
                metadata=_content(row.get("metadata")),
                plan=_content(row.get("plan")),
            )
            for row in _rows(table)
        ]
    except ValueError as cause:
        raise Malformed(f"an archived instant does not decode: {cause}") from cause


def instants_holding(source: BinaryIO, text: str) -> list[tuple[str, Action]]:
    """Return requested time and action of the instants in whose contents `text` occurs."""
    table = _read(source, ["instantTime", "action", "metadata"])
    wanted = text.encode()
    contents = _values(table.column("metadata"))
    try:
        holds = {id(value): wanted in (_content(value) or b"") for value in _once(contents)}
        return [
            (_text(row["instantTime"]), Action(row["action"]))
            for row, value in zip(_rows(table), contents, strict=True)
            if holds[id(value)]
        ]
    except ValueError as cause:
        raise Malformed(f"an archived instant does not decode: {cause}") from cause


def _write_ids(instants: Iterable[HistoryInstant]) -> set[str] | None:
    """Return the write ids of commits, or None when a content does not decode."""
    found = set()
    word = commit_metadata.WRITE_ID.encode()
    for instant in instants:
        if instant.action not in WRITE_ACTIONS or word not in (instant.metadata or b""):
            continue
        try:
            decoded = commit_metadata.decode_archived(
                instant.metadata or b"", is_replace=instant.action is Action.REPLACECOMMIT
            )
        except Malformed:
            return None
        write_id = decoded.extra_metadata.get(commit_metadata.WRITE_ID)
        found |= set() if write_id is None else {write_id}
    return found


def encode_instants(instants: Iterable[HistoryInstant]) -> bytes:
    """Return a history file, with the schema and footer of those that Hudi writes.

    It also says under which write ids commits in it were made; see `history_footer`.
    """
    instants = list(instants)
    rows = [
        {
            "instantTime": instant.requested_time,
            "completionTime": instant.completion_time,
            "action": instant.action.value,
            "metadata": instant.metadata,
            "plan": instant.plan,
            "version": 1,
        }
        for instant in instants
    ]
    footer: dict[bytes | str, bytes | str] = {
        "writer.model.name": "avro",
        "parquet.avro.schema": json.dumps(LSM_TIMELINE_INSTANT, separators=(",", ":")),
    }
    write_ids = _write_ids(instants)
    hashes = history_footer.sorted_hashes(write_ids or ())
    if write_ids is not None:
        footer[history_footer.WRITE_IDS] = history_footer.hash_count(hashes)
    sink = io.BytesIO()
    table = pa.Table.from_pylist(rows, schema=_SCHEMA.with_metadata(footer))
    pq.write_table(table, sink, compression="gzip", use_dictionary=False, version="1.0")
    return history_footer.with_hashes(sink.getvalue(), hashes)


def _read(source: BinaryIO, columns: list[str]) -> Any:
    try:
        shared = _refuse_bombs(source, columns)
        table = pq.ParquetFile(source, read_dictionary=shared).read(
            columns=columns, use_threads=False
        )
        missing = set(columns) - set(table.column_names)
        table = table.select([name for name in columns if name not in missing])
        table.validate(full=True)
    except (pa.ArrowException, OSError, ValueError, MemoryError) as cause:
        raise Malformed(f"this is no sound Parquet file: {cause}") from cause
    if missing:
        raise Malformed(f"a history file lacks the columns {sorted(missing)}")
    return table


def _refuse_bombs(source: BinaryIO, columns: Collection[str]) -> list[str]:
    """Return the columns in which a value may stand for so many rows that they need one copy.

    Raise `Malformed` when the columns unfold to more than what their file can honestly hold.
    """
    limit = most_inflated(source.seek(0, io.SEEK_END))
    metadata = pq.ParquetFile(source).metadata
    shared, unfolded = [], 0
    for group in map(metadata.row_group, range(metadata.num_row_groups)):
        for chunk in map(group.column, range(group.num_columns)):
            if chunk.path_in_schema not in columns:
                continue
            size_bytes = chunk.total_uncompressed_size
            unfolded += max(0, size_bytes)
            if chunk.has_dictionary_page and size_bytes * chunk.num_values > limit:
                shared.append(chunk.path_in_schema)
    if unfolded > limit:
        raise Malformed(f"a history file unfolds to {unfolded:,} bytes")
    return shared


def _rows(table: pa.Table) -> Iterator[dict[str, Any]]:
    for row in zip(*map(_values, table.columns), strict=True):
        yield dict(zip(table.column_names, row, strict=True))


def _values(column: pa.ChunkedArray) -> list[Any]:
    """Return the values of a column; those that are the same in a dictionary are one object."""
    if not pa.types.is_dictionary(column.type):
        return list(column.to_pylist())
    found = []
    for chunk in column.chunks:
        values = chunk.dictionary.to_pylist()
        found += [None if at is None else values[at] for at in chunk.indices.to_pylist()]
    return found


def _once(values: Iterable[Any]) -> Iterable[Any]:
    """Return each object of `values` once, however often it is there."""
    return {id(value): value for value in values}.values()


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{value!r} is no time")  # noqa: TRY004 - the caller joins it with others
    return value


def _content(value: object) -> bytes | None:
    if value is not None and not isinstance(value, bytes):
        raise ValueError(f"{value!s:.40} is no content of an instant")
    return value or None
