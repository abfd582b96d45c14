//! Where the machine says what it has: sysfs, procfs, tracefs.

use std::fs;
use std::path::{Path, PathBuf};

use memwide_model::Cpu;

/// The roots of the kernel's file systems.
#[derive(Debug, Clone)]
pub(crate) struct Machine {
    pub(crate) sys: PathBuf,
    pub(crate) proc: PathBuf,
}

impl Default for Machine {
    fn default() -> Self {
        Self {
            sys: PathBuf::from("/sys"),
            proc: PathBuf::from("/proc"),
        }
    }
}

/// What a PMU's folder says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Pmu {
    pub(crate) kind: u32,
    folder: PathBuf,
}

impl Machine {
    /// A file below `/sys`, trimmed.
    pub(crate) fn sys_text(&self, path: &str) -> Option<String> {
        text(&self.sys.join(path))
    }

    /// A file below `/proc`, trimmed.
    pub(crate) fn proc_text(&self, path: &str) -> Option<String> {
        text(&self.proc.join(path))
    }

    /// CPUs that are online, ascending.
    pub(crate) fn online_cpus(&self) -> Vec<u32> {
        let list = self.sys_text("devices/system/cpu/online");
        let cpus = list.as_deref().map(parse_list).unwrap_or_default();
        if cpus.is_empty() { vec![0] } else { cpus }
    }

    /// The PMU of this name, if the machine has it.
    pub(crate) fn pmu(&self, name: &str) -> Option<Pmu> {
        let folder = self.sys.join("bus/event_source/devices").join(name);
        let kind = text(&folder.join("type"))?.parse().ok()?;
        Some(Pmu { kind, folder })
    }

    /// The tracing file system's folder, wherever it is mounted.
    pub(crate) fn tracing(&self) -> Option<PathBuf> {
        ["kernel/tracing", "kernel/debug/tracing"]
            .into_iter()
            .map(|path| self.sys.join(path))
            .find(|path| path.join("events").is_dir())
    }

    /// Names of all PMUs, sorted.
    pub(crate) fn pmu_names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.sys.join("bus/event_source/devices"));
        let names = entries.into_iter().flatten().flatten();
        let mut names: Vec<String> = names
            .filter_map(|entry| entry.file_name().into_string().ok())
            .collect();
        names.sort();
        names
    }

    /// What `/proc/cpuinfo` says of the first CPU, as perf's header would.
    pub(crate) fn cpu(&self) -> Cpu {
        let parts = ["vendor_id", "cpu family", "model"];
        let parts = parts.map(|name| self.cpuinfo(name).unwrap_or_default());
        Cpu::parse(&parts.join(","), std::env::consts::ARCH)
    }

    /// A field of the first CPU in `/proc/cpuinfo`.
    pub(crate) fn cpuinfo(&self, name: &str) -> Option<String> {
        let text = self.proc_text("cpuinfo")?;
        let mut lines = text.lines().filter_map(|line| line.split_once(':'));
        let (_, value) = lines.find(|(key, _)| key.trim() == name)?;
        Some(value.trim().to_owned())
    }

    /// Nodes of memory; 1 where the kernel knows none.
    pub(crate) fn node_count(&self) -> usize {
        let online = self.sys_text("devices/system/node/online");
        online.map_or(1, |list| parse_list(&list).len().max(1))
    }

    /// A `kernel.*` setting as a number.
    pub(crate) fn setting(&self, name: &str) -> Option<i64> {
        self.proc_text(&format!("sys/kernel/{name}"))?.parse().ok()
    }

    /// A hypervisor runs below the kernel.
    pub(crate) fn is_virtual(&self) -> bool {
        let cpuinfo = self.proc_text("cpuinfo").unwrap_or_default();
        let mut flags = cpuinfo.lines().filter(|line| line.starts_with("flags"));
        flags.any(|line| line.split_whitespace().any(|word| word == "hypervisor"))
    }

    /// Bytes of a page.
    pub(crate) fn page_size() -> usize {
        rustix::param::page_size()
    }
}

impl Pmu {
    /// CPUs that have it, where not all do: of hybrid machines.
    pub(crate) fn cpus(&self) -> Option<Vec<u32>> {
        let list = parse_list(&text(&self.folder.join("cpus"))?);
        (!list.is_empty()).then_some(list)
    }

    /// The terms of an event the PMU names, as `event=0xcd,umask=0x1,ldlat=3`.
    pub(crate) fn event_terms(&self, event: &str) -> Option<String> {
        text(&self.folder.join("events").join(event))
    }

    /// Names of its events and of its terms.
    pub(crate) fn names(&self) -> Vec<String> {
        let folders = ["events", "format"].map(|folder| fs::read_dir(self.folder.join(folder)));
        let entries = folders.into_iter().flatten().flatten().flatten();
        let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
        // Beside events stand their units and scales.
        names.filter(|name| !name.contains('.')).collect()
    }

    /// Where that is shown.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Where a term goes: `config1:0-15` gives (1, [(0, 15)]).
    pub(crate) fn format(&self, term: &str) -> Option<(u8, Vec<(u8, u8)>)> {
        parse_format(&text(&self.folder.join("format").join(term))?)
    }
}

fn text(path: &Path) -> Option<String> {
    Some(fs::read_to_string(path).ok()?.trim().to_owned())
}

/// `0-3,8,10-11`.
pub(crate) fn parse_list(list: &str) -> Vec<u32> {
    /// More than any machine has: a wrong file cannot make us allocate without bound.
    const MAX: u32 = 1 << 16;
    let mut all = Vec::new();
    for part in list.trim().split(',').filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        if let (Ok(first), Ok(last)) = (first.trim().parse::<u32>(), last.trim().parse::<u32>()) {
            all.extend(first..=last.min(MAX));
        }
    }
    all
}

fn parse_format(format: &str) -> Option<(u8, Vec<(u8, u8)>)> {
    let (word, bits) = format.split_once(':')?;
    let word = match word.strip_prefix("config")? {
        "" => 0,
        number => number.parse().ok()?,
    };
    let ranges = bits.split(',').map(|range| {
        let (low, high) = range.split_once('-').unwrap_or((range, range));
        let (low, high) = (low.parse().ok()?, high.parse().ok()?);
        (low <= high && high < 64).then_some((low, high))
    });
    Some((word, ranges.collect::<Option<_>>()?))
}

/// Puts `value` into the bits of `format` of the config words.
pub(crate) fn place(words: &mut [u64; 4], format: &(u8, Vec<(u8, u8)>), value: u64) -> Option<()> {
    let word = words.get_mut(usize::from(format.0))?;
    let mut rest = value;
    for (low, high) in &format.1 {
        let width = u32::from(high - low) + 1;
        let mask = u64::MAX >> (64 - width);
        *word = (*word & !(mask << low)) | ((rest & mask) << low);
        rest = rest.checked_shr(width).unwrap_or(0);
    }
    (rest == 0).then_some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_lists_are_ranges_and_numbers() {
        assert_eq!(parse_list("0-2,5,7-8\n"), [0, 1, 2, 5, 7, 8]);
        assert_eq!(parse_list(""), Vec::<u32>::new());
        assert!(parse_list("0-4000000000").len() <= 1 << 17);
    }

    #[test]
    fn terms_go_where_the_format_says() {
        let mut words = [0; 4];
        place(&mut words, &parse_format("config:0-7").unwrap(), 0xcd).unwrap();
        place(&mut words, &parse_format("config:8-15").unwrap(), 1).unwrap();
        place(&mut words, &parse_format("config1:0-15").unwrap(), 30).unwrap();
        place(&mut words, &parse_format("config2:0-3,8-11").unwrap(), 0xab).unwrap();
        assert_eq!(words, [0x1cd, 30, 0xa0b, 0]);
        let narrow = parse_format("config:19").unwrap();
        assert_eq!(place(&mut words, &narrow, 2), None, "two bits in one");
    }

    #[test]
    fn formats_that_make_no_sense_are_refused() {
        for wrong in ["config", "conf:1", "config:9-3", "config:0-64", "config:x"] {
            assert_eq!(parse_format(wrong), None, "{wrong}");
        }
    }
}
