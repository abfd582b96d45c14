//! `memwide ledger`: what is stored and what is missing, by reason.

use super::answer;
use crate::cli::AskArgs;
use crate::client::Client;
use crate::failure::Failure;

/// What the reasons mean, for `--help`.
pub(crate) const ABOUT: &str = "\
Reasons, with unit and who counts them:
  produced        samples  collector: taken from the rings (= stored + gap + undecodable + expired)
  lost, residue   samples  collector: no room in the kernel's ring; counted by the event, neither taken nor lost
  gap             samples  collector: given up because the spool was full
  undecodable     samples  decoder, aggregator: could not be read or placed
  expired         samples  aggregator: sent after their source had been forgotten
  stored          samples  aggregator: became rows
  refused         samples  sink: of those stored, refused by the store for good; in the dead letters
  unresolved      rows     decoder: no function name, the symbol table had not come in time
  nameless        rows     decoder: no function name, no symbol at the address or no table to be had
  partial         rows     decoder: side-band of the batch was lost in part, or a process ended more than 2,048 mappings in it; names may be wrong
  batches         batches  aggregator: a sign of life, also of idle hosts
  throttled_s, blind_s     seconds, collector: an event was throttled; nothing could be seen";

pub(crate) fn run(args: &AskArgs) -> Result<(), Failure> {
    let client = Client::new(&args.server.server);
    let params = answer::params(&args.filter)?;
    let table = answer::ask(&client, "ledger", &params, args.filter.link)?;
    Ok(table.print(args.format)?)
}
