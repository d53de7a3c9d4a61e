"""Any spec that an API server lets through is decided about, and whoever wrote a bad one is told which field it is.

Specs are made from the CRD's own schema, and from the slim one, behind which anything may stand in a template. Most of
what could stand there is far from a template; so some are good ones that are bent in one place.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kuberay.api import structural
from kuberay.api.crd import crd
from kuberay.api.gates import FeatureGates, Gate
from kuberay.api.v1 import RayCluster
from kuberay.controllers.networkpolicy.decide import decide as decide_policies
from kuberay.controllers.options import ControllerOptions
from kuberay.controllers.plan import Create
from kuberay.controllers.raycluster.deletion import FINALIZER
from kuberay.controllers.raycluster.observe import Seen
from kuberay.controllers.raycluster.status import timestamp
from tests.controllers.raycluster.situations import NOW, plan

if TYPE_CHECKING:
    from kuberay.controllers.plan import Plan

Json = dict[str, Any]

SPECS = 2000
OPTIONS = ControllerOptions(resync=None, gates=FeatureGates(dict.fromkeys(Gate, True)))

_TEXTS = st.sampled_from(
    ["", "a", "rc", "headgroup", "ray-head", "1", "-1", "1.5", "100m", "2Gi", "true", "FALSE", "/dev/shm", "/data/gcs",
     "ray start", "2.52.0", "2.9", "nightly", "REDIS_PASSWORD", "RAY_REDIS_ADDRESS", "{\"a\": 1}", "nvidia.com/gpu",
     "metrics", "serve", "port", "dashboard-port", "x" * 70, "Ünïcödé", "'", "$(X)", "gcs-storage", "worker", "Never"]
)  # fmt: skip
_NUMBERS = st.sampled_from([0, 1, 2, 3, -1, 8080, 65536, 2**31 - 1])
_ANYTHING = st.recursive(
    st.one_of(st.none(), st.booleans(), _NUMBERS, _TEXTS),
    lambda inner: st.one_of(st.lists(inner, max_size=2), st.dictionaries(_TEXTS, inner, max_size=3)),
    max_leaves=6,
)
_MOST_FIELDS = 4
_START_PARAMS = st.dictionaries(
    st.sampled_from(["resources", "port", "dashboard-port", "dashboard-agent-listen-port", "memory", "block"]),
    st.one_of(
        _TEXTS,
        st.sampled_from(["9" * 400, "9" * 5000, f'{{"a": {"9" * 400}}}', '{"a": 1e999}', '{"a": ' + "[" * 50_000]),
    ),
    max_size=2,
)

_TEMPLATE = {
    "metadata": {
        "name": "mine",
        "labels": {"app.kubernetes.io/name": "mine"},
        "annotations": {"ray.io/overwrite-container-cmd": "false"},
        "finalizers": ["example.com/mine"],
    },
    "spec": {
        "containers": [
            {
                "name": "ray",
                "image": "ray",
                "command": ["echo"],
                "args": ["a"],
                "env": [{"name": "A", "value": "b"}],
                "ports": [{"name": "serve", "containerPort": 8000}, {"name": "dashboard", "containerPort": 8265}],
                "resources": {"limits": {"cpu": "1", "memory": "1Gi", "google.com/tpu": "4"}, "requests": {"cpu": 1}},
                "volumeMounts": [{"name": "v", "mountPath": "/v"}],
                "livenessProbe": {"tcpSocket": {"port": 1}},
                "securityContext": {"privileged": False},
            },
            {"name": "beside", "image": "x"},
        ],
        "initContainers": [{"name": "before", "image": "x", "env": [{"name": "A", "value": "b"}]}],
        "volumes": [{"name": "v", "emptyDir": {}}],
        "serviceAccountName": "mine",
        "restartPolicy": "Never",
    },
}
_SERVICE = {
    "metadata": {"name": "mine", "labels": {"a": "b"}, "annotations": {"a": "b"}},
    "spec": {"type": "NodePort", "ports": [{"name": "extra", "port": 1}], "selector": {"a": "b"}},
}


def _places(value: Any) -> list[tuple[str | int, ...]]:
    """The way to every part of a value, and to the whole."""
    members: Any = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [(), *((key, *rest) for key, member in members for rest in _places(member))]


def _bent(value: Any, place: tuple[str | int, ...], part: Any) -> Any:
    """A value with something else in one place."""
    if not place:
        return part
    copy: Any = value.copy()
    copy[place[0]] = _bent(value[place[0]], place[1:], part)
    return copy


def bent(value: Json) -> st.SearchStrategy[Json]:
    """The value with anything in one place."""
    places = [place for place in _places(value) if place]
    odd = st.one_of(st.sampled_from(["x", 5, True, 10**30, None, ["x"], {"a": 1}, [None]]), _ANYTHING)
    return st.builds(lambda place, part: _bent(value, place, part), st.sampled_from(places), odd)


_BENT_TEMPLATE = bent(_TEMPLATE)
_BENT_SERVICE = bent(_SERVICE)


_MADE: dict[int, tuple[Json, st.SearchStrategy[Any]]] = {}


def values(schema: Json) -> st.SearchStrategy[Any]:
    """Values that a schema accepts, and some that it nearly does. Strategies are costly to make, and kept."""
    if id(schema) not in _MADE:
        _MADE[id(schema)] = (schema, _values(schema))
    return _MADE[id(schema)][1]


def _values(schema: Json) -> st.SearchStrategy[Any]:
    if schema.get("x-kubernetes-int-or-string"):
        return st.one_of(_NUMBERS, _TEXTS)
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    match schema.get("type"):
        case "object" if "properties" in schema:
            return st.deferred(lambda: _objects(schema))
        case "object" if isinstance(schema.get("additionalProperties"), dict):
            return st.dictionaries(_TEXTS, st.deferred(lambda: values(schema["additionalProperties"])), max_size=3)
        case "object":
            return st.dictionaries(_TEXTS, _ANYTHING, max_size=3)
        case "array":
            return st.lists(st.deferred(lambda: values(schema["items"])), max_size=2)
        case "string":
            return _TEXTS
        case "integer" | "number":
            return _NUMBERS
        case "boolean":
            return st.booleans()
    return _ANYTHING


@st.composite
def _objects(draw: st.DrawFn, schema: Json) -> Json:
    fields: Json = schema["properties"]
    required = [name for name in schema.get("required", ()) if name in fields]
    chosen = draw(st.lists(st.sampled_from(sorted(fields)), max_size=_MOST_FIELDS, unique=True))
    return {name: draw(values(fields[name])) for name in dict.fromkeys((*required, *chosen))}


@cache
def _spec_schema(*, slim: bool) -> Json:
    (version,) = [each for each in crd("RayCluster", slim=slim)["spec"]["versions"] if each["storage"]]
    schema: Json = version["schema"]["openAPIV3Schema"]["properties"]["spec"]
    return schema


_USUAL = {"spec": {"containers": [{"name": "ray", "image": "ray"}]}}


@st.composite
def clusters(draw: st.DrawFn, *, slim: bool) -> RayCluster:
    """Clusters as they are stored: defaults filled in. Many of them have templates that make Pods, or nearly do."""
    schema = _spec_schema(slim=slim)
    spec: Json = draw(values(schema))
    spec.setdefault("workerGroupSpecs", draw(values(schema["properties"]["workerGroupSpecs"])))
    groups = [spec["headGroupSpec"], *spec["workerGroupSpecs"]]
    match draw(st.sampled_from(["usual", "any", "bent"] if slim else ["usual", "any"])):
        case "usual":
            for group in groups:
                group["template"] = _USUAL
                group["rayStartParams"] = draw(_START_PARAMS)
        case "bent":
            for group in groups:
                group["template"] = _TEMPLATE
            draw(st.sampled_from(groups))["template"] = draw(_BENT_TEMPLATE)
            if draw(st.booleans()):
                spec["headGroupSpec"]["headService"] = draw(_BENT_SERVICE)
    metadata = {
        "name": draw(st.sampled_from(["rc", "a" * 60])),
        "namespace": "default",
        "uid": "u-1",
        "generation": 1,
        "resourceVersion": "1",
        "annotations": draw(
            st.dictionaries(
                st.sampled_from(
                    [
                        "ray.io/ft-enabled",
                        "ray.io/external-storage-namespace",
                        "ray.io/enable-serve-service",
                        "ray.io/overwrite-container-cmd",
                        "ray.io/gcs-ft-deletion-timeout",
                    ]
                ),
                _TEXTS,
                max_size=2,
            )
        ),
    }
    document = {"apiVersion": "ray.io/v1", "kind": "RayCluster", "metadata": metadata}
    return RayCluster.from_dict({**document, "spec": structural.defaulted(spec, schema)})


def is_told(found: Plan) -> bool:
    """Whether a plan says which field is wrong, as an event and in a condition."""
    conditions = found.status.patch.get("conditions", ()) if found.status is not None else ()
    blocked = [each["message"] for each in conditions if each["type"] == "Blocked"]
    warnings = [event.note for event in found.events if event.type == "Warning"]
    return bool(blocked and warnings) and any(part in blocked[0] for part in ("spec", "metadata"))


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("slim", [False, True], ids=["full", "slim"])
def test_every_spec_is_decided_about(slim: bool) -> None:
    @settings(
        max_examples=SPECS // 2,
        deadline=None,
        database=None,
        derandomize=True,
        suppress_health_check=list(HealthCheck),
    )
    @given(clusters(slim=slim))
    def decided(rc: RayCluster) -> None:
        found = plan(Seen(cluster=rc), OPTIONS)
        is_started = any(isinstance(each, Create) and each.scope == "head" for each in found.actions)
        is_left_alone = rc.spec.managed_by is not None or rc.spec.suspend
        assert is_started or is_left_alone or is_told(found), found
        decide_policies(rc, [], {}, NOW)

    decided()


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_every_cluster_can_be_deleted() -> None:
    @settings(max_examples=500, deadline=None, database=None, derandomize=True, suppress_health_check=list(HealthCheck))
    @given(clusters(slim=True))
    def decided(rc: RayCluster) -> None:
        leaving = RayCluster.from_dict(
            {
                **rc.to_dict(),
                "metadata": {
                    **rc.to_dict()["metadata"],
                    "deletionTimestamp": timestamp(NOW),
                    "finalizers": [FINALIZER],
                },
            }
        )
        found = plan(Seen(cluster=leaving), OPTIONS)
        assert found.actions or rc.spec.managed_by is not None

    decided()
