//! A server that a chore runs against.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// A server with a new database, on a port of its own. It ends with this.
#[derive(Debug)]
pub(super) struct Server {
    child: Child,
    /// Where it listens.
    pub(super) address: String,
}

impl Server {
    /// Starts the command `serve` of a binary, in a directory that is made.
    pub(super) fn start(binary: &Path, place: &Path, args: &[&str]) -> Result<Self, String> {
        fs::create_dir_all(place).map_err(|error| error.to_string())?;
        let mut child = Command::new(binary)
            .arg("serve")
            .arg(place.join("db"))
            .args(["--listen", "127.0.0.1:0"])
            .args(args)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| format!("the server did not start: {error}"))?;
        let lines = child.stdout.take().map(BufReader::new);
        for line in lines.into_iter().flat_map(|out| out.lines().map_while(Result::ok)) {
            if let Some(rest) = line.strip_prefix("listening on ") {
                let address = rest.split(": ").next().unwrap_or_default().to_owned();
                return Ok(Self { child, address });
            }
        }
        Err("the server did not say where it listens".to_owned())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}
