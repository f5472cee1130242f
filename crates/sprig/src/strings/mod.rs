//! Strings: cutting, joining, case, layout.

mod case;
mod cut;
mod join;
mod layout;
mod words;
mod wrap;

use gotmpl::{Call, FunctionError, Functions};

pub(crate) use cut::{out_of_range, trim_space};

pub(crate) fn register(functions: &mut Functions) {
    cut::register(functions);
    case::register(functions);
    join::register(functions);
    layout::register(functions);
    wrap::register(functions);
    words::register(functions);
}

/// `strings.Repeat`, charged before it allocates.
pub(crate) fn repeat(
    call: &mut dyn Call,
    count: i64,
    text: &[u8],
) -> Result<Vec<u8>, FunctionError> {
    let Ok(count) = usize::try_from(count) else {
        return crate::arguments::fail("strings: negative Repeat count");
    };
    let Some(length) = count.checked_mul(text.len()) else {
        return crate::arguments::fail("strings: Repeat output length overflow");
    };
    crate::arguments::reserve(call, length)?;
    Ok(text.repeat(count))
}
