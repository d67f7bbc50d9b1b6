"""Helm without a cluster."""

from __future__ import annotations

import pytest

from tests.chart.helm import Helm


@pytest.fixture(scope="session")
def helm(tmp_path_factory: pytest.TempPathFactory) -> Helm:
    """Helm that knows no cluster."""
    return Helm(tmp_path_factory.mktemp("helm"))
