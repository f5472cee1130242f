//! What one execution may use: the guard against templates that never end or never stop growing.

use std::time::{Duration, Instant};

use thiserror::Error;

/// The bounds of one execution. The defaults are far above what real charts need: the largest
/// public charts take a few million steps and print a few megabytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Nodes walked, commands evaluated and loop rounds begun.
    pub steps: u64,
    /// How deep `template`, `include` and `tpl` may be nested, all counted together, and a `tpl` as much as 200 of the
    /// others: it takes a parsed text, a stack and, when it fails, an error that quotes all below it. Go's bound for
    /// `template` alone is 100000, and its error text names that number.
    pub depth: u32,
    /// Bytes in the output buffers at any one moment.
    pub output: usize,
    /// Bytes of strings, lists and maps made over the whole execution. What has been freed again
    /// still counts.
    pub memory: usize,
    /// From the making of the budget on. Unlike the other bounds it depends on the machine, so there is none by default:
    /// it is for who must go on with other work, whatever a template asks for. It is looked at every 64 steps.
    pub time: Option<Duration>,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            steps: 500_000_000,
            depth: 100_000,
            output: 128 << 20,
            memory: 512 << 20,
            time: None,
        }
    }
}

/// What is left for an execution. One budget may serve many executions one after the other, as the
/// files of a chart do, and is then shared by them.
#[derive(Clone, Debug)]
pub struct Budget {
    limits: Limits,
    steps: u64,
    memory: usize,
    end: Option<Instant>,
}

/// A bound of [`Limits`] that was reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Exceeded {
    /// Too many steps.
    #[error("the template takes more than {0} steps; make its loops and recursion smaller")]
    Steps(u64),
    /// Nested too deep.
    #[error("exceeded maximum template depth ({0})")]
    Depth(u32),
    /// Too much output.
    #[error("the template prints more than {0} bytes; make its output smaller")]
    Output(usize),
    /// Too much memory.
    #[error("the template allocates more than {0} bytes; make its values smaller")]
    Memory(usize),
    /// Too much time.
    #[error("the template takes longer than {0:?}; make its loops and its texts smaller")]
    Time(Duration),
}

impl Default for Budget {
    fn default() -> Self {
        Self::new(Limits::default())
    }
}

/// Bytes that a function takes at most while it writes one byte of what it is given: six for what it writes, such as
/// `\u003c` for `<`, and as much for the copy that it returns.
pub const GROWTH: usize = 12;

impl Budget {
    /// A full budget.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            steps: limits.steps,
            memory: limits.memory,
            end: limits
                .time
                .and_then(|time| Instant::now().checked_add(time)),
        }
    }

    /// The bounds.
    #[must_use]
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Steps taken so far.
    #[must_use]
    pub fn steps_taken(&self) -> u64 {
        self.limits.steps - self.steps
    }

    /// Bytes charged so far.
    #[must_use]
    pub fn memory_charged(&self) -> usize {
        self.limits.memory - self.memory
    }

    /// Takes one step.
    ///
    /// # Errors
    /// [`Exceeded::Steps`] if none is left, and [`Exceeded::Time`].
    #[inline]
    pub fn step(&mut self) -> Result<(), Exceeded> {
        if self.steps == 0 {
            return Err(Exceeded::Steps(self.limits.steps));
        }
        self.steps -= 1;
        if self.steps.is_multiple_of(64) {
            return self.check_time();
        }
        Ok(())
    }

    fn check_time(&self) -> Result<(), Exceeded> {
        match (self.end, self.limits.time) {
            (Some(end), Some(time)) if Instant::now() > end => Err(Exceeded::Time(time)),
            _ => Ok(()),
        }
    }

    /// Whether bytes that may be allocated could be charged; they are not.
    ///
    /// # Errors
    /// [`Exceeded::Memory`] if fewer are left.
    #[inline]
    pub fn foresee(&self, bytes: usize) -> Result<(), Exceeded> {
        if bytes > self.memory {
            return Err(Exceeded::Memory(self.limits.memory));
        }
        Ok(())
    }

    /// Charges bytes that are about to be allocated.
    ///
    /// # Errors
    /// [`Exceeded::Memory`] if fewer are left; then nothing is left.
    #[inline]
    pub fn charge(&mut self, bytes: usize) -> Result<(), Exceeded> {
        let left = self.memory.checked_sub(bytes);
        self.memory = left.unwrap_or(0);
        left.map(|_| ()).ok_or(Exceeded::Memory(self.limits.memory))
    }
}
