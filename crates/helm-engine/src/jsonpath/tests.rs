use goyaml::Tree;

use super::{ExecError, JsonPath, ParseError};

const SHOP: &str = r#"
name: corner
owner: {first: Ann, "last.name": Lee, "it's": so}
open: true
closed: null
rating: 4.5
visits: 123456789012345678901
empty: []
shelves:
- {label: tea, rows: 3, prices: [2, 2.5], sold: true}
- {label: coffee, rows: 12, prices: []}
- {label: "a b", rows: 7.5, sold: false, extra: {from: far}}
letters: [a, b, c, d, e]
mixed: [1, two, null, [3], {four: 4}]
html: "<&>"
"#;

fn shop() -> Tree {
    goyaml::read(SHOP.as_bytes()).unwrap()
}

fn printed(template: &str) -> String {
    let path = JsonPath::parse(template).unwrap_or_else(|error| panic!("{template}: {error}"));
    let out = path.execute(&shop());
    let out = out.unwrap_or_else(|error| panic!("{template}: {error}"));
    String::from_utf8(out).unwrap()
}

fn check(table: &[(&str, &str)]) {
    for (template, want) in table {
        assert_eq!(printed(template), *want, "{template}");
    }
}

fn exec_error(template: &str) -> String {
    let path = JsonPath::parse(template).unwrap_or_else(|error| panic!("{template}: {error}"));
    path.execute(&shop()).expect_err(template).to_string()
}

#[test]
fn text_outside_of_braces_is_printed_as_it_is() {
    check(&[
        ("", ""),
        ("plain", "plain"),
        ("a } b \\n \u{e9}\n", "a } b \\n \u{e9}\n"),
        ("[{.name}]", "[corner]"),
        ("{.name}{.rating}", "corner4.5"),
    ]);
}

#[test]
fn quoted_texts_have_the_escapes_of_go() {
    check(&[
        (r#"{"x"}"#, "x"),
        ("{'x'}", "x"),
        (r#"{"a\tb\n"}"#, "a\tb\n"),
        (r#"{"\u00e9\x41\101"}"#, "\u{e9}AA"),
        (r#"{'"'}{"'"}"#, "\"'"),
        (r#"{'it\'s'}{"\""}"#, "it's\""),
        (r#"{""}"#, ""),
        (r#"{.name "x"}"#, "x"),
        // Each text takes the place of what was found before it.
        (r#"{.letters "x"}"#, "x"),
    ]);
}

#[test]
fn literals_are_printed_for_each_value_before_them() {
    check(&[
        ("{1}", "1"),
        ("{-3}{+4}", "-34"),
        ("{1.50}", "1.5"),
        ("{+.5}", "0.5"),
        ("{123456789012345678901}", "1.2345678901234568e+20"),
        ("{100000000000000000000000}", "1e+23"),
        ("{true}{false}", "truefalse"),
        ("{.letters[0:2] 7}", "7 7"),
        ("{.letters[0:2] true}", "true true"),
    ]);
}

#[test]
fn fields_are_found_in_maps() {
    check(&[
        ("{.owner.first}", "Ann"),
        ("{$.owner.first}", "Ann"),
        ("{@.owner.first}", "Ann"),
        ("{ .owner .first }", "Ann"),
        ("{.owner['first']}", "Ann"),
        ("{['owner']['first']}", "Ann"),
        (r"{.owner.last\.name}", "Lee"),
        (r"{.owner['last\.name']}", "Lee"),
        (r"{.owner.it's}", "so"),
        ("{.shelves[*].extra.from}", "far"),
        ("{.shelves[*].sold}", "true false"),
    ]);
}

#[test]
fn scalars_are_printed_as_fmt_does_and_the_rest_as_json() {
    check(&[
        ("{.open}", "true"),
        ("{.closed}", "null"),
        ("{.rating}", "4.5"),
        ("{.visits}", "1.2345678901234568e+20"),
        ("{.html}", "<&>"),
        ("{.empty}", "[]"),
        ("{.mixed}", r#"[1,"two",null,[3],{"four":4}]"#),
        ("{.mixed[*]}", r#"1 two null [3] {"four":4}"#),
        (
            "{.owner}",
            r#"{"first":"Ann","it's":"so","last.name":"Lee"}"#,
        ),
    ]);
    let html = goyaml::read(b"a: ['<&>']").unwrap();
    let path = JsonPath::parse("{.a}").unwrap();
    assert_eq!(path.execute(&html).unwrap(), br#"["\u003c\u0026\u003e"]"#);
}

#[test]
fn lists_are_indexed_and_sliced_as_in_client_go() {
    check(&[
        ("{.letters[0]}", "a"),
        ("{.letters[]}", "a"),
        ("{.letters[-1]}", "e"),
        ("{.letters[-5]}", "a"),
        ("{.letters[*]}", "a b c d e"),
        ("{.letters[:]}", "a b c d e"),
        ("{.letters[1:3]}", "b c"),
        ("{.letters[3:]}", "d e"),
        ("{.letters[:2]}", "a b"),
        ("{.letters[-2:]}", "d e"),
        ("{.letters[:-3]}", "a b"),
        ("{.letters[::2]}", "a c e"),
        ("{.letters[1:4:2]}", "b d"),
        ("{.letters[0:5:9]}", "a"),
        ("{.letters[2:2]}", ""),
        ("{.letters[9:9]}", ""),
        ("{.empty[*]}", ""),
        ("{.closed[0]}", ""),
        // Nothing of the second list ends the search.
        ("{.shelves[0:2].prices[:]}", "2 2.5"),
    ]);
}

#[test]
fn bounds_that_a_list_does_not_have_are_errors() {
    for (template, want) in [
        (
            "{.letters[5]}",
            "array index out of bounds: index 5, length 5",
        ),
        (
            "{.letters[-6]}",
            "array index out of bounds: index -1, length 5",
        ),
        (
            "{.letters[0:6]}",
            "array index out of bounds: index 5, length 5",
        ),
        (
            "{.letters[0:-6]}",
            "array index out of bounds: index -2, length 5",
        ),
        (
            "{.letters[3:1]}",
            "starting index 3 is greater than ending index 1",
        ),
        ("{.letters[::0]}", "step must be > 0"),
        ("{.letters[::-1]}", "step must be > 0"),
        (
            "{.letters[9223372036854775807]}",
            "array index out of bounds: index 9223372036854775807, length 5",
        ),
        ("{.name[0]}", "string is not array or slice"),
        (
            "{.owner[0]}",
            "map[string]interface {} is not array or slice",
        ),
        ("{.open[0]}", "bool is not array or slice"),
        ("{.rating[0]}", "float64 is not array or slice"),
        ("{1[0]}", "int is not array or slice"),
        ("{.name.*[0]}", "uint8 is not array or slice"),
    ] {
        assert_eq!(exec_error(template), want, "{template}");
    }
}

#[test]
fn unions_find_what_each_part_finds() {
    check(&[
        ("{.letters[0,2]}", "a c"),
        ("{.letters[0, -1 ,1:3]}", "a e b c"),
        ("{.letters[0,0]}", "a a"),
        (r"{.owner['first','last\.name']}", "Ann Lee"),
    ]);
}

#[test]
fn wildcards_come_in_the_order_of_the_keys() {
    check(&[
        ("{.owner.*}", "Ann so Lee"),
        ("{.letters.*}", "a b c d e"),
        ("{.name.*}", "99 111 114 110 101 114"),
        ("{.rating.*}", ""),
        ("{.closed.*}", ""),
        ("{.shelves[2].extra.*}", "far"),
    ]);
}

#[test]
fn descent_finds_what_has_parts_from_the_outside_in() {
    check(&[
        ("{..from}", "far"),
        ("{..rows}", "3 12 7.5"),
        (
            "{.mixed..}",
            r#"[1,"two",null,[3],{"four":4}] two [3] {"four":4}"#,
        ),
        (
            "{.mixed...*}",
            r#"1 two null [3] {"four":4} 116 119 111 3 4"#,
        ),
        ("{.empty..}", ""),
        ("{.closed..}", ""),
        ("{.rating..}", ""),
        (r#"{"ab"..}"#, "ab"),
    ]);
}

#[test]
fn filters_compare_values_of_one_kind() {
    check(&[
        ("{.shelves[?(@.label==\"tea\")].rows}", "3"),
        ("{.shelves[?(@.label=='a b')].rows}", "7.5"),
        ("{.shelves[?(@.label!=\"tea\")].rows}", "12 7.5"),
        ("{.shelves[?(@.rows>7.0)].label}", "coffee a b"),
        ("{.shelves[?(@.rows>=7.5)].label}", "coffee a b"),
        ("{.shelves[?(@.rows<7.5)].label}", "tea"),
        ("{.shelves[?( @.rows <= 7.5 )].label}", "tea a b"),
        ("{.shelves[?(@.rows==3.0)].label}", "tea"),
        ("{.shelves[?(@.label>\"b\")].label}", "tea coffee"),
        ("{.letters[?(@>=\"d\")]}", "d e"),
        ("{.letters[?(@==\"(\")]}", ""),
        ("{.letters[?(@!=\")]\")]}", "a b c d e"),
        ("{.letters[?(1==1)]}", "a b c d e"),
        ("{.letters[?(true!=true)]}", ""),
        // A byte of a string is compared with a number.
        ("{.letters[?(@.*==98)]}", "b"),
        ("{.empty[?(@.x==1)]}", ""),
    ]);
}

#[test]
fn filters_without_an_operator_ask_whether_something_exists() {
    check(&[
        ("{.shelves[?(@.sold)].label}", "tea a b"),
        ("{.shelves[?(@.extra.from)].label}", "a b"),
        ("{.shelves[?(@.none)]}", ""),
        ("{.shelves[?(@.prices[0])].label}", "tea coffee"),
        // What fails keeps what it was asked of, and so it exists.
        ("{.letters[?(@[0])]}", "a b c d e"),
        ("{.mixed[?(@.four)]}", r#"{"four":4}"#),
    ]);
}

#[test]
fn comparisons_that_go_refuses_are_errors() {
    for (template, want) in [
        (
            "{.shelves[?(@.rows==3)]}",
            "incompatible types for comparison",
        ),
        (
            "{.shelves[?(@.label<1)]}",
            "incompatible types for comparison",
        ),
        ("{.letters[?(true<false)]}", "invalid type for comparison"),
        ("{.letters[?(true>=false)]}", "invalid type for comparison"),
        ("{.mixed[?(@==\"x\")]}", "incompatible types for comparison"),
        ("{.shelves[?(@==\"x\")]}", "invalid type for comparison"),
        (
            "{.letters[?(\"x\"==@.*)]}",
            "incompatible types for comparison",
        ),
        ("{.letters[?(@=\"a\")]}", "unrecognized filter operator ="),
        ("{.letters[?(@=<\"a\")]}", "unrecognized filter operator =<"),
        ("{.shelves[?(@.rows==@.none)]}", "none is not found"),
        ("{.shelves[?(@.none==1)]}", "none is not found"),
        (
            "{.shelves[?(@.*==1)]}",
            "can only compare one element at a time",
        ),
        (
            "{.shelves[?(1==@.*)]}",
            "can only compare one element at a time",
        ),
        (
            "{.name[?(@)]}",
            "corner is not array or slice and cannot be filtered",
        ),
        (
            "{.closed[?(@)]}",
            "<nil> is not array or slice and cannot be filtered",
        ),
        (
            "{.owner[?(@)]}",
            "map[first:Ann it's:so last.name:Lee] is not array or slice and cannot be filtered",
        ),
    ] {
        assert_eq!(exec_error(template), want, "{template}");
    }
}

#[test]
fn ranges_repeat_what_is_before_their_end() {
    check(&[
        ("{range .shelves[*]}{.label},{end}", "tea,coffee,a b,"),
        (
            "{range .shelves[*]}{.label}{\"\\n\"}{end}.",
            "tea\ncoffee\na b\n.",
        ),
        ("a{range .empty[*]}{@}{end}b", "ab"),
        (
            "{range .shelves[0:2]}<{range .prices[*]}{@};{end}>{end}",
            "<2;2.5;><>",
        ),
        ("{range .letters}{@}{end}", r#"["a","b","c","d","e"]"#),
        (
            "{range .letters[0:2]}{@}{end}{range .letters[3:]}{@}{end}",
            "abde",
        ),
        // Null is no value within a range.
        (
            "{range .mixed[*]}[{@}]{end}",
            r#"[1][two][<no value>][[3]][{"four":4}]"#,
        ),
        // A range without an end goes on to the end of the template, and what is behind it is done once more.
        ("{range .letters[0:2]}[{1}]", "[1][1][1]"),
        ("{range .letters[0:2]}{@}{.* end}.", "ab."),
    ]);
}

#[test]
fn a_template_that_fails_prints_nothing() {
    for (template, want) in [
        ("text {.none}", "none is not found"),
        ("{.}", " is not found"),
        ("{.name.x}", "x is not found"),
        ("{foo}", "unrecognized identifier foo"),
        ("{end}", "not in range, nothing to end"),
        ("{range .none[*]}{end}", "none is not found"),
        ("{range .letters[*]}{.x}{end}", "x is not found"),
        // Also of a range over nothing the rest is gone over.
        ("{range .empty[*]}{foo}{end}", "unrecognized identifier foo"),
        (
            "{range .letters[*]}{@}{end}{end}",
            "not in range, nothing to end",
        ),
    ] {
        assert_eq!(exec_error(template), want, "{template}");
    }
}

#[test]
fn texts_that_are_no_templates_are_refused_as_client_go_does() {
    for (template, want) in [
        ("{", "unclosed action"),
        ("{.a", "unclosed action"),
        ("{.a\n}", "unclosed action"),
        ("a{b", "unclosed action"),
        ("{!}", "unrecognized character in action: U+0021 '!'"),
        ("{.a, .b}", "unrecognized character in action: U+002C ','"),
        ("{\t}", "unrecognized character in action: U+0009"),
        (
            "{\u{20ac}}",
            "unrecognized character in action: U+20AC '\u{20ac}'",
        ),
        ("{....a}", "invalid multiple recursive descent"),
        ("{1.2.3}", "cannot parse number 1.2.3"),
        ("{-}", "cannot parse number -"),
        ("{\u{663}}", "cannot parse number \u{663}"),
        ("{[}", "unterminated array"),
        ("{[0\n]}", "unterminated array"),
        ("{[a]}", "invalid array index a"),
        ("{['a,b']}", "invalid array index 'a"),
        ("{[\"a\"]}", "invalid array index \"a\""),
        ("{[1:2:3:4]}", "invalid array index 1:2:3:4"),
        ("{[?]}", "invalid array index ?"),
        ("{[-]}", "array index - is not a number"),
        ("{[0,-]}", "array index - is not a number"),
        ("{[0:-]}", "array index - is not a number"),
        (
            "{[99999999999999999999]}",
            "array index 99999999999999999999 is not a number",
        ),
        ("{[?(@.a]}", "unterminated filter"),
        ("{[?(@.a==\")\n)]}", "unterminated filter"),
        ("{[?(@.a==\"x)]}", "unterminated filter"),
        ("{[?(@.a)}", "unclosed array expect ]"),
        ("{[?(=1)]}", "unrecognized character in action: U+003D '='"),
        (
            "{[?(@.a==!)]}",
            "unrecognized character in action: U+0021 '!'",
        ),
        ("{\"a}", "unterminated quoted string"),
        ("{'a\\'}", "unterminated quoted string"),
        ("{'a\\qb'}", "unquote string 'a\\qb' error invalid syntax"),
        ("{'a\\\"b'}", "unquote string 'a\\\"b' error invalid syntax"),
        (
            "{\"a\\\\\"b\"}",
            "unquote string \"a\\\\\"b\" error invalid syntax",
        ),
    ] {
        let error = JsonPath::parse(template).expect_err(template);
        assert_eq!(error.to_string(), want, "{template}");
    }
}

#[test]
fn what_ends_the_process_of_helm_is_an_error() {
    for template in [
        "{range .empty[*]}{[0]}{end}",
        "{range .empty[*]}{range @}{end}{end}",
        "{range .mixed[*]}{range @}{end}{end}",
    ] {
        let path = JsonPath::parse(template).unwrap();
        assert_eq!(path.execute(&shop()), Err(ExecError::NoValue), "{template}");
    }
}

#[test]
fn runaway_templates_are_stopped_by_a_limit() {
    let ranges = format!("{}{}", "{range @}".repeat(500), "{end}".repeat(500));
    let deep = (0..200).fold(Tree::Null, |inside, _| Tree::List(vec![inside]));
    let wide = Tree::List(vec![Tree::Bool(true); 100_000]);
    for (template, data, want) in [
        (
            ranges,
            shop(),
            "jsonpath nests more than 100 ranges; ask for less",
        ),
        (
            format!("{{{}}}", "...*".repeat(5)),
            deep,
            "jsonpath takes more than 4 million steps; ask for less",
        ),
        (
            "{@}".repeat(10_000),
            wide,
            "jsonpath prints more than 100 MiB; ask for less",
        ),
    ] {
        let path = JsonPath::parse(&template).unwrap();
        assert_eq!(path.execute(&data).expect_err(want).to_string(), want);
    }
}

#[test]
fn expressions_within_each_other_are_bounded() {
    let nested = (0..200).fold("x".to_owned(), |inside, _| format!("[?({inside}"));
    let result = JsonPath::parse(&format!("{{{nested}}}"));
    assert_eq!(result, Err(ParseError::UnterminatedFilter));
}

proptest::proptest! {
    #[test]
    fn no_text_and_no_data_end_in_a_panic(template in r#"[{}\[\]().,:?*@$'"\\ =<>!a-c0-2\-]{0,40}"#) {
        if let Ok(path) = JsonPath::parse(&template) {
            let _ = path.execute(&shop());
        }
    }
}
