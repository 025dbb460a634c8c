"""The Avro schemas of Hudi's timeline, field by field and in Hudi's spelling.

The JSON text of each is, byte for byte, what Apache Hudi 1.x embeds in its files; oddities such as
a default inside a map type are kept for that reason.
"""

from __future__ import annotations

from typing import Any

NAMESPACE = "org.apache.hudi.avro.model"

Schema = dict[str, Any]
_Type = Any
_NO_DEFAULT = object()

_JAVA_STRING = {"avro.java.string": "String"}
_STRING: Schema = {"type": "string", **_JAVA_STRING}
_STRINGS: Schema = {"type": "array", "items": _STRING}


def _map(values: _Type, **extra: Any) -> Schema:
    return {"type": "map", "values": values, **_JAVA_STRING, **extra}


def _array(items: _Type, **extra: Any) -> Schema:
    return {"type": "array", "items": items, **extra}


def _field(name: str, kind: _Type, default: Any = _NO_DEFAULT, *, doc: str | None = None) -> Schema:
    entry: Schema = {"name": name, "type": kind}
    if doc is not None:
        entry["doc"] = doc
    if default is not _NO_DEFAULT:
        entry["default"] = default
    return entry


def _optional(name: str, kind: _Type, *, doc: str | None = None) -> Schema:
    return _field(name, ["null", kind], None, doc=doc)


def _record(name: str, *fields: Schema) -> Schema:
    return {"type": "record", "name": name, "fields": list(fields)}


def _top(record: Schema) -> Schema:
    return {
        "type": "record",
        "name": record["name"],
        "namespace": NAMESPACE,
        "fields": record["fields"],
    }


_VERSION = _field("version", ["int", "null"], 1)
_EXTRA_METADATA = _optional("extraMetadata", _map(_STRING))
_EXTRA_METADATA_WITH_DEFAULT = _optional("extraMetadata", _map(_STRING, default=None))
_MISSING_SCHEDULE_PARTITIONS = _optional("missingSchedulePartitions", _STRINGS)

_WRITE_STAT = _record(
    "HoodieWriteStat",
    _optional("fileId", _STRING),
    _optional("path", _STRING),
    _optional("prevCommit", _STRING),
    _optional("numWrites", "long"),
    _optional("numDeletes", "long"),
    _optional("numUpdateWrites", "long"),
    _optional("totalWriteBytes", "long"),
    _optional("totalWriteErrors", "long"),
    _optional("partitionPath", _STRING),
    _optional("totalLogRecords", "long"),
    _optional("totalLogFiles", "long"),
    _optional("totalUpdatedRecordsCompacted", "long"),
    _optional("numInserts", "long"),
    _optional("totalLogBlocks", "long"),
    _optional("totalCorruptLogBlock", "long"),
    _optional("totalRollbackBlocks", "long"),
    _optional("fileSizeInBytes", "long"),
    _optional("logVersion", "int"),
    _optional("logOffset", "long"),
    _optional("baseFile", _STRING),
    _optional("logFiles", _array(_STRING, default=None)),
    _optional("cdcStats", _map("long", default=None)),
    _optional("prevBaseFile", _STRING),
    _optional("minEventTime", "long"),
    _optional("maxEventTime", "long"),
    _optional(
        "runtimeStats",
        _record(
            "HoodieRuntimeStats",
            _optional("totalScanTime", "long"),
            _optional("totalCreateTime", "long"),
            _optional("totalUpsertTime", "long"),
        ),
    ),
    _optional("totalLogFilesCompacted", "long"),
    _optional("totalLogReadTimeMs", "long"),
    _optional("totalLogSizeCompacted", "long"),
    _optional("tempPath", _STRING),
    _optional("numUpdates", "long"),
)

_PARTITION_TO_WRITE_STATS = _optional("partitionToWriteStats", _map(_array(_WRITE_STAT)))

COMMIT_METADATA = _top(
    _record(
        "HoodieCommitMetadata",
        _PARTITION_TO_WRITE_STATS,
        _optional("compacted", "boolean"),
        _EXTRA_METADATA_WITH_DEFAULT,
        _VERSION,
        _optional("operationType", _STRING),
    )
)

REPLACE_COMMIT_METADATA = _top(
    _record(
        "HoodieReplaceCommitMetadata",
        _PARTITION_TO_WRITE_STATS,
        _optional("compacted", "boolean"),
        _EXTRA_METADATA,
        _VERSION,
        _optional("operationType", _STRING),
        _optional("partitionToReplaceFileIds", _map(_STRINGS)),
    )
)

_COMPACTION_STRATEGY = _record(
    "HoodieCompactionStrategy",
    _optional(
        "compactorClassName",
        _STRING,
        doc="The class name that is provided here should extend CompactionExecutionStrategy "
        "abstract class, idea is that the plan generator will also provide the execution "
        "strategy to use.",
    ),
    _optional(
        "strategyParams",
        _map(_STRING),
        doc="These parameters play a key role in determining which action type it is i.e. "
        "compaction or logcompaction and it will also include configs that determine how "
        "compaction needs to be executed.",
    ),
    _VERSION,
)

COMPACTION_PLAN = _top(
    _record(
        "HoodieCompactionPlan",
        _optional(
            "operations",
            _array(
                _record(
                    "HoodieCompactionOperation",
                    _field("baseInstantTime", ["null", _STRING]),
                    _optional("deltaFilePaths", _STRINGS),
                    _optional("dataFilePath", _STRING),
                    _field("fileId", ["null", _STRING]),
                    _optional("partitionPath", _STRING),
                    _optional("metrics", _map("double")),
                    _optional("bootstrapFilePath", _STRING),
                )
            ),
        ),
        _EXTRA_METADATA,
        _VERSION,
        _optional("strategy", _COMPACTION_STRATEGY),
        _field("preserveHoodieMetadata", ["boolean", "null"], False),
        _MISSING_SCHEDULE_PARTITIONS,
    )
)

REQUESTED_REPLACE_METADATA = _top(
    _record(
        "HoodieRequestedReplaceMetadata",
        _optional("operationType", _STRING),
        _optional(
            "clusteringPlan",
            _record(
                "HoodieClusteringPlan",
                _optional(
                    "inputGroups",
                    _array(
                        _record(
                            "HoodieClusteringGroup",
                            _optional(
                                "slices",
                                _array(
                                    _record(
                                        "HoodieSliceInfo",
                                        _optional("dataFilePath", _STRING),
                                        _optional("deltaFilePaths", _STRINGS),
                                        _field("fileId", ["null", _STRING]),
                                        _optional("partitionPath", _STRING),
                                        _optional("bootstrapFilePath", _STRING),
                                        _VERSION,
                                    )
                                ),
                            ),
                            _optional("metrics", _map("double")),
                            _field("numOutputFileGroups", ["int", "null"], 1),
                            _EXTRA_METADATA,
                            _VERSION,
                        )
                    ),
                ),
                _optional(
                    "strategy",
                    _record(
                        "HoodieClusteringStrategy",
                        _optional("strategyClassName", _STRING),
                        _optional("strategyParams", _map(_STRING)),
                        _VERSION,
                    ),
                ),
                _EXTRA_METADATA,
                _VERSION,
                _optional("preserveHoodieMetadata", "boolean"),
                _MISSING_SCHEDULE_PARTITIONS,
            ),
        ),
        _EXTRA_METADATA,
        _VERSION,
    )
)

CLEANER_PLAN = _top(
    _record(
        "HoodieCleanerPlan",
        _optional(
            "earliestInstantToRetain",
            _record(
                "HoodieActionInstant",
                _field("timestamp", _STRING),
                _field("action", _STRING),
                _field("state", _STRING),
            ),
        ),
        _field("lastCompletedCommitTimestamp", _STRING, ""),
        _field("policy", _STRING),
        _optional("filesToBeDeletedPerPartition", _map(_STRINGS)),
        _VERSION,
        _optional(
            "filePathsToBeDeletedPerPartition",
            _map(
                _array(
                    _record(
                        "HoodieCleanFileInfo",
                        _optional("filePath", _STRING),
                        _optional("isBootstrapBaseFile", "boolean"),
                    )
                )
            ),
            doc="This field replaces the field filesToBeDeletedPerPartition",
        ),
        _optional("partitionsToBeDeleted", _STRINGS, doc="partitions to be deleted"),
        _EXTRA_METADATA_WITH_DEFAULT,
    )
)

CLEAN_METADATA = _top(
    _record(
        "HoodieCleanMetadata",
        _field("startCleanTime", _STRING),
        _field("timeTakenInMillis", "long"),
        _field("totalFilesDeleted", "int"),
        _field("earliestCommitToRetain", _STRING),
        _field("lastCompletedCommitTimestamp", _STRING, ""),
        _field(
            "partitionMetadata",
            _map(
                _record(
                    "HoodieCleanPartitionMetadata",
                    _field("partitionPath", _STRING),
                    _field("policy", _STRING),
                    _field("deletePathPatterns", _STRINGS),
                    _field("successDeleteFiles", _STRINGS),
                    _field("failedDeleteFiles", _STRINGS),
                    _optional("isPartitionDeleted", "boolean"),
                )
            ),
        ),
        _VERSION,
        _optional("bootstrapPartitionMetadata", _map("HoodieCleanPartitionMetadata", default=None)),
        _EXTRA_METADATA_WITH_DEFAULT,
    )
)

_INSTANT_INFO = _record(
    "HoodieInstantInfo", _field("commitTime", _STRING), _field("action", _STRING)
)

ROLLBACK_PLAN = _top(
    _record(
        "HoodieRollbackPlan",
        _optional(
            "instantToRollback", _INSTANT_INFO, doc="Hoodie instant that needs to be rolled back"
        ),
        _optional(
            "RollbackRequests",
            _array(
                _record(
                    "HoodieRollbackRequest",
                    _field("partitionPath", _STRING),
                    _optional("fileId", _STRING),
                    _optional("latestBaseInstant", _STRING),
                    _field("filesToBeDeleted", _array(_STRING, default=[]), []),
                    _optional("logBlocksToBeDeleted", _map("long")),
                )
            ),
        ),
        _VERSION,
    )
)

_ROLLBACK_METADATA = _record(
    "HoodieRollbackMetadata",
    _field("startRollbackTime", _STRING),
    _field("timeTakenInMillis", "long"),
    _field("totalFilesDeleted", "int"),
    _field("commitsRollback", _STRINGS),
    _field(
        "partitionMetadata",
        _map(
            _record(
                "HoodieRollbackPartitionMetadata",
                _field("partitionPath", _STRING),
                _field("successDeleteFiles", _STRINGS),
                _field("failedDeleteFiles", _STRINGS),
                _optional("rollbackLogFiles", _map("long")),
                _optional("logFilesFromFailedCommit", _map("long")),
            )
        ),
    ),
    _VERSION,
    _field("instantsRollback", _array(_INSTANT_INFO, default=[]), []),
)

ROLLBACK_METADATA = _top(_ROLLBACK_METADATA)

RESTORE_PLAN = _top(
    _record(
        "HoodieRestorePlan",
        _field("instantsToRollback", _array(_INSTANT_INFO, default=None), []),
        _field("version", ["int", "null"], 2),
        _optional("savepointToRestoreTimestamp", _STRING),
    )
)

RESTORE_METADATA = _top(
    _record(
        "HoodieRestoreMetadata",
        _field("startRestoreTime", _STRING),
        _field("timeTakenInMillis", "long"),
        _field("instantsToRollback", _STRINGS),
        _field("hoodieRestoreMetadata", _map(_array(["null", _ROLLBACK_METADATA], default=None))),
        _VERSION,
        _field("restoreInstantInfo", _array("HoodieInstantInfo", default=None), []),
    )
)

SAVEPOINT_METADATA = _top(
    _record(
        "HoodieSavepointMetadata",
        _field("savepointedBy", _STRING),
        _field("savepointedAt", "long"),
        _field("comments", _STRING),
        _field(
            "partitionMetadata",
            _map(
                _record(
                    "HoodieSavepointPartitionMetadata",
                    _field("partitionPath", _STRING),
                    _field("savepointDataFile", _STRINGS),
                )
            ),
        ),
        _VERSION,
    )
)

_INDEX_PARTITION_INFO = _record(
    "HoodieIndexPartitionInfo",
    _VERSION,
    _optional("metadataPartitionPath", _STRING),
    _optional("indexUptoInstant", _STRING),
    _EXTRA_METADATA,
)
_MISPLACED_DOC = "This field replaces the field filesToBeDeletedPerPartition"

INDEX_PLAN = _top(
    _record(
        "HoodieIndexPlan",
        _VERSION,
        _optional("indexPartitionInfos", _array(_INDEX_PARTITION_INFO)),
    )
)

INDEX_COMMIT_METADATA = _top(
    _record(
        "HoodieIndexCommitMetadata",
        _field("version", ["int", "null"], 1, doc=_MISPLACED_DOC),
        _optional("operationType", _STRING, doc=_MISPLACED_DOC),
        _optional(
            "indexPartitionInfos",
            _array(_INDEX_PARTITION_INFO),
            doc="This field contains the info for each partition that got indexed",
        ),
    )
)

LSM_TIMELINE_INSTANT = _top(
    _record(
        "HoodieLSMTimelineInstant",
        _optional("instantTime", _STRING),
        _optional("completionTime", _STRING),
        _optional("action", _STRING),
        _optional("metadata", "bytes"),
        _optional("plan", "bytes"),
        _field("version", "int", 1),
    )
)


def _naming_once(schema: _Type, seen: set[str]) -> _Type:
    """Return the schema with every record spelled where it comes first, and named after that."""
    if isinstance(schema, list):
        return [_naming_once(branch, seen) for branch in schema]
    if not isinstance(schema, dict):
        return schema
    if schema.get("type") == "record":
        if schema["name"] in seen:
            return schema["name"]
        seen.add(schema["name"])
        fields = [{**f, "type": _naming_once(f["type"], seen)} for f in schema["fields"]]
        return {"type": "record", "name": schema["name"], "fields": fields}
    inner = {key: _naming_once(schema[key], seen) for key in ("items", "values") if key in schema}
    return {**schema, **inner}


_COMPACTION_METADATA = _record(
    "HoodieCompactionMetadata",
    _field(
        "partitionToCompactionWriteStats",
        [
            "null",
            _map(
                _array(
                    _record(
                        "HoodieCompactionWriteStat",
                        _optional("partitionPath", _STRING),
                        _optional("totalLogRecords", "long"),
                        _optional("totalLogFiles", "long"),
                        _optional("totalUpdatedRecordsCompacted", "long"),
                        _optional("hoodieWriteStat", _WRITE_STAT),
                    )
                )
            ),
        ],
    ),
)

ARCHIVED_META_ENTRY = _top(
    _naming_once(
        _record(
            "HoodieArchivedMetaEntry",
            _optional("hoodieCommitMetadata", COMMIT_METADATA),
            _optional("hoodieCleanMetadata", CLEAN_METADATA),
            _optional("hoodieCompactionMetadata", _COMPACTION_METADATA),
            _optional("hoodieRollbackMetadata", ROLLBACK_METADATA),
            _optional("hoodieSavePointMetadata", SAVEPOINT_METADATA),
            _optional("commitTime", _STRING),
            _optional("actionType", _STRING),
            _VERSION,
            _optional("hoodieCompactionPlan", COMPACTION_PLAN),
            _optional("hoodieCleanerPlan", CLEANER_PLAN),
            _optional("actionState", _STRING),
            _optional("hoodieReplaceCommitMetadata", REPLACE_COMMIT_METADATA),
            _optional("hoodieRequestedReplaceMetadata", REQUESTED_REPLACE_METADATA),
            _optional("HoodieInflightReplaceMetadata", COMMIT_METADATA),
            _optional("hoodieIndexCommitMetadata", INDEX_COMMIT_METADATA),
            _optional("stateTransitionTime", _STRING),
        ),
        set(),
    )
)
