use super::*;
use crate::local::RecordedKernel;

pub(super) fn request(identity: &Identity, what: What) -> ObjectRequest<'_> {
    ObjectRequest {
        identity,
        what,
        base: 0,
        jit_dump: None,
        kernel: matches!(what, What::Kernel).then_some(RecordedKernel {
            identity,
            code: 0..0,
        }),
    }
}

fn own_file() -> (PathBuf, Vec<u8>) {
    let path = std::env::current_exe().unwrap();
    let bytes = std::fs::read(&path).unwrap();
    (path, bytes)
}

#[test]
fn a_file_is_read_where_it_was_mapped_from_when_its_build_id_agrees() {
    let (path, bytes) = own_file();
    let Some(id) = ObjectId::of_elf(&bytes) else {
        eprintln!("skipped: this test binary was linked without a build id");
        return;
    };
    let mut source = FileSource::default();
    let same = Identity::new(Kind::BuildId, id.as_bytes(), &path.to_string_lossy());
    let table = source.load(&request(&same, What::File)).unwrap();
    assert!(table.functions().len() > 100);
    let other = Identity::new(Kind::BuildId, &[7; 20], &path.to_string_lossy());
    let refused = source.load(&request(&other, What::File)).unwrap_err();
    assert!(refused.contains("another build id"), "{refused}");
}

#[test]
fn paths_lie_below_symfs() {
    let folder = tempfile::tempdir().unwrap();
    let (_, bytes) = own_file();
    std::fs::create_dir(folder.path().join("bin")).unwrap();
    std::fs::write(folder.path().join("bin/prog"), bytes).unwrap();
    let mut source = FileSource::new(Places {
        symfs: Some(folder.path().to_owned()),
        ..Places::default()
    });
    let identity = Identity::new(Kind::Path, &[], "/bin/prog");
    assert!(source.load(&request(&identity, What::File)).is_ok());
    let missing = Identity::new(Kind::Path, &[], "/bin/other");
    let refused = source.load(&request(&missing, What::File)).unwrap_err();
    assert_eq!(refused, "cannot read /bin/other: it is not here");
}

#[test]
fn kernel_symbols_come_from_the_file_given_relative_to_its_start() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("kallsyms");
    let text = "ffffffff81000000 T _text\nffffffff81000100 T do_work\nffffffff81000200 T _etext\n\
                ffffffffc0001040 t xfs_read\t[xfs]\n";
    std::fs::write(&path, text).unwrap();
    let mut source = FileSource::new(Places {
        kallsyms: Some(path),
        ..Places::default()
    });
    let kernel = Identity::new(Kind::Kernel, &[1; 20], "[kernel.kallsyms]");
    let table = source.load(&request(&kernel, What::Kernel)).unwrap();
    assert_eq!(table.functions().named("do_work").unwrap().start, 0x100);
    let module = Identity::new(Kind::Module, &[], "[xfs]");
    let table = source.load(&request(&module, What::Module)).unwrap();
    assert_eq!(table.functions().named("xfs_read").unwrap().start, 0x40);
    let unknown = Identity::new(Kind::Module, &[], "[nope]");
    assert!(source.load(&request(&unknown, What::Module)).is_err());
}

#[test]
fn another_kernels_symbols_are_not_taken_from_the_running_one() {
    let folder = tempfile::tempdir().unwrap();
    let mut source = FileSource::new(Places {
        build_id_dir: Some(folder.path().to_owned()),
        ..Places::default()
    });
    let kernel = Identity::new(Kind::Kernel, &[1; 20], "[kernel.kallsyms]");
    let refused = source.load(&request(&kernel, What::Kernel)).unwrap_err();
    assert!(refused.contains("another kernel"), "{refused}");
}

#[test]
fn generated_code_is_named_by_map_and_dump_below_symfs() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("tmp")).unwrap();
    let map = folder.path().join("tmp/perf-999999999.map");
    std::fs::write(map, "7f00 20 first\n").unwrap();
    let identity = Identity::new(Kind::Jit, &[1; 8], "/tmp/perf-999999999.map");
    let mut source = FileSource::new(Places {
        symfs: Some(folder.path().to_owned()),
        ..Places::default()
    });
    let mut asked = request(&identity, What::Jit);
    let table = source.load(&asked).unwrap();
    assert_eq!(table.functions().named("first").unwrap().start, 0x7f00);
    std::fs::write(folder.path().join("jit-9.dump"), b"no dump").unwrap();
    asked.jit_dump = Some("/jit-9.dump");
    assert!(source.load(&asked).is_ok(), "the map is there all the same");
    std::fs::remove_dir_all(folder.path().join("tmp")).unwrap();
    let refused = source.load(&asked).unwrap_err();
    assert!(refused.contains("no jitdump"), "{refused}");
}

#[test]
fn the_vdso_is_found_in_memory() {
    let Some(image) = vdso::image() else {
        eprintln!("skipped: this process has no readable [vdso]");
        return;
    };
    let identity = Identity::new(Kind::Vdso, &[], "[vdso]");
    let table = FileSource::default()
        .load(&request(&identity, What::Vdso))
        .unwrap();
    assert!(!image.is_empty() && table.functions().iter().count() > 0);
}

#[test]
fn files_say_what_machine_they_are_for() {
    let mut header = *b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x03\0\x3e\0";
    assert_eq!(machine_of(&header), Some(62));
    header[18] = 183;
    assert_eq!(machine_of(&header), Some(183));
    (header[5], header[18], header[19]) = (2, 0, 22);
    assert_eq!(machine_of(&header), Some(22));
    assert_eq!(machine_of(b"#!/bin/sh"), None);
}

#[test]
fn maps_and_dumps_that_make_no_sense_are_named() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("tmp")).unwrap();
    let map = folder.path().join("tmp/perf-999999999.map");
    std::fs::write(map, "7f00 20 first\n\nsorry, no map\nzz 1 x\n").unwrap();
    std::fs::write(folder.path().join("jit-9.dump"), b"no dump").unwrap();
    let identity = Identity::new(Kind::Jit, &[1; 8], "/tmp/perf-999999999.map");
    let mut source = FileSource::new(Places {
        symfs: Some(folder.path().to_owned()),
        ..Places::default()
    });
    let asked = ObjectRequest {
        jit_dump: Some("/jit-9.dump"),
        ..request(&identity, What::Jit)
    };
    assert!(source.load(&asked).is_ok(), "the first line is sound");
    let refused: Vec<String> = source
        .refusals
        .kept()
        .iter()
        .map(ToString::to_string)
        .collect();
    assert!(
        refused[0].contains("2 lines of the map are not understood"),
        "{refused:?}"
    );
    assert!(
        refused[1].starts_with("/jit-9.dump: no jitdump"),
        "{refused:?}"
    );
}

#[test]
fn kernel_symbols_that_cannot_be_had_are_named_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("kallsyms");
    std::fs::write(
        &path,
        "0000000000000000 T _text\n0000000000000000 T do_work\n",
    )
    .unwrap();
    let mut source = FileSource::new(Places {
        kallsyms: Some(path.clone()),
        ..Places::default()
    });
    let kernel = Identity::new(Kind::Kernel, &[1; 20], "[kernel.kallsyms]");
    for _ in 0..2 {
        assert!(source.load(&request(&kernel, What::Kernel)).is_err());
    }
    let refused = source.refusals.kept();
    assert_eq!(refused.len(), 1, "{refused:?}");
    assert_eq!(&*refused[0].file, path.to_str().unwrap());
    assert!(
        refused[0].why.contains("the kernel hides them"),
        "{refused:?}"
    );
}

#[test]
fn a_kernel_of_which_only_its_place_is_known_is_the_running_one_where_both_ends_agree() {
    let kallsyms = std::fs::read_to_string("/proc/kallsyms").unwrap_or_default();
    let at = |name: &str| {
        let line = kallsyms.lines().find(|line| line.ends_with(name))?;
        u64::from_str_radix(line.split(' ').next()?, 16).ok()
    };
    let (Some(start), Some(end)) = (at(" T _text"), at(" T _etext")) else {
        return eprintln!("skipped: there is no /proc/kallsyms");
    };
    if start == 0 {
        return eprintln!("skipped: /proc/kallsyms hides its addresses");
    }
    // The recorder was killed before it wrote the header.
    let kernel = Identity::new(Kind::Kernel, &[], "[kernel.kallsyms]");
    let load = |code| {
        let asked = ObjectRequest {
            base: start,
            kernel: Some(RecordedKernel {
                identity: &kernel,
                code,
            }),
            ..request(&kernel, What::Kernel)
        };
        FileSource::default().load(&asked)
    };
    assert!(load(start..end).unwrap().functions().len() > 1_000);
    for other in [start..end + 8, start + 0x20_0000..end, start..u64::MAX] {
        let why = load(other).unwrap_err();
        assert!(why.contains("neither build id nor release"), "{why}");
    }
}

#[test]
fn mapped_data_is_no_refused_program() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("table");
    std::fs::write(&path, b"numbers").unwrap();
    let identity = Identity::new(Kind::Path, &[], path.to_str().unwrap());
    let mut source = FileSource::default();
    assert!(source.load(&request(&identity, What::File)).is_err());
    assert_eq!(source.refusals.kept(), []);
}

/// Makes names of symbols lie beyond all names.
fn spoil(bytes: &mut [u8], symbols: usize) {
    let word = |bytes: &[u8], at: usize| {
        let word = bytes[at..at + 8].try_into().unwrap();
        usize::try_from(u64::from_le_bytes(word)).unwrap()
    };
    let (table, count) = (word(bytes, 0x28), usize::from(bytes[0x3c]));
    let mut sections = (0..count).map(|number| table + 64 * number);
    let of_symbols = sections.find(|at| bytes[at + 4] == 2).unwrap();
    let first = word(bytes, of_symbols + 24);
    let mut left = symbols;
    for at in (first..first + word(bytes, of_symbols + 32)).step_by(24) {
        let is_function = bytes[at + 4] & 15 == 2 && word(bytes, at + 8) > 0;
        if is_function && left > 0 {
            bytes[at..at + 4].fill(0xff);
            left -= 1;
        }
    }
    assert_eq!(left, 0, "there are as many functions");
}

#[test]
fn symbols_that_make_no_sense_are_counted_and_passed_over() {
    let (_, whole) = own_file();
    if whole[4..6] != [2, 1] {
        eprintln!("skipped: programs of this machine have another layout");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("program");
    let refused = |symbols: usize| {
        let mut bytes = whole.clone();
        spoil(&mut bytes, symbols);
        std::fs::write(&path, bytes).unwrap();
        let mut source = FileSource::default();
        let identity = Identity::new(Kind::Path, &[], path.to_str().unwrap());
        let table = source.load(&request(&identity, What::File)).unwrap();
        assert!(table.functions().len() > 100, "all others are used");
        let kept = source.refusals.kept().to_vec();
        (kept, table.symbols())
    };
    let (kept, symbols) = refused(0);
    assert_eq!(kept, [], "the program is sound");
    let (kept, _) = refused(3);
    let all = kept[0].why.split_ascii_whitespace().nth(2).unwrap();
    assert!(all.parse::<usize>().unwrap() > symbols / 2, "{kept:?}");
    let expected = format!("3 of {all} symbols make no sense and are passed over");
    assert_eq!(
        (&*kept[0].why, kept[0].remedy),
        (&*expected, refusals::OTHERS_HOLD)
    );
    let many = symbols / 20;
    let (kept, _) = refused(many);
    let starts = format!("damaged, {many} of ");
    assert!(kept[0].why.starts_with(&starts), "{kept:?}");
    assert_eq!((kept.len(), kept[0].remedy), (1, refusals::DAMAGED));
}
