//! Logs of the Pods of hooks and tests.

use helm_engine::Hook;
use serde_json::Value;

use crate::calls::escape;
use crate::object;
use crate::outcome::PodLog;
use crate::request::{Accept, Call, Reply, Verb};
use crate::session::Session;

/// The most that is kept of the log of one container.
const LOG_LIMIT: usize = 64 * 1024;
/// The most Pods of one hook whose logs are read.
const MAX_PODS: usize = 10;

impl Session {
    /// The logs of a hook's Pods. It never fails: what cannot be read is told in its place.
    pub(crate) async fn logs(&mut self, hook: &Hook) -> Vec<PodLog> {
        let namespace = self.hook_namespace(hook);
        let selector = match hook.kind.as_str() {
            "Job" => format!("labelSelector=job-name%3D{}", escape(&hook.name)),
            "Pod" => format!("fieldSelector=metadata.name%3D{}", escape(&hook.name)),
            _ => return Vec::new(),
        };
        let uri = format!("/api/v1/namespaces/{}/pods?{selector}", escape(&namespace));
        let call = read(uri, Accept::Full, &hook.name);
        let Ok(Reply::Object { body, .. }) = self.port.try_call(call).await else {
            return Vec::new();
        };
        let pods = body
            .get("items")
            .and_then(Value::as_array)
            .cloned()
            .unwrap_or_default();
        let mut logs = Vec::new();
        for pod in pods.iter().take(MAX_PODS) {
            let name = text(pod.get("metadata"), "name");
            for container in containers(pod) {
                let text = self.log(&namespace, name, &container).await;
                logs.push(PodLog {
                    pod: name.to_owned(),
                    container,
                    text,
                });
            }
        }
        logs
    }

    fn hook_namespace(&self, hook: &Hook) -> String {
        let objects = object::parse(&hook.manifest).unwrap_or_default();
        let own = objects
            .first()
            .map_or("", |object| object.metadata("namespace"));
        if own.is_empty() {
            self.release.namespace.clone()
        } else {
            own.to_owned()
        }
    }

    async fn log(&mut self, namespace: &str, pod: &str, container: &str) -> String {
        let uri = format!(
            "/api/v1/namespaces/{}/pods/{}/log?container={}&tailLines=200&limitBytes={LOG_LIMIT}",
            escape(namespace),
            escape(pod),
            escape(container)
        );
        match self
            .port
            .try_call(read(uri, Accept::Text(LOG_LIMIT), pod))
            .await
        {
            Ok(Reply::Text(text)) => text,
            Ok(_) => String::new(),
            Err(failure) => {
                format!("unable to get logs for pod {pod}, container {container}: {failure:?}")
            }
        }
    }
}

fn read(uri: String, accept: Accept, of: &str) -> Call {
    Call {
        verb: Verb::Get,
        uri,
        accept,
        body: None,
        what: format!("read the logs of {of}"),
    }
}

fn containers(pod: &Value) -> Vec<String> {
    let spec = pod.get("spec");
    ["initContainers", "containers"]
        .iter()
        .filter_map(|key| spec?.get(*key)?.as_array())
        .flatten()
        .map(|container| text(Some(container), "name").to_owned())
        .collect()
}

fn text<'a>(value: Option<&'a Value>, key: &str) -> &'a str {
    value
        .and_then(|value| value.get(key))
        .and_then(Value::as_str)
        .unwrap_or_default()
}
