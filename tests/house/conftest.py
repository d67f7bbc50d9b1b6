"""The control plane with the CRDs, and kubectl, as the tests of the CRDs have them."""

from tests.crds.conftest import kubectl, served

__all__ = ["kubectl", "served"]
