//! What an action has done.

use helm_engine::{HookEvent, HookPhase, Release};

use crate::object::ObjectKey;

/// The result of an action that came to its end.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// The record as it was written last.
    pub release: Release,
    /// What was done on the way.
    pub report: Report,
}

/// What an action did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// What became of each object, in the order of the work.
    pub changes: Vec<Change>,
    /// The hooks and tests that were run, in the order of their start.
    pub hooks: Vec<HookRun>,
    /// What a person may want to know.
    pub warnings: Vec<String>,
}

/// What became of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The object.
    pub object: ObjectKey,
    /// What became of it.
    pub kind: ChangeKind,
}

/// What became of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ChangeKind {
    /// It is new.
    Created,
    /// It was applied over what was there.
    Applied,
    /// It was there before and belongs to the release now.
    Adopted,
    /// It was deleted and made anew, because of an immutable field.
    Recreated,
    /// It was deleted.
    Deleted,
    /// It was left in the cluster because of its resource policy.
    Kept,
    /// It was left in the cluster because it belongs to something else.
    NotOwned,
}

/// One run of a hook or a test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HookRun {
    /// The object's name.
    pub name: String,
    /// The object's kind.
    pub kind: String,
    /// The template.
    pub path: String,
    /// The event.
    pub event: HookEvent,
    /// How it ended.
    pub phase: HookPhase,
    /// The logs of its Pods, where they were asked for or it failed.
    pub logs: Vec<PodLog>,
}

/// The log of a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodLog {
    /// The Pod.
    pub pod: String,
    /// The container.
    pub container: String,
    /// The end of the log; what could not be read is said in its place.
    pub text: String,
}
