//! The package for Debian and Ubuntu: the command, its man pages and completions, and the service.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

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
    let binary = match arguments {
        [] => {
            run("the build of the command", &mut cargo("build --release --package spinney-cli"))?;
            target().join("release/spinney")
        }
        ["--binary", path] => PathBuf::from(path),
        _ => return Err("deb takes --binary and a path, or nothing".to_owned()),
    };
    let package = build(&binary)?;
    try_out(&package)?;
    print(&format!("{}\n", package.display()));
    Ok(())
}

/// Builds the package around a binary.
fn build(binary: &Path) -> Result<PathBuf, String> {
    let (root, folder) = (Path::new(ROOT), target().join("deb"));
    let place = folder.join("root");
    fs::remove_dir_all(&folder).ok();
    install(binary, &place.join("usr/bin/spinney"), 0o755)?;
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
    build.args(["--root-owner-group", "--build"]).arg(&place).arg(&package).stdout(std::process::Stdio::null());
    run("dpkg-deb", &mut build)?;
    Ok(package)
}

/// Unpacks the package into an empty root, and uses what is there.
fn try_out(package: &Path) -> Result<(), String> {
    let root = package.with_file_name("empty");
    run("dpkg-deb --extract", Command::new("dpkg-deb").arg("--extract").arg(package).arg(&root))?;
    let tour = "set -e; export PATH=\"$1/usr/bin:$PATH\"; cd \"$1\"; \
        spinney create db t; spinney put db t key value; test \"$(spinney get db t key)\" = value; \
        spinney verify db >/dev/null; test -s usr/share/man/man1/spinney-serve.1.gz; \
        . usr/share/bash-completion/completions/spinney; test -s usr/lib/systemd/system/spinney.service";
    run("the tour of the package", Command::new("bash").args(["-c", tour, "tour"]).arg(&root))
}

fn output(command: &mut Command) -> Result<String, String> {
    let output = command.output().map_err(|error| format!("{}: {error}", command.get_program().display()))?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

fn install(from: &Path, to: &Path, mode: u32) -> Result<(), String> {
    let bytes = fs::read(from).map_err(|error| format!("{}: {error}", from.display()))?;
    write(to, &bytes, mode)
}

fn write(path: &Path, bytes: &[u8], mode: u32) -> Result<(), String> {
    let told = |error: std::io::Error| format!("{}: {error}", path.display());
    fs::create_dir_all(path.parent().unwrap_or(path)).map_err(told)?;
    fs::write(path, bytes).map_err(told)?;
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).map_err(told)
}
