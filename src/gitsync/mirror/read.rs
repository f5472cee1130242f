//! Answering for a chart from the mirror.

use std::sync::Arc;

use gix::{ObjectId, objs::Kind};
use tokio::time::{Instant, timeout_at};

use super::{Mirror, cloning, cycle::blocking};
use crate::gitsync::{
    GitSource, Reason, SourceError,
    chart::{self, Read},
    credentials::secret_error,
    reference::Reference,
    signature::Signers,
    store::Store,
};

impl Mirror {
    /// The chart of `source` at the newest commit that the mirror knows.
    pub(crate) async fn artifact(
        self: &Arc<Self>,
        source: &GitSource,
        reference: &Reference,
    ) -> Result<Read, SourceError> {
        let deadline = Instant::now() + self.context.options.fetch_grace;
        let result = self.try_artifact(source, reference, deadline).await;
        let result = match result {
            // The copy is damaged: it is fetched anew, and if that is quick, answered from.
            Err(error) if error.reason() == Reason::StorageFailed => {
                self.mark_damaged(reference);
                self.try_artifact(source, reference, deadline).await
            }
            result => result,
        };
        if let Err(error) = &result {
            self.note_waiting(source, error);
        }
        result
    }

    async fn try_artifact(
        self: &Arc<Self>,
        source: &GitSource,
        reference: &Reference,
        deadline: Instant,
    ) -> Result<Read, SourceError> {
        let (store, commit) = self.ready(reference, deadline).await?;
        let signers = self.signers(source).await?;
        let mirror = Arc::clone(self);
        let source = source.clone();
        blocking(move || {
            if let Some(signers) = signers {
                signers.check(commit, store.reader().read(commit, Kind::Commit)?)?;
            }
            mirror.read(&store, commit, &source)
        })
        .await
    }

    /// The keys that the commit must be signed by, read now.
    async fn signers(&self, source: &GitSource) -> Result<Option<Signers>, SourceError> {
        let Some(secret) = &source.verify else {
            return Ok(None);
        };
        let data = self
            .context
            .secrets
            .read(secret)
            .await
            .map_err(secret_error)?;
        Signers::read(&data, secret).map(Some)
    }

    fn read(
        &self,
        store: &Store,
        commit: ObjectId,
        source: &GitSource,
    ) -> Result<Read, SourceError> {
        let context = &self.context;
        if let Some(known) = context.artifacts.get(&self.key, commit, source) {
            return Ok(Read {
                artifact: known,
                submodules: Vec::new(),
            });
        }
        let limits = &context.options.limits;
        let found = chart::read(&mut store.reader(), commit, source, limits)?;
        if found.submodules.is_empty() {
            context
                .artifacts
                .put(&self.key, commit, source, &found.artifact);
        }
        Ok(found)
    }

    /// The copy on disk and the commit of `reference`, as soon as the remote was asked about it.
    async fn ready(
        &self,
        reference: &Reference,
        deadline: Instant,
    ) -> Result<(Arc<Store>, ObjectId), SourceError> {
        let mut finished = self.finished.subscribe();
        if self.lock().note_interest(reference, Instant::now()) {
            self.poke();
        }
        loop {
            let last = *finished.borrow_and_update();
            if let Some(answer) = self.answer(reference, last) {
                return answer;
            }
            if timeout_at(deadline, finished.changed()).await.is_err() {
                return Err(cloning(&self.url));
            }
        }
    }

    /// What is known of `reference` after cycle `last`; `None` while a cycle that must answer has not ended.
    fn answer(
        &self,
        reference: &Reference,
        last: u64,
    ) -> Option<Result<(Arc<Store>, ObjectId), SourceError>> {
        let state = self.lock();
        let known = state.refs.get(reference)?;
        let store = state.store.clone().filter(|_| !state.damaged);
        let at = store.zip(known.commit);
        if known.is_fresh() {
            if let Some(error) = &known.error {
                return Some(Err(error.clone()));
            }
            if let Some(at) = at {
                return Some(Ok(at));
            }
        }
        if last < known.required.max(1) {
            return None;
        }
        // The remote was asked and failed. What it said before still holds; a new ref has nothing to fall back on.
        let error = state.error.clone().unwrap_or_else(|| cloning(&self.url));
        Some(at.filter(|_| error.is_transient()).ok_or(error))
    }

    /// Has the copy on disk fetched anew.
    fn mark_damaged(&self, reference: &Reference) {
        let mut state = self.lock();
        state.rebuild = true;
        state.damaged = true;
        state.demand(reference);
        drop(state);
        self.poke();
    }

    /// Notes that the releases of `source` were told to wait.
    fn note_waiting(&self, source: &GitSource, error: &SourceError) {
        let mut state = self.lock();
        for known in state.uses.values_mut().flatten() {
            if *known.source == *source {
                known.waiting = matches!(error.reason(), Reason::Cloning | Reason::StorageFailed);
            }
        }
    }
}
