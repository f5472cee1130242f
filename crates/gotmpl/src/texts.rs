//! Texts that `tpl` has parsed, kept for the next time.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use foldhash::fast::RandomState;

use crate::tree::Template;
use crate::{ParseError, Str};

/// How many bytes of text are kept.
const MOST_BYTES: usize = 4 << 20;
/// A text larger than that is not kept.
const LARGEST: usize = 64 << 10;

/// What a text defines, itself among it.
type Parsed = Arc<[Arc<Template>]>;

/// A bounded store. When it is full, it starts anew.
#[derive(Default)]
pub(crate) struct Texts(Mutex<Store>);

#[derive(Default)]
struct Store {
    parsed: HashMap<Str, Parsed, RandomState>,
    bytes: usize,
}

impl Texts {
    /// What is kept for this text, or what parsing it gives.
    pub(crate) fn get_or_parse(
        &self,
        text: &Str,
        parse: impl FnOnce() -> Result<Vec<Arc<Template>>, ParseError>,
    ) -> Result<Parsed, ParseError> {
        if let Some(parsed) = self.lock().parsed.get(text) {
            return Ok(Arc::clone(parsed));
        }
        let parsed: Parsed = parse()?.into();
        if text.len() <= LARGEST {
            self.lock().keep(text, &parsed);
        }
        Ok(parsed)
    }

    /// Whether parsing this text costs nothing.
    pub(crate) fn has(&self, text: &Str) -> bool {
        self.lock().parsed.contains_key(text)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Store> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Store {
    fn keep(&mut self, text: &Str, parsed: &Parsed) {
        // Trees take several times the bytes of their text, and something for each.
        let bytes = text.len() + 256;
        if self.bytes + bytes > MOST_BYTES {
            *self = Self::default();
        }
        self.bytes += bytes;
        self.parsed.insert(text.clone(), Arc::clone(parsed));
    }
}

impl fmt::Debug for Texts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Texts({})", self.lock().parsed.len())
    }
}
