//! The data and the functions that the golden rows are about, as the Go program that made the rows
//! has them.

#![allow(dead_code, unreachable_pub, reason = "each test binary uses its part")]
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a row that cannot be run is a failed test"
)]

use std::any::Any;
use std::rc::Rc;

use gotmpl::{
    Budget, Call, Entries, ExecError, Function, FunctionError, Functions, List, Map, MissingKey,
    NamedMap, Object, Options, Signature, Str, TemplateSet, Type, Value,
};

/// A struct with methods, behind a pointer.
pub struct Obj;

impl Object for Obj {
    fn go_type(&self) -> &'static str {
        "*main.Obj"
    }

    fn field(&self, name: &str) -> Option<Value> {
        Some(match name {
            "Name" => "obj".into(),
            "Count" => Value::Int(3),
            "Any" => Value::Nil,
            "In" => Value::Object(Rc::new(Inner)),
            "Map" => Map::from_entries([("k", "v".into())]).into(),
            "List" => Value::List(List::strings(["x"])),
            _ => return None,
        })
    }

    fn declares_methods(&self) -> bool {
        true
    }

    fn signature(&self, name: &str) -> Option<Signature> {
        Some(match name {
            "Hello" => Signature::fixed(&[Type::String]),
            "Sum" => Signature {
                parameters: &[Type::Int],
                variadic: Some(Type::Int),
            },
            "Fails" | "Nothing" | "Self" => Signature::fixed(&[]),
            _ => return None,
        })
    }

    fn call(&self, name: &str, arguments: &[Value]) -> Option<Result<Value, String>> {
        Some(match (name, arguments) {
            ("Hello", [Value::String(who)]) => Ok(Value::string([b"hello ", &**who].concat())),
            ("Sum", numbers) => Ok(Value::Int(numbers.iter().map(int).sum())),
            ("Fails", _) => Err("it failed".to_owned()),
            ("Nothing", _) => Ok(Value::Nil),
            ("Self", _) => Ok(Value::Object(Rc::new(Self))),
            _ => return None,
        })
    }

    fn members(&self) -> Option<Vec<(&'static str, Value)>> {
        let names = ["Name", "Count", "Any", "In", "Map", "List"];
        Some(names.map(|name| (name, self.field(name).unwrap())).to_vec())
    }

    fn equals(&self, other: &dyn Object) -> bool {
        other.go_type() == self.go_type()
    }

    fn is_stringer(&self) -> bool {
        false
    }

    fn display(&self) -> Str {
        "obj".into()
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

fn int(value: &Value) -> i64 {
    match value {
        Value::Int(number) => *number,
        other => panic!("not an int: {other:?}"),
    }
}

/// A plain struct.
pub struct Inner;

impl Object for Inner {
    fn go_type(&self) -> &'static str {
        "main.Inner"
    }

    fn field(&self, name: &str) -> Option<Value> {
        match name {
            "A" => Some(Value::Int(5)),
            "B" => Some("in".into()),
            _ => None,
        }
    }

    fn members(&self) -> Option<Vec<(&'static str, Value)>> {
        Some(vec![("A", Value::Int(5)), ("B", "in".into())])
    }

    fn equals(&self, other: &dyn Object) -> bool {
        other.go_type() == self.go_type()
    }

    fn is_stringer(&self) -> bool {
        false
    }

    fn display(&self) -> Str {
        "{5 in}".into()
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// A pointer to a struct with `String()`.
struct Version;

impl Object for Version {
    fn go_type(&self) -> &'static str {
        "*main.Version"
    }

    fn call(&self, name: &str, _: &[Value]) -> Option<Result<Value, String>> {
        match name {
            "Major" => Some(Ok(Value::Uint64(1))),
            "String" => Some(Ok(Value::String(self.display()))),
            _ => None,
        }
    }

    fn signature(&self, name: &str) -> Option<Signature> {
        matches!(name, "Major" | "String").then(|| Signature::fixed(&[]))
    }

    fn members(&self) -> Option<Vec<(&'static str, Value)>> {
        Some(vec![
            ("major", Value::Uint64(1)),
            ("minor", Value::Uint64(22)),
        ])
    }

    fn display(&self) -> Str {
        "v1.22".into()
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// A named `[]string` with a method.
struct Names;

impl Object for Names {
    fn go_type(&self) -> &'static str {
        "main.Names"
    }

    fn signature(&self, name: &str) -> Option<Signature> {
        (name == "Has").then(|| Signature::fixed(&[Type::String]))
    }

    fn call(&self, name: &str, arguments: &[Value]) -> Option<Result<Value, String>> {
        let [Value::String(wanted)] = arguments else {
            return None;
        };
        let found = matches!(&**wanted, b"v1" | b"apps/v1");
        (name == "Has").then_some(Ok(Value::Bool(found)))
    }

    fn as_list(&self) -> Option<List> {
        Some(List::strings(["v1", "apps/v1"]))
    }

    fn display(&self) -> Str {
        "[v1 apps/v1]".into()
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// A named `int64` with `String()`.
struct Dur;

impl Object for Dur {
    fn go_type(&self) -> &'static str {
        "main.Dur"
    }

    fn as_basic(&self) -> Option<Value> {
        Some(Value::Int64(90))
    }

    fn display(&self) -> Str {
        "90ns".into()
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

static VALUES: NamedMap = NamedMap {
    name: "main.Values",
    signature: |name| match name {
        "Keys" => Some(Signature::fixed(&[])),
        "Table" => Some(Signature::fixed(&[Type::String])),
        _ => None,
    },
    call: |map, name, arguments| match (name, arguments) {
        ("Keys", _) => Ok(Value::Int(i64::try_from(map.len()).unwrap())),
        (_, [Value::String(name)]) => match map.get(name) {
            Some(Value::Map(table)) => Ok(Value::Map(Map::named(&VALUES, table.entries().clone()))),
            _ => Err(format!("{} is not a table", gotmpl::strconv::quote(name))),
        },
        _ => panic!("no such method"),
    },
};

fn map<const N: usize>(entries: [(&str, Value); N]) -> Value {
    Value::Map(Map::from_entries(entries))
}

fn typed<const N: usize>(element: Type, entries: [(&str, Value); N]) -> Value {
    let entries: Entries = entries
        .into_iter()
        .map(|(key, value)| (key.into(), value))
        .collect();
    Value::Map(Map::typed(element, entries))
}

fn strings<const N: usize>(items: [&str; N]) -> Value {
    Value::List(List::strings(items))
}

/// The dot of every row.
pub fn data() -> Value {
    let nested = map([("deep", map([("x", "y".into())]))]);
    let tab = map([("x", Value::Int(1))]);
    let values = [
        ("a", Value::Int(1)),
        ("tab", tab),
        ("Keys", "hidden".into()),
    ];
    let values = values
        .into_iter()
        .map(|(key, value)| (key.into(), value))
        .collect();
    map([
        ("t", true.into()),
        ("f", false.into()),
        ("i", Value::Int(17)),
        ("i64", Value::Int64(-3)),
        ("u64", Value::Uint64(9)),
        ("i32", Value::Int32(120)),
        ("u8", Value::Uint8(7)),
        ("fl", Value::Float64(1.5)),
        ("big", Value::Float64(1e6)),
        ("neg", Value::Float64(-2.25)),
        ("three", Value::Float64(3.0)),
        ("tiny", Value::Float64(1e-5)),
        ("s", "text".into()),
        ("es", "".into()),
        ("html", "<a href=\"x\">'&'</a>".into()),
        ("bytes", Value::Bytes("hi".into())),
        ("bad", Value::string(&b"a\xffb\xc3"[..])),
        ("uni", "héé→世".into()),
        ("nil", Value::Nil),
        (
            "l",
            Value::list(vec![
                Value::Int(1),
                "two".into(),
                Value::Float64(3.5),
                Value::Nil,
                true.into(),
            ]),
        ),
        ("el", Value::list(vec![])),
        ("ls", strings(["a", "b"])),
        (
            "li",
            Value::List(List::typed(Type::Int, [3, 4, 5].map(Value::Int).to_vec())),
        ),
        (
            "lb",
            Value::List(List::typed(Type::Bool, vec![true.into(), false.into()])),
        ),
        (
            "ll",
            Value::list(vec![
                Value::list(vec![Value::Int(1), Value::Int(2)]),
                Value::list(vec!["x".into()]),
            ]),
        ),
        (
            "m",
            map([
                ("one", Value::Int(1)),
                ("two", "zwei".into()),
                ("null", Value::Nil),
                ("nested", nested),
            ]),
        ),
        ("em", map([])),
        (
            "ms",
            typed(Type::String, [("k", "v".into()), ("a", "b".into())]),
        ),
        (
            "mi",
            typed(Type::Int, [("z", Value::Int(26)), ("a", Value::Int(1))]),
        ),
        (
            "ml",
            typed(Type::List(&Type::String), [("p", strings(["q"]))]),
        ),
        (
            "lm",
            Value::List(List::typed(
                Type::Map(&Type::Any),
                vec![map([("a", Value::Int(1))]), map([("b", Value::Nil)])],
            )),
        ),
        ("o", Value::Object(Rc::new(Obj))),
        ("ver", Value::Object(Rc::new(Version))),
        ("names", Value::Object(Rc::new(Names))),
        ("vals", Value::Map(Map::named(&VALUES, values))),
        ("dur", Value::Object(Rc::new(Dur))),
        ("nl", "a\nb\tc".into()),
        (
            "deep",
            map([("a", map([("b", map([("c", "leaf".into())]))]))]),
        ),
    ])
}

type Answer = Result<Value, FunctionError>;

fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.to_text().into_owned(),
        other => panic!("not a string: {other:?}"),
    }
}

fn bytes(value: &Value) -> &[u8] {
    match value {
        Value::String(text) => text,
        other => panic!("not a string: {other:?}"),
    }
}

fn length(value: &Value) -> Answer {
    let length = match value {
        Value::List(list) => list.items().len(),
        Value::Map(map) => map.len(),
        other => panic!("no length: {other:?}"),
    };
    Ok(Value::Int(i64::try_from(length).unwrap()))
}

/// The functions that rows may call.
pub fn functions() -> Functions {
    let mut functions = Functions::new();
    let mut add = |name, parameters, variadic, body: fn(&mut dyn Call, &[Value]) -> Answer| {
        functions.insert(name, Function::new(parameters, variadic, body));
    };
    add("str", &[Type::String], None, |_, a| {
        let Value::String(text) = &a[0] else {
            panic!("not a string")
        };
        Ok(Value::string([b"<", &**text, b">"].concat()))
    });
    add("add", &[Type::Int, Type::Int], None, |_, a| {
        Ok(Value::Int(int(&a[0]).wrapping_add(int(&a[1]))))
    });
    add("any", &[Type::Any], None, |_, a| Ok(a[0].clone()));
    add("count", &[], Some(Type::Any), |_, a| {
        Ok(Value::Int(i64::try_from(a.len()).unwrap()))
    });
    add("strs", &[Type::String], Some(Type::String), |_, a| {
        let bytes: Vec<_> = a.iter().map(bytes).collect();
        let rest = bytes[1..].join(&b","[..]);
        Ok(Value::string([bytes[0], b"|", &rest].concat()))
    });
    add("fl", &[Type::Float64], None, |_, a| Ok(a[0].clone()));
    add("boolean", &[Type::Bool], None, |_, a| Ok(a[0].clone()));
    add("i64", &[Type::Int64], None, |_, a| Ok(a[0].clone()));
    add("u64", &[Type::Uint64], None, |_, a| Ok(a[0].clone()));
    add("u8", &[Type::Uint8], None, |_, a| Ok(a[0].clone()));
    add("list", &[], Some(Type::Any), |_, a| {
        Ok(Value::list(a.to_vec()))
    });
    add("items", &[Type::List(&Type::Any)], None, |_, a| {
        length(&a[0])
    });
    add("strings", &[Type::List(&Type::String)], None, |_, a| {
        length(&a[0])
    });
    add("mapany", &[Type::Map(&Type::Any)], None, |_, a| {
        length(&a[0])
    });
    add("mapstr", &[Type::Map(&Type::String)], None, |_, a| {
        length(&a[0])
    });
    add("obj", &[Type::Named("*main.Obj")], None, |_, a| {
        let Value::Object(object) = &a[0] else {
            return Err("runtime error: invalid memory address or nil pointer dereference".into());
        };
        Ok(object.field("Name").unwrap())
    });
    add("fail", &[Type::String], None, |_, a| {
        Err(FunctionError(text(&a[0])))
    });
    add("panics", &[Type::String], None, |_, a| {
        Err(FunctionError(text(&a[0])))
    });
    add("nothing", &[], None, |_, _| Ok(Value::Nil));
    add("nilmap", &[], None, |_, _| Ok(Map::nil(Type::Any).into()));
    add("nillist", &[], None, |_, _| {
        Ok(Value::List(List::nil(Type::Any)))
    });
    add("isnilmap", &[Type::Map(&Type::Any)], None, |_, a| {
        Ok(matches!(&a[0], Value::Map(map) if map.is_nil()).into())
    });
    add("isnillist", &[Type::List(&Type::Any)], None, |_, a| {
        Ok(matches!(&a[0], Value::List(list) if list.is_nil()).into())
    });
    add("type", &[Type::Any], None, |_, a| {
        Ok(Value::string(a[0].type_name().into_owned()))
    });
    add("dict", &[], Some(Type::Any), |_, a| {
        let map = Map::new();
        for pair in a.chunks_exact(2) {
            let Value::String(key) = &pair[0] else {
                return Err("key is no string".into());
            };
            map.insert(key.clone(), pair[1].clone());
        }
        Ok(map.into())
    });
    add(
        "set",
        &[Type::Map(&Type::Any), Type::String, Type::Any],
        None,
        |_, a| {
            let Value::Map(map) = &a[0] else {
                panic!("not a map")
            };
            if map.is_nil() {
                return Err("assignment to entry in nil map".into());
            }
            map.insert(text(&a[1]).into(), a[2].clone());
            Ok(a[0].clone())
        },
    );
    add("include", &[Type::String, Type::Any], None, |call, a| {
        Ok(Value::String(call.execute(&text(&a[0]), &a[1])?))
    });
    add("tpl", &[Type::String, Type::Any], None, |call, a| {
        let Value::String(text) = &a[0] else {
            panic!("not a string")
        };
        Ok(Value::String(call.execute_text(text, &a[1])?))
    });
    add(
        "wrapped",
        &[Type::String, Type::Any],
        None,
        |call, a| match call.execute(&text(&a[0]), &a[1]) {
            Ok(printed) => Ok(Value::String(printed)),
            Err(FunctionError(text)) => Err(FunctionError(format!("wrapped: {text}"))),
        },
    );
    functions
}

/// What became of some texts: `out`, `exec` or `parse`, and the output or the error.
pub struct Outcome {
    pub status: &'static str,
    pub text: Vec<u8>,
    /// The levels below the outermost error.
    pub levels: Vec<String>,
}

fn missing_key(mode: &str) -> MissingKey {
    match mode {
        "default" => MissingKey::Default,
        "zero" => MissingKey::Zero,
        "error" => MissingKey::Error,
        other => panic!("no such mode: {other}"),
    }
}

/// Parses the texts as `t0`, `t1`, … and executes `t0`.
pub fn run(mode: &str, texts: &[&[u8]], budget: &mut Budget) -> Outcome {
    let functions = functions();
    let mut set = TemplateSet::new("gotpl");
    for (at, text) in texts.iter().enumerate() {
        if let Err(error) = set.parse(format!("t{at}"), *text, &functions) {
            return Outcome {
                status: "parse",
                text: error.to_string().into_bytes(),
                levels: Vec::new(),
            };
        }
    }
    let options = Options {
        missing_key: missing_key(mode),
    };
    match set.execute("t0", &data(), &functions, &mut (), options, budget) {
        Ok(text) => Outcome {
            status: "out",
            text,
            levels: Vec::new(),
        },
        Err(error) => Outcome {
            status: "exec",
            text: error.to_string().into_bytes(),
            levels: error.levels().skip(1).map(ExecError::to_string).collect(),
        },
    }
}

/// Reads a Go string literal in double quotes.
pub fn unquote(literal: &str) -> Vec<u8> {
    let body = literal
        .strip_prefix('"')
        .and_then(|rest| rest.strip_suffix('"'))
        .unwrap_or_else(|| panic!("no literal: {literal}"));
    let mut out = Vec::new();
    let mut chars = body.chars();
    while let Some(char) = chars.next() {
        if char != '\\' {
            out.extend_from_slice(char.encode_utf8(&mut [0; 4]).as_bytes());
            continue;
        }
        let escape = chars.next().unwrap();
        let digits = match escape {
            'x' => 2,
            'u' => 4,
            'U' => 8,
            _ => 0,
        };
        if digits > 0 {
            let hex: String = chars.by_ref().take(digits).collect();
            let code = u32::from_str_radix(&hex, 16).unwrap();
            if digits == 2 {
                out.push(u8::try_from(code).unwrap());
            } else {
                let char = char::from_u32(code).unwrap();
                out.extend_from_slice(char.encode_utf8(&mut [0; 4]).as_bytes());
            }
            continue;
        }
        out.push(match escape {
            'a' => 7,
            'b' => 8,
            'f' => 12,
            'n' => b'\n',
            'r' => b'\r',
            't' => b'\t',
            'v' => 11,
            other => u8::try_from(other).unwrap(),
        });
    }
    out
}
