"""What the real kubectl changes: create, apply, patch, label, replace, delete; and what it is told when it cannot."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import yaml

from kuberay.api.crd import crd
from tests.kubectl.conftest import POD, RAYCLUSTER, SERVICE

if TYPE_CHECKING:
    from pathlib import Path

    from tests.kubectl.cluster import Cluster


def changed(manifest: str, old: str, new: str) -> str:
    assert old in manifest
    return manifest.replace(old, new)


class TestApply:
    def test_creates_then_changes_nothing_then_changes(self, demo: Cluster) -> None:
        demo.kubectl("delete", "raycluster", "demo")
        assert demo.kubectl("apply", "-f", "-", stdin=RAYCLUSTER) == "raycluster.ray.io/demo created"
        assert demo.kubectl("apply", "-f", "-", stdin=RAYCLUSTER) == "raycluster.ray.io/demo unchanged"
        bigger = changed(RAYCLUSTER, "replicas: 2", "replicas: 4")
        assert demo.kubectl("apply", "-f", "-", stdin=bigger) == "raycluster.ray.io/demo configured"
        assert demo.kubectl("get", "raycluster", "demo", "-o", "jsonpath={.spec.workerGroupSpecs[0].replicas}") == "4"

    def test_of_a_service_changes_its_ports(self, served: Cluster) -> None:
        ports = ("get", "svc", "web", "-o", "jsonpath={.spec.ports[*].port}")
        assert served.kubectl("apply", "-f", "-", stdin=SERVICE) == "service/web created"
        assert served.kubectl("apply", "-f", "-", stdin=SERVICE) == "service/web unchanged"
        two = changed(SERVICE, "[{port: 80, targetPort: http}]", "[{port: 81, name: a}, {port: 80, name: b}]")
        assert served.kubectl("apply", "-f", "-", stdin=two) == "service/web configured"
        assert served.kubectl(*ports) == "81 80"
        one = changed(SERVICE, "port: 80", "port: 82")
        assert served.kubectl("apply", "-f", "-", stdin=one) == "service/web configured"
        assert served.kubectl(*ports) == "82"

    def test_takes_away_what_was_dropped_and_keeps_what_others_added(self, served: Cluster) -> None:
        manifest = "{apiVersion: v1, kind: KIND, metadata: {name: x}, FIELD: {one: 'YWFh', two: 'YmJi'}}"
        for kind, field in (("ConfigMap", "data"), ("Secret", "data")):
            text = manifest.replace("KIND", kind).replace("FIELD", field)
            name = f"{kind.lower()}/x"
            assert served.kubectl("apply", "-f", "-", stdin=text) == f"{name} created"
            assert served.kubectl("patch", name, "-p", '{"data":{"theirs":"Y2Nj"}}') == f"{name} patched"
            assert served.kubectl("apply", "-f", "-", stdin=text) == f"{name} unchanged"
            fewer = changed(text, ", two: 'YmJi'", "")
            assert served.kubectl("apply", "-f", "-", stdin=fewer) == f"{name} configured"
            assert served.kubectl("get", name, "-o", "jsonpath={.data}") == '{"one":"YWFh","theirs":"Y2Nj"}'

    def test_of_a_custom_kind_by_strategic_patch_says_what_to_do_instead(self, demo: Cluster) -> None:
        refused = demo.kubectl("patch", "raycluster", "demo", "--type=strategic", "-p", "{}")
        assert "--type=merge" in refused

    def test_on_the_server_side_says_what_to_do_instead(self, demo: Cluster) -> None:
        refused = demo.kubectl("apply", "--server-side", "-f", "-", stdin=RAYCLUSTER)
        assert "does not serve server-side apply" in refused

    def test_of_a_custom_kind_right_after_its_definition_works(self, served: Cluster, tmp_path: Path) -> None:
        manifest = tmp_path / "all.yaml"
        manifest.write_text(yaml.safe_dump(crd("RayCluster")))
        assert served.kubectl("create", "-f", str(manifest)) == (
            "customresourcedefinition.apiextensions.k8s.io/rayclusters.ray.io created"
        )
        wait = ("wait", "--for=condition=Established", "crd/rayclusters.ray.io", "--timeout=5s")
        assert "condition met" in served.kubectl(*wait)
        assert served.kubectl("apply", "-f", "-", stdin=RAYCLUSTER) == "raycluster.ray.io/demo created"


class TestCreate:
    def test_names_a_misspelt_field(self, demo: Cluster) -> None:
        typo = changed(changed(RAYCLUSTER, "name: demo", "name: typo"), "rayVersion", "rayVerzion")
        assert 'unknown field "spec.rayVerzion"' in demo.kubectl("create", "-f", "-", stdin=typo)
        typo = changed(changed(POD, "name: web", "name: typo"), "nodeName", "nodename")
        assert 'unknown field "spec.nodename"' in demo.kubectl("create", "-f", "-", stdin=typo)

    def test_names_a_field_of_the_wrong_type(self, demo: Cluster) -> None:
        wrong = changed(changed(RAYCLUSTER, "name: demo", "name: wrong"), "replicas: 2", "replicas: two")
        text = demo.kubectl("create", "-f", "-", stdin=wrong)
        assert 'The RayCluster "wrong" is invalid' in text
        assert "spec.workerGroupSpecs[0].replicas" in text

    def test_of_what_exists_is_refused(self, demo: Cluster) -> None:
        assert "(AlreadyExists)" in demo.kubectl("create", "-f", "-", stdin=POD)

    def test_by_flags_says_what_to_do_instead(self, served: Cluster) -> None:
        text = served.kubectl("create", "configmap", "x", "--from-literal=a=b")
        assert "reads no protobuf bodies" in text
        assert "kubectl create -f FILE" in text

    def test_run_makes_a_pod(self, served: Cluster) -> None:
        assert served.kubectl("run", "shell", "--image=busybox:1") == "pod/shell created"

    def test_a_dry_run_makes_none(self, served: Cluster) -> None:
        assert "created (server dry run)" in served.kubectl("create", "-f", "-", "--dry-run=server", stdin=POD)
        assert served.kubectl("get", "pods") == "No resources found in default namespace."


class TestChange:
    def test_patches_of_both_kinds(self, demo: Cluster) -> None:
        merge = ("patch", "raycluster", "demo", "--type=merge", "-p")
        assert demo.kubectl(*merge, '{"metadata":{"labels":{"x":"y"}}}') == "raycluster.ray.io/demo patched"
        assert demo.kubectl(*merge, '{"metadata":{"labels":{"x":"y"}}}') == "raycluster.ray.io/demo patched (no change)"
        json = '[{"op":"replace","path":"/spec/workerGroupSpecs/0/replicas","value":3}]'
        assert (
            demo.kubectl("patch", "raycluster", "demo", "--type=json", "-p", json) == "raycluster.ray.io/demo patched"
        )
        assert demo.kubectl("get", "raycluster", "demo", "-o", "jsonpath={.metadata.generation}") == "2"

    def test_labels_and_annotations(self, demo: Cluster) -> None:
        assert demo.kubectl("label", "pod", "web", "tier=front") == "pod/web labeled"
        assert demo.kubectl("annotate", "pod", "web", "note=hello") == "pod/web annotated"
        assert demo.kubectl("get", "pods", "-l", "tier=front", "-o", "name") == "pod/web"
        assert demo.kubectl("label", "pod", "web", "tier-") == "pod/web unlabeled"

    def test_replace(self, demo: Cluster) -> None:
        text = changed(SERVICE, "port: 80", "port: 81")
        assert demo.kubectl("replace", "-f", "-", stdin=text) == "service/web replaced"
        assert demo.kubectl("get", "svc", "web", "-o", "jsonpath={.spec.ports[0].port}") == "81"

    def test_edit_through_the_status_subresource(self, demo: Cluster) -> None:
        patch = ("patch", "raycluster", "demo", "--subresource=status", "--type=merge", "-p")
        demo.kubectl(*patch, '{"status":{"state":"suspended"}}')
        assert demo.kubectl("get", "raycluster", "demo", "-o", "jsonpath={.status.state}") == "suspended"


class TestDelete:
    def test_waits_until_the_object_is_gone(self, demo: Cluster) -> None:
        assert demo.kubectl("delete", "raycluster", "demo") == 'raycluster.ray.io "demo" deleted from default namespace'
        assert "(NotFound)" in demo.kubectl("get", "raycluster", "demo")

    def test_of_a_running_pod_waits_for_its_node(self, demo: Cluster) -> None:
        path = "/api/v1/namespaces/default/pods/web"
        with demo.start("get", "pod", "web", "-w", "--no-headers") as shown:
            assert shown.stdout is not None
            assert "web" in shown.stdout.readline()
            with demo.start("delete", "pod", "web") as deleting:
                try:
                    assert any("Terminating" in line for line in iter(shown.stdout.readline, ""))
                    node = threading.Thread(target=demo.send, args=("DELETE", path, {"gracePeriodSeconds": 0}))
                    node.start()
                    output, _ = deleting.communicate(timeout=20)
                    node.join()
                finally:
                    shown.terminate()
                    deleting.terminate()
        assert output == 'pod "web" deleted from default namespace\n'

    def test_by_label(self, demo: Cluster) -> None:
        deleted = demo.kubectl("delete", "raycluster", "-l", "team=blue")
        assert deleted == 'raycluster.ray.io "demo" deleted from default namespace'

    def test_of_a_system_namespace_is_refused(self, served: Cluster) -> None:
        assert "this namespace may not be deleted" in served.kubectl("delete", "ns", "default")


class TestAccess:
    def test_without_the_token_is_refused(self, served: Cluster) -> None:
        (served.home / "kubeconfig").write_text(
            (served.home / "kubeconfig").read_text().replace("token: ", "token: not-")
        )
        assert "error: You must be logged in to the server" in served.kubectl("get", "pods")

    def test_the_kubeconfig_is_for_its_owner_only(self, served: Cluster) -> None:
        assert (served.home / "kubeconfig").stat().st_mode & 0o777 == 0o600
        assert (served.home / "token").stat().st_mode & 0o777 == 0o600
