//! Values: from files and `--set` to one tree.

mod options;
mod strvals;

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use gotmpl::Str;
use goyaml::Tree;

pub use options::{ValuesError, ValuesOptions};
pub use strvals::{
    SetError, set_file_into, set_into, set_json_into, set_literal_into, set_string_into,
};

/// Reads a values file: any number of YAML documents, each a map or empty, merged one after the
/// other. The result is a map.
///
/// # Errors
/// A document is no YAML or no map, or a line that begins with `---` goes on. The text is Helm's.
pub fn read_values(text: &[u8]) -> Result<Tree, goyaml::Error> {
    goyaml::read_values(text).map(Tree::Map)
}

/// Puts one tree over another: maps merge at every depth, everything else (null too) replaces.
pub fn merge_values(base: &mut Tree, over: Tree) {
    match (base, over) {
        (Tree::Map(base), Tree::Map(over)) => merge_entries(base, over),
        (base, over) => *base = over,
    }
}

fn merge_entries(base: &mut BTreeMap<Str, Tree>, over: BTreeMap<Str, Tree>) {
    for (key, value) in over {
        match base.entry(key) {
            Entry::Occupied(mut slot) => match value {
                value @ Tree::Map(_) => merge_values(slot.get_mut(), value),
                value => {
                    slot.insert(value);
                }
            },
            Entry::Vacant(slot) => {
                slot.insert(value);
            }
        }
    }
}
