//! Leader election through a Lease: one replica works, the others stand by.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, Client};
use tokio::sync::watch;
use tokio::time::Instant;

/// Where the Lease is and how it is held.
#[derive(Clone, Debug)]
pub struct LeaseSettings {
    /// Namespace of the Lease.
    pub namespace: String,
    /// Name of the Lease.
    pub name: String,
    /// Who we are; no two processes may have the same.
    pub identity: String,
    /// For how long others believe in a holder that they do not hear of.
    pub lease: Duration,
    /// For how long a holder that cannot renew believes in itself: less than `lease`.
    pub renew_deadline: Duration,
    /// Time between two tries.
    pub retry: Duration,
}

impl LeaseSettings {
    /// The usual times: 15 s, 10 s, 2 s.
    pub fn new(
        namespace: impl Into<String>,
        name: impl Into<String>,
        identity: impl Into<String>,
    ) -> Self {
        Self {
            namespace: namespace.into(),
            name: name.into(),
            identity: identity.into(),
            lease: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            retry: Duration::from_secs(2),
        }
    }
}

/// Why the Lease could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum LeaseError {
    /// The API server said no, or could not be reached.
    #[error("{0}: cannot use the leader lease")]
    Api(#[from] kube::Error),
    /// The API server did not answer in time.
    #[error("no answer within {0:?}: cannot use the leader lease")]
    Deadline(Duration),
}

/// Whether this process leads, and until when it may believe so.
#[derive(Clone, Debug)]
pub struct Leadership {
    until: watch::Receiver<Option<Instant>>,
}

impl Leadership {
    /// Leadership that never ends: for a daemon that runs without election.
    #[must_use]
    pub fn always() -> Self {
        let far = Instant::now() + Duration::from_secs(100 * 365 * 24 * 3600);
        Self {
            until: watch::channel(Some(far)).1,
        }
    }

    /// Leadership that never comes.
    #[cfg(test)]
    pub(crate) fn never() -> Self {
        Self {
            until: watch::channel(None).1,
        }
    }

    /// Whether a write may be sent now. It is asked before each one: a process that was stopped for
    /// longer than its lease finds here that its time has passed.
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.until
            .borrow()
            .is_some_and(|until| Instant::now() < until)
    }

    /// Returns when this process leads.
    pub async fn acquired(&mut self) {
        while !self.is_held() {
            if self.until.changed().await.is_err() {
                // The election is gone and will never tell.
                std::future::pending::<()>().await;
            }
        }
    }

    /// Returns when this process does not lead any more.
    pub async fn lost(&mut self) {
        loop {
            let until = *self.until.borrow_and_update();
            let Some(until) = until.filter(|until| Instant::now() < *until) else {
                return;
            };
            tokio::select! {
                () = tokio::time::sleep_until(until) => {}
                changed = self.until.changed() => if changed.is_err() {
                    tokio::time::sleep_until(until).await;
                    return;
                },
            }
        }
    }
}

/// One process's part in the election.
pub struct LeaderLease {
    api: Api<Lease>,
    settings: LeaseSettings,
    until: watch::Sender<Option<Instant>>,
    /// The last holder that was seen, and when its record last changed, by our own clock: the clocks
    /// of two machines are never compared.
    seen: Option<(Lease, Instant)>,
}

impl std::fmt::Debug for LeaderLease {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LeaderLease")
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}

impl LeaderLease {
    /// Takes part in the election that `settings` name.
    #[must_use]
    pub fn new(client: Client, settings: LeaseSettings) -> (Self, Leadership) {
        let api = Api::namespaced(client, &settings.namespace);
        let (until, receiver) = watch::channel(None);
        (
            Self {
                api,
                settings,
                until,
                seen: None,
            },
            Leadership { until: receiver },
        )
    }

    /// Runs the election until `stop` is done; then the Lease is given back, so that another replica
    /// need not wait for its end.
    pub async fn run(mut self, stop: impl Future<Output = ()>) {
        let mut stop = std::pin::pin!(stop);
        loop {
            // Counted from before the request: the lease that others see cannot end earlier.
            let asked = Instant::now();
            match self.try_acquire().await {
                Ok(true) => {
                    self.until
                        .send_replace(Some(asked + self.settings.renew_deadline));
                }
                Ok(false) => {
                    self.until.send_replace(None);
                }
                Err(error) => tracing::warn!(%error, "leader election"),
            }
            tokio::select! {
                () = &mut stop => break,
                () = tokio::time::sleep(self.settings.retry) => {}
            }
        }
        self.release().await;
    }

    /// Takes or renews the Lease; `false` while another process holds it.
    async fn try_acquire(&mut self) -> Result<bool, LeaseError> {
        let limit = self.settings.retry.max(Duration::from_secs(1)) * 2;
        let result = tokio::time::timeout(limit, self.acquire_once()).await;
        result.map_err(|_| LeaseError::Deadline(limit))?
    }

    async fn acquire_once(&mut self) -> Result<bool, LeaseError> {
        let Some(lease) = self.api.get_opt(&self.settings.name).await? else {
            return self.create().await;
        };
        self.observe(&lease);
        if !self.may_take(&lease) {
            return Ok(false);
        }
        let wanted = next_lease(&lease, &self.settings, Timestamp::now());
        match self
            .api
            .replace(&self.settings.name, &PostParams::default(), &wanted)
            .await
        {
            Ok(lease) => {
                self.observe(&lease);
                Ok(true)
            }
            // Someone else was quicker: the resource version is the fence.
            Err(kube::Error::Api(status)) if status.code == 409 => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    async fn create(&mut self) -> Result<bool, LeaseError> {
        let empty = Lease {
            metadata: ObjectMeta {
                name: Some(self.settings.name.clone()),
                ..Default::default()
            },
            spec: None,
        };
        let wanted = next_lease(&empty, &self.settings, Timestamp::now());
        match self.api.create(&PostParams::default(), &wanted).await {
            Ok(lease) => {
                self.observe(&lease);
                Ok(true)
            }
            Err(kube::Error::Api(status)) if status.code == 409 => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    fn observe(&mut self, lease: &Lease) {
        if self
            .seen
            .as_ref()
            .is_none_or(|(seen, _)| seen.spec != lease.spec)
        {
            self.seen = Some((lease.clone(), Instant::now()));
        }
    }

    fn may_take(&self, lease: &Lease) -> bool {
        let spec = lease.spec.clone().unwrap_or_default();
        let holder = spec.holder_identity.unwrap_or_default();
        if holder.is_empty() || holder == self.settings.identity {
            return true;
        }
        let seconds = spec
            .lease_duration_seconds
            .and_then(|s| u64::try_from(s).ok());
        let lasts = seconds.map_or(self.settings.lease, Duration::from_secs);
        self.seen
            .as_ref()
            .is_some_and(|(_, since)| since.elapsed() >= lasts)
    }

    async fn release(&mut self) {
        let held = self.until.send_replace(None).is_some();
        let Some((lease, _)) = self.seen.take().filter(|_| held) else {
            return;
        };
        let ours = lease
            .spec
            .as_ref()
            .and_then(|spec| spec.holder_identity.as_deref())
            == Some(self.settings.identity.as_str());
        if !ours {
            return;
        }
        let mut free = lease;
        if let Some(spec) = &mut free.spec {
            spec.holder_identity = Some(String::new());
            spec.lease_duration_seconds = Some(1);
        }
        let name = self.settings.name.clone();
        let post = PostParams::default();
        let replace = self.api.replace(&name, &post, &free);
        match tokio::time::timeout(Duration::from_secs(2), replace).await {
            Ok(Ok(_)) => {}
            Ok(Err(error)) => tracing::warn!(%error, "giving the leader lease back"),
            Err(_) => tracing::warn!("no answer: giving the leader lease back"),
        }
    }
}

/// The record that makes us the holder, or renews it.
fn next_lease(found: &Lease, settings: &LeaseSettings, now: Timestamp) -> Lease {
    let old = found.spec.clone().unwrap_or_default();
    let renews = old.holder_identity.as_deref() == Some(settings.identity.as_str());
    let now = MicroTime(now);
    let spec = LeaseSpec {
        holder_identity: Some(settings.identity.clone()),
        lease_duration_seconds: i32::try_from(settings.lease.as_secs()).ok(),
        acquire_time: if renews {
            old.acquire_time
        } else {
            Some(now.clone())
        },
        renew_time: Some(now),
        lease_transitions: Some(old.lease_transitions.unwrap_or(0) + i32::from(!renews)),
        ..old
    };
    Lease {
        spec: Some(spec),
        ..found.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(identity: &str) -> LeaseSettings {
        LeaseSettings::new("ops", "helm-operator", identity)
    }

    #[test]
    fn taking_over_counts_a_transition_and_renewing_does_not() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let first = next_lease(&Lease::default(), &settings("a"), at(1));
        let renewed = next_lease(&first, &settings("a"), at(2));
        let taken = next_lease(&renewed, &settings("b"), at(3));
        let spec = |lease: &Lease| lease.spec.clone().unwrap();
        assert_eq!(spec(&first).lease_transitions, Some(1));
        assert_eq!(spec(&renewed).acquire_time, spec(&first).acquire_time);
        assert_eq!(spec(&renewed).lease_transitions, Some(1));
        assert_eq!(spec(&taken).holder_identity.as_deref(), Some("b"));
        assert_eq!(spec(&taken).lease_transitions, Some(2));
        assert_eq!(spec(&taken).lease_duration_seconds, Some(15));
    }

    #[tokio::test(start_paused = true)]
    async fn leadership_ends_by_itself_when_it_is_not_renewed() {
        let (sender, receiver) = watch::channel(None);
        let mut leadership = Leadership { until: receiver };
        assert!(!leadership.is_held());
        sender.send_replace(Some(Instant::now() + Duration::from_secs(10)));
        leadership.acquired().await;
        tokio::time::advance(Duration::from_secs(9)).await;
        assert!(leadership.is_held());
        tokio::time::advance(Duration::from_secs(1)).await;
        assert!(!leadership.is_held());
        leadership.lost().await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_renewal_moves_the_end() {
        let (sender, receiver) = watch::channel(Some(Instant::now() + Duration::from_secs(10)));
        let mut leadership = Leadership { until: receiver };
        let started = Instant::now();
        let renew = async {
            tokio::time::sleep(Duration::from_secs(8)).await;
            sender.send_replace(Some(Instant::now() + Duration::from_secs(10)));
        };
        tokio::join!(renew, leadership.lost());
        assert_eq!(started.elapsed(), Duration::from_secs(18));
    }
}
