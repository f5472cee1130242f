//! `genCA`, `genSelfSignedCert`, `genSignedCert`, `buildCustomCert`.

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

/// The key that the last argument gives, or a new one.
fn key(
    environment: &Environment,
    arguments: &[Value],
    index: usize,
) -> Result<PrivateKey, FunctionError> {
    let key = match arguments.get(index) {
        Some(Value::String(given)) => {
            PrivateKey::from_pem(given).map_err(|error| format!("parsing private key: {error}"))?
        }
        _ => environment
            .keys
            .rsa(2048)
            .and_then(PrivateKey::from_pkcs8)
            .map_err(|error| format!("error generating rsa key: {error}"))?,
    };
    Ok(key)
}

fn authority(environment: &Environment, arguments: &[Value]) -> Returned {
    let key = key(environment, arguments, 2)?;
    let name = text(arguments, 0)?;
    let mut template = template(environment, &name, None, None, int(arguments, 1)?)?;
    template.authority = true;
    made(&template, &key, &Signer::Itself)
}

fn self_signed(environment: &Environment, arguments: &[Value]) -> Returned {
    let key = key(environment, arguments, 4)?;
    let name = text(arguments, 0)?;
    let (addresses, names) = (list(arguments, 1)?, list(arguments, 2)?);
    let template = template(environment, &name, addresses, names, int(arguments, 3)?)?;
    made(&template, &key, &Signer::Itself)
}

fn signed(environment: &Environment, arguments: &[Value]) -> Returned {
    let key = key(environment, arguments, 5)?;
    let Some(authority) = as_certificate(any(arguments, 4)) else {
        return fail("wrong type for value; expected sprig.certificate");
    };
    let block = pem::decode(&authority.cert).ok_or("unable to decode certificate")?;
    check_certificate(&block.bytes)
        .map_err(|error| format!("error parsing certificate: decodedSignerCert.Bytes: {error}"))?;
    let authority_key = PrivateKey::from_pem(&authority.key)
        .map_err(|error| format!("error parsing private key: {error}"))?;
    let name = text(arguments, 0)?;
    let (addresses, names) = (list(arguments, 1)?, list(arguments, 2)?);
    let template = template(environment, &name, addresses, names, int(arguments, 3)?)?;
    let signer = Signer::Authority {
        certificate: &block.bytes,
        key: &authority_key,
    };
    made(&template, &key, &signer)
}

fn made(template: &Template<'_>, key: &PrivateKey, signer: &Signer<'_>) -> Returned {
    let certificate = Certificate {
        cert: sign(template, key, signer)?.into(),
        key: key.to_pem().into(),
    };
    Ok(Value::Object(Rc::new(certificate)))
}

fn template<'n>(
    environment: &Environment,
    common_name: &'n str,
    addresses: Option<&List>,
    names: Option<&List>,
    days: i64,
) -> Result<Template<'n>, FunctionError> {
    let addresses = addresses.map_or(Ok(Vec::new()), parse_addresses)?;
    let dns_names = names.map_or(Ok(Vec::new()), parse_names)?;
    let mut serial = [0; 16];
    environment.random.fill(&mut serial)?;
    let now = environment.clock.now().as_second();
    // Go multiplies nanoseconds, which wrap around.
    let validity = days.wrapping_mul(86_400_000_000_000) / 1_000_000_000;
    Ok(Template {
        common_name,
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
    Ok(Value::Object(Rc::new(Certificate {
        cert: cert.into(),
        key: key.into(),
    })))
}

fn as_certificate(value: &Value) -> Option<&Certificate> {
    match value {
        Value::Object(object) => object.as_any().downcast_ref(),
        _ => None,
    }
}

/// Sprig's `certificate`: both texts are PEM.
struct Certificate {
    cert: Str,
    key: Str,
}

impl Object for Certificate {
    fn go_type(&self) -> &'static str {
        "sprig.certificate"
    }

    fn field(&self, name: &str) -> Option<Value> {
        match name {
            "Cert" => Some(Value::String(self.cert.clone())),
            "Key" => Some(Value::String(self.key.clone())),
            _ => None,
        }
    }

    fn to_json(&self) -> Option<Value> {
        Some(Value::Map(Map::from_entries([
            ("Cert", Value::String(self.cert.clone())),
            ("Key", Value::String(self.key.clone())),
        ])))
    }

    fn json_fields(&self) -> &'static [&'static str] {
        &["Cert", "Key"]
    }

    fn to_yaml(&self) -> Option<Value> {
        Some(Value::Map(Map::from_entries([
            ("cert", Value::String(self.cert.clone())),
            ("key", Value::String(self.key.clone())),
        ])))
    }

    fn yaml_fields(&self) -> &'static [&'static str] {
        &["cert", "key"]
    }

    fn members(&self) -> Option<Vec<(&'static str, Value)>> {
        Some(vec![
            ("Cert", Value::String(self.cert.clone())),
            ("Key", Value::String(self.key.clone())),
        ])
    }

    fn is_stringer(&self) -> bool {
        false
    }

    fn equals(&self, other: &dyn Object) -> bool {
        let other = other.as_any().downcast_ref::<Self>();
        other.is_some_and(|other| self.cert == other.cert && self.key == other.key)
    }

    fn display(&self) -> Str {
        [b"{", &self.cert[..], b" ", &self.key, b"}"]
            .concat()
            .into()
    }

    fn as_any(&self) -> &dyn std::any::Any {
        self
    }
}
