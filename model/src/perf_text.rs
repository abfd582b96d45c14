//! The words perf prints for `data_src`: `--sort mem,snoop,tlb,locked,blocked` and `perf script -F data_src`.
//!
//! As perf 6.1 has them; levels that are newer have the names that perf's and the kernel's sources give them since.

use crate::DataSrc;
use crate::data_src::{blk, lock, lvl, lvl_num, op, tlb};

const LEVELS: [&str; 14] = [
    "N/A",
    "HIT",
    "MISS",
    "L1",
    "LFB/MAB",
    "L2",
    "L3",
    "Local RAM",
    "Remote RAM (1 hop)",
    "Remote RAM (2 hops)",
    "Remote Cache (1 hop)",
    "Remote Cache (2 hops)",
    "I/O",
    "Uncached",
];
const HOPS: [&str; 8] = [
    "N/A",
    "core, same node",
    "node, same socket",
    "socket, same board",
    "board",
    "5",
    "6",
    "7",
];
const SNOOPS: [&str; 5] = ["N/A", "None", "Hit", "Miss", "HitM"];
const MORE_SNOOPS: [&str; 2] = ["Fwd", "Peer"];
const TRANSLATIONS: [&str; 7] = ["N/A", "HIT", "MISS", "L1", "L2", "Walker", "Fault"];

/// Appends the names of the set bits, joined by ` or `.
fn join(out: &mut String, mask: u64, names: &[&str], mut more: bool) -> bool {
    for (bit, name) in names.iter().enumerate() {
        if mask >> bit & 1 != 0 {
            if more {
                out.push_str(" or ");
            }
            out.push_str(name);
            more = true;
        }
    }
    more
}

fn hit_or_miss(out: &mut String, hit: bool, miss: bool) {
    if hit {
        out.push_str(" hit");
    }
    if miss {
        out.push_str(" miss");
    }
}

/// `LOAD`, `STORE` …
pub fn op(word: DataSrc) -> &'static str {
    let mask = word.op();
    [
        (op::NA, "N/A"),
        (op::LOAD, "LOAD"),
        (op::STORE, "STORE"),
        (op::PFETCH, "PFETCH"),
        (op::EXEC, "EXEC"),
    ]
    .iter()
    .find(|(bit, _)| mask & bit != 0)
    .map_or("No", |(_, name)| *name)
}

/// `L1 or L1 hit`, `Remote RAM hit` …: the column of `--sort mem`.
pub fn level(word: DataSrc) -> String {
    let mut out = String::new();
    let mask = word.lvl();
    let mut more = false;
    if word.remote() != 0 {
        out.push_str("Remote ");
    }
    if word.hops() != 0 {
        let name = usize::try_from(word.hops()).ok().and_then(|n| HOPS.get(n));
        out.push_str(name.unwrap_or(&"N/A"));
        out.push(' ');
    } else {
        more = join(&mut out, mask & !(lvl::HIT | lvl::MISS), &LEVELS, false);
    }
    if word.lvl_num() != 0 {
        if more {
            out.push_str(" or ");
        }
        out.push_str(level_name(word.lvl_num()));
    }
    if out.is_empty() {
        out.push_str("N/A");
    }
    hit_or_miss(&mut out, mask & lvl::HIT != 0, mask & lvl::MISS != 0);
    out
}

const fn level_name(number: u64) -> &'static str {
    match number {
        lvl_num::L1 => "L1",
        lvl_num::L2 => "L2",
        lvl_num::L3 => "L3",
        lvl_num::L4 => "L4",
        // perf 6.1 has no names for these four and prints L5 to L8.
        lvl_num::L2_MHB => "L2 MHB",
        lvl_num::MSC => "Memory-side Cache",
        lvl_num::L0 => "L0",
        lvl_num::UNC => "Uncached",
        lvl_num::CXL => "CXL",
        lvl_num::IO => "I/O",
        lvl_num::ANY_CACHE => "Any cache",
        lvl_num::LFB => "LFB/MAB",
        lvl_num::RAM => "RAM",
        lvl_num::PMEM => "PMEM",
        _ => "N/A",
    }
}

/// `None`, `Hit`, `HitM` …: the column of `--sort snoop`.
pub fn snoop(word: DataSrc) -> String {
    let mut out = String::new();
    let more = join(&mut out, word.snoop(), &SNOOPS, false);
    if !join(&mut out, word.snoopx(), &MORE_SNOOPS, more) {
        out.push_str("N/A");
    }
    out
}

/// `L1 or L2 hit` …: the column of `--sort tlb`.
pub fn tlb(word: DataSrc) -> String {
    let mut out = String::new();
    let mask = word.dtlb();
    if !join(
        &mut out,
        mask & !(tlb::HIT | tlb::MISS),
        &TRANSLATIONS,
        false,
    ) {
        out.push_str("N/A");
    }
    hit_or_miss(&mut out, mask & tlb::HIT != 0, mask & tlb::MISS != 0);
    out
}

/// `Yes`, `No`, `N/A`: the column of `--sort locked`.
pub fn locked(word: DataSrc) -> &'static str {
    if word.lock() & lock::NA != 0 {
        "N/A"
    } else if word.lock() & lock::LOCKED != 0 {
        "Yes"
    } else {
        "No"
    }
}

/// ` N/A`, ` Data`, ` Addr` (with perf's blank before it): the column of `--sort blocked`.
pub fn blocked(word: DataSrc) -> &'static str {
    let mask = word.blk();
    match (mask & blk::DATA != 0, mask & blk::ADDR != 0) {
        _ if mask & blk::NA != 0 => " N/A",
        (true, true) => " Data Addr",
        (true, false) => " Data",
        (false, true) => " Addr",
        (false, false) => " N/A",
    }
}

/// Characters perf keeps of the column, the number (16 wide) and a blank before the words included.
pub const SCRIPT_COLUMN_MAX: usize = 99;

/// `|OP LOAD|LVL L1 or L1 hit|SNP None|TLB L1 or L2 hit|LCK No|BLK  N/A`: the words of `perf script -F data_src`,
/// which perf cuts at [`SCRIPT_COLUMN_MAX`].
pub fn script(word: DataSrc) -> String {
    format!(
        "|OP {}|LVL {}|SNP {}|TLB {}|LCK {}|BLK {}",
        op(word),
        level(word),
        snoop(word),
        tlb(word),
        locked(word),
        blocked(word)
    )
}

#[cfg(test)]
mod tests;
