"""Edited runs."""

from edited import edited  # noqa: F401, a fixture
