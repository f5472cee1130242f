//! How the binary is linked.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let is = |name: &str, value: &str| std::env::var(name).is_ok_and(|found| found == value);
    let is_gnu = is("CARGO_CFG_TARGET_OS", "linux") && is("CARGO_CFG_TARGET_ENV", "gnu");
    if is_gnu && is("PROFILE", "release") {
        // At a fixed address, as Go links helm. A binary that may lie anywhere begins with the
        // rewriting of 40,000 pointers, and touches 700 KiB for it: half of what `version` takes.
        // Libraries, heap and stack still lie where chance puts them.
        println!("cargo::rustc-link-arg-bins=-no-pie");
    }
}
