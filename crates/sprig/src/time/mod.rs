//! Times and durations as Go's `time` package has them.

mod civil;
mod duration;
mod format;
mod functions;
mod layout;
mod methods;
mod object;
mod parse;
mod quote;
mod zone;

pub(crate) use civil::{Time, wall_seconds};
pub(crate) use duration::{format_duration, parse_duration, round, truncate};
pub(crate) use functions::register;
pub(crate) use methods::in_units;
pub(crate) use object::{as_duration, as_time, duration_value, named_int, time_value};
pub(crate) use zone::Zone;
