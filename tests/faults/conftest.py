"""Faults are tried on daemons that were started as the command starts them; in a soak all of them are.

Otherwise a file whose faults are not about how the process starts says `LOADED = True`: its daemons get their modules
from the forge, and a test in it that is about a start sets `home.from_nothing`.
"""

from __future__ import annotations

import pytest

from tests.conftest import Home
from tests.faults.agreement import SOAK


@pytest.fixture
def home(home: Home, request: pytest.FixtureRequest) -> Home:
    home.from_nothing = SOAK or not getattr(request.module, "LOADED", False)
    home.collections = True
    return home
