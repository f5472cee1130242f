//! What a user may say about values on a command line, in Helm's order of precedence.

use goyaml::Tree;
use thiserror::Error;

use super::{
    SetError, merge_values, read_values, set_file_into, set_into, set_json_into, set_literal_into,
    set_string_into,
};

/// The values flags. Their order among each other is fixed: files, `--set-json`, `--set`,
/// `--set-string`, `--set-file`, `--set-literal`; inside one kind the later one wins.
#[derive(Clone, Debug, Default)]
pub struct ValuesOptions {
    /// `-f`, `--values`: names that the reader resolves.
    pub files: Vec<String>,
    /// `--set-json`
    pub json: Vec<String>,
    /// `--set`
    pub set: Vec<String>,
    /// `--set-string`
    pub string: Vec<String>,
    /// `--set-file`: the values are names that the reader resolves.
    pub file: Vec<String>,
    /// `--set-literal`
    pub literal: Vec<String>,
}

/// Why values could not be put together; the texts are Helm's.
#[derive(Debug, Error)]
pub enum ValuesError {
    /// A file could not be read.
    #[error("{0}")]
    Read(String),
    /// A file holds no values.
    #[error("failed to parse {name}: {cause}")]
    File {
        /// The file.
        name: String,
        /// What is wrong.
        cause: goyaml::Error,
    },
    /// A `--set…` flag is wrong.
    #[error("failed parsing --{flag} data: {cause}")]
    Set {
        /// The flag, without dashes.
        flag: &'static str,
        /// What is wrong.
        cause: SetError,
    },
    /// A `--set-json` flag in the form `path=value` is wrong.
    #[error("failed parsing --set-json data {0}")]
    Json(String),
    /// A `--set-json` flag in the form of an object is wrong.
    #[error("failed parsing --set-json data JSON: {0}")]
    JsonObject(String),
}

impl ValuesOptions {
    /// The values that the flags make together, a map. `read` gives the bytes of a file by the
    /// name on the command line (`-` is standard input); its error is the whole text.
    ///
    /// # Errors
    /// A file cannot be read, or what it holds or a flag says is malformed.
    pub fn merge(
        &self,
        mut read: impl FnMut(&str) -> Result<Vec<u8>, String>,
    ) -> Result<Tree, ValuesError> {
        let mut values = Tree::Map(std::collections::BTreeMap::new());
        for name in self.files.iter().filter(|name| !name.is_empty()) {
            let text = read(name).map_err(ValuesError::Read)?;
            let document = read_values(&text).map_err(|cause| ValuesError::File {
                name: name.clone(),
                cause,
            })?;
            merge_values(&mut values, document);
        }
        for text in &self.json {
            merge_json(&mut values, text)?;
        }
        let flag = |flag| move |cause| ValuesError::Set { flag, cause };
        for text in &self.set {
            set_into(text, &mut values).map_err(flag("set"))?;
        }
        for text in &self.string {
            set_string_into(text, &mut values).map_err(flag("set-string"))?;
        }
        for text in &self.file {
            set_file_into(text, &mut values, &mut read).map_err(flag("set-file"))?;
        }
        for text in &self.literal {
            set_literal_into(text, &mut values).map_err(flag("set-literal"))?;
        }
        Ok(values)
    }
}

fn merge_json(values: &mut Tree, text: &str) -> Result<(), ValuesError> {
    if !text.trim().starts_with('{') {
        return set_json_into(text, values).map_err(|_| ValuesError::Json(text.to_owned()));
    }
    match goyaml::read_json(text.trim().as_bytes()) {
        Ok(object @ Tree::Map(_)) => {
            merge_values(values, object);
            Ok(())
        }
        _ => Err(ValuesError::JsonObject(text.to_owned())),
    }
}
