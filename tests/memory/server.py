"""An API server in memory: JSON in and JSON out, as at the HTTP level of `quarterjack.transport.Transport`.

It holds what the operator uses, and holds to what the operator relies on: one revision over all objects, conflicts,
quorum reads, watches with bookmarks and 410, stamps that are given when a create arrives and commits that may follow
later, the fence, the rule that no watermark falls. What tests do as users or as a kubelet is in actors.py; what the
network does, in connection.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from email.utils import formatdate
from functools import lru_cache

import orjson

from quarterjack.transport import JSON, Response

from .calls import Call
from .resources import PODS, Target, parse_path
from .selectors import selector
from .statuses import Document, Refused, bad_request, no_such_path, timed_out
from .watches import Listener, Watch
from .writes import Cluster


class MemoryApi(Cluster):
    """One cluster's API, as a client meets it."""

    # Requests

    def arrive(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: bytes = b"",
        content_type: str = JSON,
        accept: str = JSON,
        by: str = "quarterjack",
    ) -> Call:
        """Take a request in and stamp it. Nothing is done before `commit`."""
        return Call(method, path, query or {}, body, content_type, accept, self.clock.wall(), by)

    def commit(self, call: Call) -> Response:
        """Do what a request asks, now, and answer it. A watch is opened by `watch` instead."""
        try:
            status, body = self._dispatch(call)
            return Response(status, body, self.headers())
        except Refused as no:
            return self.refuse(no)

    def refuse(self, no: Refused) -> Response:
        """The answer that says no."""
        return Response(no.code, no.body(), self.headers(**no.headers))

    def give_up(self) -> Response:
        """The answer to a request that took longer than its timeout."""
        return self.refuse(timed_out())

    def watch(self, call: Call, listener: Listener) -> Watch | Response:
        """Open a watch: its lines and its end go to the listener. A Response where it is refused."""
        try:
            target = self._target(call)
            self.counts["WATCH", target.resource.plural] += 1
            return Watch(self, call, target, listener)
        except Refused as no:
            return self.refuse(no)

    def headers(self, **more: str) -> dict[str, str]:
        """What every answer carries."""
        return {"date": _http_date(int(self.clock.wall())), "content-type": JSON, **more}

    def _target(self, call: Call) -> Target:
        target = parse_path(call.path)
        if target is None or (target.subresource == "status" and not target.resource.has_status):
            raise no_such_path()
        return target

    def _dispatch(self, call: Call) -> tuple[int, bytes]:
        target = self._target(call)
        resource, _, name, subresource = target
        verb = call.method if name else {"GET": "LIST", "DELETE": "DELETECOLLECTION"}.get(call.method, call.method)
        self.counts[verb, resource.plural] += 1
        if subresource == "log" and resource is PODS and verb == "GET":
            return self._log(call, target)
        if subresource not in (None, "status"):
            raise no_such_path()
        if verb == "POST" and not name:
            return self.create(call, target)
        match verb:
            case "GET":
                return 200, self.need(target).encoded(metadata_only=call.metadata_only)
            case "LIST":
                return 200, self._list(call, target)
            case "PUT" | "PATCH" if name:
                return self.update(call, target)
            case "DELETE":
                return self.delete_one(call, target)
            case "DELETECOLLECTION":
                return self.delete_collection(call, target)
        raise Refused(
            405, "MethodNotAllowed", "the server does not allow this method on the requested resource", details={}
        )

    # Reads

    def _list(self, call: Call, target: Target) -> bytes:
        query = call.query
        shows = selector(target.resource, target.namespace, query)
        if asked := query.get("resourceVersion", ""):
            self.reached(asked)
        if token := query.get("continue"):
            revision, found = self.store.page(token)
        else:
            revision, found = self.store.revision, self.select(target.resource, shows)
        limit = int(query.get("limit") or 0)
        meta: Document = {"resourceVersion": str(revision)}
        if limit and len(found) > limit:
            meta["continue"] = self.store.keep_page(revision, found[limit:])
            if "labelSelector" not in query and "fieldSelector" not in query:
                meta["remainingItemCount"] = len(found) - limit
            found = found[:limit]
        items = b",".join(version.encoded(metadata_only=call.metadata_only) for version in found)
        kind = {"kind": f"{target.resource.kind}List", "apiVersion": target.resource.api_version}
        if call.metadata_only:
            kind = {"kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1"}
        return orjson.dumps(kind | {"metadata": meta})[:-1] + b',"items":[' + items + b"]}"

    def reached(self, asked: str) -> None:
        """Refuse to answer as of a revision that is yet to come: 504; or is no revision: 400."""
        if not asked.isdigit():
            raise bad_request(f'resourceVersion: Invalid value: "{asked}"')
        if int(asked) > self.store.revision:
            raise timed_out(f"Too large resource version: {asked}, current: {self.store.revision}")

    def _log(self, call: Call, target: Target) -> tuple[int, bytes]:
        self.need(target)
        stream, pod = call.query.get("stream"), (target.namespace or "", target.name or "")
        if stream and not self.options.split_streams:
            message = f'PodLogOptions "{target.name}" is invalid: stream: Forbidden: may not be specified'
            raise Refused(422, "Invalid", message, details={})
        warnings = "" if stream == "Stdout" else self.warnings.get(pod, "")
        return 200, (self.logs.get(pod, "") + warnings).encode()


@lru_cache(maxsize=64)
def _http_date(epoch: int) -> str:
    return formatdate(epoch, usegmt=True)
