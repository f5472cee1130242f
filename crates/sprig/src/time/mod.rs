//! Times and durations.

/// The number of an object that is a named `int` in Go: a month or a weekday.
pub(crate) fn named_int(object: &dyn gotmpl::Object) -> Option<i64> {
    let _ = object;
    None
}
