//! The command people type: the whole pipeline on one machine, local analysis of a perf.data file, client of the query
//! service, and each service alone.

mod annotate;
mod c2c;
mod cli;
mod client;
mod command;
mod difference;
mod failure;
mod flamegraph;
mod output;
mod recording;
mod redecode;
mod report;
mod script;
mod up;

use clap::{CommandFactory as _, Parser as _};
use cli::{Cli, Command};
use failure::Failure;
use std::process::ExitCode;

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(wrong) => return cli::print_usage(&wrong),
    };
    match run(cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.print(),
    }
}

fn run(cli: Cli) -> Result<(), Failure> {
    match cli.command {
        Command::Up(args) => up::run(&args),
        Command::Doctor(args) => command::doctor::run(&args),
        Command::Import(args) => command::import::run(&args),
        Command::Script(args) => command::script::run(&args),
        Command::Report(args) => command::report::run(&args),
        Command::Annotate(args) => command::annotate::run(&args),
        Command::C2c(args) => command::c2c::run(&args),
        Command::Flamegraph(args) => command::flamegraph::run(&args),
        Command::Diff(args) => command::diff::run(&args),
        Command::Faults(args) => command::faults::run(&args),
        Command::Allocs(args) => command::allocs::run(&args),
        Command::Offcpu(args) => command::offcpu::run(&args),
        Command::Rss(args) => command::rss::run(&args),
        Command::Kernel(args) => command::kernel::run(&args),
        Command::Diagnose(args) => command::diagnose::run(&args),
        Command::Stat(args) => command::stat::run(&args),
        Command::Record(args) => command::record::run(&args),
        Command::Top(args) => command::top::run(&args),
        Command::Numa(args) => command::numa::run(&args),
        Command::Latency(args) => command::latency::run(&args),
        Command::Data(args) => command::data::run(&args),
        Command::Pages(args) => command::pages::run(&args),
        Command::Hosts(args) => command::hosts::run(&args),
        Command::Ledger(args) => command::ledger::run(&args),
        Command::Boost(args) => command::boost::run(&args),
        Command::Symbols(command) => command::symbols::run(&command),
        Command::Archive(command) => command::archive::run(&command),
        Command::Redecode(args) => command::redecode::run(&args),
        Command::Rules(args) => command::rules::run(&args),
        Command::Export(args) => command::export::run(&args),
        Command::Sql(args) => command::sql::run(&args),
        Command::Collector(args) => command::role::run::<memwide_collector::Config>(&args),
        Command::Decoder(args) => command::role::run::<memwide_decoder::Config>(&args),
        Command::Aggregator(args) => command::role::run::<memwide_aggregator::Config>(&args),
        Command::Sink(args) => command::role::run::<memwide_aggregator::SinkConfig>(&args),
        Command::Store(args) => command::role::store(&args),
        Command::Query(args) => command::role::run::<memwide_query::Config>(&args),
        Command::StoreEngine(args) => command::role::store_engine(&args),
        Command::ExecGate(args) => command::record::exec_gate(&args),
        Command::Completions { shell } => {
            cli::print_completions(shell)?;
            Ok(())
        }
        Command::Man { folder } => command::man::run(Cli::command(), &folder),
    }
}
