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
{{ if .Values.tls.secret }}https{{ else }}http{{ end }}
{{- end }}
