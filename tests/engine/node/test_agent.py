"""Pods on a node, from their object in the API to the processes and back: real namespaces, tiny commands."""

from __future__ import annotations

import asyncio
import base64
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from kuberay.engine.node.names import LABEL_SERVICE
from kuberay.kube.decoding import Event, EventType
from kuberay.kube.errors import BadRequest
from kuberay.kube.resources import CONFIG_MAPS, ENDPOINT_SLICES, LEASES, NODES, PODS, SECRETS, SERVICES
from tests.engine.node.conftest import IDLE, Cluster, container_status, is_ready, phase, state

pytestmark = pytest.mark.namespaces


class TestANode:
    async def test_is_ready_and_has_what_the_machine_has(self, cluster: Cluster) -> None:
        node = await cluster.client.get(NODES, "local")
        assert node["status"]["conditions"][0]["status"] == "True"
        assert int(node["status"]["capacity"]["cpu"]) >= 1
        assert (await cluster.client.get(LEASES, "local", namespace="kube-node-lease"))["spec"]["holderIdentity"]

    async def test_writes_nothing_at_rest(self, cluster: Cluster) -> None:
        await cluster.run("p")
        before = await cluster.until("p", is_ready)
        await cluster.until_event("Started")
        version = cluster.storage.version
        await asyncio.sleep(0.5)
        assert cluster.storage.version == version
        assert await cluster.pod("p") == before


class TestRunning:
    async def test_a_pod_without_probes_is_ready_when_it_runs(self, cluster: Cluster) -> None:
        await cluster.run("p")
        pod = await cluster.until("p", is_ready)
        assert pod["status"]["phase"] == "Running"
        assert pod["status"]["podIP"] == "10.244.0.2"
        assert container_status(pod)["restartCount"] == 0
        assert await cluster.until_event("Started") == "Started container main"

    async def test_a_container_that_completes_ends_its_pod(self, cluster: Cluster) -> None:
        await cluster.run("p", "echo hello; exit 0", restartPolicy="Never")
        pod = await cluster.until("p", phase("Succeeded"))
        assert state(pod)["terminated"]["reason"] == "Completed"
        assert await cluster.logs("p") == "hello\n"

    async def test_a_container_that_fails_fails_its_pod(self, cluster: Cluster) -> None:
        await cluster.run("p", "exit 3", restartPolicy="Never")
        pod = await cluster.until("p", phase("Failed"))
        assert (state(pod)["terminated"]["exitCode"], state(pod)["terminated"]["reason"]) == (3, "Error")

    async def test_a_container_that_ends_is_started_again_with_a_clean_tmp(self, cluster: Cluster) -> None:
        await cluster.run("p", "ls /tmp/left-*; touch /tmp/left-behind; exit 1")
        pod = await cluster.until("p", lambda pod: container_status(pod).get("restartCount", 0) >= 2)
        assert container_status(pod)["lastState"]["terminated"]["exitCode"] == 1
        assert "cannot access" in await cluster.logs("p", previous=True)
        assert "Back-off restarting failed container main" in await cluster.until_event("BackOff")

    @pytest.mark.parametrize("shell", ["bash -lc", "sh -lc"])
    async def test_a_login_shell_finds_the_programs_of_the_environment_first(
        self, cluster: Cluster, shell: str
    ) -> None:
        await cluster.run("p", f"{shell} 'command -v ray; command -v ls'", restartPolicy="Never")
        await cluster.until("p", phase("Succeeded"))
        ray, ls = (await cluster.logs("p")).splitlines()
        assert ray == f"{sys.prefix}/bin/ray"
        assert ls.endswith("/ls")

    async def test_a_container_that_asks_for_no_gpu_sees_none(
        self, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        device = "/etc/passwd"  # stands for a device: every machine has it
        monkeypatch.setattr("kuberay.engine.node.machine.nvidia_devices", lambda: [Path(device)])
        look = f"wc -l < {device}; echo ${{CUDA_VISIBLE_DEVICES-any}}, ${{NVIDIA_VISIBLE_DEVICES-any}}"
        printed = []
        for name, resources in {"without": {}, "with": {"limits": {"cpu": "1", "nvidia.com/gpu": "1"}}}.items():
            container = {"name": "main", "image": "ray", "command": ["/bin/sh", "-c", look], "resources": resources}
            await cluster.create_pod(name, containers=[container], restartPolicy="Never")
            await cluster.until(name, phase("Succeeded"))
            printed.append((await cluster.logs(name)).splitlines())
        assert printed[0] == ["0", ", void"]
        assert int(printed[1][0]) > 0
        assert printed[1][1] == "any, any"

    async def test_a_container_whose_start_hook_fails_is_never_ready_and_is_started_again(
        self, cluster: Cluster
    ) -> None:
        hook = {"postStart": {"exec": {"command": ["/bin/sh", "-c", "echo no way; exit 3"]}}}
        container = {"name": "main", "image": "ray", "command": ["sleep", "1000"], "lifecycle": hook}
        await cluster.create_pod("p", containers=[container], terminationGracePeriodSeconds=1)
        seen = []

        def is_started_again(pod: dict[str, Any]) -> bool:
            seen.append(is_ready(pod))
            return bool(container_status(pod).get("restartCount"))

        await cluster.until("p", is_started_again)
        assert not any(seen)
        assert await cluster.until_event("FailedPostStartHook") == "no way"

    async def test_a_command_that_does_not_exist_says_so(self, cluster: Cluster) -> None:
        await cluster.create_pod(
            "p", containers=[{"name": "main", "image": "ray", "command": ["no-such-command"]}], restartPolicy="Never"
        )
        pod = await cluster.until("p", phase("Failed"))
        assert state(pod)["terminated"]["reason"] == "StartError"
        assert "no-such-command" in state(pod)["terminated"]["message"]

    async def test_init_containers_run_in_order_before_the_others(self, cluster: Cluster) -> None:
        mount = [{"name": "shared", "mountPath": "/shared"}]
        steps = [
            {
                "name": name,
                "image": "ray",
                "command": ["/bin/sh", "-c", f"echo {name} >> /shared/order"],
                "volumeMounts": mount,
            }
            for name in ("first", "second", "main")
        ]
        volumes = [{"name": "shared", "emptyDir": {}}]
        last = {**steps[2], "command": ["/bin/sh", "-c", "echo main >> /shared/order; cat /shared/order"]}
        await cluster.create_pod(
            "p", initContainers=steps[:2], containers=[last], volumes=volumes, restartPolicy="Never"
        )
        await cluster.until("p", phase("Succeeded"))
        assert await cluster.logs("p") == "first\nsecond\nmain\n"

    async def test_the_image_is_not_pulled_and_the_pod_says_so(self, cluster: Cluster) -> None:
        await cluster.run("p", container={"image": "rayproject/ray:2.52.0"})
        message = await cluster.until_event("ImageNotPulled")
        assert message.startswith("rayproject/ray:2.52.0 is not pulled: runs on Ray 2.60.0 of this environment")


class TestWhatAContainerSees:
    async def test_its_environment(self, cluster: Cluster) -> None:
        await cluster.client.create(SECRETS, _secret("password", KEY="s3cret"), namespace="default")
        env = [
            {"name": "NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
            {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
            {"name": "KEY", "valueFrom": {"secretKeyRef": {"name": "password", "key": "KEY"}}},
        ]
        script = "echo $NAME $IP $KEY; pwd; hostname; command -v python"
        await cluster.run("p", script, container={"env": env, "workingDir": "/usr"}, restartPolicy="Never")
        output = (await cluster.output("p")).splitlines()
        assert output == ["p 10.244.0.2 s3cret", "/usr", "p", f"{sys.prefix}/bin/python"]

    async def test_volumes_of_every_kind(self, cluster: Cluster) -> None:
        await cluster.client.create(SECRETS, _secret("password", KEY="s3cret"), namespace="default")
        await cluster.client.create(CONFIG_MAPS, _config_map("code", script="echo hi"), namespace="default")
        volumes: list[dict[str, Any]] = [
            {"name": "disk", "emptyDir": {}},
            {"name": "memory", "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}},
            {"name": "secret", "secret": {"secretName": "password"}},
            {"name": "code", "configMap": {"name": "code"}},
        ]
        mounts = [
            {"name": "disk", "mountPath": "/data"},
            {"name": "memory", "mountPath": "/dev/shm"},
            {"name": "secret", "mountPath": "/etc/secret"},
            {"name": "code", "mountPath": "/home/ray/samples/run.sh", "subPath": "script"},
        ]
        script = "cat /etc/secret/KEY; sh /home/ray/samples/run.sh; touch /data/x && df -k /dev/shm | tail -1"
        await cluster.run("p", script, container={"volumeMounts": mounts}, volumes=volumes, restartPolicy="Never")
        output = await cluster.output("p")
        assert output.startswith("s3crethi\ntmpfs")
        assert " 1024 " in output

    async def test_what_is_missing_is_waited_for_by_name(self, cluster: Cluster) -> None:
        source = [{"secretRef": {"name": "late"}}]
        await cluster.run("p", "echo $KEY", container={"envFrom": source}, restartPolicy="Never")
        pod = await cluster.until("p", lambda pod: state(pod).get("waiting", {}).get("message"))
        assert state(pod)["waiting"] == {"reason": "CreateContainerConfigError", "message": 'secret "late" not found'}
        await cluster.client.create(SECRETS, _secret("late", KEY="now"), namespace="default")
        await cluster.until("p", phase("Succeeded"))
        assert await cluster.logs("p") == "now\n"

    async def test_a_volume_that_is_not_to_be_had_is_named(self, cluster: Cluster) -> None:
        await cluster.run("p", volumes=[{"name": "data", "persistentVolumeClaim": {"claimName": "c"}}])
        message = await cluster.until_event("FailedMount")
        assert message == 'volume "data": persistentVolumeClaim volumes are not available on a local node'
        pod = await cluster.until("p", lambda pod: state(pod).get("waiting", {}).get("message"))
        assert state(pod)["waiting"] == {"reason": "ContainerCreating", "message": message}

    async def test_a_pod_that_runs_as_somebody_has_that_accounts_credentials(self, cluster: Cluster) -> None:
        show = "cat /var/run/secrets/kubernetes.io/serviceaccount/token 2> /dev/null || echo none"
        await cluster.run("somebody", show, restartPolicy="Never", serviceAccountName="robot")
        await cluster.run("nobody", show, restartPolicy="Never")
        await cluster.run(
            "neither", show, restartPolicy="Never", serviceAccountName="robot", automountServiceAccountToken=False
        )
        for name in ("somebody", "nobody", "neither"):
            await cluster.until(name, phase("Succeeded"))
        assert await cluster.logs("somebody") == "robot of default"
        assert await cluster.logs("nobody") == "none\n"
        assert await cluster.logs("neither") == "none\n"

    async def test_two_containers_share_the_network_and_their_volumes_but_not_tmp(self, cluster: Cluster) -> None:
        serve = "import socket; s = socket.create_server(('127.0.0.1', 8000)); s.accept()[0].sendall(b'hi')"
        call = (
            "import socket, time, os\n"
            "while True:\n"
            "    try: c = socket.create_connection(('127.0.0.1', 8000)); break\n"
            "    except OSError: time.sleep(0.05)\n"
            "print(c.recv(9).decode(), os.path.exists('/tmp/mine'))"
        )
        containers = [
            {"name": "server", "image": "ray", "command": ["python", "-c", f"open('/tmp/mine', 'w'); {serve}"]},
            {"name": "client", "image": "ray", "command": ["python", "-c", call]},
        ]
        await cluster.create_pod("p", containers=containers, restartPolicy="Never")
        await cluster.until("p", phase("Succeeded"))
        assert await cluster.logs("p", "client") == "hi False\n"


def probe(**handler: Any) -> dict[str, Any]:
    return {"initialDelaySeconds": 10, "periodSeconds": 1, "timeoutSeconds": 2, **handler}


class TestProbes:
    async def test_readiness_by_command_does_not_wait_for_the_initial_delay(self, cluster: Cluster) -> None:
        ready = probe(exec={"command": ["test", "-e", "/tmp/ready"]})
        await cluster.run("p", "sleep 0.3; touch /tmp/ready; " + IDLE, container={"readinessProbe": ready})
        pod = await cluster.until("p", phase("Running"))
        assert not is_ready(pod)
        await cluster.until("p", is_ready, seconds=5)
        assert await cluster.events("Unhealthy") == []

    async def test_readiness_by_http(self, cluster: Cluster) -> None:
        code = (
            "from http.server import *\n"
            "class H(BaseHTTPRequestHandler):\n"
            "    def do_GET(self): self.send_response(200 if self.path == '/ok' else 500); self.end_headers()\n"
            "HTTPServer(('', 8000), H).serve_forever()"
        )
        container = {"command": ["python", "-c", code], "ports": [{"name": "web", "containerPort": 8000}]}
        good = {**container, "readinessProbe": probe(httpGet={"path": "/ok", "port": "web"})}
        bad = {**container, "readinessProbe": probe(httpGet={"path": "/bad", "port": 8000}, initialDelaySeconds=0)}
        await cluster.run("good", container=good)
        await cluster.run("bad", container=bad)
        await cluster.until("good", is_ready)
        message = await cluster.until_event("Unhealthy", "statuscode")
        assert message == "Readiness probe failed: HTTP probe failed with statuscode: 500"
        assert not is_ready(await cluster.pod("bad"))

    async def test_readiness_by_connection_is_lost_with_the_server(self, cluster: Cluster) -> None:
        serve = "import socket, os; s = socket.create_server(('', 8000))\nfor _ in range(2): s.accept()\nos._exit(0)"
        script = f'python -c "{serve}"; {IDLE}'
        ready = probe(tcpSocket={"port": 8000}, failureThreshold=1)
        await cluster.run("p", script, container={"readinessProbe": ready})
        await cluster.until("p", is_ready)
        await cluster.until("p", lambda pod: not is_ready(pod))

    async def test_liveness_restarts_the_container(self, cluster: Cluster) -> None:
        alive = probe(exec={"command": ["false"]}, initialDelaySeconds=0, failureThreshold=2)
        script = "trap 'exit 7' TERM; while :; do sleep 0.05; done"
        await cluster.run("p", script, container={"livenessProbe": alive})
        pod = await cluster.until("p", lambda pod: container_status(pod).get("restartCount"))
        assert container_status(pod)["lastState"]["terminated"]["exitCode"] == 7
        assert await cluster.until_event("Killing") == "Container main failed liveness probe, will be restarted"

    async def test_nothing_is_ready_before_its_startup_probe_has_passed(self, cluster: Cluster) -> None:
        startup = probe(exec={"command": ["test", "-e", "/tmp/up"]}, initialDelaySeconds=0, failureThreshold=60)
        await cluster.run("p", "sleep 0.5; touch /tmp/up; " + IDLE, container={"startupProbe": startup})
        pod = await cluster.until("p", phase("Running"))
        assert not container_status(pod)["started"]
        await cluster.until("p", is_ready)

    async def test_a_command_that_hangs_has_failed(self, cluster: Cluster) -> None:
        ready = probe(exec={"command": ["sleep", "60"]}, initialDelaySeconds=0, timeoutSeconds=1)
        await cluster.run("p", container={"readinessProbe": ready})
        assert await cluster.until_event("Unhealthy") == "Readiness probe failed: command timed out after 1s"


class TestTermination:
    async def test_a_container_can_finish_within_its_grace_period(self, cluster: Cluster) -> None:
        await cluster.run("p", "trap 'sleep 0.2; exit 5' TERM; echo up; while :; do sleep 0.05; done")
        pod = await cluster.until("p", is_ready)
        await cluster.until_printed("p", "up")
        watching = asyncio.create_task(_last_state(cluster, "p"))
        await cluster.client.delete(PODS, "p", namespace="default", uid=pod["metadata"]["uid"])
        await cluster.until_gone("p")
        assert (await watching)["terminated"]["exitCode"] == 5

    async def test_a_container_that_does_not_listen_is_killed(self, cluster: Cluster) -> None:
        await cluster.run("p", "trap '' TERM; while :; do sleep 0.05; done", terminationGracePeriodSeconds=1)
        await cluster.until("p", is_ready)
        await cluster.client.delete(PODS, "p", namespace="default")
        await cluster.until_gone("p", seconds=5)

    async def test_the_hook_runs_first(self, cluster: Cluster) -> None:
        hook = {"preStop": {"exec": {"command": ["sh", "-c", "echo hook > /proc/1/fd/1; touch /tmp/hooked"]}}}
        script = "trap 'ls /tmp/hooked; exit' TERM; echo up; while :; do sleep 0.05; done"
        await cluster.run("p", script, container={"lifecycle": hook})
        pod = await cluster.until("p", is_ready)
        await cluster.until_printed("p", "up")
        following = asyncio.create_task(cluster.logs("p", follow=True))
        await asyncio.sleep(0)
        await cluster.client.delete(PODS, "p", namespace="default", uid=pod["metadata"]["uid"])
        await cluster.until_gone("p")
        assert await following == "up\nhook\n/tmp/hooked\n"

    async def test_a_pod_that_is_gone_at_once_is_killed_at_once(self, cluster: Cluster) -> None:
        await cluster.run("p", "trap '' TERM; while :; do sleep 0.05; done")
        await cluster.until("p", is_ready)
        await cluster.client.delete(PODS, "p", namespace="default", grace_period_seconds=0)
        await cluster.run("p", "echo second; " + IDLE)
        pod = await cluster.until("p", is_ready)
        assert pod["status"]["podIP"] == "10.244.0.2"  # the address of its predecessor

    async def test_a_pod_that_never_started_goes_too(self, cluster: Cluster) -> None:
        await cluster.run("p", volumes=[{"name": "data", "persistentVolumeClaim": {"claimName": "c"}}])
        await cluster.until_event("FailedMount")
        await cluster.client.delete(PODS, "p", namespace="default")
        await cluster.until_gone("p")


class TestLogs:
    async def test_before_the_start_there_is_nothing_to_read(self, cluster: Cluster) -> None:
        await cluster.run("p", volumes=[{"name": "data", "persistentVolumeClaim": {"claimName": "c"}}])
        await cluster.until_event("FailedMount")
        with pytest.raises(BadRequest, match='container "main" in pod "p" is waiting to start: ContainerCreating'):
            await cluster.logs("p")

    async def test_there_is_no_previous_attempt_of_the_first(self, cluster: Cluster) -> None:
        await cluster.run("p")
        await cluster.until("p", is_ready)
        with pytest.raises(BadRequest, match='previous terminated container "main" in pod "p" not found'):
            await cluster.logs("p", previous=True)

    async def test_both_streams_are_there_in_order(self, cluster: Cluster) -> None:
        await cluster.run("p", "echo one; echo two >&2; echo three", restartPolicy="Never")
        assert await cluster.output("p") == "one\ntwo\nthree\n"


CALL = "import socket, sys; print(socket.create_connection((sys.argv[1], int(sys.argv[2])), 5).recv(99).decode())"


class TestServices:
    async def test_a_pod_finds_another_by_the_name_of_a_headless_service(self, cluster: Cluster) -> None:
        await self.serve(cluster, cluster_ip="None", ready=False)
        name = "head.default.svc.cluster.local"
        await cluster.run("client", container={"command": ["python", "-c", CALL, name, "8000"]}, restartPolicy="Never")
        assert await cluster.output("client") == "hello\n"

    async def test_a_service_is_found_by_its_short_name_and_leads_to_a_ready_pod(self, cluster: Cluster) -> None:
        await self.serve(cluster, cluster_ip="10.96.7.7", ready=True)
        await cluster.run("client", container={"command": ["python", "-c", CALL, "head", "80"]}, restartPolicy="Never")
        assert await cluster.output("client") == "hello\n"

    async def test_a_service_without_ready_pods_does_not_answer(self, cluster: Cluster) -> None:
        await self.serve(cluster, cluster_ip="10.96.7.7", ready=False, publish=False)
        await cluster.run("client", container={"command": ["python", "-c", CALL, "head", "80"]}, restartPolicy="Never")
        assert await cluster.output("client") == "\n"

    async def test_a_name_that_does_not_exist_is_answered_at_once(self, cluster: Cluster) -> None:
        code = (
            "import socket, time; t = time.monotonic()\n"
            "for name in ('metadata.google.internal', socket.gethostname() + '.nowhere'):\n"
            "    try: socket.getaddrinfo(name, 80)\n"
            "    except socket.gaierror: pass\n"
            "print(time.monotonic() - t < 1)"
        )
        await cluster.run("p", container={"command": ["python", "-c", code]}, restartPolicy="Never")
        assert await cluster.output("p") == "True\n"

    async def serve(self, cluster: Cluster, *, cluster_ip: str, ready: bool, publish: bool = True) -> None:
        code = (
            "import socket; s = socket.create_server(('', 8000)); print('up', flush=True)\n"
            "while True: c = s.accept()[0]; c.sendall(b'hello'); c.close()"
        )
        await cluster.run("server", container={"command": ["python", "-c", code]})
        pod = await cluster.until("server", is_ready)
        await cluster.until_printed("server", "up")
        spec: dict[str, Any] = {"clusterIP": cluster_ip, "ports": [{"name": "web", "port": 80, "targetPort": 8000}]}
        if publish:
            spec["publishNotReadyAddresses"] = True
        metadata = {"name": "head", "namespace": "default"}
        endpoints = [{"addresses": [pod["status"]["podIP"]], "conditions": {"ready": ready}}]
        piece = {
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": {"name": "head-1", "namespace": "default", "labels": {LABEL_SERVICE: "head"}},
            "addressType": "IPv4",
            "endpoints": endpoints,
            "ports": [{"name": "web", "port": 8000, "protocol": "TCP"}],
        }
        await cluster.client.create(ENDPOINT_SLICES, piece, namespace="default")
        service = {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec}
        await cluster.client.create(SERVICES, service, namespace="default")


class TestWhenTheEngineComesBack:
    async def test_pods_are_started_again_in_place(self, cluster: Cluster) -> None:
        await cluster.run("p", "echo up; " + IDLE)
        before = await cluster.until("p", is_ready)
        await cluster.restart()
        after = await cluster.until("p", lambda pod: container_status(pod)["restartCount"] == 1 and is_ready(pod))
        assert after["metadata"]["uid"] == before["metadata"]["uid"]
        assert after["status"]["podIP"] == before["status"]["podIP"]
        assert container_status(after)["lastState"]["terminated"]["reason"] == "EngineStopped"
        assert await cluster.logs("p", previous=True) == "up\n"

    async def test_what_had_finished_stays_as_it_was(self, cluster: Cluster) -> None:
        await cluster.run("p", "echo done", restartPolicy="Never")
        before = await cluster.until("p", phase("Succeeded"))
        await cluster.restart()
        assert await cluster.pod("p") == before
        assert await cluster.logs("p") == "done\n"

    async def test_what_is_left_of_pods_that_are_gone_is_removed(self, cluster: Cluster) -> None:
        await cluster.run("p")
        pod = await cluster.until("p", is_ready)
        (cluster.folder / "somebody-else" / "logs").mkdir(parents=True)
        await cluster.restart()
        assert [folder.name for folder in cluster.folder.iterdir()] == [pod["metadata"]["uid"]]

    async def test_stopping_lets_containers_finish(self, cluster: Cluster, tmp_path: Any) -> None:
        volumes = [{"name": "out", "hostPath": {"path": str(tmp_path)}}]
        container = {"volumeMounts": [{"name": "out", "mountPath": "/out"}]}
        script = "trap 'touch /out/finished; exit' TERM; echo up; while :; do sleep 0.05; done"
        await cluster.run("p", script, container=container, volumes=volumes)
        await cluster.until("p", is_ready)
        await cluster.until_printed("p", "up")
        await cluster.restart()
        assert (tmp_path / "finished").exists()

    async def test_stopping_waits_no_longer_than_a_pod_itself_would(self, cluster: Cluster) -> None:
        cluster.stop_seconds = 20
        await cluster.restart()
        await cluster.run("p", "trap '' TERM; echo up; while :; do sleep 0.05; done", terminationGracePeriodSeconds=1)
        await cluster.until("p", is_ready)
        await cluster.until_printed("p", "up")
        start = time.monotonic()
        await cluster.stop()
        assert 1 <= time.monotonic() - start < 15


async def _last_state(cluster: Cluster, name: str) -> dict[str, Any]:
    """The last state of a container that a watcher of its Pod gets to see."""
    last: dict[str, Any] = {}
    async with cluster.client.watch(PODS, namespace="default", fields=f"metadata.name={name}") as watch:
        async for event in watch:
            if isinstance(event, Event):
                last = state(event.object) or last
                if event.type is EventType.DELETED:
                    break
    return last


def _secret(name: str, **data: str) -> dict[str, Any]:
    encoded = {key: base64.b64encode(value.encode()).decode() for key, value in data.items()}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "data": encoded}


def _config_map(name: str, **data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}
