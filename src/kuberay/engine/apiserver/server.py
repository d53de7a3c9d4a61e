"""The API server without sockets: a request as data goes in, a response or a stream comes out.

`http.HttpFront` serves it over HTTPS and `transport.InProcessTransport` inside the process; both get the same answers.
A request is worked on without interruption and then waits until what it saw and wrote is durable.
"""

from __future__ import annotations

import logging
import random
import uuid
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import orjson

from kuberay.engine.apiserver import answers, bodies, pods
from kuberay.engine.apiserver.answers import Form, StreamAnswer, json_answer, list_answer, object_answer
from kuberay.engine.apiserver.builtin import builtin_kinds
from kuberay.engine.apiserver.deletion import DeleteOptions, parse_options
from kuberay.engine.apiserver.discovery import Discovery
from kuberay.engine.apiserver.objects import SYSTEM_NAMESPACES, Objects
from kuberay.engine.apiserver.openapi import OpenApi
from kuberay.engine.apiserver.registry import Registry
from kuberay.engine.apiserver.requests import MISSING, Query, Selection, Target, find_target
from kuberay.engine.apiserver.schema import custom_schema
from kuberay.engine.apiserver.watch import Watch
from kuberay.kube.errors import (
    ApiError,
    BadRequest,
    Expired,
    InternalError,
    Invalid,
    MethodNotAllowed,
    NotFound,
    Status,
    StatusCause,
    StatusDetails,
    Timeout,
)
from kuberay.kube.resources import NAMESPACES
from kuberay.kube.transport import Response

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

    from kuberay.engine.apiserver.registry import Kind
    from kuberay.engine.apiserver.storage import Entry, MemoryStorage, Object
    from kuberay.engine.streams import PodStreams
    from kuberay.kube.transport import Request

log = logging.getLogger(__name__)

KUBERNETES_VERSION = "1.36.3"
"""The version whose behaviour is imitated; clients choose features by it."""

_METADATA_SCHEMA = custom_schema({"x-kubernetes-preserve-unknown-fields": True})

_NOT_SERVED = {
    "exec": "to run a command beside Ray use `ray job submit`; `kubectl logs` shows what a container prints",
    "attach": "`kubectl logs -f` follows what a container prints",
    "portforward": "`kuberay local status` prints where dashboards are reached on this machine",
    "proxy": "`kuberay local status` prints where dashboards are reached on this machine",
    "eviction": "`kubectl delete pod` removes it",
    "ephemeralcontainers": "Pods are processes of this machine, which its own tools can look at",
    "resize": "limits are not enforced here",
    "scale": "`kubectl edit` changes the number in its spec",
    "token": "a Pod that names the account finds its token at the usual place",
}
"""Subresources that Kubernetes has and this server does not, and what to do instead."""


@dataclass(frozen=True, slots=True)
class User:
    """Who sends a request. Everybody who has credentials may do everything."""

    name: str
    groups: tuple[str, ...] = ()


ADMIN = User("kubernetes-admin", ("system:masters",))


class ApiServer:
    """Serves the objects of a storage."""

    def __init__(
        self,
        storage: MemoryStorage,
        *,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        new_uid: Callable[[], str] = lambda: str(uuid.uuid4()),
        rng: random.Random | None = None,
        streams: PodStreams | None = None,
    ) -> None:
        """With a durable storage, construct it inside the running event loop: the system namespaces are written here.

        :param rng: names of `generateName`, addresses and ports of Services.
        :param streams: who has the logs of Pods; without it they are refused.
        """
        self._storage = storage
        self._clock = clock
        self._streams = streams
        self._registry = Registry(builtin_kinds())
        self._objects = Objects(storage, self._registry, clock=clock, new_uid=new_uid, rng=rng or random.Random())
        self._discovery = Discovery(self._registry)
        self._openapi = OpenApi(self._registry)
        namespaces = self._registry.find("", "v1", NAMESPACES.plural)
        assert namespaces is not None
        for name in SYSTEM_NAMESPACES:
            if storage.get(namespaces.table, "", name) is None:
                self._objects.create(
                    namespaces, "", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
                )

    async def handle(self, request: Request, user: User = ADMIN) -> Response | StreamAnswer:
        """The answer to a request; a refusal is an answer too."""
        try:
            if request.body is not None and len(request.body) > bodies.LIMIT:
                message = f"the body has {len(request.body)} bytes, more than the {bodies.LIMIT} that are read"
                raise ApiError(
                    status=Status(status="Failure", message=message, reason="RequestEntityTooLarge", code=413)
                )
            answer = self._answer(request)
            if isinstance(answer, pods.LogRequest):
                answer = await pods.open_logs(self._streams, answer)
            await self._storage.settle()
        except ApiError as error:
            return answers.refusal(error)
        except Exception:
            log.exception("%s %s of %s failed", request.method, request.path, user.name)
            return answers.refusal(InternalError(f"{request.method} {request.path} failed inside the API server"))
        return answer

    def _answer(self, request: Request) -> Response | StreamAnswer | pods.LogRequest:
        first = request.path.strip("/").partition("/")[0]
        if first in ("healthz", "livez", "readyz"):
            return Response(200, {"content-type": "text/plain; charset=utf-8"}, b"ok")
        if request.method == "GET":
            if request.path.rstrip("/") == "/version":
                return json_answer(_version())
            if first == "openapi":
                return self._openapi.answer(request)
            if (discovered := self._discovery.answer(request)) is not None:
                return discovered
        target = find_target(self._registry, request.path)
        if target.subresource:
            return self._answer_subresource(request, target)
        query = Query.of(request)
        match request.method, bool(target.name):
            case "GET", True if query.flag("watch"):
                return self._watch_one(request, target, query)
            case "GET", True:
                entry = self._objects.get(target.kind, target.namespace or "", target.name)
                return self._shown(request, target.kind, entry)
            case "GET", False if query.flag("watch"):
                return self._watch(request, target, query)
            case "GET", False:
                return self._list(request, target, query)
            case "POST", False if target.namespace is not None:
                return self._create(request, target, query)
            case "PUT", True:
                return self._replace(request, target, query)
            case "PATCH", True:
                return self._patch(request, target, query)
            case "DELETE", True:
                return self._delete(request, target, query)
            case "DELETE", False if "deletecollection" in target.kind.verbs:
                return self._delete_collection(request, target, query)
        raise MethodNotAllowed("the server does not allow this method on the requested resource")

    def _answer_subresource(self, request: Request, target: Target) -> Response | pods.LogRequest:
        subresource = target.kind.subresource(target.subresource)
        if subresource is None and target.subresource in _NOT_SERVED:
            raise ApiError(
                status=Status(
                    status="Failure",
                    message=(
                        f"{target.kind.resource.name}/{target.subresource} is not served by the local engine: "
                        f"{_NOT_SERVED[target.subresource]}"
                    ),
                    reason="NotImplemented",
                    code=501,
                )
            )
        if subresource is None or not target.name:
            raise NotFound(MISSING)
        query = Query.of(request)
        entry = self._objects.get(target.kind, target.namespace or "", target.name)
        match request.method, target.subresource:
            case "GET", "log":
                return pods.log_request(entry.obj, query)
            case "POST", "binding":
                return self._bind(request, entry, query)
            case "GET", _ if "get" in subresource.verbs:
                return self._shown(request, target.kind, entry)
            case "PUT", _ if "update" in subresource.verbs:
                return self._replace(request, target, query)
            case "PATCH", _ if "patch" in subresource.verbs:
                return self._patch(request, target, query)
        raise MethodNotAllowed("the server does not allow this method on the requested resource")

    def _shown(self, request: Request, kind: Kind, entry: Entry, *, status: int = 200, warnings: str = "") -> Response:
        form = answers.wanted_form(request.headers.get("accept", ""))
        include = Query.of(request).text("includeObject")
        return object_answer(kind, entry, form, self._clock(), include=include, status=status, warnings=warnings)

    def _list(self, request: Request, target: Target, query: Query) -> Response:
        selection = Selection.of(target, query)
        form = answers.wanted_form(request.headers.get("accept", ""))
        start: tuple[str, str] | None = None
        at: int | None = None
        if token := query.text("continue"):
            at, start = answers.parse_continue(token)
        else:
            wanted = self._version(query)
            if query.text("resourceVersionMatch") == "Exact" and wanted:
                at = wanted
        found = [
            entry
            for entry in self._storage.entries(target.kind.table, target.namespace, at=at)
            if (start is None or (entry.namespace, entry.name) > start) and selection.matches(entry)
        ]
        version = at if at is not None else self._storage.version
        meta: Object = {"resourceVersion": str(version)}
        limit = query.number("limit") or 0
        if 0 < limit < len(found):
            meta["continue"] = answers.continue_token(version, found[limit - 1])
            meta["remainingItemCount"] = len(found) - limit
            found = found[:limit]
        return list_answer(target.kind, found, meta, form, self._clock(), include=query.text("includeObject"))

    def _version(self, query: Query) -> int:
        """The resourceVersion that is asked for; 0 for none.

        :raises Timeout: it lies in the future.
        """
        text = query.text("resourceVersion")
        if not text.isascii() or not (text or "0").isdigit():
            raise Invalid(f"resourceVersion must be a whole number, found {text!r}")
        version = int(text or 0)
        if version > self._storage.version:
            cause = StatusCause(reason="ResourceVersionTooLarge", message="Too large resource version")
            raise Timeout(
                f"Timeout: Too large resource version: {version}, current: {self._storage.version}",
                details=StatusDetails(causes=[cause], retry_after_seconds=1),
            )
        return version

    def _watch_one(self, request: Request, target: Target, query: Query) -> StreamAnswer:
        """`?watch` on the path of one object is a watch of its collection for that name."""
        values = {**query.values, "fieldSelector": f"metadata.name={target.name}"}
        return self._watch(request, target, Query(values))

    def _watch(self, request: Request, target: Target, query: Query) -> StreamAnswer:
        selection = Selection.of(target, query)
        form = answers.wanted_form(request.headers.get("accept", ""))
        wanted = self._version(query)
        send_initial = query.text("sendInitialEvents")
        if send_initial and query.text("resourceVersionMatch") != "NotOlderThan":
            raise Invalid("sendInitialEvents requires setting resourceVersionMatch to NotOlderThan")
        starts_with_state = query.flag("sendInitialEvents") or (not send_initial and wanted == 0)
        initial: list[Entry] = []
        after = wanted or self._storage.version
        if starts_with_state:
            initial = [e for e in self._storage.entries(target.kind.table, target.namespace) if selection.matches(e)]
            after = self._storage.version
        try:
            cursor = self._storage.watch(target.kind.table, after)
        except Expired as error:
            line = orjson.dumps({"type": "ERROR", "object": error.status.to_dict()}) + b"\n"
            return StreamAnswer(answers.JSON, _once(line))
        watch = Watch(
            selection,
            form,
            include=query.text("includeObject"),
            clock=self._clock,
            bookmarks=query.flag("allowWatchBookmarks"),
        )
        events = watch.events(
            initial,
            cursor,
            end_of_initial=query.flag("sendInitialEvents"),
            timeout=query.number("timeoutSeconds"),
        )
        return StreamAnswer(answers.JSON, events)

    def _decoded(self, request: Request, kind: Kind, query: Query) -> tuple[Object, str]:
        """The object of a create or replace in the stored shape, and warnings about its fields."""
        obj = bodies.decode_object(request.body, request.headers.get("content-type", ""), wanted=kind.resource.kind)
        duplicates: list[str] = []
        if query.text("fieldValidation") in ("Strict", "Warn"):
            duplicates = bodies.duplicate_fields(request.body or b"")
        return self._pruned(obj, kind, query, duplicates)

    def _pruned(self, obj: Object, kind: Kind, query: Query, duplicates: list[str]) -> tuple[Object, str]:
        """:raises BadRequest: another kind, a wrong type, or a field that strict validation does not let pass."""
        resource = kind.resource
        version, name = obj.setdefault("apiVersion", resource.api_version), obj.setdefault("kind", resource.kind)
        if (version, name) != (resource.api_version, resource.kind):
            raise BadRequest(
                f'{name} in version "{version}" cannot be handled as a {resource.kind} of {resource.api_version}'
            )
        unknown = kind.schema.prune(obj)
        complaints = [f'duplicate field "{path}"' for path in duplicates] + [
            f'unknown field "{path}"' for path in unknown
        ]
        mode = query.text("fieldValidation") or "Warn"
        if mode not in ("Strict", "Warn", "Ignore"):
            raise BadRequest(f"fieldValidation must be Strict, Warn or Ignore, found {mode!r}")
        handled = f'{resource.kind} in version "{resource.version}" cannot be handled as a {resource.kind}'
        if complaints and mode == "Strict":
            raise BadRequest(f"{handled}: strict decoding error: {', '.join(complaints)}")
        # A custom resource is checked when it has its defaults; what the server itself reads is checked here.
        wrong = _METADATA_SCHEMA.validate(obj) if kind.is_custom else kind.schema.validate(obj)
        if wrong:
            raise BadRequest(f"{handled}: {'; '.join(f'{one.field}: {one.message}' for one in wrong)}")
        warnings = ", ".join(f"299 - {orjson.dumps(one).decode()}" for one in complaints) if mode == "Warn" else ""
        return kind.to_stored(obj), warnings

    def _create(self, request: Request, target: Target, query: Query) -> Response:
        obj, warnings = self._decoded(request, target.kind, query)
        entry = self._objects.create(target.kind, target.namespace or "", obj, dry_run=query.dry_run)
        return self._shown(request, target.kind, entry, status=201, warnings=warnings)

    def _replace(self, request: Request, target: Target, query: Query) -> Response:
        entry = self._objects.get(target.kind, target.namespace or "", target.name)
        obj, warnings = self._decoded(request, target.kind, query)
        changed = self._objects.update(target.kind, entry, obj, subresource=target.subresource, dry_run=query.dry_run)
        return self._shown(request, target.kind, changed, warnings=warnings)

    def _patch(self, request: Request, target: Target, query: Query) -> Response:
        patch_type = bodies.patch_type(request.headers.get("content-type", ""), custom=target.kind.is_custom)
        entry = self._objects.get(target.kind, target.namespace or "", target.name)
        patched = bodies.apply_patch(target.kind.view(entry.obj), request.body, patch_type, target.kind.schema.raw)
        obj, warnings = self._pruned(patched, target.kind, query, [])
        changed = self._objects.update(target.kind, entry, obj, subresource=target.subresource, dry_run=query.dry_run)
        return self._shown(request, target.kind, changed, warnings=warnings)

    def _bind(self, request: Request, entry: Entry, query: Query) -> Response:
        binding = bodies.decode_object(request.body, request.headers.get("content-type", ""), wanted="Binding")
        bound = pods.bound(entry.obj, binding, self._clock())
        if not query.dry_run:
            self._storage.put(entry.table, entry.namespace, entry.name, bound)
        return json_answer(
            {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}, 201
        )

    def _delete_options(self, request: Request, query: Query) -> DeleteOptions:
        fields: dict[str, Any] = {}
        if request.body:
            fields = bodies.decode_object(request.body, request.headers.get("content-type", ""), wanted="DeleteOptions")
        if query.text("gracePeriodSeconds"):
            fields.setdefault("gracePeriodSeconds", query.number("gracePeriodSeconds"))
        if query.text("propagationPolicy"):
            fields.setdefault("propagationPolicy", query.text("propagationPolicy"))
        if query.dry_run:
            fields.setdefault("dryRun", ["All"])
        return parse_options(fields)

    def _delete(self, request: Request, target: Target, query: Query) -> Response:
        options = self._delete_options(request, query)
        entry = self._objects.get(target.kind, target.namespace or "", target.name)
        deleted = self._objects.delete(target.kind, entry, options)
        if deleted.gone and not target.kind.answers_deleted:
            return answers.success(target.kind, deleted.entry)
        return self._shown(request, target.kind, deleted.entry)

    def _delete_collection(self, request: Request, target: Target, query: Query) -> Response:
        options = self._delete_options(request, query)
        selection = Selection.of(target, query)
        entries = [
            entry for entry in self._storage.entries(target.kind.table, target.namespace) if selection.matches(entry)
        ]
        deleted = [self._objects.delete(target.kind, entry, options).entry for entry in entries]
        meta = {"resourceVersion": str(self._storage.version)}
        return list_answer(target.kind, deleted, meta, Form.OBJECT, self._clock())


async def _once(line: bytes) -> AsyncGenerator[bytes, None]:
    yield line


def _version() -> Object:
    major, minor, _ = KUBERNETES_VERSION.split(".")
    return {
        "major": major,
        "minor": minor,
        "gitVersion": f"v{KUBERNETES_VERSION}",
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "",
        "compiler": "",
        "platform": "linux/amd64",
    }
