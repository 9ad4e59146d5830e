{{/*
Rejects values that the schema cannot judge, with a message that says what to set: values that depend on each other, secrets given as text, and
lists of peers that Kubernetes reads as "every destination" when they are empty. Each template includes it first: Helm renders them in an order
of its own, and does so without the schema too (--skip-schema-validation). Call it with the root.
*/}}
{{- define "glovebox.check" -}}
{{- range $name := list "image" "database" "masterKey" "controlPlane" "executors" "dns" "networkPolicy" -}}
  {{- if not (kindIs "map" (get $.Values $name)) -}}
    {{- fail (printf "%s: Expected an object, as in values.yaml of the chart" $name) -}}
  {{- end -}}
{{- end -}}
{{- $name := include "glovebox.fullname" . -}}
{{- /* Helm accepts dots in the name of a release, and Kubernetes accepts none in the name of a service. */ -}}
{{- if contains "." $name -}}
  {{- fail (printf "The name of the release: Expected lower-case letters, digits and hyphens, because services are named after it, got %q" .Release.Name) -}}
{{- end -}}
{{- include "glovebox.checkImage" .Values.image -}}
{{- $_ := required "database.secretName: Expected the name of the secret with the URL of Postgres" .Values.database.secretName -}}
{{- $_ := required "masterKey.secretName: Expected the name of the secret with the master key" .Values.masterKey.secretName -}}
{{- include "glovebox.checkEnv" .Values.controlPlane.env -}}
{{- with .Values.controlPlane.autoscaling -}}
  {{- if .enabled -}}
    {{- include "glovebox.checkAutoscaling" (dict "path" "controlPlane.autoscaling" "values" . "names" (list "minReplicas" "maxReplicas" "cpuUtilization")) -}}
    {{- $resources := $.Values.controlPlane.resources -}}
    {{- if not (or (dig "requests" "cpu" "" $resources) (dig "limits" "cpu" "" $resources)) -}}
      {{- fail "controlPlane.resources.requests.cpu: Expected a value, because controlPlane.autoscaling follows its use" -}}
    {{- end -}}
  {{- end -}}
{{- end -}}
{{- if and .Values.controlPlane.ingress.enabled (not .Values.controlPlane.ingress.hosts) -}}
  {{- fail "controlPlane.ingress.hosts: Expected the host names of the server" -}}
{{- end -}}
{{- if .Values.executors.enabled -}}
  {{- include "glovebox.checkExecutors" . -}}
{{- end -}}
{{- if not (kindIs "bool" .Values.networkPolicy.enabled) -}}
  {{- fail "networkPolicy.enabled: Expected true or false" -}}
{{- end -}}
{{- if .Values.networkPolicy.enabled -}}
  {{- include "glovebox.checkNetwork" . -}}
{{- end -}}
{{- end -}}

{{- define "glovebox.checkImage" -}}
{{- $repository := required "image.repository: Expected the image that you have built from deploy/Dockerfile" .repository -}}
{{- if contains "@" $repository -}}
  {{- fail "image.repository: Expected a name without a digest. Set image.digest" -}}
{{- end -}}
{{- if regexMatch ":[^/]*$" $repository -}}
  {{- fail "image.repository: Expected a name without a tag. Set image.tag" -}}
{{- end -}}
{{- end -}}

{{/* Checks further environment variables: none that the chart sets, and no secret as text. Call it with the list. */}}
{{- define "glovebox.checkEnv" -}}
{{- $owned := dict
  "GLOVEBOX_HOST" "The chart sets it"
  "GLOVEBOX_PORT" "The chart sets it. Clients use controlPlane.service.port"
  "GLOVEBOX_DATA_DIR" "The chart sets it"
  "GLOVEBOX_DATABASE" "Set database.secretName"
  "GLOVEBOX_MASTER_KEY" "Set masterKey.secretName"
  "GLOVEBOX_MASTER_KEY_FILE" "Set masterKey.secretName"
  "GLOVEBOX_MASTER_KEY_COMMAND" "Set masterKey.secretName"
  "GLOVEBOX_DRAIN_MS" "Set controlPlane.drainMs"
  "GLOVEBOX_MAX_WORKERS" "Set controlPlane.maxWorkers"
  "GLOVEBOX_POD_IP" "The chart sets it"
  "GLOVEBOX_REPLICA_URL" "Set controlPlane.replicaUrl"
  "GLOVEBOX_ALLOW_HOSTS" "Set controlPlane.allowHosts"
  "GLOVEBOX_NATS_URL" "Set executors.nats.url"
  "GLOVEBOX_NATS_CREDENTIALS" "Set executors.nats.credentialsSecretName"
  "GLOVEBOX_NATS_REPLICAS" "Set executors.nats.replicas"
  "GLOVEBOX_NATS_TLS_CA" "Set executors.nats.caConfigMapName"
  "GLOVEBOX_EXECUTOR_SILENCE_MS" "Set executors.silenceMs"
-}}
{{- $seen := dict -}}
{{- range $index, $variable := . -}}
  {{- $path := printf "controlPlane.env[%d]" $index -}}
  {{- $name := required (printf "%s.name: Expected the name of a variable" $path) .name -}}
  {{- if hasKey $owned $name -}}
    {{- fail (printf "%s.name: Expected a variable that the chart does not own, got %s. %s" $path $name (get $owned $name)) -}}
  {{- end -}}
  {{- if hasKey $seen $name -}}
    {{- fail (printf "%s.name: Expected each variable once, got %s again" $path $name) -}}
  {{- end -}}
  {{- $_ := set $seen $name true -}}
  {{- $value := default "" .value | toString -}}
  {{- if and $value .valueFrom -}}
    {{- fail (printf "%s: Expected value or valueFrom for %s, got both" $path $name) -}}
  {{- end -}}
  {{- /* The values of objects and releases can be read by more people than secrets can. */ -}}
  {{- $isSecret := and (regexMatch "(?i)(SECRET|TOKEN|PASSWORD|PASSWD|PASSPHRASE|CREDENTIALS?|HEADERS|KEY)$" $name) (not (regexMatch "^(GLOVEBOX_MAX_STREAMS_PER_KEY|OTEL_.*_CLIENT_KEY)$" $name)) -}}
  {{- $isSecret = or $isSecret (regexMatch "://[^/?#]*@" $value) (and (eq $name "GLOVEBOX_OIDC") (contains "clientSecret" $value)) -}}
  {{- if and $isSecret (not (dig "secretKeyRef" "" (default dict .valueFrom))) -}}
    {{- fail (printf "%s: Expected valueFrom.secretKeyRef for %s, because its value holds a secret" $path $name) -}}
  {{- end -}}
{{- end -}}
{{- end -}}

{{/* Checks an autoscaler that is enabled. Call it with a dict of path, values, and names of the required values. */}}
{{- define "glovebox.checkAutoscaling" -}}
{{- range .names -}}
  {{- if not (get $.values .) -}}
    {{- fail (printf "%s.%s: Expected a value, because autoscaling is enabled" $.path .) -}}
  {{- end -}}
{{- end -}}
{{- if gt (int .values.minReplicas) (int .values.maxReplicas) -}}
  {{- fail (printf "%s.minReplicas: Expected at most maxReplicas (%d), got %d" .path (int .values.maxReplicas) (int .values.minReplicas)) -}}
{{- end -}}
{{- end -}}

{{- define "glovebox.checkExecutors" -}}
{{- $nats := .Values.executors.nats -}}
{{- $_ := required "executors.nats.url: Expected the URL of NATS" $nats.url -}}
{{- /* The message does not repeat the URL: it may hold a password. */ -}}
{{- if contains "@" $nats.url -}}
  {{- fail "executors.nats.url: Expected a URL without user, password or token. Credentials are in the secret of executors.nats.credentialsSecretName" -}}
{{- end -}}
{{- $_ := required "executors.nats.credentialsSecretName: Expected the name of the secret with control-plane.json" $nats.credentialsSecretName -}}
{{- $names := dict -}}
{{- $secrets := dict $nats.credentialsSecretName "executors.nats.credentialsSecretName" .Values.database.secretName "database.secretName" .Values.masterKey.secretName "masterKey.secretName" -}}
{{- range $index, $pool := .Values.executors.pools -}}
  {{- $path := printf "executors.pools[%d]" $index -}}
  {{- $name := required (printf "%s.name: Expected the name of the pool" $path) .name -}}
  {{- if hasKey $names $name -}}
    {{- fail (printf "%s.name: Expected a name that no other pool has, got %s again" $path $name) -}}
  {{- end -}}
  {{- $_ := set $names $name true -}}
  {{- $secret := required (printf "%s.credentialsSecretName: Expected the name of the secret with the credentials files of the pool" $path) .credentialsSecretName -}}
  {{- if hasKey $secrets $secret -}}
    {{- fail (printf "%s.credentialsSecretName: Expected a secret for this pool only, got that of %s" $path (get $secrets $secret)) -}}
  {{- end -}}
  {{- $_ := set $secrets $secret (printf "%s.credentialsSecretName" $path) -}}
  {{- if .autoscaling.enabled -}}
    {{- include "glovebox.checkAutoscaling" (dict "path" (printf "%s.autoscaling" $path) "values" .autoscaling "names" (list "minReplicas" "maxReplicas" "metricName" "targetQueuedCalls")) -}}
  {{- end -}}
{{- end -}}
{{- end -}}

{{- define "glovebox.checkNetwork" -}}
{{- include "glovebox.checkPeers" (dict "path" "dns.peers" "peers" .Values.dns.peers "expected" "where pods find DNS, or networkPolicy.enabled: false") -}}
{{- include "glovebox.checkPeers" (dict "path" "database.peers" "peers" .Values.database.peers "expected" "where control planes find Postgres, or networkPolicy.enabled: false") -}}
{{- if .Values.executors.enabled -}}
  {{- include "glovebox.checkPeers" (dict "path" "executors.nats.peers" "peers" .Values.executors.nats.peers "expected" "where pods find NATS, or networkPolicy.enabled: false") -}}
{{- end -}}
{{- range $index, $peer := .Values.controlPlane.ingressPeers -}}
  {{- include "glovebox.checkPeer" (dict "path" (printf "controlPlane.ingressPeers[%d]" $index) "peer" $peer) -}}
{{- end -}}
{{- range $index, $rule := .Values.controlPlane.egress -}}
  {{- include "glovebox.checkPeers" (dict "path" (printf "controlPlane.egress[%d].to" $index) "peers" (default dict $rule).to "expected" "where requests of tools may go") -}}
  {{- range $at, $port := (default dict $rule).ports -}}
    {{- if and (hasKey $port "endPort") (or (kindIs "string" $port.port) (gt (int $port.port) (int $port.endPort))) -}}
      {{- fail (printf "controlPlane.egress[%d].ports[%d].endPort: Expected a number that is not below port, which is a number too" $index $at) -}}
    {{- end -}}
  {{- end -}}
{{- end -}}
{{- end -}}

{{/* Checks the peers of an egress rule. Call it with a dict of path, peers, and what is expected. */}}
{{- define "glovebox.checkPeers" -}}
{{- if not (and (kindIs "slice" .peers) .peers) -}}
  {{- fail (printf "%s: Expected %s. Kubernetes reads a list without peers as every destination" .path .expected) -}}
{{- end -}}
{{- range $index, $peer := .peers -}}
  {{- include "glovebox.checkPeer" (dict "path" (printf "%s[%d]" $.path $index) "peer" $peer) -}}
{{- end -}}
{{- end -}}

{{- define "glovebox.checkPeer" -}}
{{- $peer := default dict .peer -}}
{{- $hasSelector := or (kindIs "map" $peer.podSelector) (kindIs "map" $peer.namespaceSelector) -}}
{{- if not (or $hasSelector $peer.ipBlock) -}}
  {{- fail (printf "%s: Expected ipBlock, podSelector or namespaceSelector" .path) -}}
{{- end -}}
{{- if and $hasSelector (hasKey $peer "ipBlock") -}}
  {{- fail (printf "%s: Expected ipBlock or selectors, got both" .path) -}}
{{- end -}}
{{- with $peer.ipBlock -}}
  {{- include "glovebox.checkCidr" (dict "path" (printf "%s.ipBlock.cidr" $.path) "cidr" .cidr) -}}
  {{- range $index, $except := .except -}}
    {{- include "glovebox.checkCidr" (dict "path" (printf "%s.ipBlock.except[%d]" $.path $index) "cidr" $except) -}}
  {{- end -}}
{{- end -}}
{{- end -}}

{{- define "glovebox.checkCidr" -}}
{{- $octet := "(25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])" -}}
{{- $v4 := printf "(%s[.]){3}%s/(3[0-2]|[12]?[0-9])" $octet $octet -}}
{{- /* H is a group of hexadecimal digits. */ -}}
{{- $groups := "(H:){7}H|(H:){1,7}:|(H:){1,6}:H|(H:){1,5}(:H){1,2}|(H:){1,4}(:H){1,3}|(H:){1,3}(:H){1,4}|(H:){1,2}(:H){1,5}|H:(:H){1,6}|:((:H){1,7}|:)" -}}
{{- $v6 := printf "(%s)/(12[0-8]|1[01][0-9]|[1-9]?[0-9])" (replace "H" "[0-9A-Fa-f]{1,4}" $groups) -}}
{{- if not (and (kindIs "string" .cidr) (regexMatch (printf "^(%s|%s)$" $v4 $v6) .cidr)) -}}
  {{- fail (printf "%s: Expected a CIDR range such as 10.1.0.0/16 or fd00::/8, got %q" .path (toString .cidr)) -}}
{{- end -}}
{{- end -}}
