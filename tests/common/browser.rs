//! A page in a real browser: headless Chromium loads it, a test's script acts on it, and the resulting document is read.
#![allow(dead_code)]

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use rprof::profile::Profile;
use rprof::report::{Format, View, json, render};

/// What a page was like after its scripts ran: the document, and the browser's messages.
pub struct Seen {
    pub document: String,
    pub messages: String,
}

/// The profile of eleven kernels.
pub fn sample() -> Profile {
    json::read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/profiles/kernels.json")).unwrap()
}

/// Its page.
pub fn page(profile: &Profile) -> String {
    render(profile, Format::Html, &View::default()).unwrap()
}

/// Loads `page` at `#hash`, with `act` run at its end; what `act` hands to `say` is the text of `#said`. `None` if there is no browser.
/// The browser's clock is virtual: it jumps to the page's end if no timer is due, whatever other threads of the browser still do. `act`
/// awaits their work by `held(promise)` or `until(condition)`, which let real time pass.
pub fn browse(page: &str, hash: &str, act: &str) -> Option<Seen> {
    browse_at(page, hash, act, 1500, &[])
}

/// The same in a window of `width` pixels, with further `options` of the browser.
pub fn browse_at(page: &str, hash: &str, act: &str, width: u32, options: &[&str]) -> Option<Seen> {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let folder = tempfile::tempdir().unwrap();
    let said = "<pre id=\"said\"></pre><script>const said = []; const say = (x) => { said.push(x); \
                document.getElementById('said').textContent = said.join('\\n'); };
                const until = async (is) => { for (let k = 0; k < 15000 && !is(); k += 1) { \
                for (let n = 0; n < 1e6; n += 1); await new Promise((done) => setTimeout(done, 1)); } };
                const held = async (promise) => { let over = false; promise.finally(() => { over = true; }); \
                await until(() => over); return promise; };";
    let path = folder.path().join(format!("page{}.html", COUNT.fetch_add(1, Ordering::Relaxed)));
    let script = format!("{said} addEventListener('load', () => {{ {act} }});</script></body>");
    let whole = page.replacen("</body>\n</html>", &format!("{script}\n</html>"), 1);
    assert!(whole.len() > page.len());
    fs::write(&path, whole).unwrap();
    let size = format!("--window-size={width},1000");
    let options: Vec<&str> = [&*size].iter().chain(options).copied().collect();
    document(&format!("file://{}#{hash}", path.display()), &options)
}

/// The document at `address` after its scripts ran, in a browser with these `options`; `None` where there is no browser.
pub fn document(address: &str, options: &[&str]) -> Option<Seen> {
    let browser = ["chromium", "chromium-browser", "google-chrome"].into_iter().find(|name| {
        Command::new(name)
            .arg("--version")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .is_ok_and(|s| s.success())
    });
    let Some(browser) = browser else {
        println!("SKIPPED: packages: chromium is not installed");
        return None;
    };
    let folder = tempfile::tempdir().unwrap();
    let output = Command::new("timeout")
        .args(["60", browser, "--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", "--dump-dom"])
        .arg("--virtual-time-budget=20000")
        .args(options)
        .arg(format!("--user-data-dir={}", folder.path().join("profile").display()))
        .arg(address)
        .output()
        .unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let messages: Vec<String> =
        text(&output.stderr).lines().filter(|l| l.contains("CONSOLE")).map(str::to_owned).collect();
    let seen = Seen { document: text(&output.stdout), messages: messages.join("\n") };
    assert!(seen.document.contains("</html>"), "no document: {}", text(&output.stderr));
    Some(seen)
}

impl Seen {
    /// What the test's own script said.
    pub fn said(&self) -> Vec<String> {
        let text = self.document.split("id=\"said\">").nth(1).unwrap().split("</pre>").next().unwrap();
        text.lines().map(str::to_owned).collect()
    }

    /// No message came, and the test's script said `lines`.
    #[track_caller]
    pub fn says(&self, lines: &[&str]) {
        assert_eq!(self.messages, "", "messages on the console");
        assert_eq!(self.said(), lines);
    }
}
