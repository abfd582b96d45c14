//! How tables of the page look in a real browser: names of any length leave the numbers in sight.

use crate::browser::{browser, seen_at};

/// Lays out a table as the overview does, and says what of it can be seen.
const MEASURE: &str = r#"
addEventListener("DOMContentLoaded", () => {
  const columns = [{ name: "function" }, { name: "module" }, { name: "tier", numeric: false }, { name: "event" },
    { name: "samples", unit: "samples" }, { name: "share", unit: "ratio" }, { name: "weight", unit: "cycles" },
    { name: "est_events", title: "est. events" }, { name: "hosts" }];
  const rows = [
    [anchor("/row", "", NAME), MODULE, tier("precise"), "cpu/mem-loads,ldlat=30/P", 123456, 0.42, 1234567, 98765432, 12],
    [anchor("/row", "", "main"), "app", tier("software"), "major-faults", 5, 0.1, null, 7, 1],
  ];
  byId("functions").replaceChildren(table(columns, rows));
  const place = byId("functions");
  const end = place.getBoundingClientRect().right + 1;
  const cells = [...place.querySelectorAll("td")];
  const hidden = cells.filter((cell) => cell.getBoundingClientRect().right > end).length;
  const cut = cells.filter((cell) => cell.scrollWidth > cell.clientWidth);
  const told = cut.every((cell) => cell.title === cell.textContent && getComputedStyle(cell).textOverflow === "ellipsis");
  const name = cells[0].getBoundingClientRect().width;
  document.body.append(element("pre", "measured", JSON.stringify({ hidden, cut: cut.length, told, name: Math.round(name) })));
});
"#;

/// The page's own files in a folder, with what measures.
fn laid_out(name: &str, module: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let own = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("web");
    for file in ["app.js", "question.js", "style.css"] {
        std::fs::copy(own.join(file), folder.path().join(file)).unwrap();
    }
    let quoted = |text: &str| serde_json::to_string(text).unwrap();
    let script = MEASURE
        .replace("NAME", &quoted(name))
        .replace("MODULE", &quoted(module));
    std::fs::write(folder.path().join("measure.js"), script).unwrap();
    let page = std::fs::read_to_string(own.join("index.html")).unwrap();
    let page = page
        .replace("href=\"/style", "href=\"style")
        .replace("src=\"/", "src=\"")
        .replace(
            "</head>",
            "<script src=\"measure.js\" defer></script></head>",
        );
    std::fs::write(folder.path().join("page.html"), page).unwrap();
    folder
}

async fn measured(browser: &'static str, names: (&str, &str), width: u32) -> serde_json::Value {
    let folder = laid_out(names.0, names.1);
    let url = format!("file://{}", folder.path().join("page.html").display());
    let document = seen_at(browser, url, width).await;
    let found = document.split_once("class=\"measured\">").unwrap().1;
    serde_json::from_str(found.split_once("</pre>").unwrap().0).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn long_names_give_way_to_numbers() {
    let Some(browser) = browser() else { return };
    let long = "core::iter::Map$LT$alloc::vec::IntoIter$GT$::fold::closure_env".repeat(6);
    let module = "libof_a_vendor_with_a_long_name_and_version.so.1.2.3";
    for width in [1024, 1600] {
        let found = measured(browser, (&long, module), width).await;
        assert_eq!(found["hidden"], 0, "{width}: {found}");
        assert_eq!(found["told"], true, "{width}: {found}");
        assert!(found["cut"].as_u64().unwrap() >= 1, "{width}: {found}");
        assert!(found["name"].as_u64().unwrap() >= 100, "{width}: {found}");
    }
    // What fits is shown whole.
    let found = measured(browser, ("alloc::vec::push", "libc.so.6"), 1024).await;
    let none = serde_json::json!(0);
    assert_eq!((&found["hidden"], &found["cut"]), (&none, &none), "{found}");
}
