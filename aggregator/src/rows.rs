//! Rows of decoded batches without a stream: what the aggregator would have made of them, for days that are decoded again.

use memwide_model::Source;
use memwide_proto::v1;
use memwide_store::native::{Constant, append_constants};
use memwide_store::rows::{FACTS, NativeBlock};

use crate::error::Cause;
use crate::rollup::{Memory, Rollup, Treatment};

/// Rows of one partition, under construction.
#[derive(Debug, Default)]
pub struct Rows {
    memory: Memory,
    rollup: Rollup,
}

impl Rows {
    /// Bytes built so far, before compression, about.
    pub fn bytes(&self) -> u64 {
        self.rollup.bytes()
    }

    /// Adds a batch, whole; definitions are dated `now_s`. The answer is the number of samples that became rows.
    pub fn add(&mut self, source: &Source, batch: &v1::DecodedBatch, now_s: u32) -> u64 {
        let memory = &mut self.memory;
        let added = self
            .rollup
            .add(memory, source, batch, Treatment::Store, now_s);
        added.samples
    }

    /// The blocks, definitions first and the ledger last, with the columns that a sink adds; then it starts anew.
    pub fn take(&mut self, partition: u16, ingested_s: u32) -> Result<Vec<NativeBlock>, Cause> {
        let constants = [
            Constant::U16("part", partition),
            Constant::Seconds("ingested", ingested_s),
        ];
        let mut blocks = std::mem::take(&mut self.rollup).finish();
        for block in &mut blocks {
            if FACTS.contains(&block.table) {
                block.bytes = append_constants(&block.bytes, &constants)?;
            }
        }
        Ok(blocks)
    }
}
