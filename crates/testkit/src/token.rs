//! A token service for registries: a login for a signed token, as the distribution project
//! specifies it.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair};
use axum::Router;
use axum::extract::{RawQuery, State};
use axum::http::{HeaderMap, StatusCode};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use rcgen::{CertificateParams, KeyPair};
use serde_json::json;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use crate::background;

/// A service that gives tokens to one login.
pub struct TokenServer {
    address: SocketAddr,
    certificate: String,
    state: Arc<Service>,
    task: JoinHandle<()>,
}

struct Service {
    key: EcdsaKeyPair,
    certificate: Vec<u8>,
    login: String,
    lifetime: Mutex<Lifetime>,
    issued: Mutex<Vec<String>>,
    asked: Mutex<Vec<TokenRequest>>,
}

/// How long tokens are good for.
#[derive(Clone, Copy, Debug)]
pub struct Lifetime {
    /// What the service says.
    pub said: Duration,
    /// What stands in the token, from now; negative for one that is over already. A registry allows
    /// a minute more.
    pub signed_seconds: i64,
}

/// A request for a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenRequest {
    /// The `scope` asked for.
    pub scope: String,
    /// The `Authorization` header.
    pub authorization: Option<String>,
}

impl std::fmt::Debug for TokenServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TokenServer")
            .field("address", &self.address)
            .finish_non_exhaustive()
    }
}

impl Drop for TokenServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl TokenServer {
    /// What registries call themselves before it.
    pub const SERVICE: &str = "charts";
    /// What it calls itself in its tokens.
    pub const ISSUER: &str = "testkit";

    /// Starts a service for one login, with a new key.
    ///
    /// # Errors
    /// When no key can be made or no port is free.
    pub fn start(user: &str, password: &str) -> Result<Self> {
        let pair = KeyPair::generate().context("making the key of the token service")?;
        let params = CertificateParams::new(vec![Self::ISSUER.to_owned()])?;
        let certificate = params.self_signed(&pair)?;
        let key = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &pair.serialize_der())
            .context("reading the key of the token service")?;
        let login = STANDARD.encode(format!("{user}:{password}"));
        let state = Arc::new(Service {
            key,
            certificate: certificate.der().to_vec(),
            login: format!("Basic {login}"),
            lifetime: Mutex::new(Lifetime {
                said: Duration::from_secs(300),
                signed_seconds: 300,
            }),
            issued: Mutex::default(),
            asked: Mutex::default(),
        });
        let router = Router::new()
            .fallback(answer)
            .with_state(Arc::clone(&state));
        let (address, task) = background::wait_for(async move {
            let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
            let address = listener.local_addr()?;
            let task = tokio::spawn(async move {
                // It ends with the abort of its task.
                let _ = axum::serve(listener, router).await;
            });
            anyhow::Ok((address, task))
        })??;
        Ok(Self {
            address,
            certificate: certificate.pem(),
            state,
            task,
        })
    }

    /// Where tokens are asked for.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}/token", self.address)
    }

    /// The certificate of its key, in PEM.
    #[must_use]
    pub fn certificate(&self) -> &str {
        &self.certificate
    }

    /// Changes how long the tokens from now on are good for.
    pub fn set_lifetime(&self, lifetime: Lifetime) {
        *lock(&self.state.lifetime) = lifetime;
    }

    /// The tokens that were given, oldest first.
    #[must_use]
    pub fn issued(&self) -> Vec<String> {
        lock(&self.state.issued).clone()
    }

    /// What was asked for so far.
    #[must_use]
    pub fn requests(&self) -> Vec<TokenRequest> {
        lock(&self.state.asked).clone()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn answer(
    State(service): State<Arc<Service>>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> (StatusCode, String) {
    let authorization = headers
        .get("authorization")
        .and_then(|value| value.to_str().ok())
        .map(str::to_owned);
    let scopes = scopes(&query.unwrap_or_default());
    lock(&service.asked).push(TokenRequest {
        scope: scopes.join(" "),
        authorization: authorization.clone(),
    });
    if authorization.as_ref() != Some(&service.login) {
        return (StatusCode::UNAUTHORIZED, "who are you?".to_owned());
    }
    match token(&service, &scopes) {
        Ok(token) => {
            let said = lock(&service.lifetime).said.as_secs();
            lock(&service.issued).push(token.clone());
            let body = json!({"token": token, "expires_in": said});
            (StatusCode::OK, body.to_string())
        }
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()),
    }
}

fn scopes(query: &str) -> Vec<String> {
    let Ok(url) = reqwest::Url::parse(&format!("http://token/?{query}")) else {
        return Vec::new();
    };
    let named = url.query_pairs().filter(|(name, _)| name == "scope");
    named.map(|(_, scope)| scope.into_owned()).collect()
}

/// A token for everything that is asked for: `repository:<path>:<actions>`.
fn token(service: &Service, scopes: &[String]) -> Result<String> {
    let access: Vec<_> = scopes
        .iter()
        .flat_map(|scope| scope.split(' '))
        .filter_map(|scope| {
            let (kind, rest) = scope.split_once(':')?;
            let (name, actions) = rest.rsplit_once(':')?;
            let actions: Vec<&str> = actions.split(',').collect();
            Some(json!({"type": kind, "name": name, "actions": actions}))
        })
        .collect();
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
    let now = i64::try_from(now)?;
    let header = json!({
        "alg": "ES256", "typ": "JWT", "x5c": [STANDARD.encode(&service.certificate)],
    });
    let claims = json!({
        "iss": TokenServer::ISSUER, "sub": "robot", "aud": TokenServer::SERVICE,
        "iat": now, "nbf": now - 120, "exp": now + lock(&service.lifetime).signed_seconds,
        "jti": lock(&service.issued).len().to_string(), "access": access,
    });
    let part = |value: &serde_json::Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let signed = format!("{}.{}", part(&header), part(&claims));
    let signature = service
        .key
        .sign(&SystemRandom::new(), signed.as_bytes())
        .context("signing a token")?;
    Ok(format!(
        "{signed}.{}",
        URL_SAFE_NO_PAD.encode(signature.as_ref())
    ))
}
