//! `memwide hosts`: who is seen, in which tier, how completely.

use super::answer;
use crate::cli::AskArgs;
use crate::client::Client;
use crate::failure::Failure;

pub(crate) fn run(args: &AskArgs) -> Result<(), Failure> {
    let client = Client::new(&args.server.server);
    let table = answer::ask(&client, "hosts", &answer::params(&args.filter)?)?;
    Ok(table.print(args.format)?)
}
