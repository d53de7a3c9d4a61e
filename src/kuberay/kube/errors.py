"""What an API server refuses, as exceptions keyed by `Status.reason`.

    KubeError
    ├── TransportError            no answer: connection refused, reset, timed out, not TLS
    │   └── CredentialError       nothing was sent: a program that gives credentials failed
    ├── ConfigError               a kubeconfig or credential that cannot be used; says which file and field
    ├── DecodeError               an answer that is not what it has to be: no JSON, cut off, a field of the wrong type
    └── ApiError                  the server answered with a Status
        ├── BadRequest            400
        ├── Unauthorized          401
        ├── Forbidden             403
        ├── NotFound              404
        ├── MethodNotAllowed      405
        ├── AlreadyExists         409
        ├── Conflict              409
        ├── Expired               410 (reason Expired or Gone): list again
        ├── UnsupportedMediaType  415
        ├── Invalid               422
        ├── TooManyRequests       429
        ├── InternalError         500
        ├── ServiceUnavailable    503
        └── Timeout               504 (reason Timeout or ServerTimeout)

Match on the class, or on `status.reason`; never on the text of a message. The embedded API server raises the
same classes and renders them with `ApiError.status`, so both sides of the wire share one vocabulary.
"""

from __future__ import annotations

from typing import Any, ClassVar

import msgspec


class StatusCause(msgspec.Struct, rename="camel", omit_defaults=True, frozen=True):
    """One reason among several; `field` is a path into the object that was sent."""

    reason: str = ""
    message: str = ""
    field: str = ""


class StatusDetails(msgspec.Struct, rename="camel", omit_defaults=True, frozen=True):
    """What a Status is about."""

    name: str = ""
    group: str = ""
    kind: str = ""
    uid: str = ""
    causes: list[StatusCause] = []
    retry_after_seconds: int = 0


class Status(msgspec.Struct, rename="camel", omit_defaults=True, frozen=True):
    """The `v1.Status` object that carries every refusal (and some successes)."""

    status: str = ""
    message: str = ""
    reason: str = ""
    code: int = 0
    details: StatusDetails | None = None

    def to_dict(self) -> dict[str, Any]:
        """The object as it goes over the wire."""
        fields: dict[str, Any] = msgspec.to_builtins(self)
        return {"kind": "Status", "apiVersion": "v1", "metadata": {}, **fields}


class KubeError(Exception):
    """Anything that went wrong between us and an API server."""


class TransportError(KubeError):
    """There was no answer: whether the request took effect is unknown."""


class CredentialError(TransportError):
    """There are no credentials at the moment, so nothing was sent; trying again later may help."""


class ConfigError(KubeError):
    """A kubeconfig or credential that cannot be used."""


class DecodeError(KubeError):
    """The server answered, but with something that cannot be read; the message says what and shows its start."""


class ApiError(KubeError):
    """The server's refusal. `status` is what it said."""

    code: ClassVar[int] = 500
    reason: ClassVar[str] = "InternalError"

    def __init__(
        self, message: str = "", *, details: StatusDetails | None = None, status: Status | None = None
    ) -> None:
        self.status = status or Status(
            status="Failure", message=message, reason=self.reason, code=self.code, details=details
        )
        super().__init__(self.status.message or self.reason)

    @staticmethod
    def from_status(status: Status) -> ApiError:
        """The exception for a Status: by its reason, or by its HTTP code when the reason is unknown."""
        kind = _BY_REASON.get(status.reason) or _BY_CODE.get(status.code) or ApiError
        if status.reason == NotFound.reason and status.details is not None and status.details.name:
            kind = Missing
        return kind(status=status)


class BadRequest(ApiError):
    code = 400
    reason = "BadRequest"


class Unauthorized(ApiError):
    code = 401
    reason = "Unauthorized"


class Forbidden(ApiError):
    code = 403
    reason = "Forbidden"


class NotFound(ApiError):
    """There is nothing at a path, which tells nothing about any object: a server that does not know its kind says so,
    too, and so does whoever on the way does not know where the server is."""

    code = 404
    reason = "NotFound"


class Missing(NotFound):
    """There is no object of a name, says a server that knows its kind."""


class MethodNotAllowed(ApiError):
    code = 405
    reason = "MethodNotAllowed"


class AlreadyExists(ApiError):
    code = 409
    reason = "AlreadyExists"


class Conflict(ApiError):
    code = 409
    reason = "Conflict"


class Expired(ApiError):
    code = 410
    reason = "Expired"


class UnsupportedMediaType(ApiError):
    code = 415
    reason = "UnsupportedMediaType"


class Invalid(ApiError):
    code = 422
    reason = "Invalid"


class TooManyRequests(ApiError):
    code = 429
    reason = "TooManyRequests"


class InternalError(ApiError):
    code = 500
    reason = "InternalError"


class ServiceUnavailable(ApiError):
    code = 503
    reason = "ServiceUnavailable"


class Timeout(ApiError):
    code = 504
    reason = "Timeout"


_ALL: tuple[type[ApiError], ...] = (
    BadRequest, Unauthorized, Forbidden, NotFound, MethodNotAllowed, AlreadyExists, Conflict, Expired,
    UnsupportedMediaType, Invalid, TooManyRequests, InternalError, ServiceUnavailable, Timeout,
)  # fmt: skip
_BY_REASON: dict[str, type[ApiError]] = {kind.reason: kind for kind in _ALL} | {
    "Gone": Expired,
    "ServerTimeout": Timeout,
}
# Conflict, not AlreadyExists, is what a bare 409 means.
_BY_CODE: dict[int, type[ApiError]] = {kind.code: kind for kind in _ALL}


def is_passing(error: KubeError) -> bool:
    """Whether a refusal says nothing about what was to be written, so that the same write may succeed in a moment."""
    if isinstance(error, Missing):
        return False
    if isinstance(error, ApiError):
        return error.status.code >= 500 or isinstance(error, NotFound | Conflict | TooManyRequests | Unauthorized)
    return True
