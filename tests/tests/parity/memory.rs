//! A longer file takes no more memory: what is kept is of programs and rows, not of samples.

use memwide_tests::generated::{self, Generated};
use memwide_tests::measured::measure;
use memwide_tests::memwide;

/// Samples of the shorter file: enough for every row and name to be met.
const SAMPLES: u64 = 80_000;

/// The longer file has so many times the samples, and 50 MB more.
const TIMES: u64 = 10;

/// MiB that one run may take more than another: buffers of threads that a short file never fills.
const CHANCE: u64 = 24;

#[test]
fn a_file_ten_times_as_long_takes_as_much_memory() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, samples| {
        let path = folder.path().join(name);
        let wanted = Generated {
            symbols: 60,
            ..Generated::of_this_program(samples)
        };
        generated::write(&path, &wanted);
        path
    };
    let (short, long) = (file("short", SAMPLES), file("long", SAMPLES * TIMES));
    let more = std::fs::metadata(&long).unwrap().len() >> 20;
    assert!(more > 2 * CHANCE, "only {more} MiB");
    for arguments in [
        &["report", "--sort", "symbol,mem", "-j", "1"][..],
        &["report", "--sort", "symbol,mem,comm,dso", "-j", "2"],
        &["script", "-j", "2"],
        &["script", "--format", "ndjson", "-j", "1"],
    ] {
        let [short, long] =
            [&short, &long].map(|file| measure(&memwide(), arguments, file, None).peak);
        assert!(
            long <= short + CHANCE,
            "{arguments:?}: {long} MiB, of the shorter file {short} MiB"
        );
    }
}
