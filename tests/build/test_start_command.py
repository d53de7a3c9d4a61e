"""The `ray start` line, to the blank."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kuberay.build import pod, start_command
from kuberay.build.options import BuildOptions
from tests.build.clusters import cluster, group, limits, requests, template

ADDRESS = "rc-head-svc.default.svc.cluster.local"
AUTOSCALING = {"enableInTreeAutoscaling": True}


def head_line(
    params: dict[str, str],
    container: dict[str, Any] | None = None,
    spec: dict[str, Any] | None = None,
    **fields: Any,
) -> str:
    """The line of a head with these parameters and container resources; `fields` are the group's own."""
    head = {"rayStartParams": params, "template": template("ray-head", resources=container or {}), **fields}
    return _line(pod.head(cluster(head=head, **(spec or {})), BuildOptions()))


def worker_line(
    params: dict[str, str],
    container: dict[str, Any] | None = None,
    head_params: dict[str, str] | None = None,
    **fields: Any,
) -> str:
    """The line of a worker with these parameters and container resources; `fields` are the group's own."""
    one = group(rayStartParams=params, template=template("ray-worker", resources=container or {}), **fields)
    rc = cluster(groups=[one], head={"rayStartParams": head_params or {}, "template": template("ray-head")})
    return _line(pod.worker(rc, rc.spec.worker_group_specs[0], BuildOptions()))


def _line(rendered: pod.PodTemplate) -> str:
    env = orjson.loads(rendered.pod())["spec"]["containers"][0]["env"]
    (line,) = [each["value"] for each in env if each["name"] == "KUBERAY_GEN_RAY_START_CMD"]
    return str(line)


def line(text: str) -> str:
    """An expected line: `F` is the head's address, and the trailing blank is there to be seen."""
    return text.replace("=F:", f"={ADDRESS}:") + " "


class TestWholeLines:
    def test_a_head_takes_cpus_and_memory_from_its_limits(self) -> None:
        """pod-template E1."""
        assert head_line({}, limits(cpu="1", memory="1Gi")) == line(
            "ray start --head  --block  --dashboard-agent-listen-port=52365  --dashboard-host=0.0.0.0"
            "  --memory=1073741824  --metrics-export-port=8080  --num-cpus=1"
        )

    def test_a_worker_prints_its_own_port_but_joins_the_heads(self) -> None:
        """pod-template E2, pod-template 28.7."""
        assert worker_line({"port": "6379"}, limits(cpu="1", memory="1Gi", gpu="3")) == line(
            "ray start  --address=F:6379  --block  --dashboard-agent-listen-port=52365  --memory=1073741824"
            "  --metrics-export-port=8080  --num-cpus=1  --num-gpus=3  --port=6379"
        )

    def test_an_explicit_zero_is_kept(self) -> None:
        """pod-template E3."""
        assert head_line({"num-cpus": "0"}, limits(cpu="1", memory="5Gi"), AUTOSCALING) == line(
            "ray start --head  --block  --dashboard-agent-listen-port=52365  --dashboard-host=0.0.0.0"
            "  --memory=5368709120  --metrics-export-port=8080  --no-monitor  --num-cpus=0"
        )

    def test_parts_of_a_cpu_are_rounded_up(self) -> None:
        """pod-template E4."""
        assert worker_line({}, limits(cpu="500m", memory="1.5Gi")) == line(
            "ray start  --address=F:6379  --block  --dashboard-agent-listen-port=52365  --memory=1610612736"
            "  --metrics-export-port=8080  --num-cpus=1"
        )

    def test_requests_stand_in_for_missing_cpu_limits_only(self) -> None:
        """pod-template E5, pod-template 28.2, pod-template 30.1."""
        assert worker_line({}, requests(cpu="1500m", memory="2Gi", gpu="1")) == line(
            "ray start  --address=F:6379  --block  --dashboard-agent-listen-port=52365"
            "  --metrics-export-port=8080  --num-cpus=2"
        )

    def test_a_tpu_is_a_custom_resource(self) -> None:
        """pod-template E6."""
        assert worker_line({}, limits(tpu="4", cpu="8", memory="40G")) == line(
            "ray start  --address=F:6379  --block  --dashboard-agent-listen-port=52365  --memory=40000000000"
            "  --metrics-export-port=8080  --num-cpus=8  --resources='{\"TPU\":4}'"
        )

    def test_only_the_first_custom_accelerator_counts(self) -> None:
        """pod-template E7."""
        assert worker_line({}, limits(tpu="8", neuroncore="4", gpu="1")) == line(
            "ray start  --address=F:6379  --block  --dashboard-agent-listen-port=52365"
            "  --metrics-export-port=8080  --num-gpus=1  --resources='{\"neuron_cores\":4}'"
        )

    def test_the_users_custom_resources_survive_the_accelerator(self) -> None:
        """pod-template E8."""
        assert head_line({"resources": '"{"custom_resource":2}"'}, limits(neuroncore="4")) == line(
            "ray start --head  --block  --dashboard-agent-listen-port=52365  --dashboard-host=0.0.0.0"
            '  --metrics-export-port=8080  --resources=\'{"custom_resource":2,"neuron_cores":4}\''
        )

    def test_resources_that_cannot_be_read_stop_all_derivation_of_accelerators(self) -> None:
        """pod-template E9, pod-template 28.2."""
        assert worker_line({"resources": r'"{\"Custom\": 1}"'}, limits(gpu="2", tpu="4")) == line(
            "ray start  --address=F:6379  --block  --dashboard-agent-listen-port=52365"
            r'  --metrics-export-port=8080  --resources="{\"Custom\": 1}"'
        )

    def test_the_groups_resources_and_labels_win_over_the_container(self) -> None:
        """pod-template E10."""
        assert worker_line(
            {},
            limits(cpu="4", memory="8Gi", gpu="8"),
            resources={"CPU": "2", "memory": "4Gi", "nvidia.com/gpu": "1", "Custom-Resource": "500m"},
            labels={"topology.kubernetes.io/zone": "us-central2", "ray.io/node-group": "wg1"},
        ) == line(
            "ray start  --address=F:6379  --block  --dashboard-agent-listen-port=52365"
            "  --labels=ray.io/node-group=wg1,topology.kubernetes.io/zone=us-central2  --memory=4294967296"
            "  --metrics-export-port=8080  --num-cpus=2  --num-gpus=1  --resources='{\"Custom-Resource\":0.5}'"
        )

    def test_booleans_are_switches_but_for_three_flags(self) -> None:
        """pod-template E11, pod-template 28.3."""
        params = {
            "block": "false",
            "log-color": "false",
            "include-dashboard": "True",
            "include-log-monitor": "false",
            "disable-usage-stats": "TRUE",
            "no-redirect-output": "false",
        }
        assert head_line(params) == line(
            "ray start --head  --block  --dashboard-agent-listen-port=52365  --dashboard-host=0.0.0.0"
            "  --disable-usage-stats  --include-dashboard=True  --include-log-monitor=false  --log-color=false"
            "  --metrics-export-port=8080"
        )

    def test_credentials_of_redis_are_left_for_the_shell_to_fill_in(self) -> None:
        """pod-template E12."""
        credentials = {"redisUsername": {"value": "ray"}, "redisPassword": {"value": "pw"}}
        spec = {"gcsFaultToleranceOptions": credentials}
        assert head_line({"num-cpus": "0"}, limits(cpu="1", memory="5Gi"), spec) == line(
            "ray start --head  --block  --dashboard-agent-listen-port=52365  --dashboard-host=0.0.0.0"
            "  --memory=5368709120  --metrics-export-port=8080  --num-cpus=0  --redis-password=$REDIS_PASSWORD"
            "  --redis-username=$REDIS_USERNAME"
        )

    def test_workers_follow_the_heads_port(self) -> None:
        """pod-template E13, pod-template 28.7."""
        params = {"port": "6380", "dashboard-port": "8266", "dashboard-agent-listen-port": "52400"}
        resources = limits(cpu="2", memory="4Gi")
        assert head_line(params, resources) == line(
            "ray start --head  --block  --dashboard-agent-listen-port=52400  --dashboard-host=0.0.0.0"
            "  --dashboard-port=8266  --memory=4294967296  --metrics-export-port=8080  --num-cpus=2  --port=6380"
        )
        assert worker_line({}, resources, head_params=params) == line(
            "ray start  --address=F:6380  --block  --dashboard-agent-listen-port=52365  --memory=4294967296"
            "  --metrics-export-port=8080  --num-cpus=2"
        )

    def test_a_zero_limit_falls_through_to_the_request(self) -> None:
        """pod-template E14, pod-template 28.10, pod-template 30.1."""
        assert worker_line({}, limits(mig="1", cpu="0") | requests(cpu="2")) == line(
            "ray start  --address=F:6379  --block  --dashboard-agent-listen-port=52365"
            "  --metrics-export-port=8080  --num-cpus=2  --num-gpus=1"
        )

    def test_explicit_accelerators_win(self) -> None:
        """pod-template E15."""
        params = {"resources": "'{\"TPU\":2}'", "num-gpus": "0"}
        assert worker_line(params, limits(tpu="8", gpu="1")) == line(
            "ray start  --address=F:6379  --block  --dashboard-agent-listen-port=52365"
            "  --metrics-export-port=8080  --num-gpus=0  --resources='{\"TPU\":2}'"
        )

    def test_the_heads_group_fields_become_parameters_too(self) -> None:
        """pod-template E16, pod-template 28.10."""
        assert head_line(
            {},
            limits(cpu="1", memory="5Gi"),
            AUTOSCALING,
            resources={"CPU": "0"},
            labels={"ray.io/region": "us-central2"},
        ) == line(
            "ray start --head  --block  --dashboard-agent-listen-port=52365  --dashboard-host=0.0.0.0"
            "  --labels=ray.io/region=us-central2  --memory=5368709120  --metrics-export-port=8080"
            "  --no-monitor  --num-cpus=0"
        )

    def test_the_first_gpu_name_counts_and_zeros_do_not(self) -> None:
        """pod-template E17."""
        assert worker_line({}, limits(amd_gpu="2", gpu="1", tpu="0", neuroncore="0")) == line(
            "ray start  --address=F:6379  --block  --dashboard-agent-listen-port=52365"
            "  --metrics-export-port=8080  --num-gpus=2"
        )

    def test_what_the_user_sets_is_not_replaced(self) -> None:
        """pod-template E18."""
        params = {
            "address": "custom:1234",
            "metrics-export-port": "9090",
            "object-store-memory": "1000000000",
            "plasma-directory": "/tmp/plasma",
        }
        assert worker_line(params, limits(cpu="1", memory="512M")) == line(
            "ray start  --address=custom:1234  --block  --dashboard-agent-listen-port=52365  --memory=512000000"
            "  --metrics-export-port=9090  --num-cpus=1  --object-store-memory=1000000000"
            "  --plasma-directory=/tmp/plasma"
        )


class TestGroupFields:
    @pytest.mark.parametrize(
        ("params", "resources", "labels", "expected"),
        [
            (
                {"num-cpus": "1", "memory": "1000", "resources": "'{\"Custom-Resource\": 10}'"},
                {"cpu": "4", "Custom-Resource": "5"},
                {},
                {"num-cpus": "4", "memory": "1000", "resources": "'{\"Custom-Resource\":5}'"},
            ),
            ({}, {"CPU": "2", "GPU": "4"}, {}, {"num-cpus": "2", "num-gpus": "4"}),
            (
                {},
                {"nvidia.com/gpu": "1", "TPU": "4"},
                {},
                {"num-gpus": "1", "resources": "'{\"TPU\":4}'"},
            ),
            ({"labels": "old=x"}, {}, {"new": "label"}, {"labels": "new=label"}),
            ({"resources": "kept"}, {"cpu": "many"}, {}, {"resources": "kept"}),
        ],
    )
    def test_they_replace_parameters(
        self, params: dict[str, str], resources: dict[str, str], labels: dict[str, str], expected: dict[str, str]
    ) -> None:
        """pod-template section 10.1."""
        assert start_command.from_group(params, resources, labels) == expected

    def test_the_callers_parameters_stay_as_they_are(self) -> None:
        params = {"num-cpus": "1"}
        start_command.from_group(params, {"cpu": "4"}, {})
        start_command.with_defaults(params, "worker", "h:1")
        start_command.with_container_resources(params, limits(gpu="1"))
        assert params == {"num-cpus": "1"}


class TestTheGeneratorAlone:
    """pod-template section 11.5."""

    def test_it_adds_no_defaults(self) -> None:
        assert start_command.command("head", {}) == "ray start --head "

    def test_a_worker_with_a_gpu(self) -> None:
        params = start_command.with_container_resources({}, limits(gpu="1"))
        assert start_command.command("worker", params) == "ray start  --num-gpus=1 "

    def test_broken_resources_are_printed_as_they_are(self) -> None:
        params = start_command.with_container_resources({"resources": "{"}, limits(neuroncore="4"))
        assert start_command.command("head", params) == "ray start --head  --resources={ "

    def test_an_empty_value_is_printed(self) -> None:
        assert start_command.command("head", {"a": ""}) == "ray start --head  --a= "

    @pytest.mark.parametrize("text", ["null", "'{}'", " ` {} ` "])
    def test_no_custom_resources_in_any_writing(self, text: str) -> None:
        params = start_command.with_container_resources({"resources": text}, limits(tpu="1"))
        assert params["resources"] == "'{\"TPU\":1}'"

    @pytest.mark.parametrize(
        "text",
        ["[]", '{"a": true}', '{"a": "1"}', '{"a": NaN}', "3", f'{{"a": {"9" * 400}}}', '{"a": 1e400}', "[" * 100_000],
        ids=lambda text: text[:12],
    )
    def test_anything_but_an_object_of_numbers_is_left_alone(self, text: str) -> None:
        params = start_command.with_container_resources({"resources": text}, limits(tpu="1", gpu="1"))
        assert params == {"resources": text}


class TestNumbersInResources:
    @pytest.mark.parametrize(
        ("text", "printed"),
        [
            ("4", "4"),
            ("0.5", "0.5"),
            ("1.10", "1.1"),
            ("1000000000000000000000", "1e+21"),
            ("0.0000001", "1e-7"),
            ("0.0000015", "0.0000015"),
            ("0.00001", "0.00001"),
            ("-0.00001", "-0.00001"),
            ("123456789", "123456789"),
            ("2.5e22", "2.5e+22"),
            ("0", "0"),
        ],
    )
    def test_they_are_printed_as_go_prints_them(self, text: str, printed: str) -> None:
        params = start_command.with_container_resources({"resources": f'{{"a": {text}}}'}, limits(tpu="1"))
        assert params["resources"] == f'\'{{"TPU":1,"a":{printed}}}\''

    @given(st.floats(allow_nan=False, allow_infinity=False))
    def test_they_keep_their_value(self, number: float) -> None:
        params = start_command.with_container_resources({"resources": f'{{"a": {number!r}}}'}, limits(tpu="1"))
        assert orjson.loads(params["resources"].strip("'"))["a"] == number


class TestGpuNames:
    @pytest.mark.parametrize(
        "name",
        ["nvidia.com/gpu", "amd.com/gpu", "gpu.intel.com/gpu", "nvidia.com/mig-2g.32gb", "nvidia.com/mig-12g.128gb"],
    )
    def test_these_are_gpus(self, name: str) -> None:
        """pod-template section 11.3."""
        assert start_command.is_gpu(name)

    @pytest.mark.parametrize(
        "name", ["nvidia.com/gpu-mig-12g.128gb", "nvidia.com/mig-1g.5gb.me", "cpu", "memory", "nvidia.com/GPU"]
    )
    def test_these_are_not(self, name: str) -> None:
        """pod-template section 11.3."""
        assert not start_command.is_gpu(name)
