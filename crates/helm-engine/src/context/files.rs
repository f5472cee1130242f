//! `.Files`, the chart's files that are no templates.

use std::any::Any;
use std::collections::BTreeMap;
use std::rc::Rc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use gotmpl::{List, Map, Object, Signature, Str, Type, Value};

use super::glob::Glob;
use crate::chart::ChartFile;
use crate::manifest::base_name;

struct Files(Rc<BTreeMap<Str, Str>>);

/// Go's `engine.files`, a `map[string][]byte`. Of two files of one name the later counts.
pub(super) fn object(files: &[ChartFile]) -> Value {
    let entries = files
        .iter()
        .map(|file| (Str::from(file.name.as_str()), file.data.clone()))
        .collect();
    Value::Object(Rc::new(Files(Rc::new(entries))))
}

impl Object for Files {
    fn go_type(&self) -> &'static str {
        "engine.files"
    }

    fn signature(&self, name: &str) -> Option<Signature> {
        let parameters: &'static [Type] = match name {
            "Get" | "GetBytes" | "Glob" | "Lines" => &[Type::String],
            "AsConfig" | "AsSecrets" => &[],
            _ => return None,
        };
        Some(Signature {
            parameters,
            variadic: None,
        })
    }

    fn call(&self, name: &str, arguments: &[Value]) -> Option<Result<Value, String>> {
        let value = match (name, arguments) {
            ("Get", [Value::String(path)]) => Value::String(self.get(path)),
            ("GetBytes", [Value::String(path)]) => Value::Bytes(self.get(path)),
            ("Glob", [Value::String(pattern)]) => self.glob(&pattern.to_text()),
            ("Lines", [Value::String(path)]) => self.lines(path),
            ("AsConfig", []) => self.by_base_name(Clone::clone),
            ("AsSecrets", []) => self.by_base_name(|data| STANDARD.encode(data.as_bytes()).into()),
            _ => return None,
        };
        Some(Ok(value))
    }

    fn as_map(&self) -> Option<Map> {
        let entries = self
            .0
            .iter()
            .map(|(name, data)| (name.clone(), Value::Bytes(data.clone())))
            .collect();
        Some(Map::typed(Type::List(&Type::Uint8), entries))
    }

    fn display(&self) -> Str {
        Str::default()
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl Files {
    fn get(&self, path: &[u8]) -> Str {
        self.0.get(path).cloned().unwrap_or_default()
    }

    /// A pattern that is malformed matches everything, as in Helm.
    fn glob(&self, pattern: &str) -> Value {
        let glob = Glob::parse(pattern).ok();
        let found = self
            .0
            .iter()
            .filter(|(name, _)| match &glob {
                Some(glob) => glob.matches(&name.to_text()),
                None => true,
            })
            .map(|(name, data)| (name.clone(), data.clone()))
            .collect();
        Value::Object(Rc::new(Self(Rc::new(found))))
    }

    /// The lines of a file; one line break at its end counts for nothing.
    fn lines(&self, path: &[u8]) -> Value {
        let data = self.get(path);
        if data.is_empty() {
            return Value::List(List::strings(std::iter::empty::<Str>()));
        }
        let text = data.strip_suffix(b"\n").unwrap_or(&data);
        Value::List(List::strings(text.split(|byte| *byte == b'\n')))
    }

    /// YAML of the base names and contents; an error prints as nothing.
    fn by_base_name(&self, content: impl Fn(&Str) -> Str) -> Value {
        let entries = self.0.iter().map(|(name, data)| {
            let base = base_name(&name.to_text()).to_owned();
            (base, Value::String(content(data)))
        });
        let yaml = goyaml::to_yaml(&Value::Map(Map::from_entries(entries))).unwrap_or_default();
        let yaml = yaml.strip_suffix(b"\n").unwrap_or(&yaml);
        Value::String(yaml.into())
    }
}
