"""What the runtime promises, on a real kube-apiserver: nothing is lost, one leads, credentials may change."""

from __future__ import annotations

import asyncio
import base64
import itertools
import signal
import stat
import sys
from collections import defaultdict
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import aiohttp
import orjson
import pytest

from kuberay.kube import errors
from kuberay.kube.access import Access, Material, Token
from kuberay.kube.client import Client, PatchType, Retry
from kuberay.kube.controller import Controller, itself
from kuberay.kube.decoding import Event
from kuberay.kube.election import Elector, LeaseTiming
from kuberay.kube.exec_plugin import ExecPlugin
from kuberay.kube.http import HttpTransport
from kuberay.kube.informer import Informer, Timing
from kuberay.kube.kubeconfig import load
from kuberay.kube.leadership import Leadership
from kuberay.kube.manager import Manager
from kuberay.kube.queue import Queue
from kuberay.kube.resources import CONFIG_MAPS, LEASES, NAMESPACES, PODS, SECRETS, SERVICE_ACCOUNTS, Resource
from kuberay.kube.store import Store
from kuberay.kube.webhook import AdmissionRequest, ServerCertificate, Verdict, WebhookServer
from tests import control_plane
from tests.kube.certificates import Authority
from tests.kube.test_real_apiserver import ConfigMap, config_map, pod, until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

    from kuberay.kube.identity import Key
    from kuberay.kube.transport import Request, Response, Stream
    from tests.control_plane import ControlPlane

pytestmark = pytest.mark.kubernetes
_numbers = itertools.count()

DEPLOYMENTS = Resource("apps", "v1", "deployments", "Deployment")
SELF_REVIEWS = Resource("authentication.k8s.io", "v1", "selfsubjectreviews", "SelfSubjectReview", namespaced=False)
VALIDATING = Resource(
    "admissionregistration.k8s.io",
    "v1",
    "validatingwebhookconfigurations",
    "ValidatingWebhookConfiguration",
    namespaced=False,
)


class Recording:
    """A transport that remembers what was asked, and whose streams break when told to."""

    def __init__(self, transport: HttpTransport) -> None:
        self._transport = transport
        self.requests: list[Request] = []
        self.cut = asyncio.Event()

    async def send(self, request: Request, *, timeout: float | None = None) -> Response:
        self.requests.append(request)
        return await self._transport.send(request, timeout=timeout)

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[Stream]:
        self.requests.append(request)
        async with self._transport.stream(request) as stream:
            yield _Breakable(stream, self)

    async def close(self) -> None:
        await self._transport.close()

    @property
    def asked(self) -> list[str]:
        found = []
        for request in self.requests:
            query = dict(request.query)
            found.append("list" if "watch" not in query else "stream" if "sendInitialEvents" in query else "watch")
        return found


class _Breakable:
    def __init__(self, stream: Stream, owner: Recording) -> None:
        self.status = stream.status
        self.headers = stream.headers
        self._stream = stream
        self._owner = owner

    async def chunks(self) -> AsyncIterator[bytes]:
        async for chunk in self._stream.chunks():
            if self._owner.cut.is_set():
                self._owner.cut.clear()
                raise errors.TransportError("cut")
            yield chunk

    async def read(self) -> bytes:
        return await self._stream.read()


@asynccontextmanager
async def connected(plane: ControlPlane, **options: Any) -> AsyncIterator[tuple[Client, Recording]]:
    recording = Recording(HttpTransport(load(plane.kubeconfig)))
    client = Client(recording, **options)
    try:
        yield client, recording
    finally:
        await client.close()


@asynccontextmanager
async def running(informer: Informer[Any]) -> AsyncIterator[None]:
    task = asyncio.create_task(informer.run())
    try:
        async with asyncio.timeout(30):
            await informer.synced()
        yield
        assert not task.done()
    finally:
        task.cancel()
        await asyncio.wait([task])


@pytest.fixture
async def client(kubernetes: ControlPlane) -> AsyncIterator[Client]:
    async with connected(kubernetes) as (client, _):
        yield client


@pytest.fixture
async def namespace(client: Client) -> str:
    return await made_namespace(client)


async def made_namespace(client: Client) -> str:
    name = f"runtime-{next(_numbers)}"
    await client.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    return name


class TestVerbsAndSubresources:
    async def test_every_kind_of_patch(self, client: Client, namespace: str) -> None:
        await client.create(CONFIG_MAPS, config_map("a", x="1"), namespace=namespace)

        async def patched(patch: Any, kind: PatchType, manager: str | None = None) -> dict[str, str]:
            answer = await client.patch(
                CONFIG_MAPS, "a", patch, namespace=namespace, kind=kind, field_manager=manager, type=ConfigMap
            )
            return answer.data

        operations = [{"op": "add", "path": "/data/y", "value": "2"}]
        assert await patched(operations, PatchType.JSON) == {"x": "1", "y": "2"}
        assert await patched({"data": {"x": None}}, PatchType.MERGE) == {"y": "2"}
        assert await patched({"data": {"z": "3"}}, PatchType.STRATEGIC) == {"y": "2", "z": "3"}
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"w": "4"}}
        assert await patched(body, PatchType.APPLY, "test") == {"w": "4", "y": "2", "z": "3"}

    async def test_scale(self, client: Client, namespace: str) -> None:
        template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
        spec = {"replicas": 0, "selector": {"matchLabels": {"a": "b"}}, "template": template}
        await client.create(DEPLOYMENTS, {"metadata": {"name": "d"}, "spec": spec}, namespace=namespace)
        at: dict[str, Any] = {"namespace": namespace, "subresource": "scale"}
        scale = await client.get(DEPLOYMENTS, "d", **at)
        assert (scale["kind"], scale["spec"].get("replicas", 0)) == ("Scale", 0)
        await client.patch(DEPLOYMENTS, "d", {"spec": {"replicas": 2}}, **at)
        scale["spec"]["replicas"] = 1
        with pytest.raises(errors.Conflict):
            await client.replace(DEPLOYMENTS, "d", scale, **at)
        assert (await client.get(DEPLOYMENTS, "d", namespace=namespace))["spec"]["replicas"] == 2

    async def test_binding_and_eviction(self, client: Client, namespace: str) -> None:
        await client.create(PODS, pod("a"), namespace=namespace)
        target = {"apiVersion": "v1", "kind": "Node", "name": "node-1"}
        binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "a"}, "target": target}
        await client.create(PODS, binding, namespace=namespace, name="a", subresource="binding")
        assert (await client.get(PODS, "a", namespace=namespace))["spec"]["nodeName"] == "node-1"
        eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "a"}}
        await client.create(PODS, eviction, namespace=namespace, name="a", subresource="eviction")
        evicted = await client.get(PODS, "a", namespace=namespace)
        assert evicted["metadata"]["deletionTimestamp"]

    async def test_deleting_what_is_selected(self, client: Client, namespace: str) -> None:
        for number in range(4):
            labels = {"odd": "yes" if number % 2 else "no"}
            await client.create(CONFIG_MAPS, config_map(f"m{number}", labels), namespace=namespace)
        await client.delete_all(CONFIG_MAPS, namespace=namespace, labels="odd=yes", dry_run=True)
        await client.delete_all(CONFIG_MAPS, namespace=namespace, labels="odd=yes")
        left = await client.list(CONFIG_MAPS, namespace=namespace, labels="odd")
        assert sorted(each["metadata"]["name"] for each in left.items) == ["m0", "m2"]


class TestLists:
    async def test_are_streamed(self, kubernetes: ControlPlane, client: Client, namespace: str) -> None:
        for number in range(5):
            await client.create(CONFIG_MAPS, config_map(f"m{number}"), namespace=namespace)
        async with connected(kubernetes) as (own, recording):
            store: Store[ConfigMap] = Store()
            informer = Informer(own, CONFIG_MAPS, store, type=ConfigMap, namespace=namespace)
            async with running(informer):
                assert {f"m{number}" for number in range(5)} <= {each.metadata.name for each in store}
                await client.delete(CONFIG_MAPS, "m0", namespace=namespace)
                await until(lambda: store.get(namespace, "m0") is None)
            assert recording.asked == ["stream"]
            assert own.streamed_lists

    async def test_a_quiet_kind_passes_the_version_of_a_lease_at_once(
        self, kubernetes: ControlPlane, client: Client, namespace: str
    ) -> None:
        store: Store[ConfigMap] = Store()
        informer = Informer(client, CONFIG_MAPS, store, type=ConfigMap, namespace=namespace)
        async with running(informer):
            elector = Elector(client, namespace=namespace, name="lease", identity="me")
            await elector.acquire()
            async with asyncio.timeout(10):
                await informer.reach(elector.resource_version)
            assert store.has_passed(elector.resource_version)
            await elector.release()


@pytest.fixture(scope="module")
def forgetful(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A kube-apiserver without its cache of watches: it remembers what etcd does, and that can be told to forget."""
    try:
        control_plane.programs()
    except control_plane.ProgramsMissing as missing:
        pytest.skip(f"real kube-apiserver: {missing}")
    folder = tmp_path_factory.mktemp("forgetful")
    with control_plane.control_plane(folder, flags=("--watch-cache=false",)) as plane:
        yield plane


class TestAServerThatForgets:
    async def compact(self, plane: ControlPlane) -> None:
        async with aiohttp.ClientSession() as session:
            async with session.post(f"{plane.etcd_url}/v3/maintenance/status", json={}) as answer:
                revision = (await answer.json(content_type=None))["header"]["revision"]
            body = {"revision": revision, "physical": True}
            async with session.post(f"{plane.etcd_url}/v3/kv/compaction", json=body) as answer:
                assert answer.status == 200

    async def test_a_forgotten_version_is_expired_in_watches_and_in_pages(self, forgetful: ControlPlane) -> None:
        async with connected(forgetful) as (client, _):
            namespace = await made_namespace(client)
            for number in range(4):
                await client.create(CONFIG_MAPS, config_map(f"m{number}"), namespace=namespace)
            page = await client.list(CONFIG_MAPS, namespace=namespace, limit=1)
            for name in ("later", "last"):  # the last state is never forgotten
                await client.create(CONFIG_MAPS, config_map(name), namespace=namespace)
            await self.compact(forgetful)
            with pytest.raises(errors.Expired):
                await client.list(CONFIG_MAPS, namespace=namespace, limit=1, continue_=page.continue_)
            with pytest.raises(errors.Expired):
                await self.watch_from(client, namespace, page.resource_version)

    async def watch_from(self, client: Client, namespace: str, version: str) -> None:
        async with client.watch(CONFIG_MAPS, namespace=namespace, resource_version=version) as watch:
            async for _ in watch:
                pass

    async def test_an_informer_lists_again_and_tells_what_it_missed(self, forgetful: ControlPlane) -> None:
        async with connected(forgetful) as (client, _), connected(forgetful) as (own, recording):
            namespace = await made_namespace(client)
            for name in ("stays", "changes", "goes"):
                await client.create(CONFIG_MAPS, config_map(name), namespace=namespace)
            held = asyncio.Event()

            async def sleep(_: float) -> None:
                await held.wait()

            store: Store[ConfigMap] = Store()
            timing = Timing(silence=1.0)
            informer = Informer(
                own, CONFIG_MAPS, store, type=ConfigMap, namespace=namespace, sleep=sleep, timing=timing
            )
            async with running(informer):
                changes: list[tuple[str, str | None]] = []
                store.on_change(lambda old, new: changes.append((_name(old, new), _x(new))))
                recording.cut.set()
                await client.patch(CONFIG_MAPS, "stays", {"metadata": {"labels": {"a": "b"}}}, namespace=namespace)
                await until(lambda: informer.problem is not None)  # cut, and held back from going on
                await client.patch(CONFIG_MAPS, "changes", {"data": {"x": "2"}}, namespace=namespace)
                await client.delete(CONFIG_MAPS, "goes", namespace=namespace)
                last = await client.create(CONFIG_MAPS, config_map("comes"), namespace=namespace, type=ConfigMap)
                await self.compact(forgetful)
                before = len(recording.requests)
                held.set()
                await until(lambda: store.has_passed(last.metadata.resource_version))
            assert recording.asked[before] == "watch"
            assert "list" in recording.asked[before + 1 :] or "stream" in recording.asked[before + 1 :]
            assert {name for name, _ in changes} >= {"changes", "goes", "comes"}
            assert ("goes", None) in changes
            truth = await client.list(CONFIG_MAPS, namespace=namespace, type=ConfigMap)
            assert {each.metadata.name: each for each in store} == {each.metadata.name: each for each in truth.items}


def _name(old: ConfigMap | None, new: ConfigMap | None) -> str:
    found = new or old
    assert found is not None
    return found.metadata.name


def _x(obj: ConfigMap | None) -> str | None:
    return None if obj is None else obj.data.get("x", "")


@pytest.mark.slow
@pytest.mark.timeout(300)
async def test_of_ten_thousand_changes_none_is_lost(kubernetes: ControlPlane, client: Client, namespace: str) -> None:
    """An informer whose connection is cut again and again sees what an observer with a quiet life sees."""
    objects, changes = 50, 10_000
    for number in range(objects):
        await client.create(CONFIG_MAPS, config_map(f"m{number}"), namespace=namespace)
    start = (await client.list(CONFIG_MAPS, namespace=namespace)).resource_version
    seen: dict[str, list[str]] = defaultdict(list)
    shown: dict[str, list[str]] = defaultdict(list)
    store: Store[ConfigMap] = Store()

    async def observe() -> None:
        async with client.watch(CONFIG_MAPS, namespace=namespace, resource_version=start, type=ConfigMap) as watch:
            async for event in watch:
                if isinstance(event, Event):
                    seen[event.object.metadata.name].append(event.object.metadata.resource_version)

    async def change(numbers: Iterator[int]) -> None:
        for number in numbers:
            patch = {"data": {"x": str(number)}}
            await client.patch(CONFIG_MAPS, f"m{number % objects}", patch, namespace=namespace, type=ConfigMap)
            if number % 700 == 0:
                recording.cut.set()

    async with connected(kubernetes) as (own, recording):
        timing = Timing(first_wait=0.01, longest_wait=0.01)
        informer = Informer(own, CONFIG_MAPS, store, type=ConfigMap, namespace=namespace, timing=timing)
        async with running(informer):
            store.on_change(
                lambda _, new: shown[new.metadata.name].append(new.metadata.resource_version) if new else None
            )
            observing = asyncio.create_task(observe())
            numbers = iter(range(changes))
            await asyncio.gather(*(change(numbers) for _ in range(16)))
            last = await client.create(CONFIG_MAPS, config_map("last"), namespace=namespace, type=ConfigMap)
            await until(lambda: store.has_passed(last.metadata.resource_version) and "last" in seen)
            observing.cancel()
            await asyncio.wait([observing])
        assert recording.asked.count("watch") >= 5
        assert "list" not in recording.asked
    assert sum(len(each) for each in seen.values()) == changes + 1
    assert shown == seen


@pytest.mark.timeout(120)
class TestElections:
    @asynccontextmanager
    async def candidate(
        self, plane: ControlPlane, namespace: str, identity: str
    ) -> AsyncIterator[tuple[asyncio.subprocess.Process, list[float]]]:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "tests.kube.elector_process",
            str(plane.kubeconfig),
            namespace,
            identity,
            stdout=asyncio.subprocess.PIPE,
        )
        held: list[float] = []

        async def read() -> None:
            assert process.stdout is not None
            while line := await process.stdout.readline():
                if line.startswith(b"holds "):
                    held.append(float(line.split()[1]))

        reading = asyncio.create_task(read())
        try:
            yield process, held
        finally:
            if process.returncode is None:
                process.kill()
            await process.wait()
            await reading

    @pytest.mark.parametrize("fate", [signal.SIGKILL, signal.SIGSTOP])
    async def test_one_that_dies_or_freezes_is_followed_and_never_joined(
        self, kubernetes: ControlPlane, namespace: str, fate: signal.Signals
    ) -> None:
        async with self.candidate(kubernetes, namespace, "a") as (first, held_by_first):
            await until(lambda: bool(held_by_first))
            async with self.candidate(kubernetes, namespace, "b") as (_, held_by_second):
                await asyncio.sleep(1)  # it stands by, and must not hold
                assert not held_by_second
                first.send_signal(fate)
                await until(lambda: bool(held_by_second))
                if fate is signal.SIGSTOP:
                    first.send_signal(signal.SIGCONT)
                    async with asyncio.timeout(30):
                        assert await first.wait() == 0  # it has understood, and ended
                await asyncio.sleep(0.5)
        assert max(held_by_first) < min(held_by_second)


async def test_a_lease_that_is_deleted_is_made_again_by_who_held_it(
    kubernetes: ControlPlane, client: Client, namespace: str
) -> None:
    async with connected(kubernetes, retry=Retry(attempts=0)) as (own, _):
        timing = LeaseTiming(duration=3.0, renew_deadline=2.0, retry=0.1)
        elector = Elector(own, namespace=namespace, name="leader", identity="me", timing=timing)
        await elector.acquire()
        keeping = asyncio.create_task(elector.keep())
        await client.delete(LEASES, "leader", namespace=namespace)
        async with asyncio.timeout(10):
            while not (found := (await client.list(LEASES, namespace=namespace)).items):  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        assert found[0]["spec"]["holderIdentity"] == "me"
        assert elector.holds
        keeping.cancel()


async def test_a_manager_leads_by_a_thread_of_its_own_and_gives_up_the_lease(
    kubernetes: ControlPlane, client: Client, namespace: str
) -> None:
    @asynccontextmanager
    async def elector() -> AsyncIterator[Elector]:
        async with connected(kubernetes, retry=Retry(attempts=0)) as (own, _):
            yield Elector(own, namespace=namespace, name="leader", identity="me")

    reconciled: list[str] = []

    async def reconcile(key: Key) -> None:
        reconciled.append(key.name)

    store: Store[ConfigMap] = Store()
    informer = Informer(client, CONFIG_MAPS, store, type=ConfigMap, namespace=namespace)
    controller: Controller[Key] = Controller("test", Queue(), reconcile)
    controller.watches(store, itself)
    await client.create(CONFIG_MAPS, config_map("a"), namespace=namespace)
    stop = asyncio.Event()
    async with asyncio.timeout(40), Leadership(elector) as leadership:
        managing = asyncio.create_task(Manager([informer], [controller], leadership=leadership).run(stop))
        await until(lambda: "a" in reconciled)
        lease = await client.get(LEASES, "leader", namespace=namespace)
        assert lease["spec"]["holderIdentity"] == "me"
        assert store.has_passed(await leadership.won())
        stop.set()
        await managing
    lease = await client.get(LEASES, "leader", namespace=namespace)
    assert "holderIdentity" not in lease["spec"]


class TestCredentials:
    async def token(self, client: Client, namespace: str, secret: str) -> str:
        bound = await client.create(
            SECRETS, {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": secret}}, namespace=namespace
        )
        reference = {"kind": "Secret", "apiVersion": "v1", "name": secret, "uid": bound["metadata"]["uid"]}
        wanted = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"expirationSeconds": 600, "boundObjectRef": reference},
        }
        answer = await client.create(SERVICE_ACCOUNTS, wanted, namespace=namespace, name="robot", subresource="token")
        return str(answer["status"]["token"])

    async def who_am_i(self, client: Client) -> str:
        body = {"apiVersion": SELF_REVIEWS.api_version, "kind": SELF_REVIEWS.kind}
        answer = await client.create(SELF_REVIEWS, body)
        return str(answer["status"]["userInfo"]["username"])

    async def use_until_refused(self, client: Client) -> None:
        async with asyncio.timeout(40):  # a server remembers for a few seconds that a token was good
            while True:
                await self.who_am_i(client)
                await asyncio.sleep(0.2)

    async def test_a_token_that_stops_being_valid_is_replaced_by_the_one_in_its_file(
        self, kubernetes: ControlPlane, client: Client, namespace: str, tmp_path: Path
    ) -> None:
        robot = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "robot"}}
        await client.create(SERVICE_ACCOUNTS, robot, namespace=namespace)
        file = tmp_path / "token"
        file.write_text(await self.token(client, namespace, "first"))
        access = Access(kubernetes.url, authority=Material("test", file=kubernetes.ca_file), token=Token(file=file))
        own = Client(HttpTransport(access))
        try:
            assert await self.who_am_i(own) == f"system:serviceaccount:{namespace}:robot"
            await client.delete(SECRETS, "first", namespace=namespace)  # and with it what was bound to it
            with pytest.raises(errors.Unauthorized):
                await self.use_until_refused(own)
            file.write_text(await self.token(client, namespace, "second"))
            assert await self.who_am_i(own) == f"system:serviceaccount:{namespace}:robot"
        finally:
            await own.close()

    async def test_a_plugin_logs_in(self, kubernetes: ControlPlane, tmp_path: Path) -> None:
        printed = {
            "kind": "ExecCredential",
            "apiVersion": "client.authentication.k8s.io/v1",
            "status": {"token": kubernetes.token},
        }
        program = tmp_path / "plugin"
        program.write_text(f"#!/bin/sh\necho '{orjson.dumps(printed).decode()}'\n")
        program.chmod(stat.S_IRWXU)
        authority = Material("test", file=kubernetes.ca_file)
        own = Client(HttpTransport(Access(kubernetes.url, authority=authority, plugin=ExecPlugin(str(program)))))
        assert await self.who_am_i(own) == "admin"
        await own.close()


async def test_a_real_server_asks_our_webhook(client: Client, namespace: str, tmp_path: Path) -> None:
    async def reviewer(request: AdmissionRequest) -> Verdict:
        data = (request.object or {}).get("data") or {}
        if data.get("x") == "bad":
            return Verdict(denied=f"{request.operation} of {request.name}: x is bad", code=422, reason="Invalid")
        return Verdict(warnings=["x is not bad"])

    authority = Authority(tmp_path)
    signed = authority.sign("webhook")
    server = WebhookServer(ServerCertificate(signed.certificate, signed.key))
    server.reviews("/review", reviewer)
    async with server.serving("127.0.0.1", 0) as port:
        bundle = base64.b64encode(authority.file.read_bytes()).decode()
        webhook = {
            "name": "review.example.com",
            "clientConfig": {"url": f"https://127.0.0.1:{port}/review", "caBundle": bundle},
            "rules": [
                {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"], "operations": ["CREATE"]}
            ],
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
        }
        await client.create(VALIDATING, {"metadata": {"name": namespace}, "webhooks": [webhook]})
        try:
            with pytest.raises(errors.Invalid, match=r"CREATE of bad-\d+: x is bad"):
                await create_until_refused(client, namespace)
            await client.create(CONFIG_MAPS, config_map("good", x="good"), namespace=namespace)
        finally:
            await client.delete(VALIDATING, namespace)


async def create_until_refused(client: Client, namespace: str) -> None:
    async with asyncio.timeout(30):
        for number in itertools.count():  # the server takes a moment to learn of a webhook
            await client.create(CONFIG_MAPS, config_map(f"bad-{number}", x="bad"), namespace=namespace)
            await asyncio.sleep(0.1)
