//! `memwide top`: the functions with the most samples, refreshed in place on a terminal.

use super::answer;
use crate::cli::{Format, TopArgs};
use crate::client::Client;
use crate::failure::Failure;
use std::io::{IsTerminal as _, Write as _};
use std::time::Duration;

/// Rows when nobody says how many: what fits a small terminal.
const ROWS: u32 = 20;

/// Clears the terminal and moves to its first line.
const CLEAR: &str = "\x1b[H\x1b[2J";

pub(crate) fn run(args: &TopArgs) -> Result<(), Failure> {
    let client = Client::new(&args.server.server);
    let mut params = answer::params(&args.filter)?;
    if args.filter.limit.is_none() {
        params.push(("limit".to_owned(), ROWS.to_string()));
    }
    if args.filter.since.is_none() {
        params.push(("since".to_owned(), "-15m".to_owned()));
    }
    params.push(("by".to_owned(), args.by.clone()));
    if args.per_host {
        params.push(("per_host".to_owned(), "true".to_owned()));
    }
    let once = args.once || args.format != Format::Table || !std::io::stdout().is_terminal();
    if once {
        let table = answer::ask(&client, "functions", &params, args.filter.link)?;
        return Ok(answer::readable(table, args.format, &args.by).print(args.format)?);
    }
    loop {
        let table = answer::readable(
            answer::ask(&client, "functions", &params, args.filter.link)?,
            args.format,
            &args.by,
        );
        let mut out = std::io::stdout().lock();
        write!(out, "{CLEAR}")?;
        out.flush()?;
        drop(out);
        table.print(args.format)?;
        std::thread::sleep(Duration::from_secs(args.interval.max(1)));
    }
}
