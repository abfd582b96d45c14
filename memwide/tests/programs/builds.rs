//! Builds of the programs that tell the truth, and what can be known of each.

use memwide_tests::programs::{
    Builder, C, CLANG, CLANG_CPP, CPP, GO, LLD, Language, RUST, Told, sources,
};
use std::path::PathBuf;

/// Which names a build leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Names {
    /// Functions and data.
    All,
    /// Functions, by the runtime's own table.
    Functions,
    /// None at all; then none must be made up.
    None,
}

/// What is done to a program after it is compiled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Then {
    Nothing,
    Strip,
    StripDebug,
    /// Debug file beside it, by its link.
    Link,
    /// Debug file in `.debug`, by its link.
    LinkHidden,
    /// Debug file by build id, all of it below a folder of its own.
    ById,
}

/// One build.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Build {
    pub(crate) name: &'static str,
    pub(crate) args: &'static [&'static str],
    pub(crate) then: Then,
    pub(crate) names: Names,
    pub(crate) lines: bool,
}

const fn build(
    name: &'static str,
    args: &'static [&'static str],
    then: Then,
    names: Names,
    lines: bool,
) -> Build {
    Build {
        name,
        args,
        then,
        names,
        lines,
    }
}

/// A language, its source, its builds.
#[derive(Debug)]
pub(crate) struct Table {
    pub(crate) language: Language,
    pub(crate) source: &'static str,
    pub(crate) builds: &'static [Build],
}

pub(crate) const OF_C: Table = Table {
    language: C,
    source: "truth.c",
    builds: &[
        build("debug", &["-g", "-O2"], Then::Nothing, Names::All, true),
        build("debug-O0", &["-g", "-O0"], Then::Nothing, Names::All, true),
        build(
            "dwarf4",
            &["-gdwarf-4", "-O2", "-gz"],
            Then::Nothing,
            Names::All,
            true,
        ),
        build(
            "no-pie",
            &["-g", "-O2", "-no-pie"],
            Then::Nothing,
            Names::All,
            true,
        ),
        build(
            "one-segment",
            &["-g", "-O2", "-Wl,-z,noseparate-code"],
            Then::Nothing,
            Names::All,
            true,
        ),
        build(
            "static",
            &["-g", "-O2", "-static"],
            Then::Nothing,
            Names::All,
            true,
        ),
        build(
            "static-pie",
            &["-g", "-O2", "-static-pie"],
            Then::Nothing,
            Names::All,
            true,
        ),
        build(
            "lto",
            &["-g", "-O2", "-flto"],
            Then::Nothing,
            Names::All,
            true,
        ),
        build(
            "no-build-id",
            &["-g", "-O2", "-Wl,--build-id=none"],
            Then::Nothing,
            Names::All,
            true,
        ),
        build("plain", &["-O2"], Then::Nothing, Names::All, false),
        build(
            "no-debug",
            &["-g", "-O2"],
            Then::StripDebug,
            Names::All,
            false,
        ),
        build("stripped", &["-g", "-O2"], Then::Strip, Names::None, false),
        build(
            "stripped-no-pie",
            &["-O2", "-no-pie"],
            Then::Strip,
            Names::None,
            false,
        ),
        build("linked", &["-g", "-O2"], Then::Link, Names::All, true),
        build(
            "linked-hidden",
            &["-g", "-O2", "-no-pie"],
            Then::LinkHidden,
            Names::All,
            true,
        ),
        build("by-id", &["-g", "-O2"], Then::ById, Names::All, true),
    ],
};

/// What the other linker lays out: segments that share pages of the file, more of them, and `.bss` behind a page of its own.
pub(crate) const OF_LLD: Table = Table {
    language: C,
    source: "truth.c",
    builds: &[
        build("lld", &["-g", "-O2", LLD], Then::Nothing, Names::All, true),
        build(
            "lld-no-pie",
            &["-O2", "-no-pie", LLD],
            Then::Nothing,
            Names::All,
            false,
        ),
        build(
            "lld-static",
            &["-g", "-O2", "-static", LLD],
            Then::Nothing,
            Names::All,
            true,
        ),
        build(
            "lld-stripped",
            &["-g", "-O2", LLD],
            Then::Strip,
            Names::None,
            false,
        ),
        build(
            "lld-linked",
            &["-g", "-O2", LLD],
            Then::Link,
            Names::All,
            true,
        ),
    ],
};

/// C by the other compiler.
pub(crate) const OF_CLANG: Table = Table {
    language: CLANG,
    source: "truth.c",
    builds: &[
        build("clang", &["-g", "-O2"], Then::Nothing, Names::All, true),
        build("clang-O0", &["-g", "-O0"], Then::Nothing, Names::All, true),
        build(
            "clang-dwarf4",
            &["-gdwarf-4", "-O2"],
            Then::Nothing,
            Names::All,
            true,
        ),
        build(
            "clang-lld",
            &["-g", "-O2", LLD],
            Then::Nothing,
            Names::All,
            true,
        ),
        build(
            "clang-stripped",
            &["-g", "-O2"],
            Then::Strip,
            Names::None,
            false,
        ),
    ],
};

/// C++ by it.
pub(crate) const OF_CLANG_CPP: Table = Table {
    language: CLANG_CPP,
    source: "truth.cpp",
    builds: &[
        build("clang", &["-g", "-O2"], Then::Nothing, Names::All, true),
        build(
            "clang-lld",
            &["-g", "-O2", LLD],
            Then::Nothing,
            Names::All,
            true,
        ),
        build("clang-plain", &["-O2"], Then::Nothing, Names::All, false),
    ],
};

pub(crate) const OF_CPP: Table = Table {
    language: CPP,
    source: "truth.cpp",
    builds: &[
        build("debug", &["-g", "-O2"], Then::Nothing, Names::All, true),
        build("debug-O0", &["-g", "-O0"], Then::Nothing, Names::All, true),
        build(
            "plain",
            &["-O2", "-no-pie"],
            Then::Nothing,
            Names::All,
            false,
        ),
        build("stripped", &["-g", "-O2"], Then::Strip, Names::None, false),
        build(
            "linked",
            &["-g", "-O2", "-gz"],
            Then::Link,
            Names::All,
            true,
        ),
    ],
};

pub(crate) const OF_RUST: Table = Table {
    language: RUST,
    source: "truth.rs",
    builds: &[
        build("optimized", &["-O", "-g"], Then::Nothing, Names::All, true),
        build(
            "v0",
            &["-O", "-g", "-Csymbol-mangling-version=v0"],
            Then::Nothing,
            Names::All,
            true,
        ),
        build("debug", &["-g"], Then::Nothing, Names::All, true),
        build("plain", &["-O"], Then::Nothing, Names::All, false),
        build(
            "stripped",
            &["-O", "-Cstrip=symbols"],
            Then::Nothing,
            Names::None,
            false,
        ),
        build("linked", &["-O", "-g"], Then::Link, Names::All, true),
    ],
};

pub(crate) const OF_GO: Table = Table {
    language: GO,
    source: "truth.go",
    builds: &[
        build("debug", &[], Then::Nothing, Names::All, true),
        build(
            "unoptimized",
            &["-gcflags=-N -l"],
            Then::Nothing,
            Names::All,
            true,
        ),
        build(
            "no-debug",
            &["-ldflags=-w"],
            Then::Nothing,
            Names::All,
            false,
        ),
        build(
            "stripped",
            &["-ldflags=-s -w"],
            Then::Nothing,
            Names::Functions,
            false,
        ),
    ],
};

/// A build that ran.
#[derive(Debug)]
pub(crate) struct Built {
    pub(crate) build: Build,
    pub(crate) told: Told,
    /// Where its profile can be written.
    pub(crate) file: PathBuf,
    /// `--symfs`, where that is needed.
    pub(crate) symfs: Option<PathBuf>,
}

/// Builds and runs all of a table; what cannot be compiled here is left out, said loudly.
pub(crate) fn all(table: &Table) -> (Builder, Vec<Built>) {
    let builder = Builder::new(&sources());
    let mut built = Vec::new();
    for build in table.builds {
        let name = build.name;
        let Some(program) = builder.compile(table.language, table.source, name, build.args) else {
            continue;
        };
        let symfs = finish(&builder, *build);
        let file = builder.path("mapped");
        built.push(Built {
            build: *build,
            told: Told::by(&program, &[file.to_str().unwrap()]),
            file: builder.path(&format!("{name}.data")),
            symfs,
        });
    }
    (builder, built)
}

fn finish(builder: &Builder, build: Build) -> Option<PathBuf> {
    let name = build.name;
    let debug = format!("{name}.debug");
    match build.then {
        Then::Nothing => {}
        Then::Strip => builder.tool("strip", &[name]),
        Then::StripDebug => builder.tool("strip", &["--strip-debug", name]),
        Then::Link | Then::LinkHidden | Then::ById => {
            builder.tool("objcopy", &["--only-keep-debug", name, &debug]);
            builder.tool("strip", &[name]);
            if build.then != Then::ById {
                let link = format!("--add-gnu-debuglink={debug}");
                builder.tool("objcopy", &[&link, name]);
            }
        }
    }
    if build.then == Then::LinkHidden {
        std::fs::create_dir_all(builder.path(".debug")).unwrap();
        std::fs::rename(builder.path(&debug), builder.path(".debug").join(&debug)).unwrap();
    }
    (build.then == Then::ById).then(|| {
        let root = builder.path("root");
        let id = builder.build_id(name);
        let by_id = root.join("usr/lib/debug/.build-id").join(&id[..2]);
        std::fs::create_dir_all(&by_id).unwrap();
        let to = by_id.join(format!("{}.debug", &id[2..]));
        std::fs::rename(builder.path(&debug), to).unwrap();
        let program = builder.path(name);
        let copy = root.join(program.strip_prefix("/").unwrap());
        std::fs::create_dir_all(copy.parent().unwrap()).unwrap();
        std::fs::copy(program, copy).unwrap();
        root
    })
}
