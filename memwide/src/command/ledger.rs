//! `memwide ledger`: what is stored and what is missing, by reason.

use super::answer;
use crate::cli::AskArgs;
use crate::client::Client;
use crate::failure::Failure;

pub(crate) fn run(args: &AskArgs) -> Result<(), Failure> {
    let client = Client::new(&args.server.server);
    let table = answer::ask(&client, "ledger", &answer::params(&args.filter)?)?;
    Ok(table.print(args.format)?)
}
