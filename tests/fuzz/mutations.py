"""Damage done to bytes, the same for the same seed."""

from __future__ import annotations

from random import Random  # noqa: TID251 - every instance is seeded

#: Numbers at which lengths and counts go wrong.
_NUMBERS = (0, 1, 0x7F, 0x80, 0xFF, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 2**63 - 1)


def mutate(data: bytes, seed: str) -> bytes:
    """Return `data` flipped, cut or spliced; never equal to `data` unless it is empty."""
    random = Random(seed)
    for _ in range(20):
        changed = random.choice(_KINDS)(data, random)
        if changed != data:
            return changed
    return data[:-1]


def truncate(data: bytes, seed: str) -> bytes:
    """Return the beginning of `data`, more often than not nearly all of it."""
    random = Random(seed)
    return _truncate(data, random)


def _flip(data: bytes, random: Random) -> bytes:
    changed = bytearray(data)
    for _ in range(random.choice((1, 1, 1, 2, 8))):
        if changed:
            changed[_place(changed, random)] ^= 1 << random.randrange(8)
    return bytes(changed)


def _overwrite(data: bytes, random: Random) -> bytes:
    if not data:
        return b"\0"
    size = random.choice((1, 2, 4, 8))
    number = random.choice(_NUMBERS) & (256**size - 1)
    at = _place(data, random)
    changed = bytearray(data)
    changed[at : at + size] = number.to_bytes(size, random.choice(("big", "little")))
    return bytes(changed[: len(data)])


def _truncate(data: bytes, random: Random) -> bytes:
    if not data:
        return data
    tail = random.choice((1, 4, 20, 200, len(data)))
    return data[: len(data) - random.randint(1, min(tail, len(data)))]


def _splice(data: bytes, random: Random) -> bytes:
    """Copy, move or drop a piece, or put in noise."""
    if not data:
        return random.randbytes(16)
    start, end = sorted(random.randrange(len(data) + 1) for _ in range(2))
    end = min(end, start + 4096)
    piece = random.choice(
        (data[start:end], random.randbytes(end - start), b"", data[start:end] * 3)
    )
    at = random.randrange(len(data) + 1)
    if random.random() < 0.5:
        return data[:at] + piece + data[at:]
    return data[:at] + piece + data[at + len(piece) :] if piece else data[:start] + data[end:]


def _place(data: bytes | bytearray, random: Random) -> int:
    # Lengths and counts stand at the ends, and content is most of the middle.
    near = min(len(data), random.choice((16, 256, len(data))))
    at = random.randrange(near)
    return at if random.random() < 0.5 else len(data) - 1 - at


_KINDS = (_flip, _flip, _overwrite, _overwrite, _truncate, _splice)
