{{- /* An image by digest, or else by tag. */}}
{{- define "collection-operator.image" -}}
{{- $repository := required (printf "%s.repository is missing: build and push the image as docs/install.md explains, and name it" .value) .image.repository -}}
{{- if .image.digest -}}
{{ $repository }}@{{ .image.digest }}
{{- else -}}
{{ $repository }}:{{ .image.tag | default (printf "v%s" .chart.AppVersion) }}
{{- end -}}
{{- end }}

{{- /* The settings, as fields of ConfigMap collection-operator-settings. */}}
{{- define "collection-operator.settings" -}}
{{- $settings := deepCopy .Values.settings -}}
{{- if .Values.namespaces }}{{ $_ := set $settings "namespaces" .Values.namespaces }}{{ end -}}
{{- range $flag, $value := $settings }}
{{ $flag }}: {{ if kindIs "slice" $value -}}
{{ join "," $value | quote }}
{{- else if kindIs "map" $value -}}
{{ toJson $value | quote }}
{{- else if kindIs "float64" $value -}}
{{ int64 $value | toString | quote }}
{{- else -}}
{{ $value | toString | quote }}
{{- end }}
{{- end }}
{{- end }}
