//! gRPC and HTTP API, guarded SQL, exports; the web page.
