//! What `top` shows and what keys do to it. Pure: questions go out, answers come in.

use crate::command::answer;
use crate::output::Table;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use serde_json::Value;
use std::cmp::Ordering;

/// Columns that the server orders functions by; rows it cuts depend on them.
const ESTIMATORS: [&str; 4] = ["samples", "weight", "est_events", "latency_cycles"];

/// Rows of an answer: more than a person scrolls through, few enough to ask for every second.
const ROWS: u32 = 200;

/// What a page is of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum What {
    Functions,
    /// Of one function.
    Hosts(String),
    Lines(String),
    Latency(String),
}

/// What is to be done after a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    Draw,
    /// The answer shown is not that of the question any more.
    Ask,
    Quit,
}

/// A question: its name, its parameters.
pub(super) type Question = (&'static str, Vec<(String, String)>);

/// A page: what it is of, its answer, and where the person is in it.
#[derive(Debug)]
struct Page {
    what: What,
    found: Option<Table>,
    /// Column that orders rows, and whether the largest is first.
    sort: (String, bool),
    selected: usize,
}

/// All that is shown.
#[derive(Debug)]
pub(super) struct App {
    /// Those that lead here, innermost last.
    pages: Vec<Page>,
    base: Vec<(String, String)>,
    /// Words: KEY=VALUE for the server, others are searched for in what it answers.
    filter: String,
    /// The filter while it is typed.
    typing: Option<String>,
    pub(super) paused: bool,
    pub(super) problem: Option<String>,
}

impl App {
    /// Starts with functions; `base` are the parameters of all questions.
    pub(super) fn new(base: Vec<(String, String)>, by: &str) -> Self {
        Self {
            pages: vec![Page::new(What::Functions, by)],
            base,
            filter: String::new(),
            typing: None,
            paused: false,
            problem: None,
        }
    }

    fn page(&self) -> Option<&Page> {
        self.pages.last()
    }

    /// What to ask for the page shown.
    pub(super) fn question(&self) -> Question {
        let (what, by) = self.page().map_or((&What::Functions, "samples"), |page| {
            (&page.what, page.sort.0.as_str())
        });
        let by = ESTIMATORS
            .iter()
            .find(|known| **known == by)
            .unwrap_or(&"samples");
        let (name, of, own): (_, _, &[(&str, &str)]) = match what {
            What::Functions => ("functions", None, &[("by", by)]),
            What::Hosts(of) => ("functions", Some(of), &[("by", by), ("per_host", "true")]),
            What::Lines(of) => ("annotate", Some(of), &[]),
            What::Latency(of) => ("latency", Some(of), &[("by", "level")]),
        };
        let own = own
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let mut params: Vec<(String, String)> = self.base.clone();
        // Of pages of one function each host has a row anyway.
        if name != "functions" || of.is_some() {
            params.retain(|(name, _)| name != "per_host");
        }
        params.extend(own);
        if !params.iter().any(|(name, _)| name == "limit") {
            params.push(("limit".to_owned(), ROWS.to_string()));
        }
        let words = self
            .filter
            .split_whitespace()
            .filter_map(|word| word.split_once('='));
        params.extend(words.map(|(key, value)| (key.to_owned(), value.to_owned())));
        if let Some(of) = of {
            // Values of one filter are alternatives.
            params.retain(|(name, _)| name != "function");
            params.push(("function".to_owned(), of.clone()));
        }
        (name, params)
    }

    /// Takes the answer to the question of this page; what went wrong is shown beside what was there.
    pub(super) fn take(&mut self, answered: Result<Value, String>) {
        match answered {
            Ok(found) => {
                self.problem = None;
                let Some(page) = self.pages.last_mut() else {
                    return;
                };
                let kept = page.selected_text();
                page.found = Some(answer::table(found));
                page.order();
                page.select(kept.as_deref());
            }
            Err(problem) => self.problem = Some(problem),
        }
    }

    /// Path of pages, and the filter as it stands.
    pub(super) fn place(&self) -> (String, Option<String>) {
        let names = self.pages.iter().map(|page| match &page.what {
            What::Functions => "functions".to_owned(),
            What::Hosts(of) => format!("{of} by host"),
            What::Lines(of) => format!("instructions and lines of {of}"),
            What::Latency(of) => format!("latency of {of}"),
        });
        let filter = match &self.typing {
            Some(typed) => Some(format!("{typed}▏")),
            None => Some(self.filter.clone()).filter(|filter| !filter.is_empty()),
        };
        (names.collect::<Vec<String>>().join(" › "), filter)
    }

    /// Whether there is a page to go back to.
    pub(super) fn is_below(&self) -> bool {
        self.pages.len() > 1
    }

    pub(super) fn is_typing(&self) -> bool {
        self.typing.is_some()
    }

    /// The rows that pass the words typed, ready for so many columns, and which of them is selected; none yet: `None`.
    pub(super) fn table(&self, width: usize) -> Option<(Table, usize)> {
        let page = self.page()?;
        let mut table = page.found.clone()?;
        let shown = self.shown();
        table.rows = shown
            .iter()
            .filter_map(|at| table.rows.get(*at).cloned())
            .collect();
        let mut table = answer::readable_at(table, width, &page.sort.0);
        if let Some(column) = table
            .columns
            .iter_mut()
            .find(|column| column.name == page.sort.0)
        {
            column.name = format!("{}{}", column.name, if page.sort.1 { '▼' } else { '▲' });
        }
        Some((table, page.selected.min(shown.len().saturating_sub(1))))
    }

    /// Places of the rows that pass the words.
    fn shown(&self) -> Vec<usize> {
        let words = self
            .typing
            .as_ref()
            .unwrap_or(&self.filter)
            .split_whitespace();
        let words: Vec<String> = words
            .filter(|word| !word.contains('='))
            .map(str::to_lowercase)
            .collect();
        let passes = |row: &Vec<Value>| {
            let texts: Vec<String> = row
                .iter()
                .filter_map(Value::as_str)
                .map(str::to_lowercase)
                .collect();
            words
                .iter()
                .all(|word| texts.iter().any(|text| text.contains(word)))
        };
        let rows = self
            .page()
            .and_then(|page| page.found.as_ref())
            .map(|found| &found.rows);
        let rows = rows.into_iter().flatten().enumerate();
        rows.filter(|(_, row)| passes(row))
            .map(|(at, _)| at)
            .collect()
    }

    /// What a key does; `width` and `height` are of the rows shown.
    pub(super) fn key(&mut self, key: KeyEvent, width: usize, height: usize) -> Step {
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            return match key.code {
                KeyCode::Char('c') => Step::Quit,
                KeyCode::Char('u') => self.clear(),
                _ => Step::Draw,
            };
        }
        if let Some(typed) = self.typing.take() {
            return self.typed(typed, key.code);
        }
        let last = self.shown().len().saturating_sub(1);
        let Some(page) = self.pages.last_mut() else {
            return Step::Quit;
        };
        let at = page.selected.min(last);
        page.selected = match key.code {
            KeyCode::Up | KeyCode::Char('k') => at.saturating_sub(1),
            KeyCode::Down | KeyCode::Char('j') => at + 1,
            KeyCode::PageUp => at.saturating_sub(height),
            KeyCode::PageDown => at + height,
            KeyCode::Home | KeyCode::Char('g') => 0,
            KeyCode::End | KeyCode::Char('G') => last,
            _ => at,
        }
        .min(last);
        match key.code {
            KeyCode::Char('q') => Step::Quit,
            KeyCode::Char('p' | ' ') => {
                self.paused = !self.paused;
                if self.paused { Step::Draw } else { Step::Ask }
            }
            KeyCode::Char('/') => {
                self.typing = Some(self.filter.clone());
                Step::Draw
            }
            KeyCode::Char('r') => {
                page.sort.1 = !page.sort.1;
                page.order();
                Step::Draw
            }
            KeyCode::Left => self.sort_beside(width, false),
            KeyCode::Right => self.sort_beside(width, true),
            KeyCode::Enter | KeyCode::Char('h') => self.open(What::Hosts),
            KeyCode::Char('l') => self.open(What::Lines),
            KeyCode::Char('t') => self.open(What::Latency),
            KeyCode::Esc | KeyCode::Backspace if self.pages.len() > 1 => {
                self.pages.pop();
                self.problem = None;
                Step::Ask
            }
            _ => Step::Draw,
        }
    }

    /// Forgets the filter, or what is typed of it.
    fn clear(&mut self) -> Step {
        if let Some(typed) = &mut self.typing {
            typed.clear();
        } else if !self.filter.is_empty() {
            self.filter.clear();
            return Step::Ask;
        }
        Step::Draw
    }

    /// A key while the filter is typed.
    fn typed(&mut self, mut typed: String, code: KeyCode) -> Step {
        match code {
            KeyCode::Esc => return Step::Draw,
            KeyCode::Enter => {
                typed.trim().clone_into(&mut self.filter);
                return Step::Ask;
            }
            KeyCode::Backspace => drop(typed.pop()),
            KeyCode::Char(sign) => typed.push(sign),
            _ => {}
        }
        self.typing = Some(typed);
        Step::Draw
    }

    /// Orders by the next column, or the one before.
    fn sort_beside(&mut self, width: usize, is_next: bool) -> Step {
        let Some((table, _)) = self.table(width) else {
            return Step::Draw;
        };
        let Some(page) = self.pages.last_mut() else {
            return Step::Draw;
        };
        let names = table
            .columns
            .iter()
            .map(|column| column.name.trim_end_matches(['▼', '▲']));
        let names: Vec<&str> = names.collect();
        let at = names.iter().position(|name| *name == page.sort.0);
        let at = match (at, is_next) {
            (None, _) => 0,
            (Some(at), true) => (at + 1).min(names.len().saturating_sub(1)),
            (Some(at), false) => at.saturating_sub(1),
        };
        let Some(name) = names.get(at) else {
            return Step::Draw;
        };
        page.sort = ((*name).to_owned(), page.is_number(name));
        page.order();
        let is_server =
            ESTIMATORS.contains(name) && matches!(page.what, What::Functions | What::Hosts(_));
        if is_server { Step::Ask } else { Step::Draw }
    }

    /// Opens what is behind the function selected, or behind that of this page.
    fn open(&mut self, what: fn(String) -> What) -> Step {
        let Some(page) = self.page() else {
            return Step::Draw;
        };
        let of = match &page.what {
            What::Hosts(of) | What::Lines(of) | What::Latency(of) => Some(of.clone()),
            What::Functions => {
                let place = self.shown().get(page.selected).copied();
                place.and_then(|place| page.text(place, "function"))
            }
        };
        let Some(of) = of else { return Step::Draw };
        let opened = what(of);
        if page.what == opened {
            return Step::Draw;
        }
        if page.what != What::Functions {
            self.pages.pop();
        }
        let by = if matches!(opened, What::Latency(_)) {
            "level"
        } else {
            "samples"
        };
        self.pages.push(Page::new(opened, by));
        Step::Ask
    }
}

impl Page {
    fn new(what: What, by: &str) -> Self {
        Self {
            what,
            found: None,
            sort: (by.to_owned(), by != "level"),
            selected: 0,
        }
    }

    fn column(&self, name: &str) -> Option<usize> {
        let columns = &self.found.as_ref()?.columns;
        columns.iter().position(|column| column.name == name)
    }

    fn is_number(&self, name: &str) -> bool {
        let at = self.column(name);
        let rows = self.found.as_ref().map(|found| &found.rows);
        let mut cells = rows.into_iter().flatten().filter_map(|row| row.get(at?));
        cells.any(Value::is_number)
    }

    fn text(&self, row: usize, column: &str) -> Option<String> {
        let cell = self
            .found
            .as_ref()?
            .rows
            .get(row)?
            .get(self.column(column)?)?;
        cell.as_str().map(str::to_owned)
    }

    /// What the selected row is called, to find it in the next answer.
    fn selected_text(&self) -> Option<String> {
        let name = match self.what {
            What::Functions => "function",
            What::Hosts(_) => "host",
            What::Lines(_) | What::Latency(_) => return None,
        };
        self.text(self.selected, name)
    }

    /// Selects the row of this name, if it is near enough to be the same place for a person: at the top it stays there.
    fn select(&mut self, name: Option<&str>) {
        let rows = self.found.as_ref().map_or(0, |found| found.rows.len());
        if self.selected > 0
            && let Some(name) = name
        {
            let column = if self.what == What::Functions {
                "function"
            } else {
                "host"
            };
            let found = (0..rows).find(|row| self.text(*row, column).as_deref() == Some(name));
            self.selected = found.unwrap_or(self.selected);
        }
        self.selected = self.selected.min(rows.saturating_sub(1));
    }

    /// Puts rows in order; what is not known is last.
    fn order(&mut self) {
        let (name, is_down) = self.sort.clone();
        let Some(at) = self.column(&name) else { return };
        let Some(found) = &mut self.found else { return };
        found.rows.sort_by(|a, b| {
            let [a, b] = [a, b].map(|row| row.get(at).unwrap_or(&Value::Null));
            match (a.is_null(), b.is_null()) {
                (false, false) if is_down => compared(b, a),
                (a, b) if a != b => a.cmp(&b),
                _ => compared(a, b),
            }
        });
    }
}

fn compared(a: &Value, b: &Value) -> Ordering {
    match (a.as_f64(), b.as_f64()) {
        (Some(a), Some(b)) => a.total_cmp(&b),
        _ => a.as_str().cmp(&b.as_str()),
    }
}
