//! The dlopen binding of `libchdb.so`: the one place of this package with `unsafe`.
//!
//! The C interface as used here (opaque structs, all strings with explicit lengths unless `CStr`):
//!
//! ```c
//! chdb_connection *chdb_connect(int argc, char **argv);       // pointer TO the handle; NULL without a reason
//! void             chdb_close_conn(chdb_connection *conn);     // takes the outer pointer
//! chdb_result     *chdb_query_with_params_n(chdb_connection, query, n, format, n, names, lens, values, lens, count);
//! chdb_result     *chdb_stream_query_with_params_n(/* the same */);
//! chdb_result     *chdb_stream_fetch_result(chdb_connection, chdb_result *stream);   // empty buffer = end
//! chdb_insert_stream chdb_stream_insert_n(chdb_connection, query, n, format, n);     // never NULL
//! ```
//!
//! What its users rely on, and this module upholds: a connection is used by one thread at a time and runs one
//! statement at a time (streams borrow it mutably); every result, stream and insert is freed once, on every path; the
//! library is never unloaded, because its threads outlive every connection.
#![expect(
    unsafe_code,
    reason = "the engine is a C library that is loaded at run time"
)]

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::path::{Path, PathBuf};
use std::ptr::NonNull;

use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};

/// Why the engine library or a connection to it is not there.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// The library cannot be opened.
    #[error("engine library {path} cannot be loaded; fetch it again with `make tools` or set MEMWIDE_ENGINE", path = path.display())]
    Open {
        /// Path that was tried.
        path: PathBuf,
        /// What the loader says.
        #[source]
        source: libloading::Error,
    },
    /// The library is not the engine, or of another version.
    #[error("engine library {path} lacks `{symbol}`; fetch it again with `make tools` or set MEMWIDE_ENGINE", path = path.display())]
    Symbol {
        /// Path that was tried.
        path: PathBuf,
        /// Name of the missing function.
        symbol: &'static str,
        /// What the loader says.
        #[source]
        source: libloading::Error,
    },
    /// The engine does not say why; its own lines on stderr do.
    #[error(
        "the engine refused to open its folder (in use by another process, or damaged; see the engine's messages)"
    )]
    Connect,
    /// An argument of a connection holds a NUL byte.
    #[error("engine argument `{0}` holds a NUL byte")]
    Argument(String),
}

type Handle = *mut c_void;
type QueryWithParams = unsafe extern "C" fn(
    Handle,
    *const c_char,
    usize,
    *const c_char,
    usize,
    *const *const c_char,
    *const usize,
    *const *const c_char,
    *const usize,
    usize,
) -> Handle;

macro_rules! library {
    ($($field:ident: $type:ty = $symbol:literal),* $(,)?) => {
        /// The functions of the loaded library.
        #[derive(Debug)]
        struct Api { $($field: $type),* }

        impl Api {
            fn load(path: &Path) -> Result<Self, LoadError> {
                // SAFETY: loading runs the library's initializers. It is the file the operator named or `make tools`
                // verified by checksum; nothing else of this process depends on what they do.
                let library = unsafe { Library::open(Some(path), RTLD_NOW | RTLD_LOCAL) }
                    .map_err(|source| LoadError::Open { path: path.into(), source })?;
                // The engine's threads live until the process ends: its code must stay mapped.
                let library = Box::leak(Box::new(library));
                Ok(Self { $($field: {
                    // SAFETY: the type is the function's C signature, as listed at the head of this file, and the
                    // library is leaked, so the pointer stays valid.
                    *unsafe { library.get::<$type>($symbol.as_bytes()) }.map_err(|source| LoadError::Symbol {
                        path: path.into(), symbol: $symbol, source,
                    })?
                }),* })
            }
        }
    };
}

library! {
    connect: unsafe extern "C" fn(c_int, *mut *mut c_char) -> *mut Handle = "chdb_connect",
    close: unsafe extern "C" fn(*mut Handle) = "chdb_close_conn",
    query: QueryWithParams = "chdb_query_with_params_n",
    stream: QueryWithParams = "chdb_stream_query_with_params_n",
    fetch: unsafe extern "C" fn(Handle, Handle) -> Handle = "chdb_stream_fetch_result",
    cancel_stream: unsafe extern "C" fn(Handle, Handle) = "chdb_stream_cancel_query",
    free_result: unsafe extern "C" fn(Handle) = "chdb_destroy_query_result",
    insert: unsafe extern "C" fn(Handle, *const c_char, usize, *const c_char, usize) -> Handle = "chdb_stream_insert_n",
    append: unsafe extern "C" fn(Handle, *const c_void, usize) -> c_int = "chdb_stream_append",
    insert_done: unsafe extern "C" fn(Handle) -> Handle = "chdb_stream_done",
    cancel_insert: unsafe extern "C" fn(Handle) = "chdb_stream_cancel_insert",
    insert_error: unsafe extern "C" fn(Handle) -> *const c_char = "chdb_stream_insert_error",
    free_insert: unsafe extern "C" fn(Handle) = "chdb_destroy_insert_stream",
    buffer: unsafe extern "C" fn(Handle) -> *const u8 = "chdb_result_buffer",
    length: unsafe extern "C" fn(Handle) -> usize = "chdb_result_length",
    error: unsafe extern "C" fn(Handle) -> *const c_char = "chdb_result_error",
    rows_read: unsafe extern "C" fn(Handle) -> u64 = "chdb_result_storage_rows_read",
    bytes_read: unsafe extern "C" fn(Handle) -> u64 = "chdb_result_storage_bytes_read",
    rows_written: unsafe extern "C" fn(Handle) -> u64 = "chdb_result_rows_written",
    bytes_written: unsafe extern "C" fn(Handle) -> u64 = "chdb_result_bytes_written",
    signal_handlers: unsafe extern "C" fn(c_int) = "chdb_set_signal_handlers_enabled",
}

/// The loaded engine library.
#[derive(Debug, Clone, Copy)]
pub(super) struct Engine {
    api: &'static Api,
}

impl Engine {
    /// Loads `library` for the rest of the process, and keeps it from taking signals over.
    pub(super) fn load(library: &Path) -> Result<Self, LoadError> {
        let api: &'static Api = Box::leak(Box::new(Api::load(library)?));
        // SAFETY: called before the first connection, as the library asks.
        unsafe { (api.signal_handlers)(0) };
        Ok(Self { api })
    }

    /// Opens a session. `arguments` are `--name=value`; the first session of the process starts the engine with them.
    pub(super) fn connect(self, arguments: &[String]) -> Result<Connection, LoadError> {
        let mut owned = vec![c"clickhouse".to_owned()];
        for argument in arguments {
            let argument = CString::new(argument.as_str())
                .map_err(|_| LoadError::Argument(argument.clone()))?;
            owned.push(argument);
        }
        let mut argv: Vec<*mut c_char> = owned.iter().map(|a| a.as_ptr().cast_mut()).collect();
        let argc = c_int::try_from(argv.len()).map_err(|_| LoadError::Connect)?;
        argv.push(std::ptr::null_mut());
        // SAFETY: argv has argc valid C strings and a NULL behind them, and outlives the call, which copies them.
        let outer = unsafe { (self.api.connect)(argc, argv.as_mut_ptr()) };
        let outer = NonNull::new(outer).ok_or(LoadError::Connect)?;
        // SAFETY: a non-NULL answer points to the session's handle.
        if unsafe { outer.as_ptr().read() }.is_null() {
            return Err(LoadError::Connect);
        }
        Ok(Connection {
            api: self.api,
            outer,
        })
    }
}

/// Ends the process at once, without exit handlers: those of the engine crash while its threads still run.
pub(super) fn exit_now(code: i32) -> ! {
    // SAFETY: `_exit` has no precondition and does not return.
    unsafe { libc::_exit(code) }
}

/// An answer of the engine in the format asked for; frees itself.
#[derive(Debug)]
pub(super) struct Answer {
    api: &'static Api,
    result: NonNull<c_void>,
}

// SAFETY: a result is a plain heap object that owns its buffer and refers to neither its connection nor a thread.
unsafe impl Send for Answer {}
// SAFETY: all methods only read.
unsafe impl Sync for Answer {}

impl Answer {
    /// Takes ownership of what a call returned, or its error message.
    fn new(api: &'static Api, result: Handle) -> Result<Self, String> {
        let Some(result) = NonNull::new(result) else {
            return Err(
                "Code: 1002. DB::Exception: the engine gave no answer (UNKNOWN_EXCEPTION)".into(),
            );
        };
        let answer = Self { api, result };
        // SAFETY: the result is live; its error is NULL or a C string it owns.
        match unsafe { message((api.error)(result.as_ptr())) } {
            Some(error) => Err(error),
            None => Ok(answer),
        }
    }

    pub(super) fn bytes(&self) -> &[u8] {
        // SAFETY: the result is live, and its buffer has `length` bytes until it is freed, which `self` outlives.
        unsafe {
            let length = (self.api.length)(self.result.as_ptr());
            let buffer = (self.api.buffer)(self.result.as_ptr());
            if buffer.is_null() || length == 0 {
                &[]
            } else {
                std::slice::from_raw_parts(buffer, length)
            }
        }
    }

    /// Rows and bytes read from tables, then rows and bytes written.
    pub(super) fn progress(&self) -> [u64; 4] {
        let result = self.result.as_ptr();
        // SAFETY: the result is live; these read counters from it.
        unsafe {
            [
                (self.api.rows_read)(result),
                (self.api.bytes_read)(result),
                (self.api.rows_written)(result),
                (self.api.bytes_written)(result),
            ]
        }
    }
}

impl AsRef<[u8]> for Answer {
    fn as_ref(&self) -> &[u8] {
        self.bytes()
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        // SAFETY: `self` owns the result and nothing borrows from it any more.
        unsafe { (self.api.free_result)(self.result.as_ptr()) };
    }
}

/// One session of the engine.
#[derive(Debug)]
pub(super) struct Connection {
    api: &'static Api,
    outer: NonNull<Handle>,
}

// SAFETY: a session is not bound to the thread that opened it; `&mut self` keeps it to one thread at a time.
unsafe impl Send for Connection {}

/// Bound parameters of a query: name and value as text.
pub(super) type Params = [(String, String)];

impl Connection {
    fn handle(&self) -> Handle {
        // SAFETY: checked to be non-NULL when the session was opened, and valid until it is closed.
        unsafe { self.outer.as_ptr().read() }
    }

    fn start(
        &self,
        call: QueryWithParams,
        sql: &[u8],
        format: &str,
        params: &Params,
    ) -> Result<Answer, String> {
        let pointers =
            |text: fn(&(String, String)) -> &String| -> (Vec<*const c_char>, Vec<usize>) {
                params
                    .iter()
                    .map(text)
                    .map(|t| (t.as_ptr().cast(), t.len()))
                    .unzip()
            };
        let (names, name_lengths) = pointers(|p| &p.0);
        let (values, value_lengths) = pointers(|p| &p.1);
        // SAFETY: all pointers come with their lengths and outlive the call, which copies what it keeps.
        let result = unsafe {
            call(
                self.handle(),
                sql.as_ptr().cast(),
                sql.len(),
                format.as_ptr().cast(),
                format.len(),
                names.as_ptr(),
                name_lengths.as_ptr(),
                values.as_ptr(),
                value_lengths.as_ptr(),
                params.len(),
            )
        };
        Answer::new(self.api, result)
    }

    /// Runs one statement to its end.
    pub(super) fn query(
        &mut self,
        sql: &[u8],
        format: &str,
        params: &Params,
    ) -> Result<Answer, String> {
        self.start(self.api.query, sql, format, params)
    }

    /// Starts a SELECT whose answer comes in chunks of about 65,000 rows.
    pub(super) fn stream(
        &mut self,
        sql: &[u8],
        format: &str,
        params: &Params,
    ) -> Result<Stream<'_>, String> {
        let running = self.start(self.api.stream, sql, format, params)?;
        Ok(Stream {
            connection: self,
            running,
            ended: false,
        })
    }

    /// Starts an INSERT without a FORMAT clause; its data follows in `format`.
    pub(super) fn insert(&mut self, sql: &str, format: &str) -> Result<Insert<'_>, String> {
        // SAFETY: both strings come with their lengths and outlive the call.
        let rows = unsafe {
            (self.api.insert)(
                self.handle(),
                sql.as_ptr().cast(),
                sql.len(),
                format.as_ptr().cast(),
                format.len(),
            )
        };
        let Some(rows) = NonNull::new(rows) else {
            return Err(
                "Code: 1002. DB::Exception: the engine opened no insert (UNKNOWN_EXCEPTION)".into(),
            );
        };
        let insert = Insert {
            connection: self,
            rows,
            done: false,
        };
        match insert.error() {
            Some(error) => Err(error),
            None => Ok(insert),
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        // SAFETY: the session is open, and streams and inserts, which borrow it, are gone.
        unsafe { (self.api.close)(self.outer.as_ptr()) };
    }
}

/// A running SELECT; dropping it cancels what is left.
#[derive(Debug)]
pub(super) struct Stream<'a> {
    connection: &'a mut Connection,
    running: Answer,
    ended: bool,
}

impl Stream<'_> {
    /// The next chunk, a whole document of the format; `None` at the end.
    pub(super) fn next(&mut self) -> Result<Option<Answer>, String> {
        if self.ended {
            return Ok(None);
        }
        let api = self.connection.api;
        // SAFETY: connection and stream are live and belong together.
        let chunk = unsafe { (api.fetch)(self.connection.handle(), self.running.result.as_ptr()) };
        let chunk = Answer::new(api, chunk).inspect_err(|_| self.ended = true)?;
        self.ended = chunk.bytes().is_empty();
        Ok((!self.ended).then_some(chunk))
    }
}

impl Drop for Stream<'_> {
    fn drop(&mut self) {
        if !self.ended {
            // SAFETY: connection and stream are live and belong together.
            unsafe {
                (self.connection.api.cancel_stream)(
                    self.connection.handle(),
                    self.running.result.as_ptr(),
                );
            }
        }
    }
}

/// A running INSERT; dropping it before [`Insert::finish`] commits nothing of the current block.
#[derive(Debug)]
pub(super) struct Insert<'a> {
    connection: &'a mut Connection,
    /// The library's insert stream.
    rows: NonNull<c_void>,
    done: bool,
}

impl Insert<'_> {
    fn error(&self) -> Option<String> {
        // SAFETY: the stream is live; its error is NULL or a C string it owns.
        unsafe { message((self.connection.api.insert_error)(self.rows.as_ptr())) }
    }

    /// Hands data over; may block. An error may also show only in [`Insert::finish`].
    pub(super) fn append(&mut self, data: &[u8]) -> Result<(), String> {
        // SAFETY: the stream is live, and the call copies `data`.
        let state = unsafe {
            (self.connection.api.append)(self.rows.as_ptr(), data.as_ptr().cast(), data.len())
        };
        if state == 0 {
            Ok(())
        } else {
            Err(self.error().unwrap_or_default())
        }
    }

    /// Commits.
    pub(super) fn finish(mut self) -> Result<Answer, String> {
        self.done = true;
        // SAFETY: the stream is live and not done yet.
        let result = unsafe { (self.connection.api.insert_done)(self.rows.as_ptr()) };
        Answer::new(self.connection.api, result)
    }
}

impl Drop for Insert<'_> {
    fn drop(&mut self) {
        // SAFETY: the stream is live, cancelled only if it was not ended, and freed once.
        unsafe {
            if !self.done {
                (self.connection.api.cancel_insert)(self.rows.as_ptr());
            }
            (self.connection.api.free_insert)(self.rows.as_ptr());
        }
    }
}

/// The text of a C string, `None` if it is NULL or empty.
///
/// # Safety
/// `text` is NULL or a C string that lives during the call.
unsafe fn message(text: *const c_char) -> Option<String> {
    if text.is_null() {
        return None;
    }
    // SAFETY: promised by the caller.
    let text = unsafe { CStr::from_ptr(text) }.to_string_lossy();
    (!text.is_empty()).then(|| text.into_owned())
}
