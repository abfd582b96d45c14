use super::*;
use crate::spe::Operation;

fn load(source: u64, events: u64) -> Record {
    Record {
        operation: Some(Operation::LoadStore { payload: 0 }),
        source: Some(source),
        events,
        ..Record::default()
    }
}

fn store(events: u64) -> Record {
    Record {
        operation: Some(Operation::LoadStore { payload: 1 }),
        events,
        ..Record::default()
    }
}

#[test]
fn cores_are_known_by_their_id_register() {
    for (midr, encoding) in [
        (0x413f_d0c1, Encoding::Common), // Neoverse N1
        (0x410f_d490, Encoding::Common), // Neoverse N2
        (0x411f_d401, Encoding::Common), // Neoverse V1
        (0x410f_d4f0, Encoding::Common), // Neoverse V2
        (0x6d0f_d490, Encoding::Common), // Cobalt 100
        (0xc00f_ac40, Encoding::AmpereOne),
        (0x480f_d060, Encoding::HisiHip),
        (0x480f_d010, Encoding::Generic), // TSV110
        (0x410f_d840, Encoding::Generic), // Neoverse V3
        (0, Encoding::Generic),
    ] {
        assert_eq!(Encoding::of_midr(midr), encoding, "{midr:#x}");
    }
}

/// The words stand in the golden tables beside their meanings (`model/tests/golden/arm-*.txt`).
#[test]
fn sources_of_every_core_give_the_words_of_the_tables() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../model/tests/golden");
    let mut checked = 0;
    for (file, encoding) in [
        ("arm-common.txt", Encoding::Common),
        ("arm-ampereone.txt", Encoding::AmpereOne),
        ("arm-hisi-hip.txt", Encoding::HisiHip),
    ] {
        let text = std::fs::read_to_string(folder.join(file)).unwrap();
        for line in text.lines() {
            let mut parts = line.split(' ');
            let (code, word) = (parts.next().unwrap(), parts.next().unwrap());
            let code = match code.strip_prefix("0x") {
                Some(hex) => u64::from_str_radix(hex, 16).ok(),
                None => code.parse().ok(),
            };
            let (Some(code), Some(word)) = (code, word.strip_prefix("0x")) else {
                continue; // a store, or a word of perf 6.1
            };
            let word = u64::from_str_radix(word, 16).unwrap();
            let translation = match word >> 26 & 0x7f {
                0x22 => event::TLB_ACCESS,
                0x24 => event::TLB_ACCESS | event::TLB_WALK,
                _ => 0,
            };
            let got = load(code, translation).data_src(encoding, false);
            assert_eq!(got, Some(word), "{file}: {line}");
            checked += 1;
        }
    }
    assert!(checked > 60, "{checked} words");
}

#[test]
fn levels_come_from_events_where_sources_say_nothing() {
    use event::{
        L1D_ACCESS, L1D_MISS, L2D_ACCESS, L2D_MISS, LLC_ACCESS, LLC_MISS, MODIFIED,
        RECENTLY_FETCHED, REMOTE_ACCESS, SNOOPED,
    };
    let of = |record: Record, tells| record.data_src(Encoding::Generic, tells).unwrap();
    let l1_miss = L1D_ACCESS | L1D_MISS;
    for (events, bits) in [
        (L1D_ACCESS, LVL_L1 | LVL_HIT | NUM_L1 | SNOOP_NA),
        (l1_miss, LVL_L1 | LVL_MISS | NUM_L1 | SNOOP_NA),
        (
            l1_miss | RECENTLY_FETCHED,
            LVL_LFB | LVL_HIT | NUM_LFB | SNOOP_NA,
        ),
        (l1_miss | L2D_ACCESS, LVL_L2 | LVL_HIT | NUM_L2 | SNOOP_NA),
        (
            l1_miss | L2D_ACCESS | L2D_MISS,
            LVL_L2 | LVL_MISS | NUM_L2 | SNOOP_NA,
        ),
        (l1_miss | LLC_ACCESS, LVL_L3 | LVL_HIT | NUM_L3 | SNOOP_NA),
        (
            l1_miss | LLC_ACCESS | LLC_MISS | REMOTE_ACCESS,
            LVL_L3 | LVL_MISS | NUM_L3 | SNOOP_NA | REMOTE,
        ),
        (
            l1_miss | LLC_ACCESS | SNOOPED | MODIFIED,
            LVL_L3 | LVL_HIT | NUM_L3 | SNOOP_HITM,
        ),
        (
            l1_miss | LLC_ACCESS | SNOOPED,
            LVL_L3 | LVL_HIT | NUM_L3 | SNOOP_HIT,
        ),
        (0, LVL_NA | NUM_NA | SNOOP_NA),
    ] {
        assert_eq!(of(load(99, events), false), OP_LOAD | bits, "{events:#x}");
    }
    let none = of(load(0, L1D_ACCESS), true);
    assert_eq!(none & SNOOP_ALL, SNOOP_NONE);
    let missed = store(L1D_ACCESS | L1D_MISS | L2D_ACCESS);
    assert_eq!(
        of(missed, false),
        OP_STORE | LVL_L2 | LVL_HIT | NUM_L2 | SNOOP_NA
    );
}

#[test]
fn stores_have_no_source_on_cores_that_tell_sources() {
    let word = store(event::L1D_ACCESS | event::TLB_ACCESS).data_src(Encoding::Common, true);
    let expected = OP_STORE | LVL_NA | NUM_NA | SNOOP_NA | TLB_WK | TLB_HIT;
    assert_eq!(word, Some(expected));
}

#[test]
fn what_accesses_no_memory_has_no_word() {
    let branch = Record {
        operation: Some(Operation::Branch { payload: 1 }),
        ..Record::default()
    };
    assert_eq!(branch.data_src(Encoding::Common, true), None);
    assert_eq!(Record::default().data_src(Encoding::Generic, true), None);
}
