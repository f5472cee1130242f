//! The native stack.

/// Less than this left, and the stack grows: more than what functions and the walk from one check
/// to the next take.
const RED_ZONE: usize = 256 << 10;
/// By how much.
const SEGMENT: usize = 4 << 20;

/// Runs on a stack that has room. Templates recurse as deep as their authors like: a thousand
/// levels of `include` are an ordinary error, which has to be reached first.
#[inline]
pub(crate) fn grow<R>(run: impl FnOnce() -> R) -> R {
    stacker::maybe_grow(RED_ZONE, SEGMENT, run)
}
