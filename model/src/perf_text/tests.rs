use super::*;
use crate::data_src::{hops, snoop as snoops, snoopx};
use std::path::Path;

fn word() -> DataSrc {
    DataSrc::default()
}

#[test]
fn rows_read_as_perf_prints_them() {
    let l1 = word()
        .with_op(op::LOAD)
        .with_lvl(lvl::HIT | lvl::L1)
        .with_lvl_num(lvl_num::L1)
        .with_snoop(snoops::NONE)
        .with_dtlb(tlb::HIT | tlb::L1 | tlb::L2);
    for (word, text) in [
        (word(), "|OP No|LVL N/A|SNP N/A|TLB N/A|LCK No|BLK  N/A"),
        (
            l1,
            "|OP LOAD|LVL L1 or L1 hit|SNP None|TLB L1 or L2 hit|LCK No|BLK  N/A",
        ),
        (
            l1.with_lvl_num(0)
                .with_lock(lock::LOCKED)
                .with_blk(blk::DATA | blk::ADDR),
            "|OP LOAD|LVL L1 hit|SNP None|TLB L1 or L2 hit|LCK Yes|BLK  Data Addr",
        ),
        (
            word()
                .with_op(op::STORE)
                .with_lvl(lvl::HIT)
                .with_lvl_num(lvl_num::RAM)
                .with_remote(1)
                .with_snoop(snoops::NONE | snoops::MISS)
                .with_dtlb(tlb::MISS | tlb::L2),
            "|OP STORE|LVL Remote RAM hit|SNP None or Miss|TLB L2 miss|LCK No|BLK  N/A",
        ),
        (
            word()
                .with_op(op::LOAD)
                .with_lvl(lvl::HIT | lvl::L3 | lvl::REM_CCE1)
                .with_lvl_num(lvl_num::ANY_CACHE)
                .with_hops(hops::HOPS_0)
                .with_snoopx(snoopx::PEER)
                .with_lock(lock::NA),
            "|OP LOAD|LVL core, same node Any cache hit|SNP Peer|TLB N/A|LCK N/A|BLK  N/A",
        ),
        (
            word()
                .with_op(op::LOAD)
                .with_lvl(lvl::MISS)
                .with_lvl_num(lvl_num::L3),
            "|OP LOAD|LVL L3 miss|SNP N/A|TLB N/A|LCK No|BLK  N/A",
        ),
    ] {
        assert_eq!(script(word), text, "{:#x}", word.0);
    }
}

/// `… 68100142 |OP LOAD|LVL L1 or L1 hit|…|BLK  N/A …` anywhere in the text of `perf script`.
fn rows(text: &str) -> Vec<(u64, &str)> {
    let mut rows = Vec::new();
    for line in text.lines() {
        let Some(bar) = line.find("|OP ") else {
            continue;
        };
        let Some(number) = line[..bar].split_whitespace().next_back() else {
            continue;
        };
        let (Ok(number), Some(block)) = (u64::from_str_radix(number, 16), line.find("|BLK "))
        else {
            continue;
        };
        let end = block + "|BLK ".len();
        let tail: String = line[end..].chars().take(" N/A".len()).collect();
        rows.push((number, &line[bar..end + tail.len()]));
    }
    rows
}

#[test]
fn recorded_words_read_as_perf_printed_them() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/perfdata/oracle");
    let file = folder.join("mem-intel-coffeelake-perfmem-loads-stores.script.txt");
    let Ok(text) = std::fs::read_to_string(&file) else {
        eprintln!("skipped: {} is not here", file.display());
        return;
    };
    let rows = rows(&text);
    assert!(rows.len() > 600, "{} rows", rows.len());
    for (number, printed) in rows {
        let ours = script(DataSrc(number));
        assert_eq!(
            &ours[..printed.len().min(ours.len())],
            printed,
            "{number:#x}"
        );
    }
}
