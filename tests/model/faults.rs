//! What goes wrong, and when.

use helm_kube::Call;

/// What goes wrong at a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The client dies before it is sent.
    CrashBefore,
    /// The client dies after it was done.
    CrashAfter,
    /// The connection breaks before it is sent.
    Reset,
    /// It is done, and the answer is lost.
    LostAnswer,
    /// It is done, the answer is lost, and it is sent again.
    Repeated,
    /// 503, not done.
    Unavailable,
    /// 500, not done.
    Internal,
    /// 504, and done.
    TimeoutAfter,
    /// 429, not done.
    Throttled,
    /// 409, not done.
    Conflict,
    /// 403, not done.
    Forbidden,
    /// 422, not done.
    Invalid,
}

impl Fault {
    pub(crate) const ALL: [Self; 12] = [
        Self::CrashBefore,
        Self::CrashAfter,
        Self::Reset,
        Self::LostAnswer,
        Self::Repeated,
        Self::Unavailable,
        Self::Internal,
        Self::TimeoutAfter,
        Self::Throttled,
        Self::Conflict,
        Self::Forbidden,
        Self::Invalid,
    ];

    /// Whether the API server says that the request itself is at fault: only then may an action
    /// end as failed.
    pub(crate) fn is_refusal(self) -> bool {
        matches!(self, Self::Conflict | Self::Forbidden | Self::Invalid)
    }

    pub(crate) fn is_crash(self) -> bool {
        matches!(self, Self::CrashBefore | Self::CrashAfter)
    }
}

/// The requests of one sync that go wrong.
#[derive(Clone, Debug)]
pub(crate) enum Faults {
    /// Those with these numbers, from 1.
    At(Vec<(usize, Fault)>),
    /// All that a word of their verb and path names, for ever.
    Always(&'static str, Fault),
}

impl Faults {
    pub(crate) const NONE: Self = Self::At(Vec::new());

    pub(crate) fn one(at: usize, fault: Fault) -> Self {
        Self::At(vec![(at, fault)])
    }

    pub(crate) fn of(&self, number: usize, call: &str) -> Option<Fault> {
        match self {
            Self::At(list) => {
                let found = list.iter().find(|(at, _)| *at == number);
                found.map(|(_, fault)| *fault)
            }
            Self::Always(word, fault) => call.contains(word).then_some(*fault),
        }
    }
}

/// Such as `Patch /api/v1/namespaces/shop/configmaps/same`.
pub(crate) fn describe(call: &Call) -> String {
    format!("{:?} {}", call.verb, call.uri)
}
