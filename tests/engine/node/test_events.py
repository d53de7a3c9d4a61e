"""Events about Pods; how they are counted and bounded is the recorder's business and tested there."""

from __future__ import annotations

from kuberay.engine.apiserver import ApiServer, InProcessTransport, MemoryStorage
from kuberay.engine.node.events import REPORTER, WARNING, PodEvents
from kuberay.kube.client import Client
from kuberay.kube.recorder import Recorder
from kuberay.kube.resources import Resource

POD = {"metadata": {"name": "p", "namespace": "default", "uid": "u-1"}}
CORE_EVENTS = Resource("", "v1", "events", "Event")


async def test_an_event_names_the_pod_and_the_container() -> None:
    client = Client(InProcessTransport(ApiServer(MemoryStorage())))
    recorder = Recorder(client, REPORTER, instance="local")
    PodEvents(recorder).record(POD, WARNING, "Unhealthy", "no answer", container="ray-head")
    recorder.stop()
    await recorder.run()
    (event,) = (await client.list(CORE_EVENTS, namespace="default")).items
    assert event["involvedObject"]["kind"] == "Pod"
    assert event["involvedObject"]["uid"] == "u-1"
    assert event["involvedObject"]["fieldPath"] == "spec.containers{ray-head}"
    assert (event["type"], event["reason"], event["message"]) == ("Warning", "Unhealthy", "no answer")
    assert event["reportingComponent"] == "kuberay-node"
