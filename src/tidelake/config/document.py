"""The options page of the documentation, made from the registry so that it cannot drift."""

from __future__ import annotations

from tidelake.config.keys import read_keys as keys
from tidelake.config.keys import write_keys
from tidelake.config.keys.key import Key, Kind, Scope

_HEAD = """\
# Options and table properties

Made from `keys.py`, `write_keys.py` and `concurrency_keys.py` of `src/tidelake/config` by
`python -m tidelake.config > docs/options.md`.
Names and meanings are Apache Hudi's; a name marked *(ours)* exists only in tidelake.
"""

_READING = """
## Options of a read

Give them to `Table.open(..., options={...})`, or to `.option(...)` of the `tidelake` data source.
Unknown options that look like a misspelt one are refused, and so are contradictions; other
`hoodie.*` options (a writer's) are ignored with a warning. Options below `fs.`, `aws_`, `google_`
and `azure_` go to the storage; options below `hoodie.payload.` and `hoodie.record.merge.property.`
go to the merge of records.
"""

_WRITING = """
## Options of a write

Give them to `Table.create`, to `options={...}` of each write, or to `.option(...)` of the
`tidelake` data source. Options that describe the table create it with the first write, and must
agree with it from then on. Misspelt options are refused; `hoodie.*` options of services that a
write does not run are ignored. Options below `hoodie.keygen.timebased.` go to the timestamp key
generator.
"""

_TABLE = """
## Properties of a table

What tidelake reads from `.hoodie/hoodie.properties`. Properties below `hoodie.keygen.timebased.`
and `hoodie.record.merge.property.` are read too.
"""


def options_page() -> str:
    """Return the page in Markdown."""
    return "".join(
        (
            _HEAD,
            _READING,
            _rows([key for key in keys.ALL if key.scope is Scope.READ]),
            "\nRefused, because ignoring them would change the answer:\n\n",
            *(f"- `{name}`: {instead}\n" for name, instead in keys.REFUSED.items()),
            _WRITING,
            _rows(list(write_keys.ALL)),
            "\nRefused, because ignoring them would change what is written:\n\n",
            *(f"- `{name}`: {instead}\n" for name, instead in write_keys.REFUSED.items()),
            _TABLE,
            _rows([key for key in keys.ALL if key.scope is Scope.TABLE]),
        )
    )


def _rows(listed: list[Key]) -> str:
    lines = ["", "| name | values | default | meaning |", "|---|---|---|---|"]
    lines += [f"| {_name(key)} | {_values(key)} | {_default(key)} | {key.doc} |" for key in listed]
    return "\n".join(lines) + "\n"


def _name(key: Key) -> str:
    aliases = "".join(f", also `{alias}`" for alias in key.aliases)
    return f"`{key.name}`{' *(ours)*' if key.ours else ''}{aliases}"


def _values(key: Key) -> str:
    if key.choices:
        return ", ".join(f"`{choice}`" for choice in key.choices)
    return {Kind.LIST: "comma list", Kind.WORD: "class name"}.get(key.kind, key.kind.value)


def _default(key: Key) -> str:
    return f"`{key.default}`" if key.default is not None else ""
