//! A thread that starts programs in namespaces, and lives as long as they do.
//!
//! The kernel ends a program when the thread that started it ends. A namespace is entered by a thread, so the thread that starts a program in
//! one must not be a passing one.

use baremark_networks::{Namespace, Node};
use baremark_sys::confine::{self, Held, Limits};
use std::io;
use std::process::{Child, Command};
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread::{self, JoinHandle};

struct Order {
    /// In whose namespace; that of whoever made the starter without one.
    node: Option<Arc<Node>>,
    command: Command,
    limits: Limits,
    at_death: i32,
    answer: Sender<io::Result<(Child, Held)>>,
}

/// Starts programs; they get their signal when it is dropped.
pub(crate) struct Starter {
    orders: Option<Sender<Order>>,
    thread: Option<JoinHandle<()>>,
}

impl Starter {
    pub(crate) fn new() -> io::Result<Starter> {
        let (orders, waiting) = channel::<Order>();
        let home = Namespace::current().map_err(io::Error::other)?;
        let work = move || {
            for Order { node, mut command, limits, at_death, answer } in waiting {
                let mut start = || {
                    node.as_ref().map_or(&home, |node| &node.namespace).enter().map_err(io::Error::other)?;
                    let held = confine::hold(&mut command, &limits, at_death)?;
                    Ok((command.spawn()?, held))
                };
                // Whoever asked waits for the answer.
                drop(answer.send(start()));
            }
        };
        let thread = thread::Builder::new().name("starter".to_owned()).spawn(work)?;
        Ok(Starter { orders: Some(orders), thread: Some(thread) })
    }

    /// Starts a program in the namespace of a node, or of whoever made this. It gets the signal `at_death` when this process dies.
    ///
    /// # Errors
    /// What entering the namespace or starting it gives.
    pub(crate) fn start(
        &self,
        node: Option<&Arc<Node>>,
        command: Command,
        limits: &Limits,
        at_death: i32,
    ) -> io::Result<(Child, Held)> {
        let ended = || io::Error::other("the thread that starts programs has ended");
        let (answer, answered) = channel();
        let order = Order { node: node.cloned(), command, limits: limits.clone(), at_death, answer };
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
