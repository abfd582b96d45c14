use super::*;
use memwide_objects::Index;

fn ask(kind: Kind, id: &[u8], path: &str) -> SymbolRequest {
    SymbolRequest {
        request: 1,
        identity: Some(MappingIdentity {
            kind: kind.into(),
            id: id.to_vec(),
            path: path.to_owned(),
        }),
        pid: std::process::id(),
        start: 0,
        end: 0,
        file: None,
        ..SymbolRequest::default()
    }
}

fn live() -> LiveSymbols {
    LiveSymbols::new(Machine::default(), 1 << 30)
}

fn decode(answer: &SymbolAnswer) -> SymbolTable {
    SymbolTable::decode(&answer.table, &Limits::default()).unwrap()
}

/// This program: path, and what it is.
fn own() -> (String, MappingIdentity) {
    let path = std::env::current_exe().unwrap();
    let path = path.to_str().unwrap().to_owned();
    let identity = Mapped::read(fs::File::open(&path).unwrap(), 1 << 30)
        .unwrap()
        .identity(&path);
    (path, identity)
}

#[test]
fn a_file_is_found_by_its_mapping_and_identified() {
    let maps = fs::read("/proc/self/maps").unwrap();
    let (path, identity) = own();
    let map = crate::snapshot::maps::parse(&maps)
        .find(|map| map.executable() && map.name() == path.as_bytes())
        .unwrap();
    let mut request = ask(Kind::Path, &[], "/no/such/file");
    (request.start, request.end) = (map.start, map.end);
    if fs::metadata(format!(
        "/proc/self/map_files/{:x}-{:x}",
        map.start, map.end
    ))
    .is_err()
    {
        eprintln!("skipped: map_files may not be read here");
        return;
    }
    let answer = live().table(&request).unwrap();
    assert_eq!(
        (answer.identity.kind, &answer.identity.id),
        (identity.kind, &identity.id)
    );
    assert!(decode(&answer).functions().len() > 100);
}

#[test]
fn a_path_is_believed_only_while_its_process_lives_or_with_its_id() {
    let (path, identity) = own();
    let mut by_path = ask(Kind::Path, &[], &path);
    assert!(live().table(&by_path).is_ok(), "through /proc/PID/root");
    by_path.pid = 0;
    assert!(live().table(&by_path).unwrap_err().contains("no build id"));
    let mut by_id = ask(identity.kind(), &identity.id, &path);
    by_id.pid = 0;
    assert!(live().table(&by_id).is_ok(), "the id is checked");
    by_id.identity.as_mut().unwrap().id[0] ^= 1;
    assert!(live().table(&by_id).unwrap_err().contains("another file"));
}

#[test]
fn a_path_is_believed_after_its_process_when_it_is_the_very_file() {
    let maps = fs::read("/proc/self/maps").unwrap();
    let (path, identity) = own();
    let map = crate::snapshot::maps::parse(&maps)
        .find(|map| map.executable() && map.name() == path.as_bytes())
        .unwrap();
    let mut request = ask(Kind::Path, &[], &path);
    request.pid = 0;
    request.file = Some(memwide_proto::v1::MappedFile {
        major: map.major,
        minor: map.minor,
        inode: map.inode,
        generation: 0,
    });
    let answer = live().table(&request).unwrap();
    assert_eq!(answer.identity.id, identity.id);
    request.file.as_mut().unwrap().inode += 1;
    let why = live().table(&request).unwrap_err();
    assert!(why.contains("another file"), "{why}");
}

#[test]
fn a_file_above_the_bound_is_not_read() {
    let (path, _) = own();
    let small = LiveSymbols::new(Machine::default(), 1_000);
    let why = small.table(&ask(Kind::Path, &[], &path)).unwrap_err();
    assert!(why.contains("more than the 1000"), "{why}");
}

#[test]
fn the_vdso_comes_from_own_memory() {
    let answer = live().table(&ask(Kind::Vdso, &[], "[vdso]")).unwrap();
    let names: Vec<_> = decode(&answer)
        .functions()
        .iter()
        .map(|symbol| symbol.name.to_owned())
        .collect();
    assert!(
        names.iter().any(|name| name.contains("clock_gettime")),
        "{names:?}"
    );
}

#[test]
fn the_kernel_is_relative_to_its_start() {
    let live = live();
    if let Err(why) = kernel::visible(&live.machine) {
        eprintln!("skipped: {why}");
        return;
    }
    let answer = live
        .table(&ask(Kind::Kernel, &[], "[kernel.kallsyms]"))
        .unwrap();
    let table = decode(&answer);
    assert!(table.functions().len() > 10_000 && !answer.identity.id.is_empty());
    let index = Index::build(table.functions());
    let first = index
        .lookup(0x10)
        .map(|found| table.functions().get(found.index()).unwrap().start);
    assert!(first.is_some_and(|start| start < 0x1000_0000), "{first:x?}");
    let mut other = ask(Kind::Kernel, &answer.identity.id, "[kernel.kallsyms]");
    other.identity.as_mut().unwrap().id[0] ^= 1;
    assert!(live.table(&other).unwrap_err().contains("another kernel"));
}

#[test]
fn modules_are_relative_to_their_own_base() {
    let kallsyms = b"ffffffff81000000 T _text\nffffffff81000010 t f\nffffffff81000100 T _etext\n\
        ffffffffc0000040 t xfs_read\t[xfs]\n";
    let modules = b"xfs 8192 0 - Live 0xffffffffc0000000\n";
    let tables = KernelTables::new(kallsyms, vec![1], modules, |_| vec![2]).unwrap();
    let request = ask(Kind::Module, &[2], "[xfs]");
    let answer = tables.find(&request.identity.unwrap()).unwrap();
    let table = decode(&answer);
    assert_eq!(table.functions().named("xfs_read").unwrap().start, 0x40);
    let unknown = ask(Kind::Module, &[], "[ext4]").identity.unwrap();
    assert!(tables.find(&unknown).is_none());
}

/// Compiles a program, strips it, and gives what is asked for it while it does not run.
fn stripped(folder: &std::path::Path, keep_debug: bool) -> Option<(String, MappingIdentity)> {
    let run = |program: &str, arguments: &[&str]| {
        let run = std::process::Command::new(program)
            .args(arguments)
            .current_dir(folder)
            .status();
        run.is_ok_and(|status| status.success())
    };
    let source = "__attribute__((noinline)) int hidden(int n) { volatile int m = n; return m * 3; }\n\
        int main(int c, char **v) { return hidden(c); }\n";
    fs::write(folder.join("a.c"), source).unwrap();
    if !run("cc", &["-g", "-O1", "-Wl,--build-id", "-o", "a", "a.c"]) {
        return None;
    }
    if keep_debug {
        assert!(run("objcopy", &["--only-keep-debug", "a", "a.debug"]));
        assert!(run("objcopy", &["-S", "--add-gnu-debuglink=a.debug", "a"]));
    } else {
        assert!(run("strip", &["a"]));
    }
    let path = folder.join("a").to_str()?.to_owned();
    let identity = Mapped::read(fs::File::open(&path).unwrap(), 1 << 30)
        .unwrap()
        .identity(&path);
    Some((path, identity))
}

#[test]
fn a_stripped_program_has_the_starts_of_its_functions() {
    let folder = tempfile::tempdir().unwrap();
    let Some((path, identity)) = stripped(folder.path(), false) else {
        eprintln!("skipped: no compiler");
        return;
    };
    let mut request = ask(identity.kind(), &identity.id, &path);
    request.pid = 0;
    let table = decode(&live().table(&request).unwrap());
    let starts = table
        .functions()
        .iter()
        .filter(|symbol| symbol.name.is_empty());
    assert!(starts.count() >= 2, "{:?}", table.functions());
    assert!(table.rank() < memwide_objects::Source::SymTab as u8);
}

#[test]
fn a_program_is_named_by_the_debug_file_it_names() {
    let folder = tempfile::tempdir().unwrap();
    let Some((path, identity)) = stripped(folder.path(), true) else {
        eprintln!("skipped: no compiler");
        return;
    };
    let mut request = ask(identity.kind(), &identity.id, &path);
    request.pid = 0;
    let table = decode(&live().table(&request).unwrap());
    assert!(table.functions().named("hidden").is_some());
    // Another file of that name is none.
    fs::write(folder.path().join("a.debug"), b"other").unwrap();
    let table = decode(&live().table(&request).unwrap());
    assert!(table.functions().named("hidden").is_none());
}

/// Anonymous memory that a collector may have once it has read many large files, in KiB.
const LEFT_MAX: u64 = 16 << 10;

/// In a process of its own: what the whole process has is measured.
#[test]
fn memory_for_symbols_goes_back_to_the_system() {
    const ALONE: &str = "MEMWIDE_TEST_ALONE";
    if std::env::var_os(ALONE).is_none() {
        let itself = std::process::Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "symbols::tests::memory_for_symbols_goes_back_to_the_system",
            ])
            .env(ALONE, "1")
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&itself.stdout);
        assert!(
            itself.status.success() && said.contains("1 passed"),
            "{said}"
        );
        return;
    }
    crate::keep_little_memory();
    let live = live();
    let request = ask(Kind::Path, &[], &own().0);
    let small = live.table(&request).unwrap().table.len() as u64;
    // Threads that come and go, as those of a runtime do; each may get a heap of its own.
    std::thread::scope(|scope| {
        for _ in 0..12 {
            scope.spawn(|| live.table(&request).unwrap());
        }
    });
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let left = status.lines().find_map(|line| {
        let number = line.strip_prefix("RssAnon:")?.trim().strip_suffix("kB")?;
        number.trim().parse::<u64>().ok()
    });
    println!("{left:?} KiB left; a table has {} KiB", small >> 10);
    assert!(left.unwrap() < LEFT_MAX, "{left:?} KiB");
}

#[test]
fn the_remedy_for_kernel_names_fits_the_settings_in_force() {
    const BOTH: &str = "sysctl kernel.kptr_restrict=0 kernel.perf_event_paranoid=1";
    let remedy = |strict: u32, paranoid: i32, caps: u64| {
        let folder = tempfile::tempdir().unwrap();
        let proc = folder.path();
        fs::create_dir_all(proc.join("sys/kernel")).unwrap();
        fs::create_dir_all(proc.join("self")).unwrap();
        let setting = |name: &str, value: String| {
            fs::write(proc.join("sys/kernel").join(name), value).unwrap();
        };
        setting("kptr_restrict", format!("{strict}\n"));
        setting("perf_event_paranoid", format!("{paranoid}\n"));
        fs::write(proc.join("self/status"), format!("CapEff:\t{caps:016x}\n")).unwrap();
        kernel::remedy(&Machine {
            proc: proc.to_owned(),
            ..Machine::default()
        })
    };
    let syslog = 1 << 34;
    let right = "give the process CAP_SYSLOG";
    for (strict, paranoid, caps, said) in [
        (
            0,
            2,
            0,
            format!("{right}, or sysctl kernel.perf_event_paranoid=1"),
        ),
        (
            1,
            1,
            0,
            format!("{right}, or sysctl kernel.kptr_restrict=0"),
        ),
        (1, 2, 0, format!("{right}, or {BOTH}")),
        (
            2,
            2,
            0,
            format!("{right} and sysctl kernel.kptr_restrict=1, or {BOTH}"),
        ),
        (
            2,
            2,
            syslog,
            format!("sysctl kernel.kptr_restrict=1, or {BOTH}"),
        ),
    ] {
        assert_eq!(
            remedy(strict, paranoid, caps),
            said,
            "{strict} {paranoid} {caps:x}"
        );
    }
}
