"""What can go wrong that a caller must tell apart."""

from __future__ import annotations


class QuarterjackError(Exception):
    """Base of our errors."""


class SettingsError(QuarterjackError):
    """A flag or its environment variable has a value that cannot serve; names both."""


class CredentialsError(QuarterjackError):
    """No usable credentials for the API server, or an address that would send them in the clear."""


class ApiError(QuarterjackError):
    """The API server said no where nothing but yes lets us go on (lists and watches)."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"{status}: {message}")
        self.status = status


class Gone(ApiError):
    """410: the revision asked for is too old; list again."""
