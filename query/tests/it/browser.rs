//! A real browser that looks at the page.

use std::process::Command;

/// A browser without a window, if there is one.
pub(crate) fn browser() -> Option<&'static str> {
    let known = ["chromium-headless-shell", "chromium", "google-chrome"];
    let runs = |name: &&str| {
        Command::new(name)
            .arg("--version")
            .output()
            .is_ok_and(|ran| ran.status.success())
    };
    let found = known.into_iter().find(runs);
    if found.is_none() {
        eprintln!("skipped: no Chromium (Debian: apt-get install chromium-headless-shell)");
    }
    found
}

/// The document that a browser has at an address once scripts have run.
pub(crate) async fn seen(browser: &'static str, url: String) -> String {
    seen_at(browser, url, 800).await
}

/// The same in a window of so many pixels.
pub(crate) async fn seen_at(browser: &'static str, url: String, width: u32) -> String {
    let profile = tempfile::tempdir().unwrap();
    let data = format!("--user-data-dir={}", profile.path().display());
    let window = format!("--window-size={width},900");
    let ran = tokio::task::spawn_blocking(move || {
        Command::new(browser)
            .args([
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--virtual-time-budget=20000",
                "--dump-dom",
                &data,
                &window,
                &url,
            ])
            .output()
            .unwrap()
    });
    let output = ran.await.unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).unwrap()
}
