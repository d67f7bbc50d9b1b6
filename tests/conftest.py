"""Fixtures for all tests, their order, and how hypothesis searches."""

from hypothesis import HealthCheck, settings

pytest_plugins = ["tests.house.order", "tests.house.turns", "tests.cluster.fixtures"]

# The same search on each machine, however fast it is: speed says nothing about the code.
settings.register_profile("steady", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("steady")
