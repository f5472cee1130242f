//! A cluster: where requests go, and what is known of it.

mod catalog;
mod drive;
mod http;
mod lookup;

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::Mutex;

pub use catalog::{ApiResource, Catalog, ServerVersion};
pub use drive::Halt;
pub use lookup::ClusterLookup;

use crate::error::ActionError;
use crate::request::{Accept, Call, Failure, Reply, Request, Response, Verb};

/// How a cluster is talked to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterOptions {
    /// How long one request may take, from first byte to last.
    pub request_timeout: Duration,
    /// How often a request is tried when the API server is busy or the connection breaks.
    pub tries: u32,
    /// The longest pause between two tries. An API server that asks for more gets it, from the
    /// caller: the failure says how long.
    pub max_pause: Duration,
    /// The most bytes that are read of one answer.
    pub max_answer: usize,
    /// How long what discovery said is believed. It is asked again earlier when a kind is missing
    /// or definitions were applied.
    pub catalog_age: Duration,
}

impl Default for ClusterOptions {
    fn default() -> Self {
        Self {
            request_timeout: Duration::from_secs(30),
            tries: 4,
            max_pause: Duration::from_secs(2),
            max_answer: 256 * 1024 * 1024,
            catalog_age: Duration::from_secs(600),
        }
    }
}

/// A cluster as one identity sees it. Clones share connections and what is known.
#[derive(Clone)]
pub struct Cluster {
    client: kube::Client,
    options: Arc<ClusterOptions>,
    known: Arc<Mutex<Known>>,
}

#[derive(Default)]
struct Known {
    catalog: Option<(Arc<Catalog>, Instant)>,
}

impl Cluster {
    /// A cluster behind a client. The client's own retries should be off (`default_retry`), as
    /// they know no deadline; [`connect`](Self::connect) sees to it.
    #[must_use]
    pub fn new(client: kube::Client, options: ClusterOptions) -> Self {
        Self {
            client,
            options: Arc::new(options),
            known: Arc::default(),
        }
    }

    /// A cluster behind a configuration, with deadlines and without retries below ours.
    ///
    /// # Errors
    /// The configuration's certificates or credentials cannot be used.
    pub fn connect(mut config: kube::Config, options: ClusterOptions) -> Result<Self, kube::Error> {
        config.default_retry = false;
        config.connect_timeout = config.connect_timeout.or(Some(Duration::from_secs(10)));
        Ok(Self::new(kube::Client::try_from(config)?, options))
    }

    /// The same cluster, asked as a ServiceAccount: every request carries it, discovery and
    /// records too.
    ///
    /// # Errors
    /// The configuration's certificates or credentials cannot be used.
    pub fn connect_as_service_account(
        mut config: kube::Config,
        options: ClusterOptions,
        namespace: &str,
        name: &str,
    ) -> Result<Self, kube::Error> {
        config.auth_info.impersonate = Some(format!("system:serviceaccount:{namespace}:{name}"));
        Self::connect(config, options)
    }

    /// The client.
    #[must_use]
    pub fn client(&self) -> &kube::Client {
        &self.client
    }

    /// Sends one request and waits for its answer, for at most the time of the options.
    pub async fn send(&self, request: Request) -> Response {
        match request {
            Request::Discover { fresh } => self.catalog(fresh).await.map(Reply::Catalog),
            Request::Call(call) => self.call(&call).await,
        }
    }

    /// What the cluster serves; from the cache if it is young enough.
    ///
    /// # Errors
    /// Discovery failed.
    pub async fn catalog(&self, fresh: bool) -> Result<Arc<Catalog>, Failure> {
        let mut known = self.known.lock().await;
        if let Some((catalog, since)) = &known.catalog
            && !fresh
            && since.elapsed() < self.options.catalog_age
        {
            return Ok(Arc::clone(catalog));
        }
        let catalog = Arc::new(self.discover().await?);
        known.catalog = Some((Arc::clone(&catalog), Instant::now()));
        Ok(catalog)
    }

    /// What templates see of the cluster.
    ///
    /// # Errors
    /// Discovery failed.
    pub async fn capabilities(&self) -> Result<helm_engine::Capabilities, ActionError> {
        let catalog = self
            .catalog(false)
            .await
            .map_err(|failure| ActionError::from_failure("discover what is served", &failure))?;
        Ok(capabilities(&catalog))
    }

    /// What `lookup` in templates asks. It works on the runtime it is given.
    #[must_use]
    pub fn lookup(&self, runtime: tokio::runtime::Handle) -> ClusterLookup {
        ClusterLookup::new(self.clone(), runtime)
    }

    async fn discover(&self) -> Result<Catalog, Failure> {
        let version = self.read("/version", None).await?;
        let mut catalog = Catalog::new(ServerVersion::parse(&version));
        for root in ["/api", "/apis"] {
            let body = self.read(root, Some(AGGREGATED)).await?;
            if body.get("kind").and_then(|kind| kind.as_str()) == Some("APIGroupDiscoveryList") {
                catalog.add_aggregated(&body);
            } else {
                self.discover_by_group(&mut catalog, root, &body).await?;
            }
        }
        Ok(catalog)
    }

    /// For API servers before 1.26: one request for each group version. A group whose own API
    /// server is down is left out, as in Helm.
    async fn discover_by_group(
        &self,
        catalog: &mut Catalog,
        root: &str,
        body: &serde_json::Value,
    ) -> Result<(), Failure> {
        for version in group_versions(body) {
            match self.read(&format!("{root}/{version}"), None).await {
                Ok(list) => catalog.add_group_version(&list),
                Err(Failure::Status(status)) if status.code == 503 || status.code == 404 => {}
                Err(failure) => return Err(failure),
            }
        }
        Ok(())
    }

    async fn read(
        &self,
        uri: &str,
        accept: Option<&'static str>,
    ) -> Result<serde_json::Value, Failure> {
        let call = Call {
            verb: Verb::Get,
            uri: uri.to_owned(),
            accept: Accept::Full,
            body: None,
            what: "discover what is served".to_owned(),
        };
        match self.call_accepting(&call, accept).await? {
            Reply::Object { body, .. } => Ok(body),
            _ => Err(Failure::Undecodable(
                "discovery answered without an object".to_owned(),
            )),
        }
    }
}

const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,\
     application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json";

/// The versions of `/api` (`APIVersions`) or `/apis` (`APIGroupList`).
fn group_versions(body: &serde_json::Value) -> Vec<String> {
    let list = |value: &serde_json::Value, key: &str| {
        value
            .get(key)
            .and_then(serde_json::Value::as_array)
            .cloned()
            .unwrap_or_default()
    };
    let core = list(body, "versions");
    let core = core
        .iter()
        .filter_map(|version| version.as_str().map(ToOwned::to_owned));
    let groups = list(body, "groups");
    let grouped = groups.iter().flat_map(|group| list(group, "versions"));
    let grouped = grouped.filter_map(|version| {
        version
            .get("groupVersion")
            .and_then(|text| text.as_str())
            .map(ToOwned::to_owned)
    });
    core.chain(grouped).collect()
}

fn capabilities(catalog: &Catalog) -> helm_engine::Capabilities {
    let server = &catalog.server;
    helm_engine::Capabilities {
        kube_version: helm_engine::KubeVersion {
            version: server.git_version.clone(),
            normalized: None,
            major: server.major.clone(),
            minor: server.minor.clone(),
        },
        api_versions: catalog.api_versions(),
        helm_version: helm_engine::HelmVersion::default(),
    }
}
