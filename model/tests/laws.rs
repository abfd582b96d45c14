//! What holds for any word of any PMU.

use memwide_model::{
    Classified, Cpu, DataSrc, Level, Locality, Outcome, Pmu, Suspect, classify, errata,
};
use proptest::prelude::*;

const PMUS: [Pmu; 5] = [Pmu::Intel, Pmu::AmdIbs, Pmu::ArmSpe, Pmu::Power, Pmu::Other];

/// Levels that may be called local: where data is held.
const HOLDS_DATA: [Level; 10] = [
    Level::L0,
    Level::L1,
    Level::L2,
    Level::L2Mhb,
    Level::L3,
    Level::L4,
    Level::AnyCache,
    Level::Msc,
    Level::Ram,
    Level::Pmem,
];

fn check(word: DataSrc, pmu: Pmu) -> Result<Classified, TestCaseError> {
    let got = classify(word, pmu);
    // A sample with a word never looks like one without.
    prop_assert_ne!(got.level, Level::None);
    if word.hops() == 0 && got.hw_locality == Locality::Local {
        prop_assert_eq!(got.outcome, Outcome::Hit);
        prop_assert!(HOLDS_DATA.contains(&got.level), "{:?}", got.level);
    }
    if word.hops() == 0 && word.remote() != 0 {
        prop_assert_eq!(got.hw_locality, Locality::Remote);
    }
    if word.hops() == 1 {
        prop_assert_eq!(got.hw_locality, Locality::Local);
    }
    prop_assert_eq!(
        word.unnamed() != 0,
        got.suspect == Suspect::UnnamedBits,
        "counted exactly where they are"
    );
    // The number decides the level alone.
    if !matches!(word.lvl_num(), 0 | 15) {
        let bare = classify(DataSrc::default().with_lvl_num(word.lvl_num()), pmu);
        prop_assert_eq!(got.level, bare.level);
    }
    Ok(got)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4096))]

    #[test]
    fn any_word_is_classified_consistently(word in any::<u64>()) {
        for pmu in PMUS {
            check(DataSrc(word), pmu)?;
        }
        let word = DataSrc(word);
        for cpu in [Cpu::Other, Cpu::Intel { family: 6, model: 63 }, Cpu::Amd { family: 0x19, model: 1 }] {
            prop_assert!(errata(cpu, Some(0x1cd), word).count() <= 5);
        }
    }

    #[test]
    fn any_named_word_is_classified_consistently(word in 0..1_u64 << 43) {
        for pmu in PMUS {
            check(DataSrc(word), pmu)?;
        }
    }
}

#[test]
fn single_bits_and_pairs_are_classified() {
    for low in 0..64 {
        for high in low..64 {
            for pmu in PMUS {
                let word = DataSrc(1 << low | 1 << high);
                assert!(check(word, pmu).is_ok(), "{:#x} {pmu:?}", word.0);
            }
        }
    }
}

#[test]
fn an_empty_word_is_unknown_in_every_distribution() {
    for pmu in PMUS {
        let got = classify(DataSrc(0), pmu);
        let names = [
            got.op.name(),
            got.level.name(),
            got.outcome.name(),
            got.snoop.name(),
            got.tlb.name(),
            got.blocked.name(),
            got.hw_locality.name(),
            got.region.name(),
        ];
        assert_eq!(names, ["unknown"; 8]);
        assert_eq!(got.suspect, Suspect::None);
    }
}
