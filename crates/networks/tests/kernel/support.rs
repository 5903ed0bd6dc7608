//! What the tests of networks share.

use baremark_journal::Journal;
use baremark_networks::pair::ADDRESSES;
use baremark_networks::{Namespace, Pair};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

pub fn journal(folder: &Path) -> Journal {
    Journal::open(folder.join("journal"), baremark_networks::kinds()).unwrap()
}

/// Whether networks can be made here; else the test is skipped and says so.
pub fn can() -> bool {
    match baremark_networks::Pair::new() {
        Ok(_) => true,
        Err(why) => {
            println!("skipped: {why}");
            false
        }
    }
}

/// Bytes per second from one namespace to an address of another, from before the connection to the last byte.
pub fn transfer(from: &Namespace, to: &Namespace, address: Ipv4Addr, bytes: usize) -> f64 {
    let listener = to.run(|| TcpListener::bind((address, 0)).unwrap()).unwrap();
    let port = listener.local_addr().unwrap().port();
    let began = Instant::now();
    thread::scope(|scope| {
        let taken = scope.spawn(move || {
            let mut stream = listener.accept().unwrap().0;
            let (mut buffer, mut taken) = (vec![0; 1 << 16], 0);
            while taken < bytes {
                taken += stream.read(&mut buffer).unwrap();
            }
            bytes as f64 / began.elapsed().as_secs_f64()
        });
        let to = SocketAddr::from((address, port));
        from.run(|| {
            TcpStream::connect_timeout(&to, Duration::from_secs(60)).unwrap().write_all(&vec![7; bytes]).unwrap()
        })
        .unwrap();
        taken.join().unwrap()
    })
}

/// The share of a limit in bits per second that a transfer between the ends of a pair reaches: longer than the burst by so much that it does not
/// matter.
pub fn share(pair: &Pair, (from, to): (usize, usize), bits: u64) -> f64 {
    8.0 * transfer(&pair.ends[from], &pair.ends[to], ADDRESSES[to], 10 << 20) / bits as f64
}
