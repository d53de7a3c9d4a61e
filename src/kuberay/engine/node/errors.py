"""What can go wrong between the engine and its helper process.

EngineError
├── NodeUnavailable     (kuberay.engine.errors) the machine does not allow what Pods need; raised at start
└── NodeError
    ├── HelperGone      the helper process ended: every Pod ended with it
    └── HelperRefused   one request failed; the message says which system call and why
        └── StartFailed a container could not be started: a mount, its working directory or its command
"""

from __future__ import annotations

from kuberay.engine.errors import EngineError


class NodeError(EngineError):
    """Something about this node that is not the user's Pod's fault."""


class HelperGone(NodeError):
    """The helper process ended, and with it every Pod."""


class HelperRefused(NodeError):
    """The helper could not do what it was asked; it goes on."""


class StartFailed(HelperRefused):
    """A process could not be started in its namespaces."""
