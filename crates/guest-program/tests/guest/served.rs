//! What the requests of a server of the tests come to.

use crate::cases::Page;
use crate::load::{START, asked};
use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::thread;

/// Answers one connection.
fn answering(answer: &'static [u8]) -> (u16, thread::JoinHandle<()>) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let server = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        assert!(stream.read(&mut [0; 256]).unwrap() > 0);
        stream.write_all(answer).unwrap();
    });
    (port, server)
}

#[test]
fn an_answer_that_is_not_the_page_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("4"), "page").unwrap();
    let pages = [Page { bytes: 4, requests: 1 }];
    for (answer, expected) in [
        (&b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nothe"[..], "the page 4 has other bytes than its file"),
        (b"HTTP/1.1 404 No\r\n\r\n", "the page 4 is answered with \"HTTP/1.1 404 No\\r\\n\\r\\n\""),
    ] {
        let (port, server) = answering(answer);
        let why = asked(&pages, port, folder.path(), START).unwrap_err();
        assert_eq!(why, expected);
        server.join().unwrap();
    }
}
