//! Asks perf what it calls an address: writes a perf.data with one sample at each.

use std::io::Write;
use std::path::Path;
use std::process::Command;

/// A mapping as an MMAP record says it.
pub(crate) struct Map<'a> {
    pub(crate) start: u64,
    pub(crate) len: u64,
    pub(crate) offset: u64,
    pub(crate) path: &'a str,
    pub(crate) kernel: bool,
}

const PID: u32 = 4242;

/// Whether perf can be run.
pub(crate) fn perf_is_here() -> bool {
    Command::new("perf")
        .arg("--version")
        .output()
        .is_ok_and(|out| out.status.success())
}

/// What `perf script -F sym` prints for each address, `[unknown]` where it knows none.
pub(crate) fn perf_names(
    dir: &Path,
    maps: &[Map<'_>],
    addresses: &[u64],
    options: &[&str],
) -> Vec<String> {
    let file = dir.join("asked.data");
    let kernel = maps.iter().any(|map| map.kernel);
    std::fs::File::create(&file)
        .unwrap()
        .write_all(&perf_data(maps, addresses, kernel))
        .unwrap();
    let out = Command::new("perf")
        .args(["script", "-F", "ip,sym", "-i"])
        .arg(&file)
        .args(options)
        .env("DEBUGINFOD_URLS", "")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&out.stdout);
    let names: Vec<_> = text
        .lines()
        .filter_map(|line| {
            line.trim_start()
                .split_once(' ')
                .map(|(_, name)| name.trim().to_owned())
        })
        .collect();
    assert_eq!(
        names.len(),
        addresses.len(),
        "{}",
        String::from_utf8_lossy(&out.stderr)
    );
    names
}

/// A file of one software event whose samples have ip, tid and time.
fn perf_data(maps: &[Map<'_>], addresses: &[u64], kernel: bool) -> Vec<u8> {
    const IP_TID_TIME: u64 = 1 | 1 << 1 | 1 << 2;
    const SAMPLE_ID_ALL: u64 = 1 << 18;
    let mut attr = Vec::new();
    words32(&mut attr, &[1, 112]); // software, size
    words64(&mut attr, &[0, 1, IP_TID_TIME, 0, SAMPLE_ID_ALL]); // cpu-clock, period, read_format
    attr.resize(112, 0);

    let mut data = Vec::new();
    let mut time = 1_u64;
    let mut comm = Vec::new();
    words32(&mut comm, &[PID, PID]);
    text(&mut comm, "asked");
    record(&mut data, 3, 2, comm, Some(&mut time));
    for map in maps {
        let mut body = Vec::new();
        let pid = if map.kernel { u32::MAX } else { PID };
        words32(&mut body, &[pid, if map.kernel { 0 } else { PID }]);
        words64(&mut body, &[map.start, map.len, map.offset]);
        text(&mut body, map.path);
        record(
            &mut data,
            1,
            if map.kernel { 1 } else { 2 },
            body,
            Some(&mut time),
        );
    }
    for ip in addresses {
        let mut body = Vec::new();
        words64(&mut body, &[*ip]);
        words32(&mut body, &[PID, PID]);
        time += 1;
        words64(&mut body, &[time]);
        record(&mut data, 9, if kernel { 1 } else { 2 }, body, None);
    }

    let (attrs_at, data_at) = (104_u64, 104 + 128_u64);
    let mut file = b"PERFILE2".to_vec();
    words64(
        &mut file,
        &[
            104,
            128,
            attrs_at,
            128,
            data_at,
            data.len() as u64,
            0,
            0,
            0,
            0,
            0,
            0,
        ],
    );
    file.extend(attr);
    words64(&mut file, &[0, 0]); // no ids
    file.extend(data);
    file
}

fn record(to: &mut Vec<u8>, kind: u32, misc: u16, mut body: Vec<u8>, id: Option<&mut u64>) {
    if let Some(time) = id {
        *time += 1;
        words32(&mut body, &[PID, PID]);
        words64(&mut body, &[*time]);
    }
    words32(to, &[kind]);
    to.extend(misc.to_le_bytes());
    to.extend(u16::try_from(body.len() + 8).unwrap().to_le_bytes());
    to.extend(body);
}

fn words32(to: &mut Vec<u8>, words: &[u32]) {
    to.extend(words.iter().flat_map(|word| word.to_le_bytes()));
}

fn words64(to: &mut Vec<u8>, words: &[u64]) {
    to.extend(words.iter().flat_map(|word| word.to_le_bytes()));
}

fn text(to: &mut Vec<u8>, text: &str) {
    to.extend(text.as_bytes());
    to.resize((to.len() + 8) & !7, 0);
}
