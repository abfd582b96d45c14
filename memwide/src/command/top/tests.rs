use super::app::{App, Step};
use super::draw::{About, draw, rows};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use serde_json::{Value, json};

const WIDTH: u16 = 80;
const HEIGHT: u16 = 24;

/// An answer of three functions; one has a name made to steer a terminal.
fn functions() -> Value {
    json!({
        "columns": [{"name": "function"}, {"name": "event"}, {"name": "samples", "unit": "samples"}, {"name": "weight", "unit": "cycles"}],
        "rows": [["lookup", "loads", 70, 900.0], ["fill", "loads", 20, 5000.0], ["\u{1b}[31mevil", "stores", 10, null]],
        "completeness": {"hosts_seen": 2, "hosts_expected": 3, "samples_stored": 11, "samples_produced": 12},
        "notes": [],
    })
}

fn hosts() -> Value {
    json!({
        "columns": [{"name": "function"}, {"name": "host"}, {"name": "samples", "unit": "samples"}],
        "rows": [["fill", "a", 15], ["fill", "b", 5]], "notes": [],
    })
}

fn app() -> App {
    let mut app = App::new(vec![("since".to_owned(), "-15m".to_owned())], "samples");
    app.take(Ok(functions()));
    app
}

fn press(app: &mut App, code: KeyCode) -> Step {
    app.key(KeyEvent::from(code), usize::from(WIDTH), rows(HEIGHT))
}

fn write(app: &mut App, text: &str) {
    for sign in text.chars() {
        press(app, KeyCode::Char(sign));
    }
}

/// What stands on the terminal, line by line, and which lines are marked.
fn seen(app: &App) -> (Vec<String>, Vec<usize>) {
    let mut terminal = Terminal::new(TestBackend::new(WIDTH, HEIGHT)).unwrap();
    let about = About {
        server: "http://127.0.0.1:7070",
        range: "-15m to now",
        age_s: 1,
    };
    terminal.draw(|frame| draw(frame, app, &about)).unwrap();
    let buffer = terminal.backend().buffer();
    let lines = buffer.content.chunks(usize::from(WIDTH));
    let text = |cells: &[ratatui::buffer::Cell]| {
        let symbols = cells.iter().map(ratatui::buffer::Cell::symbol);
        symbols.collect::<String>().trim_end().to_owned()
    };
    let is_marked = |cells: &&[ratatui::buffer::Cell]| {
        cells[0]
            .modifier
            .contains(ratatui::style::Modifier::REVERSED)
    };
    let marked = lines
        .clone()
        .enumerate()
        .filter(|(_, cells)| is_marked(cells));
    (
        lines.clone().map(text).collect(),
        marked.map(|(at, _)| at).collect(),
    )
}

/// The last line of a terminal so wide.
fn keys(app: &App, width: u16) -> String {
    let mut terminal = Terminal::new(TestBackend::new(width, HEIGHT)).unwrap();
    let about = About {
        server: "http://127.0.0.1:7070",
        range: "-15m to now",
        age_s: 1,
    };
    terminal.draw(|frame| draw(frame, app, &about)).unwrap();
    let cells = &terminal.backend().buffer().content;
    let last = cells.chunks(usize::from(width)).next_back().unwrap();
    let symbols = last.iter().map(ratatui::buffer::Cell::symbol);
    symbols.collect::<String>().trim_end().to_owned()
}

/// The names in the rows shown.
fn names(app: &App) -> Vec<String> {
    let (table, _) = app.table(usize::from(WIDTH)).unwrap();
    let rows = table.rows.iter();
    rows.map(|row| row[0].as_str().unwrap().to_owned())
        .collect()
}

fn param(app: &App, name: &str) -> Option<String> {
    let (_, params) = app.question();
    let mut of = params.into_iter().filter(|(known, _)| known == name);
    let value = of.next().map(|(_, value)| value);
    assert!(of.next().is_none(), "{name} twice");
    value
}

#[test]
fn a_small_terminal_shows_rows_completeness_and_keys() {
    let mut app = app();
    press(&mut app, KeyCode::Down);
    let (lines, marked) = seen(&app);
    assert_eq!(
        lines[0],
        "memwide top  http://127.0.0.1:7070  -15m to now  1 s old"
    );
    assert_eq!(lines[1], "functions");
    assert!(
        lines[2].contains("samples▼") && lines[2].starts_with("function"),
        "{lines:#?}"
    );
    assert!(
        lines[4].starts_with("lookup") && lines[5].starts_with("fill"),
        "{lines:#?}"
    );
    assert_eq!(marked, [5]);
    assert!(
        lines[6].contains("\\u{1b}[31mevil"),
        "names steer no terminal: {lines:#?}"
    );
    assert!(
        lines[21].starts_with("completeness: hosts 2 of 3"),
        "{lines:#?}"
    );
    for (at, key) in [(23, "q quit"), (23, "/ filter")] {
        assert!(
            lines[at].ends_with("q quit") && lines[at].contains(key),
            "{lines:#?}"
        );
    }
}

#[test]
fn columns_sort_and_those_the_server_orders_by_are_asked_for() {
    let mut app = app();
    assert_eq!(names(&app)[0], "lookup");
    assert_eq!(press(&mut app, KeyCode::Char('r')), Step::Draw);
    assert_eq!(names(&app)[2], "lookup");
    press(&mut app, KeyCode::Char('r'));
    // Of a terminal of 80 columns the weight is not shown until rows are ordered by it.
    assert_eq!(param(&app, "by").as_deref(), Some("samples"));
    assert_eq!(press(&mut app, KeyCode::Left), Step::Draw);
    assert_eq!(press(&mut app, KeyCode::Left), Step::Draw);
    assert_eq!(
        names(&app),
        ["\u{1b}[31mevil", "fill", "lookup"],
        "by name, the least first"
    );
    let mut by_weight = App::new(Vec::new(), "weight");
    by_weight.take(Ok(functions()));
    assert_eq!(param(&by_weight, "by").as_deref(), Some("weight"));
    assert_eq!(
        names(&by_weight),
        ["fill", "lookup", "\u{1b}[31mevil"],
        "what is not known is last"
    );
    press(&mut by_weight, KeyCode::Char('r'));
    assert_eq!(
        names(&by_weight),
        ["lookup", "fill", "\u{1b}[31mevil"],
        "turned round too"
    );
    assert_eq!(press(&mut by_weight, KeyCode::Left), Step::Ask);
    assert_eq!(param(&by_weight, "by").as_deref(), Some("samples"));
}

#[test]
fn words_search_as_they_are_typed_and_filters_go_to_the_server() {
    let mut app = app();
    press(&mut app, KeyCode::Char('/'));
    write(&mut app, "FIL q");
    assert!(names(&app).is_empty(), "`q` is typed, it does not end");
    assert!(seen(&app).0[1].contains("filter: FIL q▏"));
    press(&mut app, KeyCode::Backspace);
    assert_eq!(names(&app), ["fill"]);
    write(&mut app, "locality=remote");
    assert_eq!(param(&app, "locality"), None, "not before it is taken");
    assert_eq!(press(&mut app, KeyCode::Enter), Step::Ask);
    assert_eq!(param(&app, "locality").as_deref(), Some("remote"));
    press(&mut app, KeyCode::Char('/'));
    write(&mut app, " nonsense");
    press(&mut app, KeyCode::Esc);
    assert_eq!(names(&app), ["fill"], "what was typed is forgotten");
    app.take(Err("`locality` does not take `far`".to_owned()));
    let (lines, _) = seen(&app);
    assert!(
        lines[21].starts_with("`locality` does not take"),
        "{lines:#?}"
    );
    assert!(lines[4].starts_with("fill"), "rows stay: {lines:#?}");
}

#[test]
fn a_function_opens_into_hosts_lines_and_latency_and_back() {
    let mut app = app();
    press(&mut app, KeyCode::Down);
    assert_eq!(press(&mut app, KeyCode::Enter), Step::Ask);
    assert_eq!(app.question().0, "functions");
    assert_eq!(param(&app, "function").as_deref(), Some("fill"));
    assert_eq!(param(&app, "per_host").as_deref(), Some("true"));
    assert!(seen(&app).0[0].ends_with("asking …"));
    app.take(Ok(hosts()));
    let (lines, _) = seen(&app);
    assert_eq!(lines[1], "functions › fill by host");
    assert!(lines[23].contains("esc back"), "{lines:#?}");
    assert_eq!(press(&mut app, KeyCode::Char('l')), Step::Ask);
    assert_eq!(app.question().0, "annotate");
    assert_eq!(press(&mut app, KeyCode::Char('t')), Step::Ask);
    assert_eq!(
        (app.question().0, param(&app, "by").as_deref()),
        ("latency", Some("level"))
    );
    assert_eq!(param(&app, "function").as_deref(), Some("fill"));
    assert_eq!(press(&mut app, KeyCode::Esc), Step::Ask);
    assert_eq!(names(&app), ["lookup", "fill", "\u{1b}[31mevil"]);
    assert_eq!(seen(&app).1, [5], "the row that was opened");
}

#[test]
fn the_selected_function_stays_selected_when_rows_move() {
    let mut app = app();
    press(&mut app, KeyCode::Down);
    let mut moved = functions();
    moved["rows"][1][2] = json!(700);
    app.take(Ok(moved));
    assert_eq!(names(&app)[0], "fill");
    assert_eq!(seen(&app).1, [4]);
    press(&mut app, KeyCode::End);
    app.take(Ok(hosts()));
    assert_eq!(seen(&app).1.len(), 1, "fewer rows: the last one");
}

#[test]
fn before_the_first_answer_it_says_that_it_asks() {
    let mut app = App::new(Vec::new(), "samples");
    let (lines, _) = seen(&app);
    assert!(lines[0].ends_with("asking …"), "{lines:#?}");
    assert_eq!(lines[2], "asking …", "whatever the width");
    assert!(lines[23].ends_with("q quit"), "{lines:#?}");
    assert_eq!(press(&mut app, KeyCode::Char('q')), Step::Quit);
}

#[test]
fn narrow_terminals_say_how_to_leave() {
    let mut app = app();
    for width in [40, 60, 79, 80, 200] {
        assert!(
            keys(&app, width).ends_with("  q quit"),
            "{}",
            keys(&app, width)
        );
    }
    assert_eq!(keys(&app, 40), "↑↓ row  ←→ sort  r turn  ⏎ hosts  q quit");
    press(&mut app, KeyCode::Char('/'));
    assert!(keys(&app, 40).ends_with("esc leave it"));
}

#[test]
fn ctrl_u_clears_the_filter() {
    let mut app = app();
    let ctrl_u = KeyEvent::new(KeyCode::Char('u'), KeyModifiers::CONTROL);
    assert_eq!(app.key(ctrl_u, 80, 10), Step::Draw, "there is none");
    press(&mut app, KeyCode::Char('/'));
    write(&mut app, "fill");
    assert_eq!(app.key(ctrl_u, 80, 10), Step::Draw);
    assert_eq!(names(&app).len(), 3, "what is typed is gone");
    write(&mut app, "lookup");
    press(&mut app, KeyCode::Enter);
    assert_eq!(names(&app), ["lookup"]);
    assert_eq!(app.key(ctrl_u, 80, 10), Step::Ask);
    assert_eq!(names(&app).len(), 3);
}

#[test]
fn it_pauses_and_ends() {
    let mut app = app();
    assert_eq!(press(&mut app, KeyCode::Char('p')), Step::Draw);
    assert!(seen(&app).0[0].ends_with("paused"));
    assert_eq!(press(&mut app, KeyCode::Char('p')), Step::Ask);
    assert_eq!(press(&mut app, KeyCode::Char('q')), Step::Quit);
    press(&mut app, KeyCode::Char('/'));
    let ctrl_c = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
    assert_eq!(app.key(ctrl_c, 80, 10), Step::Quit, "while typing too");
}
