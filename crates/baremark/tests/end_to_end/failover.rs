//! `baremark protect --failover`: programs in the microVM that are killed and go on.

use crate::bench::kvm;
use crate::environments::free_port;
use crate::turns::long_turn;
use baremark_protection::failover::FailoverReport;
use baremark_protection::writer::{END, READ_LOG};
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

const BAREMARK: &str = env!("CARGO_BIN_EXE_baremark");
const PATIENCE: Duration = Duration::from_secs(60);
/// A busy machine is no reason for a failover, where hanging is not what is tested.
const UNHURRIED: [&str; 2] = ["--heartbeat-ms", "30000"];

/// A protected server that keeps orders in memory.
struct Server {
    process: Child,
    address: SocketAddr,
    events: Receiver<String>,
    stats: tempfile::TempDir,
    /// The processes that are the primary, the program and the secondary now.
    primary: u32,
    program: u32,
    secondary: u32,
}

/// The number behind these words in a line.
fn process(line: &str, words: &str) -> Option<u32> {
    let (_, rest) = line.split_once(words)?;
    rest.split(',').next()?.parse().ok()
}

impl Server {
    fn start(workers: usize) -> Server {
        Server::start_with(workers, &UNHURRIED)
    }

    fn start_with(workers: usize, options: &[&str]) -> Server {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()));
        let (at, workers) = (address.to_string(), workers.to_string());
        let program = [BAREMARK, "protect", "--count", &at, "--workers", &workers];
        let mut server = Server::of_program_with(&program, Stdio::null, options);
        server.address = address;
        server
    }

    /// Another program, with streams of this kind.
    fn of_program(program: &[&str], stream: fn() -> Stdio) -> Server {
        Server::of_program_with(program, stream, &UNHURRIED)
    }

    fn of_program_with(program: &[&str], stream: fn() -> Stdio, options: &[&str]) -> Server {
        let stats = tempfile::tempdir().unwrap();
        let mut command = Command::new(BAREMARK);
        command.args(["protect", "--failover", "--epoch-us", "20000", "--stats"]).arg(stats.path().join("stats.json"));
        command.args(options).arg("--").args(program).stdin(stream()).stdout(stream()).stderr(Stdio::piped());
        let mut process = command.spawn().unwrap();
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let lines = BufReader::new(process.stderr.take().unwrap()).lines();
        let (said, events) = channel();
        thread::spawn(move || lines.map_while(Result::ok).try_for_each(|line| said.send(line)));
        Server { process, address, events, stats, primary: 0, program: 0, secondary: 0 }
    }

    /// Waits until the program has run since the last time and a secondary has a checkpoint of it.
    fn await_protection(&mut self) {
        loop {
            if self.note_event() {
                return;
            }
        }
    }

    /// Waits for an event; whether a secondary has a checkpoint.
    fn note_event(&mut self) -> bool {
        let line = self.events.recv_timeout(PATIENCE).expect("an event");
        eprintln!("{line}");
        self.primary = process(&line, "primary process ").unwrap_or(self.primary);
        self.program = process(&line, "program process ").unwrap_or(self.program);
        let secondary = process(&line, "secondary process ");
        self.secondary = secondary.unwrap_or(self.secondary);
        secondary.is_some()
    }

    fn connect(&self) -> TcpStream {
        let deadline = Instant::now() + PATIENCE;
        loop {
            match TcpStream::connect(self.address) {
                Ok(client) => {
                    client.set_nodelay(true).unwrap();
                    client.set_read_timeout(Some(PATIENCE)).unwrap();
                    return client;
                }
                Err(why) => assert!(Instant::now() < deadline, "{why}"),
            }
            thread::sleep(Duration::from_millis(5));
        }
    }

    fn end(&mut self) -> FailoverReport {
        request(&mut self.connect(), END, 0);
        self.report()
    }

    /// What was counted, when the program has ended.
    fn report(&mut self) -> FailoverReport {
        assert_eq!(self.process.wait().unwrap().code(), Some(0), "{:?}", self.events.try_iter().collect::<Vec<_>>());
        serde_json::from_slice(&fs::read(self.stats.path().join("stats.json")).unwrap()).unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

fn request(client: &mut TcpStream, of: u64, number: u64) {
    client.write_all(&[of.to_le_bytes(), number.to_le_bytes()].concat()).unwrap();
}

fn number(client: &mut TcpStream) -> u64 {
    let mut bytes = [0; 8];
    client.read_exact(&mut bytes).unwrap();
    u64::from_le_bytes(bytes)
}

fn kill(process: u32) {
    assert!(signal("-KILL", process));
}

/// Whether a process that can be signalled is there.
fn signal(signal: &str, process: u32) -> bool {
    let sent = Command::new("kill").args([signal, &process.to_string()]).stderr(Stdio::null()).status();
    sent.unwrap().success()
}

/// A number below `end`, of the kernel's.
fn random(end: u64) -> u64 {
    let mut bytes = [0; 8];
    fs::File::open("/dev/urandom").unwrap().read_exact(&mut bytes).unwrap();
    u64::from_le_bytes(bytes) % end
}

/// Has clients place orders while the primary or its program is killed again and again at random moments.
fn orders_through_kills(kills: u64, workers: usize) -> FailoverReport {
    let mut rounds = 0..kills;
    let report = orders_through(Server::start(workers), workers, |server, await_orders| {
        let is_left = rounds.next().is_some();
        if is_left {
            await_orders(1);
            thread::sleep(Duration::from_micros(random(150_000)));
            kill([server.primary, server.program][usize::from(random(2) == 0)]);
            server.await_protection();
        }
        is_left
    });
    assert_eq!(report.failovers.len() as u64, kills, "{report:?}");
    report
}

/// Has clients place orders, each on one connection, as long as `disturb` has something to do to the server; it can wait for so many
/// orders that are answered from then on. Every answer must be the order's place in the log, and the log must have all orders that were
/// answered, once, and no other.
fn orders_through(
    mut server: Server,
    workers: usize,
    mut disturb: impl FnMut(&mut Server, &dyn Fn(u64)) -> bool,
) -> FailoverReport {
    server.await_protection();
    let mut reader = if workers > 1 { Some(server.connect()) } else { None };
    let (stop, placed) = (AtomicBool::new(false), AtomicU64::new(0));
    let clients = if workers > 1 { workers - 1 } else { 1 };
    let mut streams: Vec<TcpStream> = (0..clients).map(|_| server.connect()).collect();
    let answered: Vec<Vec<u64>> = thread::scope(|scope| {
        let (stop, placed) = (&stop, &placed);
        let place = |(of, stream): (u64, &mut TcpStream)| {
            let mut places = Vec::new();
            while !stop.load(Ordering::SeqCst) {
                request(stream, of, places.len() as u64);
                places.push(number(stream));
                placed.fetch_add(1, Ordering::SeqCst);
            }
            places
        };
        let await_orders = |more: u64| {
            let (before, deadline) = (placed.load(Ordering::SeqCst), Instant::now() + PATIENCE);
            while placed.load(Ordering::SeqCst) < before + more {
                assert!(Instant::now() < deadline, "no order was answered after {before}");
                thread::sleep(Duration::from_millis(1));
            }
        };
        let placing: Vec<_> = (1..).zip(&mut streams).map(|client| scope.spawn(move || place(client))).collect();
        while disturb(&mut server, &await_orders) {}
        await_orders(1);
        stop.store(true, Ordering::SeqCst);
        placing.into_iter().map(|client| client.join().unwrap()).collect()
    });
    let reader = reader.as_mut().unwrap_or(&mut streams[0]);
    request(reader, READ_LOG, 0);
    let count = number(reader);
    let log: Vec<[u64; 2]> = (0..count).map(|_| [number(reader), number(reader)]).collect();
    assert_eq!(count, answered.iter().map(|places| places.len() as u64).sum::<u64>());
    for (of, places) in (1..).zip(&answered) {
        for (order, place) in (0..).zip(places) {
            assert_eq!(log[usize::try_from(place - 1).unwrap()], [of, order], "order {order} of client {of}");
        }
    }
    drop(streams);
    let report = server.end();
    assert!(count > report.failovers.len() as u64, "{count} orders");
    assert!(report.failovers.iter().all(|failover| failover.continued_ms > 0.0), "{report:?}");
    let mut served: Vec<f64> = report.failovers.iter().filter_map(|failover| failover.served_ms).collect();
    served.sort_by(f64::total_cmp);
    eprintln!("{count} orders, {} failovers, output released again after {served:.0?} ms", report.failovers.len());
    report
}

/// 1, or as many as the environment says.
fn failovers() -> u64 {
    std::env::var("BAREMARK_FAILOVERS").ok().and_then(|count| count.parse().ok()).unwrap_or(1)
}

#[test]
fn failover_at_a_random_moment_loses_and_repeats_no_order() {
    let _turn = long_turn();
    if kvm() {
        assert_eq!(orders_through_kills(failovers(), 1).threads, 1);
    }
}

#[test]
fn failover_of_a_program_with_threads_loses_and_repeats_no_order() {
    let _turn = long_turn();
    if kvm() {
        assert_eq!(orders_through_kills(failovers(), 4).threads, 5);
    }
}

#[test]
fn failover_from_a_primary_or_a_program_that_hangs_loses_and_repeats_no_order() {
    let _turn = long_turn();
    if !kvm() {
        return;
    }
    // No more failovers than are asked for: nobody who has something to do waits so long for a CPU.
    let limit_ms = 5000;
    let mut hanging = [false, true].into_iter();
    let server = Server::start_with(1, &["--heartbeat-ms", &limit_ms.to_string()]);
    let report = orders_through(server, 1, |server, await_orders| {
        let Some(is_program) = hanging.next() else { return false };
        await_orders(1);
        let (hung, primary) = (if is_program { server.program } else { server.primary }, server.primary);
        assert!(signal("-STOP", hung));
        server.await_protection();
        await_orders(2);
        // Neither of them is there to go on; what they had done since the last epoch never leaves.
        let deadline = Instant::now() + PATIENCE;
        while signal("-CONT", primary) || signal("-CONT", hung) {
            assert!(Instant::now() < deadline, "still there: {primary} or {hung}");
            thread::sleep(Duration::from_millis(1));
        }
        await_orders(2);
        true
    });
    let silent: Vec<f64> = report.failovers.iter().filter_map(|failover| failover.silent_ms).collect();
    assert!(silent.len() == 2 && silent.iter().all(|ms| *ms >= f64::from(limit_ms)), "{report:?}");
    assert!(report.failovers.iter().all(|failover| failover.continued_ms >= f64::from(limit_ms)), "{report:?}");
}

/// The primary goes on at about the moment when the secondary gives it up: one of the two is heard, and never both.
#[test]
fn failover_from_a_primary_that_goes_on_again_loses_and_repeats_no_order() {
    let _turn = long_turn();
    if !kvm() {
        return;
    }
    let mut rounds = 0..3.max(failovers());
    let server = Server::start_with(1, &["--heartbeat-ms", "200"]);
    let report = orders_through(server, 1, |server, await_orders| {
        let is_left = rounds.next().is_some();
        if is_left {
            // One that was killed was followed by another.
            while !signal("-STOP", server.primary) {
                server.note_event();
            }
            thread::sleep(Duration::from_micros(150_000 + random(100_000)));
            signal("-CONT", server.primary);
            // The request of the second was sent after that: whoever answers it has a secondary.
            await_orders(2);
        }
        is_left
    });
    eprintln!("{} of the pauses were failovers", report.failovers.len());
}

#[test]
fn failover_comes_with_a_new_secondary_when_that_is_lost_or_hangs() {
    let _turn = long_turn();
    if !kvm() {
        return;
    }
    // As above, long enough that a busy machine makes nobody seem lost.
    let mut server = Server::start_with(1, &["--heartbeat-ms", "5000"]);
    server.await_protection();
    let mut client = server.connect();
    for (round, how) in (0..).zip(["-KILL", "-STOP"]) {
        assert!(signal(how, server.secondary));
        for order in 0..3 {
            request(&mut client, 1, order);
            assert_eq!(number(&mut client), round * 3 + order + 1);
        }
        server.await_protection();
    }
    // The last one has everything: it can take over.
    kill(server.primary);
    request(&mut client, 1, 6);
    assert_eq!(number(&mut client), 7);
    drop(client);
    assert_eq!(server.end().failovers.len(), 1);
}

#[test]
fn failover_keeps_files_pipes_and_standard_streams() {
    let _turn = long_turn();
    if !kvm() {
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
    let _turn = long_turn();
    if !kvm() {
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
    let _turn = long_turn();
    if !kvm() {
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
    let _turn = long_turn();
    if !kvm() {
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
    let _turn = long_turn();
    if !kvm() {
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

/// What Redis answers to a command: a number, or a text.
fn ask_redis(client: &mut BufReader<TcpStream>, command: &str) -> String {
    client.get_mut().write_all(format!("{command}\r\n").as_bytes()).unwrap();
    let mut line = String::new();
    client.read_line(&mut line).unwrap();
    if let Some(length) = line.strip_prefix('$') {
        let mut bytes = vec![0; length.trim().parse::<usize>().unwrap() + 2];
        client.read_exact(&mut bytes).unwrap();
        line = String::from_utf8(bytes).unwrap();
    }
    line.trim_end().trim_start_matches(':').to_owned()
}

#[test]
fn failover_of_redis_loses_and_repeats_no_command() {
    let _turn = long_turn();
    if !kvm() {
        return;
    }
    if !Path::new("/usr/bin/redis-server").exists() {
        eprintln!("skipped: no redis-server");
        return;
    }
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()));
    let port = address.port().to_string();
    let options = ["--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--io-threads", "1"];
    let program = [&["redis-server", "--port", &port][..], &options].concat();
    let mut redis = Server::of_program(&program, Stdio::null);
    redis.address = address;
    redis.await_protection();
    let kills = failovers().max(2);
    let stop = AtomicBool::new(false);
    let counted = thread::scope(|scope| {
        let counting: Vec<_> = ["a", "b"]
            .into_iter()
            .map(|key| {
                let (stop, mut client) = (&stop, BufReader::new(redis.connect()));
                scope.spawn(move || {
                    let mut count = 0;
                    while !stop.load(Ordering::SeqCst) {
                        count += 1;
                        assert_eq!(ask_redis(&mut client, &format!("INCR {key}")), count.to_string());
                        assert_eq!(ask_redis(&mut client, &format!("SET {key}{count} {count}")), "+OK");
                    }
                    count
                })
            })
            .collect();
        for _ in 0..kills {
            thread::sleep(Duration::from_micros(50_000 + random(100_000)));
            kill([redis.primary, redis.program][usize::from(random(2) == 0)]);
            redis.await_protection();
        }
        stop.store(true, Ordering::SeqCst);
        counting.into_iter().map(|client| client.join().unwrap()).collect::<Vec<u64>>()
    });
    let mut client = BufReader::new(redis.connect());
    for (key, count) in ["a", "b"].into_iter().zip(&counted) {
        assert_eq!(ask_redis(&mut client, &format!("GET {key}")), count.to_string());
        (1..=*count).for_each(|at| assert_eq!(ask_redis(&mut client, &format!("GET {key}{at}")), at.to_string()));
    }
    assert_eq!(ask_redis(&mut client, "DBSIZE"), (2 + counted.iter().sum::<u64>()).to_string());
    client.get_mut().write_all(b"SHUTDOWN NOSAVE\r\n").unwrap();
    let report = redis.report();
    eprintln!("{counted:?} commands of each kind, refused: {:?}", report.refused);
    assert_eq!(report.failovers.len() as u64, kills, "{report:?}");
}

fn protected(program: &[&str], input: &[u8]) -> Output {
    let mut command = Command::new(BAREMARK);
    command.args(["protect", "--failover", "--epoch-us", "10000"]).args(UNHURRIED).arg("--").args(program);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(input).unwrap();
    child.wait_with_output().unwrap()
}

#[test]
fn failover_refuses_by_name_what_a_secondary_cannot_continue() {
    let _turn = long_turn();
    if !kvm() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("written");
    let script = format!("read word; echo $word; echo x > {}; echo $?; ls; exit 3", file.display());
    let output = protected(&["sh", "-c", &script], b"hello\n");
    let (said, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(2), "{said} {errors}");
    assert!(said.starts_with("hello\n"), "{said} {errors}");
    for refused in ["refused: openat: files can be opened for reading alone\n", "must stay one process\n"] {
        assert!(errors.contains(refused), "{errors}");
    }
    assert!(!file.exists());
}

#[test]
fn failover_of_a_program_that_is_not_there_is_an_error() {
    let _turn = long_turn();
    if kvm() {
        let output = protected(&["/nonexistent/program"], b"");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() != Some(0) && errors.contains("cannot execute /nonexistent/program"), "{errors}");
    }
}

#[test]
fn failover_leaves_no_process_when_the_conductor_is_killed() {
    let _turn = long_turn();
    if !kvm() {
        return;
    }
    let mut server = Server::start(1);
    server.await_protection();
    let family = descendants(server.process.id());
    assert!(family.len() >= 3, "primary, program and secondary: {family:?}");
    kill(server.process.id());
    server.process.wait().unwrap();
    let deadline = Instant::now() + PATIENCE;
    while family.iter().any(|pid| Path::new(&format!("/proc/{pid}")).exists()) {
        assert!(Instant::now() < deadline, "still there: {family:?}");
        thread::sleep(Duration::from_millis(5));
    }
}

fn descendants(of: u32) -> Vec<u32> {
    let listed = fs::read_dir(format!("/proc/{of}/task")).unwrap().flatten();
    let texts = listed.filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    let children: Vec<u32> =
        texts.flat_map(|text| text.split_whitespace().map(|pid| pid.parse().unwrap()).collect::<Vec<u32>>()).collect();
    children.iter().flat_map(|child| std::iter::once(*child).chain(descendants(*child))).collect()
}
