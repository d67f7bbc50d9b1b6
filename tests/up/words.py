"""What is said to the person who typed `make up`."""

from __future__ import annotations

import sys


def say(text: str) -> None:
    """One line of progress."""
    print(f"  {text}", file=sys.stderr, flush=True)


def headline(text: str) -> None:
    """The name of the next step."""
    print(f"> {text}", file=sys.stderr, flush=True)
