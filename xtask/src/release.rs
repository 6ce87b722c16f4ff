//! A release: everything that is given away is built, and what is in it is tried out apart from the sources.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::files::{install, read, write};
use crate::python::target;
use crate::step::{cargo, print, run};
use crate::{c, deb, python};

/// The crates that are published, each behind those that it needs.
const CRATES: [&str; 7] =
    ["spinney", "spinney-document", "spinney-replica", "spinney-wire", "spinney-server", "spinney-lab", "spinney-cli"];

/// A program that uses the packaged crates.
const PROGRAM: &str = r###"//! Uses the packaged crates.
use spinney::{Options, TableOptions};
use spinney_document::{Database, doc};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = std::env::args().nth(1).ok_or("give a folder")?;
    let db = spinney::Database::open(format!("{folder}-tables"), Options::default())?;
    let table = db.create_table("t", TableOptions::default())?;
    table.put("key", "value")?;
    assert_eq!(table.get("key")?.as_deref(), Some(&b"value"[..]));
    db.close()?;
    let documents = Database::open(format!("{folder}-documents"), Options::default())?;
    let people = documents.collection_or_create("app.people")?;
    people.insert_one(doc! {"_id": 1, "name": "Ada"}.view())?;
    let found = people.find_by_id(1)?.ok_or("the document is not there")?;
    assert_eq!(found.view().to_json(), r##"{"_id":1,"name":"Ada"}"##);
    Ok(())
}
"###;

/// `crates [--no-verify]`: packages the crates, and builds and runs a program with them.
pub(super) fn crates(arguments: &[&str]) -> Result<(), String> {
    let verify = match arguments {
        [] => "",
        ["--no-verify"] => " --no-verify",
        _ => return Err("crates takes --no-verify, or nothing".to_owned()),
    };
    let names = CRATES.map(|name| format!(" --package {name}")).concat();
    run("cargo package", &mut cargo(&format!("package --allow-dirty --locked{verify}{names}")))?;
    let place = std::env::temp_dir().join(format!("spinney-crates-{}", std::process::id()));
    fs::remove_dir_all(&place).ok();
    let done = try_out(&place);
    fs::remove_dir_all(&place).ok();
    done
}

/// The file of a packaged crate.
fn packaged(name: &str) -> PathBuf {
    target().join("package").join(format!("{name}-{}.crate", env!("CARGO_PKG_VERSION")))
}

/// Unpacks the crates into an empty folder, and runs a program that has them as dependencies.
fn try_out(place: &Path) -> Result<(), String> {
    let version = env!("CARGO_PKG_VERSION");
    let mut manifest = "[package]\nname = \"packaged\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n[workspace]\n\n\
         [dependencies]\n"
        .to_owned();
    for name in ["spinney", "spinney-document"] {
        manifest += &format!("{name} = \"{version}\"\n");
    }
    manifest += "\n[patch.crates-io]\n";
    for name in CRATES {
        let mut unpack = Command::new("tar");
        fs::create_dir_all(place).map_err(|error| format!("{}: {error}", place.display()))?;
        run("tar", unpack.arg("-xzf").arg(packaged(name)).arg("-C").arg(place))?;
        let folder = place.join(format!("{name}-{version}"));
        for needed in ["README.md", "LICENSE-MIT", "LICENSE-APACHE"] {
            if !folder.join(needed).is_file() {
                return Err(format!("the package {name} has no {needed}"));
            }
        }
        manifest += &format!("{name} = {{ path = \"{}\" }}\n", folder.display());
    }
    manifest += &profiles()?;
    write(&place.join("Cargo.toml"), manifest.as_bytes(), 0o644)?;
    write(&place.join("src/main.rs"), PROGRAM.as_bytes(), 0o644)?;
    // The versions of the lock file, which the build has already.
    install(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../Cargo.lock")), &place.join("Cargo.lock"), 0o644)?;
    let mut program = cargo("run --quiet --");
    program.current_dir(place).arg(place.join("data")).env("CARGO_TARGET_DIR", target());
    run("the program that uses the packages", &mut program)
}

/// The profiles of the workspace, by which what the packages depend on is there already. The packages are not
/// optimized, since the program makes a few calls.
fn profiles() -> Result<String, String> {
    let manifest = read(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../Cargo.toml")))?;
    let (_, profiles) = manifest.split_once("\n[profile.").ok_or("Cargo.toml has no profiles")?;
    let plain = |name| format!("\n[profile.dev.package.{name}]\nopt-level = 0\n");
    Ok(format!("\n[profile.{profiles}{}{}", plain("spinney"), plain("spinney-document")))
}

/// `release`: builds all of it for release, tries each out, and puts it into `target/packages` with checksums.
pub(super) fn command(arguments: &[&str]) -> Result<(), String> {
    if !arguments.is_empty() {
        return Err("release takes no arguments".to_owned());
    }
    let packages = target().join("packages");
    fs::remove_dir_all(&packages).ok();
    crates(&[])?;
    for name in CRATES {
        gather(&packaged(name), &packages)?;
    }
    python::command(&["--release"])?;
    for wheel in files_of(&target().join("wheels"))? {
        gather(&wheel, &packages)?;
    }
    gather(&deb::make()?, &packages)?;
    c::test(&[])?;
    let tree = format!("spinney-c-{}-{}", env!("CARGO_PKG_VERSION"), std::env::consts::ARCH);
    let folder = target().join("c").join(&tree);
    fs::remove_dir_all(&folder).ok();
    c::build(&folder, "dist")?;
    let mut pack = Command::new("tar");
    pack.arg("-czf").arg(packages.join(format!("{tree}.tar.gz"))).arg("-C").arg(target().join("c")).arg(&tree);
    run("tar", &mut pack)?;
    run("sha256sum", Command::new("sh").current_dir(&packages).args(["-c", "sha256sum -- * >SHA256SUMS"]))?;
    for file in files_of(&packages)? {
        print(&format!("{}\n", file.display()));
    }
    Ok(())
}

fn gather(file: &Path, packages: &Path) -> Result<(), String> {
    install(file, &packages.join(file.file_name().unwrap_or_default()), 0o644)
}

/// The files of a folder, ordered by name.
fn files_of(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let told = |error: std::io::Error| format!("{}: {error}", folder.display());
    let entries = fs::read_dir(folder).map_err(told)?;
    let mut files = entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>, _>>().map_err(told)?;
    files.sort();
    Ok(files)
}
