"""Queues from ClusterQueue documents of Kueue; what is not supported is refused by name."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from data.errors import SettingError, shown
from scheduler_client.policy.view import Queue, Whom

GPU_RESOURCE = "nvidia.com/gpu"
ALLOCATION = "colocast/allocation"
_PREEMPTION = ("reclaimWithinCohort", "withinClusterQueue", "borrowWithinCohort")
_API_VERSION = re.compile(r"kueue\.x-k8s\.io/v1beta[12]")
_QUANTITY = re.compile(r"(\d+(?:\.\d+)?)(m?)")

Document = Mapping[str, object]


def queues_from(documents: Sequence[Document], source: str) -> tuple[Queue, ...]:
    """Return the queues that ClusterQueue documents describe, in their order.

    Read are ``cohort``/``cohortName``, one resource group with ``nvidia.com/gpu`` and one flavor
    (``nominalQuota``, ``borrowingLimit``, ``lendingLimit``), ``fairSharing.weight``,
    ``stopPolicy`` (``None``, ``Hold``), ``preemption.reclaimWithinCohort`` (``Never``,
    ``LowerPriority``, ``Any``), ``preemption.withinClusterQueue`` and
    ``preemption.borrowWithinCohort.policy`` (``Never``, ``LowerPriority``), the annotation
    ``colocast/allocation`` (``dynamic``, or ``static`` for a queue that neither borrows nor lends
    whatever its cohort), and values that say what happens anyway:
    ``queueingStrategy: BestEffortFIFO``, ``namespaceSelector: {}``.

    Parameters
    ----------
    source : str
        The file, named in errors.

    Raises
    ------
    SettingError
        For a field or value that is unknown, not supported or out of range, and for a queue
        that occurs twice.
    """
    queues = [_queue(_Place(source, f"document {n}"), d) for n, d in enumerate(documents, 1)]
    names = [queue.name for queue in queues]
    twice = {name for name in names if names.count(name) > 1}
    if twice:
        raise SettingError(f"{source}: found ClusterQueue {shown(twice)} twice, wanted each once")
    return tuple(queues)


@dataclass(frozen=True, slots=True)
class _Place:
    """Where in which file something was read, for errors."""

    source: str
    path: str

    def at(self, name: str) -> "_Place":
        return _Place(self.source, f"{self.path}.{name}")

    def error(self, found: object, wanted: str) -> SettingError:
        return SettingError(f"{self.source}: {self.path}: found {found!r:.80}, wanted {wanted}")

    def mapping(self, value: object, known: Sequence[str]) -> Document:
        """Return `value` if it is a mapping of `known` fields."""
        if not isinstance(value, Mapping):
            raise self.error(value, "a mapping")
        unknown = [str(name) for name in value if name not in known]
        if unknown:
            raise SettingError(
                f"{self.source}: {self.path}: {shown(unknown)} is not supported,"
                f" wanted only {', '.join(known)}"
            )
        return value

    def one(self, value: object, what: str) -> object:
        """Return the only item of a list."""
        if not isinstance(value, list) or len(value) != 1:
            raise self.error(value, f"a list of exactly one {what} (more are not supported)")
        return value[0]

    def only(self, value: object, wanted: object) -> None:
        """Refuse any value but the one that says what happens anyway."""
        if value != wanted:
            raise self.error(value, f"{wanted!r}; nothing else is supported")


def _queue(place: _Place, document: Document) -> Queue:
    top = place.mapping(document, ("apiVersion", "kind", "metadata", "spec", "status"))
    api_version = str(top.get("apiVersion"))
    if not _API_VERSION.fullmatch(api_version):
        raise place.at("apiVersion").error(api_version, "kueue.x-k8s.io/v1beta1 or v1beta2")
    name = _name(place.at("metadata"), top.get("metadata"))
    place = _Place(place.source, f"ClusterQueue {name}").at("spec")
    spec = place.mapping(top.get("spec", {}), tuple(_CHECKED) + _READ)
    for field, value in spec.items():
        if field in _CHECKED:
            _CHECKED[field](place.at(field), value)
    quota = _gpu_quota(place.at("resourceGroups"), spec.get("resourceGroups"))
    cohort = None if _is_static(place, top.get("metadata")) else _cohort(place, spec)
    preemption = place.at("preemption").mapping(spec.get("preemption") or {}, _PREEMPTION)
    reclaims, preempts = (preemption.get(name, "Never") for name in _PREEMPTION[:2])
    borrowing = place.at("preemption.borrowWithinCohort")
    found = borrowing.mapping(preemption.get("borrowWithinCohort") or {}, ("policy",))
    for limit in ("borrowingLimit", "lendingLimit"):
        if _cohort(place, spec) is None and quota.get(limit) is not None:
            raise place.at(limit).error(quota[limit], "no limit where there is no cohort")
    return Queue(
        name=name,
        nominal_quota_gpus=_quantity(place.at("nominalQuota"), quota.get("nominalQuota")),
        cohort=cohort,
        borrowing_limit_gpus=_limit(place.at("borrowingLimit"), quota.get("borrowingLimit")),
        lending_limit_gpus=_limit(place.at("lendingLimit"), quota.get("lendingLimit")),
        weight=_weight(place.at("fairSharing"), spec.get("fairSharing")),
        is_held=_is_held(place.at("stopPolicy"), spec.get("stopPolicy")),
        reclaims=_whom(place.at("preemption.reclaimWithinCohort"), reclaims, tuple(Whom)),
        preempts=_whom(place.at("preemption.withinClusterQueue"), preempts, tuple(Whom)[:2]),
        borrows=_whom(borrowing.at("policy"), found.get("policy", "Never"), tuple(Whom)[:2]),
    )


def _is_static(place: _Place, metadata: object) -> bool:
    """Return whether a queue keeps what it has, and nothing else (the d.run article's static)."""
    annotations = metadata.get("annotations") if isinstance(metadata, Mapping) else None
    found = annotations.get(ALLOCATION) if isinstance(annotations, Mapping) else None
    if found not in (None, "dynamic", "static"):
        raise place.at(ALLOCATION).error(found, "dynamic or static")
    return found == "static"


def _whom(place: _Place, value: object, known: Sequence[Whom]) -> Whom:
    if value not in [str(whom) for whom in known]:
        raise place.error(value, f"one of {', '.join(known)}")
    return Whom(str(value))


def _name(place: _Place, metadata: object) -> str:
    name = metadata.get("name") if isinstance(metadata, Mapping) else None
    if not isinstance(name, str) or not name:
        raise place.at("name").error(name, "a name")
    return name


def _gpu_quota(place: _Place, groups: object) -> Document:
    group = place.mapping(place.one(groups, "resource group"), ("coveredResources", "flavors"))
    covered = place.at("coveredResources")
    covered.only(group.get("coveredResources"), [GPU_RESOURCE])
    place = place.at("flavors")
    flavor = place.mapping(place.one(group.get("flavors"), "flavor"), ("name", "resources"))
    place = place.at("resources")
    known = ("name", "nominalQuota", "borrowingLimit", "lendingLimit")
    quota = place.mapping(place.one(flavor.get("resources"), "resource"), known)
    place.at("name").only(quota.get("name"), GPU_RESOURCE)
    return quota


def _cohort(place: _Place, spec: Document) -> str | None:
    cohort = spec.get("cohortName", spec.get("cohort"))  # v1beta2's name, v1beta1's name
    if cohort is None or (isinstance(cohort, str) and cohort):
        return cohort
    raise place.at("cohortName").error(cohort, "a name")


def _weight(place: _Place, sharing: object) -> float:
    if sharing is None:
        return 1.0
    weight = _quantity(place.at("weight"), place.mapping(sharing, ("weight",)).get("weight", 1))
    if weight == 0:
        raise place.at("weight").error(0, "a weight above 0")
    return weight


def _is_held(place: _Place, policy: object) -> bool:
    if policy not in (None, "None", "Hold"):
        raise place.error(policy, "None or Hold; HoldAndDrain is not supported")
    return policy == "Hold"


def _limit(place: _Place, value: object) -> float | None:
    return None if value is None else _quantity(place, value)


def _quantity(place: _Place, value: object) -> float:
    match = None if isinstance(value, bool) else _QUANTITY.fullmatch(str(value))
    if match is None:
        raise place.error(value, "GPUs as a Kubernetes quantity, such as 4, '4' or 500m")
    return float(match[1]) / (1000 if match[2] else 1)


_READ = ("cohort", "cohortName", "resourceGroups", "fairSharing", "stopPolicy", "preemption")
_CHECKED = {
    "queueingStrategy": lambda place, value: place.only(value, "BestEffortFIFO"),
    "namespaceSelector": lambda place, value: place.only(value, {}),
}
