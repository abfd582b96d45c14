//! Where debug information and symbols of stripped programs are found: programs are compiled and taken apart here.

use super::tests::request;
use super::*;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

const PROGRAM: &str = "static __attribute__((noinline)) int hidden(int x) {\n    return x * 7;\n}\n\
                       int main(int n, char **v) {\n    return hidden(n);\n}\n";

/// A program, its debug information in a file apart.
struct Apart {
    folder: tempfile::TempDir,
    program: PathBuf,
    debug: PathBuf,
    id: ObjectId,
    /// An address of `hidden`.
    address: u64,
}

fn run(program: &str, args: &[&str]) -> bool {
    let output = Command::new(program).args(args).output();
    let fine = output.is_ok_and(|output| output.status.success());
    if !fine {
        eprintln!("skipped: `{program} {}` does not work here", args.join(" "));
    }
    fine
}

/// `None` (said loudly) without the tools. `link`: the program names the debug file.
fn apart(link: bool) -> Option<Apart> {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    std::fs::write(path("program.c"), PROGRAM).unwrap();
    let (whole, debug, program) = (path("whole"), path("program.debug"), path("program"));
    let compiled = [
        "-g",
        "-O1",
        "-Wl,--build-id=sha1",
        &path("program.c"),
        "-o",
        &whole,
    ];
    let named = format!("--add-gnu-debuglink={debug}");
    let mut strip = vec!["--strip-all", &whole, &program];
    if link {
        strip.insert(1, &named);
    }
    let done = run("cc", &compiled)
        && run("objcopy", &["--only-keep-debug", &whole, &debug])
        && run("objcopy", &strip);
    let bytes = done.then(|| std::fs::read(&whole).unwrap())?;
    let table = SymbolTable::from_elf(&bytes, &Limits::default()).unwrap();
    Some(Apart {
        program: program.into(),
        debug: debug.into(),
        id: ObjectId::of_elf(&bytes).unwrap(),
        address: table.functions().named("hidden").unwrap().start,
        folder,
    })
}

impl Apart {
    fn identity(&self) -> Identity {
        Identity::new(
            Kind::BuildId,
            self.id.as_bytes(),
            &self.program.to_string_lossy(),
        )
    }

    fn source(&self, places: Places) -> FileSource {
        let empty = self.folder.path().join("empty");
        FileSource::new(Places {
            build_id_dir: places.build_id_dir.or(Some(empty)),
            ..places
        })
    }

    /// Names of the function and of its source file, with the line, as a source of symbols finds them.
    fn found(&self, source: &mut FileSource) -> Result<(bool, String), String> {
        let identity = self.identity();
        let request = request(&identity, What::File);
        let named = source.load(&request)?.functions().named("hidden").is_some();
        let mut info = source.debug_info(&request)?;
        let frames = info
            .frames(self.address)
            .map_err(|error| error.to_string())?;
        let frame = frames.first().ok_or("no frame")?;
        let file = frame.file.as_deref().unwrap_or_default();
        Ok((
            named,
            format!("{}:{}", file.rsplit('/').next().unwrap(), frame.line),
        ))
    }
}

fn fine() -> (bool, String) {
    (true, "program.c:2".to_owned())
}

#[test]
fn a_stripped_program_without_its_debug_file_has_no_lines_and_says_why() {
    let Some(apart) = apart(false) else { return };
    std::fs::remove_file(&apart.debug).unwrap();
    let refused = apart
        .found(&mut apart.source(Places::default()))
        .unwrap_err();
    assert!(refused.contains("no debug information"), "{refused}");
}

#[test]
fn a_debug_link_is_followed_beside_the_program_and_in_the_folder_debug() {
    let Some(apart) = apart(true) else { return };
    assert_eq!(
        apart.found(&mut apart.source(Places::default())),
        Ok(fine())
    );
    let folder = apart.folder.path().join(".debug");
    std::fs::create_dir(&folder).unwrap();
    std::fs::rename(&apart.debug, folder.join("program.debug")).unwrap();
    assert_eq!(
        apart.found(&mut apart.source(Places::default())),
        Ok(fine())
    );
}

#[test]
fn a_debug_file_with_another_checksum_is_not_believed() {
    let Some(apart) = apart(true) else { return };
    let mut bytes = std::fs::read(&apart.debug).unwrap();
    bytes.push(0);
    std::fs::write(&apart.debug, bytes).unwrap();
    let refused = apart
        .found(&mut apart.source(Places::default()))
        .unwrap_err();
    assert!(refused.contains("no debug information"), "{refused}");
}

#[test]
fn debug_files_are_found_by_build_id_in_the_cache_and_below_symfs() {
    let Some(apart) = apart(false) else { return };
    let (head, tail) = split_hex(apart.id.as_bytes()).unwrap();
    let cache = apart.folder.path().join("cache");
    let entry = cache.join(".build-id").join(&head).join(&tail);
    std::fs::create_dir_all(&entry).unwrap();
    std::fs::copy(&apart.debug, entry.join("debug")).unwrap();
    let places = Places {
        build_id_dir: Some(cache),
        ..Places::default()
    };
    assert_eq!(apart.found(&mut apart.source(places)), Ok(fine()));

    let root = apart.folder.path().join("root");
    let below = |path: &Path| root.join(path.strip_prefix("/").unwrap());
    let program = below(&apart.program);
    std::fs::create_dir_all(program.parent().unwrap()).unwrap();
    std::fs::copy(&apart.program, program).unwrap();
    let system = root.join("usr/lib/debug/.build-id").join(head);
    std::fs::create_dir_all(&system).unwrap();
    std::fs::rename(&apart.debug, system.join(format!("{tail}.debug"))).unwrap();
    let places = Places {
        symfs: Some(root),
        ..Places::default()
    };
    assert_eq!(apart.found(&mut apart.source(places)), Ok(fine()));
}

#[test]
fn symbols_inside_of_a_stripped_program_are_read() {
    let Some(apart) = apart(false) else { return };
    let path = |name: &str| apart.folder.path().join(name).to_str().unwrap().to_owned();
    let small = path("small");
    let debug = apart.debug.to_str().unwrap();
    let program = apart.program.to_str().unwrap();
    let section = format!(".gnu_debugdata={small}.xz");
    let packed = run("objcopy", &["-S", "--keep-symbol=hidden", debug, &small])
        && run("xz", &["-9", &small])
        && run("objcopy", &["--add-section", &section, program]);
    if !packed {
        return;
    }
    let identity = apart.identity();
    let request = request(&identity, What::File);
    let table = apart.source(Places::default()).load(&request).unwrap();
    assert_eq!(
        table.functions().named("hidden").unwrap().start,
        apart.address
    );
}

/// A server that answers each request by what `answer` makes of its path; counts them.
fn server(answer: impl Fn(&str) -> (u16, Vec<u8>) + Send + 'static) -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    let answer = Mutex::new(answer);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
            let first = lines.next().unwrap().unwrap();
            while lines.next().unwrap().is_ok_and(|line| !line.is_empty()) {}
            count.fetch_add(1, Ordering::SeqCst);
            let path = first.split(' ').nth(1).unwrap();
            let (status, body) = answer.lock().unwrap()(path);
            let head = format!(
                "HTTP/1.1 {status} x\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
                body.len()
            );
            // Whoever asked may be gone.
            let _ = stream.write_all(&[head.as_bytes(), &body].concat());
        }
    });
    (url, asked)
}

fn asking(apart: &Apart, url: &str) -> FileSource {
    apart.source(Places {
        debuginfod: vec![url.to_owned()],
        debuginfod_cache: Some(apart.folder.path().join("client")),
        ..Places::default()
    })
}

#[test]
fn a_server_of_debug_information_is_asked_once_and_its_answer_kept() {
    let Some(apart) = apart(false) else { return };
    let debug = std::fs::read(&apart.debug).unwrap();
    std::fs::remove_file(&apart.debug).unwrap();
    let wanted = format!("/buildid/{}/debuginfo", hex(apart.id.as_bytes()));
    let (url, asked) = server(move |path| {
        if path == wanted {
            (200, debug.clone())
        } else {
            (404, Vec::new())
        }
    });
    assert_eq!(apart.found(&mut asking(&apart, &url)), Ok(fine()));
    assert_eq!(apart.found(&mut asking(&apart, &url)), Ok(fine()));
    assert_eq!(asked.load(Ordering::SeqCst), 1);
    let kept = apart
        .folder
        .path()
        .join("client")
        .join(hex(apart.id.as_bytes()));
    assert!(kept.join("debuginfo").is_file());
    assert_eq!(
        std::fs::read_dir(kept).unwrap().count(),
        1,
        "nothing half-written is left"
    );
}

#[test]
fn what_no_server_has_is_not_asked_for_again_and_again() {
    let Some(apart) = apart(false) else { return };
    std::fs::remove_file(&apart.debug).unwrap();
    let (url, asked) = server(|_| (404, Vec::new()));
    for _ in 0..2 {
        let refused = apart.found(&mut asking(&apart, &url)).unwrap_err();
        assert!(refused.contains("no debug information"), "{refused}");
    }
    assert_eq!(asked.load(Ordering::SeqCst), 1);
}

#[test]
fn a_page_or_another_programs_file_is_no_answer() {
    let Some(apart) = apart(false) else { return };
    std::fs::remove_file(&apart.debug).unwrap();
    let other = std::fs::read(std::env::current_exe().unwrap()).unwrap();
    for body in [b"<html>sorry</html>".to_vec(), other, Vec::new()] {
        let (url, asked) = server(move |_| (200, body.clone()));
        for _ in 0..2 {
            let refused = apart.found(&mut asking(&apart, &url)).unwrap_err();
            assert!(
                refused.contains("no ELF file with that build id"),
                "{refused}"
            );
        }
        // Symbols and lines both want the file; the same answer again would cost the same bytes.
        assert_eq!(asked.load(Ordering::SeqCst), 1);
    }
    let refused = apart
        .found(&mut asking(&apart, "http://127.0.0.1:9"))
        .unwrap_err();
    assert!(refused.contains("127.0.0.1:9"), "{refused}");
}

/// Reasons of what was refused, after both symbols and lines were asked for.
fn refusals(apart: &Apart, source: &mut FileSource) -> Vec<String> {
    let _ = apart.found(source);
    let kept = source.refusals.kept().iter();
    kept.map(ToString::to_string).collect()
}

#[test]
fn files_that_do_not_fit_are_named_with_a_reason_and_a_remedy() {
    let Some(apart) = apart(true) else { return };
    let nothing = refusals(&apart, &mut apart.source(Places::default()));
    assert_eq!(nothing, Vec::<String>::new(), "all fits");
    let mut bytes = std::fs::read(&apart.debug).unwrap();
    bytes.push(0);
    std::fs::write(&apart.debug, bytes).unwrap();
    let refused = refusals(&apart, &mut apart.source(Places::default()));
    assert_eq!(refused.len(), 1, "{refused:?}");
    let debug = apart.debug.to_str().unwrap();
    assert!(refused[0].starts_with(debug), "{refused:?}");
    assert!(refused[0].contains("its checksum is not"), "{refused:?}");
    assert!(
        refused[0].contains("install the debug information"),
        "{refused:?}"
    );

    // The file was built again since.
    std::fs::remove_file(&apart.debug).unwrap();
    let own = std::fs::read(std::env::current_exe().unwrap()).unwrap();
    std::fs::write(&apart.program, &own).unwrap();
    let refused = refusals(&apart, &mut apart.source(Places::default()));
    assert!(
        refused[0].contains("it is not the recorded build"),
        "{refused:?}"
    );
    assert!(refused[0].contains("--symfs"), "{refused:?}");

    std::fs::remove_file(&apart.program).unwrap();
    let refused = refusals(&apart, &mut apart.source(Places::default()));
    assert_eq!(
        refused,
        Vec::<String>::new(),
        "what is not there is not refused"
    );
}

#[test]
fn damaged_programs_and_debug_files_are_named() {
    let Some(apart) = apart(true) else { return };
    let bytes = std::fs::read(&apart.program).unwrap();
    // The build id stands in front of what is cut off.
    std::fs::write(&apart.program, &bytes[..bytes.len() / 2]).unwrap();
    let refused = refusals(&apart, &mut apart.source(Places::default()));
    let named = |part: &str| refused.iter().any(|line| line.contains(part));
    assert!(named("damaged (no_sections)"), "{refused:?}");
    assert_eq!(
        refused.len(),
        1,
        "symbols and lines are damaged alike: {refused:?}"
    );
}

#[test]
fn a_server_that_fails_is_named_and_one_without_the_file_is_not() {
    let Some(apart) = apart(false) else { return };
    std::fs::remove_file(&apart.debug).unwrap();
    let (url, _) = server(|_| (404, Vec::new()));
    let refused = refusals(&apart, &mut asking(&apart, &url));
    assert_eq!(refused, Vec::<String>::new());
    let _ = std::fs::remove_dir_all(apart.folder.path().join("client"));
    let (url, _) = server(|_| (500, Vec::new()));
    let refused = refusals(&apart, &mut asking(&apart, &url));
    assert!(refused[0].starts_with(&url), "{refused:?}");
    assert!(refused[0].contains("500"), "{refused:?}");
}

#[test]
fn lines_of_split_programs_are_read_where_the_compiler_left_them() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    std::fs::write(path("program.c"), PROGRAM).unwrap();
    let object = path("program.o");
    let compile = [
        "-g",
        "-O1",
        "-gsplit-dwarf",
        "-c",
        &path("program.c"),
        "-o",
        &object,
    ];
    if !run("cc", &compile) || !run("cc", &[&object, "-o", &path("program")]) {
        return;
    }
    let program = path("program");
    let identity = Identity::new(Kind::Path, &[], &program);
    let asked = request(&identity, What::File);
    let mut source = FileSource::default();
    let table = source.load(&asked).unwrap();
    let hidden = table.functions().named("hidden").unwrap().start;
    let mut name = || {
        let mut info = source.debug_info(&asked).unwrap();
        let name = info.frames(hidden).unwrap()[0].function.clone();
        let refused = info.split_refusals().0.to_vec();
        (name, refused)
    };
    assert_eq!(name(), (Some("hidden".into()), Vec::new()));
    // Moved together, they are found beside the program.
    let split = path("program.dwo");
    std::fs::create_dir(path("elsewhere")).unwrap();
    std::fs::rename(&split, path("elsewhere/program.dwo")).unwrap();
    let (none, refused) = name();
    assert_eq!(none, None);
    assert!(refused[0].contains("program.dwo: not there"), "{refused:?}");
    std::fs::write(&split, b"\x7fELF no more").unwrap();
    let (_, refused) = name();
    assert!(refused[0].contains("cannot be read"), "{refused:?}");
}

#[test]
fn a_server_that_cannot_be_reached_is_asked_once() {
    let Some(apart) = apart(false) else { return };
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let servers = [url.clone()];
    let cache = apart.folder.path().join("client");
    let ask = |what| {
        let bounds = debuginfod::Bounds::default();
        debuginfod::fetch(&servers, &cache, apart.id.as_bytes(), what, bounds)
            .unwrap_err()
            .to_string()
    };
    let first = ask(Artifact::DebugInfo);
    assert!(
        first.starts_with(&url) && !first.contains("failed before"),
        "{first}"
    );
    let second = ask(Artifact::Executable);
    assert!(second.contains("it failed before"), "{second}");
}

#[test]
fn the_second_server_is_asked_where_the_first_has_none_or_too_much() {
    let Some(apart) = apart(false) else { return };
    let debug = std::fs::read(&apart.debug).unwrap();
    let bytes = debug.len() as u64;
    let large = vec![7; debug.len() + 1];
    let (without, _) = server(|_| (404, Vec::new()));
    let (too_large, _) = server(move |_| (200, large.clone()));
    let (has, _) = server(move |_| (200, debug.clone()));
    let cache = apart.folder.path().join("client");
    let ask = |servers: &[&String], cache: &str| {
        let bounds = debuginfod::Bounds {
            bytes,
            ..debuginfod::Bounds::default()
        };
        let servers: Vec<String> = servers.iter().map(ToString::to_string).collect();
        let cache = apart.folder.path().join(cache);
        debuginfod::fetch(
            &servers,
            &cache,
            apart.id.as_bytes(),
            Artifact::DebugInfo,
            bounds,
        )
    };
    let found = ask(&[&without, &too_large, &has], "client").unwrap();
    assert!(found.starts_with(cache));
    assert_eq!(std::fs::metadata(found).unwrap().len(), bytes);
    let refused = ask(&[&too_large, &without], "other").unwrap_err();
    let why = refused.failure().unwrap().1;
    assert!(why.contains("DEBUGINFOD_MAXSIZE"), "{why}");
    // That is no proof that there is none.
    let again = ask(&[&has], "other").unwrap();
    assert_eq!(std::fs::metadata(again).unwrap().len(), bytes);
}

#[test]
fn a_server_that_says_nothing_is_given_up() {
    let Some(apart) = apart(false) else { return };
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let servers = [format!("http://{}", silent.local_addr().unwrap())];
    let bounds = debuginfod::Bounds {
        idle: std::time::Duration::from_millis(200),
        ..debuginfod::Bounds::default()
    };
    let cache = apart.folder.path().join("client");
    let id = apart.id.as_bytes();
    let refused = debuginfod::fetch(&servers, &cache, id, Artifact::DebugInfo, bounds);
    let refused = refused.unwrap_err();
    assert!(refused.to_string().contains("timeout"), "{refused}");
}
