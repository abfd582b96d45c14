use super::*;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

fn loopback() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 0))
}

async fn get(address: SocketAddr, path: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    let status = answer.split(' ').nth(1).unwrap().parse().unwrap();
    let (_, body) = answer.split_once("\r\n\r\n").unwrap();
    (status, body.to_owned())
}

#[tokio::test]
async fn the_endpoints_tell_health_readiness_and_version() {
    let readiness = Readiness::new();
    let nats = readiness.expect("nats", "not connected");
    let admin = Admin {
        service: "decoder",
        registry: Arc::new(Registry::new()),
        readiness,
        config: serde_json::json!({"listen": "127.0.0.1:0"}),
    };
    let listener = bind(loopback(), "--listen").await.unwrap();
    let address = listener.local_addr().unwrap();
    let stop = CancellationToken::new();
    let server = serve(listener, admin.router(), stop.clone());
    let client = async {
        assert_eq!(get(address, "/healthz").await.0, 200);
        let not_ready = get(address, "/readyz").await;
        assert_eq!(not_ready, (503, "nats: not connected\n".to_owned()));
        nats.holds();
        assert_eq!(get(address, "/readyz").await, (200, "ok\n".to_owned()));
        nats.fails("connection lost");
        assert_eq!(get(address, "/readyz").await.0, 503);
        let (status, version) = get(address, "/version").await;
        assert_eq!(status, 200);
        assert!(version.contains(BUILD.version), "{version}");
        assert!(version.contains("decoder"), "{version}");
        let (_, config) = get(address, "/config").await;
        assert_eq!(config, r#"{"listen":"127.0.0.1:0"}"#);
        let (status, metrics) = get(address, "/metrics").await;
        assert_eq!(status, 200);
        assert!(metrics.contains("process_resident_memory_bytes"));
        stop.cancel();
    };
    let (served, ()) = tokio::join!(server, client);
    served.unwrap();
}

#[tokio::test]
async fn a_taken_port_names_its_holder_and_the_remedy() {
    let held = bind(loopback(), "--listen").await.unwrap();
    let address = held.local_addr().unwrap();
    let text = bind(address, "--listen").await.unwrap_err().to_string();
    assert!(text.contains(&address.to_string()), "{text}");
    assert!(
        text.contains("choose another address with `--listen`"),
        "{text}"
    );
    let me = format!("(process {})", std::process::id());
    assert!(text.contains(&me), "{text}");
}

#[tokio::test]
async fn an_address_of_another_host_is_not_called_taken() {
    let elsewhere = SocketAddr::from(([192, 0, 2, 1], 0)); // documentation range, never local
    let failed = bind(elsewhere, "--listen").await.unwrap_err();
    assert!(matches!(failed, BindError::Other { .. }), "{failed:?}");
}
