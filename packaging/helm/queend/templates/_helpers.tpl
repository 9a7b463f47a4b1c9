{{- define "queend.labels" -}}
app.kubernetes.io/name: queend
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}
{{- define "queend.selector" -}}
app.kubernetes.io/name: queend
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}
{{- define "queend.name" -}}
{{- if contains .Chart.Name .Release.Name }}{{ .Release.Name | trunc 50 }}{{ else }}{{ printf "%s-queend" .Release.Name | trunc 50 }}{{ end }}
{{- end }}
{{- define "queend.kind" -}}
{{- if .Values.buffer.storage }}StatefulSet{{ else }}Deployment{{ end }}
{{- end }}

{{- define "queend.scheme" -}}
{{ if or .Values.tls.secret (hasKey .Values.settings "QUEEND_TLS_CERT") }}https{{ else }}http{{ end }}
{{- end }}

{{- /* Kubernetes has no certificate to show: where clients must have one, the daemon's own is shown, inside of the pod. */}}
{{- define "queend.probe" -}}
{{- if eq (toString (get .root.Values.settings "QUEEND_TLS_CLIENT_REQUIRED")) "true" -}}
exec: {command: [python3, -m, queend.daemon.alive, {{ .path }}]}
{{- else -}}
httpGet: {path: {{ .path }}, port: http, scheme: {{ include "queend.scheme" .root | upper }}}
{{- end -}}
{{- end }}
