//! The libraries for C: their header, their installation, and programs that use what is installed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::files::{install, read, write};
use crate::python::target;
use crate::step::{cargo, print, program_of, run};

/// The crate, from the root of the repository.
const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../c");

/// The programs of `c/examples` that CMake builds.
const PROGRAMS: [&str; 3] = ["tour", "calls", "tour_cpp"];

/// Writes the header anew.
pub(super) fn header() -> Result<(), String> {
    let mut command = cargo("test --quiet --package spinney-c --test c the_header");
    run("the header", command.env("SPINNEY_HEADER", "1"))
}

/// `install-c FOLDER [--dev]`: builds the libraries and installs them below a folder.
pub(super) fn command(arguments: &[&str]) -> Result<(), String> {
    match arguments {
        [folder] => build(Path::new(folder), "dist"),
        [folder, "--dev"] => build(Path::new(folder), "debug"),
        _ => Err("install-c takes a folder, and --dev for a build without optimizations".to_owned()),
    }
}

/// Builds the libraries and installs them below `prefix`.
pub(super) fn build(prefix: &Path, profile: &str) -> Result<(), String> {
    // Without optimizations they are those of the tests: other selections of packages have other features.
    let (build, built) = match profile {
        "dist" => ("build --profile dist --package spinney-c", target().join("dist")),
        _ => ("test --quiet --workspace --test c --no-run", target().join("debug/deps")),
    };
    run("the build of the libraries", &mut cargo(build))?;
    let folder = Path::new(FOLDER);
    for (from, to) in [
        (built.join("libspinney_c.so"), "lib/libspinney.so"),
        (built.join("libspinney_c.a"), "lib/libspinney.a"),
        (folder.join("include/spinney.h"), "include/spinney.h"),
        (folder.join("include/spinney.hpp"), "include/spinney.hpp"),
        (folder.join("spinney-config.cmake"), "lib/cmake/spinney/spinney-config.cmake"),
        (folder.join("../LICENSE-MIT"), "share/doc/spinney/LICENSE-MIT"),
        (folder.join("../LICENSE-APACHE"), "share/doc/spinney/LICENSE-APACHE"),
    ] {
        install(&from, &prefix.join(to), 0o644)?;
    }
    for (template, to) in [
        ("spinney.pc.in", "lib/pkgconfig/spinney.pc"),
        ("spinney-config-version.cmake.in", "lib/cmake/spinney/spinney-config-version.cmake"),
    ] {
        let text = read(&folder.join(template))?.replace("@VERSION@", env!("CARGO_PKG_VERSION"));
        write(&prefix.join(to), text.as_bytes(), 0o644)?;
    }
    Ok(())
}

/// `c-test [--dev]`: installs the libraries into an empty folder and tries them out from another one.
pub(super) fn test(arguments: &[&str]) -> Result<(), String> {
    let profile = match arguments {
        [] => "dist",
        ["--dev"] => "debug",
        _ => return Err("c-test takes --dev, or nothing".to_owned()),
    };
    let place = std::env::temp_dir().join(format!("spinney-c-{}", std::process::id()));
    fs::remove_dir_all(&place).ok();
    let done = build(&place.join("built"), profile).and_then(|()| try_out(&place));
    fs::remove_dir_all(&place).ok();
    done
}

/// `c-count [--dev]`: counts the instructions of a get from Rust and from C by callgrind.
pub(super) fn count(arguments: &[&str]) -> Result<(), String> {
    let profile = match arguments {
        [] => "bench",
        ["--dev"] => "dev",
        _ => return Err("c-count takes --dev, or nothing".to_owned()),
    };
    let build = format!("bench --package spinney-c --no-run --message-format json --profile {profile}");
    let program = program_of(&mut cargo(&build))?;
    let of = |part| instructions(&program, part);
    let (none, rust, c) = (of("none")?, of("rust")?, of("c")?);
    let (rust, c) = (rust - none, c - none);
    print(&format!(
        "instructions of a get: {:.0} from Rust, {:.0} from C, ratio {:.3}\n",
        rust / GETS,
        c / GETS,
        c / rust
    ));
    Ok(())
}

/// How many gets a part of the bench makes.
const GETS: f64 = 100_000.0;

/// All instructions of a part of the bench.
fn instructions(program: &str, part: &str) -> Result<f64, String> {
    let out = target().join(format!("callgrind-{part}.out"));
    let mut valgrind = Command::new("valgrind");
    valgrind.args(["--quiet", "--tool=callgrind"]).arg(format!("--callgrind-out-file={}", out.display())).arg(program);
    run("callgrind", valgrind.env("SPINNEY_PART", part))?;
    let text = read(&out)?;
    let total = text.lines().find_map(|line| line.strip_prefix("summary: ").or_else(|| line.strip_prefix("totals: ")));
    total.and_then(|total| total.trim().parse().ok()).ok_or(format!("{}: there is no total", out.display()))
}

/// Moves what is installed to where it was not made for, and builds and runs the examples there: by CMake, by
/// pkg-config, under AddressSanitizer, and under valgrind where it is.
fn try_out(place: &Path) -> Result<(), String> {
    let prefix = place.join("installed");
    fs::rename(place.join("built"), &prefix).map_err(|error| format!("{}: {error}", prefix.display()))?;
    let sources = place.join("sources");
    for name in ["CMakeLists.txt", "tour.c", "calls.c", "tour.cpp"] {
        install(&Path::new(FOLDER).join("examples").join(name), &sources.join(name), 0o644)?;
    }
    let plain = cmake(place, "plain", "")?;
    for program in PROGRAMS {
        example(place, program, Command::new(plain.join(program)))?;
    }
    pkg_config(place)?;
    let sanitized = cmake(place, "sanitized", "-fsanitize=address -fno-omit-frame-pointer")?;
    for program in PROGRAMS {
        example(place, &format!("{program} under AddressSanitizer"), Command::new(sanitized.join(program)))?;
    }
    if Command::new("valgrind").arg("--version").stdout(Stdio::null()).status().is_err() {
        print("valgrind is not there: the examples were not run under it\n");
        return Ok(());
    }
    for program in PROGRAMS {
        let mut valgrind = Command::new("valgrind");
        valgrind.args([
            "--quiet",
            "--error-exitcode=9",
            "--leak-check=full",
            "--errors-for-leak-kinds=definite",
            "--show-leak-kinds=definite",
        ]);
        valgrind.arg(plain.join(program));
        example(place, &format!("{program} under valgrind"), valgrind)?;
    }
    Ok(())
}

/// Builds the examples by CMake, with flags of the compilers, and tells where they are.
fn cmake(place: &Path, name: &str, flags: &str) -> Result<PathBuf, String> {
    let build = place.join(name);
    let mut configure = Command::new("cmake");
    configure.arg("-S").arg(place.join("sources")).arg("-B").arg(&build).stdout(Stdio::null());
    configure.arg(format!("-DCMAKE_PREFIX_PATH={}", place.join("installed").display()));
    configure.args([format!("-DCMAKE_C_FLAGS={flags}"), format!("-DCMAKE_CXX_FLAGS={flags}")]);
    run("cmake", &mut configure)?;
    run("the build by CMake", Command::new("cmake").arg("--build").arg(&build).stdout(Stdio::null()))?;
    Ok(build)
}

/// Builds and runs the tour with what pkg-config tells.
fn pkg_config(place: &Path) -> Result<(), String> {
    let lib = place.join("installed/lib");
    let script = "cc sources/tour.c $(pkg-config --cflags --libs spinney) -o pkg_config_tour";
    let mut build = Command::new("sh");
    build.current_dir(place).args(["-ec", script]).env("PKG_CONFIG_PATH", lib.join("pkgconfig"));
    run("the build by pkg-config", &mut build)?;
    let mut tour = Command::new(place.join("pkg_config_tour"));
    tour.env("LD_LIBRARY_PATH", lib);
    example(place, "tour by pkg-config", tour)
}

/// Runs an example on a new database; its last line is "done".
fn example(place: &Path, what: &str, mut command: Command) -> Result<(), String> {
    let folder = place.join("run");
    fs::remove_dir_all(&folder).ok();
    fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let output = command.arg("db").current_dir(folder).output().map_err(|error| format!("{what}: {error}"))?;
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    if !output.status.success() || !out.ends_with("done\n") {
        return Err(format!("{what} failed ({}):\n{out}\n{err}", output.status));
    }
    print(&format!("{what}: done\n"));
    Ok(())
}
