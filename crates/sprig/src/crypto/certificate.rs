//! `genCA`, `genSelfSignedCert`, `genSignedCert`, `buildCustomCert`.

use std::cell::LazyCell;
use std::net::IpAddr;
use std::rc::Rc;

use gotmpl::{Call, FunctionError, Functions, List, Map, Object, Str, Type, Value};

use super::keys::PrivateKey;
use super::sign::{Signer, Template, check_certificate, sign};
use super::{cost, pem};
use crate::Environment;
use crate::arguments::{Returned, any, define, fail, int, list, string, text};
use crate::encoding::decode_base64;
use crate::text::display;

const CERTIFICATE: Type = Type::Named("sprig.certificate");
const LIST: Type = Type::List(&Type::Any);

pub(super) fn register(functions: &mut Functions, environment: &Environment) {
    define(
        functions,
        "buildCustomCert",
        &[Type::String, Type::String],
        |_, a| build_custom(string(a, 0)?, string(a, 1)?),
    );
    let makers: [(&'static str, &'static [Type], Maker); 6] = [
        ("genCA", &[Type::String, Type::Int], authority),
        (
            "genCAWithKey",
            &[Type::String, Type::Int, Type::String],
            authority,
        ),
        (
            "genSelfSignedCert",
            &[Type::String, LIST, LIST, Type::Int],
            self_signed,
        ),
        (
            "genSelfSignedCertWithKey",
            &[Type::String, LIST, LIST, Type::Int, Type::String],
            self_signed,
        ),
        (
            "genSignedCert",
            &[Type::String, LIST, LIST, Type::Int, CERTIFICATE],
            signed,
        ),
        (
            "genSignedCertWithKey",
            &[
                Type::String,
                LIST,
                LIST,
                Type::Int,
                CERTIFICATE,
                Type::String,
            ],
            signed,
        ),
    ];
    for (name, parameters, make) in makers {
        let environment = environment.clone();
        define(
            functions,
            name,
            parameters,
            move |call: &mut dyn Call, a| {
                call.charge(cost::RSA_2048)?;
                make(&environment, a)
            },
        );
    }
}

type Maker = fn(&Environment, &[Value]) -> Returned;

/// The key that the last argument gives, if it has one.
fn given_key(arguments: &[Value], index: usize) -> Result<Option<PrivateKey>, FunctionError> {
    let Some(Value::String(given)) = arguments.get(index) else {
        return Ok(None);
    };
    let key =
        PrivateKey::from_pem(given).map_err(|error| format!("parsing private key: {error}"))?;
    Ok(Some(key))
}

fn new_key(environment: &Environment) -> Result<PrivateKey, String> {
    let key = environment.keys.rsa(2048).and_then(PrivateKey::from_pkcs8);
    key.map_err(|error| format!("error generating rsa key: {error}"))
}

fn authority(environment: &Environment, arguments: &[Value]) -> Returned {
    let key = given_key(arguments, 2)?;
    let name = text(arguments, 0)?;
    let mut template = template(environment, &name, None, None, int(arguments, 1)?)?;
    template.authority = true;
    made(environment, template, key, Issuer::Itself)
}

fn self_signed(environment: &Environment, arguments: &[Value]) -> Returned {
    let key = given_key(arguments, 4)?;
    let name = text(arguments, 0)?;
    let (addresses, names) = (list(arguments, 1)?, list(arguments, 2)?);
    let template = template(environment, &name, addresses, names, int(arguments, 3)?)?;
    made(environment, template, key, Issuer::Itself)
}

fn signed(environment: &Environment, arguments: &[Value]) -> Returned {
    let key = given_key(arguments, 5)?;
    let issuer = issuer(any(arguments, 4))?;
    let name = text(arguments, 0)?;
    let (addresses, names) = (list(arguments, 1)?, list(arguments, 2)?);
    let template = template(environment, &name, addresses, names, int(arguments, 3)?)?;
    made(environment, template, key, issuer)
}

/// Who is to sign.
enum Issuer {
    Itself,
    /// An authority of our own making, which may not be made yet.
    Own(Rc<dyn Object>),
    /// One that came with the chart, or with its key.
    Given {
        certificate: Vec<u8>,
        key: PrivateKey,
    },
}

fn issuer(value: &Value) -> Result<Issuer, FunctionError> {
    let (Value::Object(object), Some(authority)) = (value, as_certificate(value)) else {
        return fail("wrong type for value; expected sprig.certificate");
    };
    if authority.is_own {
        return Ok(Issuer::Own(Rc::clone(object)));
    }
    Ok(read_issuer(authority.texts()?)?)
}

fn read_issuer(authority: &Texts) -> Result<Issuer, String> {
    let block = pem::decode(&authority.cert).ok_or("unable to decode certificate")?;
    check_certificate(&block.bytes)
        .map_err(|error| format!("error parsing certificate: decodedSignerCert.Bytes: {error}"))?;
    let key = PrivateKey::from_pem(&authority.key)
        .map_err(|error| format!("error parsing private key: {error}"))?;
    let certificate = block.bytes;
    Ok(Issuer::Given { certificate, key })
}

/// A certificate with this key; or with a new one, which is made when somebody looks at the certificate. Charts make
/// authorities above the condition that asks for them, and a key takes longer than all the rest of most charts.
fn made(
    environment: &Environment,
    template: Template,
    key: Option<PrivateKey>,
    issuer: Issuer,
) -> Returned {
    let certificate = match (key, issuer) {
        (None, issuer @ (Issuer::Itself | Issuer::Own(_))) => {
            // All that can be wrong with the arguments is found now.
            template.check()?;
            let environment = environment.clone();
            Certificate::later(move || Texts::signed(&template, &new_key(&environment)?, &issuer))
        }
        (key, issuer) => {
            let key = key.map_or_else(|| new_key(environment), Ok)?;
            Certificate::ready(Texts::signed(&template, &key, &issuer)?)
        }
    };
    Ok(Value::Object(Rc::new(certificate)))
}

fn template(
    environment: &Environment,
    common_name: &str,
    addresses: Option<&List>,
    names: Option<&List>,
    days: i64,
) -> Result<Template, FunctionError> {
    let addresses = addresses.map_or(Ok(Vec::new()), parse_addresses)?;
    let dns_names = names.map_or(Ok(Vec::new()), parse_names)?;
    let mut serial = [0; 16];
    environment.random.fill(&mut serial)?;
    let now = environment.clock.now().as_second();
    // Go multiplies nanoseconds, which wrap around.
    let validity = days.wrapping_mul(86_400_000_000_000) / 1_000_000_000;
    Ok(Template {
        common_name: common_name.to_owned(),
        addresses,
        dns_names,
        authority: false,
        serial,
        not_before: now,
        not_after: now.saturating_add(validity),
    })
}

fn parse_addresses(list: &List) -> Result<Vec<IpAddr>, FunctionError> {
    let parse = |item: &Value| match item {
        Value::String(address) => {
            let address = address.to_text();
            let parsed = address.parse();
            parsed.map_err(|_| FunctionError(format!("error parsing ip: {address}")))
        }
        other => fail(format!(
            "error parsing ip: {} is not a string",
            display(other)?.to_text()
        )),
    };
    list.items().iter().map(parse).collect()
}

fn parse_names(list: &List) -> Result<Vec<String>, FunctionError> {
    let parse = |item: &Value| match item {
        Value::String(name) => Ok(name.to_text().into_owned()),
        other => fail(format!(
            "error processing alternate dns name: {} is not a string",
            display(other)?.to_text()
        )),
    };
    list.items().iter().map(parse).collect()
}

/// A certificate and a key that the chart brings, checked.
fn build_custom(certificate: &[u8], key: &[u8]) -> Returned {
    let cert = decode_base64(certificate).map_err(|_| "unable to decode base64 certificate")?;
    let key = decode_base64(key).map_err(|_| "unable to decode base64 private key")?;
    let block = pem::decode(&cert).ok_or("unable to decode certificate")?;
    check_certificate(&block.bytes)
        .map_err(|error| format!("error parsing certificate: decodedCert.Bytes: {error}"))?;
    PrivateKey::from_pem(&key).map_err(|error| format!("error parsing private key: {error}"))?;
    Ok(Value::Object(Rc::new(Certificate::ready(Texts {
        cert: cert.into(),
        key: key.into(),
    }))))
}

fn as_certificate(value: &Value) -> Option<&Certificate> {
    match value {
        Value::Object(object) => object.as_any().downcast_ref(),
        _ => None,
    }
}

/// Both are PEM.
#[derive(PartialEq)]
struct Texts {
    cert: Str,
    key: Str,
}

impl Texts {
    fn signed(template: &Template, key: &PrivateKey, issuer: &Issuer) -> Result<Self, String> {
        let cert = match issuer {
            Issuer::Itself => sign(template, key, &Signer::Itself)?,
            Issuer::Given {
                certificate,
                key: authority,
            } => {
                let signer = Signer::Authority {
                    certificate,
                    key: authority,
                };
                sign(template, key, &signer)?
            }
            Issuer::Own(object) => {
                let authority = object.as_any().downcast_ref::<Certificate>();
                let texts = authority.ok_or("no certificate")?.texts()?;
                return Self::signed(template, key, &read_issuer(texts)?);
            }
        };
        Ok(Self {
            cert: cert.into(),
            key: key.to_pem().into(),
        })
    }

    fn under(&self, names: [&'static str; 2]) -> [(&'static str, Value); 2] {
        let [cert, key] = names;
        [
            (cert, Value::String(self.cert.clone())),
            (key, Value::String(self.key.clone())),
        ]
    }
}

type Make = Box<dyn FnOnce() -> Result<Texts, String>>;

/// Sprig's `certificate`.
struct Certificate {
    texts: LazyCell<Result<Texts, String>, Make>,
    /// Whether the key is one of our making.
    is_own: bool,
}

impl Certificate {
    fn ready(texts: Texts) -> Self {
        Self {
            texts: LazyCell::new(Box::new(|| Ok(texts))),
            is_own: false,
        }
    }

    fn later(make: impl FnOnce() -> Result<Texts, String> + 'static) -> Self {
        Self {
            texts: LazyCell::new(Box::new(make)),
            is_own: true,
        }
    }

    /// The error is the system's: it gives no randomness.
    fn texts(&self) -> Result<&Texts, String> {
        self.texts.as_ref().map_err(String::clone)
    }

    fn map(&self, names: [&'static str; 2]) -> Option<Value> {
        let texts = self.texts().ok()?;
        Some(Value::Map(Map::from_entries(texts.under(names))))
    }
}

impl Object for Certificate {
    fn go_type(&self) -> &'static str {
        "sprig.certificate"
    }

    fn field(&self, name: &str) -> Option<Value> {
        match name {
            "Cert" => Some(Value::String(self.texts().ok()?.cert.clone())),
            "Key" => Some(Value::String(self.texts().ok()?.key.clone())),
            _ => None,
        }
    }

    /// Fails for a field that there is none of because the certificate could not be made.
    fn call(&self, name: &str, _: &[Value]) -> Option<Result<Value, String>> {
        match name {
            "Cert" | "Key" => self.texts().err().map(Err),
            _ => None,
        }
    }

    fn to_json(&self) -> Option<Value> {
        self.map(["Cert", "Key"])
    }

    fn json_fields(&self) -> &'static [&'static str] {
        &["Cert", "Key"]
    }

    fn to_yaml(&self) -> Option<Value> {
        self.map(["cert", "key"])
    }

    fn yaml_fields(&self) -> &'static [&'static str] {
        &["cert", "key"]
    }

    fn members(&self) -> Option<Vec<(&'static str, Value)>> {
        Some(self.texts().ok()?.under(["Cert", "Key"]).into())
    }

    fn is_stringer(&self) -> bool {
        false
    }

    fn equals(&self, other: &dyn Object) -> bool {
        let other = other.as_any().downcast_ref::<Self>();
        let texts = other.and_then(|other| other.texts().ok());
        texts.is_some_and(|texts| self.texts().is_ok_and(|own| own == texts))
    }

    fn display(&self) -> Str {
        match self.texts() {
            Ok(Texts { cert, key }) => [b"{", &cert[..], b" ", key, b"}"].concat().into(),
            Err(error) => error.into(),
        }
    }

    fn as_any(&self) -> &dyn std::any::Any {
        self
    }
}
