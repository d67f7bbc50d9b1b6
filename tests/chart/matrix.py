"""Values that the chart is rendered with, each set for a reason."""

from __future__ import annotations

from typing import Any

CASES: dict[str, dict[str, Any]] = {
    "as it comes": {},
    "some namespaces only": {"watchNamespaces": ["team-a", "team-b"]},
    "some namespaces and its own": {"watchNamespaces": ["team-a", "quarterjack-system"]},
    "a second installation": {"crds": {"install": False}, "fence": {"install": False}},
    "nothing kept": {"crds": {"keep": False}, "fence": {"keep": False}},
    "an account and rights of somebody else's": {
        "serviceAccount": {"create": False, "name": "made-before"},
        "rbac": {"create": False, "userRoles": False},
    },
    "roles that are not aggregated": {"rbac": {"aggregate": False}},
    "one replica that fires nothing": {"replicaCount": 1, "schedule": False, "podDisruptionBudget": {"enabled": False}},
    "an image by digest": {"image": {"repository": "registry.example:5000/a/b", "digest": "sha256:" + "0" * 64}},
    "the least": {
        "topologySpreadConstraints": [],
        "resources": {},
        "podDisruptionBudget": {"maxUnavailable": "34%"},
        "logs": {"format": "text", "level": "debug"},
        "insecureAPIServer": True,
    },
    "all that is optional": {
        "serviceAccountAllowList": {"install": True},
        "serviceMonitor": {"enabled": True, "labels": {"release": "prometheus"}, "interval": "15s"},
        "prometheusRule": {"enabled": True, "labels": {"release": "prometheus"}},
        "dashboards": {"enabled": True, "annotations": {"grafana_folder": "Jobs"}},
        "networkPolicy": {"enabled": True, "from": [{"namespaceSelector": {"matchLabels": {"team": "sre"}}}]},
        "flowSchema": {"enabled": True},
        "extraObjects": [
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": "{{ .Release.Name }}-map", "namespace": "{{ .Release.Namespace }}"},
            },
            "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: text\n  namespace: {{ .Release.Namespace }}",
        ],
    },
    "places and names": {
        "nodeSelector": {"kubernetes.io/os": "linux"},
        "tolerations": [{"key": "infra", "operator": "Exists"}],
        "affinity": {"nodeAffinity": {}},
        "topologySpreadConstraints": [
            {
                "maxSkew": 2,
                "topologyKey": "rack",
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": {"matchLabels": {"rack": "yes"}},
            }
        ],
        "priorityClassName": "system-cluster-critical",
        "podAnnotations": {"team": "jobs"},
        "podLabels": {"tier": "control"},
        "commonLabels": {"owner": "platform"},
        "imagePullSecrets": [{"name": "registry"}],
        "extraEnv": [{"name": "A", "value": "1"}],
        "fullnameOverride": "qj",
        "nameOverride": "clock",
        "service": {"port": 80, "annotations": {"a": "b"}},
        "serviceAccount": {"annotations": {"a": "b"}},
        "graceSeconds": 25,
    },
}
