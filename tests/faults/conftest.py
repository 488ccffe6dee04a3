"""Faults are tried on daemons that were started as the command starts them."""

from __future__ import annotations

import pytest

from tests.conftest import Home


@pytest.fixture
def home(home: Home) -> Home:
    home.from_nothing = True
    return home
