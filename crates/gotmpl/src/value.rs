//! The value model: Go's kinds kept apart, maps with reference semantics.

use std::borrow::Cow;
use std::cell::{Cell, Ref, RefCell, RefMut};
use std::collections::BTreeMap;
use std::fmt;
use std::rc::Rc;

use crate::function::Signature;
use crate::{Str, Type};

/// A value that a template can hold. Cheap to clone: containers are shared, not copied.
///
/// Values belong to one thread, as one render does; what is kept between renders is a
/// `goyaml::Tree`, which is `Send` and shares its strings with the values made from it.
#[derive(Clone)]
pub enum Value {
    /// The untyped nil, and the nil interface; prints `<no value>` at top level, `<nil>` inside.
    Nil,
    /// `bool`
    Bool(bool),
    /// `int`
    Int(i64),
    /// `int64`
    Int64(i64),
    /// `uint64`
    Uint64(u64),
    /// `int32` (a Go `rune`)
    Int32(i32),
    /// `uint8` (a Go `byte`)
    Uint8(u8),
    /// `float64`
    Float64(f64),
    /// `string`
    String(Str),
    /// `[]byte`
    Bytes(Str),
    /// A slice; never changed in place, as no template function does so.
    List(List),
    /// A map with string keys and reference semantics.
    Map(Map),
    /// A struct or a pointer to one, with fields and methods: `.Files`, a certificate, a time.
    Object(Rc<dyn Object>),
}

/// A Go slice: its element type and its elements.
#[derive(Clone)]
pub struct List(Rc<ListInner>);

struct ListInner {
    element: Type,
    nil: bool,
    items: Vec<Value>,
}

impl Drop for ListInner {
    fn drop(&mut self) {
        release(Children::Items(std::mem::take(&mut self.items)));
    }
}

impl List {
    /// `[]interface {}`.
    #[must_use]
    pub fn new(items: Vec<Value>) -> Self {
        Self::typed(Type::Any, items)
    }

    /// `[]element`; the caller keeps to that type.
    #[must_use]
    pub fn typed(element: Type, items: Vec<Value>) -> Self {
        Self(Rc::new(ListInner {
            element,
            nil: false,
            items,
        }))
    }

    /// A nil slice: empty, `null` in JSON, equal to `nil`. What a function gets for a missing
    /// argument of a slice type.
    #[must_use]
    pub fn nil(element: Type) -> Self {
        Self(Rc::new(ListInner {
            element,
            nil: true,
            items: Vec::new(),
        }))
    }

    /// `[]string`.
    pub fn strings<S: Into<Str>>(items: impl IntoIterator<Item = S>) -> Self {
        let items = items
            .into_iter()
            .map(|item| Value::String(item.into()))
            .collect();
        Self::typed(Type::String, items)
    }

    /// The element type.
    #[must_use]
    pub fn element(&self) -> Type {
        self.0.element
    }

    /// The elements.
    #[must_use]
    pub fn items(&self) -> &[Value] {
        &self.0.items
    }

    /// Whether this is a nil slice.
    #[must_use]
    pub fn is_nil(&self) -> bool {
        self.0.nil
    }

    /// Whether nothing else refers to it.
    pub(crate) fn is_unshared(&self) -> bool {
        Rc::strong_count(&self.0) == 1
    }
}

/// A Go `map[string]T`: clones refer to the same map.
#[derive(Clone)]
pub struct Map(Rc<MapInner>, Option<&'static NamedMap>);

struct MapInner {
    element: Type,
    nil: bool,
    entries: RefCell<BTreeMap<Str, Value>>,
}

impl Drop for MapInner {
    fn drop(&mut self) {
        release(Children::Entries(std::mem::take(self.entries.get_mut())));
    }
}

/// A Go type that is a map and has methods, as Helm's `common.Values`. Its values go wherever a
/// plain map goes.
pub struct NamedMap {
    /// What `%T` prints.
    pub name: &'static str,
    /// The signature of a method; `None` if the type has none of that name.
    pub signature: fn(&str) -> Option<Signature>,
    /// Calls a method that the type has, with arguments that its signature admits. The error is
    /// Go's error text.
    pub call: fn(&Map, &str, &[Value]) -> Result<Value, String>,
}

impl Map {
    /// An empty `map[string]interface {}`.
    #[must_use]
    pub fn new() -> Self {
        Self::typed(Type::Any, BTreeMap::new())
    }

    /// A `map[string]interface {}` with these entries.
    pub fn from_entries<K: Into<Str>>(entries: impl IntoIterator<Item = (K, Value)>) -> Self {
        let entries = entries
            .into_iter()
            .map(|(key, value)| (key.into(), value))
            .collect();
        Self::typed(Type::Any, entries)
    }

    /// A `map[string]element`; the caller keeps to that type.
    #[must_use]
    pub fn typed(element: Type, entries: BTreeMap<Str, Value>) -> Self {
        Self::build(element, false, None, entries)
    }

    /// A nil map: empty, `null` in JSON, equal to `nil`. What a function gets for a missing
    /// argument of a map type. Go panics with `assignment to entry in nil map` when one is written
    /// to; here the functions that write have to ask first.
    #[must_use]
    pub fn nil(element: Type) -> Self {
        Self::build(element, true, None, BTreeMap::new())
    }

    /// A map of a named type with methods.
    #[must_use]
    pub fn named(name: &'static NamedMap, entries: BTreeMap<Str, Value>) -> Self {
        Self::build(Type::Any, false, Some(name), entries)
    }

    /// The very same map under a named type, as Go's conversion gives it: what is written through
    /// one is seen through the other.
    #[must_use]
    pub fn with_name(&self, name: &'static NamedMap) -> Self {
        Self(Rc::clone(&self.0), Some(name))
    }

    /// The very same map under its plain type.
    #[must_use]
    pub fn without_name(&self) -> Self {
        Self(Rc::clone(&self.0), None)
    }

    fn build(
        element: Type,
        nil: bool,
        name: Option<&'static NamedMap>,
        entries: BTreeMap<Str, Value>,
    ) -> Self {
        let entries = RefCell::new(entries);
        let inner = MapInner {
            element,
            nil,
            entries,
        };
        Self(Rc::new(inner), name)
    }

    /// The element type.
    #[must_use]
    pub fn element(&self) -> Type {
        self.0.element
    }

    /// The name of the type, if it is not the plain `map[string]element`.
    #[must_use]
    pub fn type_name(&self) -> Option<&'static str> {
        self.1.map(|named| named.name)
    }

    /// The named type of the map, if it has one.
    #[must_use]
    pub fn methods(&self) -> Option<&'static NamedMap> {
        self.1
    }

    /// Whether this is a nil map.
    #[must_use]
    pub fn is_nil(&self) -> bool {
        self.0.nil
    }

    /// The value of a key.
    #[must_use]
    pub fn get(&self, key: &[u8]) -> Option<Value> {
        self.0.entries.borrow().get(key).cloned()
    }

    /// Whether there is such a key.
    #[must_use]
    pub fn contains(&self, key: &[u8]) -> bool {
        self.0.entries.borrow().contains_key(key)
    }

    /// Sets a key for every holder of this map.
    pub fn insert(&self, key: Str, value: Value) -> Option<Value> {
        self.0.entries.borrow_mut().insert(key, value)
    }

    /// Removes a key for every holder of this map.
    pub fn remove(&self, key: &[u8]) -> Option<Value> {
        self.0.entries.borrow_mut().remove(key)
    }

    /// How many keys there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.entries.borrow().len()
    }

    /// Whether there is no key.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The entries, in byte order of the keys. Hold the guard no longer than needed: a write to the
    /// same map while it lives is a fault of ours.
    #[must_use]
    pub fn entries(&self) -> Ref<'_, BTreeMap<Str, Value>> {
        self.0.entries.borrow()
    }

    /// The entries, to change.
    #[must_use]
    pub fn entries_mut(&self) -> RefMut<'_, BTreeMap<Str, Value>> {
        self.0.entries.borrow_mut()
    }

    /// Whether both names refer to one map.
    #[must_use]
    pub fn same(&self, other: &Self) -> bool {
        Rc::ptr_eq(&self.0, &other.0)
    }

    /// Whether nothing else refers to it.
    pub(crate) fn is_unshared(&self) -> bool {
        Rc::strong_count(&self.0) == 1
    }
}

impl Default for Map {
    fn default() -> Self {
        Self::new()
    }
}

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

    /// For a downcast by the functions that made it.
    fn as_any(&self) -> &dyn std::any::Any;
}

impl Value {
    /// A string.
    pub fn string(text: impl Into<Str>) -> Self {
        Self::String(text.into())
    }

    /// A `[]interface {}`.
    #[must_use]
    pub fn list(items: Vec<Self>) -> Self {
        Self::List(List::new(items))
    }

    /// The Go type, as `%T` prints it; `None` for nil.
    #[must_use]
    pub fn go_type(&self) -> Option<Type> {
        Some(match self {
            Self::Nil => return None,
            Self::Bool(_) => Type::Bool,
            Self::Int(_) => Type::Int,
            Self::Int64(_) => Type::Int64,
            Self::Uint64(_) => Type::Uint64,
            Self::Int32(_) => Type::Int32,
            Self::Uint8(_) => Type::Uint8,
            Self::Float64(_) => Type::Float64,
            Self::String(_) => Type::String,
            Self::Bytes(_) => Type::List(&Type::Uint8),
            // Elements of a container of containers are reported as `interface {}` unless known.
            Self::List(list) => match list.element() {
                Type::Bool => Type::List(&Type::Bool),
                Type::String => Type::List(&Type::String),
                Type::Int => Type::List(&Type::Int),
                Type::Int64 => Type::List(&Type::Int64),
                Type::Float64 => Type::List(&Type::Float64),
                Type::Map(Type::Any) => Type::List(&Type::Map(&Type::Any)),
                Type::Map(Type::String) => Type::List(&Type::Map(&Type::String)),
                Type::List(Type::Any) => Type::List(&Type::List(&Type::Any)),
                Type::List(Type::String) => Type::List(&Type::List(&Type::String)),
                _ => Type::List(&Type::Any),
            },
            Self::Map(map) => match (map.type_name(), map.element()) {
                (Some(name), _) => Type::Named(name),
                (None, Type::String) => Type::Map(&Type::String),
                (None, Type::List(Type::Uint8)) => Type::Map(&Type::List(&Type::Uint8)),
                (None, Type::List(Type::String)) => Type::Map(&Type::List(&Type::String)),
                _ => Type::Map(&Type::Any),
            },
            Self::Object(object) => Type::Named(object.go_type()),
        })
    }

    /// The name of the Go type, as `%T` prints it: `<nil>` for nil.
    #[must_use]
    pub fn type_name(&self) -> Cow<'static, str> {
        match self {
            Self::Nil => "<nil>".into(),
            Self::Object(object) => object.go_type().into(),
            _ => {
                let mut name = Vec::new();
                crate::fmt::append_type(&mut name, self);
                String::from_utf8_lossy(&name).into_owned().into()
            }
        }
    }
}

/// What a container held.
enum Children {
    Items(Vec<Value>),
    Entries(BTreeMap<Str, Value>),
}

/// How deep containers are freed by recursion before the rest waits for its turn.
const RELEASE_DEPTH: u32 = 64;

thread_local! {
    static RELEASING: Cell<u32> = const { Cell::new(0) };
    static PENDING: RefCell<Vec<Children>> = const { RefCell::new(Vec::new()) };
}

/// Frees what a container held. A list in a list in a list …, a million deep, is easily made by a
/// template; freed by recursion it would overflow the native stack.
fn release(children: Children) {
    let depth = RELEASING.try_with(Cell::get).unwrap_or(0);
    if depth >= RELEASE_DEPTH {
        // Without thread-local storage, when the thread ends, they are freed right here.
        let _ = PENDING.try_with(|pending| pending.borrow_mut().push(children));
        return;
    }
    release_at(depth + 1, children);
    while depth == 0
        && let Some(children) = next_pending()
    {
        release_at(1, children);
    }
    let _ = RELEASING.try_with(|releasing| releasing.set(depth));
}

fn release_at(depth: u32, children: Children) {
    let _ = RELEASING.try_with(|releasing| releasing.set(depth));
    match children {
        Children::Items(items) => drop(items),
        Children::Entries(entries) => drop(entries),
    }
}

fn next_pending() -> Option<Children> {
    PENDING
        .try_with(|pending| pending.borrow_mut().pop())
        .ok()
        .flatten()
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::String(text.into())
    }
}

impl From<Str> for Value {
    fn from(text: Str) -> Self {
        Self::String(text)
    }
}

impl From<bool> for Value {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

impl From<Map> for Value {
    fn from(map: Map) -> Self {
        Self::Map(map)
    }
}

impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nil => f.write_str("nil"),
            Self::Bool(value) => write!(f, "{value}"),
            Self::Int(value) => write!(f, "int({value})"),
            Self::Int64(value) => write!(f, "int64({value})"),
            Self::Uint64(value) => write!(f, "uint64({value})"),
            Self::Int32(value) => write!(f, "int32({value})"),
            Self::Uint8(value) => write!(f, "uint8({value})"),
            Self::Float64(value) => write!(f, "float64({value})"),
            Self::String(text) => write!(f, "{text:?}"),
            Self::Bytes(bytes) => write!(f, "bytes({bytes:?})"),
            Self::List(list) => f.debug_list().entries(list.items()).finish(),
            Self::Map(map) => f.debug_map().entries(map.entries().iter()).finish(),
            Self::Object(object) => write!(f, "{}({:?})", object.go_type(), object.display()),
        }
    }
}
