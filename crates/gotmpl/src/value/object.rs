//! Structs.

use super::{List, Map, Value};
use crate::Str;
use crate::function::Signature;

/// A value with fields and methods: what Go reaches by reflection on a struct.
pub trait Object {
    /// The name that `%T` prints, such as `chart.Files` or `*semver.Version`.
    fn go_type(&self) -> &'static str;

    /// A field by name; `None` if the type has none of that name.
    fn field(&self, name: &str) -> Option<Value> {
        let _ = name;
        None
    }

    /// The signature of a method, so that arguments are checked before [`call`](Self::call) sees
    /// them; `None` leaves the checks to the method.
    fn signature(&self, name: &str) -> Option<Signature> {
        let _ = name;
        None
    }

    /// Whether [`signature`](Self::signature) knows all methods, so that a name without one is
    /// none, and arguments to it are not even evaluated.
    fn declares_methods(&self) -> bool {
        false
    }

    /// Calls a method; `None` if the type has none of that name. The error is Go's error text.
    fn call(&self, name: &str, arguments: &[Value]) -> Option<Result<Value, String>> {
        let _ = (name, arguments);
        None
    }

    /// The map that this object is in Go, if it is one (`.Files` is a `map[string][]byte`): what
    /// `range`, `index`, `len` and the printing of it work on.
    fn as_map(&self) -> Option<Map> {
        None
    }

    /// The slice that this object is in Go, if it is one (`.Capabilities.APIVersions` is a
    /// `[]string` with methods): what `range`, `index`, `len` and the printing of it work on.
    fn as_list(&self) -> Option<List> {
        None
    }

    /// What `encoding/json` makes of it, for `toJson` and `toYaml`: a map of the exported fields
    /// under their JSON names for a struct. `None`: the map or the slice that it is, else the text
    /// that it displays.
    fn to_json(&self) -> Option<Value> {
        None
    }

    /// The JSON names of a struct's fields in the order of their declaration, which is the order in
    /// which `toJson` prints them; those that [`to_json`](Self::to_json) leaves out are skipped.
    /// Empty: byte order.
    fn json_fields(&self) -> &'static [&'static str] {
        &[]
    }

    /// What yaml.v3 makes of it, for `toYamlPretty`: fields go by their lower-cased Go names.
    fn to_yaml(&self) -> Option<Value> {
        self.to_json()
    }

    /// Text that yaml.v3 prints without quotes, whatever it looks like: a time.
    fn to_plain_yaml(&self) -> Option<Str> {
        None
    }

    /// As [`json_fields`](Self::json_fields), for [`to_yaml`](Self::to_yaml).
    fn yaml_fields(&self) -> &'static [&'static str] {
        &[]
    }

    /// The plain value that this object is in Go, if it is one: a duration is an `int64`. What
    /// comparison, truth and the number verbs of `printf` work on.
    fn as_basic(&self) -> Option<Value> {
        None
    }

    /// Whether the value counts as true, if it is no map, no slice and no plain value: a struct is
    /// always true, a pointer if it is not nil.
    fn is_true(&self) -> bool {
        true
    }

    /// The fields of a struct in order, for the verbs of `printf` that show them.
    fn members(&self) -> Option<Vec<(&'static str, Value)>> {
        None
    }

    /// Whether the Go type has `String()` or `Error()`, so that [`display`](Self::display) is what
    /// `%v` and `%s` print. Otherwise they print the [`members`](Self::members), if there are any.
    fn is_stringer(&self) -> bool {
        true
    }

    /// Whether Go's `==` holds for two values of this type; the same object is equal anyway.
    fn equals(&self, other: &dyn Object) -> bool {
        let _ = other;
        false
    }

    /// What `%v` prints: `String()` where the type has one.
    fn display(&self) -> Str;

    /// The copy that an argument of type `any` gets, where it behaves otherwise than the value in
    /// its place: a struct whose `String()` has a pointer for its receiver prints its fields then.
    fn copied(&self) -> Option<Value> {
        None
    }

    /// For a downcast by the functions that made it.
    fn as_any(&self) -> &dyn std::any::Any;
}
