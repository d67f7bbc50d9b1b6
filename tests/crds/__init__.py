"""Tests of crds/ and examples/, and the wrong manifests that the operator's tests use too."""
