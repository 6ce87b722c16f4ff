//! The page of the server in a browser: Chromium, without a window.

mod browser;

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

use browser::Browser;

use crate::clients::built;
use crate::python::target;
use crate::step::run;

/// Pixels of the windows: a laptop and a phone.
const WINDOWS: [(&str, u32, u32); 2] = [("laptop", 1280, 800), ("phone", 375, 700)];

/// Waits until the page has been shown twice, and gives its width and height, what went wrong, and its text.
const SHOWN: &str = "const wait = () => { const { shown, error } = document.body.dataset, page = document.documentElement; \
    if (error || Number(shown) >= 2) done([page.scrollWidth, page.scrollHeight, error || '', document.body.innerText]); \
    else setTimeout(wait, 200); }; wait();";

/// A server that is ended when this is dropped, and what it writes.
struct Serving {
    child: Child,
    out: BufReader<ChildStdout>,
}

impl Drop for Serving {
    fn drop(&mut self) {
        // It may have ended by itself, which the test has seen then.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// `page-test [--driver PATH] [--binary PATH]`.
pub(super) fn command(arguments: &[&str]) -> Result<(), String> {
    let (mut driver, mut binary) = ("chromedriver", None);
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        let value = rest.next().ok_or_else(|| format!("{argument} needs a path"))?;
        match *argument {
            "--driver" => driver = value,
            "--binary" => binary = Some(PathBuf::from(value)),
            other => return Err(format!("unknown option `{other}`")),
        }
    }
    let server = match binary {
        Some(path) => path.canonicalize().map_err(|error| format!("{}: {error}", path.display()))?,
        None => built()?,
    };
    let folder = target().join("page");
    // It may not be there.
    drop(fs::remove_dir_all(&folder));
    fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let (_serving, address) = serve(&server, &folder)?;
    for (name, width, height) in WINDOWS {
        for scheme in ["light", "dark"] {
            let picture = folder.join(format!("{name}-{scheme}.png"));
            look(driver, &address, (width, height), scheme == "dark", &picture)
                .map_err(|error| format!("{name}, {scheme}: {error}"))?;
        }
    }
    tell(&format!("the page is well; its pictures are in {}", folder.display()));
    Ok(())
}

#[expect(clippy::print_stdout, reason = "where the pictures are is the result")]
fn tell(result: &str) {
    println!("{result}");
}

/// A server with a few documents, and the address of its page.
fn serve(server: &Path, folder: &Path) -> Result<(Serving, String), String> {
    let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
    let (db, rows) = (folder.join("db"), folder.join("rows.json"));
    let mut file = fs::File::create(&rows).map_err(failed)?;
    for id in 0..5000 {
        writeln!(file, "{{\"_id\": {id}, \"name\": \"article {}\", \"price\": {}}}", id * 7 % 5000, id % 91)
            .map_err(failed)?;
    }
    let mut import = Command::new(server);
    run("doc import", import.args(["doc", "import"]).arg(&db).args(["shop.articles"]).arg(&rows))?;
    let mut child = Command::new(server)
        .arg("serve")
        .arg(&db)
        .args(["--listen", "127.0.0.1:0", "--metrics", "127.0.0.1:0"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(failed)?;
    let out = child.stdout.take().ok_or("the server has no output")?;
    let mut serving = Serving { child, out: BufReader::new(out) };
    let mut line = String::new();
    serving.out.read_line(&mut line).map_err(failed)?;
    let address = line.trim().rsplit(' ').next().filter(|address| address.starts_with("http://"));
    Ok((serving, address.ok_or_else(|| format!("no address of the page in {line:?}"))?.to_owned()))
}

/// Looks at the page in a window: it is shown, follows the server and is no wider than the window; takes a picture.
fn look(driver: &str, address: &str, window: (u32, u32), dark: bool, picture: &Path) -> Result<(), String> {
    let browser = Browser::open(driver, window, dark)?;
    browser.go(address)?;
    let shown = browser.run(SHOWN)?;
    if let Some(error) = shown[2].as_str().filter(|error| !error.is_empty()) {
        return Err(error.to_owned());
    }
    let pixels = |at: usize| shown[at].as_u64().and_then(|pixels| u32::try_from(pixels).ok()).unwrap_or_default();
    let (wide, high, text) = (pixels(0), pixels(1), shown[3].as_str().unwrap_or_default());
    if wide > window.0 {
        return Err(format!("the page is {wide} pixels wide in a window of {}", window.0));
    }
    for part in ["shop.articles", "operations a second", "Slow commands", "a scan searches", "resident"] {
        if !text.contains(part) {
            return Err(format!("the page does not tell {part:?}"));
        }
    }
    let bytes = browser.picture((wide, high))?;
    fs::write(picture, bytes).map_err(|error| format!("{}: {error}", picture.display()))
}
