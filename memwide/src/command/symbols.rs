//! `memwide symbols`: names that are brought, and which are missing.

use super::answer;
use super::import::ingest_endpoint;
use super::missing::by_reason;
use crate::cli::{Format, SymbolsAddArgs, SymbolsCommand, SymbolsListArgs};
use crate::client::Client;
use crate::failure::Failure;
use crate::output::{Table, grouped, say};
use anyhow::Context as _;
use memwide_decoder::edge::Places;
use memwide_objects::{
    DebugError, DebugInfo, DebugSections, IdKind, Limits, LinkedKernel, ObjectId, RANK_DWARF,
    SymbolTable, module_in, read_image, unpack_module,
};
use memwide_proto::v1::mapping_identity::Kind;
use memwide_proto::v1::names_client::NamesClient;
use memwide_proto::{limits, v1};
use memwide_service::clock;
use serde_json::{Value, json};
use std::fs::File;
use std::io::{Cursor, Read as _, Write as _};
use std::path::Path;
use xxhash_rust::xxh3::xxh3_64;

/// Largest file read, in bytes.
const FILE_BYTES_MAX: u64 = 8 << 30;

/// How good names are, by rank.
const RANKS: [&str; RANK_DWARF as usize + 1] = ["none", "dynsym", "symtab", "debug", "dwarf"];

fn rank_name(rank: u32) -> &'static str {
    RANKS.get(rank as usize).copied().unwrap_or("better")
}

pub(crate) fn run(command: &SymbolsCommand) -> Result<(), Failure> {
    match command {
        SymbolsCommand::Add(args) => add(args),
        SymbolsCommand::List(args) => list(args),
    }
}

fn add(args: &SymbolsAddArgs) -> Result<(), Failure> {
    // All are read before the first is sent: a wrong name in the list stops the rest.
    let read = |path| table_of(path, !args.no_lines).map_err(Failure::bad_input);
    let tables: Vec<_> = args
        .files
        .iter()
        .map(|path| Ok((path, read(path)?)))
        .collect::<Result<_, Failure>>()?;
    let client = Client::new(&args.server.server);
    let endpoint = ingest_endpoint(&client, &args.server.server)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    for (path, (identity, table)) in tables {
        let id = hex(&identity.id);
        let added = runtime.block_on(bring(&endpoint, identity, &table))?;
        let mut out = std::io::stdout().lock();
        let (rank, before) = (rank_name(added.rank), rank_name(added.rank_before));
        let path = path.display();
        if added.rank <= added.rank_before {
            writeln!(
                out,
                "{path}: build id {id}: nothing new, the server has names of rank {before} for it"
            )?;
            continue;
        }
        writeln!(
            out,
            "{path}: build id {id}: {} functions, names of rank {rank} (before: {before})",
            grouped(added.functions)
        )?;
        if !added.kept {
            writeln!(
                out,
                "  what is stored is named; what comes may not be: this decoder keeps no tables (symbol_dir), or has no room (symbol_bytes_max)"
            )?;
        }
    }
    Ok(())
}

/// Files of modules are packed; all others are read where they lie.
enum Content {
    Plain(File),
    Unpacked(Cursor<Vec<u8>>),
}

impl Content {
    fn open(path: &Path) -> anyhow::Result<Self> {
        let mut file = File::open(path)?;
        let name = path.to_string_lossy();
        if ![".xz", ".zst", ".gz"].iter().any(|end| name.ends_with(end)) {
            return Ok(Self::Plain(file));
        }
        let mut packed = Vec::new();
        file.read_to_end(&mut packed)?;
        let plain = unpack_module(&packed).context("it does not unpack")?;
        Ok(Self::Unpacked(Cursor::new(plain.into_owned())))
    }

    /// What of it tells of symbols, and its length.
    fn image(&mut self) -> anyhow::Result<(Vec<u8>, u64)> {
        Ok(match self {
            Self::Plain(file) => {
                let len = file.metadata()?.len();
                (read_image(file, usize::try_from(len)?)?, len)
            }
            Self::Unpacked(bytes) => (bytes.get_ref().clone(), bytes.get_ref().len() as u64),
        })
    }

    fn sections(&mut self, len: u64) -> Result<DebugSections, DebugError> {
        match self {
            Self::Plain(file) => DebugSections::read(file, len),
            Self::Unpacked(bytes) => DebugSections::read(bytes, len),
        }
    }
}

/// The names in a file, and what it is.
fn table_of(path: &Path, lines: bool) -> anyhow::Result<(v1::MappingIdentity, SymbolTable)> {
    let shown = path.display();
    let meta = std::fs::metadata(path).with_context(|| format!("cannot read {shown}"))?;
    anyhow::ensure!(
        meta.is_file() && meta.len() <= FILE_BYTES_MAX,
        "{shown} is no file, or has more than {FILE_BYTES_MAX} bytes"
    );
    let cannot = || format!("cannot read {shown}");
    let mut file = Content::open(path).with_context(cannot)?;
    let (image, len) = file.image().with_context(cannot)?;
    let table = SymbolTable::from_elf(&image, &Limits::default());
    let mut table = table.with_context(|| format!("{shown} has no symbols to bring"))?;
    let id = match ObjectId::of_elf(&image) {
        Some(id) => id,
        None if table.holds_code() => ObjectId::of_file(&std::fs::read(path)?),
        None => {
            anyhow::bail!("{shown} has no build id: nobody can tell which program it belongs to")
        }
    };
    anyhow::ensure!(
        table.rank() > 0,
        "{shown} has no names: it is stripped; bring its debug file, or the file before it was stripped"
    );
    if lines && let Ok(sections) = file.sections(len) {
        let shared = Places::default().shared(path, &sections);
        let shared = shared.and_then(|shared| {
            let said = |why: &String| say(&format!("{shown}: {why}; paths may be cut"));
            shared.inspect_err(said).ok()
        });
        match DebugInfo::new(sections, shared) {
            Ok(mut debug) => table.add_source(&mut debug),
            Err(DebugError::None) => {}
            Err(error) => say(&format!("{shown}: without lines of the source: {error}")),
        }
    }
    let mut kind = match id.kind() {
        IdKind::Gnu => Kind::BuildId,
        IdKind::Content => Kind::Content,
    };
    let mut name = path.to_string_lossy().into_owned();
    if let Some(module) = module_in(&image, &name) {
        (kind, name) = (Kind::Module, module);
    } else if let Ok(kernel) = LinkedKernel::of(&image, None) {
        kind = Kind::Kernel;
        table = table.relative_to(kernel.start());
    }
    let identity = v1::MappingIdentity {
        kind: kind.into(),
        id: id.as_bytes().to_vec(),
        path: name,
    };
    Ok((identity, table))
}

fn hex(bytes: &[u8]) -> String {
    bytes
        .iter()
        .fold(String::new(), |text, byte| text + &format!("{byte:02x}"))
}

async fn bring(
    endpoint: &str,
    identity: v1::MappingIdentity,
    table: &SymbolTable,
) -> anyhow::Result<v1::NamesAdded> {
    let bytes = table.encode();
    let mut first = Some(v1::NamesPiece {
        identity: Some(identity),
        total_bytes: bytes.len() as u64,
        data: prost_bytes(&[]),
        checksum: xxh3_64(&bytes),
    });
    let pieces = bytes.chunks(limits::SYMBOL_CHUNK_BYTES);
    let pieces: Vec<_> = pieces
        .map(|piece| v1::NamesPiece {
            data: prost_bytes(piece),
            ..first.take().unwrap_or_default()
        })
        .collect();
    let mut client = NamesClient::connect(endpoint.to_owned())
        .await
        .with_context(|| format!("no decoder answers at {endpoint}"))?;
    let added = client.add(tokio_stream::iter(pieces)).await;
    let added = added.map_err(|status| anyhow::anyhow!("{}", status.message()))?;
    Ok(added.into_inner())
}

fn prost_bytes(of: &[u8]) -> prost::bytes::Bytes {
    prost::bytes::Bytes::copy_from_slice(of)
}

/// Programs of the time range, those with the most samples without a name first.
const LIST: &str = "\
WITH known AS (
    SELECT mapping_id, max(rank) AS best, max(functions) AS starts, uniqExact(host) AS hosts,
        argMax(reason, (rank, last_seen)) AS why, argMax(remedy, (rank, last_seen)) AS help
    FROM symbols GROUP BY mapping_id
),
named AS (
    SELECT mapping_id, max(rank) AS best FROM functions_def GROUP BY mapping_id
),
of_function AS (
    SELECT function_id, any(mapping_id) AS mapping_id FROM functions_def GROUP BY function_id
),
hit AS (
    SELECT o.mapping_id AS mapping_id, sum(a.n) AS samples, sum(a.without) AS nameless
    FROM (
        SELECT function_id, count() AS n, countIf(function = '') AS without FROM accesses
        WHERE time >= toDateTime64({since}, 9, 'UTC') GROUP BY function_id
    ) AS a
    INNER JOIN of_function AS o ON o.function_id = a.function_id
    GROUP BY mapping_id
),
paths AS (
    SELECT mapping_id, argMax(path, last_seen) AS path, argMax(kind, last_seen) AS kind, argMax(build_id, last_seen) AS build_id
    FROM mappings GROUP BY mapping_id
)
SELECT p.path AS program, greatest(k.best, n.best) AS rank, h.samples AS samples, h.nameless AS nameless, k.hosts AS hosts,
    k.starts AS functions, p.kind AS kind, p.build_id AS build_id,
    if(n.best > k.best, '', k.why) AS why, if(n.best > k.best, '', k.help) AS remedy
FROM hit AS h
INNER JOIN paths AS p ON p.mapping_id = h.mapping_id
LEFT JOIN known AS k ON k.mapping_id = h.mapping_id
LEFT JOIN named AS n ON n.mapping_id = h.mapping_id
{where} ORDER BY nameless DESC, samples DESC, program LIMIT {limit}";

fn list(args: &SymbolsListArgs) -> Result<(), Failure> {
    let since = args.since.as_deref().unwrap_or("-1h");
    let range = memwide_query::ask::Range::parse(since, "", clock::unix_ns());
    let range = range.map_err(|wrong| {
        let wrong = anyhow::anyhow!("`{since}` is no time for --since; {}", wrong.remedy());
        Failure::usage(wrong)
    })?;
    let filter = if args.missing {
        "WHERE nameless > 0"
    } else {
        ""
    };
    let query = LIST
        .replace("{since}", &(range.since_ns / 1_000_000_000).to_string())
        .replace("{where}", filter)
        .replace("{limit}", &args.limit.to_string());
    let client = Client::new(&args.server.server);
    let body = json!({"query": query, "params": {}, "format": "json"});
    let mut table = answer::table(client.post("sql", &body).map_err(answer::failure)?);
    let at = table
        .columns
        .iter()
        .position(|column| column.name == "rank");
    for row in &mut table.rows {
        if let Some(cell) = at.and_then(|at| row.get_mut(at))
            && let Some(rank) = cell.as_u64()
        {
            *cell = Value::from(rank_name(u32::try_from(rank).unwrap_or(u32::MAX)));
        }
    }
    if args.format == Format::Table {
        table = with_reasons_below(table);
    }
    Ok(table.readable(args.format).print(args.format)?)
}

/// Reasons and remedies are sentences: a person reads them below the rows, each once.
fn with_reasons_below(mut table: Table) -> Table {
    let at = |name: &str| table.columns.iter().position(|column| column.name == name);
    let (Some(program), Some(why), Some(remedy)) = (at("program"), at("why"), at("remedy")) else {
        return table;
    };
    let cell = |row: &[Value], at: usize| -> String {
        let text = row.get(at).and_then(Value::as_str);
        text.unwrap_or_default().to_owned()
    };
    let rows = table.rows.iter();
    let told: Vec<[String; 3]> = rows
        .map(|row| [program, why, remedy].map(|at| cell(row, at)))
        .filter(|[_, why, _]| !why.is_empty())
        .collect();
    let told = told
        .iter()
        .map(|[program, why, remedy]| (&**program, &**why, &**remedy));
    let lines = by_reason(told).map(|(programs, why)| format!("{programs}: {why}"));
    table.notes.extend(lines.collect::<Vec<_>>());
    table.keep_columns(|name| name != "why" && name != "remedy");
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::Column;

    #[test]
    fn no_remedy_is_cut() {
        let remedy = "install the package with the debug information of this program, or bring it with memwide symbols add";
        let row =
            |program: &str| vec![program.into(), 5.into(), "no symbols".into(), remedy.into()];
        let columns = ["program", "samples", "why", "remedy"].map(|name| Column::new(name, ""));
        let table = with_reasons_below(Table {
            columns: columns.into(),
            rows: vec![row("/bin/a"), row("/bin/b")],
            ..Table::default()
        });
        assert_eq!(table.columns.len(), 2);
        assert_eq!(
            table.notes,
            [format!("/bin/a, /bin/b: no symbols; {remedy}")]
        );
    }

    #[test]
    fn what_cannot_be_brought_is_refused_with_a_remedy() {
        let folder = tempfile::tempdir().unwrap();
        let no_program = folder.path().join("text");
        std::fs::write(&no_program, b"no program").unwrap();
        let refused = |path: &Path| format!("{:#}", table_of(path, true).unwrap_err());
        assert!(refused(&no_program).contains("has no symbols to bring"));
        assert!(refused(folder.path()).contains("is no file"));
        assert!(refused(&folder.path().join("none")).contains("cannot read"));
    }

    #[test]
    fn this_program_has_names_with_lines() {
        let path = std::env::current_exe().unwrap();
        let (identity, table) = table_of(&path, false).unwrap();
        assert!(!identity.id.is_empty() && table.rank() == 2);
        assert!(!table.has_source());
    }
}
