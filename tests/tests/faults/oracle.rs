//! Counts what is stored against what sources wrote into their diaries; nothing of the product's own counts is believed.

use memwide_tests::Deployment;
use std::collections::BTreeMap;

/// A batch as its source's diary has it.
#[derive(Debug, Clone, Copy)]
struct Batch {
    closed_ns: u64,
    spooled: bool,
}

/// What sources of one host have made, by source and batch.
#[derive(Debug)]
pub(crate) struct Truth {
    host: String,
    /// Samples of each batch.
    samples: u64,
    sources: BTreeMap<u64, BTreeMap<u64, Batch>>,
}

/// Samples of one host.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sums {
    pub(crate) produced: u64,
    pub(crate) stored: u64,
    pub(crate) gap: u64,
}

impl Truth {
    pub(crate) fn read(host: &str, samples: u64, diary: &str) -> Self {
        let mut sources: BTreeMap<u64, BTreeMap<u64, Batch>> = BTreeMap::new();
        for line in diary.lines() {
            let words: Vec<&str> = line.split(' ').collect();
            let [what, source, batch, closed_ns] = words[..] else {
                continue; // cut short by a kill
            };
            let number = |text: &str| text.parse().unwrap_or(0);
            let batch = sources
                .entry(number(source))
                .or_default()
                .entry(number(batch))
                .or_insert(Batch {
                    closed_ns: number(closed_ns),
                    spooled: false,
                });
            batch.spooled |= what == "spooled";
        }
        Self {
            host: host.to_owned(),
            samples,
            sources,
        }
    }

    /// Holds the store against it.
    pub(crate) fn check(&self, deployment: &Deployment) -> Result<Sums, String> {
        let host = &self.host;
        let rows = numbers(&deployment.sql(&format!(
            "SELECT source_id, batch, count(), uniqExact(time) FROM samples WHERE host = '{host}' GROUP BY source_id, batch"
        ))?);
        let mut stored: BTreeMap<(u64, u64), u64> = BTreeMap::new();
        for row in rows {
            let [source, batch, count, different] = row[..] else {
                return Err(format!("a row of {row:?}"));
            };
            if (count, different) != (self.samples, self.samples) {
                return Err(format!(
                    "{host} batch {batch}: {count} rows of {different} samples, {} were made",
                    self.samples
                ));
            }
            stored.insert((source, batch), count);
        }
        let mut sums = Sums::default();
        for (source, batches) in &self.sources {
            let of_source = self.check_source(deployment, *source, batches, &mut stored)?;
            sums.produced += of_source.produced;
            sums.stored += of_source.stored;
            sums.gap += of_source.gap;
        }
        if let Some((unknown, _)) = stored.first_key_value() {
            return Err(format!("{host}: rows of {unknown:?}, which never was"));
        }
        for sum in [
            format!("SELECT sum(n) FROM mix_1m WHERE host = '{host}'"),
            format!("SELECT sum(samples) FROM functions WHERE host = '{host}'"),
            format!("SELECT sum(samples) FROM data WHERE host = '{host}'"),
        ] {
            let found = numbers(&deployment.sql(&sum)?);
            let found = found.first().and_then(|row| row.first()).copied();
            if found != Some(sums.stored) {
                return Err(format!(
                    "{host}: {sum} is {found:?}, stored are {}",
                    sums.stored
                ));
            }
        }
        Ok(sums)
    }

    /// One source: its ledger, minute by minute, against its batches.
    fn check_source(
        &self,
        deployment: &Deployment,
        source: u64,
        batches: &BTreeMap<u64, Batch>,
        stored: &mut BTreeMap<(u64, u64), u64>,
    ) -> Result<Sums, String> {
        let ledger = deployment.sql(&format!(
            "SELECT reason, toUnixTimestamp(time), sum(records) FROM ledger_1m WHERE source_id = {source} \
             AND reason IN ('produced', 'stored', 'gap', 'undecodable', 'expired', 'refused', 'lost', 'residue') \
             GROUP BY reason, time HAVING sum(records) > 0"
        ))?;
        let mut said: BTreeMap<(String, u64), u64> = BTreeMap::new();
        for row in ledger {
            let [reason, minute, records] = &row[..] else {
                return Err(format!("a row of {row:?}"));
            };
            let number = |text: &str| text.parse().map_err(|_| format!("`{text}` is no number"));
            said.insert((reason.clone(), number(minute)?), number(records)?);
        }
        let mut wanted: BTreeMap<(String, u64), u64> = BTreeMap::new();
        let mut sums = Sums::default();
        for (number, batch) in batches {
            let rows = stored.remove(&(source, *number)).unwrap_or(0);
            let minute = batch.closed_ns / 60_000_000_000 * 60;
            let produced = said
                .get(&("produced".to_owned(), minute))
                .copied()
                .unwrap_or(0);
            let already = wanted
                .get(&("produced".to_owned(), minute))
                .copied()
                .unwrap_or(0);
            // Killed between the writing and the note of it: it is there or it is not.
            if !batch.spooled && rows == 0 && produced == already {
                continue;
            }
            let gap = self.samples - rows;
            for (reason, records) in [("produced", self.samples), ("stored", rows), ("gap", gap)] {
                if records > 0 {
                    *wanted.entry((reason.to_owned(), minute)).or_default() += records;
                }
            }
            sums.produced += self.samples;
            sums.stored += rows;
            sums.gap += gap;
        }
        if said != wanted {
            return Err(format!(
                "{} source {source}: the ledger says {said:?}, its batches are {wanted:?}",
                self.host
            ));
        }
        Ok(sums)
    }
}

/// A host that keeps no diary, the collector of this machine: by source, what its batches say was produced is stored or in
/// the ledger, rows are as many as are said to be stored, and none is there twice.
pub(crate) fn check_live(deployment: &Deployment) -> Result<Sums, String> {
    let ledger = deployment.sql(
        "SELECT source_id, sumIf(records, reason = 'produced'), sumIf(records, reason = 'stored'), \
         sumIf(records, reason IN ('gap', 'undecodable', 'expired')) FROM ledger_1m WHERE host = 'live' GROUP BY source_id",
    )?;
    let rows = deployment.sql(
        "SELECT source_id, count(), uniqExact(cpu, tid, time, ip, addr) FROM samples WHERE host = 'live' GROUP BY source_id",
    )?;
    let rows: BTreeMap<u64, (u64, u64)> = numbers(&rows)
        .into_iter()
        .map(|row| (row[0], (row[1], row[2])))
        .collect();
    let mut sums = Sums::default();
    for row in numbers(&ledger) {
        let (source, produced, stored, gap) = (row[0], row[1], row[2], row[3]);
        let (count, different) = rows.get(&source).copied().unwrap_or_default();
        if produced != stored + gap || (count, different) != (stored, stored) {
            return Err(format!(
                "live source {source}: {produced} produced, {stored} stored, {gap} not, {count} rows, {different} of them different"
            ));
        }
        sums.produced += produced;
        sums.stored += stored;
        sums.gap += gap;
    }
    if let Some(source) = rows
        .keys()
        .find(|source| !ledger.iter().any(|row| row[0] == source.to_string()))
    {
        return Err(format!("live source {source} has rows and no ledger"));
    }
    Ok(sums)
}

fn numbers(rows: &[Vec<String>]) -> Vec<Vec<u64>> {
    let cell = |cell: &String| cell.parse().unwrap_or(u64::MAX);
    rows.iter()
        .map(|row| row.iter().map(cell).collect())
        .collect()
}
