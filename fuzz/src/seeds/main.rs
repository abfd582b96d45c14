//! Writes first inputs for each target into `FOLDER/TARGET/`.

mod debug;
mod elf_file;
mod formats;
mod perf_files;

use libfuzzer_sys as _; // the coverage that is built in needs it
use memwide_objects::{Limits, SymbolTable};
use memwide_perf_abi::{
    Attr, AttrFlags, BranchEntry, Comm, ReadValue, Record, SampleFields, SampleLayout,
    branch_sample, encode, misc, pack, read_format, sample,
};
use std::error::Error;
use std::path::Path;

/// Mangled as compilers of C++ and Rust do.
const NAMES: [&str; 8] = [
    "_ZNSt6vectorIiSaIiEE9push_backERKi",
    "_ZThn56_N4node7ReqWrapD0Ev",
    "_ZGTtNSt12length_errorD2Ev",
    "_ZNSt17_Function_handlerIFvvEZN2v84base8CallOnceIJEvEEvPSt6atomicIhEEUlvE_E9_M_invokeERKSt9_Any_data",
    "_GLOBAL__I__ZN1pI1mN1aIS0_JEEEJEE1fEv",
    "_ZN34_$LT$r..Sq$u20$as$u20$r..Shape$GT$4area17h0123456789abcdefE.llvm.42",
    "_RINvCs123_1r5touchyE",
    "_ZdlPv@plt",
];

const KERNEL: &str = "ffffffff81000000 T _text\nffffffff81000000 T _stext\nffffffff81000100 t do_one\n\
    ffffffff82000000 T _etext\nffffffff83000000 D init_task\nffffffffa0000000 t probe\t[module]\n\
    module 16384 1 other, Live 0xffffffffa0000000\n";

fn main() -> Result<(), Box<dyn Error>> {
    let folder = std::env::args().nth(1).ok_or("usage: seeds FOLDER")?;
    let put = |target: &str, name: &str, bytes: &[u8]| -> std::io::Result<()> {
        let folder = Path::new(&folder).join(target);
        std::fs::create_dir_all(&folder)?;
        std::fs::write(folder.join(format!("seed_{name}")), bytes)
    };
    for (name, bytes) in perf_files::all()? {
        if perf_files::samples(&bytes)? == 0 {
            return Err(format!("no sample is read from the seed perf_data/{name}").into());
        }
        put("perf_data", name, &bytes)?;
    }
    for (name, attr) in [("fields", all_fields()), ("branches", branches())] {
        let records = records(&attr)?;
        put(
            "records",
            name,
            &[attr.encode(136), records.clone()].concat(),
        )?;
        put("packed", name, pack::Packer::default().pack(&records)?)?;
        put("packed", &format!("raw_{name}"), &records)?;
    }
    put("ibs", "op", &[0xff; 84])?;
    put("ibs", "fetch", &[&[0; 4][..], &[0xff; 32]].concat())?;
    put(
        "spe",
        "load",
        &[&[3][..], &spe_load(1), &spe_load(2)].concat(),
    )?;
    for (name, text) in formats::all() {
        put("tracepoints", name, &[text.as_bytes(), &[0; 80]].concat())?;
    }
    put("tracepoints", "data", &perf_files::tracing_data())?;
    put("kernel_symbols", "both", KERNEL.as_bytes())?;
    for (at, name) in NAMES.iter().enumerate() {
        put("demangle", &at.to_string(), name.as_bytes())?;
    }
    put("data_src", "load", &0x6_8810_0842_u64.to_le_bytes())?;
    let program = elf_file::program();
    put("elf", "program", &program)?;
    put("debug_info", "parts", &debug::parts())?;
    put("debug_info", "types", &debug::types())?;
    put("jit", "map", b"1000 20 first\n1020 10 second name\n")?;
    put("jit", "dump", &debug::jitdump())?;
    put("pclntab", "one", &debug::pclntab())?;
    let table = SymbolTable::from_elf(&program, &Limits::default())?;
    // Behind magic, version and checksum.
    let plain = table
        .encode()
        .get(13..)
        .map(|packed| zstd::bulk::decompress(packed, 1 << 20));
    put(
        "symbol_table",
        "program",
        &plain.transpose()?.unwrap_or_default(),
    )?;
    Ok(())
}

/// An operation as SPE writes it: address, latency, operation, events, data address, data source, context, time.
fn spe_load(counter: u64) -> Vec<u8> {
    let mut out = vec![0xb0];
    out.extend_from_slice(&0x40_1000_u64.to_le_bytes());
    out.extend_from_slice(&[0x98, 7, 0, 0x49, 0, 0x52, 0x12, 0, 0xb2]);
    out.extend_from_slice(&0xffff_0000_u64.to_le_bytes());
    out.extend_from_slice(&[0x43, 8, 0x65, 1, 0, 0, 0, 0x71]);
    out.extend_from_slice(&counter.to_le_bytes());
    out
}

/// An event whose samples have every field but branches.
fn all_fields() -> Attr {
    Attr {
        size: 136,
        // All bits up to the code page size and AUX, with the old weight left out in favour of the new.
        sample_type: ((sample::AUX << 1) - 1) & !(sample::WEIGHT | sample::BRANCH_STACK)
            | sample::WEIGHT_STRUCT,
        read_format: read_format::GROUP
            | read_format::ID
            | read_format::LOST
            | read_format::TOTAL_TIME_ENABLED
            | read_format::TOTAL_TIME_RUNNING,
        sample_regs_user: 0xff,
        sample_regs_intr: 0xf,
        sample_stack_user: 64,
        flags: AttrFlags::default().with_sample_id_all(true),
        ..Attr::default()
    }
}

fn branches() -> Attr {
    Attr {
        size: 136,
        sample_type: sample::IP | sample::BRANCH_STACK | sample::WEIGHT,
        branch_sample_type: branch_sample::HW_INDEX | branch_sample::COUNTERS,
        ..Attr::default()
    }
}

fn records(attr: &Attr) -> Result<Vec<u8>, Box<dyn Error>> {
    let layout = SampleLayout::new(attr)?;
    let mut records = Vec::new();
    let comm = Comm {
        pid: 1,
        tid: 1,
        comm: b"seed",
        exec: true,
    };
    encode::record(&mut records, &Record::Comm(comm), misc::USER, None)?;
    let fields = SampleFields {
        id: 7,
        ip: 0x40_1000,
        callchain: &[1, 2, 3],
        read: &[ReadValue {
            value: 1,
            id: Some(7),
            lost: Some(0),
        }],
        branches: &[BranchEntry::default(); 2],
        branch_counters: &[1, 2],
        raw: &[0; 36],
        regs_user_abi: 2,
        regs_intr_abi: 2,
        stack_user: &[0; 64],
        data_src: 0x6_8810_0842,
        aux: &[0; 16],
        ..SampleFields::default()
    };
    for _ in 0..2 {
        encode::sample(&mut records, &fields, misc::USER, &layout)?;
    }
    Ok(records)
}
