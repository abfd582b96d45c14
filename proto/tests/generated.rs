//! The committed code under `src/gen` is what the `.proto` files say. `MEMWIDE_REWRITE=1` writes it anew.

use std::path::Path;

const FILES: [&str; 5] = [
    "v1/common.proto",
    "v1/collect.proto",
    "v1/access.proto",
    "v1/rollup.proto",
    "v1/query.proto",
];

#[test]
fn generated_code_is_current() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let fresh = tempfile::tempdir().unwrap();
    let set = protox::compile(FILES, [here]).expect("the proto files compile");
    tonic_prost_build::configure()
        .out_dir(fresh.path())
        .bytes(".memwide.v1.Section.data")
        .bytes(".memwide.v1.RowBlock.native_zstd")
        .bytes(".memwide.v1.SymbolChunk.data")
        .bytes(".memwide.v1.NamesPiece.data")
        .emit_rerun_if_changed(false)
        .compile_fds(set)
        .expect("code is generated");
    let new = std::fs::read_to_string(fresh.path().join("memwide.v1.rs")).unwrap();
    let path = here.join("src/gen/memwide.v1.rs");
    if std::env::var_os("MEMWIDE_REWRITE").is_some() {
        std::fs::write(&path, &new).unwrap();
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        new == committed,
        "src/gen/memwide.v1.rs differs from v1/*.proto: run `MEMWIDE_REWRITE=1 cargo test -p memwide-proto --test generated`"
    );
}
