//! What holds for all values, and for values with Go types of their own.

use gotmpl::{List, Map, Object, Str, Type, Value};
use goyaml::Tree;
use proptest::prelude::*;

fn trees() -> impl Strategy<Value = Tree> {
    let leaf = prop_oneof![
        Just(Tree::Null),
        any::<bool>().prop_map(Tree::from),
        any::<f64>()
            .prop_filter("JSON has finite numbers", |number| number.is_finite())
            .prop_map(Tree::from),
        (-1_000_000..1_000_000_i32).prop_map(|number| Tree::from(f64::from(number))),
        ".{0,120}".prop_map(Tree::from),
        "[ -~\n]{0,120}".prop_map(Tree::from),
        "([a-z]{1,9} ){8,24}[a-z]".prop_map(Tree::from),
    ];
    leaf.prop_recursive(5, 40, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Tree::from),
            prop::collection::vec(("[a-zA-Z0-9./ _:#-]{0,20}", inner), 0..6)
                .prop_map(|entries| entries.into_iter().collect()),
        ]
    })
}

/// Whether YAML keeps this string on its way through JSON.
fn is_kept(text: &Str) -> bool {
    text.to_text()
        .chars()
        .all(|c| !matches!(c, '\u{7F}'..='\u{9F}' | '\u{FFFE}' | '\u{FFFF}'))
}

fn all_kept(tree: &Tree) -> bool {
    match tree {
        Tree::String(text) => is_kept(text),
        Tree::List(items) => items.iter().all(all_kept),
        Tree::Map(entries) => entries
            .iter()
            .all(|(key, value)| is_kept(key) && all_kept(value)),
        _ => true,
    }
}

proptest! {
    #[test]
    fn any_bytes_are_read_or_refused(text in prop::collection::vec(any::<u8>(), 0..400)) {
        let _ = goyaml::read(&text);
        let _ = goyaml::read_head(&text);
        let _ = goyaml::read_values(&text);
        let _ = goyaml::read_json(&text);
    }

    #[test]
    fn yaml_of_a_tree_reads_as_the_tree(tree in trees()) {
        prop_assume!(all_kept(&tree));
        let yaml = goyaml::to_yaml_tree(&tree).unwrap();
        let read = goyaml::read(&yaml).unwrap();
        // A negative zero goes through JSON as an integer.
        prop_assert_eq!(read, positive_zeros(tree));
    }

    #[test]
    fn json_of_a_tree_reads_as_the_tree(tree in trees()) {
        let value = tree.to_value();
        for json in [
            goyaml::to_json(&value),
            goyaml::to_json_pretty(&value),
            goyaml::to_json_raw(&value),
        ] {
            prop_assert_eq!(&goyaml::read_json(&json.unwrap()).unwrap(), &tree);
        }
        prop_assert_eq!(Tree::from_value(&value).unwrap(), tree);
    }

    #[test]
    fn trees_and_values_are_written_alike(tree in trees()) {
        let value = tree.to_value();
        prop_assert_eq!(goyaml::to_yaml(&value), goyaml::to_yaml_tree(&tree));
        prop_assert_eq!(goyaml::to_json(&value), goyaml::to_json_tree(&tree));
    }
}

fn positive_zeros(tree: Tree) -> Tree {
    match tree {
        Tree::Float64(0.0) => Tree::Float64(0.0),
        Tree::List(items) => Tree::List(items.into_iter().map(positive_zeros).collect()),
        Tree::Map(entries) => entries
            .into_iter()
            .map(|(key, value)| (key, positive_zeros(value)))
            .collect(),
        other => other,
    }
}

/// A struct with two fields, as `.Capabilities.KubeVersion` is one.
struct Version;

impl Object for Version {
    fn go_type(&self) -> &'static str {
        "common.KubeVersion"
    }

    fn to_json(&self) -> Option<Value> {
        let fields = [("Version", "v1.37.0"), ("Major", "1")];
        Some(Value::Map(Map::from_entries(
            fields.map(|(name, value)| (name, Value::from(value))),
        )))
    }

    fn json_fields(&self) -> &'static [&'static str] {
        &["Version", "Major", "Minor"]
    }

    fn to_yaml(&self) -> Option<Value> {
        let fields = [("version", "v1.37.0"), ("major", "1")];
        Some(Value::Map(Map::from_entries(
            fields.map(|(name, value)| (name, Value::from(value))),
        )))
    }

    fn yaml_fields(&self) -> &'static [&'static str] {
        &["version", "major"]
    }

    fn display(&self) -> Str {
        "v1.37.0".into()
    }

    fn as_any(&self) -> &dyn std::any::Any {
        self
    }
}

#[test]
fn fields_of_structs_keep_their_order_but_not_through_json_into_yaml() {
    let value = Value::Object(std::rc::Rc::new(Version));
    assert_eq!(
        goyaml::to_json(&value).unwrap(),
        br#"{"Version":"v1.37.0","Major":"1"}"#
    );
    assert_eq!(
        goyaml::to_yaml(&value).unwrap(),
        b"Major: \"1\"\nVersion: v1.37.0\n"
    );
    assert_eq!(
        goyaml::to_yaml_pretty(&value).unwrap(),
        b"version: v1.37.0\nmajor: \"1\"\n"
    );
}

#[test]
fn nil_maps_and_slices_are_null_in_json_and_empty_in_yaml_v3() {
    for (value, empty) in [
        (Value::Map(Map::nil(Type::Any)), "{}\n"),
        (Value::List(List::nil(Type::Any)), "[]\n"),
    ] {
        assert_eq!(goyaml::to_json(&value).unwrap(), b"null");
        assert_eq!(goyaml::to_yaml(&value).unwrap(), b"null\n");
        assert_eq!(goyaml::to_yaml_pretty(&value).unwrap(), empty.as_bytes());
    }
}

#[test]
fn bytes_are_base64_in_json_and_numbers_in_yaml_v3() {
    let slice = List::typed(Type::Uint8, vec![Value::Uint8(104), Value::Uint8(105)]);
    for value in [Value::Bytes(Str::from("hi")), Value::List(slice)] {
        assert_eq!(goyaml::to_json(&value).unwrap(), br#""aGk=""#);
        assert_eq!(goyaml::to_yaml(&value).unwrap(), b"aGk=\n");
        assert_eq!(goyaml::to_yaml_pretty(&value).unwrap(), b"- 104\n- 105\n");
    }
}

#[test]
fn errors_know_their_line_even_where_go_names_another() {
    for (text, line, message) in [
        (
            "a: b: c",
            Some(1),
            "yaml: mapping values are not allowed in this context",
        ),
        (
            "a: b\nc: d: e",
            Some(2),
            "yaml: line 2: mapping values are not allowed in this context",
        ),
        (
            "a:\n  - b\n c: d",
            Some(3),
            "yaml: line 2: did not find expected key",
        ),
        ("a: *b", None, "yaml: unknown anchor 'b' referenced"),
    ] {
        let error = goyaml::read(text.as_bytes()).unwrap_err();
        assert_eq!(error.line(), line, "{text}");
        assert_eq!(
            error.text(),
            format!("error converting YAML to JSON: {message}")
        );
    }
}

#[test]
fn trees_tell_what_they_hold() {
    let tree = goyaml::read(b"a: {b: [x, 1, true]}\nz: ~").unwrap();
    let list = tree.path(&["a", "b"]).and_then(Tree::as_list).unwrap();
    assert_eq!(list[0].as_str().unwrap().as_bytes(), b"x");
    assert_eq!(list[1].as_f64(), Some(1.0));
    assert_eq!(list[2].as_bool(), Some(true));
    assert!(tree.get("z").unwrap().is_null());
    assert_eq!(tree.path(&["a", "c"]), None);
    assert_eq!(tree.path(&["a", "b", "c"]), None);
    let kinds: Vec<_> = list.iter().map(Tree::kind).collect();
    assert_eq!(kinds, ["string", "number", "bool"]);
    assert_eq!(tree.kind(), "object");
}
