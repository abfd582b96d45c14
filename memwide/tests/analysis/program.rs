//! Programs built here, and memory profiles made up on them.

use memwide_objects::{Limits, SymbolTable};
use memwide_perf_abi::file::{EventSpec, Features, NumaNode, feature};
use memwide_perf_abi::{
    Attr, AttrFlags, Comm, FileId, FileWriter, Mmap2, Record, SampleFields, SampleId, SampleLayout,
    Weight, attr_kind, encode, misc, sample,
};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where programs are mapped.
const BASE: u64 = 0x5555_0000_0000;

/// A program with its symbols.
pub(crate) struct Program {
    pub(crate) path: PathBuf,
    table: SymbolTable,
}

impl Program {
    /// Builds a program; `None`, said loudly, where there is no compiler.
    pub(crate) fn build(folder: &Path, source: &str) -> Option<Self> {
        let (code, path) = (folder.join("program.c"), folder.join("program"));
        std::fs::write(&code, source).unwrap();
        let output = Command::new("cc")
            .args(["-O1", "-g", "-fno-omit-frame-pointer", "-pthread", "-o"])
            .arg(&path)
            .arg(&code)
            .output();
        let Ok(output) = output else {
            eprintln!("skipped: there is no C compiler");
            return None;
        };
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{said}");
        let bytes = std::fs::read(&path).unwrap();
        let table = SymbolTable::from_elf(&bytes, &Limits::default()).unwrap();
        Some(Self { path, table })
    }

    /// Where a function or variable is mapped.
    pub(crate) fn address(&self, name: &str) -> u64 {
        let functions = self.table.functions().iter();
        let mut all = functions.chain(self.table.objects().iter());
        let found = all.find(|symbol| symbol.name == name);
        BASE + found.unwrap_or_else(|| panic!("no symbol {name}")).start
    }
}

/// One made-up access.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Made {
    pub(crate) ip: u64,
    pub(crate) addr: u64,
    pub(crate) tid: u32,
    pub(crate) word: u64,
}

/// Writes a memory profile of one process that runs the program.
pub(crate) fn write(to: &Path, program: &Program, accesses: &[Made]) {
    let event = EventSpec {
        attr: Attr {
            kind: attr_kind::RAW,
            config: 0x1cd,
            sample_type: sample::IDENTIFIER
                | sample::IP
                | sample::TID
                | sample::TIME
                | sample::ADDR
                | sample::CPU
                | sample::WEIGHT
                | sample::DATA_SRC,
            sample_period: 1000,
            flags: AttrFlags::default().with_sample_id_all(true),
            ..Attr::default()
        },
        name: "cpu/mem-loads,ldlat=30/P".to_owned(),
        ids: vec![1],
    };
    let layout = SampleLayout::new(&event.attr).unwrap();
    let mut batch = Vec::new();
    let id = SampleId {
        pid: Some(100),
        tid: Some(100),
        time: Some(1),
        id: Some(1),
        cpu: Some(0),
        ..SampleId::default()
    };
    let path = program.path.to_string_lossy().into_owned();
    let comm = Record::Comm(Comm {
        pid: 100,
        tid: 100,
        comm: b"program",
        exec: true,
    });
    encode::record(&mut batch, &comm, misc::USER, Some((layout.trailer(), &id))).unwrap();
    for segment in program.table.segments().as_slice() {
        let into_page = segment.vaddr % 4096;
        let bit = |flag: u32, prot: u32| if segment.flags & flag != 0 { prot } else { 0 };
        let mapping = Record::Mmap2(Mmap2 {
            pid: 100,
            tid: 100,
            addr: BASE + segment.vaddr - into_page,
            len: (into_page + segment.mem_size).next_multiple_of(4096),
            pgoff: segment.offset - into_page,
            file: FileId::Inode {
                maj: 8,
                min: 1,
                ino: 42,
                generation: 0,
            },
            prot: bit(4, 1) | bit(2, 2) | bit(1, 4),
            flags: 2,
            filename: path.as_bytes(),
            data: false,
        });
        encode::record(
            &mut batch,
            &mapping,
            misc::USER,
            Some((layout.trailer(), &id)),
        )
        .unwrap();
    }
    for (at, access) in (0_u64..).zip(accesses) {
        let fields = SampleFields {
            id: 1,
            pid: 100,
            tid: access.tid,
            time: 1000 + at,
            cpu: access.tid % 4,
            ip: access.ip,
            addr: access.addr,
            data_src: access.word,
            weight: Weight {
                weight: 200,
                ..Weight::default()
            },
            ..SampleFields::default()
        };
        encode::sample(&mut batch, &fields, misc::USER, &layout).unwrap();
    }
    let mut writer = FileWriter::new(File::create(to).unwrap(), &[event]).unwrap();
    writer.write_records(&batch).unwrap();
    writer.finish_round().unwrap();
    let mut features = Features::default();
    features.set_text(feature::ARCH, std::env::consts::ARCH);
    features.set_nr_cpus(4, 4);
    features.set_numa_topology(&[NumaNode {
        node: 0,
        total_kib: 0,
        free_kib: 0,
        cpus: "0-3".to_owned(),
    }]);
    writer.finish(&features).unwrap();
}
