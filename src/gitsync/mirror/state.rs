//! What a mirror knows. Changed in short steps, none of which does I/O.

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    sync::Arc,
    time::{Duration, SystemTime},
};

use gix::ObjectId;
use tokio::time::Instant;

use crate::gitsync::{
    ChangeReason, GitSource, Reason, ReleaseKey, Schedule, SourceError,
    chart::Footprint,
    reference::Reference,
    store::{Refs, Store},
};

/// How long a ref is kept in a mirror for someone who asked once without declaring it.
const INTEREST: Duration = Duration::from_secs(600);
/// Failures in a row that may pass, before releases are told.
const TOLD_FAILURES: u32 = 2;

/// What one release uses of the mirror.
#[derive(Debug)]
pub(crate) struct Use {
    /// As the release says it; all that say the same share it.
    pub(crate) source: Arc<GitSource>,
    /// The ref of it.
    pub(crate) reference: Reference,
    /// The commit that was looked at last, and what the chart is made of there.
    pub(crate) seen: Option<(ObjectId, Arc<Footprint>)>,
    /// The release was told to wait, so it must be told when the waiting is over.
    pub(crate) waiting: bool,
    /// The failure that the release was told of.
    failed: Option<SourceError>,
}

/// What is known of one ref.
#[derive(Debug, Clone, Default)]
pub(crate) struct RefState {
    /// Where it stands.
    pub(crate) commit: Option<ObjectId>,
    /// Why it cannot be used.
    pub(crate) error: Option<SourceError>,
    /// The cycle in which the remote was last asked about it.
    pub(crate) checked: u64,
    /// The cycle that an answer must come from, at least.
    pub(crate) required: u64,
}

impl RefState {
    /// True when the remote was asked since it had to be.
    pub(crate) fn is_fresh(&self) -> bool {
        self.checked > 0 && self.checked >= self.required
    }
}

/// What a mirror knows.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) uses: HashMap<ReleaseKey, Vec<Use>>,
    /// The sources of all uses, each once.
    sources: HashSet<Arc<GitSource>>,
    interests: HashMap<Reference, Instant>,
    pub(crate) refs: HashMap<Reference, RefState>,
    pub(crate) store: Option<Arc<Store>>,
    pub(crate) tips: Refs,
    pub(crate) shallow: BTreeSet<ObjectId>,
    /// The next cycle fetches the copy on disk anew.
    pub(crate) rebuild: bool,
    /// That is because it cannot be trusted: nothing is read from it until then.
    pub(crate) damaged: bool,
    /// The copy on disk was freed for others; what is asked for is fetched again.
    pub(crate) evicted: bool,
    pub(crate) error: Option<SourceError>,
    failures: u32,
    /// Cycles in a row that found nothing new.
    idle: u32,
    /// A person asked for the next cycle and waits for it.
    pub(crate) urgent: bool,
    pub(crate) closed: bool,
    pub(crate) cycles: u64,
    pub(crate) next_due: Instant,
    pub(crate) last_start: Option<Instant>,
    pub(crate) last_success: Option<SystemTime>,
    pub(crate) last_duration: Option<Duration>,
    pub(crate) last_used: Instant,
}

impl Default for State {
    fn default() -> Self {
        let now = Instant::now();
        Self {
            uses: HashMap::new(),
            sources: HashSet::new(),
            interests: HashMap::new(),
            refs: HashMap::new(),
            store: None,
            tips: Refs::new(),
            shallow: BTreeSet::new(),
            rebuild: false,
            damaged: false,
            evicted: false,
            error: None,
            failures: 0,
            idle: 0,
            urgent: false,
            closed: false,
            cycles: 0,
            // A mirror does nothing until someone asks.
            next_due: now + Duration::from_secs(86_400 * 365),
            last_start: None,
            last_success: None,
            last_duration: None,
            last_used: now,
        }
    }
}

impl State {
    /// Takes in what a release uses; true when that needs a cycle.
    pub(crate) fn set_uses(
        &mut self,
        release: &ReleaseKey,
        sources: Vec<(GitSource, Reference)>,
    ) -> bool {
        let mut old = self.uses.remove(release).unwrap_or_default();
        let mut needs_cycle = false;
        let mut uses = Vec::with_capacity(sources.len());
        for (source, reference) in sources {
            if let Some(at) = old.iter().position(|known| *known.source == source) {
                uses.push(old.swap_remove(at));
                continue;
            }
            self.demand(&reference);
            needs_cycle = true;
            uses.push(Use {
                source: self.share(source),
                reference,
                seen: None,
                waiting: false,
                failed: None,
            });
        }
        if !uses.is_empty() {
            self.uses.insert(release.clone(), uses);
        }
        if !old.is_empty() {
            self.drop_unused_refs();
            drop(old);
            self.sources.retain(|source| Arc::strong_count(source) > 1);
        }
        needs_cycle
    }

    fn share(&mut self, source: GitSource) -> Arc<GitSource> {
        if let Some(known) = self.sources.get(&source) {
            return Arc::clone(known);
        }
        let source = Arc::new(source);
        self.sources.insert(Arc::clone(&source));
        source
    }

    /// Notes that someone asks for `reference`, declared or not; true when that needs a cycle.
    pub(crate) fn note_interest(&mut self, reference: &Reference, now: Instant) -> bool {
        self.last_used = now;
        let is_declared = self
            .uses
            .values()
            .flatten()
            .any(|known| known.reference == *reference);
        if !is_declared {
            self.interests.insert(reference.clone(), now);
        }
        let needs_cycle = !self.refs.contains_key(reference) || self.evicted;
        if needs_cycle {
            self.demand(reference);
            self.evicted = false;
        }
        needs_cycle
    }

    /// Asks that the next cycle that begins answers for `reference`.
    pub(crate) fn demand(&mut self, reference: &Reference) {
        let required = self.cycles + 1;
        self.refs.entry(reference.clone()).or_default().required = required;
    }

    /// Takes in what was found on disk, as what the remote said before this process began.
    pub(crate) fn load(&mut self, store: Arc<Store>, tips: Refs, shallow: BTreeSet<ObjectId>) {
        for reference in self.wanted() {
            let names = reference.candidates();
            let tip = names
                .iter()
                .find_map(|name| tips.get(&Reference::mirror_name(name)));
            let known = self.refs.entry(reference).or_default();
            known.commit = known.commit.or(tip.map(|tip| tip.commit));
        }
        self.store = Some(store);
        self.tips = tips;
        self.shallow = shallow;
    }

    /// The refs to list in a cycle.
    pub(crate) fn wanted(&mut self) -> Vec<Reference> {
        let now = Instant::now();
        self.interests
            .retain(|_, asked| now.duration_since(*asked) < INTEREST);
        let uses = self.uses.values().flatten().map(|known| &known.reference);
        let wanted: HashSet<&Reference> = uses.chain(self.interests.keys()).collect();
        let mut wanted: Vec<Reference> = wanted.into_iter().cloned().collect();
        wanted.sort();
        wanted
    }

    /// The wanted commits that the remote did not have when it was last asked.
    pub(crate) fn missing_commits(&self) -> BTreeSet<ObjectId> {
        let of = |(reference, known): (&Reference, &RefState)| match (reference, &known.error) {
            (Reference::Commit(id), Some(error)) if error.reason() == Reason::RefNotFound => {
                Some(*id)
            }
            _ => None,
        };
        self.refs.iter().filter_map(of).collect()
    }

    fn drop_unused_refs(&mut self) {
        let wanted: HashSet<Reference> = self.wanted().into_iter().collect();
        self.refs.retain(|reference, _| wanted.contains(reference));
    }

    /// True when nobody uses the mirror.
    pub(crate) fn is_unused(&mut self) -> bool {
        self.uses.is_empty() && self.wanted().is_empty()
    }

    /// How many releases use it.
    pub(crate) fn release_count(&self) -> usize {
        self.uses.len()
    }

    /// Least time between the last cycle and the next one that is asked for.
    pub(crate) fn gap(&self, shortest: Duration, longest: Duration) -> Duration {
        if self.closed
            || self.urgent
            || self.refs.values().any(|known| known.required > self.cycles)
        {
            return shortest;
        }
        (shortest * (1 << self.idle.min(16))).min(longest)
    }

    /// Notes whether a cycle found something new.
    pub(crate) fn note_news(&mut self, is_new: bool) {
        self.idle = if is_new {
            0
        } else {
            self.idle.saturating_add(1)
        };
    }

    /// Begins a cycle and numbers it.
    pub(crate) fn start(&mut self, now: Instant) -> u64 {
        self.cycles += 1;
        self.urgent = false;
        self.last_start = Some(now);
        self.cycles
    }

    /// Ends a cycle: sets the next one, and says which releases to tell what.
    pub(crate) fn finish(
        &mut self,
        result: Result<(), SourceError>,
        took: Duration,
        schedule: &Schedule,
    ) -> Vec<(ReleaseKey, ChangeReason)> {
        let pause = match &result {
            Ok(()) => {
                self.failures = 0;
                self.last_success = Some(SystemTime::now());
                schedule.next(SystemTime::now())
            }
            Err(error) if error.is_transient() => {
                self.failures = self.failures.saturating_add(1);
                let pause = schedule.retry(self.failures);
                pause.max(error.retry_after().unwrap_or_default())
            }
            Err(_) => schedule.next(SystemTime::now()),
        };
        if self.next_due <= Instant::now() {
            // A poll that was due, not one that was asked for.
            self.idle = 0;
        }
        self.next_due = Instant::now() + pause;
        self.last_duration = Some(took);
        self.error = result.err();
        self.failure_changes()
    }

    /// Why `reference` cannot be looked up any more, once it is worth telling.
    pub(crate) fn trouble(&self, reference: &Reference) -> Option<SourceError> {
        let of_ref = self
            .refs
            .get(reference)
            .and_then(|known| known.error.as_ref());
        let of_mirror = self.error.as_ref().filter(|_| !self.may_be_a_blip());
        of_ref.or(of_mirror).cloned()
    }

    /// One failure that may pass is tried again in seconds; a thousand releases need not tell of it.
    fn may_be_a_blip(&self) -> bool {
        self.failures < TOLD_FAILURES && self.error.as_ref().is_some_and(SourceError::is_transient)
    }

    /// Failures that began or ended, for each release that uses them.
    fn failure_changes(&mut self) -> Vec<(ReleaseKey, ChangeReason)> {
        let mut changes = Vec::new();
        let is_blip = self.may_be_a_blip();
        let (uses, refs, error) = (&mut self.uses, &self.refs, &self.error);
        for (release, uses) in uses.iter_mut() {
            for known in uses {
                let of_ref = refs
                    .get(&known.reference)
                    .and_then(|state| state.error.as_ref());
                if of_ref.is_none() && is_blip && !known.waiting {
                    continue;
                }
                let now = of_ref.or(error.as_ref());
                let before = known.failed.as_ref().map(SourceError::reason);
                match now {
                    Some(now) if before != Some(now.reason()) => {
                        changes.push((release.clone(), ChangeReason::Failed(now.clone())));
                    }
                    None if before.is_some() && !known.waiting => {
                        changes.push((release.clone(), ChangeReason::Recovered));
                    }
                    _ => {}
                }
                known.failed = now.cloned();
            }
        }
        changes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gitsync::RepositoryUrl;

    fn release(name: &str) -> ReleaseKey {
        ReleaseKey {
            namespace: "team".into(),
            name: name.into(),
        }
    }

    fn source(path: &str) -> (GitSource, Reference) {
        let url = RepositoryUrl::parse("https://h/x").unwrap();
        (
            GitSource::new(url, path).at("main"),
            Reference::Name("main".into()),
        )
    }

    fn schedule() -> Schedule {
        Schedule::every(Duration::from_secs(300)).unwrap()
    }

    fn failed(reason: Reason) -> Result<(), SourceError> {
        Err(SourceError::new(reason, "it failed"))
    }

    #[tokio::test]
    async fn the_same_declaration_again_needs_no_cycle() {
        let mut state = State::default();
        assert!(state.set_uses(&release("a"), vec![source("x")]));
        assert!(!state.set_uses(&release("a"), vec![source("x")]));
        assert!(state.set_uses(&release("a"), vec![source("y")]));
        assert!(
            state.set_uses(&release("b"), vec![source("y")]),
            "a new release must see the newest"
        );
    }

    #[tokio::test]
    async fn releases_of_the_same_chart_share_what_they_use() {
        let mut state = State::default();
        for name in ["a", "b", "c"] {
            state.set_uses(&release(name), vec![source("x")]);
        }
        state.set_uses(&release("c"), vec![source("y")]);
        assert_eq!(state.sources.len(), 2);
        let of = |name: &str| Arc::clone(&state.uses[&release(name)][0].source);
        assert!(Arc::ptr_eq(&of("a"), &of("b")) && !Arc::ptr_eq(&of("a"), &of("c")));
        state.set_uses(&release("c"), Vec::new());
        assert_eq!(state.sources.len(), 1);
    }

    #[tokio::test]
    async fn a_ref_that_nobody_uses_is_not_listed() {
        let mut state = State::default();
        state.set_uses(&release("a"), vec![source("x")]);
        assert_eq!(state.wanted(), [Reference::Name("main".into())]);
        state.set_uses(&release("a"), Vec::new());
        assert!(state.is_unused());
        assert!(state.refs.is_empty());
    }

    #[tokio::test]
    async fn an_answer_must_come_from_a_cycle_that_began_after_the_demand() {
        let mut state = State::default();
        let main = Reference::Name("main".into());
        let running = state.start(Instant::now());
        state.demand(&main);
        let known = state.refs.get_mut(&main).unwrap();
        known.checked = running;
        assert!(!known.is_fresh());
        known.checked = running + 1;
        assert!(known.is_fresh());
    }

    #[tokio::test]
    async fn hooks_without_news_are_held_back_longer_and_longer_and_releases_are_not() {
        let mut state = State::default();
        let (shortest, longest) = (Duration::from_millis(250), Duration::from_secs(16));
        state.set_uses(&release("a"), vec![source("x")]);
        assert_eq!(state.gap(shortest, longest), shortest);
        state.start(Instant::now());
        for expected in [250, 500, 1000, 2000, 4000, 8000, 16_000, 16_000] {
            assert_eq!(state.gap(shortest, longest).as_millis(), expected);
            state.note_news(false);
        }
        state.demand(&Reference::Name("main".into()));
        assert_eq!(state.gap(shortest, longest), shortest);
        state.start(Instant::now());
        state.note_news(true);
        assert_eq!(state.gap(shortest, longest), shortest);
    }

    #[tokio::test]
    async fn a_failure_is_told_once_and_its_end_once() {
        let mut state = State::default();
        state.set_uses(&release("a"), vec![source("x")]);
        let took = Duration::ZERO;
        assert!(
            state
                .finish(failed(Reason::Unreachable), took, &schedule())
                .is_empty(),
            "it may pass"
        );
        assert!(state.trouble(&Reference::Name("main".into())).is_none());
        let told = state.finish(failed(Reason::Unreachable), took, &schedule());
        assert!(state.trouble(&Reference::Name("main".into())).is_some());
        assert!(
            matches!(&told[..], [(_, ChangeReason::Failed(error))] if error.reason() == Reason::Unreachable)
        );
        assert!(
            state
                .finish(failed(Reason::Unreachable), took, &schedule())
                .is_empty()
        );
        assert_eq!(
            state
                .finish(failed(Reason::AuthFailed), took, &schedule())
                .len(),
            1
        );
        let told = state.finish(Ok(()), took, &schedule());
        assert_eq!(told, [(release("a"), ChangeReason::Recovered)]);
        assert!(state.finish(Ok(()), took, &schedule()).is_empty());
    }

    #[tokio::test]
    async fn failures_that_may_pass_are_tried_again_soon_and_others_at_the_next_poll() {
        let mut state = State::default();
        let pause = |state: &State| state.next_due.duration_since(Instant::now()).as_secs();
        state.finish(failed(Reason::Timeout), Duration::ZERO, &schedule());
        assert!(pause(&state) <= 6);
        state.finish(failed(Reason::AuthFailed), Duration::ZERO, &schedule());
        assert!(pause(&state) >= 260);
        let busy = SourceError::new(Reason::Unreachable, "busy");
        let busy = busy.with_retry_after(Duration::from_secs(120));
        state.finish(Err(busy), Duration::ZERO, &schedule());
        assert!((110..=120).contains(&pause(&state)), "the server says when");
    }
}
