//! Programs built here, and memory profiles made up on them.

use memwide_model::DataSrc;
use memwide_model::data_src::{lvl, op, snoop};
use memwide_tests::programs::{Access, Builder, C, Program};
use std::path::Path;

/// Builds a program; `None`, said loudly, where there is no compiler.
pub(crate) fn build(folder: &Path, source: &str) -> Option<Program> {
    let builder = Builder::within(folder, &[("program.c", source)]);
    let args = ["-O1", "-g", "-fno-omit-frame-pointer"];
    let path = builder.compile(C, "program.c", "program", &args)?;
    Some(Program::new(&path))
}

/// Words of accesses: a load that hits the first level, one that another core's cache answers, a store.
pub(crate) const LOAD: DataSrc = DataSrc(0).with_op(op::LOAD).with_lvl(lvl::HIT | lvl::L1);
pub(crate) const HITM: DataSrc = DataSrc(0)
    .with_op(op::LOAD)
    .with_lvl(lvl::HIT | lvl::L3)
    .with_snoop(snoop::HITM);
pub(crate) const STORE: DataSrc = DataSrc(0).with_op(op::STORE).with_lvl(lvl::HIT | lvl::L1);

/// One made-up access.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Made {
    pub(crate) ip: u64,
    pub(crate) addr: u64,
    pub(crate) tid: u32,
    pub(crate) word: u64,
}

/// Writes a memory profile of one process that runs the program.
pub(crate) fn write(to: &Path, program: &Program, accesses: &[Made]) {
    let access = |made: &Made| Access {
        ip: made.ip,
        addr: made.addr,
        tid: made.tid,
        word: made.word,
        ..Access::default()
    };
    let all: Vec<Access> = accesses.iter().map(access).collect();
    program.profile().write(to, &all);
}
