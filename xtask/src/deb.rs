//! The package for Debian and Ubuntu: the command, its man pages and completions, and the service.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::files::{install, read, write};
use crate::python::target;
use crate::step::{cargo, print, run};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

/// Where the completions of a shell go.
const COMPLETIONS: [(&str, &str); 3] = [
    ("bash", "usr/share/bash-completion/completions/spinney"),
    ("zsh", "usr/share/zsh/vendor-completions/_spinney"),
    ("fish", "usr/share/fish/vendor_completions.d/spinney.fish"),
];

/// `deb [--binary PATH]`: builds the package, and prints where it is.
pub(super) fn command(arguments: &[&str]) -> Result<(), String> {
    let package = match arguments {
        [] => make()?,
        ["--binary", path] => around(Path::new(path))?,
        _ => return Err("deb takes --binary and a path, or nothing".to_owned()),
    };
    print(&format!("{}\n", package.display()));
    Ok(())
}

/// Builds the command as it is given away, and its package, which is tried out.
pub(super) fn make() -> Result<PathBuf, String> {
    run("the build of the command", &mut cargo("build --profile dist --package spinney-cli"))?;
    around(&target().join("dist/spinney"))
}

/// Builds the package around a binary, and tries it out.
fn around(binary: &Path) -> Result<PathBuf, String> {
    let package = build(binary)?;
    try_out(&package)?;
    Ok(package)
}

/// Builds the package around a binary.
fn build(binary: &Path) -> Result<PathBuf, String> {
    let (root, folder) = (Path::new(ROOT), target().join("deb"));
    let place = folder.join("root");
    fs::remove_dir_all(&folder).ok();
    let program = place.join("usr/bin/spinney");
    install(binary, &program, 0o755)?;
    run("strip", Command::new("strip").arg("--strip-unneeded").arg(&program))?;
    let said = |args: &[&str]| {
        let output =
            Command::new(binary).args(args).output().map_err(|error| format!("{}: {error}", binary.display()))?;
        if output.status.success() { Ok(output.stdout) } else { Err(format!("spinney {} failed", args.join(" "))) }
    };
    let pages = place.join("usr/share/man/man1");
    said(&["man", &pages.display().to_string()])?;
    run("gzip", Command::new("sh").current_dir(&pages).args(["-c", "gzip -9n -- *.1"]))?;
    for (shell, path) in COMPLETIONS {
        write(&place.join(path), &said(&["completions", shell])?, 0o644)?;
    }
    // The package's program lies in /usr/bin, that of the administrator in /usr/local/bin.
    let unit = read(&root.join("packaging/spinney.service"))?.replace("/usr/local/bin/", "/usr/bin/");
    write(&place.join("usr/lib/systemd/system/spinney.service"), unit.as_bytes(), 0o644)?;
    install(&root.join("packaging/spinney.toml"), &place.join("etc/spinney/spinney.toml"), 0o644)?;
    let licences = format!("{}\n\n{}", read(&root.join("LICENSE-MIT"))?, read(&root.join("LICENSE-APACHE"))?);
    write(&place.join("usr/share/doc/spinney/copyright"), licences.as_bytes(), 0o644)?;
    for page in ["README.md", "CHANGELOG.md"] {
        install(&root.join(page), &place.join("usr/share/doc/spinney").join(page), 0o644)?;
    }
    let architecture = output(Command::new("dpkg").arg("--print-architecture"))?;
    let version = env!("CARGO_PKG_VERSION");
    let control = format!(
        "Package: spinney\nVersion: {version}\nArchitecture: {architecture}\nMaintainer: The Spinney authors\n\
         Section: database\nPriority: optional\nDepends: libc6\n\
         Description: embedded, transactional storage engine and document database\n \
         The command, which loads, reads, measures and serves databases.\n"
    );
    write(&place.join("DEBIAN/control"), control.as_bytes(), 0o644)?;
    write(&place.join("DEBIAN/conffiles"), b"/etc/spinney/spinney.toml\n", 0o644)?;
    let package = folder.join(format!("spinney_{version}_{architecture}.deb"));
    let mut build = Command::new("dpkg-deb");
    build.args(["--root-owner-group", "--build"]).arg(&place).arg(&package).stdout(Stdio::null());
    run("dpkg-deb", &mut build)?;
    Ok(package)
}

/// Unpacks the package into an empty root, and uses what is there: the tour of README.md among it.
fn try_out(package: &Path) -> Result<(), String> {
    let root = package.with_file_name("empty");
    run("dpkg-deb --extract", Command::new("dpkg-deb").arg("--extract").arg(package).arg(&root))?;
    let begin = "set -e -o pipefail; export PATH=\"$1/usr/bin:$PATH\"; cd \"$1\"; mkdir -p tour; cd tour; \
        ln -sfn \"$2\" testdata; test \"$(command -v spinney)\" = \"$1/usr/bin/spinney\"";
    let end = "test \"$(spinney get db visits front-page)\" = 1; cd ..; \
        test -s usr/share/man/man1/spinney-serve.1.gz; . usr/share/bash-completion/completions/spinney; \
        test -s usr/lib/systemd/system/spinney.service";
    let script = format!("{begin}\n{}\n{end}\n", tour()?);
    let mut bash = Command::new("bash");
    bash.args(["-c", &script, "tour"]).arg(&root).arg(Path::new(ROOT).join("testdata")).stdout(Stdio::null());
    run("the tour of the package", &mut bash)
}

/// The commands under "As a command" in README.md, but for the one that installs.
fn tour() -> Result<String, String> {
    let text = read(&Path::new(ROOT).join("README.md"))?;
    let section = text.split_once("\n## As a command\n").map(|(_, section)| section);
    let block = section.and_then(|section| section.split_once("```sh\n")).and_then(|(_, rest)| rest.split_once("```"));
    let (block, _) = block.ok_or("README.md has no commands under \"As a command\"")?;
    let lines: Vec<&str> = block.lines().filter(|line| !line.starts_with("cargo install")).collect();
    Ok(lines.join("\n"))
}

fn output(command: &mut Command) -> Result<String, String> {
    let output = command.output().map_err(|error| format!("{}: {error}", command.get_program().display()))?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
