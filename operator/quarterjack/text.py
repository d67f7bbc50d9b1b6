"""Text from outside (termination messages, API errors) made safe to store, log and show.

Control characters are escaped, credentials masked, the whole cut: in that order, so that neither a cut nor an escape can hide
a credential from the mask.
"""

from __future__ import annotations

import re
import unicodedata

LIMIT = 500
_URL_CREDENTIALS = re.compile(r"(?P<scheme>[a-zA-Z][a-zA-Z0-9+.-]*://)[^\s/@]*:[^\s/]*@")
_KEY_VALUE = re.compile(
    r"(?P<key>[\w.-]*(?:password|passwd|pwd|secret|token|api[_-]?key|access[_-]?key|credential|authorization)[\w.-]*"
    r"[\"']?\s*[=:]\s*)(?P<value>\"[^\"]*\"|'[^']*'|(?:bearer|basic)\s+\S+|[^\s,;&]+)",
    re.IGNORECASE,
)


def masked(text: str) -> str:
    """The text without the credentials in its URLs and key=value pairs."""
    text = _URL_CREDENTIALS.sub(r"\g<scheme>***@", text)
    return _KEY_VALUE.sub(r"\g<key>***", text)


def escaped(text: str) -> str:
    """The text in which control, format (bidirectional ones too) and line-separating characters are written as escapes."""
    return "".join(
        c.encode("unicode_escape").decode() if unicodedata.category(c) in {"Cc", "Cf", "Cs", "Zl", "Zp"} else c
        for c in text
    )


def safe(text: str, limit: int = LIMIT) -> str:
    """One line, masked, escaped and at most `limit` characters long."""
    line = escaped(masked(text[: 16 * limit].strip()))
    return line if len(line) <= limit else line[: limit - 1] + "…"


def first_line(text: str) -> str:
    """The first line that is not blank: a run's summary."""
    return next((line for line in text.splitlines() if line.strip()), "")


def last_line(text: str) -> str:
    """The last line that is not blank: what a failure says of itself."""
    return next((line for line in reversed(text.splitlines()) if line.strip()), "")
