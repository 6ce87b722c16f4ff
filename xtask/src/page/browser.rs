//! A browser without a window, driven by WebDriver: requests in JSON to ChromeDriver, which drives Chromium.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, ChildStdout, Command, Stdio};

use serde_json::{Value, json};

/// A browser, which ends when this is dropped.
pub(super) struct Browser {
    driver: Child,
    /// Read no more, and open for what the driver writes.
    _out: BufReader<ChildStdout>,
    port: u16,
    session: String,
}

impl Drop for Browser {
    fn drop(&mut self) {
        // The driver ends its browser with the session; what fails here has ended already.
        drop(self.request("DELETE", &format!("/session/{}", self.session), &json!({})));
        drop(self.driver.kill());
        drop(self.driver.wait());
    }
}

impl Browser {
    /// A browser whose window has a size in pixels, as a phone has it, light or dark.
    pub(super) fn open(driver: &str, (width, height): (u32, u32), dark: bool) -> Result<Self, String> {
        let failed = |error: std::io::Error| format!("{driver}: {error}");
        let mut child = Command::new(driver)
            .arg("--port=0")
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(failed)?;
        let mut out = BufReader::new(child.stdout.take().ok_or("the driver has no output")?);
        let mut line = String::new();
        let port = loop {
            line.clear();
            if out.read_line(&mut line).map_err(failed)? == 0 {
                return Err(format!("{driver} ended at once"));
            }
            if let Some((_, rest)) = line.split_once("started successfully on port ") {
                break rest.trim().trim_end_matches('.').parse().map_err(|_| format!("{driver}: {line}"))?;
            }
        };
        let mut browser = Self { driver: child, _out: out, port, session: String::new() };
        let options = json!({
            "args": [
                "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run", "--disable-quic",
                "--disable-background-networking", "--disable-component-update", "--disable-sync",
            ],
            "mobileEmulation": {"deviceMetrics": {"width": width, "height": height, "pixelRatio": 1.0}},
        });
        let wanted = json!({"capabilities": {"alwaysMatch": {"goog:chromeOptions": options}}});
        let opened = browser.request("POST", "/session", &wanted)?;
        browser.session = opened["sessionId"].as_str().ok_or("the driver gives no session")?.to_owned();
        let scheme = if dark { "dark" } else { "light" };
        let media = json!({"features": [{"name": "prefers-color-scheme", "value": scheme}]});
        browser.tell("Emulation.setEmulatedMedia", &media)?;
        Ok(browser)
    }

    /// Goes to an address.
    pub(super) fn go(&self, address: &str) -> Result<(), String> {
        self.of_session("url", &json!({"url": address})).map(drop)
    }

    /// Waits for what a script gives, which calls its argument with that.
    pub(super) fn run(&self, script: &str) -> Result<Value, String> {
        let script = format!("const done = arguments[0]; {script}");
        self.of_session("execute/async", &json!({"script": script, "args": []}))
    }

    /// A picture of the whole page, in PNG.
    pub(super) fn picture(&self, (width, height): (u32, u32)) -> Result<Vec<u8>, String> {
        let clip = json!({"x": 0, "y": 0, "width": width, "height": height, "scale": 1});
        let taken = self.tell("Page.captureScreenshot", &json!({"captureBeyondViewport": true, "clip": clip}))?;
        decoded(taken["data"].as_str().unwrap_or_default()).ok_or_else(|| "the picture is no base64".to_owned())
    }

    /// A command of Chromium's own protocol.
    fn tell(&self, command: &str, parameters: &Value) -> Result<Value, String> {
        self.of_session("goog/cdp/execute", &json!({"cmd": command, "params": parameters}))
    }

    fn of_session(&self, what: &str, body: &Value) -> Result<Value, String> {
        self.request("POST", &format!("/session/{}/{what}", self.session), body)
    }

    fn request(&self, method: &str, path: &str, body: &Value) -> Result<Value, String> {
        let failed = |error: std::io::Error| format!("the driver: {error}");
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).map_err(failed)?;
        let (body, port) = (body.to_string(), self.port);
        let head = format!("{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Length: {}\r\n", body.len());
        write!(stream, "{head}Content-Type: application/json\r\nConnection: close\r\n\r\n{body}").map_err(failed)?;
        // The driver keeps the connection: the length of its answer is in the head.
        let (mut stream, mut length) = (BufReader::new(stream), 0);
        for line in stream.by_ref().lines() {
            let line = line.map_err(failed)?.to_ascii_lowercase();
            if line.is_empty() {
                break;
            }
            if let Some(number) = line.strip_prefix("content-length:") {
                length = number.trim().parse().map_err(|_| format!("the driver: {line}"))?;
            }
        }
        let mut answer = vec![0; length];
        stream.read_exact(&mut answer).map_err(failed)?;
        let mut reply: Value = serde_json::from_slice(&answer).map_err(|error| format!("the driver: {error}"))?;
        let value = reply["value"].take();
        match value.get("error") {
            Some(error) => Err(format!("{error}: {}", value["message"])),
            None => Ok(value),
        }
    }
}

/// The bytes of a text in base64.
fn decoded(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    let (mut bits, mut count) = (0_u32, 0);
    for letter in text.bytes().filter(|letter| *letter != b'=') {
        let six = match letter {
            b'A'..=b'Z' => letter - b'A',
            b'a'..=b'z' => letter - b'a' + 26,
            b'0'..=b'9' => letter - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        };
        bits = bits << 6 | u32::from(six);
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push(u8::try_from(bits >> count & 0xFF).ok()?);
        }
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_decoded() {
        for (text, bytes) in [("", ""), ("Zg==", "f"), ("Zm8=", "fo"), ("Zm9v", "foo"), ("Zm9vYmFy", "foobar")] {
            assert_eq!(decoded(text).unwrap(), bytes.as_bytes());
        }
        assert_eq!(decoded("/+8=").unwrap(), [0xFF, 0xEF]);
        assert_eq!(decoded("*"), None);
    }
}
