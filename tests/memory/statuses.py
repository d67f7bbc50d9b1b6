"""What the API server says when it says no: Status documents, in its words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from .resources import PODS, Resource

Document = dict[str, Any]


class Refused(Exception):
    """A request is answered with a Status of failure."""

    def __init__(
        self,
        code: int,
        reason: str,
        message: str,
        *,
        details: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.details = details
        self.headers = headers or {}

    def document(self) -> Document:
        """The Status document."""
        document: Document = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            "reason": self.reason,
        }
        if self.details is not None:
            document["details"] = dict(self.details)
        return document | {"code": self.code}

    def body(self) -> bytes:
        """The Status document as bytes."""
        return orjson.dumps(self.document())


def _about(resource: Resource, name: str, **more: Any) -> Document:
    group = {"group": resource.group} if resource.group else {}
    return {"name": name} | group | {"kind": resource.plural} | more


def bad_request(message: str) -> Refused:
    return Refused(400, "BadRequest", message)


def not_found(resource: Resource, name: str) -> Refused:
    return Refused(404, "NotFound", f'{resource.qualified} "{name}" not found', details=_about(resource, name))


def no_such_path() -> Refused:
    return Refused(404, "NotFound", "the server could not find the requested resource", details={})


def already_exists(resource: Resource, name: str) -> Refused:
    message = f'{resource.qualified} "{name}" already exists'
    return Refused(409, "AlreadyExists", message, details=_about(resource, name))


MODIFIED = "the object has been modified; please apply your changes to the latest version and try again"


def conflict(resource: Resource, name: str, why: str = MODIFIED) -> Refused:
    message = f'Operation cannot be fulfilled on {resource.qualified} "{name}": {why}'
    return Refused(409, "Conflict", message, details=_about(resource, name))


def forbidden(resource: Resource, name: str, why: str, *, cause: str = "") -> Refused:
    message = f'{resource.qualified} "{name}" is forbidden: {why}'
    causes = {"causes": [{"reason": cause, "message": why}]} if cause else {}
    return Refused(403, "Forbidden", message, details=_about(resource, name) | causes)


def no_pods(verb: str, resource: Resource, document: Document) -> Refused | None:
    """A quota that is used up."""
    if (verb, resource) != ("CREATE", PODS):
        return None
    return forbidden(PODS, document["metadata"]["name"], "exceeded quota: pods, requested: 1, used: 10, limited: 10")


def denied_by_policy(resource: Resource, name: str, policy: str, why: str) -> Refused:
    """A ValidatingAdmissionPolicy's no: Invalid, though it says forbidden."""
    cause = f"ValidatingAdmissionPolicy '{policy}' with binding '{policy}' denied request: {why}"
    message = f'{resource.qualified} "{name}" is forbidden: {cause}'
    return Refused(422, "Invalid", message, details=_about(resource, name, causes=[{"message": cause}]))


def invalid(resource: Resource, name: str, faults: Sequence[tuple[str, str]]) -> Refused:
    """Validation failed: pairs of field and message."""
    said = [f"{field}: {what}" for field, what in faults]
    kind = f"{resource.kind}.{resource.group}" if resource.group else resource.kind
    message = f'{kind} "{name}" is invalid: {said[0] if len(said) == 1 else "[" + ", ".join(said) + "]"}'
    causes = [{"reason": "FieldValueInvalid", "message": what, "field": field} for field, what in faults]
    details = _about(resource, name) | {"kind": resource.kind, "causes": causes}
    return Refused(422, "Invalid", message, details=details)


def expired(message: str) -> Refused:
    return Refused(410, "Expired", message)


def too_many_requests(retry_after_seconds: int) -> Refused:
    return Refused(
        429,
        "TooManyRequests",
        "Too many requests, please try again later.",
        details={"retryAfterSeconds": retry_after_seconds},
        headers={"retry-after": str(retry_after_seconds)},
    )


def timed_out(message: str = "Timeout: request did not complete within the allotted timeout") -> Refused:
    return Refused(504, "Timeout", message, details={})


def internal_error(message: str) -> Refused:
    return Refused(
        500, "InternalError", f"Internal error occurred: {message}", details={"causes": [{"message": message}]}
    )


def refusal(code: int, *, retry_after_seconds: int = 1) -> Refused:
    """A failure that says nothing of the request: the server has had enough, or is unwell."""
    if code == 429:
        return too_many_requests(retry_after_seconds)
    if code == 410:
        return expired("too old resource version: 1 (2)")
    if code == 504:
        return timed_out()
    if code == 409:
        return Refused(409, "Conflict", "Operation cannot be fulfilled: " + MODIFIED, details={})
    if code == 503:
        return Refused(503, "ServiceUnavailable", "apiserver is shutting down", details={})
    return (
        internal_error("etcdserver: request timed out") if code == 500 else Refused(code, "Unknown", f"status {code}")
    )


BAD_TEMPLATE: Document = {"spec": {"containers": [{"name": "main", "image": "BAD"}]}}


def no_bad_images(verb: str, resource: Resource, document: Document) -> Refused | None:
    """What the real server finds in a Pod, beyond what the one in memory looks at."""
    if (verb, resource) != ("CREATE", PODS) or document["spec"]["containers"][0]["image"] != "BAD":
        return None
    return invalid(PODS, document["metadata"]["name"], [("spec.containers[0].image", 'Invalid value: "BAD"')])
