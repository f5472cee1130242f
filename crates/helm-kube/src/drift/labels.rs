//! Label selectors as `kubectl --selector` writes them.

use std::str::FromStr;

use serde_json::{Map, Value};
use thiserror::Error;

/// A text that is no label selector.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("label selector has no meaning at {0:?}: write it as app=web,tier!=cache")]
pub struct SelectorError(String);

/// What the labels of an object have to be: all of `a=b`, `a==b`, `a!=b`, `a in (b,c)`, `a notin (b,c)`, `a`, `!a`.
/// Empty, it matches everything. As in Kubernetes, an absent label satisfies `!=` and `notin`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LabelSelector(Vec<Requirement>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Requirement {
    key: String,
    /// Any value will do if absent.
    values: Option<Vec<String>>,
    is_negated: bool,
}

impl LabelSelector {
    pub(super) fn matches(&self, labels: Option<&Map<String, Value>>) -> bool {
        self.0.iter().all(|requirement| {
            let label = labels.and_then(|labels| labels.get(&requirement.key)?.as_str());
            let has = match (&requirement.values, label) {
                (None, label) => label.is_some(),
                (Some(values), Some(label)) => values.iter().any(|value| value == label),
                (Some(_), None) => false,
            };
            has != requirement.is_negated
        })
    }
}

impl FromStr for LabelSelector {
    type Err = SelectorError;

    fn from_str(text: &str) -> Result<Self, SelectorError> {
        let parts = split(text).into_iter().map(str::trim);
        let parts = parts.filter(|part| !part.is_empty());
        parts.map(requirement).collect::<Result<_, _>>().map(Self)
    }
}

/// Splits at the commas outside of parentheses.
fn split(text: &str) -> Vec<&str> {
    let mut is_inside = false;
    text.split(|letter| {
        match letter {
            '(' => is_inside = true,
            ')' => is_inside = false,
            _ => {}
        }
        letter == ',' && !is_inside
    })
    .collect()
}

fn requirement(part: &str) -> Result<Requirement, SelectorError> {
    let error = || SelectorError(part.to_owned());
    let (key, values, is_negated) = if let Some((key, value)) = part.split_once("!=") {
        (key, Some(vec![value]), true)
    } else if let Some((key, value)) = part.split_once("==").or_else(|| part.split_once('=')) {
        (key, Some(vec![value]), false)
    } else if let Some((head, list)) = part.split_once('(') {
        let list = list.strip_suffix(')').ok_or_else(error)?;
        let (key, word) = head.trim().split_once(' ').ok_or_else(error)?;
        let is_negated = match word.trim() {
            "in" => false,
            "notin" => true,
            _ => return Err(error()),
        };
        (key, Some(list.split(',').collect()), is_negated)
    } else {
        let key = part.strip_prefix('!');
        (key.unwrap_or(part), None, key.is_some())
    };
    let values = values.map(|values| values.into_iter().map(|value| value.trim().to_owned()));
    let requirement = Requirement {
        key: key.trim().to_owned(),
        values: values.map(Iterator::collect),
        is_negated,
    };
    let is_plain = |text: &str| {
        text.bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"-_./".contains(&byte))
    };
    let is_good = !requirement.key.is_empty()
        && is_plain(&requirement.key)
        && requirement
            .values
            .iter()
            .flatten()
            .all(|value| is_plain(value));
    is_good.then_some(requirement).ok_or_else(error)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn selectors_match_as_those_of_kubectl() {
        let labels = json!({"app": "web", "example.com/tier": "front"});
        let table = [
            ("", true),
            ("app=web", true),
            ("app == web, example.com/tier = front", true),
            ("app=web,app=api", false),
            ("app!=web", false),
            ("none!=web", true),
            ("app in (api, web),example.com/tier", true),
            ("app in (api)", false),
            ("app notin (api, job)", true),
            ("none notin (api)", true),
            ("none in (api)", false),
            ("!none", true),
            ("!app", false),
        ];
        for (text, expected) in table {
            let selector: LabelSelector = text.parse().unwrap();
            assert_eq!(selector.matches(labels.as_object()), expected, "{text}");
        }
        let selector: LabelSelector = "app=web".parse().unwrap();
        assert!(!selector.matches(None) && LabelSelector::default().matches(None));
    }

    #[test]
    fn what_is_no_selector_is_an_error() {
        for text in [
            "=web",
            "app near (web)",
            "app in (web",
            "app in",
            "a b",
            "app=we b",
            "!",
        ] {
            assert!(text.parse::<LabelSelector>().is_err(), "{text}");
        }
    }
}
