//! The second copy of a disk behind its NBD server, as a client on a socket sees it.

use baremark_disks::nbd::Replica;
use baremark_stats::Rng;
use baremark_sys::calls::again_after_signals;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

const BYTES: u64 = 16 << 20;
const BLOCK: u32 = 4096;
const READ: u16 = 0;
const WRITE: u16 = 1;
const DISCONNECT: u16 = 2;
const FLUSH: u16 = 3;
const TRIM: u16 = 4;

fn replica() -> Replica {
    Replica::serve(&std::env::temp_dir(), BYTES).unwrap_or_else(|why| panic!("{why}"))
}

/// Connects and names an export; whether its size was answered.
fn connected(replica: &Replica, name: &str) -> (TcpStream, bool) {
    let mut stream = TcpStream::connect(replica.address()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let mut greeting = [0; 18];
    stream.read_exact(&mut greeting).unwrap();
    assert!(greeting.starts_with(b"NBDMAGICIHAVEOPT"));
    let length = u32::try_from(name.len()).unwrap();
    let asked = [b"\0\0\0\x03IHAVEOPT\0\0\0\x01", &length.to_be_bytes()[..], name.as_bytes()].concat();
    stream.write_all(&asked).unwrap();
    let mut export = [0; 10];
    let answered = stream.read_exact(&mut export);
    if answered.is_ok() {
        assert_eq!(export[..8], BYTES.to_be_bytes());
    }
    (stream, answered.is_ok())
}

fn ask(stream: &mut TcpStream, command: u16, cookie: u64, (offset, length): (u64, u32), data: &[u8]) {
    let mut bytes = b"\x25\x60\x95\x13\0\0".to_vec();
    bytes.extend(command.to_be_bytes());
    bytes.extend(cookie.to_be_bytes());
    bytes.extend(offset.to_be_bytes());
    bytes.extend(length.to_be_bytes());
    bytes.extend(data);
    stream.write_all(&bytes).unwrap();
}

/// Error and cookie of the next answer.
fn answer(stream: &mut TcpStream) -> (u32, u64) {
    let mut bytes = [0; 16];
    stream.read_exact(&mut bytes).unwrap();
    assert_eq!(bytes[..4], *b"\x67\x44\x66\x98");
    (u32::from_be_bytes(bytes[4..8].try_into().unwrap()), u64::from_be_bytes(bytes[8..].try_into().unwrap()))
}

fn read(stream: &mut TcpStream, offset: u64, length: u32) -> Vec<u8> {
    ask(stream, READ, 7, (offset, length), &[]);
    assert_eq!(answer(stream), (0, 7));
    let mut data = vec![0; length as usize];
    stream.read_exact(&mut data).unwrap();
    data
}

/// Whether the server has ended the connection. Bytes of ours that it did not read are an error at our end.
fn is_ended(stream: &mut TcpStream) -> bool {
    again_after_signals(|| stream.read(&mut [0; 1]))
        .map_or_else(|why| why.kind() == ErrorKind::ConnectionReset, |n| n == 0)
}

#[test]
fn every_write_that_was_answered_is_read_back_and_answers_may_overtake_each_other() {
    let replica = replica();
    let (mut stream, knows) = connected(&replica, replica.name());
    assert!(knows);
    let blocks = 200_u64;
    let block = |number: u64| -> Vec<u8> { number.to_le_bytes().repeat(BLOCK as usize / 8) };
    let place = |number: u64| number * 3 * u64::from(BLOCK);
    // All are outstanding at once, as far as the server lets them.
    let mut writing = stream.try_clone().unwrap();
    let sender = std::thread::spawn(move || {
        (0..blocks).for_each(|number| ask(&mut writing, WRITE, number, (place(number), BLOCK), &block(number + 1)));
    });
    let mut answered: Vec<u64> = (0..blocks)
        .map(|_| answer(&mut stream))
        .map(|(error, cookie)| {
            assert_eq!(error, 0);
            cookie
        })
        .collect();
    sender.join().unwrap();
    answered.sort_unstable();
    assert_eq!(answered, (0..blocks).collect::<Vec<_>>(), "each once");
    ask(&mut stream, FLUSH, 9, (0, 0), &[]);
    assert_eq!(answer(&mut stream), (0, 9));
    for number in 0..blocks {
        assert_eq!(read(&mut stream, place(number), BLOCK), block(number + 1));
        assert_eq!(read(&mut stream, place(number) + u64::from(BLOCK), BLOCK), block(0), "what nobody wrote is zeros");
    }
    ask(&mut stream, DISCONNECT, 0, (0, 0), &[]);
    assert_eq!(again_after_signals(|| stream.read(&mut [0; 1])).unwrap(), 0, "the connection ends");
}

#[test]
fn what_a_disk_cannot_do_is_refused_by_an_error_and_the_next_request_is_served() {
    const EINVAL: u32 = 22;
    const ENOSPC: u32 = 28;
    let replica = replica();
    let (mut stream, _) = connected(&replica, replica.name());
    let data = vec![1; BLOCK as usize];
    let cases = [
        (WRITE, (BYTES, BLOCK), &data[..], ENOSPC),
        (WRITE, (u64::MAX - 4095, BLOCK), &data[..], ENOSPC),
        (READ, (BYTES - 4096, 2 * BLOCK), &data[..0], EINVAL),
        (READ, (512, BLOCK), &data[..0], EINVAL),
        (READ, (0, 0), &data[..0], EINVAL),
        (WRITE, (0, 512), &data[..512], EINVAL),
        (TRIM, (0, BLOCK), &data[..0], EINVAL),
    ];
    for (cookie, (command, place, data, error)) in cases.into_iter().enumerate() {
        ask(&mut stream, command, cookie as u64, place, data);
        assert_eq!(answer(&mut stream), (error, cookie as u64), "{command} at {place:?}");
    }
    assert_eq!(read(&mut stream, 0, BLOCK), vec![0; BLOCK as usize], "nothing of it was written");
}

#[test]
fn only_who_knows_the_name_is_served_and_a_replica_that_is_dropped_serves_nobody() {
    let replica = replica();
    let (mut stranger, knows) = connected(&replica, "disk");
    assert!(!knows && is_ended(&mut stranger));
    let (mut stream, knows) = connected(&replica, replica.name());
    assert!(knows && read(&mut stream, 0, BLOCK).len() == BLOCK as usize);
    let address = replica.address();
    drop(replica);
    assert!(is_ended(&mut stream) && TcpStream::connect(address).is_err());
    // One to which nobody came.
    drop(self::replica());
}

/// What the replica says once it has ended a connection.
fn reason(replica: &Replica, stream: &mut TcpStream) -> String {
    assert!(is_ended(stream), "the connection is still served");
    replica.failure().unwrap_or_else(|| "no failure".to_owned())
}

#[test]
fn a_client_that_leaves_the_protocol_is_cut_off_and_the_reason_is_kept() {
    let longest = [&b"\x25\x60\x95\x13\0\0\0\x01cookie!!"[..], &[0; 8], &[0xff; 4]].concat();
    let cases: [(&[u8], &str); 4] = [
        (&[7; 28], "0x7070707 where a request begins with 0x25609513"),
        (&longest, "a request of 4294967295 bytes, of which 33554432 are the most"),
        (&longest[..20], "the client ended in the middle of a request"),
        (
            b"\x25\x60\x95\x13\0\0\0\x01cookie!!\0\0\0\0\0\0\0\0\0\0\x20\0half",
            "the client ended in the middle of a request",
        ),
    ];
    for (sent, expected) in cases {
        let replica = replica();
        let (mut stream, _) = connected(&replica, replica.name());
        assert_eq!((replica.failure(), read(&mut stream, 0, BLOCK).len()), (None, BLOCK as usize));
        stream.write_all(sent).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        assert_eq!(reason(&replica, &mut stream), expected);
    }
    // One that goes between two requests has done nothing wrong.
    let replica = replica();
    let (mut stream, _) = connected(&replica, replica.name());
    stream.shutdown(Shutdown::Write).unwrap();
    assert_eq!(reason(&replica, &mut stream), "no failure");
}

#[test]
fn whatever_strangers_send_the_one_that_knows_the_name_is_served() {
    let replica = replica();
    let mut rng = Rng::stream(19, 0);
    for round in 0..100 {
        let mut stream = TcpStream::connect(replica.address()).unwrap();
        // Rounds begin as a client does, for a while each: its flags, an option, one of 4 GiB.
        let sound = b"\0\0\0\x03IHAVEOPT\0\0\0\x01\xff\xff\xff\xff";
        let garbage: Vec<u8> = (0..8).flat_map(|_| rng.next_u64().to_le_bytes()).collect();
        drop(stream.write_all(&[&sound[..round % (sound.len() + 1)], &garbage].concat()));
        drop(stream.shutdown(Shutdown::Write));
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let mut answers = Vec::new();
        let ended = stream.read_to_end(&mut answers);
        assert!(ended.is_ok_and(|bytes| bytes < 100) || answers.len() < 100, "{answers:x?}");
    }
    let (mut stream, knows) = connected(&replica, replica.name());
    assert!(knows && read(&mut stream, 0, BLOCK) == vec![0; BLOCK as usize]);
}

#[test]
fn requests_of_every_shape_are_answered_or_end_the_connection() {
    for seed in 0..12 {
        let replica = replica();
        let (mut stream, _) = connected(&replica, replica.name());
        let mut rng = Rng::stream(seed, 1);
        let mut bytes = Vec::new();
        // Sound requests with fields that are not, one after the other, and bytes that are no request at last.
        for _ in 0..20 {
            bytes.extend(b"\x25\x60\x95\x13\0");
            bytes.extend([(rng.next_u64() % 2) as u8, 0, (rng.next_u64() % 8) as u8]);
            bytes.extend(rng.next_u64().to_be_bytes());
            bytes.extend((rng.next_u64() % (2 * BYTES)).to_be_bytes());
            bytes.extend(((rng.next_u64() % (64 << 10)) as u32).to_be_bytes());
        }
        bytes.extend([0xff; 64]);
        let mut writing = stream.try_clone().unwrap();
        let sender = std::thread::spawn(move || {
            drop(writing.write_all(&bytes));
            drop(writing.shutdown(Shutdown::Write));
        });
        let mut answers = Vec::new();
        drop(stream.read_to_end(&mut answers));
        sender.join().unwrap();
        assert!(
            answers.is_empty() || answers.starts_with(b"\x67\x44\x66\x98"),
            "seed {seed}: {:x?}",
            answers.get(..16)
        );
        let why = replica.failure();
        assert!(why.as_ref().is_none_or(|why| why.contains("a request")), "seed {seed}: {why:?}");
    }
}
