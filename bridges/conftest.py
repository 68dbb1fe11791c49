"""Assertions of `checks` and `scripted` explain themselves, as those of the tests."""

import pytest

pytest.register_assert_rewrite("checks", "scripted")
