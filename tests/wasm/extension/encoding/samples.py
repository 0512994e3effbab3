"""A pod and a node as clusters have them, as JSON documents."""

from __future__ import annotations

import json
from typing import Any

POD: dict[str, Any] = json.loads("""
{
  "metadata": {
    "name": "web-7d4b9c-x2x7k", "generateName": "web-7d4b9c-", "namespace": "shop", "uid": "b6a1f0de-8f3c-4c3e-9d53-1",
    "resourceVersion": "48211", "generation": 1, "creationTimestamp": "2026-03-01T08:00:00Z",
    "labels": {"pod-template-hash": "7d4b9c", "app": "web"}, "annotations": {"team": "shop"},
    "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-7d4b9c", "uid": "u-rs",
      "controller": true, "blockOwnerDeletion": true}],
    "managedFields": [{"manager": "kube-controller-manager", "operation": "Update", "apiVersion": "v1",
      "time": "2026-03-01T08:00:00Z", "fieldsType": "FieldsV1", "fieldsV1": {"f:metadata": {}}}]
  },
  "spec": {
    "containers": [{
      "name": "web", "image": "nginx:1.27", "command": ["nginx"], "args": ["-g", "daemon off;"],
      "ports": [{"name": "http", "containerPort": 80, "protocol": "TCP"}],
      "env": [{"name": "POD_IP", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "status.podIP"}}},
        {"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "token", "key": "t", "optional": false}}}],
      "resources": {"limits": {"memory": "1.5Gi"}, "requests": {"cpu": "0.25", "memory": "512Mi"}},
      "volumeMounts": [{"name": "data", "mountPath": "/data", "readOnly": true}],
      "livenessProbe": {"httpGet": {"path": "/healthz", "port": "http", "scheme": "HTTP"}, "periodSeconds": 10},
      "readinessProbe": {"tcpSocket": {"port": 80}, "initialDelaySeconds": 5},
      "lifecycle": {"preStop": {"exec": {"command": ["sleep", "5"]}}},
      "securityContext": {"runAsNonRoot": true, "runAsUser": 1000, "capabilities": {"drop": ["ALL"]}},
      "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File", "imagePullPolicy": "Always"
    }],
    "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data-web"}},
      {"name": "kube-api-access", "projected": {"defaultMode": 420, "sources": [
        {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
        {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}}]}},
      {"name": "tmp", "emptyDir": {"medium": "Memory", "sizeLimit": "64Mi"}}],
    "restartPolicy": "Always", "terminationGracePeriodSeconds": 30, "dnsPolicy": "ClusterFirst",
    "nodeSelector": {"disk": "ssd"}, "serviceAccountName": "default", "schedulerName": "default-scheduler",
    "securityContext": {"fsGroup": 2000, "supplementalGroups": [1, 300]}, "priority": 0, "enableServiceLinks": true,
    "preemptionPolicy": "PreemptLowerPriority",
    "affinity": {
      "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
        {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a", "b"]}]}]}},
      "podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 100, "podAffinityTerm": {
        "labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": "kubernetes.io/hostname"}}]}},
    "tolerations": [{"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute",
      "tolerationSeconds": 300}],
    "topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule",
      "labelSelector": {"matchLabels": {"app": "web"}}}]
  },
  "status": {"phase": "Pending", "qosClass": "Burstable", "conditions": [{"type": "PodScheduled", "status": "False",
    "reason": "Unschedulable", "message": "0/1 nodes are available", "lastProbeTime": null,
    "lastTransitionTime": "2026-03-01T08:00:01Z"}]}
}
""")

NODE: dict[str, Any] = json.loads("""
{
  "metadata": {"name": "worker-1", "uid": "n-1", "resourceVersion": "48000",
    "creationTimestamp": "2026-01-01T00:00:00Z",
    "labels": {"zone": "a", "kubernetes.io/hostname": "worker-1", "disk": "ssd"},
    "annotations": {"node.alpha.kubernetes.io/ttl": "0"}},
  "spec": {"podCIDR": "10.0.1.0/24", "podCIDRs": ["10.0.1.0/24"], "providerID": "kwok://worker-1",
    "taints": [{"key": "dedicated", "value": "shop", "effect": "NoSchedule", "timeAdded": "2026-02-01T00:00:00Z"}]},
  "status": {
    "capacity": {"cpu": "16", "memory": "65536Mi", "pods": "110", "ephemeral-storage": "100Gi", "hugepages-2Mi": "0"},
    "allocatable": {"cpu": "15500m", "memory": "62Gi", "pods": "110"},
    "conditions": [{"type": "Ready", "status": "True", "lastHeartbeatTime": "2026-03-01T08:00:00Z",
      "lastTransitionTime": "2026-01-01T00:00:10Z", "reason": "KubeletReady", "message": "ready"}],
    "addresses": [{"type": "InternalIP", "address": "192.168.0.11"}, {"type": "Hostname", "address": "worker-1"}],
    "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
    "nodeInfo": {"machineID": "m", "systemUUID": "s", "bootID": "b", "kernelVersion": "6.1", "osImage": "Debian",
      "containerRuntimeVersion": "containerd://2.0", "kubeletVersion": "v1.36.3", "kubeProxyVersion": "",
      "operatingSystem": "linux", "architecture": "amd64"},
    "images": [{"names": ["nginx@sha256:0", "nginx:1.27"], "sizeBytes": 191670156}],
    "volumesInUse": ["kubernetes.io/csi/x"], "volumesAttached": [{"name": "kubernetes.io/csi/x", "devicePath": ""}]
  }
}
""")
