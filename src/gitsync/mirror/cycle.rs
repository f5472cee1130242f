//! One cycle: list, download, save, wake.

use std::{
    collections::{BTreeSet, HashMap, hash_map::Entry},
    path::Path,
    sync::Arc,
};

use gix::ObjectId;

use super::{AbortOnDrop, Context, Mirror};
use crate::gitsync::{
    ChangeReason, GitSource, Reason, ReleaseKey, SourceError,
    chart::{self, Footprint},
    credentials::Credentials,
    pack,
    reference::{Reference, Resolved},
    store::{Refs, Store, StoreError, Tip},
    tree::Tree,
    wire::{
        Listing, Remote,
        fetch::FetchRequest,
        refs::{Capabilities, RefFilter, Tips},
    },
};

/// Most commits that are named as present in a request.
const MAX_HAVES: usize = 256;
/// The depth by which git means "all of it".
const ALL: u32 = 0x7fff_ffff;

/// What a cycle works on.
struct Work {
    number: u64,
    wanted: Vec<Reference>,
    /// The copy on disk to add to, and what it holds; a new one when it is rebuilt.
    store: Arc<Store>,
    tips: Refs,
    shallow: BTreeSet<ObjectId>,
    is_new: bool,
    /// The objects of the tips were given up for others, and nobody has asked for them since.
    is_evicted: bool,
    /// Commits that the remote did not have when it was last asked.
    suspects: BTreeSet<ObjectId>,
    /// Commits that it does not have now.
    missing: BTreeSet<ObjectId>,
}

/// Commits that a remote turns out not to have in one cycle, before all that are left are taken for such.
const MAX_REFUSALS: usize = 8;

/// Whether the remote gives commits that no ref stands at.
fn gives_any_commit(capabilities: &Capabilities) -> bool {
    match capabilities {
        Capabilities::V2 { .. } => true,
        Capabilities::V0(v0) => v0.any_commit,
    }
}

/// What is left of `wants` after the remote refused them with `error`, which names one in most servers' words. What
/// it has `advertised` is never left out.
fn without_missing(
    wants: &[ObjectId],
    advertised: &[ObjectId],
    error: &SourceError,
    failures: usize,
) -> Vec<ObjectId> {
    let text = error.to_string();
    let is_named = |id: &ObjectId| text.contains(&id.to_string());
    let names_one = failures < MAX_REFUSALS && wants.iter().any(is_named);
    let is_left = |id: &ObjectId| advertised.contains(id) || names_one && !is_named(id);
    wants.iter().copied().filter(is_left).collect()
}

/// What a cycle found for each wanted ref.
type Outcome = HashMap<Reference, Result<(String, Tip), SourceError>>;

impl Mirror {
    /// One cycle.
    pub(super) async fn cycle(self: &Arc<Self>, number: u64) -> Result<(), SourceError> {
        let mut work = self.begin(number).await?;
        if work.wanted.is_empty() {
            return Ok(());
        }
        let outcome = match self.known_pins(&work) {
            Some(outcome) => outcome,
            None => self.ask(&mut work).await?,
        };
        self.commit(work, outcome).await
    }

    /// Opens the copy on disk, or makes one.
    async fn begin(self: &Arc<Self>, number: u64) -> Result<Work, SourceError> {
        let mirror = Arc::clone(self);
        blocking(move || mirror.open(number)).await
    }

    fn open(&self, number: u64) -> Result<Work, SourceError> {
        let (wanted, known, rebuild, evicted, suspects) = {
            let mut state = self.lock();
            let known = state
                .store
                .clone()
                .map(|s| (s, state.tips.clone(), state.shallow.clone()));
            let evicted = state.evicted.then(|| state.tips.clone());
            let suspects = state.missing_commits();
            (state.wanted(), known, state.rebuild, evicted, suspects)
        };
        let limit = self.object_limit();
        if rebuild {
            let store = Arc::new(self.create_beside(limit)?);
            return Ok(Work {
                number,
                wanted,
                store,
                tips: Refs::new(),
                shallow: BTreeSet::new(),
                is_new: true,
                is_evicted: false,
                suspects,
                missing: BTreeSet::new(),
            });
        }
        let (store, tips, shallow) = match known {
            Some(known) => known,
            None => self.load(limit)?,
        };
        let is_evicted = evicted.is_some();
        let tips = evicted.unwrap_or(tips);
        self.lock()
            .load(Arc::clone(&store), tips.clone(), shallow.clone());
        Ok(Work {
            number,
            wanted,
            store,
            tips,
            shallow,
            is_new: false,
            is_evicted,
            suspects,
            missing: BTreeSet::new(),
        })
    }

    fn object_limit(&self) -> u64 {
        self.context.options.limits.object_bytes as u64
    }

    /// What is on disk, if it is whole; else an empty copy in its place.
    fn load(&self, limit: u64) -> Result<(Arc<Store>, Refs, BTreeSet<ObjectId>), SourceError> {
        let opened = Store::open(&self.directory, limit)
            .and_then(|store| Ok((store.refs()?, store.shallow()?, store)));
        if let Ok((refs, shallow, store)) = opened {
            return Ok((Arc::new(store), refs, shallow));
        }
        remove(&self.directory)?;
        let store = Store::create(&self.directory, limit)?;
        Ok((Arc::new(store), Refs::new(), BTreeSet::new()))
    }

    fn create_beside(&self, limit: u64) -> Result<Store, SourceError> {
        let beside = self.directory.with_extension("new");
        remove(&beside)?;
        Ok(Store::create(&beside, limit)?)
    }

    /// When only commits are wanted and all are here, nothing can have changed: no request.
    fn known_pins(&self, work: &Work) -> Option<Outcome> {
        let mut reader = work.store.reader();
        let mut outcome = Outcome::new();
        for reference in &work.wanted {
            let Reference::Commit(id) = reference else {
                return None;
            };
            let tip = work.tips.get(&Reference::pin(*id))?;
            reader.tree_of(tip.commit).ok()?;
            outcome.insert(reference.clone(), Ok((Reference::pin(*id), *tip)));
        }
        Some(outcome)
    }

    /// Asks the remote, and downloads what is missing.
    async fn ask(&self, work: &mut Work) -> Result<Outcome, SourceError> {
        let Context {
            options,
            secrets,
            clients,
            ..
        } = &*self.context;
        let credentials = Credentials::resolve(
            &self.url,
            self.secret.as_ref(),
            &**secrets,
            &options.daemon_credentials,
        )
        .await?;
        let connect = || Remote::new(&self.url, &credentials, options, clients, &self.memory);
        let mut remote = connect()?;
        let listing = {
            let _permit = self.context.polls.acquire().await;
            remote.list(&wanted_refs(work)).await?
        };
        let mut resolved = HashMap::new();
        let mut open = Vec::new();
        for reference in &work.wanted {
            match reference.resolve(&listing) {
                Some(found) => {
                    resolved.insert(reference.clone(), found);
                }
                None => open.push(reference.clone()),
            }
        }
        let wants = self.missing(work, &resolved, &listing);
        if !wants.is_empty() {
            self.download_wants(&connect, remote, work, wants, &listing)
                .await?;
        }
        if open
            .iter()
            .any(|reference| matches!(reference, Reference::Short(_)))
            && !open.iter().all(|reference| work.knows_short(reference))
        {
            self.download_history(&connect, work).await?;
        }
        Ok(work.outcome(resolved, open, listing.is_empty))
    }

    /// The ids to ask for: those that are not here.
    fn missing(
        &self,
        work: &Work,
        resolved: &HashMap<Reference, Resolved>,
        listing: &Listing,
    ) -> Vec<ObjectId> {
        let mut wants = BTreeSet::new();
        for found in resolved.values() {
            if work.is_given_up(found) {
                continue;
            }
            if !work.store.contains(found.id) {
                wants.insert(found.id);
            }
            // A tag whose object is here and whose commit is not: half of an older download.
            let peeled = listing
                .refs
                .iter()
                .find(|r| r.id == found.id)
                .and_then(|r| r.peeled);
            if peeled.is_some_and(|peeled| !work.store.contains(peeled)) {
                wants.insert(found.id);
            }
        }
        wants.into_iter().collect()
    }

    /// Downloads `wants` one commit deep; for a server that gives no commit by its id, all of its history. A commit
    /// that the remote does not have is noted as missing, and holds up nothing else.
    async fn download_wants<'c>(
        &self,
        connect: &impl Fn() -> Result<Remote<'c>, SourceError>,
        mut remote: Remote<'c>,
        work: &mut Work,
        wants: Vec<ObjectId>,
        listing: &Listing,
    ) -> Result<(), SourceError> {
        let (advertised, pinned): (Vec<_>, Vec<_>) =
            wants.into_iter().partition(|id| listing.shows(*id));
        if !pinned.is_empty() && !gives_any_commit(&listing.capabilities) {
            let tips: BTreeSet<_> = listing.tips.iter().copied().collect();
            self.download(&mut remote, work, tips.into_iter().collect(), Some(ALL))
                .await?;
            let store = Arc::clone(&work.store);
            work.missing
                .extend(pinned.into_iter().filter(|id| !store.contains(*id)));
            return Ok(());
        }
        // Those that were missing the last time go last and by themselves.
        let (suspects, pinned): (Vec<_>, Vec<_>) = pinned
            .into_iter()
            .partition(|id| work.suspects.contains(id));
        let mut rounds = vec![suspects, [advertised.clone(), pinned].concat()];
        let mut failures = 0;
        while let Some(wants) = rounds.pop() {
            if wants.is_empty() {
                continue;
            }
            if remote.is_spent() {
                remote = connect()?;
                remote.list(&wanted_refs(work)).await?;
            }
            let error = match self
                .download(&mut remote, work, wants.clone(), Some(1))
                .await
            {
                Err(error) if error.reason() == Reason::RefNotFound => error,
                result => {
                    result?;
                    continue;
                }
            };
            failures += 1;
            let left = without_missing(&wants, &advertised, &error, failures);
            if left.len() == wants.len() {
                // A forced push between the listing and this request.
                let text = format!("the refs moved while they were fetched: {error}");
                return Err(SourceError::new(Reason::Unreachable, text));
            }
            work.missing
                .extend(wants.into_iter().filter(|id| !left.contains(id)));
            rounds.push(left);
        }
        Ok(())
    }

    /// Downloads the history of every branch and tag, to find a commit by the start of its id.
    async fn download_history<'c>(
        &self,
        connect: &impl Fn() -> Result<Remote<'c>, SourceError>,
        work: &mut Work,
    ) -> Result<(), SourceError> {
        let mut remote = connect()?;
        let listing = remote.list(&RefFilter::branches()).await?;
        let wants: BTreeSet<ObjectId> = listing.tips.into_iter().collect();
        self.download(&mut remote, work, wants.into_iter().collect(), Some(ALL))
            .await
    }

    async fn download(
        &self,
        remote: &mut Remote<'_>,
        work: &mut Work,
        wants: Vec<ObjectId>,
        depth: Option<u32>,
    ) -> Result<(), SourceError> {
        let Context {
            options, downloads, ..
        } = &*self.context;
        let _permit = downloads.acquire().await;
        let _place = self.place_for_a_while().await;
        let haves: BTreeSet<ObjectId> = work
            .tips
            .values()
            .map(|tip| tip.commit)
            .filter(|commit| work.store.contains(*commit))
            .take(MAX_HAVES)
            .collect();
        let request = FetchRequest {
            wants,
            shallow: work.shallow.iter().copied().collect(),
            haves: haves.into_iter().collect(),
            depth,
        };
        let thin = !request.haves.is_empty();
        let mut incoming = remote.fetch(&request, options.limits.pack_bytes).await?;
        // Before the pack: a commit that is here and not known to lack its parents would be taken for complete by the
        // next download. One that is known and not here harms nothing.
        let known = work.shallow.len();
        work.shallow.extend(&incoming.shallow.shallow);
        if work.shallow.len() > known {
            work.store.save_shallow(&work.shallow)?;
        }
        pack::receive(&work.store, &mut incoming.pack, &options.limits, thin).await?;
        let known = work.shallow.len();
        for id in &incoming.shallow.unshallow {
            work.shallow.remove(id);
        }
        // Saving costs a write to the disk itself, which a push waits for.
        if work.shallow.len() < known {
            work.store.save_shallow(&work.shallow)?;
        }
        Ok(())
    }

    /// Waits for a place among the downloads that just began, and holds it for half the time in which a remote must
    /// make progress: a few that send as slowly as they may must not keep all others waiting.
    async fn place_for_a_while(&self) -> Option<AbortOnDrop> {
        let place = Arc::clone(&self.context.fetches)
            .acquire_owned()
            .await
            .ok()?;
        let held = self.context.options.timeout / 2;
        let holder = tokio::spawn(async move {
            tokio::time::sleep(held).await;
            drop(place);
        });
        Some(AbortOnDrop(holder.abort_handle()))
    }

    /// Saves what was found, makes it visible, and wakes the releases that it concerns.
    async fn commit(self: &Arc<Self>, work: Work, outcome: Outcome) -> Result<(), SourceError> {
        let mirror = Arc::clone(self);
        blocking(move || mirror.publish(work, outcome)).await
    }

    fn publish(&self, work: Work, outcome: Outcome) -> Result<(), SourceError> {
        let mut tips: Refs = outcome.values().flatten().cloned().collect();
        // A branch that is gone keeps its last commit as long as someone asks for it: what runs can still be read.
        for reference in outcome
            .iter()
            .filter(|(_, found)| found.is_err())
            .map(|(r, _)| r)
        {
            let known = work.find_tip(reference);
            tips.extend(known.map(|(name, tip)| (name.clone(), *tip)));
        }
        let is_new = tips != work.tips;
        if is_new {
            work.store.save_refs(&tips)?;
        }
        let store = if work.is_new {
            self.replace(work.store)?
        } else {
            work.store
        };
        let packs = store.measure();
        let is_whole = tips.values().all(|tip| store.contains(tip.commit));
        let number = work.number;
        {
            let mut state = self.lock();
            state.rebuild = packs > self.context.options.limits.packs;
            let was_damaged = state.damaged;
            state.note_news(is_new || was_damaged);
            state.damaged = false;
            // Whoever reads the new tips must not be told that the remote does not answer.
            state.error = None;
            state.evicted &= work.is_evicted && !is_whole;
            state.store = Some(Arc::clone(&store));
            state.tips = tips;
            state.shallow = work.shallow;
            for (reference, found) in &outcome {
                let known = state.refs.entry(reference.clone()).or_default();
                known.checked = number;
                known.error = found.as_ref().err().cloned();
                if let Ok((_, tip)) = found {
                    known.commit = Some(tip.commit);
                }
            }
        }
        self.wake_moved(&store)
    }

    /// Puts the new copy in the place of the old one.
    fn replace(&self, new: Arc<Store>) -> Result<Arc<Store>, SourceError> {
        let old = self.directory.with_extension("old");
        remove(&old)?;
        if self.directory.exists() {
            std::fs::rename(&self.directory, &old).map_err(StoreError::from)?;
        }
        std::fs::rename(new.directory(), &self.directory).map_err(StoreError::from)?;
        drop(new);
        remove(&old)?;
        Ok(Arc::new(Store::open(&self.directory, self.object_limit())?))
    }

    /// Wakes each release whose chart has another content than it had when last looked at.
    fn wake_moved(&self, store: &Store) -> Result<(), SourceError> {
        let mut reader = store.reader();
        let targets = self.lock().unseen();
        let mut roots = HashMap::new();
        for target in &targets {
            if let Entry::Vacant(root) = roots.entry(target.commit)
                && store.contains(target.commit)
            {
                root.insert(reader.tree_of(target.commit)?);
            }
        }
        let limits = &self.context.options.limits;
        // What many releases use is looked at once.
        let mut looked: HashMap<(Arc<GitSource>, ObjectId), Arc<Footprint>> = HashMap::new();
        let mut tree = Tree::new(&mut reader, ObjectId::null(gix::hash::Kind::Sha1));
        for target in targets {
            let Some(root) = roots.get(&target.commit) else {
                continue;
            };
            tree.set_root(*root);
            let is_same = target
                .seen
                .as_ref()
                .is_some_and(|seen| seen.is_same_in(&mut tree));
            let footprint = match (is_same, target.seen) {
                (true, Some(seen)) => seen,
                _ => match looked.entry((Arc::clone(&target.source), target.commit)) {
                    Entry::Occupied(known) => Arc::clone(known.get()),
                    Entry::Vacant(entry) => {
                        let found = match chart::inspect(&mut tree, &target.source, limits) {
                            Ok(chart) => chart.footprint,
                            Err(_) => chart::minimal_footprint(&mut tree, &target.source),
                        };
                        Arc::clone(entry.insert(Arc::new(found)))
                    }
                },
            };
            let reason = self.lock().see(
                &target.release,
                target.index,
                target.commit,
                footprint,
                is_same,
            );
            if let Some(reason) = reason {
                self.context.changes.push(&target.release, reason);
            }
        }
        Ok(())
    }
}

/// A use whose ref stands at a commit that was not looked at yet.
pub(super) struct Target {
    pub(super) release: ReleaseKey,
    pub(super) index: usize,
    pub(super) source: Arc<GitSource>,
    pub(super) commit: ObjectId,
    pub(super) seen: Option<Arc<Footprint>>,
}

impl super::State {
    /// The uses to look at.
    fn unseen(&self) -> Vec<Target> {
        let mut targets = Vec::new();
        for (release, uses) in &self.uses {
            for (index, known) in uses.iter().enumerate() {
                let state = self
                    .refs
                    .get(&known.reference)
                    .filter(|state| state.error.is_none());
                let Some(commit) = state.and_then(|state| state.commit) else {
                    continue;
                };
                if known.seen.as_ref().is_some_and(|(seen, _)| *seen == commit) && !known.waiting {
                    continue;
                }
                targets.push(Target {
                    release: release.clone(),
                    index,
                    source: Arc::clone(&known.source),
                    commit,
                    seen: known
                        .seen
                        .as_ref()
                        .map(|(_, footprint)| Arc::clone(footprint)),
                });
            }
        }
        targets
    }

    /// Notes what a use is made of at `commit`; says what to tell its release.
    fn see(
        &mut self,
        release: &ReleaseKey,
        index: usize,
        commit: ObjectId,
        footprint: Arc<Footprint>,
        is_same: bool,
    ) -> Option<ChangeReason> {
        let known = self.uses.get_mut(release)?.get_mut(index)?;
        let was_waiting = std::mem::take(&mut known.waiting);
        let first = known.seen.is_none();
        known.seen = Some((commit, footprint));
        let revision = commit.to_string();
        if was_waiting {
            return Some(ChangeReason::Ready { revision });
        }
        // The first look is no move: a release that did not wait has asked for its chart itself, or will.
        (!first && !is_same).then_some(ChangeReason::Moved { revision })
    }
}

impl Work {
    /// Where each wanted ref stands; an error for those that the remote does not have.
    fn outcome(
        &self,
        resolved: HashMap<Reference, Resolved>,
        open: Vec<Reference>,
        is_empty: bool,
    ) -> Outcome {
        let mut reader = self.store.reader();
        let mut outcome = Outcome::new();
        for (reference, found) in resolved {
            if self.missing.contains(&found.id) {
                let error = reference.not_found(false);
                outcome.insert(reference, Err(error));
                continue;
            }
            if let Some(tip) = self
                .tips
                .get(&found.name)
                .filter(|_| self.is_given_up(&found))
            {
                outcome.insert(reference, Ok((found.name, *tip)));
                continue;
            }
            let tip = reader
                .peel(found.id)
                .and_then(|commit| reader.tree_of(commit).map(|_| commit))
                .map(|commit| {
                    (
                        found.name,
                        Tip {
                            id: found.id,
                            commit,
                        },
                    )
                });
            outcome.insert(reference, tip.map_err(SourceError::from));
        }
        for reference in open {
            let commit = match &reference {
                Reference::Short(digits) => reader.by_prefix(&digits.to_ascii_lowercase()),
                _ => None,
            };
            let found = commit
                .map(|commit| (Reference::pin(commit), Tip { id: commit, commit }))
                .ok_or_else(|| reference.not_found(is_empty));
            outcome.insert(reference, found);
        }
        outcome
    }

    /// True for a ref that has not moved since its objects were given up.
    fn is_given_up(&self, found: &Resolved) -> bool {
        self.is_evicted
            && self
                .tips
                .get(&found.name)
                .is_some_and(|tip| tip.id == found.id)
    }

    fn knows_short(&self, reference: &Reference) -> bool {
        match reference {
            Reference::Short(digits) => self
                .store
                .reader()
                .by_prefix(&digits.to_ascii_lowercase())
                .is_some(),
            _ => true,
        }
    }

    fn find_tip(&self, reference: &Reference) -> Option<(&String, &Tip)> {
        reference
            .candidates()
            .iter()
            .find_map(|name| self.tips.get_key_value(&Reference::mirror_name(name)))
    }
}

/// What to list.
fn wanted_refs(work: &Work) -> RefFilter {
    let names = work.wanted.iter().flat_map(Reference::candidates).collect();
    // An old server may give a commit only as a part of the whole history.
    let is_absent =
        |wanted: &Reference| matches!(wanted, Reference::Commit(id) if !work.store.contains(*id));
    let tips = if work.wanted.iter().any(is_absent) {
        Tips::OfOldServers
    } else {
        Tips::None
    };
    RefFilter { tips, names }
}

fn remove(directory: &Path) -> Result<(), SourceError> {
    match std::fs::remove_dir_all(directory) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(StoreError::from(error).into())
        }
        _ => Ok(()),
    }
}

/// Runs `work` where blocking is allowed; a panic in it is an error.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, SourceError> + Send + 'static,
) -> Result<T, SourceError> {
    tokio::task::spawn_blocking(work)
        .await
        .unwrap_or_else(|_| Err(panicked()))
}

pub(super) fn panicked() -> SourceError {
    SourceError::new(
        Reason::StorageFailed,
        "reading the repository ended in a panic; it is fetched anew",
    )
}
