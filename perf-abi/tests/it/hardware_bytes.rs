//! IBS registers and SPE data are hostile bytes: any of them are read without a panic, in linear time, and nothing is
//! invented.

use memwide_perf_abi::ibs::{FetchSample, OpSample};
use memwide_perf_abi::spe::{Clock, Decoder, Encoding, Info, Packet};
use proptest::prelude::*;

/// Bytes with many headers of SPE packets among them.
fn spe_bytes() -> impl Strategy<Value = Vec<u8>> {
    let header = prop::sample::select(vec![
        0x00, 0x01, 0x71, 0x42, 0x52, 0x62, 0x72, 0x43, 0x53, 0x64, 0x65, 0x48, 0x49, 0x4a, 0xb0,
        0xb1, 0xb2, 0xb3, 0x98, 0x99, 0x9a, 0x20, 0x21, 0x22, 0x23_u8,
    ]);
    prop::collection::vec(prop_oneof![3 => header, 2 => any::<u8>()], 0..600)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2048))]

    #[test]
    fn any_raw_data_of_ibs_is_read_or_refused(raw in prop::collection::vec(any::<u8>(), 0..120), family in 0x10..0x1c_u32, model in any::<u8>()) {
        let fetch = FetchSample::parse(&raw);
        prop_assert_eq!(fetch.is_ok(), raw.len() >= 28);
        match OpSample::parse(&raw) {
            Ok(sample) => {
                prop_assert!(raw.len() >= 60);
                let word = sample.data_src(family, model.into());
                // Exactly one operation, and the bits without a name stay 0.
                prop_assert_eq!((word & 0x1f).count_ones(), 1);
                prop_assert_eq!(word >> 46, 0);
                let pages = sample.tlb().map(|answer| format!("{answer:?}"));
                prop_assert!(pages.is_none() || sample.linear().is_some());
                let _ = (sample.kind(), sample.width_bytes(), sample.ip(), sample.physical());
            }
            Err(_) => prop_assert!(raw.len() < 60),
        }
    }

    #[test]
    fn any_spe_data_gives_the_same_records_however_it_is_sliced(bytes in spe_bytes(), cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..6), offset in any::<u64>()) {
        let mut whole = Vec::new();
        let mut decoder = Decoder::default();
        decoder.push(offset, &bytes, |record| whole.push(*record));
        let counts = decoder.finish();
        prop_assert_eq!(counts.records, whole.len() as u64);
        prop_assert!(counts.records + counts.broken <= bytes.len() as u64);
        prop_assert!(counts.bad_bytes <= bytes.len() as u64);

        let mut places: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
        places.push(0);
        places.push(bytes.len());
        places.sort_unstable();
        let mut sliced = Vec::new();
        let mut decoder = Decoder::default();
        for pair in places.windows(2) {
            let at = offset.wrapping_add(pair[0] as u64);
            decoder.push(at, &bytes[pair[0]..pair[1]], |record| sliced.push(*record));
        }
        prop_assert_eq!(decoder.finish(), counts);
        prop_assert_eq!(sliced, whole.clone());
        for record in whole {
            for encoding in [Encoding::Common, Encoding::AmpereOne, Encoding::HisiHip, Encoding::Generic] {
                let word = record.data_src(encoding, true);
                prop_assert_eq!(word.is_some(), record.is_access());
            }
        }
    }

    #[test]
    fn a_packet_is_never_longer_than_its_bytes(bytes in spe_bytes(), at in any::<u64>()) {
        if let Ok((_, len)) = Packet::parse(&bytes, at) {
            prop_assert!(len >= 1 && len <= bytes.len() && len <= 16);
        }
    }

    #[test]
    fn any_info_and_clock_are_read_or_refused(body in prop::collection::vec(any::<u8>(), 0..200), counter in any::<u64>()) {
        let mut body = body;
        if let Some(info) = Info::parse(&body) {
            prop_assert!(info.cpus.len() <= body.len() / 8);
        }
        if body.len() >= 4 {
            body[..4].copy_from_slice(&4_u32.to_le_bytes());
            if let Some(info) = Info::parse(&body) {
                prop_assert!(info.cpus.len() <= body.len() / 8);
            }
        }
        if let Some(clock) = Clock::parse(&body) {
            clock.time_ns(counter);
        }
    }
}

/// Work grows with the bytes, not with their square: each byte is looked at a bounded number of times, counted by records
/// and bad bytes of worst cases.
#[test]
fn worst_cases_take_linear_work() {
    for filler in [0x00_u8, 0x01, 0xff, 0x20, 0x71] {
        let bytes = vec![filler; 4 << 20];
        let mut decoder = Decoder::default();
        let mut records = 0_u64;
        decoder.push(0, &bytes, |_| records += 1);
        let counts = decoder.finish();
        assert_eq!(counts.records, records);
        assert!(counts.bad_bytes <= bytes.len() as u64);
    }
}
