//! Writes a first input for each target into `FOLDER/TARGET/`.

use memwide_objects::{Limits, SymbolTable};
use memwide_perf_abi::file::{EventSpec, Features};
use memwide_perf_abi::{
    Attr, AttrFlags, Comm, FileWriter, Record, SampleFields, SampleLayout, encode, misc, pack,
    sample,
};
use std::error::Error;
use std::io::Cursor;
use std::path::Path;

const FORMAT: &str = "name: kmalloc\nID: 7\nformat:\n\
    \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
    \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n\
    \tfield:const void * ptr;\toffset:8;\tsize:8;\tsigned:0;\n\
    \tfield:size_t bytes_req;\toffset:16;\tsize:8;\tsigned:0;\n\
    \tfield:__data_loc char[] name;\toffset:24;\tsize:4;\tsigned:0;\n\n\
    print fmt: \"ptr=%p %s\", REC->ptr, __print_flags(REC->bytes_req, \"|\", {1, \"A\"})\n";

fn main() -> Result<(), Box<dyn Error>> {
    let folder = std::env::args().nth(1).ok_or("usage: seeds FOLDER")?;
    let put = |target: &str, bytes: &[u8]| -> std::io::Result<()> {
        let folder = Path::new(&folder).join(target);
        std::fs::create_dir_all(&folder)?;
        std::fs::write(folder.join("seed"), bytes)
    };
    let attr = Attr {
        size: 136,
        sample_type: sample::IDENTIFIER
            | sample::IP
            | sample::TID
            | sample::TIME
            | sample::ADDR
            | sample::CALLCHAIN
            | sample::RAW
            | sample::BRANCH_STACK
            | sample::REGS_USER
            | sample::STACK_USER
            | sample::WEIGHT_STRUCT
            | sample::DATA_SRC,
        sample_regs_user: 0xff,
        sample_stack_user: 64,
        flags: AttrFlags::default().with_sample_id_all(true),
        ..Attr::default()
    };
    let layout = SampleLayout::new(&attr)?;
    let mut records = Vec::new();
    let comm = Comm { pid: 1, tid: 1, comm: b"seed", exec: true };
    encode::record(&mut records, &Record::Comm(comm), misc::USER, None)?;
    let fields = SampleFields {
        id: 7,
        ip: 0x401000,
        callchain: &[1, 2, 3],
        raw: &[0; 36],
        regs_user_abi: 2,
        stack_user: &[0; 64],
        data_src: 0x6_8810_0842,
        ..SampleFields::default()
    };
    encode::sample(&mut records, &fields, misc::USER, &layout)?;
    put("records", &[attr.encode(136), records.clone()].concat())?;
    let spec = EventSpec { attr, ids: vec![7], name: "seed".to_owned() };
    let mut writer = FileWriter::new(Cursor::new(Vec::new()), &[spec])?;
    writer.write_records(&records)?;
    put("perf_data", writer.finish(&Features::default())?.get_ref())?;
    let mut packed = Vec::new();
    pack::pack(&records, &mut packed)?;
    put("packed", &packed)?;
    put("ibs", &[0xff; 84])?;
    // Address, operation, events, data source, end.
    put("spe", &[3, 0xb0, 0, 0x10, 0x40, 0, 0, 0, 0, 0x80, 0x49, 0, 0x52, 0x12, 0, 0x43, 8, 1])?;
    put("tracepoints", &[FORMAT.as_bytes(), &[0; 64]].concat())?;
    put("kernel_symbols", b"ffffffff81000000 T _text\nffffffff81000100 t do_one\t[module]\n")?;
    put("demangle", b"_ZNSt6vectorIiSaIiEE9push_backERKi")?;
    put("data_src", &0x6_8810_0842_u64.to_le_bytes())?;
    // A small program of the machine, where there is one.
    if let Ok(program) = std::fs::read("/bin/true") {
        put("elf", &program)?;
        let table = SymbolTable::from_elf(&program, &Limits::default())?;
        put("symbol_table", &table.encode())?;
    }
    Ok(())
}
