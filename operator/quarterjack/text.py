"""Text from outside (termination messages, API errors) made safe to store, log and show.

Credentials are masked, control characters escaped, the whole cut: in that order, so that neither a cut nor an escape can hide
a credential from the mask. Made safe once more, a text stays as it is.

Anybody may write the text, so no pattern may take long on any of it: each has one way to match, and its parts have bounds.
"""

from __future__ import annotations

import re
import unicodedata

LIMIT = 500
_USER = re.compile(r"://[^\s/]*@")
_CUT_USER = re.compile(r"://[^\s/]*\Z")
_KEY_VALUE = re.compile(
    r"(?P<key>(?:password|passwd|pwd|secret|token|api[_-]?key|access[_-]?key|credential|authorization)[\w.-]{0,64}+"
    r"\\{0,8}+[\"']?\s{0,64}+[=:]\s{0,64}+)"
    r"(?:(?:\\{0,8}+\"(?:[^\"\\]|\\[\s\S])*+(?:\"|\\?\Z)|\\{0,8}+'(?:[^'\\]|\\[\s\S])*+(?:'|\\?\Z))[^\s,;&…]*"
    r"|(?:bearer|basic|digest|negotiate|token)\s+\S*[^\s…]|[^\s,;&]*[^\s,;&…])",
    re.IGNORECASE,
)


def masked(text: str) -> str:
    """The text without the credentials in its URLs and key=value pairs."""
    text = _USER.sub("://***@", text)
    text = _KEY_VALUE.sub(r"\g<key>***", text)
    return _USER.sub("://***@", text)


def escaped(text: str) -> str:
    """The text in which control, format (bidirectional ones too) and line-separating characters are written as escapes."""
    return "".join(_escape(c) if unicodedata.category(c) in {"Cc", "Cf", "Cs", "Zl", "Zp"} else c for c in text)


def _escape(character: str) -> str:
    """What was white space still parts words."""
    return " " * character.isspace() + character.encode("unicode_escape").decode()


def safe(text: str, limit: int = LIMIT) -> str:
    """One line, masked, escaped and at most `limit` characters long."""
    most = 16 * limit
    part = text if len(text) <= most else _CUT_USER.sub("://", text[:most])
    line = escaped(masked(part.strip()))
    return shortened(line, limit)


def shortened(text: str, limit: int) -> str:
    """The text, cut where it is longer than `limit` characters."""
    return text if len(text) <= limit else text[: limit - 1] + "…"


def first_line(text: str) -> str:
    """The first line that is not blank: a run's summary."""
    return next((line for line in text.splitlines() if line.strip()), "")


def last_line(text: str) -> str:
    """The last line that is not blank: what a failure says of itself."""
    return next((line for line in reversed(text.splitlines()) if line.strip()), "")
