//! Walking nested values without running out of stack.

use gotmpl::FunctionError;

/// How deep values may be nested for functions that walk them. Documents are far flatter; deeper
/// ones are built by templates that mean harm, or are maps that contain themselves.
pub(crate) const DEPTH_LIMIT: usize = 1_000;

/// Less stack than this left, and it grows.
const RED_ZONE: usize = 128 << 10;

/// By how much.
const SEGMENT: usize = 2 << 20;

/// Goes one level down: an error if that is too deep, else on a stack that has room.
pub(crate) fn descend<T, E: From<FunctionError>>(
    depth: usize,
    walk: impl FnOnce(usize) -> Result<T, E>,
) -> Result<T, E> {
    match depth.checked_sub(1) {
        Some(depth) => stacker::maybe_grow(RED_ZONE, SEGMENT, || walk(depth)),
        None => Err(FunctionError(format!(
            "the value is nested more than {DEPTH_LIMIT} levels deep, or contains itself"
        ))
        .into()),
    }
}
