//! Addresses of answers: each leads to the same answer, whenever it is followed; on the page in a real browser too.

use std::collections::BTreeSet;

use serde_json::Value as Json;

use crate::browser::{browser, seen};
use crate::support::{Running, encoded, forget_now, running};
use crate::truth::ALL;

/// The API's address of what an address of the page shows.
fn of_api(page: &str) -> String {
    let query = page.strip_prefix("/?question=").unwrap();
    let (question, query) = query.split_once('&').unwrap();
    format!("/api/v1/{question}?{query}")
}

/// What must be the same: all but the links, which themselves lead on, and what is told of now.
fn rows(answer: &Json) -> Json {
    let mut same: Json = ["columns", "rows", "other", "parts"]
        .map(|name| answer[name].clone())
        .into();
    forget_now(&answer["columns"], &mut same[1]);
    same
}

#[tokio::test(flavor = "multi_thread")]
async fn links_lead_to_the_same_answer_and_on() {
    let Some(running) = running().await else {
        return;
    };
    let mut next = BTreeSet::new();
    for name in memwide_query::ask::Name::ALL {
        let name = name.name();
        let answer = running
            .get(&format!("/api/v1/{name}?{ALL}&limit=7"))
            .await
            .json();
        let links = &answer["links"];
        for address in [
            links["self"].as_str().unwrap().to_owned(),
            of_api(links["page"].as_str().unwrap()),
        ] {
            assert!(
                address.starts_with(&format!(
                    "/api/v1/{name}?since=2026-11-20T10%3A00%3A00Z&until="
                )),
                "{address}"
            );
            let again = running.get(&address).await;
            assert_eq!(again.status, 200, "{address}: {}", again.text());
            assert_eq!(rows(&answer), rows(&again.json()), "{address}");
        }
        let links = links["next"].as_object().unwrap().values();
        next.extend(links.map(|address| address.as_str().unwrap().to_owned()));
    }
    assert!(next.len() > 10, "{next:?}");
    for address in next {
        let reply = running.get(&of_api(&address)).await;
        assert_eq!(reply.status, 200, "{address}: {}", reply.text());
    }
    relative(&running).await;
    of_rows(&running).await;
    running.stop().await;
}

/// Relative times become moments, those of `before_…` too; filters and grouping stay.
async fn relative(running: &Running) {
    let asked = "/api/v1/diff?since=-2h&until=-1h&before_since=-26h&before_until=-25h&host=alpha&host=beta&tier=precise&limit=3";
    let links = running.get(asked).await.json()["links"].clone();
    let own = links["self"].as_str().unwrap();
    for kept in [
        "before_since=20",
        "before_until=20",
        "host=alpha&host=beta",
        "tier=precise",
        "limit=3",
    ] {
        assert!(own.contains(kept), "{kept} in {own}");
    }
    assert!(!own.contains("=-"), "{own}");
    let csv = running.get("/api/v1/functions?since=-1h&format=csv").await;
    assert!(
        csv.page
            .unwrap()
            .starts_with("/?question=functions&since=20")
    );
}

/// The filters of a row lead to that row.
async fn of_rows(running: &Running) {
    let url = format!("/api/v1/functions?{ALL}&per_host=true");
    let reply = running.get(&url).await;
    let links = &reply.json()["links"];
    let filters = links["row_filters"].as_array().unwrap();
    assert!(
        filters.iter().any(|name| name == "function") && filters.iter().any(|name| name == "host"),
        "{filters:?}"
    );
    for row in reply.records() {
        let mut address = of_api(links["page"].as_str().unwrap());
        for name in filters.iter().filter_map(Json::as_str) {
            let value = row[name].as_str().unwrap();
            if !value.is_empty() {
                address.push_str(&format!("&{name}={}", encoded(value)));
            }
        }
        let found = running.get(&address).await.records();
        let is_it = |found: &&Json| {
            found["samples"] == row["samples"] && found["function"] == row["function"]
        };
        assert!(
            found.iter().any(|found| is_it(&found)),
            "{address}: {found:?} has not {row}"
        );
        let is_named = row["function"] != "";
        let others = found
            .iter()
            .filter(|found| found["function"] != row["function"]);
        assert!(!is_named || others.count() == 0, "{address}: {found:?}");
    }
}

/// Texts of the cells of the first table of a part of the page, row by row, without the column that leads to a row.
fn cells(document: &str, id: &str) -> Vec<Vec<String>> {
    let part = document.split_once(&format!("id=\"{id}\"")).unwrap().1;
    let body = part
        .split_once("<tbody>")
        .unwrap()
        .1
        .split_once("</tbody>")
        .unwrap()
        .0;
    let rows = body.split("<tr>").skip(1);
    let text = |cell: &str| {
        let mut text = String::new();
        let mut is_tag = true; // the rest of `<td …`
        for sign in cell.chars() {
            match sign {
                '<' => is_tag = true,
                '>' => is_tag = false,
                sign if !is_tag => text.push(sign),
                _ => {}
            }
        }
        text
    };
    rows.map(|row| row.split("<td").skip(1).map(text).collect())
        .collect()
}

/// The first address within a part of the page that has this class or text.
fn address(document: &str, id: &str, mark: &str) -> String {
    let part = document.split_once(&format!("id=\"{id}\"")).unwrap().1;
    let at = part
        .find(mark)
        .unwrap_or_else(|| panic!("{mark} in {part}"));
    let link = &part[part[..at].rfind("<a ").unwrap()..];
    let address = link
        .split_once("href=\"")
        .unwrap()
        .1
        .split_once('"')
        .unwrap()
        .0;
    address.replace("&amp;", "&")
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_shows_the_same_rows_at_its_addresses() {
    let Some(browser) = browser() else { return };
    let Some(running) = running().await else {
        return;
    };
    // What the overview shows, and where it says that this is found.
    let overview = seen(
        browser,
        format!("{}/?{ALL}&by=weight&host=alpha", running.url),
    )
    .await;
    let functions = cells(&overview, "functions");
    assert!(functions.len() > 3, "{overview}");
    let page = address(&overview, "functions-title", ">link<");
    for kept in [
        "question=functions",
        "since=2026-11-20T10%3A00%3A00Z",
        "by=weight",
        "host=alpha",
    ] {
        assert!(page.contains(kept), "{kept} in {page}");
    }
    let shown = seen(browser, format!("{}{page}", running.url)).await;
    let names = |rows: &[Vec<String>], at: usize| {
        rows.iter()
            .map(|row| row[at].clone())
            .collect::<Vec<String>>()
    };
    let all = cells(&shown, "question");
    assert_eq!(names(&functions, 0), names(&all, 1));
    // The same by the API.
    let answer = running.get(&of_api(&page)).await.records();
    let expected: Vec<&str> = answer
        .iter()
        .map(|row| row["function"].as_str().unwrap())
        .collect();
    let shown_names: Vec<String> = names(&all, 1)
        .iter()
        .map(|name| {
            name.replace('—', "")
                .replace("&lt;", "<")
                .replace("&gt;", ">")
                .replace("&amp;", "&")
        })
        .collect();
    assert_eq!(shown_names, expected);
    // A row of that, alone.
    let row = address(&shown, "question", "class=\"row\"");
    let alone = cells(
        &seen(browser, format!("{}{row}", running.url)).await,
        "question",
    );
    assert!(alone.iter().any(|row| row[1..] == all[0][1..]), "{alone:?}");
    assert!(alone.iter().all(|row| row[1] == all[0][1]), "{alone:?}");
    // A statement runs again.
    let sql = encoded("SELECT 40 + 2 AS answer");
    let ran = seen(browser, format!("{}/?sql={sql}", running.url)).await;
    assert_eq!(cells(&ran, "sql-result"), [["42"]]);
    running.stop().await;
}
