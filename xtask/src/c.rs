//! The libraries for C: their header, and their installation.

use std::fs;
use std::path::Path;

use crate::python::target;
use crate::step::{cargo, run};

/// The crate, from the root of the repository.
const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../c");

/// Writes the header anew.
pub(super) fn header() -> Result<(), String> {
    let mut command = cargo("test --quiet --package spinney-c --test c the_header");
    run("the header", command.env("SPINNEY_HEADER", "1"))
}

/// Builds the libraries and installs them below `prefix`.
pub(super) fn install(prefix: &str) -> Result<(), String> {
    run("the build of the libraries", &mut cargo("build --release --package spinney-c"))?;
    let (prefix, built, folder) = (Path::new(prefix), target().join("release"), Path::new(FOLDER));
    let files = [
        (built.join("libspinney_c.so"), "lib/libspinney.so"),
        (built.join("libspinney_c.a"), "lib/libspinney.a"),
        (folder.join("include/spinney.h"), "include/spinney.h"),
        (folder.join("include/spinney.hpp"), "include/spinney.hpp"),
        (folder.join("spinney-config.cmake"), "lib/cmake/spinney/spinney-config.cmake"),
    ];
    for (from, to) in files {
        let to = prefix.join(to);
        make_folder(&to)?;
        fs::copy(&from, &to).map_err(|error| format!("{}: {error}", from.display()))?;
    }
    let template = folder.join("spinney.pc.in");
    let text = fs::read_to_string(&template).map_err(|error| format!("{}: {error}", template.display()))?;
    let place = prefix.canonicalize().map_err(|error| format!("{}: {error}", prefix.display()))?;
    let text = text.replace("@PREFIX@", &place.display().to_string()).replace("@VERSION@", env!("CARGO_PKG_VERSION"));
    let config = prefix.join("lib/pkgconfig/spinney.pc");
    make_folder(&config)?;
    fs::write(&config, text).map_err(|error| format!("{}: {error}", config.display()))
}

fn make_folder(file: &Path) -> Result<(), String> {
    let folder = file.parent().unwrap_or(file);
    fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))
}
