//! What functions take from outside: chance, time, zone and network, each of which a test replaces.

use std::net::ToSocketAddrs;
use std::sync::{Arc, OnceLock};

use jiff::Timestamp;
use jiff::tz::TimeZone;

/// A source of random bytes for `randAlphaNum`, `uuidv4`, `genPrivateKey`, `encryptAES`, …
pub trait Random: Send + Sync {
    /// Fills the buffer. The error says why there is no randomness.
    fn fill(&self, buffer: &mut [u8]) -> Result<(), String>;
}

/// The clock that `now`, `ago` and the validity of certificates read.
pub trait Clock: Send + Sync {
    /// The current time.
    fn now(&self) -> Timestamp;
}

/// The network that `getHostByName` asks.
pub trait Network: Send + Sync {
    /// The addresses of a host; empty when it has none or cannot be resolved.
    fn addresses(&self, host: &str) -> Vec<String>;
}

/// Makes the private keys of `genPrivateKey`, `genCA` and their like.
pub trait KeyGenerator: Send + Sync {
    /// A new RSA key of 2048 or 4096 bits as PKCS#8 DER.
    fn rsa(&self, bits: usize) -> Result<Vec<u8>, String>;

    /// A new ECDSA key on P-256 as PKCS#8 DER.
    fn ecdsa(&self) -> Result<Vec<u8>, String>;
}

/// What the functions reach outside of their arguments. Cheap to clone.
///
/// ```
/// let environment = sprig::Environment { network: None, ..sprig::Environment::default() };
/// assert!(sprig::functions(&environment).get("include").is_some());
/// ```
#[derive(Clone)]
pub struct Environment {
    /// Random bytes; by default those of the operating system.
    pub random: Arc<dyn Random>,
    /// The time; by default the system's.
    pub clock: Arc<dyn Clock>,
    /// Go's `time.Local`: the zone of `date`, `htmlDate`, `toDate` and `now`; by default the
    /// system's.
    pub time_zone: LocalZone,
    /// The network for `getHostByName`. `None`, the default, is Helm without `--enable-dns`: the
    /// function returns an empty string.
    pub network: Option<Arc<dyn Network>>,
    /// Key generation; by default that of the crypto library.
    pub keys: Arc<dyn KeyGenerator>,
}

impl Default for Environment {
    fn default() -> Self {
        Self {
            random: Arc::new(SystemSource),
            clock: Arc::new(SystemSource),
            time_zone: LocalZone::default(),
            network: None,
            keys: Arc::new(crate::crypto::SystemKeys),
        }
    }
}

/// Go's `time.Local`. The system's zone is looked up when it is first needed, since that reads many
/// directories.
#[derive(Clone, Debug, Default)]
pub struct LocalZone(Arc<OnceLock<TimeZone>>);

impl LocalZone {
    /// The zone.
    #[must_use]
    pub fn get(&self) -> &TimeZone {
        self.0.get_or_init(TimeZone::system)
    }
}

impl From<TimeZone> for LocalZone {
    fn from(zone: TimeZone) -> Self {
        Self(Arc::new(OnceLock::from(zone)))
    }
}

/// The operating system's random generator, clock and resolver.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemSource;

impl Random for SystemSource {
    fn fill(&self, buffer: &mut [u8]) -> Result<(), String> {
        // Not the crypto library's generator: that takes 15 ms to start, and is seeded from here.
        getrandom::fill(buffer)
            .map_err(|error| format!("the operating system gave no random bytes: {error}"))
    }
}

impl Clock for SystemSource {
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }
}

impl Network for SystemSource {
    fn addresses(&self, host: &str) -> Vec<String> {
        (host, 0)
            .to_socket_addrs()
            .map(|found| found.map(|address| address.ip().to_string()).collect())
            .unwrap_or_default()
    }
}
