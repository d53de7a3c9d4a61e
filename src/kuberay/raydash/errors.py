"""What can go wrong when Ray is asked.

DashboardError
├── Unreachable     no answer: refused, reset, timed out, not HTTP
└── Refused         an answer that is not what was asked for: an error code, or a body that is no answer
"""

from __future__ import annotations


class DashboardError(Exception):
    """Ray could not be asked, or did not answer the question."""


class Unreachable(DashboardError):
    """There was no answer."""


class Refused(DashboardError):
    """Ray answered, but not the question."""
