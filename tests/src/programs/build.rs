//! Compilers, and what is done to programs after them.

use std::path::{Path, PathBuf};
use std::process::Command;

/// A compiler, and how it is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Language {
    /// What it is called.
    pub compiler: &'static str,
    first: &'static [&'static str],
    last: &'static [&'static str],
}

/// C.
pub const C: Language = Language {
    compiler: "cc",
    first: &["-pthread"],
    last: &["-ldl"],
};
/// C++.
pub const CPP: Language = Language {
    compiler: "c++",
    first: &["-pthread", "-std=c++17"],
    last: &["-ldl"],
};
/// C by the other compiler.
pub const CLANG: Language = Language {
    compiler: "clang",
    ..C
};
/// C++ by it.
pub const CLANG_CPP: Language = Language {
    compiler: "clang++",
    ..CPP
};
/// Links with lld, of LLVM or of Rust's compiler.
pub const LLD: &str = "-fuse-ld=lld";

/// Rust, without cargo.
pub const RUST: Language = Language {
    compiler: "rustc",
    first: &["--edition=2021", "-Awarnings"],
    last: &[],
};
/// Go, without modules from anywhere.
pub const GO: Language = Language {
    compiler: "go",
    first: &["build"],
    last: &[],
};

/// Where Rust's compiler keeps its lld, if it brings one: the compiler looks there first.
fn lld_of_rust() -> Option<PathBuf> {
    let output = Command::new("rustc")
        .args(["--print", "target-libdir"])
        .output()
        .ok()?;
    let libraries = PathBuf::from(String::from_utf8(output.stdout).ok()?.trim());
    let folder = libraries.parent()?.join("bin/gcc-ld");
    folder.join("ld.lld").is_file().then_some(folder)
}

/// A folder in which programs are built.
#[derive(Debug)]
pub struct Builder {
    folder: PathBuf,
    /// Kept until the builder is dropped.
    _own: Option<tempfile::TempDir>,
}

impl Builder {
    /// A folder of its own, with these files in it.
    pub fn new(files: &[(&str, &str)]) -> Self {
        let own = tempfile::tempdir().unwrap();
        let folder = Self::within(own.path(), files).folder;
        Self {
            folder,
            _own: Some(own),
        }
    }

    /// A folder that is there, with these files in it too.
    pub fn within(folder: &Path, files: &[(&str, &str)]) -> Self {
        for (name, text) in files {
            std::fs::write(folder.join(name), text).unwrap();
        }
        Self {
            folder: folder.to_owned(),
            _own: None,
        }
    }

    /// Where it is.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// A file in it.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder().join(name)
    }

    /// Compiles a source file of the folder into a program of that name; `None`, said loudly, where there is no such compiler,
    /// or nothing to link with statically.
    pub fn compile(
        &self,
        language: Language,
        source: &str,
        name: &str,
        args: &[&str],
    ) -> Option<PathBuf> {
        let mut command = Command::new(language.compiler);
        if args.contains(&LLD) {
            command.args(lld_of_rust().map(|folder| format!("-B{}", folder.display())));
        }
        command
            .current_dir(self.folder())
            .env("GOCACHE", self.path(".go"))
            .env("GOTOOLCHAIN", "local")
            .env("GO111MODULE", "off")
            .env("GOFLAGS", "")
            .env("CGO_ENABLED", "0")
            .args(language.first)
            .args(args)
            .args(["-o", name])
            .arg(source)
            .args(language.last);
        let Ok(output) = command.output() else {
            eprintln!("skipped: there is no compiler `{}`", language.compiler);
            return None;
        };
        let said = String::from_utf8_lossy(&output.stderr);
        let is_static = args.iter().any(|arg| arg.starts_with("-static"));
        let lacks_linker = args.contains(&LLD)
            && (said.contains("cannot find") || said.contains("invalid linker name"));
        if lacks_linker || (is_static && said.contains("cannot find")) {
            eprintln!("skipped: {} {args:?}: {said}", language.compiler);
            return None;
        }
        assert!(
            output.status.success(),
            "{} {args:?} {source}: {said}",
            language.compiler
        );
        Some(self.path(name))
    }

    /// Runs a tool of binutils in the folder, which must end well.
    #[track_caller]
    pub fn tool(&self, name: &str, args: &[&str]) {
        let output = Command::new(name)
            .current_dir(self.folder())
            .args(args)
            .output()
            .unwrap_or_else(|error| panic!("{name} comes with the compiler: {error}"));
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{name} {args:?}: {said}");
    }

    /// The build id of a program, in hexadecimal digits.
    pub fn build_id(&self, name: &str) -> String {
        let bytes = std::fs::read(self.path(name)).unwrap();
        let id = memwide_objects::ObjectId::of_elf(&bytes).unwrap();
        let digits = id.as_bytes().iter().map(|byte| format!("{byte:02x}"));
        digits.collect()
    }
}
