//! Frames: their shape is fixed by goldens, and no stream, however torn or foreign, does harm.

use baremark_model::arm::{ExecutorKind, Frames, GuestTables, ResolvedArm};
use baremark_model::codes::Translation;
use baremark_model::loading::Loading;
use baremark_model::page_size::PageSize;
use baremark_model::seam::{Audit, ExecutorFacts, RankTime, Sample, TickRate, Verification};
use baremark_model::spawned::{LONGEST_PIECE, PutFile};
use baremark_model::units::{Bytes, Nanos, Share};
use baremark_model::value::Value;
use baremark_model::verify::Verify;
use baremark_model::wire::{
    ArmRecord, ArmSpec, BodyRun, Detail, DiscardedQuad, Disturbance, FromAgent, LONGEST_FRAME, LostTime, Member,
    MemberResult, PROTOCOL, PagesSeen, Pass, PhaseDisturbance, Point, ProgramShare, Series, Stretch, ToAgent,
    TrialResult, TrialSpec, WireError, read_frame, write_frame,
};
use proptest::prelude::*;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::io::{self, Cursor, Read, Write};
use std::sync::Arc;

/// Any change to these is a change of the protocol: raise [`PROTOCOL`] with it.
fn golden<T: Serialize + DeserializeOwned + PartialEq + Debug>(message: &T) -> String {
    let json = serde_json::to_string_pretty(message).expect("JSON");
    assert_eq!(&serde_json::from_str::<T>(&json).expect("reads back"), message);
    format!("protocol {PROTOCOL}\n{json}")
}

fn arm() -> ResolvedArm {
    let parameters = [
        ("table", Value::SizeBytes(Bytes(1 << 30))),
        ("pause", Value::TimeNs(Nanos(250))),
        ("skew", Value::Share(Share(0.25))),
        ("lookahead", Value::Count(128)),
        ("variant", Value::Choice("update".to_owned())),
        ("note", Value::Text("\"\u{e9}\"".to_owned())),
        ("prefetch", Value::Switch(true)),
        ("inner_page", Value::Page(PageSize::Small)),
    ];
    ResolvedArm {
        executor: ExecutorKind::Microvm,
        ranks: 2,
        page: PageSize::Small,
        host_backing: Some(PageSize::Large),
        frames: Frames::Scattered,
        guest_tables: Some(GuestTables::Scattered),
        parts: 1,
        placement: Default::default(),
        memory: Default::default(),
        parameters: parameters.into_iter().map(|(key, value)| (key.to_owned(), value)).collect(),
    }
}

fn native() -> ResolvedArm {
    ResolvedArm {
        executor: ExecutorKind::Direct,
        host_backing: None,
        guest_tables: None,
        parts: 1,
        placement: Default::default(),
        memory: Default::default(),
        parameters: BTreeMap::new(),
        ..arm()
    }
}

fn spec() -> TrialSpec {
    let of_one = |arm| ArmSpec { members: vec![Member { count: 1, arm }] };
    TrialSpec {
        workload: "random-access".to_owned(),
        arms: [of_one(native()), of_one(arm())].into(),
        schedule: vec![0, 1, 1, 0],
        allocation_order: vec![1, 0],
        phase_ns: 100_000_000,
        reps: None,
        reps_near: Some(96),
        most_ns: None,
        watchdog_ns: 10_000_000_000,
        cpus: vec![0, 2],
        seed: u64::MAX,
        verify: Verify::Ranges(5),
        observe: None,
        overwritable: vec!["/dev/sdb".into()],
        duet: Some([0, 2]),
    }
}

fn half(value: f64) -> BodyRun {
    BodyRun {
        times: vec![RankTime { rank: 0, start_ticks: 1, end_ticks: u64::MAX }],
        audit: Audit {
            ranks_inside: 2,
            forwarded_syscalls: 0,
            guest_page_faults: 0,
            extra_exits: 3,
            counters: BTreeMap::from([("pf_fixed".to_owned(), 4)]),
            queued_ns: Some(9),
            rests: 1,
        },
        samples: vec![Sample::new("gups", value)],
    }
}

fn result() -> TrialResult {
    TrialResult {
        arms: vec![ArmRecord {
            executor: ExecutorFacts {
                name: "microvm".to_owned(),
                ranks: 2,
                cpus: vec![0, 2],
                runs_body: true,
                virtual_machine: true,
                mmu: Some("nested (EPT)".to_owned()),
                translation: Some(Translation::Nested),
                notes: BTreeMap::from([("timer".to_owned(), "none".to_owned())]),
            },
            pages_before: PagesSeen { resident_bytes: 1 << 30, huge_bytes: 1 << 30, contiguous_bytes: Some(1 << 30) },
            pages_after: PagesSeen { resident_bytes: 1 << 30, huge_bytes: 0, contiguous_bytes: None },
            counters: BTreeMap::from([("pages_2m".to_owned(), 512)]),
            grown: BTreeMap::new(),
            placed: baremark_model::placement::Placed {
                cpus: vec![0, 2],
                pages_by_node: vec![baremark_model::placement::NodePages { node: 8, pages: 4096 }],
                pages_local: 4096,
            },
            verification: Verification::Passed { detail: "0 errors".to_owned() },
            verified: Some(Share(0.0625)),
            empty_run_ns: 1234.5,
        }],
        series: vec![Series {
            phase: 0,
            begin_ns: 10,
            end_ns: 1010,
            arm: 0,
            reps: 7,
            runs: vec![half(0.1), half(0.30000000000000004)],
            samples: vec![Sample::new("gups", 0.2)],
            members: Vec::new(),
            points: vec![Point {
                name: "all".to_owned(),
                begin_ns: 0,
                end_ns: 1000,
                samples: vec![Sample::new("requests_per_s", 0.1)],
                histogram: Some("AAAA".to_owned()),
                distributions: vec!["latency_ms".to_owned()],
                bins: "33:5".to_owned(),
            }],
            detail: Some(Detail {
                format: "baremark-load/1".to_owned(),
                document: serde_json::json!({ "scenario": "one" }),
            }),
        }],
        void: vec!["pages changed".to_owned()],
        flags: vec!["one gap".to_owned()],
        tick_rate_per_s: TickRate(2_100_000_000.0),
        instruction_set: baremark_model::machine::Isa::Avx2,
        lost_before: LostTime::default(),
        lost_after: LostTime { looked_ns: 50_000_000, gaps: 2, share: 0.001, longest_ns: 40_000 },
        elapsed_ns: 812_345_678,
        spent_ns: BTreeMap::from([("phases".to_owned(), 400_000_000)]),
        disturbance: Some(Disturbance {
            programs: vec![ProgramShare { name: "make".to_owned(), share: 0.25 }],
            hidden_programs: true,
            work_of_others: true,
            queued: vec![Some(0.01), None],
            rests: vec![0, 3],
            others: Some(0.1),
            stolen: None,
            throttled: Some(0.125),
            pressure: Some(0.75),
            phases: vec![PhaseDisturbance {
                queued: Some(0.02),
                others: Some(0.1),
                stolen: None,
                beyond_agent: Some(0.3),
                of_container: true,
                resolution: 0.25,
            }],
        }),
        discarded: vec![DiscardedQuad { quad: 3, why: "ranks waited".to_owned() }],
        observations: Vec::new(),
    }
}

fn agent_hello() -> FromAgent {
    FromAgent::Hello {
        protocol: PROTOCOL,
        version: "0.1.0".to_owned(),
        capabilities: vec!["run-trial".to_owned()],
        instruction_set: baremark_model::machine::Isa::Avx2,
        pid: 7,
    }
}

#[test]
fn to_agent_hello() {
    insta::assert_snapshot!(golden(&ToAgent::Hello { protocol: PROTOCOL, version: "0.1.0".to_owned() }));
}

#[test]
fn to_agent_run_trial() {
    insta::assert_snapshot!(golden(&ToAgent::RunTrial(Box::new(spec()))));
}

#[test]
fn to_agent_goodbye() {
    insta::assert_snapshot!(golden(&ToAgent::Goodbye));
}

fn piece(content: Vec<u8>) -> ToAgent {
    ToAgent::PutFile(PutFile { name: "a file".to_owned(), append: true, executable: false, content })
}

#[test]
fn to_agent_put_file() {
    insta::assert_snapshot!(golden(&piece(vec![0, 1, b'a', 254, 255])));
}

#[test]
fn a_piece_of_a_file_takes_a_third_more_than_its_bytes() {
    let content: Vec<u8> = (0..=u8::MAX).cycle().take(LONGEST_PIECE).collect();
    let mut bytes = Vec::new();
    write_frame(&mut bytes, &piece(content.clone())).expect("written");
    assert!(bytes.len() < LONGEST_PIECE * 4 / 3 + 200, "{} bytes for {LONGEST_PIECE}", bytes.len());
    assert_eq!(read_frame::<ToAgent>(&mut Cursor::new(bytes)).expect("read"), piece(content));
}

#[test]
fn a_piece_that_is_no_base64_is_refused() {
    for content in [r#""%%%%""#, r#""QQ""#, "[65]"] {
        let body = format!(r#"{{"put_file":{{"name":"f","append":false,"executable":false,"content":{content}}}}}"#);
        let told = serde_json::from_str::<ToAgent>(&body);
        assert!(told.is_err(), "{content} gave {told:?}");
    }
}

/// As older agents never saw them and newer ones must still read them.
#[test]
fn the_frames_of_a_load_are_written_so() {
    let order = Box::new(serde_json::json!({ "url": "http://127.0.0.1/" }));
    for (message, written) in [
        (ToAgent::PrepareLoad { order }, r#"{"prepare_load":{"order":{"url":"http://127.0.0.1/"}}}"#),
        (ToAgent::ReadClock, r#""read_clock""#),
        (ToAgent::StartLoad { begin_ns: 7 }, r#"{"start_load":{"begin_ns":7}}"#),
        (ToAgent::StopLoad, r#""stop_load""#),
        (ToAgent::SteerLoad { begin_ns: 7 }, r#"{"steer_load":{"begin_ns":7}}"#),
        (ToAgent::SetLevel { at_ns: 7, level: 2.5 }, r#"{"set_level":{"at_ns":7,"level":2.5}}"#),
        (
            ToAgent::AskWindow { id: 1, begin_ns: 7, lasting_ns: 8, patience_ns: 9 },
            r#"{"ask_window":{"id":1,"begin_ns":7,"lasting_ns":8,"patience_ns":9}}"#,
        ),
    ] {
        assert_eq!(serde_json::to_string(&message).unwrap(), written);
        assert_eq!(serde_json::from_str::<ToAgent>(written).unwrap(), message);
    }
    let part = serde_json::json!({ "answered": 5 });
    for (message, written) in [
        (FromAgent::DiskPhases, r#""disk_phases""#),
        (FromAgent::LoadReady, r#""load_ready""#),
        (FromAgent::Clock { monotonic_ns: 7 }, r#"{"clock":{"monotonic_ns":7}}"#),
        (
            FromAgent::LoadSecond { second: 1, part: part.clone() },
            r#"{"load_second":{"second":1,"part":{"answered":5}}}"#,
        ),
        (FromAgent::LoadInFlight { operations: 3 }, r#"{"load_in_flight":{"operations":3}}"#),
        (
            FromAgent::LoadWindow { id: 1, part: Box::new(part.clone()) },
            r#"{"load_window":{"id":1,"part":{"answered":5}}}"#,
        ),
        (FromAgent::LoadDone { part: Box::new(part) }, r#"{"load_done":{"part":{"answered":5}}}"#),
    ] {
        assert_eq!(serde_json::to_string(&message).unwrap(), written);
        assert_eq!(serde_json::from_str::<FromAgent>(written).unwrap(), message);
    }
}

/// A trial at several sites: as agents that cannot take part never hear it.
#[test]
fn the_frames_of_several_sites_are_written_so() {
    let pass = Pass { reps: 3, begin_ns: 7 };
    let written = r#"{"pass":{"reps":3,"begin_ns":7}}"#;
    assert_eq!(serde_json::to_string(&ToAgent::Pass(pass)).unwrap(), written);
    assert_eq!(serde_json::from_str::<ToAgent>(written).unwrap(), ToAgent::Pass(pass));
    let own = serde_json::to_value(ToAgent::RunMember(Box::new(spec()))).unwrap();
    let alone = serde_json::to_value(ToAgent::RunTrial(Box::new(spec()))).unwrap();
    assert!(own["run_member"]["arms"].is_array() && own["run_member"]["arms"] == alone["run_trial"]["arms"], "{own}");
    let written = r#"{"at_gate":{"reps":3}}"#;
    assert_eq!(serde_json::to_string(&FromAgent::AtGate { reps: 3 }).unwrap(), written);
    let member = MemberResult {
        result: result(),
        stretches: vec![vec![Stretch { begin_ns: 1, end_ns: 2 }]],
        together: BTreeMap::from([("gups".to_owned(), baremark_model::metric::Aggregate::Sum)]),
    };
    let done = serde_json::to_value(FromAgent::MemberDone(Box::new(member.clone()))).unwrap();
    assert_eq!(done["member_done"]["stretches"].to_string(), r#"[[{"begin_ns":1,"end_ns":2}]]"#);
    assert_eq!(done["member_done"]["together"].to_string(), r#"{"gups":"sum"}"#);
    assert_eq!(serde_json::from_value::<FromAgent>(done).unwrap(), FromAgent::MemberDone(Box::new(member)));
}

#[test]
fn from_agent_hello() {
    insta::assert_snapshot!(golden(&agent_hello()));
}

#[test]
fn from_agent_loading() {
    insta::assert_snapshot!(golden(&FromAgent::Loading(Loading {
        rows: 30_000,
        of: 471_011,
        elapsed_ns: 500_000_000
    })));
}

#[test]
fn from_agent_phase() {
    insta::assert_snapshot!(golden(&FromAgent::Phase { position: 3, of: 8, arm: 1 }));
}

#[test]
fn from_agent_trial_done() {
    insta::assert_snapshot!(golden(&FromAgent::TrialDone(Box::new(result()))));
}

#[test]
fn from_agent_failed() {
    let what = "reserve 1 GiB".to_owned();
    insta::assert_snapshot!(golden(&FromAgent::Failed { what, why: "no huge pages; reserve 512".to_owned() }));
}

/// The bytes of some messages, one after the other.
fn framed(messages: &[FromAgent]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for message in messages {
        write_frame(&mut bytes, message).expect("memory does not fail");
    }
    bytes
}

fn read(bytes: &[u8]) -> Result<FromAgent, WireError> {
    read_frame(&mut Cursor::new(bytes))
}

#[test]
fn messages_come_out_as_they_went_in_and_then_the_stream_is_closed() {
    let messages =
        [agent_hello(), FromAgent::Phase { position: 0, of: 1, arm: 0 }, FromAgent::TrialDone(Box::new(result()))];
    let mut stream = Cursor::new(framed(&messages));
    for message in &messages {
        assert_eq!(&read_frame::<FromAgent>(&mut stream).expect("a message"), message);
    }
    assert!(matches!(read_frame::<FromAgent>(&mut stream), Err(WireError::Closed)));
}

#[test]
fn a_frame_cut_at_any_byte_is_torn_and_says_how_much_came() {
    let bytes = framed(&[FromAgent::TrialDone(Box::new(result()))]);
    assert!(matches!(read(&[]), Err(WireError::Closed)), "nothing at all is a clean end");
    for cut in 1..bytes.len() {
        let Err(WireError::Torn { got, want }) = read(&bytes[..cut]) else { panic!("cut at {cut}: no tear") };
        let expected = if cut < 4 { (cut, 4) } else { (cut - 4, bytes.len() - 4) };
        assert_eq!((got, want), expected, "cut at {cut}");
    }
}

#[test]
fn what_the_lab_says_of_a_broken_stream() {
    let frame = |body: &[u8]| [&u32::try_from(body.len()).unwrap().to_le_bytes(), body].concat();
    let whole = framed(&[agent_hello()]);
    let cases: [(&str, Vec<u8>); 10] = [
        ("closed", Vec::new()),
        ("cut in the length", whole[..3].to_vec()),
        ("cut in the body", whole[..20].to_vec()),
        ("a shell's greeting instead of an agent", b"Welcome to the machine\n".to_vec()),
        ("a length just too long", (LONGEST_FRAME + 1).to_le_bytes().to_vec()),
        ("an empty frame", frame(b"")),
        ("no JSON", frame(b"hello")),
        ("another message", frame(br#"{"greeting":{}}"#)),
        ("a message of another shape", frame(br#"{"phase":{"position":-1,"of":2,"arm":0}}"#)),
        ("an older agent's greeting", frame(br#"{"type":"hello","protocol":9,"version":"0.2.0","capabilities":[]}"#)),
    ];
    let told = |(case, bytes): &(&str, Vec<u8>)| format!("{case}\n  {}\n", read(bytes).expect_err("broken"));
    let version = format!("another version\n  {}\n", WireError::Version { theirs: PROTOCOL + 1 });
    insta::assert_snapshot!(cases.iter().map(told).collect::<String>() + &version);
}

#[test]
fn a_length_that_is_only_claimed_costs_no_memory() {
    /// Gives a header that claims the longest frame, then little, and remembers the largest buffer it was offered.
    struct Boaster {
        bytes: Cursor<Vec<u8>>,
        largest: usize,
    }
    impl Read for Boaster {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            self.largest = self.largest.max(buffer.len());
            self.bytes.read(buffer)
        }
    }
    let bytes = [&LONGEST_FRAME.to_le_bytes()[..], &[b'x'; 1000]].concat();
    let mut stream = Boaster { bytes: Cursor::new(bytes), largest: 0 };
    let told = read_frame::<FromAgent>(&mut stream);
    assert!(matches!(told, Err(WireError::Torn { got: 1000, want }) if want == LONGEST_FRAME as usize));
    assert!(stream.largest <= 64 << 10, "a buffer of {} bytes for a frame of which 1000 came", stream.largest);
}

/// Gives one byte at a time, and is interrupted before each.
struct Slow<'b> {
    bytes: &'b [u8],
    interrupt: bool,
}

impl Read for Slow<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.interrupt = !self.interrupt;
        if self.interrupt {
            return Err(io::ErrorKind::Interrupted.into());
        }
        self.bytes.read(&mut buffer[..1])
    }
}

#[test]
fn a_slow_and_interrupted_stream_is_read_all_the_same() {
    let message = FromAgent::TrialDone(Box::new(result()));
    let bytes = framed(&[message.clone(), agent_hello()]);
    let mut stream = Slow { bytes: &bytes, interrupt: false };
    assert_eq!(read_frame::<FromAgent>(&mut stream).expect("a message"), message);
    assert_eq!(read_frame::<FromAgent>(&mut stream).expect("not a byte too many was taken"), agent_hello());
    assert!(matches!(read_frame::<FromAgent>(&mut stream), Err(WireError::Closed)));
}

#[test]
fn an_error_of_the_stream_is_passed_on() {
    struct Broken;
    impl Read for Broken {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(io::ErrorKind::ConnectionReset.into())
        }
    }
    impl Write for Broken {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::BrokenPipe.into())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let read = read_frame::<ToAgent>(&mut Broken);
    assert!(matches!(read, Err(WireError::Io(why)) if why.kind() == io::ErrorKind::ConnectionReset));
    let written = write_frame(&mut Broken, &ToAgent::Goodbye);
    assert!(matches!(written, Err(WireError::Io(why)) if why.kind() == io::ErrorKind::BrokenPipe));
}

#[test]
fn a_message_too_long_for_the_reader_is_not_begun() {
    let what = "x".repeat(LONGEST_FRAME as usize);
    let mut bytes = Vec::new();
    let told = write_frame(&mut bytes, &FromAgent::Failed { what, why: String::new() });
    assert!(matches!(told, Err(WireError::TooLong(_))));
    assert!(bytes.is_empty(), "the stream is still usable");
}

#[test]
fn json_nested_without_end_is_refused_and_not_followed() {
    let body = b"[".repeat(1 << 20);
    let bytes = [&u32::try_from(body.len()).unwrap().to_le_bytes()[..], &body].concat();
    assert!(matches!(read(&bytes), Err(WireError::Garbled(_))));
}

fn values() -> impl Strategy<Value = Value> {
    prop_oneof![
        any::<u64>().prop_map(Value::Count),
        any::<u64>().prop_map(|n| Value::SizeBytes(Bytes(n))),
        any::<u64>().prop_map(|n| Value::TimeNs(Nanos(n))),
        (0.0..1.0_f64).prop_map(|share| Value::Share(Share(share))),
        any::<String>().prop_map(Value::Choice),
        any::<String>().prop_map(Value::Text),
        any::<bool>().prop_map(Value::Switch),
        proptest::collection::vec(".*", 0..4).prop_map(Value::Words),
        any::<bool>().prop_map(|large| Value::Page(if large { PageSize::Large } else { PageSize::Small })),
    ]
}

/// Any finite number: JSON has no other, and a metric that is none is void before it is sent.
fn numbers() -> impl Strategy<Value = f64> {
    proptest::num::f64::NORMAL | proptest::num::f64::SUBNORMAL | proptest::num::f64::ZERO
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_trial_crosses_the_wire_unchanged(
        parameters in proptest::collection::btree_map(any::<String>(), values(), 0..6),
        schedule in proptest::collection::vec(any::<usize>(), 0..20),
        seed: u64,
    ) {
        let mut spec = TrialSpec { schedule, seed, ..spec() };
        Arc::make_mut(&mut spec.arms)[1].members[0].arm.parameters = parameters;
        let message = ToAgent::RunTrial(Box::new(spec));
        let mut bytes = Vec::new();
        write_frame(&mut bytes, &message).expect("written");
        prop_assert_eq!(read_frame::<ToAgent>(&mut Cursor::new(bytes)).expect("read"), message);
    }

    #[test]
    fn any_result_crosses_the_wire_to_the_last_bit(
        samples in proptest::collection::vec((any::<String>(), numbers()), 0..20),
        ticks: (u64, u64),
        empty_run_ns in numbers(),
    ) {
        let mut result = result();
        result.arms[0].empty_run_ns = empty_run_ns;
        result.series[0].samples = samples.into_iter().map(|(metric, value)| Sample::new(metric, value)).collect();
        result.series[0].runs[0].times[0] = RankTime { rank: 1, start_ticks: ticks.0, end_ticks: ticks.1 };
        let message = FromAgent::TrialDone(Box::new(result));
        prop_assert_eq!(read(&framed(std::slice::from_ref(&message))).expect("read"), message);
    }
}

#[test]
fn a_result_of_format_1_is_read_as_series() {
    let mut old = serde_json::to_value(result()).unwrap();
    let fields = old.as_object_mut().unwrap();
    let mut phases = fields.remove("series").unwrap();
    for phase in phases.as_array_mut().unwrap() {
        let phase = phase.as_object_mut().unwrap();
        let position = phase.remove("phase").unwrap();
        phase.insert("position".to_owned(), position);
        ["begin_ns", "end_ns", "points", "detail"].iter().for_each(|key| drop(phase.remove(*key)));
    }
    fields.insert("phases".to_owned(), phases);
    let read: TrialResult = serde_json::from_value(old).unwrap();
    let wanted = result();
    assert_eq!(read.series[0].samples, wanted.series[0].samples);
    assert_eq!((read.series[0].phase, read.series[0].begin_ns, read.series[0].detail.as_ref()), (0, 0, None));
}
