{{- define "helm-operator.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}

{{/* As in the 1.4 chart, so that an upgrade finds its objects. */}}
{{- define "helm-operator.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 63 | trimSuffix "-" }}
{{- else -}}
{{- $name := default .Chart.Name .Values.nameOverride }}
{{- if contains $name .Release.Name -}}
{{- .Release.Name | trunc 63 | trimSuffix "-" }}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 63 | trimSuffix "-" }}
{{- end }}
{{- end }}
{{- end }}

{{- define "helm-operator.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "helm-operator.fullname" .) .Values.serviceAccount.name }}
{{- else -}}
{{- default "default" .Values.serviceAccount.name }}
{{- end }}
{{- end }}

{{/* The selector of 1.4: it cannot be changed on a Deployment that exists. */}}
{{- define "helm-operator.selector" -}}
app: {{ include "helm-operator.name" . }}
release: {{ .Release.Name }}
{{- end }}

{{- define "helm-operator.labels" -}}
{{ include "helm-operator.selector" . }}
chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
heritage: {{ .Release.Service }}
{{- end }}

{{/* The one namespace to watch; empty for all. */}}
{{- define "helm-operator.watched" -}}
{{- if .Values.clusterRole.create -}}
{{- .Values.allowNamespace }}
{{- else -}}
{{- .Release.Namespace }}
{{- end }}
{{- end }}

{{/* What the operator needs for itself. */}}
{{- define "helm-operator.rules" -}}
- apiGroups: [helm.fluxcd.io]
  resources: [helmreleases]
  verbs: [get, list, watch, update, patch]
- apiGroups: [helm.fluxcd.io]
  resources: [helmreleases/status]
  verbs: [get, update, patch]
- apiGroups: [helm.fluxcd.io]
  resources: [helmreleases/finalizers]
  verbs: [update]
# Release records and values.
- apiGroups: [""]
  resources: [secrets]
  verbs: [get, list, watch, create, update, patch, delete]
# Values, gates and approvals.
- apiGroups: [""]
  resources: [configmaps]
  verbs: [get, list, watch, create, update, patch, delete]
- apiGroups: ["", events.k8s.io]
  resources: [events]
  verbs: [create, patch]
{{- if .Values.rbac.impersonation }}
- apiGroups: [""]
  resources: [serviceaccounts]
  verbs: [impersonate]
{{- end }}
{{- end }}

{{/* What charts may contain. No wildcards; roles are bounded by the API server: nobody grants what they do not have. */}}
{{- define "helm-operator.deployRules" -}}
{{- if eq .Values.clusterRole.deploy "all" -}}
- apiGroups: ["*"]
  resources: ["*"]
  verbs: ["*"]
- nonResourceURLs: ["*"]
  verbs: ["*"]
{{- else if eq .Values.clusterRole.deploy "common" -}}
- apiGroups: [""]
  resources:
    - endpoints
    - limitranges
    - persistentvolumeclaims
    - pods
    - podtemplates
    - replicationcontrollers
    - resourcequotas
    - serviceaccounts
    - services
  verbs: [get, list, watch, create, update, patch, delete]
# Logs of failed hooks and tests.
- apiGroups: [""]
  resources: [pods/log]
  verbs: [get]
- apiGroups: [apps]
  resources: [controllerrevisions, daemonsets, deployments, replicasets, statefulsets]
  verbs: [get, list, watch, create, update, patch, delete]
- apiGroups: [batch]
  resources: [cronjobs, jobs]
  verbs: [get, list, watch, create, update, patch, delete]
- apiGroups: [autoscaling]
  resources: [horizontalpodautoscalers]
  verbs: [get, list, watch, create, update, patch, delete]
- apiGroups: [networking.k8s.io]
  resources: [ingresses, networkpolicies]
  verbs: [get, list, watch, create, update, patch, delete]
- apiGroups: [policy]
  resources: [poddisruptionbudgets]
  verbs: [get, list, watch, create, update, patch, delete]
- apiGroups: [rbac.authorization.k8s.io]
  resources: [roles, rolebindings]
  verbs: [get, list, watch, create, update, patch, delete]
- apiGroups: [discovery.k8s.io]
  resources: [endpointslices]
  verbs: [get, list, watch]
{{- else -}}
{{- fail "clusterRole.deploy is neither common nor all" }}
{{- end }}
{{- end }}

{{/* What is not in a namespace. */}}
{{- define "helm-operator.clusterRules" -}}
# Targets that are made on request.
- apiGroups: [""]
  resources: [namespaces]
  verbs: [get, list, watch, create]
- apiGroups: [apiextensions.k8s.io]
  resources: [customresourcedefinitions]
  verbs: [get, list, watch, create, update, patch]
{{- if eq .Values.clusterRole.deploy "common" }}
- apiGroups: [rbac.authorization.k8s.io]
  resources: [clusterroles, clusterrolebindings]
  verbs: [get, list, watch, create, update, patch, delete]
{{- end }}
{{- end }}
