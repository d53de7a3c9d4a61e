"""Tokens: who makes them, where they are kept, and which containers get to see them."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from kuberay.build import auth
from tests.build.clusters import cluster, template
from tests.build.test_pod import head, ray, worker

Json = dict[str, Any]
RANDOM = bytes(range(32))
MODE = {"name": "RAY_AUTH_MODE", "value": "token"}


def authenticated(**options: Any) -> Any:
    return cluster(authOptions={"mode": "token", **options})


def token(secret: str) -> Json:
    return {"name": "RAY_AUTH_TOKEN", "valueFrom": {"secretKeyRef": {"name": secret, "key": "auth_token"}}}


def variables(container: Json) -> list[Json]:
    return [each for each in container.get("env", []) if each["name"].startswith("RAY_") and "AUTH" in each["name"]]


class TestWithAToken:
    def test_ray_and_the_container_that_waits_for_it_take_it_from_the_secret(self) -> None:
        expected = [MODE, token("rc")]
        made = worker(authenticated())
        assert variables(ray(head(authenticated()))) == expected
        assert variables(ray(made)) == expected
        assert variables(made["spec"]["initContainers"][0]) == expected

    def test_the_autoscaler_takes_it_too(self) -> None:
        rc = cluster(authOptions={"mode": "token"}, enableInTreeAutoscaling=True)
        assert variables(head(rc)["spec"]["containers"][1]) == [MODE, token("rc")]

    def test_containers_of_the_user_do_not(self) -> None:
        pod = {"initContainers": [{"name": "mine", "image": "x"}]}
        rc = cluster(authOptions={"mode": "token"}, head={"template": template("ray-head", pod=pod)})
        made = head(rc, head_sidecars=({"name": "agent", "image": "x"},))
        assert variables(made["spec"]["initContainers"][0]) == []
        assert variables(made["spec"]["containers"][1]) == []

    def test_a_secret_of_the_user_is_used(self) -> None:
        assert variables(ray(head(authenticated(secretName="mine")))) == [MODE, token("mine")]

    def test_it_needs_no_volume(self) -> None:
        given = {"template": template("ray-head"), "rayStartParams": {"plasma-directory": "/x"}}
        assert "volumes" not in head(cluster(authOptions={"mode": "token"}, head=given))["spec"]

    def test_variables_of_the_user_stay(self) -> None:
        own = [{"name": "RAY_AUTH_MODE", "value": "token"}, {"name": "RAY_AUTH_TOKEN", "value": "abc"}]
        rc = cluster(authOptions={"mode": "token"}, head={"template": template("ray-head", env=own)})
        assert variables(ray(head(rc))) == own


class TestWithTokensOfKubernetes:
    def test_a_token_of_the_account_is_mounted_in_place_of_the_secret(self) -> None:
        made = worker(authenticated(enableK8sTokenAuth=True))
        mount = {"name": "ray-token", "mountPath": "/var/run/secrets/ray.io/serviceaccount", "readOnly": True}
        for container in (ray(made), made["spec"]["initContainers"][0]):
            assert variables(container) == [MODE, {"name": "RAY_ENABLE_K8S_TOKEN_AUTH", "value": "true"}]
            assert mount in container["volumeMounts"]
        volume = {"name": "ray-token", "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}}
        assert volume in made["spec"]["volumes"]

    def test_whose_token_it_is_is_for_the_user_or_for_admission_to_say(self) -> None:
        """pod-template 30.2: without an account an API server takes no such Pod."""
        assert "serviceAccountName" not in worker(authenticated(enableK8sTokenAuth=True))["spec"]
        given = template("ray-head", pod={"serviceAccountName": "mine"})
        rc = cluster(authOptions={"mode": "token", "enableK8sTokenAuth": True}, head={"template": given})
        assert head(rc)["spec"]["serviceAccountName"] == "mine"

    def test_volume_and_mount_of_that_name_stay_as_they_are(self) -> None:
        volume, mount = {"name": "ray-token", "emptyDir": {}}, {"name": "ray-token", "mountPath": "/x"}
        given = template("ray-head", pod={"volumes": [volume]}, volumeMounts=[mount])
        rc = cluster(authOptions={"mode": "token", "enableK8sTokenAuth": True}, head={"template": given})
        made = head(rc)
        assert [each for each in made["spec"]["volumes"] if each["name"] == "ray-token"] == [volume]
        assert [each for each in ray(made)["volumeMounts"] if each["name"] == "ray-token"] == [mount]


class TestWithout:
    @pytest.mark.parametrize("options", [None, {"mode": "disabled"}])
    def test_nothing_is_set(self, options: Json | None) -> None:
        rc = cluster(authOptions=options) if options else cluster()
        assert variables(ray(head(rc))) == []
        assert not auth.needs_secret(rc)

    def test_a_block_that_says_no_mode_means_a_token(self) -> None:
        rc = cluster(authOptions={})
        assert variables(ray(head(rc))) == [MODE, token("rc")]
        assert auth.needs_secret(rc)


class TestTheSecret:
    def test_it_is_named_like_the_cluster_and_holds_32_bytes(self) -> None:
        """raycluster EX-37."""
        made = auth.secret(authenticated(), RANDOM)
        assert (made["apiVersion"], made["kind"], made["type"]) == ("v1", "Secret", "Opaque")
        assert made["metadata"]["name"] == "rc"
        assert made["metadata"]["labels"] == {"ray.io/cluster": "rc"}
        assert base64.b64decode(made["stringData"]["auth_token"]) == RANDOM

    @pytest.mark.parametrize("options", [{"secretName": "s"}, {"enableK8sTokenAuth": True}])
    def test_none_is_made_where_another_serves(self, options: Json) -> None:
        """raycluster EX-37."""
        assert not auth.needs_secret(authenticated(**options))

    def test_too_little_randomness_makes_no_token(self) -> None:
        with pytest.raises(ValueError, match="32 random bytes"):
            auth.secret(authenticated(), b"short")
