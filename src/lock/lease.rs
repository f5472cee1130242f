//! Leader election through a Lease: one replica works, the others stand by.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, Client};
use tokio::sync::watch;
use tokio::time::Instant;

use super::leadership::{Leadership, since_boot};

/// Timers are not exact: a try a little later than the end of a lease surely comes after it.
const SHORTLY: Duration = Duration::from_millis(5);

/// The annotation of a Lease that says where its holder's HTTP server is.
const ADDRESS: &str = "helm.fluxcd.io/address";

/// Where the Lease is and how it is held.
#[derive(Clone, Debug)]
pub struct LeaseSettings {
    /// Namespace of the Lease.
    pub namespace: String,
    /// Name of the Lease.
    pub name: String,
    /// Who we are; no two processes may have the same.
    pub identity: String,
    /// Where our HTTP server is, for those who do not lead.
    pub address: Option<String>,
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
            address: None,
            lease: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            retry: Duration::from_secs(2),
        }
    }

    /// Whether these times keep two holders apart.
    ///
    /// # Errors
    /// Says which of them does not fit.
    pub fn check(&self) -> Result<(), String> {
        let Self {
            lease,
            renew_deadline,
            retry,
            ..
        } = self;
        if *lease < Duration::from_secs(1) {
            return Err(format!(
                "a lease of {lease:?} is too short: give 1s or more"
            ));
        }
        if renew_deadline >= lease {
            return Err(format!(
                "the renew deadline {renew_deadline:?} has to be shorter than the lease {lease:?}: \
                 the holder has to stop before another may begin"
            ));
        }
        if retry >= renew_deadline || retry.is_zero() {
            return Err(format!(
                "the retry period {retry:?} has to be shorter than the renew deadline \
                 {renew_deadline:?}, and more than nothing"
            ));
        }
        Ok(())
    }

    /// The time between the end of a holder that could not renew and the earliest start of the next one.
    fn margin(&self) -> Duration {
        self.lease.saturating_sub(self.renew_deadline)
    }

    /// The lease in the whole seconds that the record holds, rounded up: others may wait longer, and
    /// never shorter.
    fn lease_seconds(&self) -> Option<i32> {
        i32::try_from(self.lease.as_millis().div_ceil(1000)).ok()
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

/// One process's part in the election.
pub struct LeaderLease {
    api: Api<Lease>,
    settings: LeaseSettings,
    until: watch::Sender<Option<Duration>>,
    leader: watch::Sender<Option<String>>,
    /// Whether another process held it before us.
    succeeds: Arc<AtomicBool>,
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
        let (leader, leader_receiver) = watch::channel(None);
        let margin = settings.margin();
        let leadership = Leadership::new(receiver, margin).with_leader(leader_receiver);
        let election = Self {
            api,
            settings,
            until,
            leader,
            succeeds: leadership.succession(),
            seen: None,
        };
        (election, leadership)
    }

    /// Runs the election until `stop` is done; then the Lease is given back, so that another replica
    /// need not wait for its end.
    pub async fn run(mut self, stop: impl Future<Output = ()>) {
        let mut stop = std::pin::pin!(stop);
        loop {
            // Counted from before the request: the lease that others see cannot end earlier.
            let asked = since_boot();
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
                () = tokio::time::sleep(self.pause()) => {}
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
        // Who holds it need not read it first: if someone else wrote it, the version is wrong.
        if let Some(held) = self
            .seen
            .as_ref()
            .map(|(lease, _)| lease)
            .filter(|lease| self.is_ours(lease))
            && let Some(renewed) = self.replace(&held.clone()).await?
        {
            return Ok(renewed);
        }
        let Some(lease) = self.api.get_opt(&self.settings.name).await? else {
            return self.create().await;
        };
        self.observe(&lease);
        if !self.may_take(&lease) {
            return Ok(false);
        }
        if !self.is_ours(&lease) {
            // Also if it was given back: whoever held it has worked until then.
            self.succeeds.store(true, Ordering::Relaxed);
        }
        Ok(self.replace(&lease).await?.unwrap_or(false))
    }

    fn is_ours(&self, lease: &Lease) -> bool {
        let holder = lease
            .spec
            .as_ref()
            .and_then(|spec| spec.holder_identity.as_deref());
        holder == Some(self.settings.identity.as_str())
    }

    /// Writes ourselves into the Lease; `None` when it has changed since it was read.
    async fn replace(&mut self, lease: &Lease) -> Result<Option<bool>, LeaseError> {
        let wanted = next_lease(lease, &self.settings, Timestamp::now());
        let params = PostParams::default();
        match self
            .api
            .replace(&self.settings.name, &params, &wanted)
            .await
        {
            Ok(lease) => {
                self.observe(&lease);
                Ok(Some(true))
            }
            // Someone else was quicker: the resource version is the fence.
            Err(kube::Error::Api(status)) if status.code == 409 || status.code == 404 => Ok(None),
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
            self.leader.send_replace(address_of(lease));
        }
    }

    fn may_take(&self, lease: &Lease) -> bool {
        let spec = lease.spec.clone().unwrap_or_default();
        let holder = spec.holder_identity.unwrap_or_default();
        if holder.is_empty() || holder == self.settings.identity {
            return true;
        }
        let lasts = self.lasts(lease);
        self.seen
            .as_ref()
            .is_some_and(|(_, since)| since.elapsed() >= lasts)
    }

    /// How long a record that does not change counts, as its holder has written.
    fn lasts(&self, lease: &Lease) -> Duration {
        let seconds = lease
            .spec
            .as_ref()
            .and_then(|spec| spec.lease_duration_seconds)
            .and_then(|seconds| u64::try_from(seconds).ok());
        seconds.map_or(self.settings.lease, Duration::from_secs)
    }

    /// The time to the next try: whoever waits for the end of another's lease tries then, not later.
    fn pause(&self) -> Duration {
        let retry = self.settings.retry;
        let ends = self.seen.as_ref().map(|(lease, since)| {
            let ends = *since + self.lasts(lease);
            ends.saturating_duration_since(Instant::now())
        });
        match ends {
            Some(left) if !left.is_zero() => retry.min(left + SHORTLY),
            _ => retry,
        }
    }

    async fn release(&mut self) {
        let held = self.until.send_replace(None).is_some();
        let Some((lease, _)) = self.seen.take().filter(|_| held) else {
            return;
        };
        if !self.is_ours(&lease) {
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

/// Where the holder of a Lease says that it is.
fn address_of(lease: &Lease) -> Option<String> {
    let holder = lease.spec.as_ref()?.holder_identity.as_ref()?;
    let address = lease.metadata.annotations.as_ref()?.get(ADDRESS)?;
    Some(address.clone()).filter(|_| !holder.is_empty())
}

/// The record that makes us the holder, or renews it.
fn next_lease(found: &Lease, settings: &LeaseSettings, now: Timestamp) -> Lease {
    let old = found.spec.clone().unwrap_or_default();
    let renews = old.holder_identity.as_deref() == Some(settings.identity.as_str());
    let now = MicroTime(now);
    let spec = LeaseSpec {
        holder_identity: Some(settings.identity.clone()),
        lease_duration_seconds: settings.lease_seconds(),
        acquire_time: if renews {
            old.acquire_time
        } else {
            Some(now.clone())
        },
        renew_time: Some(now),
        lease_transitions: Some(old.lease_transitions.unwrap_or(0) + i32::from(!renews)),
        ..old
    };
    let mut lease = Lease {
        spec: Some(spec),
        ..found.clone()
    };
    let annotations = lease.metadata.annotations.get_or_insert_default();
    match &settings.address {
        Some(address) => drop(annotations.insert(ADDRESS.to_owned(), address.clone())),
        None => drop(annotations.remove(ADDRESS)),
    }
    lease
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

    #[test]
    fn times_that_let_two_lead_at_once_are_refused() {
        let with = |lease, renew, retry| {
            LeaseSettings {
                lease: Duration::from_millis(lease),
                renew_deadline: Duration::from_millis(renew),
                retry: Duration::from_millis(retry),
                ..settings("a")
            }
            .check()
        };
        assert_eq!(settings("a").check(), Ok(()));
        assert_eq!(with(2000, 1500, 200), Ok(()));
        for (lease, renew, retry) in [
            (900, 500, 100),
            (10_000, 10_000, 2000),
            (15_000, 20_000, 2000),
            (15_000, 10_000, 10_000),
            (15_000, 10_000, 0),
        ] {
            assert!(
                with(lease, renew, retry).is_err(),
                "{lease} {renew} {retry}"
            );
        }
    }

    #[test]
    fn a_lease_of_parts_of_seconds_is_written_rounded_up() {
        let mut short = settings("a");
        short.lease = Duration::from_millis(1200);
        let lease = next_lease(&Lease::default(), &short, Timestamp::now());
        assert_eq!(lease.spec.unwrap().lease_duration_seconds, Some(2));
    }

    /// A client that nobody is asked through.
    fn observer(identity: &str) -> LeaderLease {
        let config = kube::Config::new("http://127.0.0.1:1".parse().unwrap());
        let client = Client::try_from(config).unwrap();
        LeaderLease::new(client, settings(identity)).0
    }

    /// what the holder's clock says does not matter, only whether its record changes.
    #[tokio::test(start_paused = true)]
    async fn clocks_of_two_machines_are_never_compared() {
        let mut observer = observer("b");
        let wrong = [-3600, 3600].map(jiff::SignedDuration::from_secs);
        for skew in wrong {
            let holder = settings("a");
            let at =
                |second: i64| Timestamp::now() + skew + jiff::SignedDuration::from_secs(second);
            let mut lease = next_lease(&Lease::default(), &holder, at(0));
            for second in [2, 4] {
                observer.observe(&lease);
                assert!(!observer.may_take(&lease));
                tokio::time::advance(Duration::from_secs(14)).await;
                assert!(!observer.may_take(&lease));
                lease = next_lease(&lease, &holder, at(second));
            }
            observer.observe(&lease);
            // A clock that stands still: the record changes by its version of the object only.
            observer.observe(&lease.clone());
            tokio::time::advance(Duration::from_secs(15)).await;
            assert!(observer.may_take(&lease));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn who_waits_tries_again_at_the_end_of_the_lease() {
        let mut observer = observer("b");
        let lease = next_lease(&Lease::default(), &settings("a"), Timestamp::now());
        assert_eq!(observer.pause(), Duration::from_secs(2));
        observer.observe(&lease);
        tokio::time::advance(Duration::from_secs(14)).await;
        assert_eq!(observer.pause(), Duration::from_secs(1) + SHORTLY);
        tokio::time::advance(Duration::from_secs(2)).await;
        assert_eq!(observer.pause(), Duration::from_secs(2));
    }

    #[test]
    fn a_lease_says_where_its_holder_is_and_not_where_the_last_one_was() {
        let mut first = settings("a");
        first.address = Some("http://10.0.0.1:3030".into());
        let lease = next_lease(&Lease::default(), &first, Timestamp::now());
        assert_eq!(address_of(&lease), first.address);
        let taken = next_lease(&lease, &settings("b"), Timestamp::now());
        assert_eq!(address_of(&taken), None);
        let mut free = lease;
        free.spec.as_mut().unwrap().holder_identity = Some(String::new());
        assert_eq!(address_of(&free), None);
    }
}
