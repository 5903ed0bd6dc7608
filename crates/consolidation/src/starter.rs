//! A thread that starts programs in namespaces, and lives as long as they do.
//!
//! The kernel kills a program when the thread that started it ends. A namespace is entered by a thread, so the thread that starts a program in
//! one must not be a passing one.

use baremark_networks::Node;
use baremark_sys::confine::{self, Held, Limits};
use std::io;
use std::process::{Child, Command};
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread::{self, JoinHandle};

/// SIGKILL.
const KILL: i32 = 9;

struct Order {
    node: Arc<Node>,
    command: Command,
    limits: Limits,
    answer: Sender<io::Result<(Child, Held)>>,
}

/// Starts programs; they are killed when it is dropped.
pub(crate) struct Starter {
    orders: Option<Sender<Order>>,
    thread: Option<JoinHandle<()>>,
}

impl Starter {
    pub(crate) fn new() -> io::Result<Starter> {
        let (orders, waiting) = channel::<Order>();
        let work = move || {
            for Order { node, mut command, limits, answer } in waiting {
                let mut start = || {
                    node.namespace.enter().map_err(io::Error::other)?;
                    let held = confine::hold(&mut command, &limits, KILL)?;
                    Ok((command.spawn()?, held))
                };
                // Whoever asked waits for the answer.
                drop(answer.send(start()));
            }
        };
        let thread = thread::Builder::new().name("starter".to_owned()).spawn(work)?;
        Ok(Starter { orders: Some(orders), thread: Some(thread) })
    }

    /// Starts a program in the namespace of a node.
    ///
    /// # Errors
    /// What entering the namespace or starting it gives.
    pub(crate) fn start(&self, node: &Arc<Node>, command: Command, limits: &Limits) -> io::Result<(Child, Held)> {
        let ended = || io::Error::other("the thread that starts programs has ended");
        let (answer, answered) = channel();
        let order = Order { node: Arc::clone(node), command, limits: limits.clone(), answer };
        self.orders.as_ref().and_then(|orders| orders.send(order).ok()).ok_or_else(ended)?;
        answered.recv().unwrap_or_else(|_| Err(ended()))
    }
}

impl Drop for Starter {
    fn drop(&mut self) {
        self.orders = None;
        drop(self.thread.take().map(JoinHandle::join));
    }
}
