//! YAML as Go reads and writes it, byte for byte.

mod tree;

pub use tree::Tree;
