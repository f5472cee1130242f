//! `until`, `untilStep`, `seq`.

use gotmpl::{Call, FunctionError, Functions, List, Type, Value};

use crate::arguments::{define, define_variadic, int};

pub(super) fn register(functions: &mut Functions) {
    define(functions, "until", &[Type::Int], |call, a| {
        let stop = int(a, 0)?;
        ints(call, Steps::new(0, stop, if stop < 0 { -1 } else { 1 }))
    });
    define(
        functions,
        "untilStep",
        &[Type::Int, Type::Int, Type::Int],
        |call, a| ints(call, Steps::new(int(a, 0)?, int(a, 1)?, int(a, 2)?)),
    );
    define_variadic(functions, "seq", &[], Type::Int, |call, a| {
        let numbers = (0..a.len())
            .map(|index| int(a, index))
            .collect::<Result<Vec<_>, _>>()?;
        let steps = match numbers[..] {
            [end] if end < 1 => Steps::new(1, end.wrapping_sub(1), -1),
            [end] => Steps::new(1, end.wrapping_add(1), 1),
            [start, end] if end < start => Steps::new(start, end.wrapping_sub(1), -1),
            [start, end] => Steps::new(start, end.wrapping_add(1), 1),
            [start, step, end] if end < start && step > 0 => Steps::new(start, start, step),
            [start, step, end] if end < start => Steps::new(start, end.wrapping_sub(1), step),
            [start, step, end] => Steps::new(start, end.wrapping_add(1), step),
            _ => Steps::new(0, 0, 1),
        };
        text(call, steps)
    });
}

/// Numbers from a start up or down to a stop that is not one of them.
#[derive(Clone, Copy)]
struct Steps {
    next: i64,
    step: i64,
    left: u64,
}

impl Steps {
    fn new(start: i64, stop: i64, step: i64) -> Self {
        let distance = start.abs_diff(stop);
        let left = match (stop < start, step) {
            (true, ..0) | (false, 1..) => distance.div_ceil(step.unsigned_abs()),
            _ => 0,
        };
        Self {
            next: start,
            step,
            left,
        }
    }

    fn count(self) -> usize {
        usize::try_from(self.left).unwrap_or(usize::MAX)
    }
}

impl Iterator for Steps {
    type Item = i64;
    fn next(&mut self) -> Option<i64> {
        self.left = self.left.checked_sub(1)?;
        let current = self.next;
        self.next = current.wrapping_add(self.step);
        Some(current)
    }
}

fn ints(call: &mut dyn Call, steps: Steps) -> Result<Value, FunctionError> {
    call.charge(steps.count().saturating_mul(size_of::<Value>()))?;
    let numbers = steps.map(Value::Int).collect();
    Ok(Value::List(List::typed(Type::Int, numbers)))
}

fn text(call: &mut dyn Call, steps: Steps) -> Result<Value, FunctionError> {
    call.charge(steps.count().saturating_mul(20))?;
    let mut printed = Vec::new();
    for number in steps {
        if !printed.is_empty() {
            printed.push(b' ');
        }
        printed.extend_from_slice(number.to_string().as_bytes());
    }
    Ok(Value::string(printed))
}
