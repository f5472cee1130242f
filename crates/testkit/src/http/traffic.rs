//! What was asked, numbered, and which requests shall go wrong.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use hyper::http::request::Parts;
use tokio::sync::watch;

use super::Fault;
use crate::process::LOOK_AGAIN;

/// One request and what became of it.
#[derive(Clone, Debug)]
pub struct Exchange {
    /// The number of the request, from 1.
    pub number: usize,
    /// The number among the writes, from 1, if it is one: `POST`, `PUT`, `PATCH` and `DELETE` of anything but leases,
    /// Events and access reviews. Reads come in an order that depends on timing; the writes of one release do not.
    pub write: Option<usize>,
    /// `GET`, `POST` …
    pub method: String,
    /// The path.
    pub path: String,
    /// The query, empty when there is none.
    pub query: String,
    /// The `User-Agent`.
    pub agent: String,
    /// The `Authorization`, as it was sent.
    pub authorization: Option<String>,
    /// The user that it was made as, `Impersonate-User`.
    pub impersonated: Option<String>,
    /// The `Git-Protocol`, such as `version=2`.
    pub git_protocol: Option<String>,
    /// When it came, since the server started.
    pub at: Duration,
    /// The status of the reply; none while it is open, and when the connection was cut instead.
    pub status: Option<u16>,
}

/// The requests of a server so far, and the faults that wait for the next ones. Clones share both.
#[derive(Clone, Debug)]
pub struct Traffic {
    inner: Arc<Mutex<Inner>>,
    streams: watch::Sender<Streams>,
}

/// What happens to bodies that are being streamed, by the count of the calls.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) struct Streams {
    pub(super) cuts: u32,
    pub(super) stalls: u32,
}

#[derive(Debug)]
struct Inner {
    start: Instant,
    exchanges: Vec<Exchange>,
    writes: usize,
    rules: Vec<Rule>,
}

struct Rule {
    matches: Box<dyn Fn(&Exchange) -> bool + Send + Sync>,
    times: usize,
    fault: Fault,
}

impl fmt::Debug for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rule")
            .field("times", &self.times)
            .field("fault", &self.fault)
            .finish()
    }
}

impl Traffic {
    pub(crate) fn new() -> Self {
        let inner = Inner {
            start: Instant::now(),
            exchanges: Vec::new(),
            writes: 0,
            rules: Vec::new(),
        };
        Self {
            inner: Arc::new(Mutex::new(inner)),
            streams: watch::Sender::default(),
        }
    }

    /// Every request from now on has this fault, until [`Traffic::heal`].
    pub fn fault(&self, fault: Fault) {
        self.fault_when(usize::MAX, |_| true, fault);
    }

    /// The next `times` requests have this fault.
    pub fn fault_next(&self, times: usize, fault: Fault) {
        self.fault_when(times, |_| true, fault);
    }

    /// The request with this number has this fault.
    pub fn fault_at(&self, number: usize, fault: Fault) {
        self.fault_when(1, move |exchange| exchange.number == number, fault);
    }

    /// The write with this number has this fault.
    pub fn fault_at_write(&self, number: usize, fault: Fault) {
        self.fault_when(1, move |exchange| exchange.write == Some(number), fault);
    }

    /// The first `times` requests that match have this fault. Of several rules that match, the oldest counts.
    pub fn fault_when(
        &self,
        times: usize,
        matches: impl Fn(&Exchange) -> bool + Send + Sync + 'static,
        fault: Fault,
    ) {
        self.lock().rules.push(Rule {
            matches: Box::new(matches),
            times,
            fault,
        });
    }

    /// No request goes wrong any more.
    pub fn heal(&self) {
        self.lock().rules.clear();
    }

    /// Cuts every reply that is being streamed, such as a watch, as a server that dies does.
    pub fn cut_streams(&self) {
        self.streams.send_modify(|streams| streams.cuts += 1);
    }

    /// Every reply that is being streamed goes silent and stays open, as behind a lost network.
    pub fn stall_streams(&self) {
        self.streams.send_modify(|streams| streams.stalls += 1);
    }

    /// The requests so far.
    #[must_use]
    pub fn exchanges(&self) -> Vec<Exchange> {
        self.lock().exchanges.clone()
    }

    /// The number of requests so far.
    #[must_use]
    pub fn count(&self) -> usize {
        self.lock().exchanges.len()
    }

    /// The number of writes so far, see [`Exchange::write`].
    #[must_use]
    pub fn writes(&self) -> usize {
        self.lock().writes
    }

    /// Forgets the requests so far; the next one has number 1 again.
    pub fn forget(&self) {
        let mut inner = self.lock();
        inner.exchanges.clear();
        inner.writes = 0;
    }

    /// Waits until the requests so far are such that `enough` holds.
    ///
    /// # Errors
    /// When it does not hold after `limit`; then with the requests.
    pub fn wait_until(
        &self,
        limit: Duration,
        mut enough: impl FnMut(&[Exchange]) -> bool,
    ) -> Result<()> {
        let end = Instant::now() + limit;
        while !enough(&self.lock().exchanges) {
            if Instant::now() > end {
                bail!(
                    "waited {limit:?} in vain; the requests so far: {:#?}",
                    self.exchanges()
                );
            }
            std::thread::sleep(LOOK_AGAIN);
        }
        Ok(())
    }

    /// Writes a request down and tells its fault.
    pub(super) fn enter(&self, request: &Parts) -> (Ticket, Option<Fault>) {
        let mut inner = self.lock();
        let exchange = inner.exchange(request);
        let ticket = Ticket {
            traffic: self.clone(),
            number: exchange.number,
            at: exchange.at,
        };
        let rule = inner
            .rules
            .iter_mut()
            .find(|rule| rule.times > 0 && (rule.matches)(&exchange));
        let fault = rule.map(|rule| {
            rule.times -= usize::from(rule.times != usize::MAX);
            rule.fault.clone()
        });
        inner.exchanges.push(exchange);
        (ticket, fault)
    }

    pub(super) fn streams(&self) -> watch::Receiver<Streams> {
        self.streams.subscribe()
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn exchange(&mut self, request: &Parts) -> Exchange {
        let header = |name: &str| {
            request
                .headers
                .get(name)
                .and_then(|value| value.to_str().ok())
                .map(str::to_owned)
        };
        let path = request.uri.path().to_owned();
        let write = is_write(request.method.as_str(), &path).then(|| {
            self.writes += 1;
            self.writes
        });
        Exchange {
            number: self.exchanges.len() + 1,
            write,
            method: request.method.as_str().to_owned(),
            path,
            query: request.uri.query().unwrap_or_default().to_owned(),
            agent: header("user-agent").unwrap_or_default(),
            authorization: header("authorization"),
            impersonated: header("impersonate-user"),
            git_protocol: header("git-protocol"),
            at: self.start.elapsed(),
            status: None,
        }
    }
}

fn is_write(method: &str, path: &str) -> bool {
    let side = ["/leases", "/events", "accessreviews", "tokenreviews"];
    matches!(method, "POST" | "PUT" | "PATCH" | "DELETE")
        && !side.iter().any(|word| path.contains(word))
}

/// The right to write down the status of a reply.
pub(super) struct Ticket {
    traffic: Traffic,
    number: usize,
    at: Duration,
}

impl Ticket {
    pub(super) fn answered(&self, status: u16) {
        let mut inner = self.traffic.lock();
        let index = self.number - 1;
        // The time tells it from a later one with the same number, after a `forget`.
        if let Some(exchange) = inner.exchanges.get_mut(index).filter(|it| it.at == self.at) {
            exchange.status = Some(status);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leases_events_and_reviews_are_no_writes() {
        for (method, path, write) in [
            ("GET", "/api/v1/secrets", false),
            ("POST", "/api/v1/namespaces/a/secrets", true),
            ("PATCH", "/apis/apps/v1/namespaces/a/deployments/b", true),
            ("DELETE", "/api/v1/namespaces/a/secrets/b", true),
            (
                "PUT",
                "/apis/coordination.k8s.io/v1/namespaces/a/leases/b",
                false,
            ),
            ("POST", "/api/v1/namespaces/a/events", false),
            (
                "POST",
                "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
                false,
            ),
        ] {
            assert_eq!(is_write(method, path), write, "{method} {path}");
        }
    }
}
