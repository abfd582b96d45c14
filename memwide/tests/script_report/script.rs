//! Lines of `memwide script`.

use crate::files::{self, ANON, APP, KERNEL, L3, LOADS, One, STORE, STORES, SWITCHES, weight};
use crate::run::fine;
use memwide_perf_abi::{SampleFields, misc};
use serde_json::Value;
use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};

const CHAIN: [u64; 4] = [
    128_u64.wrapping_neg(),
    KERNEL + 0x3010,
    512_u64.wrapping_neg(),
    APP + 0x99,
];

fn kernel_load() -> One<'static> {
    let base = One::default();
    One {
        misc: misc::KERNEL,
        fields: SampleFields {
            ip: KERNEL + 0x1010,
            weight: weight(240),
            phys_addr: 0x1234_5040,
            data_page_size: 4096,
            callchain: &CHAIN,
            ..base.fields
        },
        ..base
    }
}

fn raw() -> Vec<u8> {
    let mut raw = vec![0; 28];
    raw[8..12].copy_from_slice(b"ba\"h");
    raw[24..28].copy_from_slice(&(-7_i32).to_le_bytes());
    raw
}

#[test]
fn a_line_of_json_has_every_field_in_the_documented_order() {
    let folder = tempfile::tempdir().unwrap();
    let (file, kallsyms) = (folder.path().join("a.data"), files::kallsyms(folder.path()));
    files::write(&file, &[kernel_load()]);
    let ran = fine(
        "script",
        &file,
        &[
            "--format",
            "ndjson",
            "--kallsyms",
            kallsyms.to_str().unwrap(),
        ],
    );
    assert_eq!(
        ran.out,
        concat!(
            r#"{"time_ns":1000000001,"event":"cpu/mem-loads,ldlat=30/P","cpu":3,"pid":100,"tid":101,"#,
            r#""comm":"worker \"1\"","ip":"0xffffffff81001010","symbol":"clear_page","symbol_offset":16,"#,
            r#""dso":"[kernel.kallsyms]","addr":"0x7f0000000040","region":"anonymous","#,
            r#""phys_addr":"0x12345040","page_size":4096,"weight":240,"ins_lat":12,"retire_lat":3,"period":100,"#,
            r#""data_src":"0x668100842","op":"load","level":"L3","outcome":"hit","hw_locality":"local","#,
            r#""page_locality":"unknown","snoop":"none","tlb":"l1-or-l2-hit","lock":"no","blocked":"unknown","#,
            r#""context":"fault","callchain":[{"ip":"0xffffffff81003010","symbol":"exc_page_fault","#,
            r#""dso":"[kernel.kallsyms]"},{"ip":"0x400099","dso":"/nowhere/app"}]}"#,
            "\n"
        )
    );
    assert!(
        ran.err.contains("5 samples dropped by the hardware"),
        "{}",
        ran.err
    );
}

#[test]
fn fields_an_event_does_not_have_are_left_out() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.data");
    let (base, raw) = (One::default(), raw());
    let switch = One {
        event: SWITCHES,
        fields: SampleFields {
            raw: &raw,
            addr: 0,
            ..base.fields.clone()
        },
        ..base
    };
    let store = One {
        event: STORES,
        fields: SampleFields {
            data_src: STORE,
            ..base.fields.clone()
        },
        ..One::default()
    };
    files::write(&file, &[store, switch]);
    let lines = fine("script", &file, &["--format", "ndjson"]).json_lines();
    let [store, switch] = lines.as_slice() else {
        panic!("{lines:?}");
    };
    for (line, absent) in [
        (
            store,
            &[
                "symbol",
                "ins_lat",
                "phys_addr",
                "page_size",
                "page_locality",
                "callchain",
                "fields",
            ][..],
        ),
        (switch, &["weight", "region", "data_symbol", "callchain"]),
    ] {
        for name in absent {
            assert_eq!(line.get(name), None, "{name}: {line}");
        }
    }
    assert_eq!(store["weight"], 0);
    assert_eq!(store["dso"], "/nowhere/app");
    assert_eq!(store["data_dso"], "//anon");
    assert_eq!(
        switch["fields"],
        serde_json::json!({"prev_comm": "ba\"h", "prev_pid": -7})
    );
    assert_eq!(switch["addr"], "0x0");
}

#[test]
fn text_has_the_columns_of_perf_script() {
    let folder = tempfile::tempdir().unwrap();
    let (file, kallsyms) = (folder.path().join("a.data"), files::kallsyms(folder.path()));
    files::write(&file, &[kernel_load(), One::default()]);
    let ran = fine("script", &file, &["--kallsyms", kallsyms.to_str().unwrap()]);
    let words: Vec<Vec<&str>> = ran
        .out
        .lines()
        .map(|line| line.split_whitespace().collect())
        .collect();
    assert_eq!(
        words[0].join(" "),
        "worker \"1\" 100/101 [003] 1.000000001: 100 cpu/mem-loads,ldlat=30/P: 7f0000000040 668100842 \
         |OP LOAD|LVL L3 or L3 hit|SNP None|TLB L1 or L2 hit|LCK No|BLK N/A 240 ffffffff81001010 \
         clear_page+0x10 ([kernel.kallsyms])"
    );
    assert!(
        words[1]
            .join(" ")
            .ends_with("0 401234 [unknown] (/nowhere/app)"),
        "{:?}",
        words[1]
    );
}

#[test]
fn guests_are_counted_and_not_shown() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.data");
    let guest = || One {
        misc: misc::GUEST_USER,
        ..One::default()
    };
    files::write(&file, &[guest(), One::default(), guest()]);
    let ran = fine("script", &file, &["--format", "ndjson"]);
    assert_eq!(ran.json_lines().len(), 1);
    assert!(ran.err.contains("2 samples of guests"), "{}", ran.err);
}

#[test]
fn limit_is_the_number_of_lines() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.data");
    let samples: Vec<One<'_>> = (0..10).map(|_| One::default()).collect();
    files::write(&file, &samples);
    for (limit, lines) in [("0", 0), ("3", 3), ("99", 10)] {
        let ran = fine("script", &file, &["--limit", limit]);
        assert_eq!(ran.out.lines().count(), lines);
    }
}

#[test]
fn a_reader_that_has_seen_enough_is_no_failure() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.data");
    let samples: Vec<One<'_>> = (0..20_000).map(|_| One::default()).collect();
    files::write(&file, &samples);
    let mut child = Command::new(env!("CARGO_BIN_EXE_memwide"))
        .arg("script")
        .arg("-i")
        .arg(&file)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut first = String::new();
    let mut reader = BufReader::new(child.stdout.take().unwrap());
    reader.read_line(&mut first).unwrap();
    drop(reader);
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert!(output.stderr.is_empty(), "{output:?}");
    assert!(first.contains("mem-loads"), "{first}");
}

#[test]
fn hostile_names_stay_within_their_string_and_line() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.data");
    let mut bytes = files::bytes(&[One::default()]);
    // The task's name becomes quotes, an escape sequence and a line's end.
    let name = b"worker \"1\"";
    let hostile = b"\"},\x1b[2J\n{\"";
    while let Some(at) = bytes.windows(name.len()).position(|window| window == name) {
        bytes[at..at + name.len()].copy_from_slice(&hostile[..name.len()]);
    }
    std::fs::write(&file, bytes).unwrap();
    let lines = fine("script", &file, &["--format", "ndjson"]).json_lines();
    assert_eq!(
        lines[0]["comm"],
        Value::from(String::from_utf8_lossy(&hostile[..name.len()]))
    );
    let text = fine("script", &file, &[]).out;
    assert!(!text.contains('\x1b'), "{text:?}");
    assert_eq!(text.lines().count(), 1, "{text:?}");
}

#[test]
fn every_sample_is_a_line_of_valid_json() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.data");
    let sample = |at: u64| {
        let base = One::default();
        One {
            event: if at.is_multiple_of(2) { LOADS } else { STORES },
            fields: SampleFields {
                ip: APP + at,
                addr: ANON.wrapping_mul(at),
                // Every bit of the word is set in some sample.
                data_src: L3.rotate_left(u32::try_from(at % 64).unwrap()),
                ..base.fields
            },
            ..base
        }
    };
    let samples: Vec<One<'_>> = (0..2_000).map(sample).collect();
    files::write(&file, &samples);
    let lines = fine("script", &file, &["--format", "ndjson"]).json_lines();
    assert_eq!(lines.len(), samples.len());
    for (line, one) in lines.iter().zip(&samples) {
        assert_eq!(line["ip"], format!("{:#x}", one.fields.ip));
        assert_eq!(line["addr"], format!("{:#x}", one.fields.addr));
        assert_eq!(line["data_src"], format!("{:#x}", one.fields.data_src));
    }
}
