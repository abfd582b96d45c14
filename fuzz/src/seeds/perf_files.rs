//! Small perf.data files: of a file and of a pipe, of either byte order, compressed, with SPE data, with tracepoints.

use memwide_perf_abi::file::{EventSpec, Features, TracingFiles, feature};
use memwide_perf_abi::{
    Attr, AttrFlags, Aux, BuildId, Comm, FileId, FileWriter, Mmap2, Order, PerfFile, Record,
    SampleFields, SampleId, SampleLayout, attr_kind, encode, kind, misc, sample,
};
use std::error::Error;
use std::io::Cursor;

/// Type number of the SPE events.
const PMU: u32 = 9;
/// Id of every event here.
const ID: u64 = 7;

type Bytes = Result<Vec<u8>, Box<dyn Error>>;
/// Name and content.
type Seed = (&'static str, Vec<u8>);

/// One of each kind.
pub(crate) fn all() -> Result<Vec<Seed>, Box<dyn Error>> {
    let plain = memory_records()?;
    Ok(vec![
        ("file", file(memory_attr(), &plain, &described())?),
        (
            "compressed",
            file(
                memory_attr(),
                &compressed(kind::COMPRESSED, &plain)?,
                &described(),
            )?,
        ),
        (
            "compressed2",
            file(
                memory_attr(),
                &compressed(kind::COMPRESSED2, &plain)?,
                &described(),
            )?,
        ),
        ("spe", spe()?),
        ("tracepoint", tracepoint()?),
        ("pipe", pipe(Order::Little)),
        ("pipe_big", pipe(Order::Big)),
        ("file_big", big_file()),
    ])
}

/// Samples read from a file: a seed that is refused leads nowhere.
pub(crate) fn samples(bytes: &[u8]) -> Result<usize, Box<dyn Error>> {
    let mut file = PerfFile::open(Cursor::new(bytes))?;
    let mut records = file.sorted()?;
    let mut count = 0;
    while let Some(item) = records.next()? {
        count += usize::from(item.record.is_sample() && item.event.is_some());
    }
    Ok(count)
}

fn memory_attr() -> Attr {
    Attr {
        kind: attr_kind::RAW,
        config: 0x1cd,
        sample_type: sample::IDENTIFIER
            | sample::IP
            | sample::TID
            | sample::TIME
            | sample::ADDR
            | sample::CPU
            | sample::PERIOD
            | sample::WEIGHT
            | sample::DATA_SRC
            | sample::PHYS_ADDR,
        flags: AttrFlags::default().with_sample_id_all(true),
        ..Attr::default()
    }
}

fn memory_records() -> Bytes {
    let layout = SampleLayout::new(&memory_attr())?;
    let mut out = Vec::new();
    let id = SampleId {
        pid: Some(1),
        tid: Some(1),
        time: Some(1),
        id: Some(ID),
        stream_id: None,
        cpu: Some(0),
    };
    let trailer = Some((layout.trailer(), &id));
    let comm = Comm {
        pid: 1,
        tid: 1,
        comm: b"seed",
        exec: true,
    };
    encode::record(&mut out, &Record::Comm(comm), misc::USER, trailer)?;
    let map = Mmap2 {
        pid: 1,
        tid: 1,
        addr: 0x40_0000,
        len: 0x1000,
        pgoff: 0,
        file: FileId::BuildId(BuildId::new([7; 20], 20)),
        prot: 5,
        flags: 2,
        filename: b"/bin/seed",
        data: false,
    };
    encode::record(&mut out, &Record::Mmap2(map), misc::USER, trailer)?;
    for time in [4, 2, 3] {
        encode::sample(&mut out, &fields(time), misc::USER, &layout)?;
    }
    encode::raw(&mut out, kind::FINISHED_ROUND, 0, &[])?;
    encode::sample(&mut out, &fields(5), misc::USER, &layout)?;
    Ok(out)
}

fn fields(time: u64) -> SampleFields<'static> {
    SampleFields {
        id: ID,
        ip: 0x40_0010,
        pid: 1,
        tid: 1,
        time,
        addr: 0x7fff_0000,
        period: 100,
        data_src: 0x6_8810_0842,
        raw: &[0; 28],
        ..SampleFields::default()
    }
}

fn file(attr: Attr, records: &[u8], features: &Features) -> Bytes {
    let spec = EventSpec {
        attr,
        ids: vec![ID],
        name: "seed".to_owned(),
    };
    let mut writer = FileWriter::new(Cursor::new(Vec::new()), &[spec])?;
    writer.write_records(records)?;
    Ok(writer.finish(features)?.into_inner())
}

/// Features whose content has a structure.
fn described() -> Features {
    let mut features = Features::default();
    features.set_text(feature::ARCH, "x86_64");
    features.set_nr_cpus(2, 2);
    features.set_cmdline(&["perf", "mem"]);
    features.set_pmu_mappings(&[(4, "cpu")]);
    features
}

fn compressed(kind: u32, records: &[u8]) -> Bytes {
    let packed = zstd::bulk::compress(records, 1)?;
    let mut out = Vec::new();
    if kind == kind::COMPRESSED2 {
        let mut body = (packed.len() as u64).to_le_bytes().to_vec();
        body.extend_from_slice(&packed);
        body.resize(body.len().next_multiple_of(8), 0);
        encode::raw(&mut out, kind, 0, &body)?;
    } else {
        // Here the end of the data is the end of the record, so its size may be odd.
        let size = u16::try_from(packed.len() + 8)?;
        out.extend_from_slice(&kind.to_le_bytes());
        out.extend_from_slice(&[0; 2]);
        out.extend_from_slice(&size.to_le_bytes());
        out.extend_from_slice(&packed);
    }
    Ok(out)
}

/// Two loads in the AUX data of one CPU.
fn spe() -> Bytes {
    let attr = Attr {
        kind: PMU,
        config: 1,
        sample_type: sample::IDENTIFIER | sample::IP | sample::TID | sample::TIME | sample::CPU,
        flags: AttrFlags::default().with_sample_id_all(true),
        ..Attr::default()
    };
    let mut records = Vec::new();
    words(
        &mut records,
        kind::TIME_CONV,
        &[20, 10 << 20, 5_000_000_000, 0, 0, 1],
    )?;
    words(&mut records, kind::AUXTRACE_INFO, &[4, PMU.into(), 1])?;
    let handed = Record::Aux(Aux {
        offset: 0,
        size: 64,
        flags: 8,
    });
    encode::record(&mut records, &handed, misc::USER, None)?;
    let mut trace = Vec::new();
    for counter in [100_u64, 200] {
        trace.extend_from_slice(&super::spe_load(counter));
    }
    trace.resize(trace.len().next_multiple_of(8), 0);
    let any_thread = u64::from(u32::MAX) << 32;
    words(
        &mut records,
        kind::AUXTRACE,
        &[trace.len() as u64, 0, 0, any_thread, 0],
    )?;
    let spec = EventSpec {
        attr,
        ids: vec![ID],
        name: "arm_spe_0//".to_owned(),
    };
    let mut writer = FileWriter::new(Cursor::new(Vec::new()), &[spec])?;
    writer.write_records(&records)?;
    writer.write_trace(&trace)?;
    writer.finish_round()?;
    let mut features = Features::default();
    features.set_text(feature::CPUID, "0x00000000413fd0c1");
    features.set_raw(feature::AUXTRACE, vec![0; 8]);
    Ok(writer.finish(&features)?.into_inner())
}

fn tracepoint() -> Bytes {
    let attr = Attr {
        kind: attr_kind::TRACEPOINT,
        config: 1,
        sample_type: sample::IDENTIFIER | sample::IP | sample::TID | sample::TIME | sample::RAW,
        ..Attr::default()
    };
    let mut records = Vec::new();
    encode::sample(
        &mut records,
        &fields(1),
        misc::KERNEL,
        &SampleLayout::new(&attr)?,
    )?;
    let mut features = Features::default();
    features.set_raw(feature::TRACING_DATA, tracing_data());
    file(attr, &records, &features)
}

/// Tracing data of the first tracepoint.
pub(crate) fn tracing_data() -> Vec<u8> {
    let first = super::formats::all()
        .next()
        .map(|(_, text)| text.into_bytes());
    let files = TracingFiles {
        header_page: b"page".to_vec(),
        header_event: b"event".to_vec(),
        systems: vec![("kmem".to_owned(), first.into_iter().collect())],
        page_size: 4096,
        ..TracingFiles::default()
    };
    files.encode()
}

fn words(out: &mut Vec<u8>, kind: u32, words: &[u64]) -> Result<(), Box<dyn Error>> {
    let body: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    Ok(encode::raw(out, kind, 0, &body)?)
}

/// Writes numbers in a byte order.
struct Numbers {
    order: Order,
    out: Vec<u8>,
}

impl Numbers {
    fn put<const N: usize>(&mut self, little: [u8; N]) -> &mut Self {
        let mut bytes = little;
        if self.order == Order::Big {
            bytes.reverse();
        }
        self.out.extend_from_slice(&bytes);
        self
    }

    fn text(&mut self, text: &[u8]) -> &mut Self {
        self.out.extend_from_slice(text);
        self
    }

    fn word32(&mut self, word: u32) -> &mut Self {
        self.put(word.to_le_bytes())
    }

    fn word64(&mut self, word: u64) -> &mut Self {
        self.put(word.to_le_bytes())
    }

    fn header(&mut self, kind: u32, misc: u16, size: u16) -> &mut Self {
        self.word32(kind)
            .put(misc.to_le_bytes())
            .put(size.to_le_bytes())
    }

    /// An attr of 64 bytes whose samples are [`Numbers::records`].
    fn attr(&mut self) -> &mut Self {
        let fields =
            sample::IDENTIFIER | sample::IP | sample::TID | sample::ADDR | sample::DATA_SRC;
        // Bits count from the other end on a big-endian machine.
        let all_have_ids = match self.order {
            Order::Little => 1 << 18,
            Order::Big => 1 << (63 - 18),
        };
        self.word32(attr_kind::RAW)
            .word32(64)
            .word64(0x1cd)
            .word64(1000);
        self.word64(fields)
            .word64(0)
            .word64(all_have_ids)
            .word64(0)
            .word64(0)
    }

    fn records(&mut self) -> &mut Self {
        self.header(kind::COMM, 0, 40)
            .word32(1)
            .word32(1)
            .text(b"seedseed");
        self.word32(1).word32(1).word64(ID); // the trailer: thread and id
        self.header(kind::SAMPLE, misc::USER, 48)
            .word64(ID)
            .word64(0x40_0010);
        self.word32(1)
            .word32(1)
            .word64(0x7fff_0000)
            .word64(0x6_8810_0842)
    }
}

fn pipe(order: Order) -> Vec<u8> {
    let mut file = Numbers {
        order,
        out: Vec::new(),
    };
    file.put(*b"PERFILE2").word64(16);
    file.header(kind::HEADER_ATTR, 0, 80).attr().word64(ID);
    file.header(kind::EVENT_UPDATE, 0, 32)
        .word64(2)
        .word64(ID)
        .text(b"load\0\0\0\0");
    file.header(kind::HEADER_FEATURE, 0, 32)
        .word64(u64::from(feature::ARCH));
    file.word32(12).text(b"x86_64\0\0\0\0\0\0");
    let tracing = tracing_data();
    file.header(kind::HEADER_TRACING_DATA, 0, 12);
    file.word32(u32::try_from(tracing.len()).unwrap_or_default());
    file.out.extend_from_slice(&tracing);
    file.records();
    file.out
}

/// As a file, without features.
fn big_file() -> Vec<u8> {
    let mut body = Numbers {
        order: Order::Big,
        out: Vec::new(),
    };
    body.records();
    let records = body.out.len() as u64;
    let mut file = Numbers {
        order: Order::Big,
        out: Vec::new(),
    };
    file.put(*b"PERFILE2").word64(104).word64(64 + 16);
    file.word64(112)
        .word64(80)
        .word64(192)
        .word64(records)
        .word64(0)
        .word64(0);
    file.word64(0).word64(0).word64(0).word64(0).word64(ID);
    file.attr().word64(104).word64(8).records();
    file.out
}
