//! The helm-operator binary.
fn main() {}
