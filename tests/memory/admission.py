"""What stands between a request and the store: validation, the rules of our CRDs, and the fence.

Only what the operator can run into, but that as the real server does it: it is these refusals that safety rests on.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from .resources import CONFIG_MAPS, EVENTS, GROUP, LEASES, PODS, Resource
from .schema import Fault, part_faults
from .statuses import Document, Refused, bad_request, denied_by_policy, invalid

POLICY = "quarterjack-fence"
PREFIX = "quarterjack fence: "
ANNOTATIONS_BYTES = 256 * 1024
CONFIG_MAP_BYTES = 1024 * 1024

_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_LABEL_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")
_LABEL_KEY = re.compile(r"([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_WINDOW_TIME = re.compile(r"\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])T([01]\d|2[0-3]):[0-5]\d:[0-5]\dZ", re.ASCII)
_EXAMPLE = "2026-01-31T09:00:00Z"
_MICRO_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}(Z|[+-]\d\d:\d\d)")


def rfc3339(epoch: float) -> str:
    """Whole seconds, UTC, cut and not rounded."""
    return datetime.fromtimestamp(int(epoch), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


# The fence


def fence(resource: Resource, document: Document) -> None:
    """Refuse the create of a Lease or Pod of ours that is stamped outside of the window it names itself (crds/fence.yaml)."""
    meta = document["metadata"]
    if resource not in (LEASES, PODS) or f"{GROUP}/firing" not in (meta.get("labels") or {}):
        return
    notes, stamp = meta.get("annotations") or {}, meta["creationTimestamp"]
    first, last = (notes.get(f"{GROUP}/{bound}", "") for bound in ("not-before", "not-after"))
    if not _WINDOW_TIME.fullmatch(first) or not _WINDOW_TIME.fullmatch(last):
        why = (
            f'annotations {GROUP}/not-before "{first}" and {GROUP}/not-after "{last}" must be times such as {_EXAMPLE}'
        )
        raise denied_by_policy(resource, meta["name"], POLICY, PREFIX + why)
    if not first <= stamp <= last:
        why = f"created at {stamp}, outside its window from {first} to {last}"
        raise denied_by_policy(resource, meta["name"], POLICY, PREFIX + why)


# Defaults


def set_defaults(resource: Resource, document: Document) -> None:
    """What the server fills in on a create, in place."""
    if resource is PODS:
        spec = document.setdefault("spec", {})
        spec.setdefault("restartPolicy", "Always")
        spec.setdefault("terminationGracePeriodSeconds", 30)
        for container in spec.get("containers") or ():
            container.setdefault("terminationMessagePolicy", "File")
        document["status"] = {"phase": "Pending", "qosClass": "BestEffort"}
    elif resource is LEASES:
        document.setdefault("spec", {})


# Validation


def validate_create(resource: Resource, document: Document) -> None:
    """Refuse a new object that the real server would refuse: 400 or 422."""
    faults = [*_metadata_faults(document), *_FAULTS.get(resource, _no_faults)(document)]
    _validate(resource, document, faults + part_faults(resource, None, document, "spec"))


def validate_update(resource: Resource, old: Mapping[str, Any], new: Document, *, part: str) -> None:
    """Refuse a change, of the part that the request may change, that the real server would refuse: 400 or 422."""
    faults = [*_metadata_faults(new), *_FAULTS.get(resource, _no_faults)(new)]
    if old.get(part) != new.get(part):
        faults += part_faults(resource, old, new, part)
    if resource is PODS and part == "spec" and _lasting(old) != _lasting(new):
        faults.append(("spec", "Forbidden: pod updates may not change fields other than a few"))
    _validate(resource, new, faults)


def _validate(resource: Resource, document: Document, faults: list[Fault]) -> None:
    if faults:
        raise invalid(resource, document["metadata"].get("name", ""), faults)


def _no_faults(_: Document) -> list[Fault]:
    return []


def _metadata_faults(document: Document) -> list[Fault]:
    meta, faults = document["metadata"], []
    name, labels, notes = meta.get("name", ""), meta.get("labels") or {}, meta.get("annotations") or {}
    if len(name) > 253 or not _SUBDOMAIN.fullmatch(name):
        faults.append(("metadata.name", f'Invalid value: "{name}": a lowercase RFC 1123 subdomain'))
    faults += [
        ("metadata.labels", f'Invalid value: "{key}={value}": must be a valid label')
        for key, value in labels.items()
        if not isinstance(value, str) or not _LABEL_VALUE.fullmatch(value) or not _LABEL_KEY.fullmatch(key)
    ]
    if any(not isinstance(value, str) for value in notes.values()):
        raise bad_request("json: cannot unmarshal into Go struct field ObjectMeta.metadata.annotations of type string")
    if sum(len(key) + len(value.encode()) for key, value in notes.items()) > ANNOTATIONS_BYTES:
        faults.append(("metadata.annotations", f"Too long: may not be more than {ANNOTATIONS_BYTES} bytes"))
    for owner in meta.get("ownerReferences") or ():
        if missing := [field for field in ("apiVersion", "kind", "name", "uid") if not owner.get(field)]:
            faults.append((f"metadata.ownerReferences.{missing[0]}", "Required value"))
    return faults


def _lease_faults(document: Document) -> list[Fault]:
    spec = document.get("spec") or {}
    for field in ("renewTime", "acquireTime"):
        if (value := spec.get(field)) is not None and not _MICRO_TIME.fullmatch(value):
            raise bad_request(f'Lease in version "v1" cannot be handled as a Lease: parsing time "{value}" ({field})')
    faults = []
    if (seconds := spec.get("leaseDurationSeconds")) is not None and (not isinstance(seconds, int) or seconds <= 0):
        faults.append(("spec.leaseDurationSeconds", f"Invalid value: {seconds}: must be greater than 0"))
    if spec.get("leaseTransitions", 0) < 0:
        faults.append(("spec.leaseTransitions", "Invalid value: must be greater than or equal to 0"))
    if spec.get("holderIdentity") == "":
        faults.append(("spec.holderIdentity", "Invalid value: must not be empty"))
    return faults


def _pod_faults(document: Document) -> list[Fault]:
    spec = document.get("spec") or {}
    if not spec.get("containers"):
        return [("spec.containers", "Required value")]
    return [
        (f"spec.containers[{i}].{field}", "Required value")
        for i, container in enumerate(spec["containers"])
        for field in ("name", "image")
        if not container.get(field)
    ]


def _lasting(pod: Mapping[str, Any]) -> Mapping[str, Any]:
    """The part of a Pod's spec that may not be changed any more."""
    may_change = ("activeDeadlineSeconds", "terminationGracePeriodSeconds", "tolerations", "schedulingGates")
    spec = {field: value for field, value in (pod.get("spec") or {}).items() if field not in may_change}
    spec["containers"] = [{k: v for k, v in c.items() if k != "image"} for c in spec.get("containers") or ()]
    return spec


def _event_faults(document: Document) -> list[Fault]:
    faults = []
    if not _MICRO_TIME.fullmatch(document.get("eventTime") or ""):
        faults.append(("eventTime", "Required value"))
    for field, most in (("reportingController", 253), ("reportingInstance", 128), ("action", 128), ("reason", 128)):
        if not 0 < len(document.get(field) or "") <= most:
            faults.append((field, f"can have at most {most} characters, and at least 1"))
    if document.get("type") not in ("Normal", "Warning"):
        faults.append(("type", f'Invalid value: "{document.get("type")}": has invalid value'))
    if len(document.get("note") or "") > 1024:
        faults.append(("note", "can have at most 1024 characters"))
    if (document.get("regarding") or {}).get("namespace", "default") != document["metadata"].get("namespace"):
        faults.append(("regarding.namespace", "Invalid value: does not match event.namespace"))
    return faults


def _config_map_faults(document: Document) -> list[Fault]:
    size = sum(len(key) + len(value.encode()) for key, value in (document.get("data") or {}).items())
    return [("", f"Too long: may not be more than {CONFIG_MAP_BYTES} bytes")] if size > CONFIG_MAP_BYTES else []


_FAULTS: Mapping[Resource, Callable[[Document], list[Fault]]] = {
    CONFIG_MAPS: _config_map_faults,
    LEASES: _lease_faults,
    PODS: _pod_faults,
    EVENTS: _event_faults,
}


def parse_seconds(duration: str) -> float:
    """A duration as Go writes it, such as `2s`, `1m30s` or `500ms`; a Refused of 400 where it is none."""
    parts = re.findall(r"(\d+(?:\.\d+)?)(ms|us|s|m|h)", duration)
    if not parts or "".join(number + unit for number, unit in parts) != duration:
        raise bad_request(f'invalid timeout specified in the request URL - time: invalid duration "{duration}"')
    size = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
    return sum(float(number) * size[unit] for number, unit in parts)


Admission = Callable[[str, Resource, Document], Refused | None]
