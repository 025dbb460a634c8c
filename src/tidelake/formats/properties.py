"""Java properties files, and the checksum that Hudi keeps in `hoodie.properties`."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable, Mapping
from datetime import datetime, timezone

from tidelake.errors import Malformed

_BLANKS = " \t\f"
_UNESCAPED = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_ESCAPED = {
    "\t": "\\t",
    "\n": "\\n",
    "\r": "\\r",
    "\f": "\\f",
    "\\": "\\\\",
    ":": "\\:",
    "=": "\\=",
    "#": "\\#",
    "!": "\\!",
}
_SEPARATOR = re.compile(r"[ \t\f]*[=:]?[ \t\f]*")
_KEY = re.compile(r"(?:\\.|[^\\=: \t\f])*", re.DOTALL)
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|u|.|$)", re.DOTALL)


def decode(data: bytes) -> dict[str, str]:
    """Return the entries as `java.util.Properties` reads them; a later entry wins."""
    entries = {}
    for line in _logical_lines(data.decode("iso-8859-1")):
        key = _KEY.match(line)
        assert key is not None  # the pattern matches the empty text
        separator = _SEPARATOR.match(line, key.end())
        assert separator is not None  # so does this one
        entries[_unescaped(key[0])] = _unescaped(line[separator.end() :])
    return entries


def encode(entries: Mapping[str, str], comments: Iterable[str] = ()) -> bytes:
    """Return the file as `java.util.Properties` stores it, with `comments` as its first lines."""
    lines = [f"#{comment}" for comment in comments]
    lines += [
        f"{_escaped(key, all_spaces=True)}={_escaped(value, all_spaces=False)}"
        for key, value in entries.items()
    ]
    return "".join(f"{line}\n" for line in lines).encode("iso-8859-1")


def java_date(epoch_ms: int) -> str:
    """Return the moment as `java.util.Date` prints it in UTC: the comment of every such file."""
    moment = datetime.fromtimestamp(epoch_ms / 1000, timezone.utc)
    # Spelt out because strftime follows the locale.
    day = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")[moment.weekday()]
    months = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
    month = months[moment.month - 1]
    return f"{day} {month} {moment.day:02d} {moment:%H:%M:%S} UTC {moment.year}"


def table_checksum(name: str, database: str | None) -> int:
    """Return what `hoodie.table.checksum` must be; it covers the table's names and nothing else."""
    return zlib.crc32(f"{database or ''}.{name}".encode())


def _logical_lines(text: str) -> Iterable[str]:
    continued = ""
    for natural in re.split(r"\r\n|\n|\r", text):
        line = natural.lstrip(_BLANKS)
        if not continued and (not line or line[0] in "#!"):
            continue
        backslashes = len(line) - len(line.rstrip("\\"))
        if backslashes % 2:
            continued += line[:-1]
            continue
        yield continued + line
        continued = ""
    if continued:
        yield continued


def _unescaped(text: str) -> str:
    if "\\" not in text:
        return text
    plain = _ESCAPE.sub(_unescape, text)
    # Characters beyond the basic plane are stored as two escapes, one for each surrogate.
    return plain.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _unescape(found: re.Match[str]) -> str:
    code = found[1]
    if code == "u":
        raise Malformed(f"\\u at {found.start()} is not followed by four hexadecimal digits")
    if len(code) == 5:
        return chr(int(code[1:], 16))
    return _UNESCAPED.get(code, code)


def _escaped(text: str, *, all_spaces: bool) -> str:
    out = []
    for at, char in enumerate(text):
        if char == " ":
            out.append("\\ " if all_spaces or at == 0 else " ")
        elif char in _ESCAPED:
            out.append(_ESCAPED[char])
        elif " " < char <= "~":
            out.append(char)
        else:
            units = char.encode("utf-16-be", "surrogatepass")
            out += [f"\\u{units[i : i + 2].hex().upper()}" for i in range(0, len(units), 2)]
    return "".join(out)
