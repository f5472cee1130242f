//! What holds for any text, format and value.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "what cannot be run is a failed test"
)]

mod common;

use common::run;
use gotmpl::{Budget, Limits, List, Map, Str, Type, Value, fmt, strconv};
use proptest::prelude::*;

fn small() -> Budget {
    Budget::new(Limits {
        steps: 20_000,
        depth: 100,
        output: 1 << 20,
        memory: 4 << 20,
        time: None,
    })
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Nil),
        any::<bool>().prop_map(Value::Bool),
        any::<i64>().prop_map(Value::Int),
        any::<i64>().prop_map(Value::Int64),
        any::<u64>().prop_map(Value::Uint64),
        any::<i32>().prop_map(Value::Int32),
        any::<u8>().prop_map(Value::Uint8),
        any::<f64>().prop_map(Value::Float64),
        prop::collection::vec(any::<u8>(), 0..12).prop_map(|bytes| Value::String(bytes.into())),
        "\\PC{0,8}".prop_map(Value::string),
        prop::collection::vec(any::<u8>(), 0..12).prop_map(|bytes| Value::Bytes(bytes.into())),
        Just(Value::List(List::nil(Type::Any))),
        Just(Value::Map(Map::nil(Type::Any))),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::list),
            prop::collection::vec(("[a-c]{0,2}", inner), 0..4)
                .prop_map(|entries| Map::from_entries(entries).into()),
        ]
    })
}

/// Pieces that texts are made of, so that more than noise comes out.
fn template() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "{{",
        "}}",
        "{{- ",
        " -}}",
        " ",
        "\n",
        ".",
        ".s",
        ".l",
        ".m.one",
        "$",
        "$x",
        ":=",
        "=",
        "|",
        "(",
        ")",
        ",",
        "\"a\"",
        "`r`",
        "'c'",
        "1",
        "1.5",
        "0x",
        "nil",
        "true",
        "if ",
        "else",
        "end",
        "range ",
        "with ",
        "define ",
        "template ",
        "block ",
        "break",
        "continue",
        "print ",
        "index ",
        "and ",
        "/*",
        "*/",
        "{{end}}",
        "{{else}}",
        "{{if .t}}",
        "{{range .l}}",
        "{{with .m}}",
        "x",
        "é",
        "\\",
        "\"",
    ]);
    prop::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn bytes_print_as_the_list_of_their_numbers(
        bytes in prop::collection::vec(any::<u8>(), 0..3000),
        format in prop::sample::select(vec!["%v", "%d", "%+v", "%5d", "%03v", "%.2d", "% d", "%-4v|"]),
    ) {
        let numbers = Value::list(bytes.iter().map(|byte| Value::Uint8(*byte)).collect::<Vec<_>>());
        prop_assert_eq!(
            gotmpl::fmt::sprintf(format.as_bytes(), &[Value::Bytes(bytes.into())]),
            gotmpl::fmt::sprintf(format.as_bytes(), &[numbers])
        );
    }

    #[test]
    fn any_bytes_are_a_template_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        run("zero", &[&bytes], &mut small());
    }

    #[test]
    fn any_action_is_executed_or_an_error(action in "\\PC{0,40}") {
        run("zero", &[format!("{{{{{action}}}}}").as_bytes()], &mut small());
    }

    #[test]
    fn any_pieces_are_executed_or_an_error(text in template(), mode in prop::sample::select(vec!["zero", "default", "error"])) {
        run(mode, &[text.as_bytes()], &mut small());
    }

    #[test]
    fn any_format_prints_any_values(format in "(%[-+# 0]{0,3}[0-9*]{0,3}(\\.[0-9*]{0,3})?(\\[[0-9]\\])?[a-zA-Z%]|\\PC){0,4}", values in prop::collection::vec(value(), 0..4)) {
        let text = fmt::sprintf(format.as_bytes(), &values).unwrap();
        prop_assert!(text.len() < 1 << 20);
    }

    #[test]
    fn text_without_actions_prints_itself(text in "[^{]{0,60}") {
        let outcome = run("zero", &[text.as_bytes()], &mut small());
        prop_assert_eq!(outcome.text, text.as_bytes());
    }

    #[test]
    fn a_quoted_string_is_a_constant_of_the_same_bytes(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
        let quoted = strconv::quote(&bytes);
        let outcome = run("zero", &[format!("{{{{{quoted}}}}}").as_bytes()], &mut small());
        prop_assert_eq!(outcome.text, bytes);
    }

    #[test]
    fn the_shortest_form_of_a_float_reads_back(bits in any::<u64>()) {
        let float = f64::from_bits(bits);
        prop_assume!(float.is_finite());
        for verb in [b'g', b'e', b'f'] {
            let text = strconv::format_float(float, verb, None);
            prop_assert_eq!(text.parse::<f64>().unwrap().to_bits(), bits);
        }
    }

    #[test]
    fn a_float_constant_is_the_float(bits in any::<u64>()) {
        let float = f64::from_bits(bits);
        prop_assume!(float.is_finite());
        let source = strconv::format_float(float, b'e', None);
        let outcome = run("zero", &[format!("{{{{{source}}}}}").as_bytes()], &mut small());
        prop_assert_eq!(outcome.text, strconv::format_float(float, b'g', None).into_bytes());
        let hex = strconv::format_float(float, b'x', None);
        let outcome = run("zero", &[format!("{{{{{hex}}}}}").as_bytes()], &mut small());
        prop_assert_eq!(outcome.text, strconv::format_float(float, b'g', None).into_bytes());
    }

    #[test]
    fn comparison_agrees_with_itself(left in value(), right in value()) {
        if let (Ok(less), Ok(more)) = (gotmpl::less(&left, &right), gotmpl::less(&right, &left)) {
            prop_assert!(!(less && more));
            let equal = gotmpl::equal(&left, &right).unwrap();
            prop_assert!(!(equal && (less || more)));
        }
        prop_assert_eq!(gotmpl::equal(&left, &right).is_ok(), gotmpl::equal(&right, &left).is_ok());
    }

    #[test]
    fn a_value_passes_through_unharmed(value in value()) {
        let mut expected = Vec::new();
        match &value {
            Value::Nil => expected.extend_from_slice(b"<no value>"),
            value => fmt::append_value(&mut expected, value, fmt::LIMIT).unwrap(),
        }
        let functions = common::functions();
        let mut set = gotmpl::TemplateSet::new("gotpl");
        set.parse("t", "{{any .}}", &functions).unwrap();
        let printed = set
            .execute("t", &value, &functions, &mut (), gotmpl::Options::default(), &mut small())
            .unwrap();
        prop_assert_eq!(Str::from(printed), Str::from(expected));
    }
}
