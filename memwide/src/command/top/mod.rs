//! `memwide top`: the functions with the most samples, on a terminal live and with what is behind each.

mod app;
mod draw;
#[cfg(test)]
mod tests;

use super::answer;
use super::signals::Signals;
use crate::cli::{Format, TopArgs};
use crate::client::{Client, ClientError};
use crate::failure::Failure;
use crate::output::say;
use app::{App, Question, Step};
use draw::{About, draw, rows};
use ratatui::crossterm::event::{self, Event, KeyEventKind};
use serde_json::Value;
use std::io::IsTerminal as _;
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// Rows when nobody says how many: what fits a small terminal.
const ROWS: u32 = 20;

/// Pause between two looks at keys, answers and signals.
const LOOK_EVERY: Duration = Duration::from_millis(50);

pub(crate) fn run(args: &TopArgs) -> Result<(), Failure> {
    let mut params = answer::params(&args.filter)?;
    if args.filter.since.is_none() && args.filter.until.is_none() {
        params.push(("since".to_owned(), "-15m".to_owned()));
    }
    if args.per_host {
        params.push(("per_host".to_owned(), "true".to_owned()));
    }
    let once = args.once || args.format != Format::Table || !std::io::stdout().is_terminal();
    if !once {
        return live(args, params);
    }
    if args.filter.limit.is_none() {
        params.push(("limit".to_owned(), ROWS.to_string()));
    }
    params.push(("by".to_owned(), args.by.clone()));
    let client = Client::new(&args.server.server);
    let table = answer::ask(&client, "functions", &params, args.filter.link)?;
    Ok(answer::readable(table, args.format, &args.by).print(args.format)?)
}

/// An answer, and which question it is of.
type Answered = (u64, Result<Value, ClientError>);

/// Asks questions one after the other until nobody has any.
fn answer_all(
    client: &Client,
    questions: &mpsc::Receiver<(u64, Question)>,
    answers: &mpsc::SyncSender<Answered>,
) {
    for (number, (name, params)) in questions {
        let answered = client.get(name, &params);
        if answers.send((number, answered)).is_err() {
            return;
        }
    }
}

fn live(args: &TopArgs, params: Vec<(String, String)>) -> Result<(), Failure> {
    let range = args
        .filter
        .since
        .clone()
        .unwrap_or_else(|| "-15m".to_owned());
    let range = format!(
        "{range} to {}",
        args.filter.until.as_deref().unwrap_or("now")
    );
    let mut app = App::new(params, &args.by);
    let client = Client::new(&args.server.server);
    let asking = client.clone();
    let signals = Signals::watch()?;
    // A question is handed over once the one before is answered; meanwhile a newer one takes its place.
    let (ask, questions) = mpsc::sync_channel(0);
    let (answers, answered) = mpsc::sync_channel(1);
    std::thread::spawn(move || answer_all(&asking, &questions, &answers));

    // Restored on every way out; the hook that this sets restores it on a panic.
    let mut terminal = ratatui::try_init()?;
    // Said when the terminal is as before again.
    let mut page = None;
    let ended = (|| -> Result<(), Failure> {
        let every = Duration::from_secs(args.interval.max(1));
        let (mut number, mut is_waiting, mut fresh) = (1, true, Instant::now());
        let mut has_answer = false;
        let mut open = Some((number, app.question()));
        while !signals.stop.is_cancelled() {
            let about = About {
                server: &args.server.server,
                range: &range,
                age_s: fresh.elapsed().as_secs(),
            };
            let area = terminal.draw(|frame| draw(frame, &app, &about))?.area;
            let mut step = Step::Draw;
            if event::poll(LOOK_EVERY)?
                && let Event::Key(key) = event::read()?
                && key.kind != KeyEventKind::Release
            {
                step = app.key(key, usize::from(area.width), rows(area.height));
            }
            while let Ok((of, found)) = answered.try_recv() {
                let found = match found {
                    // What is wrong with the first question is said as by every other command.
                    Err(problem) if !has_answer => return Err(answer::failure(problem)),
                    found => found.map_err(|problem| problem.to_string()),
                };
                if let Ok(first) = &found
                    && !has_answer
                {
                    page = args.filter.link.then(|| answer::page(&client, first));
                    has_answer = true;
                }
                // Of an older question: what is shown has changed since.
                if of == number {
                    app.take(found);
                    (is_waiting, fresh) = (false, Instant::now());
                }
            }
            let is_due = !app.paused && !is_waiting && fresh.elapsed() >= every;
            match step {
                Step::Quit => break,
                Step::Draw if !is_due => {}
                Step::Draw | Step::Ask => {
                    number += 1;
                    is_waiting = true;
                    open = Some((number, app.question()));
                }
            }
            open = open.and_then(|question| match ask.try_send(question) {
                Err(mpsc::TrySendError::Full(question)) => Some(question),
                _ => None,
            });
        }
        Ok(())
    })();
    ratatui::try_restore()?;
    if let Some(page) = page {
        say(&page);
    }
    ended
}
