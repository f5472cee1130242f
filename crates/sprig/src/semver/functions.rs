//! `semver`, `semverCompare`, and the version as templates see it.

use std::rc::Rc;

use gotmpl::{Functions, Object, Str, Type, Value};

use super::version::Bump;
use super::{Constraints, Version};
use crate::arguments::{Returned, define, text};

pub(crate) fn register(functions: &mut Functions) {
    define(functions, "semver", &[Type::String], |_, arguments| {
        Ok(object(Version::parse(&text(arguments, 0)?)?, Pointer::Yes))
    });
    define(
        functions,
        "semverCompare",
        &[Type::String, Type::String],
        |_, arguments| compare(&text(arguments, 0)?, &text(arguments, 1)?),
    );
}

fn compare(constraint: &str, version: &str) -> Returned {
    let constraint = Constraints::parse(constraint)?;
    let version = Version::parse(version)?;
    Ok(Value::Bool(constraint.check(&version)))
}

/// Whether the template holds a `*semver.Version` or a `semver.Version`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pointer {
    Yes,
    No,
}

fn object(version: Version, pointer: Pointer) -> Value {
    Value::Object(Rc::new(VersionObject { version, pointer }))
}

#[derive(Debug)]
struct VersionObject {
    version: Version,
    pointer: Pointer,
}

impl VersionObject {
    fn next(&self, bump: Bump, name: &str) -> Result<Value, String> {
        let next = self.version.next(bump);
        let next = next.ok_or_else(|| format!("{name} version increment would overflow uint64"))?;
        Ok(object(next, Pointer::No))
    }

    fn compared(
        &self,
        arguments: &[Value],
        test: impl Fn(std::cmp::Ordering) -> Value,
    ) -> Result<Value, String> {
        let other = match arguments.first() {
            Some(Value::Object(object)) => object.as_any().downcast_ref::<Self>(),
            _ => None,
        };
        let other = other.ok_or_else(|| {
            "invalid memory address or nil pointer dereference: not a *semver.Version".to_owned()
        })?;
        Ok(test(self.version.cmp(&other.version)))
    }

    fn replaced(
        &self,
        arguments: &[Value],
        replace: impl Fn(&Version, &str) -> Result<Version, super::VersionError>,
    ) -> Result<Value, String> {
        let Some(Value::String(text)) = arguments.first() else {
            return Err("wrong type for value; expected string".to_owned());
        };
        let next = replace(&self.version, &text.to_text()).map_err(|error| error.to_string())?;
        Ok(object(next, Pointer::No))
    }
}

/// Methods that only a `*semver.Version` has.
const ON_POINTERS: [&str; 7] = [
    "Original",
    "Compare",
    "Equal",
    "LessThan",
    "LessThanEqual",
    "GreaterThan",
    "GreaterThanEqual",
];

impl Object for VersionObject {
    fn go_type(&self) -> &'static str {
        match self.pointer {
            Pointer::Yes => "*semver.Version",
            Pointer::No => "semver.Version",
        }
    }

    fn call(&self, name: &str, arguments: &[Value]) -> Option<Result<Value, String>> {
        let version = &self.version;
        if self.pointer == Pointer::No && ON_POINTERS.contains(&name) {
            return None;
        }
        Some(match name {
            "Major" => Ok(Value::Uint64(version.major)),
            "Minor" => Ok(Value::Uint64(version.minor)),
            "Patch" => Ok(Value::Uint64(version.patch)),
            "Prerelease" => Ok(Value::from(version.prerelease())),
            "Metadata" => Ok(Value::from(version.metadata())),
            "Original" => Ok(Value::from(version.original())),
            "String" => Ok(Value::String(self.display())),
            "Compare" => self.compared(arguments, |order| Value::Int(order as i64)),
            "Equal" => self.compared(arguments, |order| Value::Bool(order.is_eq())),
            "LessThan" => self.compared(arguments, |order| Value::Bool(order.is_lt())),
            "LessThanEqual" => self.compared(arguments, |order| Value::Bool(order.is_le())),
            "GreaterThan" => self.compared(arguments, |order| Value::Bool(order.is_gt())),
            "GreaterThanEqual" => self.compared(arguments, |order| Value::Bool(order.is_ge())),
            "IncMajor" => self.next(Bump::Major, "major"),
            "IncMinor" => self.next(Bump::Minor, "minor"),
            "IncPatch" => self.next(Bump::Patch, "patch"),
            "SetPrerelease" => self.replaced(arguments, Version::with_prerelease),
            "SetMetadata" => self.replaced(arguments, Version::with_metadata),
            _ => return None,
        })
    }

    fn to_json(&self) -> Option<Value> {
        Some(Value::String(self.display()))
    }

    fn display(&self) -> Str {
        self.version.to_string().into()
    }

    fn as_any(&self) -> &dyn std::any::Any {
        self
    }
}
