//! The crates that mutants are drawn from.

/// A crate: from which of its sources mutants are drawn, and where its switch is.
#[derive(Debug)]
pub(super) struct Package {
    /// What `--crate` names it by: its folder in `crates/`.
    pub(super) name: &'static str,
    /// What cargo names it by.
    pub(super) cargo: &'static str,
    /// Prefixes of the paths of its sources.
    pub(super) scope: &'static [&'static str],
    /// Parts of paths that are left out.
    pub(super) not: &'static [&'static str],
    /// The file that gets the switch.
    pub(super) switch_home: &'static str,
    /// The path of the switch in the sources of the crate.
    pub(super) switch: &'static str,
}

/// The engine's tests are chosen by suites that are named by hand. Those of all other crates are chosen by what they
/// reach.
pub(super) const ENGINE: &str = "engine";

/// All crates with mutants.
pub(super) const PACKAGES: [Package; 5] = [
    Package {
        name: ENGINE,
        cargo: "spinney",
        // What commits, keeps, recovers and shows changes.
        scope: &[
            "crates/engine/src/txn/",
            "crates/engine/src/table/",
            "crates/engine/src/tree/gc/",
            "crates/engine/src/tree/range_tombstone/",
            "crates/engine/src/tree/run/view/",
            "crates/engine/src/log/",
            "crates/engine/src/db/",
        ],
        // Files that only count, describe, or hold options.
        not: &["/stats.rs", "/progress.rs", "/options.rs", "/tests.rs", "/tests/", "/schedules.rs", "/shape.rs"],
        switch_home: "crates/engine/src/base/mod.rs",
        switch: "crate::base::mutant",
    },
    Package {
        name: "document",
        cargo: "spinney-document",
        scope: &["crates/document/src/"],
        not: &["/tests.rs", "/tests/"],
        switch_home: "crates/document/src/lib.rs",
        switch: "crate::mutant",
    },
    Package {
        name: "wire",
        cargo: "spinney-wire",
        scope: &["crates/wire/src/"],
        not: &["/tests.rs", "/tests/"],
        switch_home: "crates/wire/src/lib.rs",
        switch: "crate::mutant",
    },
    Package {
        name: "replica",
        cargo: "spinney-replica",
        scope: &["crates/replica/src/"],
        // The simulation is a test.
        not: &["/tests.rs", "/tests/", "/simulation/"],
        switch_home: "crates/replica/src/lib.rs",
        switch: "crate::mutant",
    },
    Package {
        name: "server",
        cargo: "spinney-server",
        scope: &["crates/server/src/"],
        not: &["/tests.rs", "/tests/"],
        switch_home: "crates/server/src/lib.rs",
        switch: "crate::mutant",
    },
];

/// The crates with these names, in the order of [`PACKAGES`].
///
/// # Errors
/// When a name is unknown, or the engine is named beside other crates.
pub(super) fn named(names: &[String]) -> Result<Vec<&'static Package>, String> {
    let known = || PACKAGES.iter().map(|package| package.name).collect::<Vec<_>>().join(", ");
    if let Some(unknown) = names.iter().find(|name| !PACKAGES.iter().any(|package| package.name == name.as_str())) {
        return Err(format!("`--crate {unknown}`: not one of {}", known()));
    }
    let named: Vec<_> = PACKAGES.iter().filter(|package| names.iter().any(|name| name == package.name)).collect();
    if named.len() > 1 && named.iter().any(|package| package.name == ENGINE) {
        return Err("`--crate engine`: its tests are chosen in another way: give it alone".to_owned());
    }
    Ok(named)
}

/// The crate that a file is of.
pub(super) fn of(file: &str) -> Option<&'static Package> {
    let name = file.strip_prefix("crates/")?.split('/').next()?;
    PACKAGES.iter().find(|package| package.name == name)
}

/// How the switch of a mutant is called in a file.
pub(super) fn switch(file: &str, number: u32) -> String {
    let path = of(file).map_or(PACKAGES[0].switch, |package| package.switch);
    format!("{path}({number})")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_engine_stands_alone() {
        let named = |names: &[&str]| {
            let names: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
            named(&names).map(|packages| packages.iter().map(|package| package.name).collect::<Vec<_>>())
        };
        assert_eq!(named(&["server", "document"]).unwrap(), ["document", "server"]);
        assert_eq!(named(&["engine"]).unwrap(), ["engine"]);
        assert!(named(&["engine", "document"]).unwrap_err().contains("alone"));
        assert!(named(&["documents"]).unwrap_err().contains("not one of engine, document"));
    }

    #[test]
    fn a_switch_is_called_by_the_path_of_its_crate() {
        assert_eq!(switch("crates/engine/src/db/mod.rs", 1), "crate::base::mutant(1)");
        assert_eq!(switch("crates/wire/src/reader.rs", 2), "crate::mutant(2)");
    }
}
