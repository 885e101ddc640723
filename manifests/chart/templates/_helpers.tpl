{{/* Refuses values that contradict each other, with a message that names the remedy. */}}
{{- define "refuse-values" }}
{{- $v := .Values }}
{{- if ne .Release.Namespace "ultraserver-webhook" }}
{{- fail "the chart works in the namespace ultraserver-webhook only, once in a cluster: add --namespace ultraserver-webhook --create-namespace" }}{{ end }}
{{- if and $v.optIn $v.missedJobs }}
{{- fail "optIn and missedJobs: Pods of jobs that did not opt in would be changed as if the webhook had missed them; set one of them to false" }}{{ end }}
{{- if and $v.optInKinds (not (and $v.optIn $v.kinds)) }}
{{- fail "optInKinds restricts `kinds` to namespaces that opt in, and has no effect without optIn and kinds: set optIn: true and kinds, or optInKinds: false" }}{{ end }}
{{- range $v.kinds }}{{ if or (eq . "mpijobs.v2beta1.kubeflow.org") (not (regexMatch "^(all|[a-z0-9]+\\.v[0-9][a-z0-9]*\\.[a-z0-9.-]+)$" .)) }}
{{- fail (printf "kinds: %s: write RESOURCE.VERSION.GROUP, such as jobs.v1.batch, or all (docs/kinds.md); mpijobs.v2beta1.kubeflow.org is always sent" .) }}{{ end }}{{ end }}
{{- $off := list }}{{ range (.Files.Get "families.yaml" | fromYaml).families }}{{ if include "is-off" . }}{{ $off = append $off .name }}{{ end }}{{ end }}
{{- range $name, $_ := $v.families }}{{ if not (has $name $off) }}
{{- fail (printf "families: %s: the value switches on the packaged families %s; a family of your own is a row of the value table (docs/families.md)" $name (join ", " $off)) }}{{ end }}{{ end }}
{{- if eq $v.neuronScheduler "default-scheduler" }}{{ fail "neuronScheduler: default-scheduler: the value is the name of a second scheduler; leave the value out (docs/neuron-scheduler.md)" }}{{ end }}
{{- range $name, $pem := $v.provided }}
{{- if and (eq $v.certificates "provided") (not $pem) }}
{{- fail (printf "certificates: provided has no provided.%s: add --set-file provided.%s=FILE; or, to keep the key out of Helm's release, create the Secret ultraserver-webhook-provided yourself (docs/install.md) and set certificates: program, which serves it" $name $name) }}
{{- else if and $pem (ne $v.certificates "provided") }}
{{- fail (printf "provided.%s is set, and certificates: %s does not use it: set certificates: provided, or remove it" $name $v.certificates) }}{{ end }}
{{- end }}
{{- if gt (int $v.replicas.min) (int $v.replicas.max) }}
{{- fail (printf "replicas.min is %v and replicas.max %v: raise the maximum" $v.replicas.min $v.replicas.max) }}{{ end }}
{{- if and (eq $v.failurePolicy "Fail") (lt (int $v.replicas.min) 2) }}
{{- fail "failurePolicy: Fail with one replica refuses every job while its node is drained: set replicas.min to 2 or more" }}{{ end }}
{{- $table := fromYaml $v.table }}
{{- if or (ne (printf "%v %v" $table.apiVersion $table.kind) "ultraserver-webhook.io/v1alpha2 RuleTable") (include "invalid-families" $table) }}
{{- fail "table is not a RuleTable: it begins with `apiVersion: ultraserver-webhook.io/v1alpha2` and `kind: RuleTable`, its families, and their units, are lists of maps, and units' labels and resources are names such as example.com/rack (docs/rule-table.md); `ultraserver-webhook rules lint FILE` shows what is wrong, and `rules convert FILE` writes a table of 0.2.0 in this form" }}{{ end }}
{{- end }}
{{/* Not empty if a table's families or units are not lists of maps, or if a label or resource is not a name. CEL expressions contain these labels and resources. */}}
{{- define "invalid-families" }}
{{- if not (has (kindOf .families) (list "invalid" "slice")) }}invalid{{ else }}
{{- range .families }}
{{- if not (kindIs "map" .) }}invalid{{ else if not (has (kindOf .units) (list "invalid" "slice")) }}invalid{{ else }}
{{- range .units }}{{ if not (kindIs "map" .) }}invalid{{ else if not (kindIs "string" .label) }}invalid{{ else if .label }}{{ include "invalid-name" .label }}{{ end }}{{ end }}
{{- if kindIs "map" .wholeNode }}{{ range $name, $_ := .wholeNode }}{{ include "invalid-name" $name }}{{ end }}{{ end }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- define "invalid-name" }}{{ if not (regexMatch "^([a-z0-9.-]+/)?[A-Za-z0-9][A-Za-z0-9._-]*$" .) }}invalid{{ end }}{{ end }}
{{/* Not empty if the mode of a row is off, which YAML reads as false. */}}
{{- define "is-off" }}{{ if has (toString .mode) (list "off" "false") }}off{{ end }}{{ end }}
{{/* The packaged families that are on: by default, by the value `families`, or by a row of the value `table`. */}}
{{- define "packaged-families" -}}
{{- $on := list }}{{ $names := .Values.families | default dict | keys }}
{{- range (fromYaml .Values.table).families }}{{ if and .mode (not (include "is-off" .)) }}{{ $names = append $names .name }}{{ end }}{{ end }}
{{- range (.Files.Get "families.yaml" | fromYaml).families }}{{ if or (not (include "is-off" .)) (has .name $names) }}{{ $on = append $on . }}{{ end }}{{ end }}
{{- toJson $on }}
{{- end }}
{{/* The labels of the packaged units, with their numbers of nodes. */}}
{{- define "packaged-units" -}}
{{- $sizes := dict "kubernetes.io/hostname" 1 }}
{{- range include "packaged-families" . | fromJsonArray }}{{ range .units }}{{ if .label }}{{ $_ := set $sizes .label .nodes }}{{ end }}{{ end }}{{ end }}
{{- toJson $sizes }}
{{- end }}
{{/* The resources by which jobs request nodes, as a list, without the resources of the Neuron device plugin. */}}
{{- define "device-resources" -}}
{{- $names := list }}
{{- range concat (include "packaged-families" . | fromJsonArray) ((fromYaml .Values.table).families | default list) }}{{ if kindIs "map" .wholeNode }}{{ $names = concat $names (keys .wholeNode | sortAlpha) }}{{ end }}{{ end }}
{{- $own := list }}{{ range $names | uniq }}{{ if not (hasPrefix "aws.amazon.com/neuron" .) }}{{ $own = append $own . }}{{ end }}{{ end }}
{{- with $own }}['{{ join "', '" . }}']{{ end }}
{{- end }}
{{/* Metadata of an object without or with a namespace: (list NAME COMPONENT). */}}
{{- define "cluster-metadata" -}}
{name: {{ index . 0 }}, labels: {{ include "labels" (index . 1) }}}
{{- end }}
{{- define "namespaced-metadata" -}}
{name: {{ index . 0 }}, namespace: ultraserver-webhook, labels: {{ include "labels" (index . 1) }}}
{{- end }}
{{- define "labels" -}}
{app.kubernetes.io/name: ultraserver-webhook, app.kubernetes.io/part-of: ultraserver-webhook{{ with . }}, app.kubernetes.io/component: {{ . }}{{ end }}}
{{- end }}
{{/* A ServiceAccount, bound to the Role and the ClusterRole of the same name: (list NAME COMPONENT). */}}
{{- define "account" -}}
apiVersion: v1
kind: ServiceAccount
metadata: {{ include "namespaced-metadata" . }}
automountServiceAccountToken: false
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {{ include "namespaced-metadata" . }}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: {{ index . 0 }}}
subjects:
  - {kind: ServiceAccount, name: {{ index . 0 }}, namespace: ultraserver-webhook}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {{ include "cluster-metadata" . }}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: {{ index . 0 }}}
subjects:
  - {kind: ServiceAccount, name: {{ index . 0 }}, namespace: ultraserver-webhook}
{{- end }}
{{/* A policy of the guard with its binding, up to the resourceRules: (list ROOT NAME). The policies for Pods and Bindings select namespaces in CEL. */}}
{{- define "guard-policy" -}}
{{- $name := printf "ultraserver-webhook-guard-%s" (index . 1) -}}
{{ include "policy-binding" (list $name "guard" (eq (index . 0).Values.guard "enforce" | ternary "[Deny]" "[Warn, Audit]")) }}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {{ include "cluster-metadata" (list $name "guard") }}
spec:
  # The policy makes no call that could fail. Only an object that was written for this purpose causes an error in an expression.
  failurePolicy: Fail
  matchConstraints:
    matchPolicy: Equivalent
    {{- if not (has (index . 1) (list "pods" "bindings")) }}
    namespaceSelector:
      matchExpressions: [{{ include "not-system-namespaces" . }}]
    {{- end }}
{{- end }}
{{/* CEL expressions: the annotations that place a Pod, and whether the sender is an operator. */}}
{{- define "placement-annotations" -}}
['ultraserver-webhook.io/place', 'ultraserver-webhook.io/job']
{{- end }}
{{- define "is-operator" }}authorizer.group('ultraserver-webhook.io').resource('jobidentities').check('write').allowed(){{ end }}
{{/* The binding of an admission policy: (list NAME COMPONENT ACTIONS). */}}
{{- define "policy-binding" -}}
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {{ include "cluster-metadata" . }}
spec:
  policyName: {{ index . 0 }}
  validationActions: {{ index . 2 }}
{{- end }}
{{/* The Deployment of a program, except the last fields of its pods: (list ROOT NAME PROGRAM). */}}
{{- define "deployment" -}}
{{- $v := (index . 0).Values }}{{ $program := index . 2 }}{{ $serving := eq $program "serving" }}{{ $preview := eq $program "preview" -}}
apiVersion: apps/v1
kind: Deployment
metadata: {{ include "namespaced-metadata" (rest .) }}
spec:
  revisionHistoryLimit: 3
  {{- if $serving }}
  # The manifest has no `replicas`: the autoscaler sets the number, and applying the manifest again does not reset it.
  minReadySeconds: 3
  strategy:
    rollingUpdate: {maxUnavailable: 0, maxSurge: 1}
  {{- else }}
  replicas: {{ (index $v.programs $program).replicas }}
  {{- end }}
  selector:
    matchLabels: {app.kubernetes.io/component: {{ $program }}}
  template:
    metadata:
      labels: {{ include "labels" $program }}
    spec:
      serviceAccountName: {{ index . 1 }}
      automountServiceAccountToken: {{ not (or $serving $preview) }}
      enableServiceLinks: false
      {{- $tolerations := $v.tolerations }}
      {{- if $serving }}
      # A dead node's replica is replaced half a minute after the node is NotReady, not after five minutes.
      {{- range list "not-ready" "unreachable" }}
      {{- $tolerations = append $tolerations (dict "key" (printf "node.kubernetes.io/%s" .) "operator" "Exists" "effect" "NoExecute" "tolerationSeconds" 30) }}
      {{- end }}
      {{- end }}
      {{- $types := list }}{{ range include "packaged-families" (index . 0) | fromJsonArray }}{{ $types = concat $types .instanceTypes }}{{ end }}
      {{- $secrets := list }}{{ range $v.image.pullSecrets }}{{ $secrets = append $secrets (dict "name" .) }}{{ end }}
      {{- range $key, $setting := dict "imagePullSecrets" $secrets "nodeSelector" $v.nodeSelector "priorityClassName" ($preview | ternary "" $v.priorityClassName) "tolerations" $tolerations }}
      {{- if $setting }}{{ dict $key $setting | toYaml | nindent 6 }}{{ end }}
      {{- end }}
      securityContext: {runAsNonRoot: true, runAsUser: 65532, runAsGroup: 65532, fsGroup: 65532, seccompProfile: {type: RuntimeDefault}}
      affinity:
        nodeAffinity:
          # Keeps the programs off the nodes of the families, which are for jobs.
          preferredDuringSchedulingIgnoredDuringExecution:
            - preference:
                matchExpressions: [{key: node.kubernetes.io/instance-type, operator: NotIn, values: [{{ $types | join ", " }}]}]
              weight: 100
      volumes:
        {{- if $serving }}
        - name: tls
          # The certificate program creates this Secret; the pod starts when the Secret exists.
          secret: {secretName: ultraserver-webhook-tls, defaultMode: 0440, items: [{key: tls.crt, path: tls.crt}, {key: tls.key, path: tls.key}]}
        {{- end }}
        {{- if ne $program "certificates" }}
        - {name: rules, configMap: {name: ultraserver-webhook-rules}}
        {{- end }}
        - {name: tmp, emptyDir: {sizeLimit: 16Mi}}
{{- end }}
{{/* The container of a program, except its command, ports and probes: (list ROOT PROGRAM IMAGE). */}}
{{- define "container" -}}
{{- $v := (index . 0).Values }}{{ $own := index $v.programs (index . 1) }}{{ $image := index $v.image (index . 2) -}}
image: {{ with $v.image.registry }}{{ . }}/{{ end }}{{ $image.repository }}:{{ $v.image.tag | default (index . 0).Chart.AppVersion }}{{ with $image.digest }}@{{ . }}{{ end }}
{{- if eq (index . 2) "controllers" }}
ports:
  - {name: metrics, containerPort: 9090}
livenessProbe: {httpGet: {path: /metrics, port: metrics}, initialDelaySeconds: 10, periodSeconds: 20, timeoutSeconds: 5}
readinessProbe: {httpGet: {path: /metrics, port: metrics}, timeoutSeconds: 5}
{{- end }}
{{- if or $own.env (eq (index . 1) "certificates") }}
env:
  {{- if eq (index . 1) "certificates" }}
  # These values are in the environment, so that `kubectl exec ... python -m certs status` has them, too.
  - {name: ULTRASERVER_CERTS_MUTATING, value: ultraserver-webhook}
  - {name: ULTRASERVER_CERTS_VALIDATING, value: ultraserver-webhook}
  {{- end }}
  {{- with $own.env }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end }}
resources: {{- toYaml $own.resources | nindent 2 }}
securityContext: {allowPrivilegeEscalation: false, readOnlyRootFilesystem: true, capabilities: {drop: [ALL]}}
volumeMounts:
  {{- if eq (index . 1) "serving" }}
  - {name: tls, mountPath: /etc/ultraserver-webhook/tls, readOnly: true}
  {{- end }}
  {{- if ne (index . 1) "certificates" }}
  - {name: rules, mountPath: /etc/ultraserver-webhook/rules, readOnly: true}
  {{- end }}
  - {name: tmp, mountPath: /tmp}
{{- end }}
{{/* The value `kinds`, with `all` replaced by its kinds. */}}
{{- define "kinds" }}
{{- $kinds := .Values.kinds }}
{{- if has "all" $kinds }}
{{- $kinds = concat (list "mpijobs.v1.kubeflow.org" "pytorchjobs.v1.kubeflow.org" "jobsets.v1alpha2.jobset.x-k8s.io" "leaderworkersets.v1.leaderworkerset.x-k8s.io" "mpijobs.v1beta1.batch.tensorstack.dev" "jobs.v1.batch") (without $kinds "all") | uniq }}
{{- end }}
{{- toJson $kinds }}
{{- end }}
{{/* Rules for RESOURCE.VERSION.GROUPs: (list OPERATIONS KINDS). */}}
{{- define "rules" }}
{{- $operations := index . 0 }}
{{- range index . 1 }}
{{- $part := splitn "." 3 . }}
- {apiGroups: [{{ $part._2 | quote }}], apiVersions: [{{ $part._1 }}], resources: [{{ $part._0 }}], operations: {{ $operations }}, scope: Namespaced}
{{- end }}
{{- end }}
{{/* Namespaces whose objects are never sent, even if they have the label for opt-in. */}}
{{- define "not-system-namespaces" -}}
{key: kubernetes.io/metadata.name, operator: NotIn, values: {{ include "system-namespaces" . }}}
{{- end }}
{{- define "system-namespaces" }}['kube-system', 'kube-public', 'kube-node-lease', 'ultraserver-webhook']{{ end }}
{{/* A CEL expression: whether a change of a Pod is forbidden to the account of the placement program, or to other accounts. RBAC cannot
limit rights to some pods: an account that may patch pods could change the image of any pod. While a pod has the gate, the program may
change one annotation, remove the gate and add the label of the unit to the node selector. The program may delete a pod that it has
admitted if the containers never ran, and a pod without the gate whose on-node-failure is move or restart. The phase does not show whether
containers ran, because init containers run while the phase is Pending. Only the program and administrators may mark a pod as pinned
(`opened`), because the program holds UltraServers for pinned pods. */}}
{{- define "placement-refuses" -}}
{{- $admitted := "'ultraserver-webhook.io/opened'" }}{{ $gate := "{'name': 'ultraserver-webhook.io/whole-job'}" -}}
request.userInfo.username == 'system:serviceaccount:ultraserver-webhook:ultraserver-placement'
? request.?subResource.orValue('') != '' || request.operation == 'CREATE' || (request.operation == 'DELETE'
? {{ $gate }} in oldObject.spec.?schedulingGates.orValue([])
  || !(oldObject.metadata.?annotations[?'ultraserver-webhook.io/on-node-failure'].orValue('') in ['move', 'restart'])
  && (oldObject.status.phase != 'Pending'
  || [oldObject.status.?initContainerStatuses, oldObject.status.?containerStatuses, oldObject.status.?ephemeralContainerStatuses]
    .exists(statuses, statuses.orValue([]).exists(status, [status.?state, status.?lastState]
      .exists(state, state.?running.hasValue() || state.?terminated.hasValue())))
  || !oldObject.metadata.?annotations[?{{ $admitted }}].hasValue())
: !({{ $gate }} in oldObject.spec.?schedulingGates.orValue([]))
  || oldObject.spec.schedulingGates.exists(gate, gate != {{ $gate }} && !(gate in object.spec.?schedulingGates.orValue([])))
  || object.spec.?nodeSelector.orValue({}).exists(key, object.spec.nodeSelector[?key] != oldObject.spec.?nodeSelector[?key]
    && key != 'kubernetes.io/hostname'
    && !(oldObject.metadata.?annotations[?'ultraserver-webhook.io/place'].orValue('') + ' ').contains(' unit=' + key + ' '))
  || [object, oldObject].exists(pod, pod.metadata.?annotations.orValue({}).exists(key, key != {{ $admitted }}
    && object.metadata.?annotations[?key] != oldObject.metadata.?annotations[?key]))
  || object.metadata.?labels != oldObject.metadata.?labels
  || object.metadata.?generateName != oldObject.metadata.?generateName
  || object.metadata.?ownerReferences != oldObject.metadata.?ownerReferences
  || object.metadata.?finalizers != oldObject.metadata.?finalizers
  || object.spec.containers != oldObject.spec.containers || object.spec.?initContainers != oldObject.spec.?initContainers
  || object.spec.?tolerations != oldObject.spec.?tolerations || object.spec.?affinity != oldObject.spec.?affinity
  || object.spec.?activeDeadlineSeconds != oldObject.spec.?activeDeadlineSeconds
  || object.spec.?terminationGracePeriodSeconds != oldObject.spec.?terminationGracePeriodSeconds)
: request.operation != 'DELETE' && object.metadata.?annotations[?{{ $admitted }}].hasValue()
  && !(request.operation == 'UPDATE' && object.metadata.?annotations[?{{ $admitted }}] == oldObject.metadata.?annotations[?{{ $admitted }}])
  && !('system:masters' in request.userInfo.groups)
{{- end }}
{{- define "placement-message" -}}
request.userInfo.username != 'system:serviceaccount:ultraserver-webhook:ultraserver-placement'
? 'annotation ultraserver-webhook.io/opened is written by whole-job admission only; remove it from the pod or the'
+ ' job\'s pod template'
: request.operation == 'DELETE' ? 'the pod was not admitted by this program, or has started and does not leave a failed node'
: 'the pod does not wait at the gate ultraserver-webhook.io/whole-job, or more would change than the annotation'
+ ' ultraserver-webhook.io/opened, this gate, and the labels of its unit and its node in its node selector'
{{- end }}
