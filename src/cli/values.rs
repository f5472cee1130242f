//! The flags that make up a user's values.

use std::path::Path;

use clap::Args;
use goyaml::Tree;
use helm_engine::values::ValuesOptions;

use super::{files, remote};

/// Values on the command line.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct ValuesFlags {
    /// specify values in a YAML file or a URL (can specify multiple; `-` is standard input)
    #[arg(short = 'f', long, value_name = "FILE", value_delimiter = ',')]
    pub(crate) values: Vec<String>,

    /// set values (can specify multiple or separate values with commas: key1=val1,key2=val2)
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,

    /// set STRING values (can specify multiple or separate values with commas: key1=val1,key2=val2)
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) set_string: Vec<String>,

    /// set values from files (can specify multiple or separate values with commas: key1=path1)
    #[arg(long, value_name = "KEY=PATH")]
    pub(crate) set_file: Vec<String>,

    /// set JSON values (key1=jsonval1,key2=jsonval2, or an object {"key1": jsonval1})
    #[arg(long, value_name = "KEY=JSON")]
    pub(crate) set_json: Vec<String>,

    /// set a literal STRING value
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) set_literal: Vec<String>,
}

impl ValuesFlags {
    /// The values that all flags make together.
    pub(crate) fn merge(&self) -> anyhow::Result<Tree> {
        let options = ValuesOptions {
            files: self.values.clone(),
            json: self.set_json.clone(),
            set: self.set.clone(),
            string: self.set_string.clone(),
            file: self.set_file.clone(),
            literal: self.set_literal.clone(),
        };
        Ok(options.merge(read)?)
    }
}

/// Reads a file that a flag names; the error has Go's text.
pub(crate) fn read(name: &str) -> Result<Vec<u8>, String> {
    if let Some(content) = remote::read(name) {
        return content;
    }
    let done = if name.trim() == "-" {
        files::read_from(std::io::stdin().lock(), files::LARGEST)
    } else {
        files::read(Path::new(name), files::LARGEST)
    };
    done.map_err(|error| {
        let action = match error.kind() {
            // A directory can be opened.
            std::io::ErrorKind::IsADirectory | std::io::ErrorKind::FileTooLarge => "read",
            _ => "open",
        };
        format!("{action} {name}: {}", helm_engine::go_io_error(&error))
    })
}
