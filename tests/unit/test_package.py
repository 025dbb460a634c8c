from __future__ import annotations

import tidelake


def test_every_name_that_the_package_offers_is_there() -> None:
    for name in tidelake.__all__:
        assert getattr(tidelake, name) is not None
        assert name in dir(tidelake)
