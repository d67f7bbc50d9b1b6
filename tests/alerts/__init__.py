"""Alerts and dashboards: that they ask for what is served, and that each alert fires and ends."""
