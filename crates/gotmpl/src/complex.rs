//! Complex numbers: template constants such as `1i`, which nothing but printing and `eq` accepts.

use std::any::Any;

use crate::value::Object;
use crate::{Str, Value, fmt};

/// A Go `complex128`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Complex {
    pub(crate) real: f64,
    pub(crate) imaginary: f64,
}

impl Object for Complex {
    fn go_type(&self) -> &'static str {
        "complex128"
    }

    fn display(&self) -> Str {
        let mut text = b"(".to_vec();
        // Two numbers have room.
        let _ = fmt::append_printf(
            &mut text,
            b"%g%+gi)",
            &[Value::Float64(self.real), Value::Float64(self.imaginary)],
            fmt::LIMIT,
        );
        text.into()
    }

    fn is_true(&self) -> bool {
        self.real != 0.0 || self.imaginary != 0.0
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
