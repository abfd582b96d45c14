//! Source lines and inlined functions of split programs and of packages, compared with those of whole programs; and what becomes
//! of them where a package is damaged or lacks a unit.

#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "tests stop at once and say what they skip"
)]

#[path = "support/split.rs"]
mod split;

use memwide_objects::DebugInfo;
use split::{info, run, table};
use std::path::{Path, PathBuf};

/// `function file:line` of each address.
fn ours(info: &mut DebugInfo, addresses: &[u64]) -> String {
    let mut text = String::new();
    for address in addresses {
        text.push_str(&format!("{address:#018x}\n"));
        for frame in info.frames(*address).unwrap() {
            let (function, file) = (frame.function.unwrap(), frame.file.unwrap());
            text.push_str(&format!("{function}\n{file}:{}\n", frame.line));
        }
    }
    text
}

/// A section of a split file; empty (which `objcopy` says) where it has none.
fn section(folder: &Path, split: &str, name: &str) -> Vec<u8> {
    let bytes = folder.join("section.bytes");
    // One that is not there is not written.
    std::fs::write(&bytes, b"").unwrap();
    let dump = format!("--dump-section={name}=section.bytes");
    let _ = run("objcopy", &[&dump, split, "/dev/null"], folder);
    std::fs::read(&bytes).unwrap()
}

/// A package of version 5 of up to two split files, made here; `None` (said loudly) without `objcopy`.
fn packed(folder: &Path, splits: &[&str], to: &str) -> Option<()> {
    // Numbers that the standard gives these sections.
    const SECTIONS: [(&str, u32); 5] = [
        ("info", 1),
        ("abbrev", 3),
        ("loclists", 5),
        ("str_offsets", 6),
        ("rnglists", 8),
    ];
    const SLOTS: usize = 4;
    let mut whole: [Vec<u8>; SECTIONS.len()] = Default::default();
    let (mut strings, mut offsets, mut sizes) = (Vec::new(), Vec::new(), Vec::new());
    let (mut ids, mut rows) = ([[0; 8]; SLOTS], [0; SLOTS]);
    for (unit, split) in (1_u32..).zip(splits) {
        for ((name, _), whole) in SECTIONS.iter().zip(&mut whole) {
            let mut bytes = section(folder, split, &format!(".debug_{name}.dwo"));
            if *name == "info" {
                let id: [u8; 8] = bytes.get(12..20)?.try_into().unwrap();
                // The low half says where to look first, the high one how far on to look next.
                let (mut slot, step) = (usize::from(id[0]), usize::from(id[4] | 1));
                while rows[slot % SLOTS] != 0 {
                    slot += step;
                }
                (ids[slot % SLOTS], rows[slot % SLOTS]) = (id, unit);
            }
            if *name == "str_offsets" {
                for offset in bytes[8..].chunks_exact_mut(4) {
                    let moved = u32::from_le_bytes(offset.try_into().unwrap());
                    let moved = moved + u32::try_from(strings.len()).unwrap();
                    offset.copy_from_slice(&moved.to_le_bytes());
                }
            }
            offsets.push(u32::try_from(whole.len()).unwrap());
            sizes.push(u32::try_from(bytes.len()).unwrap());
            whole.extend(bytes);
        }
        strings.extend(section(folder, split, ".debug_str.dwo"));
    }
    let counts = [5, SECTIONS.len(), splits.len(), SLOTS];
    let counts = counts.map(|count| u32::try_from(count).unwrap());
    let numbers = SECTIONS.iter().map(|(_, number)| *number);
    let table = (rows.into_iter().chain(numbers)).chain(offsets.into_iter().chain(sizes));
    let index = [
        counts.map(u32::to_le_bytes).concat(),
        ids.concat(),
        table.flat_map(u32::to_le_bytes).collect(),
    ];
    std::fs::write(folder.join("cu_index.bytes"), index.concat()).unwrap();
    std::fs::write(folder.join("str.bytes"), strings).unwrap();
    let mut args = vec![
        "--add-section=.debug_cu_index=cu_index.bytes".to_owned(),
        "--update-section=.debug_str.dwo=str.bytes".to_owned(),
    ];
    for ((name, _), bytes) in SECTIONS.iter().zip(whole) {
        std::fs::write(folder.join(format!("{name}.bytes")), &bytes).unwrap();
        if !bytes.is_empty() {
            args.push(format!("--update-section=.debug_{name}.dwo={name}.bytes"));
        }
    }
    args.extend([splits.first()?, to].map(str::to_owned));
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    run("objcopy", &args, folder).map(|_| ())
}

#[test]
fn lines_of_split_programs_are_those_of_whole_ones() {
    let source = "static inline __attribute__((always_inline)) int leaf(int x) {\n    return x * 3;\n}\n\
        __attribute__((noinline)) int work(int x) {\n    return leaf(x) + leaf(x + 1);\n}\n\
        __attribute__((cold, noinline)) int cold(int x) {\n    return leaf(x);\n}\n\
        int main(int n, char **v) {\n    return work(n) + cold(n);\n}\n";
    for version in ["-gdwarf-4", "-gdwarf-5"] {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        std::fs::write(folder.join("lines.c"), source).unwrap();
        let build = |name: &str, more: &[&str]| {
            let object = format!("{name}.o");
            let args = [
                &["-g", "-O2", version, "-c", "lines.c", "-o", &object],
                more,
            ]
            .concat();
            run("cc", &args, folder)?;
            run("cc", &[&object, "-o", name], folder)?;
            Some(folder.join(name))
        };
        let whole = build("whole", &[]);
        let Some((program, whole)) = build("lines", &["-gsplit-dwarf"]).zip(whole) else {
            return;
        };
        assert_eq!(
            table(&program).functions(),
            table(&whole).functions(),
            "the code is the same"
        );
        let functions = table(&whole);
        let named = |name| functions.functions().named(name).unwrap();
        let addresses: Vec<u64> = ["work", "cold", "main"]
            .into_iter()
            .flat_map(|name| named(name).start..named(name).end())
            .collect();
        let expected = ours(&mut info(&whole, None), &addresses);
        assert!(expected.contains("leaf\n"), "something is inlined");
        assert_eq!(
            ours(&mut info(&program, None), &addresses),
            expected,
            "{version}"
        );
        if version == "-gdwarf-5" && packed(folder, &["lines.dwo"], "lines.dwp").is_some() {
            std::fs::remove_file(folder.join("lines.dwo")).unwrap();
            let package = folder.join("lines.dwp");
            let mut info = info(&program, Some(&package));
            assert_eq!(ours(&mut info, &addresses), expected, "packed");
            assert_eq!(info.split_refusals(), (&[][..], 0), "all is in the package");
        }
    }
}

const FIRST: &str = r"
struct pair { long a, b; };
volatile long sink;
extern long other(struct pair *p, long n);
static inline __attribute__((always_inline)) long deep(struct pair *p, long i) {
    if (i & 1) { sink += p->a; } else { sink -= p->b; }
    return sink * i;
}
static inline __attribute__((always_inline)) long middle(struct pair *p, long n) {
    long sum = 0;
    for (long k = 0; k < n; k++) sum += deep(p, k);
    return sum;
}
int main(int n, char **v) {
    struct pair pair = {n, 2};
    return (int)(middle(&pair, n + 10) + other(&pair, n));
}
";

const SECOND: &str = r"
struct pair { long a, b; };
extern volatile long sink;
static inline __attribute__((always_inline)) long nested(struct pair *p, long i) {
    if (i & 1) { sink += p->a; } else { sink -= p->b; }
    return sink * i;
}
__attribute__((noinline)) long other(struct pair *p, long n) {
    long sum = 0;
    for (long k = 0; k < n + 9; k++) sum += nested(p, k);
    return sum;
}
";

/// A split program of two units, and the frames that the same program has at all its addresses when it is whole.
struct TwoUnits {
    folder: tempfile::TempDir,
    program: PathBuf,
    addresses: Vec<u64>,
    expected: String,
}

impl TwoUnits {
    fn build(options: &[&str]) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path();
        std::fs::write(at.join("first.c"), FIRST).unwrap();
        std::fs::write(at.join("second.c"), SECOND).unwrap();
        let build = |name: &str, more: &[&str]| {
            for unit in ["first", "second"] {
                let (source, object) = (format!("{unit}.c"), format!("{unit}.o"));
                let args = [options, more, &["-c", &source, "-o", &object]].concat();
                run("cc", &args, at)?;
            }
            run("cc", &["first.o", "second.o", "-o", name], at)?;
            Some(at.join(name))
        };
        let whole = build("whole", &[])?;
        let program = build("program", &["-gsplit-dwarf"])?;
        let functions = table(&whole);
        assert_eq!(table(&program).functions(), functions.functions());
        let addresses: Vec<u64> = functions
            .functions()
            .iter()
            .filter(|function| function.name == "main" || function.name.contains("other"))
            .flat_map(|function| function.start..function.end())
            .collect();
        let expected = ours(&mut info(&whole, None), &addresses);
        for inlined in ["deep", "middle", "nested"] {
            assert!(expected.contains(inlined), "{inlined} is inlined");
        }
        Some(Self {
            folder,
            program,
            addresses,
            expected,
        })
    }

    /// Frames of the split program and what was refused.
    fn frames(&self, package: Option<&str>) -> (String, Vec<String>) {
        let package = package.map(|name| self.folder.path().join(name));
        let mut info = info(&self.program, package.as_deref());
        let frames = ours(&mut info, &self.addresses);
        (frames, info.split_refusals().0.to_vec())
    }

    fn remove_split_files(&self) {
        for name in ["first.dwo", "second.dwo"] {
            std::fs::remove_file(self.folder.path().join(name)).unwrap();
        }
    }
}

#[test]
fn inlined_functions_of_packages_are_those_of_whole_programs() {
    for options in [
        &["-O2", "-g", "-gdwarf-4"][..],
        &["-O2", "-g", "-gdwarf-5"],
        &["-O1", "-g3", "-gdwarf-4"],
        &["-O1", "-g3", "-gdwarf-5"],
        &["-O2", "-g", "-gdwarf-4", "-x", "c++"],
        &["-O2", "-g", "-gdwarf-5", "-x", "c++"],
    ] {
        let Some(built) = TwoUnits::build(options) else {
            continue;
        };
        let what = options.join(" ");
        let of_files = built.frames(None);
        assert_eq!(of_files, (built.expected.clone(), vec![]), "{what}, files");
        let folder = built.folder.path();
        let mut packages = Vec::new();
        if what.contains("-5") {
            // Versions of the packers that are in use do not end at some programs of this version.
            let splits = ["first.dwo", "second.dwo"];
            packages.extend(packed(folder, &splits, "ours").map(|()| "ours"));
        } else {
            for packer in ["dwp", "llvm-dwp"] {
                let args = ["-e", "program", "-o", packer];
                packages.extend(run(packer, &args, folder).map(|_| packer));
            }
        }
        built.remove_split_files();
        for package in packages {
            let packed = built.frames(Some(package));
            assert_eq!(
                packed,
                (built.expected.clone(), vec![]),
                "{what}, {package}"
            );
        }
    }
}

#[test]
fn a_unit_that_the_package_lacks_is_taken_from_its_file() {
    let Some(built) = TwoUnits::build(&["-O2", "-g", "-gdwarf-5"]) else {
        return;
    };
    if packed(built.folder.path(), &["first.dwo"], "first.dwp").is_none() {
        return;
    }
    std::fs::remove_file(built.folder.path().join("first.dwo")).unwrap();
    let found = built.frames(Some("first.dwp"));
    assert_eq!(found, (built.expected.clone(), vec![]));
}

#[test]
fn a_good_file_is_used_where_the_package_is_damaged() {
    let Some(built) = TwoUnits::build(&["-O2", "-g", "-gdwarf-5"]) else {
        return;
    };
    let at = built.folder.path();
    if packed(at, &["first.dwo"], "good.dwp").is_none() {
        return;
    }
    // Section, and from which part of it on its bytes are wrong or missing.
    let damages = [
        ("cu_index", 0, "not the version"),
        ("cu_index", 3, "not the sizes"),
        ("info.dwo", 0, "not the header"),
        ("info.dwo", 2, "not the later entries"),
        ("abbrev.dwo", 0, "not the first"),
        ("abbrev.dwo", 2, "not the later ones"),
        ("rnglists.dwo", 2, "not the lists"),
    ];
    let mut packages = Vec::new();
    for (section_name, quarters, what) in damages {
        let name = format!(".debug_{section_name}");
        let bytes = section(at, "good.dwp", &name);
        let from = bytes.len() * quarters / 4;
        let flipped = [&bytes[..from], &vec![0xff; bytes.len() - from]].concat();
        for (kind, bytes) in [("cut", &bytes[..from]), ("flipped", &flipped)] {
            if bytes.is_empty() {
                continue;
            }
            std::fs::write(at.join("bad.bytes"), bytes).unwrap();
            let package = format!("{section_name}.{quarters}.{kind}.dwp");
            let update = format!("--update-section={name}=bad.bytes");
            run("objcopy", &[&update, "good.dwp", &package], at).unwrap();
            packages.push((package, what));
        }
    }
    for (package, what) in &packages {
        let found = built.frames(Some(package));
        assert_eq!(found, (built.expected.clone(), vec![]), "{package}: {what}");
    }
    std::fs::remove_file(at.join("first.dwo")).unwrap();
    for (package, what) in &packages {
        let mut info = info(&built.program, Some(&at.join(package)));
        let lines: usize = (built.addresses.iter())
            .map(|address| info.frames(*address).unwrap().len())
            .sum();
        assert!(lines >= built.addresses.len(), "{package}: lines are left");
        let refused = info.split_refusals().0;
        assert_eq!(refused.len(), 1, "{package}: {what}: {refused:?}");
        assert!(refused[0].contains("first.dwo"), "{package}: {refused:?}");
        assert!(
            refused[0].contains("in the package"),
            "{package}: {refused:?}"
        );
    }
}
