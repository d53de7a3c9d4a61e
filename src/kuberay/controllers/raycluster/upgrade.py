"""Changes of a spec that running Pods do not have: with the strategy Recreate all Pods go and are made anew, and
where that does not happen the user is told which fields wait.

The head Pod carries a name for the spec that it was made from. One that another operator, or another version of this
one, has made may carry a name that we would not give: it is believed to be up to date, and renamed. Workers carry no
such name. What they tell of their fields is good enough to be told, but another version may tell it otherwise: a new
operator is no reason to end what runs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kuberay.api.problems import of_group
from kuberay.build import labels, origin
from kuberay.controllers.plan import ANY_POD, Delete, Patch, Subject
from kuberay.controllers.raycluster.census import Workers
from kuberay.kube.resources import PODS

if TYPE_CHECKING:
    from kuberay.api.core import Pod
    from kuberay.controllers.options import ControllerOptions
    from kuberay.controllers.raycluster.observe import Seen

SCOPE = "upgrade"

_RENAMED_HEAD = Subject("head Pod", "HeadPod", is_announced=False)
_WHY = "the spec has changed, and upgradeStrategy is Recreate"


def is_outdated(seen: Seen, options: ControllerOptions) -> bool:
    """Whether the cluster's Pods have to make way for new ones.

    It stays so until the old head is gone, and no longer: only the head is asked.
    """
    return _recreates(seen) and would_recreate(seen) and not _is_anothers(_head(seen), options)


def would_recreate(seen: Seen) -> bool:
    """Whether the strategy Recreate makes a difference: not where the head is new and only workers are old."""
    head = _head(seen)
    made_from = head.metadata.annotations.get(labels.RECREATE_HASH, "") if head is not None else ""
    return made_from not in ("", seen.blueprint.revision)


def waiting_fields(seen: Seen) -> list[str]:
    """The fields that have changed since Pods were made which still run, by their paths and groups.

    Pods that do not tell what they were made from are not asked.
    """
    if _recreates(seen) and would_recreate(seen):
        return []
    wanted = seen.blueprint.origins
    paths = [
        f"spec.{path}"
        for head in seen.heads
        if not head.is_leaving
        for path in origin.changed(head.metadata.annotations.get(labels.MADE_FROM, ""), wanted.head)
    ]
    for index, group in enumerate(seen.cluster.spec.worker_group_specs):
        made_from = seen.flock.groups.get(group.group_name, Workers()).origins
        found = {path for each in made_from for path in origin.changed(each, wanted.workers[index])}
        paths += [_path_of_worker(index, group.group_name, path) for path in sorted(found)]
    return list(dict.fromkeys(paths))


def _path_of_worker(index: int, group: str, path: str) -> str:
    if path.startswith(origin.CLUSTER):
        return f"spec.{path.removeprefix(origin.CLUSTER)}"
    return f"spec.workerGroupSpecs[{index}].{path}{of_group(group)}"


def rename(seen: Seen, options: ControllerOptions) -> Patch | None:
    """The change that makes a head of another operator one of ours, as far as upgrades are concerned."""
    head = _head(seen)
    if head is None or head.is_leaving or not _recreates(seen) or not _is_anothers(head, options):
        return None
    annotations = {labels.RECREATE_HASH: seen.blueprint.revision, labels.KUBERAY_VERSION: options.build.version}
    return Patch(
        resource=PODS,
        namespace=head.metadata.namespace,
        name=head.name,
        uid=head.metadata.uid,
        patch={"metadata": {"annotations": annotations}},
        subject=_RENAMED_HEAD,
        scope=SCOPE,
        why="another operator has made it; it stays, and is taken to be up to date",
    )


def removals(seen: Seen, options: ControllerOptions) -> tuple[list[Delete], list[Delete]]:
    """The workers that go now, and then the head: nobody would know that a worker is old once the head is gone."""
    workers = [pod for pod in seen.workers if not pod.is_leaving]
    heads = [pod for pod in seen.heads if not pod.is_leaving]
    going = workers[: options.batch]
    return [_removal(pod) for pod in going], [_removal(pod) for pod in heads if len(going) == len(workers)]


def _removal(pod: Pod) -> Delete:
    return Delete(
        resource=PODS,
        namespace=pod.metadata.namespace,
        name=pod.name,
        uid=pod.metadata.uid,
        subject=ANY_POD,
        scope=SCOPE,
        why=_WHY,
        is_fenced=True,
    )


def _recreates(seen: Seen) -> bool:
    strategy = seen.cluster.spec.upgrade_strategy
    return strategy is not None and strategy.type == "Recreate"


def _head(seen: Seen) -> Pod | None:
    return next(iter(seen.heads), None)


def _is_anothers(head: Pod | None, options: ControllerOptions) -> bool:
    version = head.metadata.annotations.get(labels.KUBERAY_VERSION, "") if head is not None else ""
    return version not in ("", options.build.version)
