//! Maps: building, looking up, merging.

mod basic;
mod copy;
mod merge;

use gotmpl::Functions;

pub(crate) fn register(functions: &mut Functions) {
    basic::register(functions);
    copy::register(functions);
    merge::register(functions);
}
