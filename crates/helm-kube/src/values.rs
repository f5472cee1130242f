//! The values of an upgrade: new ones, earlier ones, or both.

use goyaml::Tree;
use helm_engine::{Release, coalesce_tables};

/// What becomes of the values of the earlier revision.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ValuesPolicy {
    /// They are forgotten: `--reset-values`.
    #[default]
    Reset,
    /// They are kept, with the defaults of the earlier chart, under the new ones:
    /// `--reuse-values`.
    Reuse,
    /// They are kept under the new ones, with the defaults of the new chart:
    /// `--reset-then-reuse-values`.
    ResetThenReuse,
    /// They are kept if there are no new ones: `helm upgrade` without any of these flags.
    Keep,
}

/// The values of an upgrade.
#[derive(Clone, Debug, PartialEq)]
pub struct UpgradeValues {
    /// The user's values: what is rendered with, and recorded.
    pub values: Tree,
    /// What replaces the default values of the new chart; `None` leaves them.
    pub defaults: Option<Tree>,
}

/// Composes the values of an upgrade. In new values, `null` deletes an earlier one.
#[must_use]
pub fn upgrade_values(policy: ValuesPolicy, earlier: &Release, new: &Tree) -> UpgradeValues {
    let config = earlier.config.clone().unwrap_or(Tree::Null);
    let (values, defaults) = match policy {
        ValuesPolicy::Reset => (new.clone(), None),
        ValuesPolicy::Keep if is_empty(new) => (config, None),
        ValuesPolicy::Keep => (new.clone(), None),
        ValuesPolicy::ResetThenReuse => (coalesce_tables(new, &config), None),
        ValuesPolicy::Reuse => {
            let own = earlier.chart.values.clone().unwrap_or(Tree::Null);
            let defaults = coalesce_tables(&config, &own);
            (coalesce_tables(new, &config), Some(defaults))
        }
    };
    UpgradeValues { values, defaults }
}

fn is_empty(values: &Tree) -> bool {
    match values {
        Tree::Null => true,
        Tree::Map(entries) => entries.is_empty(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use helm_engine::values::read_values;

    use super::*;

    fn tree(text: &str) -> Tree {
        read_values(text.as_bytes()).unwrap()
    }

    fn earlier() -> Release {
        let mut release = Release {
            config: Some(tree("{a: old, b: old, map: {x: 1, y: 2}}")),
            ..Release::default()
        };
        release.chart.values = Some(tree("{b: default, c: default}"));
        release
    }

    #[test]
    fn the_policy_says_what_becomes_of_earlier_values() {
        let new = tree("{a: new, map: {x: 3, y: null}}");
        let table = [
            (ValuesPolicy::Reset, "{a: new, map: {x: 3, y: null}}", None),
            (ValuesPolicy::Keep, "{a: new, map: {x: 3, y: null}}", None),
            (
                ValuesPolicy::ResetThenReuse,
                "{a: new, b: old, map: {x: 3}}",
                None,
            ),
            (
                ValuesPolicy::Reuse,
                "{a: new, b: old, map: {x: 3}}",
                Some("{a: old, b: old, c: default, map: {x: 1, y: 2}}"),
            ),
        ];
        for (policy, values, defaults) in table {
            let found = upgrade_values(policy, &earlier(), &new);
            assert_eq!(found.values, tree(values), "{policy:?}");
            assert_eq!(found.defaults, defaults.map(tree), "{policy:?}");
        }
    }

    #[test]
    fn earlier_values_are_kept_if_there_are_no_new_ones() {
        let found = upgrade_values(ValuesPolicy::Keep, &earlier(), &tree("{}"));
        assert_eq!(Some(found.values), earlier().config);
    }
}
