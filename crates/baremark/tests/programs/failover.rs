//! `baremark protect --failover` of programs for Perl: what they hold of the kernel is there after a failover.

use crate::common::bench::kvm;
use crate::common::failover::{PATIENCE, Server, kill};
use crate::common::sites::free_port;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Whether these tests can be run here; says so when not.
fn perl() -> bool {
    let there = Command::new("perl").arg("-v").output().is_ok();
    if !there {
        eprintln!("skipped: no perl");
    }
    there && kvm()
}

#[test]
fn failover_keeps_files_pipes_and_standard_streams() {
    if !perl() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("lines");
    fs::write(&file, (1..=5000).map(|line| format!("{line}\n")).collect::<String>()).unwrap();
    let script = "$| = 1; open F, '<', $ARGV[0] or die; shift; pipe R, W; syswrite W, 'abcdef'; $SIG{ALRM} = 'IGNORE';
                  while (<STDIN>) { chomp; $line = <F> for 1..1000; sysread R, $byte, 1; print \"$_ $byte $line\" }";
    let program = ["perl", "-e", script, file.to_str().unwrap()];
    let mut perl = Server::of_program(&program, Stdio::piped);
    let mut input = perl.process.stdin.take().unwrap();
    let mut output = BufReader::new(perl.process.stdout.take().unwrap());
    for (round, byte) in (1..=4).zip("abcd".chars()) {
        perl.await_protection();
        writeln!(input, "line {round}").unwrap();
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        assert_eq!(line, format!("line {round} {byte} {}\n", round * 1000));
        if round < 4 {
            kill(perl.primary);
        }
    }
    drop(input);
    let mut rest = String::new();
    output.read_to_string(&mut rest).unwrap();
    assert_eq!((rest.as_str(), perl.report().failovers.len()), ("", 3));
}

/// Sends to one client after the other without an end, and says with which error that ended: EPIPE is 32.
const STREAMING: &str = r#"
$| = 1; $SIG{PIPE} = 'IGNORE';
socket(L, 2, 1, 0) or die $!; bind(L, pack('Sna4x8', 2, $ARGV[0], "\x7f\0\0\1")) or die $!; listen(L, 8) or die $!;
for (1 .. 3) {
    accept(C, L) or die $!;
    1 while defined syswrite(C, 'x' x 4096) and select(undef, undef, undef, 0.001) >= 0;
    print 'lost ', $! + 0, "\n";
    close C;
}
"#;

#[test]
fn failover_lets_a_program_see_that_a_client_is_gone() {
    if !perl() {
        return;
    }
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()));
    let mut perl = Server::of_program(&["perl", "-e", STREAMING, &address.port().to_string()], Stdio::piped);
    perl.address = address;
    let mut output = BufReader::new(perl.process.stdout.take().unwrap());
    perl.await_protection();
    for round in 0..3 {
        let mut client = perl.connect();
        client.read_exact(&mut [0; 1000]).unwrap();
        if round > 0 {
            kill(perl.primary);
        }
        if round == 1 {
            perl.await_protection();
            client.read_exact(&mut [0; 100_000]).unwrap();
        }
        // In the last round the program does not run now.
        drop(client);
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        assert_eq!(line, "lost 32\n", "round {round}");
    }
    assert_eq!(perl.report().failovers.len(), 2);
}

/// Answers each message with one of two parts, the next bytes of a file, and what a message with control data comes to. Numbers of calls
/// are those of x86-64.
const MESSAGES: &str = r#"
$| = 1; open F, '<', $ARGV[0] or die $!;
my $parent = getppid;
sub at { unpack 'Q', pack 'P', $_[0] }
for (1 .. 2) {
    my $line = "\0" x 64; vec($line, 0, 8) = 0;
    my $part = pack 'Q2', at($line), 64;
    my $message = pack 'Q7', 0, 0, at($part), 1, 0, 0, 99;
    my $length = syscall(47, 0, $message, 0);
    my ($said, $flags) = (substr($line, 0, $length), (unpack 'Q7', $message)[6]);
    my $head = "flags $flags parent " . ($parent == getppid ? 'same' : 'other') . ' ';
    my $parts = pack 'Q4', at($head), length $head, at($said), length $said;
    my $answer = pack 'Q7', 0, 0, at($parts), 2, 0, 0, 0;
    syscall(46, 1, $answer, 0) == length($head) + length($said) or die $!;
    syscall(40, 1, fileno(F), 0, 7) == 7 or die $!;
    my $control = pack 'Q7', 0, 0, at($parts), 2, at($head), 16, 0;
    my $sent = syscall(46, 1, $control, 0);
    print "$sent ", $! + 0, "\n";
}
"#;

#[test]
fn failover_keeps_messages_without_control_data_and_files_that_are_sent() {
    if !perl() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("lines");
    fs::write(&file, "line a\nline b\n").unwrap();
    let mut perl = Server::of_program(&["perl", "-e", MESSAGES, file.to_str().unwrap()], Stdio::piped);
    let mut input = perl.process.stdin.take().unwrap();
    let mut output = BufReader::new(perl.process.stdout.take().unwrap());
    for (round, sent) in (1..=2).zip(["line a", "line b"]) {
        perl.await_protection();
        input.write_all(format!("message {round}\n").as_bytes()).unwrap();
        // EPERM is 1.
        for expected in [format!("flags 0 parent same message {round}"), sent.to_owned(), "-1 1".to_owned()] {
            let mut line = String::new();
            output.read_line(&mut line).unwrap();
            assert_eq!(line.trim_end(), expected);
        }
        if round == 1 {
            kill(perl.primary);
        }
    }
    let report = perl.report();
    assert!(report.refused.iter().any(|call| call.starts_with("sendmsg: messages with addresses")), "{report:?}");
    assert_eq!(report.failovers.len(), 1);
}

/// Listens, closes the listener, and listens again, one step with each line of input.
const LISTENING: &str = r#"
$| = 1;
for (1 .. 2) {
    socket(L, 2, 1, 0) or die $!; bind(L, pack('Sna4x8', 2, $ARGV[0], "\x7f\0\0\1")) or die $!; listen(L, 8) or die $!;
    <STDIN>; close L; print "closed\n"; <STDIN>;
}
"#;

#[test]
fn failover_accepts_clients_only_where_the_program_listens() {
    if !perl() {
        return;
    }
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()));
    let mut perl = Server::of_program(&["perl", "-e", LISTENING, &address.port().to_string()], Stdio::piped);
    perl.address = address;
    let mut input = perl.process.stdin.take().unwrap();
    let mut output = BufReader::new(perl.process.stdout.take().unwrap());
    for round in 0..2 {
        perl.await_protection();
        // The program never accepts it.
        let mut client = perl.connect();
        input.write_all(b"close\n").unwrap();
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        assert_eq!(line, "closed\n");
        let read = client.read(&mut [0]);
        assert!(!read.as_ref().is_err_and(|why| why.kind() == std::io::ErrorKind::WouldBlock), "round {round}");
        assert_eq!(read.unwrap_or(0), 0);
        let deadline = Instant::now() + PATIENCE;
        while TcpStream::connect(address).is_ok() {
            assert!(Instant::now() < deadline, "still accepted in round {round}");
            thread::sleep(Duration::from_millis(5));
        }
        if round == 0 {
            kill(perl.primary);
        }
        input.write_all(b"go on\n").unwrap();
    }
    drop(input);
    assert_eq!(perl.report().failovers.len(), 1);
}

/// A loop around a set of descriptors: standard input, and a timer that expires every 10 ms. Two counters, a timer of an hour and one that
/// has expired are looked at in the end. Numbers of calls are those of x86-64.
const EVENT_LOOP: &str = r#"
$| = 1;
my ($set, $sum, $many) = (syscall(291, 0), syscall(290, 0, 2048), syscall(290, 100, 2049));
my ($tick, $late, $over) = map { syscall(283, 1, 2048) } 1 .. 3;
sub start { my ($timer, @times) = @_; my $times = pack 'Q4', @times; syscall(286, $timer, 0, $times, 0) == 0 or die $! }
sub watch { my ($fd, $data) = @_; my $event = pack 'LQ', 1, $data; syscall(233, $set, 1, $fd, $event) == 0 or die $! }
sub number { my ($fd) = @_; my $bytes = "\0" x 8; syscall(0, $fd, $bytes, 8) == 8 ? unpack('Q', $bytes) : 0 }
start($tick, 0, 10_000_000, 0, 10_000_000); start($late, 0, 0, 3600, 0); start($over, 0, 0, 0, 1);
watch(0, 0x1122334455667788); watch($tick, 7);
my ($line, $ticks, $wanted) = ('', 0, -1);
while (1) {
    my $event = "\0" x 12;
    syscall(232, $set, $event, 1, 60_000) == 1 or next;
    my $data = (unpack 'LQ', $event)[1];
    if ($data == 7) { $ticks += number($tick) }
    elsif ($data == 0x1122334455667788) {
        sysread(STDIN, $line, 64) or last;
        chomp $line; $wanted = $ticks + 2;
        my $add = pack 'Q', $line; syscall(1, $sum, $add, 8); number($many);
    }
    if ($wanted >= 0 && $ticks >= $wanted) { print "line $line\n"; $wanted = -1 }
}
my ($left, $times) = (0, "\0" x 32);
$left++ while number($many);
syscall(287, $late, $times);
my $running = (unpack 'Q4', $times)[2] > 3000 ? 'running' : 'stopped';
print 'sum ', number($sum), " left $left, $running, expired ", number($over), "\n";
"#;

#[test]
fn failover_keeps_sets_of_descriptors_counters_and_timers() {
    if !perl() {
        return;
    }
    let mut perl = Server::of_program(&["perl", "-e", EVENT_LOOP], Stdio::piped);
    let mut input = perl.process.stdin.take().unwrap();
    let mut output = BufReader::new(perl.process.stdout.take().unwrap());
    for number in 1..=4 {
        perl.await_protection();
        // In one piece: two would be two events.
        input.write_all(format!("{number}\n").as_bytes()).unwrap();
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        assert_eq!(line, format!("line {number}\n"));
        if number < 4 {
            kill(perl.primary);
        }
    }
    drop(input);
    let mut rest = String::new();
    output.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "sum 10 left 96, running, expired 1\n");
    let report = perl.report();
    // Perl looks for a locale, which may be a folder.
    assert!(report.refused.iter().all(|call| call.starts_with("openat: ")), "{report:?}");
    assert_eq!(report.failovers.len(), 3, "{report:?}");
}
