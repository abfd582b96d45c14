//! How `top` looks: two lines above, the table, completeness or a problem, keys.

use super::app::App;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;

/// Keys, in one line of 80 columns.
const KEYS: &str =
    "↑↓ row  ←→ sort  r turn  ⏎ hosts  l lines  t latency  / filter  p pause  q quit";
const KEYS_BACK: &str =
    "↑↓ row  ←→ sort  r turn  h hosts  l lines  t latency  / filter  esc back  q quit";
const KEYS_TYPING: &str =
    "type KEY=VALUE for the server, other words to search   ⏎ take it   esc leave it";

/// As many of the keys as have room, the last one always: how to leave.
fn fitting(keys: &str, width: usize) -> String {
    let keys = keys.split("  ").map(str::trim);
    let mut keys: Vec<&str> = keys.filter(|key| !key.is_empty()).collect();
    while keys.len() > 1 && keys.join("  ").chars().count() > width {
        keys.remove(keys.len() - 2);
    }
    keys.join("  ")
}

/// Lines below the table: what is to be known of it, and keys.
const BELOW: u16 = 3;
/// Lines above it.
const ABOVE: u16 = 2;

/// What is said of the server and of the answer.
#[derive(Debug)]
pub(super) struct About<'a> {
    pub(super) server: &'a str,
    pub(super) range: &'a str,
    /// Age of the answer in seconds.
    pub(super) age_s: u64,
}

/// Rows that have room on a terminal of so many lines.
pub(super) fn rows(height: u16) -> usize {
    usize::from(height.saturating_sub(ABOVE + BELOW + 2))
}

pub(super) fn draw(frame: &mut Frame<'_>, app: &App, about: &About<'_>) {
    let [above, middle, below] = Layout::vertical([
        Constraint::Length(ABOVE),
        Constraint::Min(0),
        Constraint::Length(BELOW),
    ])
    .areas(frame.area());
    let bold = Style::new().add_modifier(Modifier::BOLD);
    let width = usize::from(middle.width);
    let table = app.table(width);
    let age = match (app.paused, &table) {
        (true, _) => "paused".to_owned(),
        (false, None) => "asking …".to_owned(),
        (false, Some(_)) => format!("{} s old", about.age_s),
    };
    let (place, filter) = app.place();
    let head = Line::from(vec![
        Span::styled("memwide top", bold),
        Span::raw(format!("  {}  {}  {age}", about.server, about.range)),
    ]);
    let mut path = vec![Span::raw(place)];
    path.extend(filter.map(|filter| {
        Span::styled(
            format!("  filter: {filter}"),
            Style::new().fg(Color::Yellow),
        )
    }));
    frame.render_widget(Paragraph::new(vec![head, Line::from(path)]), above);

    let mut notes = Vec::new();
    if let Some((table, selected)) = table {
        let (header, rows) = table.lines(width);
        let mut lines: Vec<Line<'_>> = header
            .into_iter()
            .map(|line| Line::styled(line, bold))
            .collect();
        let room = usize::from(middle.height).saturating_sub(lines.len());
        let first = selected.saturating_sub(room.saturating_sub(1));
        let shown = rows.into_iter().enumerate().skip(first).take(room);
        lines.extend(shown.map(|(at, row)| {
            let style = if at == selected {
                Style::new().add_modifier(Modifier::REVERSED)
            } else {
                Style::new()
            };
            Line::styled(format!("{row:width$}"), style)
        }));
        if table.rows.is_empty() {
            lines.push(Line::raw(
                "no rows: a longer range (--since -1h), or another filter (/)",
            ));
        }
        frame.render_widget(Paragraph::new(lines), middle);
        notes = table.notes;
    } else if app.problem.is_none() {
        // Above it may have no room.
        frame.render_widget(Paragraph::new("asking …"), middle);
    }
    let keys = match (app.is_typing(), app.is_below()) {
        (true, _) => KEYS_TYPING,
        (false, true) => KEYS_BACK,
        (false, false) => KEYS,
    };
    let mut lines: Vec<Line<'_>> = match &app.problem {
        Some(problem) => vec![Line::styled(problem.clone(), Style::new().fg(Color::Red))],
        None => notes.into_iter().map(Line::raw).collect(),
    };
    lines.truncate(usize::from(BELOW - 1));
    lines.resize(usize::from(BELOW - 1), Line::default());
    let keys = fitting(keys, width);
    lines.push(Line::styled(keys, Style::new().add_modifier(Modifier::DIM)));
    frame.render_widget(Paragraph::new(lines), below);
}
