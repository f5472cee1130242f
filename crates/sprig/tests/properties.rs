//! Whatever arguments a function is called with, it returns: a value or an error, never a panic.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod common;

use common::fixed;
use gotmpl::{Call, Function, FunctionError, Functions, List, Map, Str, Type, Value};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use sprig::helm::RenderHost;

/// A call outside of any template.
struct Alone {
    host: RenderHost,
    left: usize,
}

impl Call for Alone {
    fn execute(&mut self, template: &str, _: &Value) -> Result<Str, FunctionError> {
        Err(FunctionError(format!("no template {template}")))
    }

    fn execute_text(&mut self, text: &Str, _: &Value) -> Result<Str, FunctionError> {
        Ok(text.clone())
    }

    fn host(&mut self) -> &mut dyn std::any::Any {
        &mut self.host
    }

    fn charge(&mut self, bytes: usize) -> Result<(), FunctionError> {
        match self.left.checked_sub(bytes) {
            Some(left) => {
                self.left = left;
                Ok(())
            }
            None => Err(FunctionError("too much memory".to_owned())),
        }
    }

    fn foresee(&mut self, bytes: usize) -> Result<(), FunctionError> {
        if bytes > self.left {
            return Err(FunctionError("too much memory".to_owned()));
        }
        Ok(())
    }
}

/// What a generated argument is made from; values themselves belong to one thread.
#[derive(Clone, Debug)]
enum Seed {
    Nil,
    Bool(bool),
    Int(i64),
    Int64(i64),
    Uint64(u64),
    Float(f64),
    Bytes(Vec<u8>),
    Text(String),
    List(Vec<Self>),
    Texts(Vec<String>),
    Map(Vec<(String, Self)>),
    Time(i64),
    Version,
    Duration(i64),
}

fn seeds() -> impl Strategy<Value = Seed> {
    let number = prop_oneof![
        -5i64..12,
        any::<i64>(),
        Just(i64::MIN),
        Just(i64::MAX),
        Just(1_000_000_000)
    ];
    let text = prop_oneof![
        "[ -~]{0,12}",
        "\\PC{0,6}",
        "[a-z0-9.*+?()|\\[\\]{},^$\\\\-]{0,10}",
        "[0-9:T.+Z-]{0,20}",
        "[a-z]{1,3}[:/?#@\\[\\]%]{0,3}[a-z0-9]{0,4}",
        Just("2006-01-02T15:04:05Z07:00".to_owned()),
        Just(
            "-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEIA==\n-----END PRIVATE KEY-----\n"
                .to_owned()
        ),
        Just("YQ==".to_owned()),
        Just("a: [1, {b: c}]".to_owned()),
        Just("{\"a\": [1, null]}".to_owned()),
        Just("1.2.3-rc.1".to_owned()),
        Just("1h30m".to_owned()),
    ];
    let leaf = prop_oneof![
        Just(Seed::Nil),
        any::<bool>().prop_map(Seed::Bool),
        number.clone().prop_map(Seed::Int),
        number.clone().prop_map(Seed::Int64),
        any::<u64>().prop_map(Seed::Uint64),
        any::<f64>().prop_map(Seed::Float),
        prop::collection::vec(any::<u8>(), 0..6).prop_map(Seed::Bytes),
        text.clone().prop_map(Seed::Text),
        text.clone().prop_map(Seed::Text),
        number.clone().prop_map(Seed::Time),
        number.prop_map(Seed::Duration),
        Just(Seed::Version),
        prop::collection::vec(text.clone(), 0..4).prop_map(Seed::Texts),
    ];
    leaf.prop_recursive(3, 16, 4, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Seed::List),
            prop::collection::vec(("[a-c_0-9]{0,2}", inner), 0..4).prop_map(Seed::Map),
        ]
    })
}

impl Seed {
    fn value(&self, functions: &Functions) -> Value {
        match self {
            Self::Nil => Value::Nil,
            Self::Bool(value) => Value::Bool(*value),
            Self::Int(number) => Value::Int(*number),
            Self::Int64(number) => Value::Int64(*number),
            Self::Uint64(number) => Value::Uint64(*number),
            Self::Float(number) => Value::Float64(*number),
            Self::Bytes(bytes) => Value::Bytes(Str::from(bytes.as_slice())),
            Self::Text(text) => Value::from(text.as_str()),
            Self::Texts(texts) => Value::List(List::strings(texts.iter().map(String::as_str))),
            Self::List(items) => {
                Value::list(items.iter().map(|item| item.value(functions)).collect())
            }
            Self::Map(entries) => Value::Map(Map::from_entries(
                entries
                    .iter()
                    .map(|(key, value)| (key.as_str(), value.value(functions))),
            )),
            Self::Time(seconds) => made(
                functions,
                "mustDateModify",
                &[
                    Value::from("0s"),
                    made(
                        functions,
                        "toDate",
                        &[
                            Value::from("2006"),
                            Value::string(format!("{:04}", seconds.rem_euclid(9999))),
                        ],
                    ),
                ],
            ),
            Self::Duration(seconds) => made(
                functions,
                "durationRoundTo",
                &[Value::Int(*seconds), Value::Nil],
            ),
            Self::Version => made(functions, "semver", &[Value::from("v1.2.3-rc.1+m")]),
        }
    }

    /// The value as a parameter of this type would get it.
    fn converted(&self, wanted: Type, functions: &Functions) -> Value {
        let value = self.value(functions);
        match (wanted, &value) {
            (Type::Any, _)
            | (Type::String, Value::String(_))
            | (Type::Int, Value::Int(_))
            | (Type::Bool, Value::Bool(_))
            | (Type::Float64, Value::Float64(_)) => value,
            (Type::List(Type::Any), Value::List(list)) if list.element() == Type::Any => value,
            (Type::Map(_), Value::Map(_)) => value,
            (Type::Named(name), Value::Object(object)) if object.go_type() == name => value,
            (Type::String, other) => Value::string(format!("{other:?}")),
            (Type::Int, Value::Int64(number)) => Value::Int(*number),
            (Type::Int, _) => Value::Int(3),
            (Type::Bool, _) => Value::Bool(true),
            (Type::Float64, _) => Value::Float64(0.5),
            (Type::Uint32, Value::Uint64(number)) => Value::Uint64(number % (1 << 32)),
            (Type::Uint32, _) => Value::Uint64(1),
            (Type::Map(_), Value::Nil) => Value::Map(Map::nil(Type::Any)),
            (Type::Map(_), other) => Value::Map(Map::from_entries([("a", other.clone())])),
            (Type::List(_), other) => Value::list(vec![other.clone()]),
            (Type::Named("time.Time"), _) => Self::Time(5).value(functions),
            (Type::Named("sprig.certificate"), _) => made(
                functions,
                "genCAWithKey",
                &[
                    Value::from("x"),
                    Value::Int(1),
                    made(functions, "genPrivateKey", &[Value::from("ed25519")]),
                ],
            ),
            (other, _) => panic!("a parameter of type {other}"),
        }
    }
}

fn made(functions: &Functions, name: &str, arguments: &[Value]) -> Value {
    let function = functions.get(name).unwrap();
    (function.body)(&mut alone(), arguments).unwrap()
}

fn alone() -> Alone {
    Alone {
        host: RenderHost::default(),
        left: 4 << 20,
    }
}

fn arguments(function: &Function, seeds: &[Seed], functions: &Functions) -> Vec<Value> {
    let fixed = function.parameters.iter().copied();
    let variadic = function.variadic.into_iter().flat_map(std::iter::repeat);
    let count = match function.variadic {
        None => function.parameters.len(),
        Some(_) => function.parameters.len().max(seeds.len()),
    };
    let nothing = Seed::Nil;
    fixed
        .chain(variadic)
        .take(count)
        .enumerate()
        .map(|(index, wanted)| {
            seeds
                .get(index)
                .unwrap_or(&nothing)
                .converted(wanted, functions)
        })
        .collect()
}

/// Each takes a good part of a second, for what it computes is meant to be slow.
const SLOW: [&str; 10] = [
    "bcrypt",
    "htpasswd",
    "derivePassword",
    "genPrivateKey",
    "genCA",
    "genCAWithKey",
    "genSelfSignedCert",
    "genSelfSignedCertWithKey",
    "genSignedCert",
    "genSignedCertWithKey",
];

#[test]
fn no_function_panics_on_any_arguments() {
    let functions = sprig::functions(&fixed());
    let mut names: Vec<&str> = functions.names().collect();
    names.sort_unstable();
    for name in names {
        let function = functions.get(name).unwrap();
        let mut runner = TestRunner::new(Config {
            cases: if SLOW.contains(&name) { 2 } else { 120 },
            failure_persistence: None,
            ..Config::default()
        });
        let result = runner.run(&prop::collection::vec(seeds(), 0..5), |seeds| {
            let arguments = arguments(function, &seeds, &functions);
            let _ = (function.body)(&mut alone(), &arguments);
            Ok(())
        });
        assert!(result.is_ok(), "{name}: {}", result.unwrap_err());
    }
}

#[test]
fn no_method_panics_on_any_arguments() {
    let functions = sprig::functions(&fixed());
    let methods = [
        "Year",
        "Month",
        "Add",
        "AddDate",
        "Sub",
        "Format",
        "Truncate",
        "Round",
        "Before",
        "Unix",
        "UnixNano",
        "Compare",
        "Equal",
        "IncMajor",
        "SetPrerelease",
        "SetMetadata",
        "Original",
        "Hours",
        "Abs",
        "String",
        "UTC",
        "IsDST",
        "nothing",
    ];
    let mut runner = TestRunner::new(Config {
        cases: 300,
        failure_persistence: None,
        ..Config::default()
    });
    let strategy = (any::<i64>(), prop::collection::vec(seeds(), 0..4));
    let result = runner.run(&strategy, |(seconds, seeds)| {
        for receiver in [Seed::Time(seconds), Seed::Duration(seconds), Seed::Version] {
            let Value::Object(object) = receiver.value(&functions) else {
                panic!("an object");
            };
            let arguments: Vec<Value> = seeds.iter().map(|seed| seed.value(&functions)).collect();
            for method in methods {
                let _ = object.call(method, &arguments);
            }
        }
        Ok(())
    });
    assert!(result.is_ok(), "{}", result.unwrap_err());
}
