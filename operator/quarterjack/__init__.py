"""Quarterjack: scheduled jobs on Kubernetes that run once per firing."""

__version__ = "0.1.0"
