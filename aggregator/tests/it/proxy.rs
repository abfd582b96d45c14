//! A connection that can lose what the server says.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, copy};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::broadcast;

/// Passes bytes on between its address and a server.
pub(crate) struct Proxy {
    pub(crate) address: SocketAddr,
    deaf: Arc<AtomicBool>,
    cut: broadcast::Sender<()>,
}

impl Proxy {
    pub(crate) async fn start(server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let deaf = Arc::new(AtomicBool::new(false));
        let (cut, _) = broadcast::channel(1);
        let (of_task, cuts) = (Arc::clone(&deaf), cut.clone());
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let Ok(server) = TcpStream::connect(server).await else {
                    continue;
                };
                let (deaf, mut cut) = (Arc::clone(&of_task), cuts.subscribe());
                tokio::spawn(async move {
                    tokio::select! {
                        () = pass(client, server, &deaf) => {}
                        _ = cut.recv() => {}
                    }
                });
            }
        });
        Self { address, deaf, cut }
    }

    /// For so long nothing of what the server says arrives; then the connections break.
    pub(crate) async fn lose_answers(&self, time: Duration) {
        self.deaf.store(true, Ordering::SeqCst);
        tokio::time::sleep(time).await;
        // No connection at all is fine, too.
        let _ = self.cut.send(());
        self.deaf.store(false, Ordering::SeqCst);
    }
}

async fn pass(client: TcpStream, server: TcpStream, deaf: &AtomicBool) {
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    let there = copy(&mut from_client, &mut to_server);
    let back = async {
        let mut buffer = vec![0; 1 << 16];
        while let Ok(size @ 1..) = from_server.read(&mut buffer).await {
            let lost = deaf.load(Ordering::SeqCst);
            if !lost && to_client.write_all(&buffer[..size]).await.is_err() {
                return;
            }
        }
    };
    tokio::select! {
        _ = there => {}
        () = back => {}
    }
}
