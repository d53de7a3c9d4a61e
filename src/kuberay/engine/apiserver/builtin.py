"""The built-in kinds: one entry each, nothing but data."""

from __future__ import annotations

from kuberay.engine.apiserver import columns, defaults, priorities, quotas, validation
from kuberay.engine.apiserver.events import EVENTS_V1
from kuberay.engine.apiserver.registry import ALL_VERBS, FIELDS_OF_ALL, Kind, Subresource, status_of
from kuberay.engine.apiserver.schema import builtin_schema
from kuberay.kube import resources
from kuberay.kube.resources import Resource

CORE_EVENTS = Resource("", "v1", "events", "Event")
"""Events as kubectl writes and reads them; `resources.EVENTS` is the newer view of the same objects."""

_EVENT_FIELDS = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")


def builtin_kinds() -> list[Kind]:
    """All of them. The order is the order of discovery."""
    return [
        Kind(
            resources.CONFIG_MAPS,
            "configmaps",
            builtin_schema("core.v1.ConfigMap"),
            columns.CONFIG_MAP,
            singular="configmap",
            short_names=("cm",),
            default=defaults.config_map,
            validate=validation.config_map,
        ),
        Kind(
            CORE_EVENTS,
            "events",
            builtin_schema("core.v1.Event"),
            columns.EVENT,
            singular="event",
            short_names=("ev",),
            default=defaults.event,
            validate=validation.event,
            selectable=FIELDS_OF_ALL
            | {f"involvedObject.{name}" for name in _EVENT_FIELDS}
            | {"reason", "type", "reportingComponent", "source.component"},
        ),
        Kind(
            resources.NAMESPACES,
            "namespaces",
            builtin_schema("core.v1.Namespace"),
            columns.NAMESPACE,
            singular="namespace",
            short_names=("ns",),
            verbs=tuple(verb for verb in ALL_VERBS if verb != "deletecollection"),
            subresources=(Subresource("finalize", "Namespace", ("update",)), status_of("Namespace")),
            default=defaults.namespace,
            check_name=validation.dns_label,
            selectable=FIELDS_OF_ALL | {"status.phase"},
        ),
        Kind(
            resources.NODES,
            "nodes",
            builtin_schema("core.v1.Node"),
            columns.NODE,
            singular="node",
            short_names=("no",),
            subresources=(status_of("Node"),),
            selectable=FIELDS_OF_ALL | {"spec.unschedulable"},
        ),
        Kind(
            resources.PERSISTENT_VOLUME_CLAIMS,
            "persistentvolumeclaims",
            builtin_schema("core.v1.PersistentVolumeClaim"),
            columns.PERSISTENT_VOLUME_CLAIM,
            singular="persistentvolumeclaim",
            short_names=("pvc",),
            subresources=(status_of("PersistentVolumeClaim"),),
            default=defaults.persistent_volume_claim,
            answers_deleted=True,
        ),
        Kind(
            resources.PODS,
            "pods",
            builtin_schema("core.v1.Pod"),
            columns.POD,
            singular="pod",
            short_names=("po",),
            categories=("all",),
            subresources=(
                Subresource("binding", "Binding", ("create",)),
                Subresource("log", "Pod", ("get",)),
                status_of("Pod"),
            ),
            default=defaults.pod,
            validate=validation.pod,
            selectable=FIELDS_OF_ALL
            | {"spec.nodeName", "spec.restartPolicy", "spec.schedulerName", "spec.serviceAccountName"}
            | {"status.phase", "status.podIP", "status.nominatedNodeName", "spec.hostNetwork"},
            counts_generations=True,
            answers_deleted=True,
        ),
        Kind(
            resources.RESOURCE_QUOTAS,
            quotas.TABLE,
            builtin_schema("core.v1.ResourceQuota"),
            columns.RESOURCE_QUOTA,
            singular="resourcequota",
            short_names=("quota",),
            subresources=(status_of("ResourceQuota"),),
            validate=quotas.validate,
            answers_deleted=True,
        ),
        Kind(
            resources.SECRETS,
            "secrets",
            builtin_schema("core.v1.Secret"),
            columns.SECRET,
            singular="secret",
            default=defaults.secret,
            validate=validation.secret,
            selectable=FIELDS_OF_ALL | {"type"},
        ),
        Kind(
            resources.SERVICE_ACCOUNTS,
            "serviceaccounts",
            builtin_schema("core.v1.ServiceAccount"),
            columns.NAME_AND_AGE,
            singular="serviceaccount",
            short_names=("sa",),
            answers_deleted=True,
        ),
        Kind(
            resources.SERVICES,
            "services",
            builtin_schema("core.v1.Service"),
            columns.SERVICE,
            singular="service",
            short_names=("svc",),
            categories=("all",),
            subresources=(status_of("Service"),),
            default=defaults.service,
            validate=validation.service,
            check_name=validation.dns_label_1035,
            selectable=FIELDS_OF_ALL | {"spec.clusterIP", "spec.type"},
            answers_deleted=True,
        ),
        Kind(
            resources.CUSTOM_RESOURCE_DEFINITIONS,
            "customresourcedefinitions.apiextensions.k8s.io",
            builtin_schema("apiextensions.v1.CustomResourceDefinition"),
            columns.CUSTOM_RESOURCE_DEFINITION,
            singular="customresourcedefinition",
            short_names=("crd", "crds"),
            categories=("api-extensions",),
            subresources=(status_of("CustomResourceDefinition"),),
            counts_generations=True,
        ),
        Kind(
            resources.JOBS,
            "jobs.batch",
            builtin_schema("batch.v1.Job"),
            columns.JOB,
            singular="job",
            categories=("all",),
            subresources=(status_of("Job"),),
            default=defaults.job,
            selectable=FIELDS_OF_ALL | {"status.successful"},
            counts_generations=True,
        ),
        Kind(
            resources.INGRESSES,
            "ingresses.networking.k8s.io",
            builtin_schema("networking.v1.Ingress"),
            columns.INGRESS,
            singular="ingress",
            short_names=("ing",),
            subresources=(status_of("Ingress"),),
            counts_generations=True,
        ),
        Kind(
            resources.NETWORK_POLICIES,
            "networkpolicies.networking.k8s.io",
            builtin_schema("networking.v1.NetworkPolicy"),
            columns.NETWORK_POLICY,
            singular="networkpolicy",
            short_names=("netpol",),
            default=defaults.network_policy,
            counts_generations=True,
        ),
        Kind(
            resources.ROLES,
            "roles.rbac.authorization.k8s.io",
            builtin_schema("rbac.v1.Role"),
            columns.ROLE,
            singular="role",
            check_name=validation.path_segment,
        ),
        Kind(
            resources.ROLE_BINDINGS,
            "rolebindings.rbac.authorization.k8s.io",
            builtin_schema("rbac.v1.RoleBinding"),
            columns.ROLE_BINDING,
            singular="rolebinding",
            default=defaults.role_binding,
            check_name=validation.path_segment,
        ),
        Kind(
            resources.PRIORITY_CLASSES,
            priorities.TABLE,
            builtin_schema("scheduling.v1.PriorityClass"),
            columns.PRIORITY_CLASS,
            singular="priorityclass",
            short_names=("pc",),
            default=priorities.default,
            counts_generations=True,
        ),
        Kind(
            resources.LEASES,
            "leases.coordination.k8s.io",
            builtin_schema("coordination.v1.Lease"),
            columns.LEASE,
            singular="lease",
        ),
        Kind(
            resources.ENDPOINT_SLICES,
            "endpointslices.discovery.k8s.io",
            builtin_schema("discovery.v1.EndpointSlice"),
            columns.ENDPOINT_SLICE,
            singular="endpointslice",
            default=defaults.endpoint_slice,
            counts_generations=True,
        ),
        Kind(
            resources.EVENTS,
            "events",
            builtin_schema("events.v1.Event"),
            columns.EVENT,
            singular="event",
            short_names=("ev",),
            default=defaults.event,
            validate=validation.event,
            selectable=FIELDS_OF_ALL
            | {f"regarding.{name}" for name in _EVENT_FIELDS}
            | {"reason", "type", "reportingController"},
            conversion=EVENTS_V1,
        ),
    ]
