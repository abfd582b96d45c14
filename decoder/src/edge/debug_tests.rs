//! Where debug information and symbols of stripped programs are found: programs are compiled and taken apart here.

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
        let request = ObjectRequest {
            identity: &identity,
            what: What::File,
            base: 0,
            jit_dump: None,
            kernel: None,
        };
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
    let request = ObjectRequest {
        identity: &identity,
        what: What::File,
        base: 0,
        jit_dump: None,
        kernel: None,
    };
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
        let (url, _) = server(move |_| (200, body.clone()));
        let refused = apart.found(&mut asking(&apart, &url)).unwrap_err();
        assert!(
            refused.contains("no ELF file with that build id"),
            "{refused}"
        );
    }
    let refused = apart
        .found(&mut asking(&apart, "http://127.0.0.1:9"))
        .unwrap_err();
    assert!(refused.contains("127.0.0.1:9"), "{refused}");
}
