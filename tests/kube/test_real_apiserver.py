"""The client and the runtime against a real kube-apiserver, and our readings of its formats against its own."""

from __future__ import annotations

import asyncio
import itertools
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from kuberay.kube import errors
from kuberay.kube.access import Access, Material, Token
from kuberay.kube.client import Client, PatchType, Propagation, Retry
from kuberay.kube.decoding import Event, EventType
from kuberay.kube.http import HttpTransport
from kuberay.kube.informer import Informer
from kuberay.kube.kubeconfig import load
from kuberay.kube.patches import PatchError, json_patch, merge_patch
from kuberay.kube.quantity import Quantity, parse
from kuberay.kube.recorder import Recorder
from kuberay.kube.resources import CONFIG_MAPS, EVENTS, NAMESPACES, PODS
from kuberay.kube.selectors import LabelSelector
from kuberay.kube.store import Store

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from tests.control_plane import ControlPlane

pytestmark = pytest.mark.kubernetes
_numbers = itertools.count()


class Meta(msgspec.Struct, rename="camel", frozen=True, gc=False):
    name: str
    namespace: str
    uid: str
    resource_version: str
    deletion_timestamp: str | None = None


class ConfigMap(msgspec.Struct, frozen=True, gc=False):
    metadata: Meta
    data: dict[str, str] = {}


@pytest.fixture
async def client(kubernetes: ControlPlane) -> AsyncIterator[Client]:
    client = Client(HttpTransport(load(kubernetes.kubeconfig)))
    yield client
    await client.close()


@pytest.fixture
async def namespace(client: Client) -> str:
    """A namespace of its own for each test; the control plane goes with the run, so nobody needs to tidy up."""
    name = f"kube-{next(_numbers)}"
    await client.create(NAMESPACES, {"metadata": {"name": name}})
    return name


def config_map(name: str, labels: dict[str, str] | None = None, **data: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "labels": labels or {}}, "data": data}


def pod(name: str, **fields: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i"}], **fields}}


async def until(condition: Callable[[], bool]) -> None:
    """Wait for something that another task will bring about."""
    async with asyncio.timeout(30):
        while not condition():  # noqa: ASYNC110 (what is waited for has no event of its own)
            await asyncio.sleep(0.01)


class TestVerbs:
    async def test_an_object_from_its_making_to_its_end(self, client: Client, namespace: str) -> None:
        made = await client.create(CONFIG_MAPS, config_map("a", key="1"), namespace=namespace, type=ConfigMap)
        assert await client.get(CONFIG_MAPS, "a", namespace=namespace, type=ConfigMap) == made
        whole = await client.get(CONFIG_MAPS, "a", namespace=namespace)
        replaced = await client.replace(CONFIG_MAPS, "a", {**whole, "data": {"key": "2"}}, type=ConfigMap)
        assert replaced.data == {"key": "2"}
        with pytest.raises(errors.Conflict):
            await client.replace(CONFIG_MAPS, "a", whole)
        assert await client.delete(CONFIG_MAPS, "a", namespace=namespace) is None
        with pytest.raises(errors.NotFound):
            await client.get(CONFIG_MAPS, "a", namespace=namespace)

    @pytest.mark.parametrize(
        ("kind", "patch"),
        [
            (PatchType.MERGE, {"data": {"x": "2"}}),
            (PatchType.JSON, [{"op": "replace", "path": "/data/x", "value": "2"}]),
            (PatchType.STRATEGIC, {"data": {"x": "2"}}),
        ],
    )
    async def test_every_kind_of_patch(self, client: Client, namespace: str, kind: PatchType, patch: Any) -> None:
        await client.create(CONFIG_MAPS, config_map("a", x="1", y="1"), namespace=namespace)
        patched = await client.patch(CONFIG_MAPS, "a", patch, namespace=namespace, kind=kind, type=ConfigMap)
        assert patched.data == {"x": "2", "y": "1"}

    async def test_an_apply(self, client: Client, namespace: str) -> None:
        async def apply(manager: str, value: str, *, force: bool = False) -> ConfigMap:
            applied = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"x": value}}
            return await client.patch(
                CONFIG_MAPS,
                "a",
                applied,
                namespace=namespace,
                kind=PatchType.APPLY,
                field_manager=manager,
                force=force,
                type=ConfigMap,
            )

        assert (await apply("me", "1")).data == {"x": "1"}
        with pytest.raises(errors.Conflict):
            await apply("you", "2")
        assert (await apply("you", "2", force=True)).data == {"x": "2"}

    async def test_a_patch_with_preconditions(self, client: Client, namespace: str) -> None:
        made = await client.create(CONFIG_MAPS, config_map("a"), namespace=namespace, type=ConfigMap)
        current = {"uid": made.metadata.uid, "resourceVersion": made.metadata.resource_version}
        await client.patch(CONFIG_MAPS, "a", {"metadata": current, "data": {"x": "1"}}, namespace=namespace)
        with pytest.raises(errors.Conflict):
            await client.patch(CONFIG_MAPS, "a", {"metadata": current, "data": {"x": "2"}}, namespace=namespace)

    async def test_a_status_is_written_apart(self, client: Client, namespace: str) -> None:
        await client.create(PODS, pod("a"), namespace=namespace)
        status = {"status": {"phase": "Running"}, "metadata": {"labels": {"ignored": "yes"}}}
        written = await client.patch(PODS, "a", status, namespace=namespace, subresource="status")
        assert written["status"]["phase"] == "Running"
        assert (await client.get(PODS, "a", namespace=namespace, subresource="status"))["status"]["phase"] == "Running"

    async def test_a_dry_run_changes_nothing(self, client: Client, namespace: str) -> None:
        made = await client.create(CONFIG_MAPS, config_map("a"), namespace=namespace, dry_run=True)
        assert made["metadata"]["uid"]
        with pytest.raises(errors.NotFound):
            await client.get(CONFIG_MAPS, "a", namespace=namespace)

    async def test_a_delete_is_only_of_the_object_that_is_meant(self, client: Client, namespace: str) -> None:
        made = await client.create(CONFIG_MAPS, config_map("a"), namespace=namespace, type=ConfigMap)
        with pytest.raises(errors.Conflict):
            await client.delete(CONFIG_MAPS, "a", namespace=namespace, uid="another")
        await client.delete(
            CONFIG_MAPS, "a", namespace=namespace, uid=made.metadata.uid, propagation=Propagation.BACKGROUND
        )

    async def test_a_delete_that_takes_time_shows_the_object_as_leaving(self, client: Client, namespace: str) -> None:
        held = config_map("a")
        held["metadata"]["finalizers"] = ["example.com/wait"]
        await client.create(CONFIG_MAPS, held, namespace=namespace)
        leaving = await client.delete(CONFIG_MAPS, "a", namespace=namespace, type=ConfigMap)
        assert leaving is not None
        assert leaving.metadata.deletion_timestamp is not None

    async def test_a_list_in_pages_and_by_selectors(self, client: Client, namespace: str) -> None:
        for number in range(5):
            await client.create(PODS, {**pod(f"p{number}"), "kind": "Pod", "apiVersion": "v1"}, namespace=namespace)
        names: list[str] = []
        token = None
        for _ in range(3):
            page = await client.list(PODS, namespace=namespace, limit=2, continue_=token)
            names += [each["metadata"]["name"] for each in page.items]
            token = page.continue_
        assert (names, token) == ([f"p{number}" for number in range(5)], "")
        selected = await client.list(PODS, namespace=namespace, fields="metadata.name=p3")
        assert [each["metadata"]["name"] for each in selected.items] == ["p3"]

    async def test_a_list_no_older_than_what_is_known(self, kubernetes: ControlPlane, namespace: str) -> None:
        client = Client(HttpTransport(load(kubernetes.kubeconfig)), retry=Retry(attempts=0))
        try:
            for name in ("m0", "m1"):
                await client.create(CONFIG_MAPS, config_map(name), namespace=namespace)
            last = await client.create(CONFIG_MAPS, config_map("m2"), namespace=namespace, type=ConfigMap)
            known = last.metadata.resource_version
            page = await client.list(CONFIG_MAPS, namespace=namespace, limit=2, not_older_than=known)
            rest = await client.list(CONFIG_MAPS, namespace=namespace, continue_=page.continue_, not_older_than=known)
            assert {"m0", "m1", "m2"} <= {each["metadata"]["name"] for each in (*page.items, *rest.items)}
            with pytest.raises(errors.Timeout) as ahead:
                await client.list(CONFIG_MAPS, namespace=namespace, not_older_than=f"{int(known) + 1_000_000}")
            assert ahead.value.status.details is not None
            assert [each.reason for each in ahead.value.status.details.causes] == ["ResourceVersionTooLarge"]
        finally:
            await client.close()


class TestRefusals:
    async def test_each_has_its_class(self, client: Client, namespace: str) -> None:
        await client.create(CONFIG_MAPS, config_map("a"), namespace=namespace)
        with pytest.raises(errors.AlreadyExists):
            await client.create(CONFIG_MAPS, config_map("a"), namespace=namespace)
        with pytest.raises(errors.Invalid) as invalid:
            await client.create(CONFIG_MAPS, config_map("A_"), namespace=namespace)
        assert invalid.value.status.details is not None
        assert invalid.value.status.details.causes[0].field == "metadata.name"
        with pytest.raises(errors.BadRequest):
            await client.create(CONFIG_MAPS, b"{", namespace=namespace)

    async def test_a_wrong_token(self, kubernetes: ControlPlane) -> None:
        access = Access(kubernetes.url, authority=Material("test", file=kubernetes.ca_file), token=Token("wrong"))
        client = Client(HttpTransport(access))
        with pytest.raises(errors.Unauthorized):
            await client.list(PODS)
        await client.close()

    async def test_a_server_that_is_not_trusted(self, kubernetes: ControlPlane) -> None:
        client = Client(HttpTransport(Access(kubernetes.url)))
        with pytest.raises(errors.TransportError, match="the server's certificate is not trusted"):
            await client.list(PODS)
        await client.close()

    async def test_a_missing_right_names_the_verb_and_the_informer_goes_on(
        self, kubernetes: ControlPlane, namespace: str
    ) -> None:
        access = Access(
            kubernetes.url,
            authority=Material("test", file=kubernetes.ca_file),
            token=Token(kubernetes.token),
            headers=(("impersonate-user", "jane"),),
        )
        client = Client(HttpTransport(access))
        informer = Informer(client, PODS, Store[dict[str, Any]](), namespace=namespace)
        task = asyncio.create_task(informer.run())
        await until(lambda: informer.problem is not None)
        assert f"not allowed to list pods in namespace {namespace}: the account needs the verb 'list'" in str(
            informer.problem
        )
        assert not task.done()
        task.cancel()
        await asyncio.wait([task])
        await client.close()


class TestFollowing:
    async def test_a_watch_shows_every_change_in_order(self, client: Client, namespace: str) -> None:
        start = (await client.list(CONFIG_MAPS, namespace=namespace)).resource_version
        await client.create(CONFIG_MAPS, config_map("a"), namespace=namespace)
        await client.patch(CONFIG_MAPS, "a", {"data": {"x": "1"}}, namespace=namespace)
        await client.delete(CONFIG_MAPS, "a", namespace=namespace)
        seen: list[tuple[EventType, str]] = []
        async with (
            asyncio.timeout(30),
            client.watch(CONFIG_MAPS, namespace=namespace, resource_version=start, type=ConfigMap) as watch,
        ):
            async for event in watch:
                if isinstance(event, Event) and event.object.metadata.name == "a":
                    seen.append((event.type, event.object.data.get("x", "")))
                    if event.type is EventType.DELETED:
                        break
        assert seen == [(EventType.ADDED, ""), (EventType.MODIFIED, "1"), (EventType.DELETED, "1")]

    async def test_a_store_follows_the_server(self, client: Client, namespace: str) -> None:
        for number in range(7):
            await client.create(CONFIG_MAPS, config_map(f"m{number}"), namespace=namespace)
        store: Store[ConfigMap] = Store()
        informer = Informer(client, CONFIG_MAPS, store, type=ConfigMap, namespace=namespace, page_size=3)
        task = asyncio.create_task(informer.run())
        async with asyncio.timeout(30):
            await informer.synced()
        for round_ in range(20):
            name = f"m{round_ % 7}"
            written = await client.patch(
                CONFIG_MAPS, name, {"data": {"round": str(round_)}}, namespace=namespace, type=ConfigMap
            )
            store.wrote(written)
            assert store.get(namespace, name) == written
        deleted = store.get(namespace, "m3")
        assert deleted is not None
        await client.delete(CONFIG_MAPS, "m3", namespace=namespace, uid=deleted.metadata.uid)
        store.deleted(deleted)
        assert store.get(namespace, "m3") is None
        last = await client.create(CONFIG_MAPS, config_map("last"), namespace=namespace, type=ConfigMap)
        await until(lambda: store.has_passed(last.metadata.resource_version))
        truth = await client.list(CONFIG_MAPS, namespace=namespace, type=ConfigMap)
        assert {each.metadata.name: each for each in store} == {each.metadata.name: each for each in truth.items}
        assert store.unconfirmed == 0
        task.cancel()
        await asyncio.wait([task])


class TestRecording:
    async def test_an_event_and_its_series_are_taken(self, client: Client, namespace: str) -> None:
        made = await client.create(PODS, pod("a"), namespace=namespace)
        recorder = Recorder(client, "ray.io/test-controller", instance="test")
        recorder.event(made, "Warning", "Failed", "CreatePod", "it did not work")
        await send_all(recorder)
        recorder.event(made, "Warning", "Failed", "CreatePod", "it did not work")
        await send_all(recorder)
        events = (await client.list(EVENTS, namespace=namespace)).items
        assert [(each["reason"], each["note"], each["series"]["count"]) for each in events] == [
            ("Failed", "it did not work", 2)
        ]
        assert recorder.dropped == 0


async def send_all(recorder: Recorder) -> None:
    recorder.stop()
    async with asyncio.timeout(30):
        await recorder.run()


class TestOurReadingAgainstItsOwn:
    async def test_quantities_print_as_the_server_prints_them(self, client: Client, namespace: str) -> None:
        numbers = ["1", "0.5", "1.5", "100", "1000", "1024", "2048", "1500", "0.001", "12.345", "0.1", "1023", "999999"]
        suffixes = ["", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"]
        suffixes += ["e3", "E6", "e-3", "u", "n"]
        # Servers before 1.37 print 1000E as 1: no suffix reaches that far, and they forget the exponent.
        texts = [each for n, s in itertools.product(numbers, suffixes) if (each := n + s) != "1000E"]
        containers = [
            {"name": f"c{index}", "image": "i", "resources": {"requests": {"memory": text}}}
            for index, text in enumerate(texts)
        ]
        made = await client.create(PODS, pod("q", containers=containers), namespace=namespace, dry_run=True)
        printed = [each["resources"]["requests"]["memory"] for each in made["spec"]["containers"]]
        for text, theirs in zip(texts, printed, strict=True):
            # For Pods the server rounds up to thousandths, and some texts (12.345, 1E6) it keeps as they were written.
            ours = parse(text)
            ours = Quantity(ours.milli * 10**6, ours.notation)
            assert theirs in (str(ours), text)
            assert parse(theirs) == ours

    async def test_label_selectors_select_as_the_server_selects(self, client: Client, namespace: str) -> None:
        labels: list[dict[str, str]] = [
            {},
            {"a": "1"},
            {"a": "2", "b": ""},
            {"a": "", "b": "x"},
            {"b": "x", "c/d": "7"},
        ]
        for number, each in enumerate(labels):
            await client.create(CONFIG_MAPS, config_map(f"m{number}", each), namespace=namespace)
        for text in [
            "",
            "a",
            "!a",
            "a=1",
            "a==1",
            "a!=1",
            "a=",
            "a in (1,2)",
            "a notin (1,2)",
            "a in ()",
            "a,b",
            "a,!b",
            "a!=1,b=x",
            "c/d",
            "c/d>5",
            "c/d<5",
            " a in ( 1 , 2 ) , b ",
            "b notin (x),a",
        ]:
            found = await client.list(CONFIG_MAPS, namespace=namespace, labels=text)
            theirs = {each["metadata"]["name"] for each in found.items} - {"kube-root-ca.crt"}
            ours = {f"m{n}" for n, each in enumerate(labels) if LabelSelector.parse(text).matches(each)}
            assert ours == theirs, text
        for text in ["a,", ",a", "a=b c", "a in b", "=b", "a=!b", "a in (b", "-a", "a>x", "A_/x"]:
            with pytest.raises(errors.BadRequest):
                await client.list(CONFIG_MAPS, namespace=namespace, labels=text)
            with pytest.raises(ValueError, match="selector"):
                LabelSelector.parse(text)

    @pytest.mark.parametrize(
        "operations",
        [
            [{"op": "add", "path": "/data/z", "value": "9"}],
            [{"op": "replace", "path": "/data/missing", "value": "9"}],
            [{"op": "remove", "path": "/data/x"}],
            [{"op": "remove", "path": "/data/missing"}],
            [{"op": "move", "from": "/data/x", "path": "/data/y"}],
            [{"op": "copy", "from": "/data/x", "path": "/data/y"}],
            [{"op": "copy", "from": "/data/missing", "path": "/data/y"}],
            [{"op": "test", "path": "/data/x", "value": "1"}, {"op": "remove", "path": "/data/x"}],
            [{"op": "test", "path": "/data/x", "value": "2"}],
            [{"op": "test", "path": "/data/missing", "value": None}],
            [{"op": "add", "path": "/missing/z", "value": "9"}],
            [{"op": "add", "path": "/metadata/finalizers/-", "value": "e.com/c"}],
            [{"op": "add", "path": "/metadata/finalizers/0", "value": "e.com/c"}],
            [{"op": "add", "path": "/metadata/finalizers/-1", "value": "e.com/c"}],
            [{"op": "add", "path": "/metadata/finalizers/9", "value": "e.com/c"}],
            [{"op": "remove", "path": "/metadata/finalizers/-1"}],
            [{"op": "remove", "path": "/metadata/finalizers/5"}],
            [{"op": "replace", "path": "/metadata/finalizers/1", "value": "e.com/c"}],
            [{"op": "replace", "path": "/metadata/finalizers/-", "value": "e.com/c"}],
        ],
    )
    async def test_json_patches_do_as_the_servers_do(
        self, client: Client, namespace: str, operations: list[dict[str, Any]]
    ) -> None:
        start = config_map("a", x="1")
        start["metadata"]["finalizers"] = ["e.com/a", "e.com/b"]
        made = await client.create(CONFIG_MAPS, start, namespace=namespace)
        try:
            ours = essence(json_patch(made, operations))
        except PatchError:
            with pytest.raises(errors.Invalid):
                await client.patch(CONFIG_MAPS, "a", operations, namespace=namespace, kind=PatchType.JSON)
        else:
            theirs = await client.patch(CONFIG_MAPS, "a", operations, namespace=namespace, kind=PatchType.JSON)
            assert ours == essence(theirs)

    async def test_merge_patches_do_as_the_servers_do(self, client: Client, namespace: str) -> None:
        made = await client.create(
            CONFIG_MAPS, config_map("a", {"l": "1", "m": "2"}, x="1", y="2"), namespace=namespace
        )
        patch = {"data": {"x": None, "z": "3"}, "metadata": {"labels": {"l": None, "missing": None}}}
        theirs = await client.patch(CONFIG_MAPS, "a", patch, namespace=namespace)
        assert essence(merge_patch(made, patch)) == essence(theirs)


def essence(obj: dict[str, Any]) -> dict[str, Any]:
    """An object without what the server keeps for itself, and as it stores it: null is empty, and empty is absent."""
    kept = {key: value for key, value in obj["metadata"].items() if key not in ("resourceVersion", "managedFields")}
    data = {key: value or "" for key, value in obj.get("data", {}).items()}
    return {**obj, "metadata": kept, "data": data}
