//! The package for Python: built as a wheel, installed into a clean virtual environment, and tested there.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::step::run;

/// The package, from the root of the repository.
const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../python");

/// `python [--python PATH] [--release] [TESTS ..]`.
pub(super) fn command(arguments: &[&str]) -> Result<(), String> {
    let (mut python, mut profile, mut tests) = ("python3", "dev", Vec::new());
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        match *argument {
            "--python" => python = rest.next().ok_or("--python needs a path")?,
            "--release" => profile = "dist",
            test => tests.push(test),
        }
    }
    let folder = Path::new(FOLDER);
    let python = environment(python, "package", &folder.join("requirements.txt"))?;
    let wheels = target().join("wheels");
    fs::remove_dir_all(&wheels).ok();
    let mut build = Command::new(&python);
    build.current_dir(folder).args(["-m", "maturin", "build", "--quiet", "--profile", profile, "--out"]).arg(&wheels);
    run("the build of the wheel", build.env("CARGO_TARGET_DIR", target()))?;
    let mut install = Command::new(&python);
    install.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps", "--force-reinstall"]);
    install.args(["--no-index", "--find-links"]).arg(&wheels).arg("spinney");
    run("pip install", &mut install)?;
    let mut suite = Command::new(python);
    // Not in the package's folder, whose sources would be imported instead of the wheel.
    suite.current_dir(folder.join("tests")).env("PYTHONDONTWRITEBYTECODE", "1");
    suite.args(["-m", "pytest", "-q", "-p", "no:cacheprovider"]).args(tests);
    run("the tests of the package", &mut suite)
}

/// Where builds go.
pub(super) fn target() -> PathBuf {
    let given = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    given.unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../target"))
}

/// The Python of a virtual environment `target/python/<name>` that has what a file of requirements names. It is made
/// anew when they, or the version of `python`, change.
pub(super) fn environment(python: &str, name: &str, requirements: &Path) -> Result<PathBuf, String> {
    let told = |error: std::io::Error| format!("{}: {error}", requirements.display());
    let mut wanted = fs::read_to_string(requirements).map_err(told)?;
    let version = Command::new(python).arg("--version").output().map_err(|error| format!("{python}: {error}"))?;
    wanted += &format!("# {}", String::from_utf8_lossy(&version.stdout));
    let folder = target().join("python").join(name);
    let (own, installed) = (folder.join("bin/python"), folder.join("installed.txt"));
    if fs::read_to_string(&installed).is_ok_and(|text| text == wanted) {
        return Ok(own);
    }
    run("python -m venv", Command::new(python).args(["-m", "venv", "--clear"]).arg(&folder))?;
    let mut pip = Command::new(&own);
    pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--requirement"]).arg(requirements);
    run("pip install", &mut pip)?;
    fs::write(&installed, wanted).map_err(|error| format!("{}: {error}", installed.display()))?;
    Ok(own)
}
