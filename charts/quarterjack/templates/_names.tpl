{{/* The names and labels of all objects. */}}

{{- define "quarterjack.name" -}}
{{- .Values.nameOverride | default .Chart.Name | trunc 40 | trimSuffix "-" }}
{{- end }}

{{- define "quarterjack.fullname" -}}
{{- $name := include "quarterjack.name" . }}
{{- $whole := contains $name .Release.Name | ternary .Release.Name (printf "%s-%s" .Release.Name $name) }}
{{- .Values.fullnameOverride | default $whole | trunc 40 | trimSuffix "-" }}
{{- end }}

{{/* Of what belongs to no namespace: so that a second installation may have the same name. */}}
{{- define "quarterjack.clusterName" -}}
{{- printf "%s:%s" .Release.Namespace (include "quarterjack.fullname" .) }}
{{- end }}

{{- define "quarterjack.selector" -}}
app.kubernetes.io/name: {{ include "quarterjack.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{/* Of the replicas' Pods, as against the Pod of `helm test`. */}}
{{- define "quarterjack.replicas" -}}
{{ include "quarterjack.selector" . }}
app.kubernetes.io/component: replica
{{- end }}

{{- define "quarterjack.labels" -}}
{{ include "quarterjack.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "quarterjack.account" -}}
{{- if .Values.serviceAccount.create }}
{{- .Values.serviceAccount.name | default (include "quarterjack.fullname" .) }}
{{- else }}
{{- .Values.serviceAccount.name | default "default" }}
{{- end }}
{{- end }}

{{- define "quarterjack.image" -}}
{{- with .Values.image }}
{{- if .digest }}{{ .repository }}@{{ .digest }}{{ else }}{{ .repository }}:{{ .tag | default $.Chart.AppVersion }}{{ end }}
{{- end }}
{{- end }}

{{/* Both of the restricted Pod Security level. */}}
{{- define "quarterjack.podSecurity" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
seccompProfile: {type: RuntimeDefault}
{{- end }}

{{- define "quarterjack.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end }}

{{/* An object from a file of this chart, with labels, and kept on uninstall where `keep` is true. */}}
{{- define "quarterjack.object" -}}
{{- $object := deepCopy .object }}
{{- $_ := set $object.metadata "labels" (include "quarterjack.labels" .root | fromYaml) }}
{{- if .keep }}
{{- $_ := set $object.metadata "annotations" (dict "helm.sh/resource-policy" "keep") }}
{{- end }}
{{- toYaml $object }}
{{- end }}

{{/* Of any Pod: who it runs as, and where it may. */}}
{{- define "quarterjack.place" -}}
securityContext: {{- include "quarterjack.podSecurity" . | nindent 2 }}
{{- with .Values.imagePullSecrets }}
imagePullSecrets: {{- toYaml . | nindent 0 }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations: {{- toYaml . | nindent 0 }}
{{- end }}
{{- end }}

{{/* Annotations of what `helm test` makes, by weight, and removes where all went well. */}}
{{- define "quarterjack.hook" -}}
helm.sh/hook: test
helm.sh/hook-weight: {{ . | quote }}
helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded
{{- end }}
