{{- define "glovebox.fullname" -}}
{{- if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 24 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 24 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "glovebox.labels" -}}
app.kubernetes.io/name: {{ .Chart.Name | quote }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service | quote }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | quote }}
{{- end -}}

{{/* Labels that select the pods of a component. Call it with a dict of root and component. */}}
{{- define "glovebox.selector" -}}
app.kubernetes.io/name: {{ .root.Chart.Name | quote }}
app.kubernetes.io/instance: {{ .root.Release.Name | quote }}
app.kubernetes.io/component: {{ .component | quote }}
{{- end -}}

{{/* The reference of the image: with the digest if there is one, and otherwise with a tag. */}}
{{- define "glovebox.image" -}}
{{- $tag := .Values.image.tag -}}
{{- if not (or $tag .Values.image.digest) -}}
  {{- $tag = .Chart.AppVersion -}}
{{- end -}}
{{- .Values.image.repository -}}
{{- with $tag }}:{{ . }}{{ end -}}
{{- with .Values.image.digest }}@{{ . }}{{ end -}}
{{- end -}}

{{/* The restricted pod security standard, for a pod. 1000 is the user "node" of the image. */}}
{{- define "glovebox.podSecurity" -}}
runAsNonRoot: true
runAsUser: 1000
runAsGroup: 1000
fsGroup: 1000
fsGroupChangePolicy: OnRootMismatch
seccompProfile:
  type: RuntimeDefault
{{- end -}}

{{/* The same for a container. */}}
{{- define "glovebox.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end -}}

{{/* Spreads the pods of a component over nodes. Call it with a dict of root and component. */}}
{{- define "glovebox.spread" -}}
- maxSkew: 1
  topologyKey: kubernetes.io/hostname
  whenUnsatisfiable: ScheduleAnyway
  labelSelector:
    matchLabels:
      {{- include "glovebox.selector" . | nindent 6 }}
{{- end -}}

{{/* Seconds until a pod that stops is killed: its drain, 5 s for load balancers to notice, and 15 s to close. Call it with ms. */}}
{{- define "glovebox.graceSeconds" -}}
{{- add (div (add (int .) 999) 1000) 20 -}}
{{- end -}}

{{- define "glovebox.dnsEgress" -}}
- to:
    {{- toYaml .Values.dns.peers | nindent 4 }}
  ports:
    - { protocol: UDP, port: 53 }
    - { protocol: TCP, port: 53 }
{{- end -}}

{{- define "glovebox.natsEgress" -}}
- to:
    {{- toYaml .Values.executors.nats.peers | nindent 4 }}
  ports:
    - { protocol: TCP, port: {{ .Values.executors.nats.port | int }} }
{{- end -}}
