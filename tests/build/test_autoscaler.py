"""The autoscaler's container, its account, and what its version means for restarts."""

from __future__ import annotations

from typing import Any

import pytest

from kuberay.build import autoscaler
from tests.build.clusters import cluster, group, template
from tests.build.test_pod import env, head, ray, worker

Json = dict[str, Any]
LONG = "team-vision-prod-raycluster-for-nightly-batch-train1"


def scaling(**fields: Any) -> Any:
    return cluster(enableInTreeAutoscaling=True, **fields)


def sidecar(**options: Any) -> Json:
    rc = scaling(autoscalerOptions=options) if options else scaling()
    container: Json = head(rc)["spec"]["containers"][1]
    return container


class TestTheContainer:
    def test_it_runs_beside_ray_in_the_same_image(self) -> None:
        found = sidecar()
        assert found["name"] == "autoscaler"
        assert found["image"] == "rayproject/ray:2.52.0"
        assert found["imagePullPolicy"] == "IfNotPresent"
        assert found["command"] == ["/bin/bash", "-c", "--"]
        assert found["args"] == [autoscaler.START]
        assert found["resources"]["limits"] == found["resources"]["requests"] == {"cpu": "500m", "memory": "512Mi"}

    def test_the_variables_of_its_command_come_before_those_of_the_user(self) -> None:
        found = sidecar(env=[{"name": "A", "value": "$(RAY_CLUSTER_NAME)"}])
        assert env(found) == [
            "RAY_CLUSTER_NAME<-metadata.labels['ray.io/cluster']",
            "RAY_CLUSTER_NAMESPACE<-metadata.namespace",
            "RAY_HEAD_POD_NAME<-metadata.name",
            "KUBERAY_CRD_VER=v1",
            f"KUBERAY_GEN_AUTOSCALER_START_CMD={autoscaler.START}",
            "A=$(RAY_CLUSTER_NAME)",
        ]

    @pytest.mark.parametrize(
        ("option", "value"),
        [
            ("image", "other:1"),
            ("imagePullPolicy", "Always"),
            ("command", ["/bin/sh"]),
            ("args", ["-c", "true"]),
            ("resources", {"limits": {"cpu": "1"}}),
            ("resources", {}),
            ("securityContext", {"runAsUser": 1000}),
        ],
    )
    def test_an_option_replaces_what_it_would_be(self, option: str, value: Any) -> None:
        assert sidecar(**{option: value})[option] == value

    def test_sources_of_variables_and_mounts_are_added(self) -> None:
        mount = {"name": "certs", "mountPath": "/certs"}
        found = sidecar(envFrom=[{"secretRef": {"name": "s"}}], volumeMounts=[mount])
        assert found["envFrom"] == [{"secretRef": {"name": "s"}}]
        assert found["volumeMounts"] == [mount, {"name": "ray-logs", "mountPath": "/tmp/ray"}]

    def test_no_cluster_that_does_not_ask_for_it_has_one(self) -> None:
        """pod-template section 17."""
        pod = head(cluster(autoscalerOptions={"version": "v2"}))
        assert [each["name"] for each in pod["spec"]["containers"]] == ["ray-head"]
        assert "restartPolicy" not in pod["spec"]
        assert "serviceAccountName" not in pod["spec"]

    def test_workers_have_none(self) -> None:
        assert [each["name"] for each in worker(scaling())["spec"]["containers"]] == ["ray-worker"]


class TestTheHeadAroundIt:
    def test_ray_does_not_start_an_autoscaler_of_its_own(self) -> None:
        """pod-template 28.3."""
        rc = scaling(head={"template": template("ray-head"), "rayStartParams": {"no-monitor": "false"}})
        assert " --no-monitor " in ray(head(rc))["args"][0]

    def test_both_containers_see_rays_logs(self) -> None:
        spec = head(scaling())["spec"]
        assert [volume["name"] for volume in spec["volumes"]] == ["shared-mem", "ray-logs"]
        assert spec["volumes"][1] == {"name": "ray-logs", "emptyDir": {}}
        for container in spec["containers"]:
            assert {"name": "ray-logs", "mountPath": "/tmp/ray"} in container["volumeMounts"]

    def test_a_volume_of_the_user_for_rays_logs_is_shared(self) -> None:
        volume = {"name": "ray-logs", "emptyDir": {"sizeLimit": "1Gi"}}
        rc = scaling(head={"template": template("ray-head", pod={"volumes": [volume]})})
        assert [each for each in head(rc)["spec"]["volumes"] if each["name"] == "ray-logs"] == [volume]

    @pytest.mark.parametrize(
        ("version", "switch", "policy"), [(None, None, None), ("v1", "false", None), ("v2", "true", "Never")]
    )
    def test_the_version_sets_the_switch_and_forbids_restarts(
        self, version: str | None, switch: str | None, policy: str | None
    ) -> None:
        """pod-template section 17."""
        rc = scaling(autoscalerOptions={"version": version} if version else {})
        switches = [each["value"] for each in ray(head(rc))["env"] if each["name"] == autoscaler.V2_VARIABLE]
        assert switches == ([switch] if switch else [])
        assert head(rc)["spec"].get("restartPolicy") == policy
        assert worker(rc)["spec"].get("restartPolicy") == policy


class TestItsAccount:
    def test_it_is_named_like_the_cluster(self) -> None:
        account = autoscaler.service_account(scaling())
        assert account["metadata"]["name"] == head(scaling())["spec"]["serviceAccountName"] == "rc"
        assert account["metadata"]["labels"]["ray.io/cluster"] == "rc"
        assert account["metadata"]["ownerReferences"][0]["uid"] == "u-1"

    def test_one_that_the_template_names_is_used(self) -> None:
        rc = scaling(head={"template": template("ray-head", pod={"serviceAccountName": "my-sa"})})
        assert head(rc)["spec"]["serviceAccountName"] == "my-sa"
        assert autoscaler.role_binding(rc)["subjects"] == [
            {"kind": "ServiceAccount", "name": "my-sa", "namespace": "default"}
        ]

    def test_a_long_name_is_cut_everywhere_alike(self) -> None:
        """raycluster EX-34."""
        rc = scaling(name=LONG)
        cut = "am-vision-prod-raycluster-for-nightly-batch-train1"
        binding = autoscaler.role_binding(rc)
        assert head(rc)["spec"]["serviceAccountName"] == cut
        assert autoscaler.service_account(rc)["metadata"]["name"] == cut
        assert autoscaler.role(rc)["metadata"]["name"] == binding["roleRef"]["name"] == cut
        assert binding["subjects"][0]["name"] == cut

    def test_it_may_read_pods_and_patch_its_cluster(self) -> None:
        role = autoscaler.role(scaling())
        assert (role["apiVersion"], role["kind"]) == ("rbac.authorization.k8s.io/v1", "Role")
        assert role["rules"] == [
            {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch", "patch"]},
            {"apiGroups": [""], "resources": ["pods/resize"], "verbs": ["patch"]},
            {"apiGroups": ["ray.io"], "resources": ["rayclusters"], "verbs": ["get", "patch"]},
        ]

    def test_its_rights_are_bound_to_it(self) -> None:
        binding = autoscaler.role_binding(scaling())
        assert (binding["apiVersion"], binding["kind"]) == ("rbac.authorization.k8s.io/v1", "RoleBinding")
        assert binding["subjects"] == [{"kind": "ServiceAccount", "name": "rc", "namespace": "default"}]
        assert binding["roleRef"] == {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "rc"}


def test_the_cluster_is_not_changed_by_building() -> None:
    rc = scaling(autoscalerOptions={"env": [{"name": "A", "value": "1"}]}, groups=[group()])
    before = rc.to_dict()
    assert head(rc) == head(rc)
    assert rc.to_dict() == before
