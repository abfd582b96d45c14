//! Debug information that `dwz` made smaller says what it said before: in one file (partial units), and with what several
//! programs share in a file of its own (`.gnu_debugaltlink`).

use super::tests::request;
use super::*;
use memwide_objects::{DataMember, SourceFrame};
use std::process::Command;

const SHARED: &str = "struct shape { int kind; struct { long width, height; } size; char name[16]; };\n\
    struct list { struct list *next; struct shape of; long (*run)(struct shape *, struct list *); };\n\
    extern struct list *all;\n\
    static inline __attribute__((always_inline)) long area(struct shape *s) {\n\
    \x20 long width = s->size.width;\n\
    \x20 return width * s->size.height + s->kind;\n\
    }\n";

const PROGRAM: &str = "#include \"shared.h\"\n\
    struct list *all;\n\
    struct shape THIS = {1, {2, 3}, \"a\"};\n\
    __attribute__((noinline)) long run_THIS(struct shape *s, struct list *l) {\n\
    \x20 return area(s) + area(&l->of) + 1;\n\
    }\n\
    int main(int n, char **v) { struct list item = {all, THIS, run_THIS}; return (int)run_THIS(&THIS, &item) + n; }\n";

/// What debug information says of a program.
#[derive(Debug, PartialEq)]
struct Said {
    frames: Vec<Vec<SourceFrame>>,
    members: Vec<Option<DataMember>>,
}

struct Made {
    folder: tempfile::TempDir,
    before: Said,
}

/// Two programs that share much, `one` and `two`; `None` (said loudly) without the tools.
fn made(version: &str) -> Option<Made> {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("shared.h"), SHARED).unwrap();
    for name in ["one", "two"] {
        let source = PROGRAM.replace("THIS", name);
        std::fs::write(folder.path().join(format!("{name}.c")), source).unwrap();
        let file = format!("{name}.c");
        let args = ["-O1", "-Wl,--build-id", &file, "-o", name, version];
        run(folder.path(), "cc", &args)?;
    }
    let before = said(&folder.path().join("one"), &mut Refusals::default()).unwrap();
    // The truth is worth something: inlined code and members of members.
    let inlined = |frames: &&Vec<SourceFrame>| {
        let names: Vec<_> = frames.iter().map(|one| one.function.as_deref()).collect();
        names == [Some("area"), Some("run_one")]
    };
    assert!(
        before.frames.iter().filter(inlined).count() > 3,
        "{before:?}"
    );
    let mut paths = before.members.iter().flatten().map(|one| &*one.path);
    assert!(paths.any(|path| path.contains("size.height")), "{before:?}");
    Some(Made { folder, before })
}

fn run(folder: &Path, program: &str, args: &[&str]) -> Option<()> {
    let output = Command::new(program)
        .current_dir(folder)
        .args(args)
        .output();
    let Ok(output) = output else {
        eprintln!("skipped: there is no `{program}`");
        return None;
    };
    assert!(output.status.success(), "{program} {args:?}: {output:?}");
    Some(())
}

/// Of each address of the functions and of the variable of `one`.
fn said(program: &Path, refused: &mut Refusals) -> Result<Said, String> {
    let bytes = std::fs::read(program).unwrap();
    let table = SymbolTable::from_elf(&bytes, &Limits::default()).unwrap();
    let id = ObjectId::of_elf(&bytes).unwrap();
    let identity = Identity::new(Kind::BuildId, id.as_bytes(), &program.to_string_lossy());
    let mut source = FileSource::new(Places {
        build_id_dir: Some(program.with_file_name("empty")),
        ..Places::default()
    });
    let info = source.debug_info(&request(&identity, What::File));
    for refusal in source.refusals.kept() {
        refused.take(refusal.clone());
    }
    let mut info = info?;
    let functions = ["run_one", "main"].map(|name| table.functions().named(name).unwrap());
    let code = functions
        .iter()
        .flat_map(|one| one.start..one.start + one.size);
    let frames = code.map(|address| info.frames(address).map_err(|error| error.to_string()));
    let frames = frames.collect::<Result<_, _>>()?;
    let variable = table.objects().named("one").unwrap();
    let data = variable.start..variable.start + variable.size;
    let members = data.map(|address| info.member(address).map_err(|error| error.to_string()));
    Ok(Said {
        frames,
        members: members.collect::<Result<_, _>>()?,
    })
}

fn has_dwz() -> bool {
    let found = Command::new("dwz").arg("--version").output().is_ok();
    if !found {
        eprintln!("skipped: no dwz (Debian: apt-get install dwz)");
    }
    found
}

#[test]
fn what_dwz_made_smaller_says_the_same() {
    if !has_dwz() {
        return;
    }
    for version in ["-gdwarf-4", "-gdwarf-5"] {
        let Some(made) = made(version) else { return };
        let one = made.folder.path().join("one");
        // What is equal within a program stands once.
        run(made.folder.path(), "dwz", &["one", "-o", "small"]).unwrap();
        let refused = &mut Refusals::default();
        assert_eq!(
            said(&made.folder.path().join("small"), refused).as_ref(),
            Ok(&made.before)
        );
        // What is equal in two stands in a third.
        let args = ["-m", "both.dwz", "-r", "one", "two"];
        run(made.folder.path(), "dwz", &args).unwrap();
        let sections = places::sections(&one, DebugSections::read).unwrap();
        assert!(sections.shared().is_some(), "{version}: nothing is shared");
        assert_eq!(said(&one, refused).as_ref(), Ok(&made.before), "{version}");
        assert!(refused.kept().is_empty(), "{refused:?}");
    }
}

#[test]
fn a_shared_file_that_is_missing_or_another_is_not_believed() {
    if !has_dwz() {
        return;
    }
    let Some(made) = made("-gdwarf-4") else {
        return;
    };
    let at = |name: &str| made.folder.path().join(name);
    let args = ["-m", "both.dwz", "-r", "one", "two"];
    run(made.folder.path(), "dwz", &args).unwrap();
    let whole = std::fs::read(at("both.dwz")).unwrap();
    let lines = |said: &Said| {
        let all = said
            .frames
            .iter()
            .map(|frames| frames.first().map(|one| one.line));
        all.collect::<Vec<_>>()
    };
    let check = |what: &str| {
        let refused = &mut Refusals::default();
        let said = said(&at("one"), refused).unwrap();
        // Lines are the program's own, names of what was inlined were shared.
        assert_eq!(lines(&said), lines(&made.before), "{what}");
        assert_ne!(said, made.before, "{what}");
        let told = refused
            .kept()
            .iter()
            .any(|one| one.why.contains("both.dwz"));
        assert!(told, "{what}: {refused:?}");
    };
    std::fs::remove_file(at("both.dwz")).unwrap();
    check("missing");
    // Of another build.
    let id = ObjectId::of_elf(&whole).unwrap();
    let id = id.as_bytes();
    let place = whole.windows(id.len()).position(|part| part == id).unwrap();
    let mut other = whole.clone();
    other[place] ^= 1;
    std::fs::write(at("both.dwz"), &other).unwrap();
    check("another build");
    // A folder, and what never ends.
    std::fs::remove_file(at("both.dwz")).unwrap();
    std::fs::create_dir(at("both.dwz")).unwrap();
    check("a folder");
    std::fs::remove_dir(at("both.dwz")).unwrap();
    std::os::unix::fs::symlink("/dev/zero", at("both.dwz")).unwrap();
    check("a device");
}

#[test]
fn damage_in_a_shared_file_ends_in_an_answer() {
    if !has_dwz() {
        return;
    }
    let Some(made) = made("-gdwarf-4") else {
        return;
    };
    let at = |name: &str| made.folder.path().join(name);
    let args = ["-m", "both.dwz", "-r", "one", "two"];
    run(made.folder.path(), "dwz", &args).unwrap();
    for name in ["both.dwz", "one"] {
        let whole = std::fs::read(at(name)).unwrap();
        let ranges = debug_ranges(&at(name));
        assert_eq!(ranges.len(), 2, "{ranges:?}");
        for step in 0..60_usize {
            let mut damaged = whole.clone();
            let places = ranges.iter().cloned().flatten().skip(step).step_by(61);
            for place in places {
                damaged[place] ^= u8::try_from(1 + (place * 7 + step) % 255).unwrap();
            }
            std::fs::write(at(name), &damaged).unwrap();
            let _ = said(&at("one"), &mut Refusals::default());
        }
        std::fs::write(at(name), &whole).unwrap();
    }
    let after = said(&at("one"), &mut Refusals::default());
    assert_eq!(after.as_ref(), Ok(&made.before));
}

/// Where the units and their abbreviations stand in a file.
fn debug_ranges(file: &Path) -> Vec<std::ops::Range<usize>> {
    let output = Command::new("readelf").arg("-SW").arg(file).output();
    let told = String::from_utf8(output.unwrap().stdout).unwrap();
    let ranges = told.lines().filter_map(|line| {
        let mut words = line.split_once(']')?.1.split_whitespace();
        let is_it = matches!(words.next()?, ".debug_info" | ".debug_abbrev");
        let mut number = |at: usize| usize::from_str_radix(words.nth(at)?, 16).ok();
        let (start, size) = (number(2)?, number(0)?);
        is_it.then_some(start..start + size)
    });
    ranges.collect()
}
