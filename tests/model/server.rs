//! An API server in memory, for the requests that actions make: what the real one does with
//! versions, creation and deletion, without defaults, validation or managed fields.

use std::collections::BTreeMap;

use helm_kube::{ApiStatus, Call, Catalog, Content, Failure, Reply, Response, Verb};
use serde_json::{Value, json};

/// The objects by path, and the version that the next write gets.
#[derive(Clone, Debug, Default)]
pub(crate) struct Server {
    objects: BTreeMap<String, Value>,
    version: u64,
    /// How many writes there were, refused ones too.
    pub(crate) writes: usize,
    /// The client works by an old history, and may go on counting where others have begun anew.
    pub(crate) lags: bool,
    /// The paths of what was created and deleted, in this order.
    pub(crate) log: Vec<(Verb, String)>,
}

/// The name of an object that the server always finds invalid.
pub(crate) const REFUSED: &str = "refused";
/// The label of a Job that fails.
pub(crate) const FAILS: &str = "fails";

/// The kinds that it serves.
pub(crate) fn catalog() -> Catalog {
    let mut catalog = Catalog::default();
    for (version, plural, kind) in [
        ("v1", "secrets", "Secret"),
        ("v1", "configmaps", "ConfigMap"),
        ("v1", "pods", "Pod"),
        ("batch/v1", "jobs", "Job"),
    ] {
        catalog.add_group_version(&json!({"groupVersion": version, "resources": [
            {"name": plural, "kind": kind, "namespaced": true}]}));
    }
    catalog
}

impl Server {
    /// The objects of a collection.
    pub(crate) fn list(&self, plural: &str) -> impl Iterator<Item = &Value> {
        let part = format!("/{plural}/");
        self.objects
            .iter()
            .filter(move |(path, _)| path.contains(&part))
            .map(|(_, object)| object)
    }

    /// Answers a call.
    pub(crate) fn answer(&mut self, call: &Call) -> Response {
        let (path, query) = call.uri.split_once('?').unwrap_or((&call.uri, ""));
        let body = call
            .body
            .as_ref()
            .map(|(content, bytes)| (*content, serde_json::from_slice::<Value>(bytes).unwrap()));
        self.writes += usize::from(call.verb != Verb::Get);
        match (call.verb, body) {
            (Verb::Get, _) if query.contains("labelSelector=") => self.select(path, query),
            (Verb::Get, _) => self.get(path),
            (Verb::Create, Some((_, body))) => self.create(path, body),
            (Verb::Replace, Some((_, body))) => self.replace(path, body),
            (Verb::Patch, Some((Content::Apply, body))) => self.apply(path, body),
            (Verb::Delete, body) => self.delete(path, body.map(|(_, body)| body)),
            (verb, _) => panic!("{verb:?} {path}"),
        }
    }

    fn get(&self, path: &str) -> Response {
        self.objects
            .get(path)
            .map_or_else(|| refuse(404, "NotFound"), |object| ok(200, object))
    }

    fn select(&self, path: &str, query: &str) -> Response {
        let (_, selector) = query.split_once("labelSelector=").unwrap();
        let wanted: Vec<(&str, &str)> = selector
            .split("%2C")
            .map(|term| term.split_once("%3D").unwrap())
            .collect();
        let items: Vec<_> = self
            .objects
            .iter()
            .filter(|(object, _)| object.starts_with(path))
            .map(|(_, object)| object.clone())
            .filter(|object| {
                wanted
                    .iter()
                    .all(|(key, value)| object["metadata"]["labels"][*key] == *value)
            })
            .collect();
        ok(200, &json!({"items": items}))
    }

    fn create(&mut self, path: &str, body: Value) -> Response {
        let path = format!("{path}/{}", body["metadata"]["name"].as_str().unwrap());
        if self.objects.contains_key(&path) {
            return refuse(409, "AlreadyExists");
        }
        self.check_number(&path);
        self.put(path, body, None)
    }

    /// Revisions are made one after the other: none is left out, none is made twice.
    fn check_number(&self, path: &str) {
        let number = |path: &str| path.rsplit_once(".v")?.1.parse::<i64>().ok();
        let Some(new) = number(path) else { return };
        let newest = self.objects.keys().filter_map(|path| number(path)).max();
        let next = newest.unwrap_or(0) + 1;
        assert!(
            new == next || self.lags && new > next,
            "revision {new} instead of {next}"
        );
    }

    fn replace(&mut self, path: &str, body: Value) -> Response {
        let Some(present) = self.objects.get(path) else {
            return refuse(404, "NotFound");
        };
        if present["metadata"]["resourceVersion"] != body["metadata"]["resourceVersion"] {
            return refuse(409, "Conflict");
        }
        let uid = present["metadata"]["uid"].clone();
        self.put(path.to_owned(), body, Some(uid))
    }

    fn apply(&mut self, path: &str, body: Value) -> Response {
        if path.ends_with(REFUSED) {
            return refuse(422, "Invalid");
        }
        let wanted = &body["metadata"]["resourceVersion"];
        let present = self
            .objects
            .get(path)
            .map(|object| object["metadata"].clone());
        match present {
            Some(present) if !wanted.is_null() && *wanted != present["resourceVersion"] => {
                refuse(409, "Conflict")
            }
            Some(present) => self.put(path.to_owned(), body, Some(present["uid"].clone())),
            None => self.put(path.to_owned(), body, None),
        }
    }

    fn put(&mut self, path: String, mut object: Value, uid: Option<Value>) -> Response {
        self.version += 1;
        let code = if uid.is_some() { 200 } else { 201 };
        object["metadata"]["uid"] = uid.unwrap_or_else(|| format!("uid-{}", self.version).into());
        object["metadata"]["resourceVersion"] = (self.version + 1).to_string().into();
        // Secrets are read in another form than they are written in.
        if let Some(text) = object["stringData"]["release"].as_str() {
            use base64::Engine;
            let encoded = base64::engine::general_purpose::STANDARD.encode(text);
            object["data"] = json!({"release": encoded});
            object.as_object_mut().unwrap().remove("stringData");
        }
        if object["kind"] == "Job" {
            let fails = object["metadata"]["labels"][FAILS] == "yes";
            let end = if fails { "Failed" } else { "Complete" };
            object["status"] = json!({"conditions": [{"type": end, "status": "True"}]});
        }
        if code == 201 {
            self.log.push((Verb::Create, path.clone()));
        }
        let reply = ok(code, &object);
        self.objects.insert(path, object);
        reply
    }

    fn delete(&mut self, path: &str, options: Option<Value>) -> Response {
        let Some(present) = self.objects.get(path) else {
            return refuse(404, "NotFound");
        };
        let wanted = options.map(|options| options["preconditions"]["uid"].clone());
        if wanted.is_some_and(|uid| !uid.is_null() && uid != present["metadata"]["uid"]) {
            return refuse(409, "Conflict");
        }
        self.objects.remove(path);
        self.log.push((Verb::Delete, path.to_owned()));
        ok(200, &json!({"kind": "Status", "status": "Success"}))
    }
}

fn ok(code: u16, body: &Value) -> Response {
    Ok(Reply::Object {
        code,
        body: body.clone(),
    })
}

/// An error answer.
pub(crate) fn refuse(code: u16, reason: &str) -> Response {
    Err(Failure::Status(ApiStatus {
        code,
        reason: reason.to_owned(),
        message: reason.to_owned(),
        ..ApiStatus::default()
    }))
}
