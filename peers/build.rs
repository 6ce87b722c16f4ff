//! Tells the program which versions of the engines it is built with, where their crates do not.

fn main() {
    println!("cargo::rerun-if-changed=Cargo.lock");
    let lock = std::fs::read_to_string("Cargo.lock").expect("the lock file stands beside this file");
    for name in ["fjall", "redb"] {
        let version = version(&lock, name).unwrap_or_else(|| panic!("{name} is not in Cargo.lock"));
        println!("cargo::rustc-env={}_VERSION={version}", name.to_uppercase());
    }
}

/// The version of a package: its name stands in one line of the lock file, its version in the next.
fn version<'l>(lock: &'l str, name: &str) -> Option<&'l str> {
    let mut lines = lock.lines().skip_while(|line| *line != format!("name = \"{name}\""));
    lines.nth(1)?.strip_prefix("version = \"")?.strip_suffix('"')
}
