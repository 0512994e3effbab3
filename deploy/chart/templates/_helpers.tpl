{{/* The name of all objects. */}}
{{- define "kscheduler.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride -}}
{{- else if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" (.Release.Name | trunc 29 | trimSuffix "-") .Chart.Name -}}
{{- end -}}
{{- end -}}

{{- define "kscheduler.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- .Values.serviceAccount.name | default (include "kscheduler.fullname" .) -}}
{{- else -}}
{{- .Values.serviceAccount.name | default "default" -}}
{{- end -}}
{{- end -}}

{{/* The labels by which pods are selected. They equal kustomize's, so that an installation can change hands. */}}
{{- define "kscheduler.selectorLabels" -}}
app.kubernetes.io/name: {{ include "kscheduler.fullname" . }}
app.kubernetes.io/component: scheduler
{{- end -}}

{{- define "kscheduler.labels" -}}
app.kubernetes.io/name: {{ include "kscheduler.fullname" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}

{{/* leaderElection of the configuration, with the Lease named. */}}
{{- define "kscheduler.leaderElection" -}}
{{- $lease := dict "resourceNamespace" .Release.Namespace "resourceName" (include "kscheduler.fullname" .) -}}
{{- mergeOverwrite $lease (deepCopy (.Values.config.leaderElection | default dict)) | toYaml -}}
{{- end -}}

{{/* The text of the configuration file. */}}
{{- define "kscheduler.config" -}}
{{- $config := deepCopy .Values.config -}}
{{- $_ := set $config "leaderElection" (include "kscheduler.leaderElection" . | fromYaml) -}}
{{- toYaml $config -}}
{{- end -}}

{{/* The text of the file of routing rules. */}}
{{- define "kscheduler.routingConfig" -}}
apiVersion: kscheduler.io/v1alpha1
kind: RoutingConfiguration
port: 9443
certFile: /etc/kscheduler-routing-tls/tls.crt
keyFile: /etc/kscheduler-routing-tls/tls.key
rules:
{{ toYaml .Values.routing.rules }}
{{- end -}}

{{/* The Secret with the certificate of the routing webhook. */}}
{{- define "kscheduler.routingSecret" -}}
{{- .Values.routing.secretName | default (printf "%s-routing" (include "kscheduler.fullname" .)) -}}
{{- end -}}

{{- define "kscheduler.image" -}}
{{- if .Values.image.digest -}}
{{- printf "%s@%s" .Values.image.repository .Values.image.digest -}}
{{- else -}}
{{- printf "%s:%s" .Values.image.repository (.Values.image.tag | default .Chart.AppVersion) -}}
{{- end -}}
{{- end -}}

{{/*
The objects of files/PATH, which is a copy of kustomize's file, under this release's names and in its namespace.
Of a list: the top-level scope, and PATH.
*/}}
{{- define "kscheduler.objects" -}}
{{- $root := index . 0 -}}
{{- $name := include "kscheduler.fullname" $root -}}
{{- $election := include "kscheduler.leaderElection" $root | fromYaml -}}
{{- range regexSplit "(?m)^---$" ($root.Files.Get (printf "files/%s" (index . 1))) -1 }}
{{- $object := fromYaml . }}
{{- $metadata := $object.metadata }}
{{- if eq $metadata.name "kscheduler-leader-election" }}
{{- $_ := set $metadata "namespace" $election.resourceNamespace }}
{{- range $object.rules }}
{{- if .resourceNames }}
{{- $_ := set . "resourceNames" (list $election.resourceName) }}
{{- end }}
{{- end }}
{{- else if eq (default "" $metadata.namespace) "kscheduler" }}
{{- $_ := set $metadata "namespace" $root.Release.Namespace }}
{{- end }}
{{- $_ := set $metadata "name" (regexReplaceAll "^kscheduler" $metadata.name $name) }}
{{- $_ := set $metadata "labels" (mergeOverwrite $metadata.labels (include "kscheduler.labels" $root | fromYaml)) }}
{{- with $object.roleRef }}
{{- $_ := set . "name" (regexReplaceAll "^kscheduler" .name $name) }}
{{- end }}
{{- range $object.subjects }}
{{- $_ := set . "name" (include "kscheduler.serviceAccountName" $root) }}
{{- $_ := set . "namespace" $root.Release.Namespace }}
{{- end }}
{{- if eq $object.kind "CustomResourceDefinition" }}
{{- $_ := set $metadata "annotations" (mergeOverwrite (default dict $metadata.annotations) (dict "helm.sh/resource-policy" "keep")) }}
{{- end }}
---
{{ toYaml $object }}
{{- end }}
{{- end -}}
