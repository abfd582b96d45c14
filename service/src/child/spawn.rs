//! The thread that spawns, and what runs between fork and exec.
#![expect(
    unsafe_code,
    reason = "code between fork and exec is outside what Rust can check"
)]

use std::io;
use std::process::Stdio;
use std::sync::OnceLock;
use std::sync::mpsc::{SyncSender, sync_channel};

use rustix::process::{Signal, getpid, getppid, set_parent_process_death_signal};
use tokio::process::{Child, Command};
use tokio::runtime::Handle;
use tokio::sync::oneshot;

use super::Spec;

/// Spawns that may wait for the thread; a process has two or three children.
const QUEUE_SPAWNS: usize = 16;

struct Order {
    spec: Spec,
    runtime: Handle,
    reply: oneshot::Sender<io::Result<Child>>,
}

/// Starts `spec` from the thread that lives as long as the process.
pub(super) async fn on_the_spawning_thread(spec: Spec) -> io::Result<Child> {
    let (reply, started) = oneshot::channel();
    let runtime = Handle::current();
    let order = Order {
        spec,
        runtime,
        reply,
    };
    let gone = || io::Error::other("the spawning thread is gone");
    thread()?.try_send(order).map_err(|_| gone())?;
    started.await.map_err(|_| gone())?
}

fn thread() -> io::Result<&'static SyncSender<Order>> {
    static ORDERS: OnceLock<SyncSender<Order>> = OnceLock::new();
    if let Some(orders) = ORDERS.get() {
        return Ok(orders);
    }
    let (orders, inbox) = sync_channel::<Order>(QUEUE_SPAWNS);
    std::thread::Builder::new()
        .name("child-spawner".to_owned())
        .spawn(move || {
            for order in inbox {
                let _inside = order.runtime.enter(); // tokio watches the child from there
                // A caller that has given up drops the child, which kills it.
                drop(order.reply.send(start(&order.spec)));
            }
        })?;
    // When two callers come first at once, one thread gets all orders and the other ends idle.
    Ok(ORDERS.get_or_init(|| orders))
}

fn start(spec: &Spec) -> io::Result<Child> {
    let parent = getpid();
    let mut command = Command::new(&spec.program);
    command
        .args(&spec.args)
        .envs(spec.env.iter().map(|(name, value)| (name, value)))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true);
    if let Some(dir) = &spec.dir {
        command.current_dir(dir);
    }
    // SAFETY: the closure runs in the child between fork and exec, where only async-signal-safe
    // work is allowed. It makes two direct system calls (prctl, getppid), takes no lock and
    // allocates nothing: both error values are made from a number.
    unsafe {
        command.pre_exec(move || {
            set_parent_process_death_signal(Some(Signal::KILL))?;
            // The parent may have died between the fork and the line above: then no signal comes.
            if getppid() == Some(parent) {
                Ok(())
            } else {
                Err(io::Error::from(rustix::io::Errno::SRCH))
            }
        });
    }
    command.spawn()
}
