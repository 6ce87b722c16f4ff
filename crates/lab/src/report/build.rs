//! Which build of this program measured.

use serde::{Deserialize, Serialize};

/// The version in a few words: number and commit.
pub const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), " (", env!("SPINNEY_COMMIT"), ")");

/// The version with all that may make one build faster than another.
pub const LONG_VERSION: &str = concat!(
    env!("CARGO_PKG_VERSION"),
    "\ncommit:   ",
    env!("SPINNEY_COMMIT"),
    "\ncompiler: ",
    env!("SPINNEY_RUSTC"),
    "\ntarget:   ",
    env!("SPINNEY_TARGET"),
    "\ncpu:      ",
    env!("SPINNEY_TARGET_CPU"),
    "\nfeatures: ",
    env!("SPINNEY_TARGET_FEATURES"),
    "\nprofile:  ",
    env!("SPINNEY_PROFILE"),
);

/// A build of this program.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Build {
    /// The version's number.
    pub version: String,
    /// The commit of the source, with `-dirty` if the source differed from it; `unknown` outside of git.
    pub commit: String,
    /// The compiler.
    pub rustc: String,
    /// The target triple.
    pub target: String,
    /// The processor that code was made for.
    pub cpu: String,
    /// The processor's features that code may use, separated by commas.
    pub features: String,
    /// The profile, and its level of optimization.
    pub profile: String,
}

impl Build {
    /// The build that this is.
    #[must_use]
    pub fn this() -> Self {
        Self {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            commit: env!("SPINNEY_COMMIT").to_owned(),
            rustc: env!("SPINNEY_RUSTC").to_owned(),
            target: env!("SPINNEY_TARGET").to_owned(),
            cpu: env!("SPINNEY_TARGET_CPU").to_owned(),
            features: env!("SPINNEY_TARGET_FEATURES").to_owned(),
            profile: env!("SPINNEY_PROFILE").to_owned(),
        }
    }

    /// It in a line; nothing for a result that does not say.
    #[must_use]
    pub fn line(&self) -> String {
        if self.version.is_empty() {
            return String::new();
        }
        let Self { version, commit, rustc, target, cpu, features: _, profile } = self;
        let rustc = rustc.split(" (").next().unwrap_or_default();
        format!("{version} ({commit}), {rustc}, {target}, target-cpu {cpu}, {profile}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_build_says_what_it_was_made_from() {
        let build = Build::this();
        let commit = build.commit.trim_end_matches("-dirty");
        assert!(
            commit == "unknown" || commit.chars().all(|c| c.is_ascii_hexdigit()) && commit.len() >= 10,
            "{build:?}"
        );
        assert!(
            build.rustc.starts_with("rustc ") && !build.profile.is_empty() && !build.target.is_empty(),
            "{build:?}"
        );
        assert!(LONG_VERSION.contains(&build.rustc) && VERSION.contains(&build.commit));
        assert_eq!(Build::default().line(), "");
    }
}
