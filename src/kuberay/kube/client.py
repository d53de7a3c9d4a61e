"""The client: Kubernetes verbs over a transport, typed answers, typed refusals.

A call prepares a request as data (`kube.request`), sends it, and decodes the answer (`kube.decoding`). Asking again is
done here only where the server itself asks for it; whether to try again after a broken connection is the caller's.
"""

from __future__ import annotations

import asyncio
import random
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kuberay import __version__
from kuberay.kube import request as prepare
from kuberay.kube.decoding import Page, decoder_for, is_status, refusal
from kuberay.kube.errors import ApiError, DecodeError
from kuberay.kube.request import Body, FieldValidation, PatchType, Propagation, WriteOptions
from kuberay.kube.transport import Request
from kuberay.kube.watch import Watch

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from typing_extensions import TypeVar

    from kuberay.kube.identity import Key
    from kuberay.kube.resources import Resource
    from kuberay.kube.selectors import FieldSelector, LabelSelector
    from kuberay.kube.transport import Transport

    # Without a `type`, what comes back is a plain dict; only type checkers need to know.
    T = TypeVar("T", default=dict[str, Any])

__all__ = ["Client", "Page", "PatchType", "Propagation", "Retry"]


@dataclass(frozen=True, slots=True)
class Retry:
    """When a refused request is sent again: only when the server said "later", and only a few times.

    429 means that nothing was done, so any verb is repeated. A 5xx with `Retry-After` may have been done, so only
    verbs that are safe to repeat are.
    """

    attempts: int = 5
    longest_wait: float = 30.0
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    rng: Callable[[], float] = random.random
    told: Callable[[Request, ApiError], object] | None = None
    """Called whenever a request is sent again, with what was said to it before."""

    def wait(self, request: Request, refused: ApiError, attempt: int) -> float | None:
        """Seconds until the request may be sent again; `None` when it may not."""
        if attempt >= self.attempts:
            return None
        code, details = refused.status.code, refused.status.details
        asked = details.retry_after_seconds if details else 0
        if code != 429 and not (code >= 500 and asked and _is_repeatable(request)):
            return None
        if asked > self.longest_wait:
            return None
        # Those who were told the same second should not all come back in the same instant.
        return (asked or 0.1 * 2**attempt) + 0.2 * self.rng()


class Client:
    """Speaks to one API server. Cheap to make; the transport owns the connections."""

    def __init__(
        self,
        transport: Transport,
        *,
        user_agent: str = f"kuberay/{__version__}",
        retry: Retry | None = None,
        timeout: float = 30.0,
        streamed_lists: bool = True,
    ) -> None:
        self.transport = transport
        self.streamed_lists = streamed_lists
        """Whether informers may ask for lists as streams; one that finds that the server has none says so here."""
        self._user_agent = user_agent
        self._retry = retry or Retry()
        self._timeout = timeout

    async def get(
        self,
        resource: Resource,
        name: str,
        *,
        namespace: str | None = None,
        type: type[T] | None = None,
        subresource: str | None = None,
    ) -> T:
        """One object.

        :raises Missing: there is none of this name.
        """
        body = await self._send(prepare.get(resource, name, namespace=namespace, subresource=subresource))
        return decoder_for(type).object(body)

    async def list(
        self,
        resource: Resource,
        *,
        namespace: str | None = None,
        labels: str | LabelSelector | None = None,
        fields: str | FieldSelector | None = None,
        shard: str | None = None,
        limit: int | None = None,
        continue_: str | None = None,
        resource_version: str | None = None,
        not_older_than: str | None = None,
        type: type[T] | None = None,
        skip_unreadable: bool = False,
    ) -> Page[T]:
        """Objects of a kind: of a namespace, or of all.

        :param shard: a `shardSelector`: the part of them that is selected by hash. Servers without it send all.
        :param limit: at most so many; the page's `continue_` asks for the rest.
        :param resource_version: `"0"` takes what the server has at hand; `None` takes what is newest.
        :param not_older_than: takes what the server has at hand if it is at least as new as this version.
        :param skip_unreadable: hand over the page without the objects that `type` cannot hold.
        :raises Expired: the continue token is too old: begin again.
        """
        request = prepare.list_(
            resource,
            namespace=namespace,
            labels=labels,
            fields=fields,
            shard=shard,
            limit=limit,
            continue_=continue_,
            resource_version=resource_version,
            not_older_than=not_older_than,
        )
        page = decoder_for(type).page(await self._send(request))
        if page.unreadable and not skip_unreadable:
            first = page.unreadable[0]
            raise DecodeError(f"cannot read {resource.kind} {first.namespace}/{first.name}: {first.why}")
        return page

    @asynccontextmanager
    async def watch(
        self,
        resource: Resource,
        *,
        namespace: str | None = None,
        labels: str | LabelSelector | None = None,
        fields: str | FieldSelector | None = None,
        shard: str | None = None,
        resource_version: str | None = None,
        timeout_seconds: int | None = None,
        send_initial_events: bool = False,
        idle_timeout: float | None = None,
        known: Callable[[Key, str], T | None] = lambda *_: None,
        type: type[T] | None = None,
    ) -> AsyncIterator[Watch[T]]:
        """Changes as they happen, with bookmarks.

        :param shard: a `shardSelector`, as in `list`.
        :param resource_version: changes after this version; `None` begins with everything there is.
        :param timeout_seconds: after how long the server ends the watch.
        :param send_initial_events: begin with what there is, and a bookmark that says where that ends.
        :param idle_timeout: after how long without a byte the connection counts as dead.
        :param known: an object by key and version, if it was read before: then it need not be read again.
        :raises Expired: the version is too old: list again. May also be raised in the middle.
        """
        request = prepare.watch(
            resource,
            namespace=namespace,
            labels=labels,
            fields=fields,
            shard=shard,
            resource_version=resource_version,
            timeout_seconds=timeout_seconds,
            send_initial_events=send_initial_events,
        )
        async with self.transport.stream(self._signed(request)) as stream:
            if stream.status >= 300:
                raise refusal(request, stream.status, stream.headers, await stream.read())
            yield Watch(stream.chunks(), decoder_for(type), idle_timeout=idle_timeout, known=known)

    async def create(
        self,
        resource: Resource,
        obj: Body,
        *,
        namespace: str | None = None,
        name: str | None = None,
        subresource: str | None = None,
        type: type[T] | None = None,
        dry_run: bool = False,
        field_validation: FieldValidation | None = None,
    ) -> T:
        """Make an object; the answer is the object as the server stored it.

        :param namespace: taken from the object when it is a dict and says it.
        :param name: only with a subresource: of what object.
        :raises AlreadyExists: there is one of this name.
        """
        request = prepare.create(
            resource,
            obj,
            namespace=namespace,
            name=name,
            subresource=subresource,
            options=WriteOptions(dry_run=dry_run, field_validation=field_validation),
        )
        return decoder_for(type).object(await self._send(request))

    async def replace(
        self,
        resource: Resource,
        name: str,
        obj: Body,
        *,
        namespace: str | None = None,
        subresource: str | None = None,
        type: type[T] | None = None,
        dry_run: bool = False,
    ) -> T:
        """Write a whole object over the old one. Only for objects that were read whole; otherwise patch.

        :raises Conflict: the object has another resourceVersion by now.
        """
        options = WriteOptions(dry_run=dry_run)
        request = prepare.replace(resource, name, obj, namespace=namespace, subresource=subresource, options=options)
        return decoder_for(type).object(await self._send(request))

    async def patch(
        self,
        resource: Resource,
        name: str,
        patch: Body,
        *,
        namespace: str | None = None,
        kind: PatchType = PatchType.MERGE,
        subresource: str | None = None,
        type: type[T] | None = None,
        dry_run: bool = False,
        field_manager: str | None = None,
        force: bool = False,
        field_validation: FieldValidation | None = None,
    ) -> T:
        """Change parts of an object; the answer is the whole object after it.

        A `metadata.resourceVersion` or `metadata.uid` within a merge patch is a precondition.

        :raises Conflict: a precondition does not hold.
        """
        options = WriteOptions(
            dry_run=dry_run, field_manager=field_manager, force=force, field_validation=field_validation
        )
        request = prepare.patch(
            resource, name, patch, namespace=namespace, kind=kind, subresource=subresource, options=options
        )
        return decoder_for(type).object(await self._send(request))

    async def delete(
        self,
        resource: Resource,
        name: str,
        *,
        namespace: str | None = None,
        uid: str | None = None,
        resource_version: str | None = None,
        grace_period_seconds: int | None = None,
        propagation: Propagation | None = None,
        dry_run: bool = False,
        type: type[T] | None = None,
    ) -> T | None:
        """Ask for an object's deletion. It may stay a while: for its grace period, or for its finalizers.

        :param uid: only if it is still this very object.
        :returns: the object as the server showed it, or `None` when it only said that all went well.
        :raises Missing: it is not there.
        :raises Conflict: a precondition does not hold.
        """
        request = prepare.delete(
            resource,
            name,
            namespace=namespace,
            uid=uid,
            resource_version=resource_version,
            grace_period_seconds=grace_period_seconds,
            propagation=propagation,
            dry_run=dry_run,
        )
        body = await self._send(request)
        return None if is_status(body) else decoder_for(type).object(body)

    async def delete_all(
        self,
        resource: Resource,
        *,
        namespace: str | None = None,
        labels: str | LabelSelector | None = None,
        fields: str | FieldSelector | None = None,
        grace_period_seconds: int | None = None,
        propagation: Propagation | None = None,
        dry_run: bool = False,
    ) -> None:
        """Ask for the deletion of all objects that are selected; of one namespace, where the kind has namespaces."""
        request = prepare.delete_all(
            resource,
            namespace=namespace,
            labels=labels,
            fields=fields,
            grace_period_seconds=grace_period_seconds,
            propagation=propagation,
            dry_run=dry_run,
        )
        await self._send(request)

    async def send(self, request: Request) -> bytes:
        """The body of the answer to any other request: discovery, `/version`, logs.

        :raises ApiError: the server refused.
        """
        return await self._send(request)

    async def close(self) -> None:
        """Close the transport."""
        await self.transport.close()

    def _signed(self, request: Request) -> Request:
        headers = {**request.headers, "user-agent": self._user_agent}
        return Request(request.method, request.path, request.query, headers, request.body)

    async def _send(self, request: Request) -> bytes:
        signed = self._signed(request)
        attempt = 0
        while True:
            response = await self.transport.send(signed, timeout=self._timeout)
            if response.status < 300:
                return response.body
            refused = refusal(request, response.status, response.headers, response.body)
            wait = self._retry.wait(request, refused, attempt)
            if wait is None:
                raise refused
            if self._retry.told is not None:
                self._retry.told(request, refused)
            await self._retry.sleep(wait)
            attempt += 1


def _is_repeatable(request: Request) -> bool:
    if request.method == "PATCH":
        return request.headers.get("content-type") != PatchType.JSON.value
    return request.method in ("GET", "PUT", "DELETE")
