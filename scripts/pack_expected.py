"""Pack a folder of expected answers into `tests/golden/expected.zip`, byte for byte reproducible.

Usage: python scripts/pack_expected.py FOLDER
"""

from __future__ import annotations

import json
import sys
import zipfile
from pathlib import Path

TARGET = Path(__file__).parent.parent / "tests" / "golden" / "expected.zip"


def main() -> None:
    """Write every `*.json` of the folder, compacted, under a fixed date."""
    with zipfile.ZipFile(TARGET, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as packed:
        for path in sorted(Path(sys.argv[1]).glob("*.json")):
            text = json.dumps(json.loads(path.read_text()), separators=(",", ":"))
            packed.writestr(
                zipfile.ZipInfo(path.name),
                text,
                compress_type=zipfile.ZIP_DEFLATED,
                compresslevel=9,
            )


if __name__ == "__main__":
    main()
