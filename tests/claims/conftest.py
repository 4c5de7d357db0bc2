"""A run of counters."""

import pytest
from counted_run import Run


@pytest.fixture
def run() -> Run:
    return Run()
