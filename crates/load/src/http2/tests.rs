use super::frame::PADDED;
use super::*;
use proptest::prelude::*;

#[derive(Default)]
struct Table(Vec<Response>);

impl Listeners for Table {
    fn heard(&mut self, actor: u32) -> &mut Response {
        &mut self.0[actor as usize]
    }
}

fn table(count: usize) -> Table {
    let one = || Response { keep: Keep::Body, keep_head: true, ..Response::default() };
    Table((0..count).map(|_| one()).collect())
}

fn block(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut block = Vec::new();
    fields.iter().for_each(|(name, value)| hpack::encode(name.as_bytes(), value.as_bytes(), &mut block));
    block
}

fn frames(list: &[(u8, u8, u32, &[u8])]) -> Vec<u8> {
    let mut out = Vec::new();
    list.iter().for_each(|(kind, flags, id, payload)| frame(*kind, *flags, *id, payload, &mut out));
    out
}

/// A session with requests of two actors, fed in pieces.
fn fed(stream: &[u8], size: usize) -> (Result<(), Failure>, Vec<Event>, Table, Session) {
    let (mut session, mut table, mut events) = (Session::new(100), table(2), Vec::new());
    session.request(0, Block::Once(&block(&[(":method", "GET")])), None);
    session.request(1, Block::Once(&block(&[(":method", "POST")])), Some(Arc::from(&b"body"[..])));
    let mut outcome = Ok(());
    for piece in stream.chunks(size.max(1)) {
        outcome = outcome.and_then(|()| session.feed(piece, &mut table, &mut events));
        session.fill(0);
    }
    (outcome, events, table, session)
}

fn answers() -> Vec<u8> {
    let ok = block(&[(":status", "200"), ("set-cookie", "a=1")]);
    let gone = block(&[(":status", "404")]);
    frames(&[
        (SETTINGS, 0, 0, &[]),
        (SETTINGS, ACK, 0, &[]),
        (99, 7, 5, b"unknown frames are ignored"),
        (HEADERS, END_HEADERS, 3, &block(&[(":status", "103")])),
        (HEADERS, 0, 1, &ok[..3]),
        (CONTINUATION, END_HEADERS, 1, &ok[3..]),
        (DATA, PADDED, 1, b"\x03hel\0\0\0"),
        (HEADERS, END_HEADERS | END_STREAM, 3, &gone),
        (PING, 0, 0, b"12345678"),
        (DATA, 0, 1, b"lo"),
        (HEADERS, END_HEADERS | END_STREAM, 1, &block(&[("etag", "x")])),
    ])
}

#[test]
fn answers_of_several_streams_are_told_apart_in_pieces_of_any_size() {
    for size in 1..=answers().len() {
        let (outcome, events, table, session) = fed(&answers(), size);
        assert_eq!((outcome, events), (Ok(()), vec![Event::Done(1), Event::Done(0)]), "in pieces of {size}");
        assert_eq!((table.0[0].status, &table.0[0].body[..]), (200, &b"hello"[..]));
        assert_eq!(String::from_utf8_lossy(&table.0[0].head), "HTTP/2 200\r\nset-cookie: a=1\r\n");
        assert_eq!((table.0[1].status, session.under_way()), (404, 0));
        assert!(session.out.ends_with(&frames(&[(PING, ACK, 0, b"12345678")])));
    }
}

#[test]
fn what_breaks_the_protocol_is_malformed() {
    let settings: (u8, u8, u32, &[u8]) = (SETTINGS, 0, 0, &[]);
    let ok = block(&[(":status", "200")]);
    let zero = 0_u32.to_be_bytes();
    for wrong in [
        &[(PING, 0, 0, &b"12345678"[..])][..],
        &[settings, (PING, 0, 0, b"1234567")],
        &[settings, (DATA, 0, 1, b"before its head")],
        &[settings, (HEADERS, END_HEADERS, 7, &ok)],
        &[settings, (HEADERS, END_HEADERS, 2, &ok)],
        &[settings, (HEADERS, 0, 1, &ok), (PING, 0, 0, b"12345678")],
        &[settings, (CONTINUATION, END_HEADERS, 1, &ok)],
        &[settings, (PUSH_PROMISE, END_HEADERS, 1, &ok)],
        &[settings, (DATA, PADDED, 1, b"\x09x")],
        &[settings, (WINDOW_UPDATE, 0, 0, &zero)],
        &[settings, (SETTINGS, 0, 0, b"\0\x04\xff\xff\xff\xff")],
        &[settings, (HEADERS, END_HEADERS, 1, &[0x80])],
    ] {
        assert_eq!(fed(&frames(wrong), 1000).0, Err(Failure::Malformed), "{wrong:?}");
    }
    assert_eq!(fed(b"HTTP/1.1 400 Bad Request\r\n\r\n", 3).0, Err(Failure::NoHttp2));
}

#[test]
fn one_stream_fails_and_the_others_go_on() {
    let settings: (u8, u8, u32, &[u8]) = (SETTINGS, 0, 0, &[]);
    let after = |frame: (u8, u8, u32, &[u8])| fed(&frames(&[settings, frame]), 1000);
    let code = |code: u32| code.to_be_bytes();
    assert_eq!(after((RST_STREAM, 0, 1, &code(2))).1, [Event::Failed(0, Failure::StreamReset)]);
    assert_eq!(after((RST_STREAM, 0, 1, &code(REFUSED_STREAM))).1, [Event::Unprocessed(0)]);
    assert_eq!(after((RST_STREAM, 0, 3, &code(HTTP_1_1_REQUIRED))).1, [Event::Failed(1, Failure::NoHttp2)]);
    for strange in ["abc", "", "2000", "99999999999999999999"] {
        let strange = block(&[(":status", strange)]);
        let (outcome, events, _, session) = after((HEADERS, END_HEADERS, 1, &strange));
        assert_eq!((outcome, events, session.under_way()), (Ok(()), vec![Event::Failed(0, Failure::Malformed)], 1));
    }
    // The server leaves after the first stream.
    let (_, events, _, session) = after((GOAWAY, 0, 0, &[0, 0, 0, 1, 0, 0, 0, 0]));
    assert_eq!(events, [Event::Unprocessed(1)]);
    assert!(!session.has_room() && !session.is_over());
}

/// A body that ends before its length was a success, where in HTTP/1.1 it is none.
#[test]
fn a_body_of_another_length_than_its_head_says_is_no_answer() {
    let head = |length: &str| block(&[(":status", "200"), ("content-length", length)]);
    let after = |length: &str, flags: u8, body: Option<&[u8]>| {
        let settings: (u8, u8, u32, &[u8]) = (SETTINGS, 0, 0, &[]);
        let head = head(length);
        let mut list = vec![settings, (HEADERS, END_HEADERS | flags, 1, &head[..])];
        list.extend(body.map(|body| (DATA, END_STREAM, 1, body)));
        fed(&frames(&list), 7).1
    };
    let malformed = [Event::Failed(0, Failure::Malformed)];
    assert_eq!(after("5", 0, Some(&b"hello"[..])), [Event::Done(0)]);
    for (length, body) in [("5", "hell"), ("4", "hello"), ("-5", "hello"), ("", "")] {
        assert_eq!(after(length, 0, Some(body.as_bytes())), malformed, "{length} {body}");
    }
    assert_eq!(after("5", END_STREAM, None), malformed);
    // Of HEAD, and where nothing has changed, the length is that of another answer.
    let (mut session, mut table, mut events) = (Session::new(100), table(2), Vec::new());
    table.0[0].no_body = true;
    session.request(0, Block::Once(&block(&[(":method", "HEAD")])), None);
    session.request(1, Block::Once(&block(&[(":method", "GET")])), None);
    let same = block(&[(":status", "304"), ("content-length", "5")]);
    let (head, ended) = (head("5"), END_HEADERS | END_STREAM);
    let list = [(SETTINGS, 0, 0, &[][..]), (HEADERS, ended, 1, &head[..]), (HEADERS, ended, 3, &same[..])];
    assert_eq!(session.feed(&frames(&list), &mut table, &mut events), Ok(()));
    assert_eq!(events, [Event::Done(0), Event::Done(1)]);
}

#[test]
fn nothing_goes_on_for_ever() {
    let settings: (u8, u8, u32, &[u8]) = (SETTINGS, 0, 0, &[]);
    let mut list = vec![settings, (HEADERS, 0, 1, &[][..])];
    list.extend([(CONTINUATION, 0, 1, &[][..]); 40]);
    assert_eq!(fed(&frames(&list), 1000).0, Err(Failure::HeadTooLarge));
    let long = vec![0_u8; LONGEST_FRAME];
    list.truncate(2);
    list.extend([(CONTINUATION, 0, 1, &long[..]); 5]);
    assert_eq!(fed(&frames(&list), 1000).0, Err(Failure::HeadTooLarge));
    assert_eq!(fed(&frames(&[settings, (DATA, 0, 1, &vec![0; LONGEST_FRAME + 1])]), 1000).0, Err(Failure::Malformed));
}

/// A body goes as far as the windows let it, stream and connection, and on when they are widened.
#[test]
fn bodies_keep_to_the_windows() {
    let (mut session, mut table, mut events) = (Session::new(100), table(1), Vec::new());
    let body = vec![b'x'; 200_000];
    session.request(0, Block::Once(&block(&[(":method", "POST")])), Some(body.into()));
    let sent = |session: &mut Session| {
        session.fill(0);
        let out = std::mem::take(&mut session.out);
        out.iter().filter(|byte| **byte == b'x').count()
    };
    assert_eq!(sent(&mut session), 65_535);
    let feed = |session: &mut Session, list: &[_], table: &mut Table, events: &mut Vec<Event>| {
        session.feed(&frames(list), table, events).expect("sound frames");
    };
    feed(&mut session, &[(SETTINGS, 0, 0, &[][..])], &mut table, &mut events);
    let (some, many) = (100_000_u32.to_be_bytes(), 1_000_000_u32.to_be_bytes());
    feed(&mut session, &[(WINDOW_UPDATE, 0, 1, &some[..])], &mut table, &mut events);
    assert_eq!(sent(&mut session), 0, "the connection's window is used up");
    feed(&mut session, &[(WINDOW_UPDATE, 0, 0, &many[..])], &mut table, &mut events);
    assert_eq!(sent(&mut session), 100_000);
    // The initial window of all streams grows by what a new setting says.
    feed(&mut session, &[(SETTINGS, 0, 0, &b"\0\x04\0\x02\0\0"[..])], &mut table, &mut events);
    assert_eq!(sent(&mut session), 200_000 - 165_535);
    let answer = block(&[(":status", "200")]);
    feed(&mut session, &[(HEADERS, END_HEADERS | END_STREAM, 1, &answer[..])], &mut table, &mut events);
    assert_eq!(events, [Event::Done(0)]);
}

/// A session with one request, and what becomes of it when the server sends `list`.
fn after(list: &[(u8, u8, u32, &[u8])]) -> Result<(), Failure> {
    let settings: (u8, u8, u32, &[u8]) = (SETTINGS, 0, 0, &[]);
    fed(&frames(&[&[settings], list].concat()), 1 << 20).0
}

#[test]
fn frames_that_bring_no_answer_further_are_a_flood() {
    let ok = block(&[(":status", "200")]);
    let (hint, one) = (block(&[(":status", "103")]), 1_u32.to_be_bytes());
    let head: (u8, u8, u32, &[u8]) = (HEADERS, END_HEADERS, 1, &ok);
    let kinds: [(u8, u8, u32, &[u8]); 10] = [
        (SETTINGS, 0, 0, &[]),
        (SETTINGS, ACK, 0, &[]),
        (PING, 0, 0, b"12345678"),
        (PING, ACK, 0, b"12345678"),
        (PRIORITY, 0, 5, b"12345"),
        (WINDOW_UPDATE, 0, 0, &one),
        (99, 0, 0, b"unknown"),
        (HEADERS, END_HEADERS, 3, &hint),
        (DATA, 0, 1, &[]),
        (DATA, PADDED, 1, b"\x03\0\0\0"),
    ];
    for kind in kinds {
        let flood = [vec![head], vec![kind; MOST_CONTROL_FRAMES as usize + 1]].concat();
        assert_eq!(after(&flood), Err(Failure::Flood), "kind {}", kind.0);
        // Where nobody has to answer, as many as an answer may need are not flood.
        if !matches!(kind.0, SETTINGS | PING) {
            assert_eq!(after(&flood[..flood.len() / 2]), Ok(()), "kind {}", kind.0);
        }
    }
    // Of a stream that is over.
    let over: (u8, u8, u32, &[u8]) = (HEADERS, END_HEADERS | END_STREAM, 1, &ok);
    for kind in [(RST_STREAM, 0, 1, &one[..]), (DATA, 0, 1, &[]), over] {
        let flood = [vec![over], vec![kind; MOST_CONTROL_FRAMES as usize + 1]].concat();
        assert_eq!(after(&flood), Err(Failure::Flood), "kind {}", kind.0);
    }
}

/// A server that asks for replies and reads none is one whose replies do not pile up.
#[test]
fn replies_wait_until_the_server_reads_and_are_bounded() {
    let (mut session, mut table, mut events) = (Session::new(100), table(1), Vec::new());
    session.fill(0);
    session.out.clear();
    let settings = frames(&[(SETTINGS, 0, 0, &[])]);
    let mut queued = 0;
    let mut outcome = Ok(());
    while outcome.is_ok() {
        queued += 1;
        outcome = session.feed(&settings, &mut table, &mut events);
        session.fill(MOST_AHEAD);
        assert!(session.out.is_empty() && session.replies.len() <= MOST_REPLY_BYTES + 9);
    }
    assert_eq!((outcome, queued), (Err(Failure::Flood), MOST_REPLY_BYTES / 9 + 1));
}

/// A credit that is used up is earned again by answers, and uploads come with widened windows.
#[test]
fn answers_and_uploads_earn_control_frames() {
    let (mut session, mut table, mut events) = (Session::new(100), table(2), Vec::new());
    let get = block(&[(":method", "GET")]);
    let (ok, one) = (block(&[(":status", "200")]), 1_u32.to_be_bytes());
    let many = vec![(WINDOW_UPDATE, 0, 0, &one[..]); MOST_CONTROL_FRAMES as usize - 10];
    session.feed(&frames(&[(SETTINGS, 0, 0, &[])]), &mut table, &mut events).expect("sound");
    for id in [1, 3, 5] {
        session.request(0, Block::Once(&get), None);
        let answer = [(HEADERS, END_HEADERS | END_STREAM, id, &ok[..])];
        session.feed(&frames(&[&many[..], &answer].concat()), &mut table, &mut events).expect("no flood");
    }
    session.request(1, Block::Once(&get), Some(vec![0; 60_000].into()));
    session.fill(0);
    let granted = session.control_credit;
    assert_eq!(granted, MOST_CONTROL_FRAMES + 4 * CONTROL_FRAMES_PER_DATA, "60,000 bytes are four frames");
}

/// What is queued for streams that have ended is bounded too: a server that answers without reading is one.
#[test]
fn a_server_that_answers_and_reads_nothing_is_abandoned() {
    let (mut session, mut table, mut events) = (Session::new(100), table(1), Vec::new());
    let (get, ok) = (vec![0; 10_000], block(&[(":status", "200")]));
    session.feed(&frames(&[(SETTINGS, 0, 0, &[])]), &mut table, &mut events).expect("sound");
    let mut backlog = 0;
    let mut answered = 0;
    while !session.is_abandoned(backlog) {
        session.request(0, Block::Once(&get), None);
        session.fill(backlog);
        backlog += std::mem::take(&mut session.out).len();
        let answer = frames(&[(HEADERS, END_HEADERS | END_STREAM, 1 + 2 * answered, &ok)]);
        session.feed(&answer, &mut table, &mut events).expect("sound");
        answered += 1;
    }
    assert!((120..140).contains(&answered), "{answered} requests of 10 kB");
    // As much of requests that are under way is none of that.
    let mut session = Session::new(1000);
    (0..500).for_each(|_| session.request(0, Block::Once(&get), None));
    let waiting = std::mem::take(&mut session.out).len();
    assert!(waiting > 4_000_000 && !session.is_abandoned(waiting));
}

/// Of a body no more is queued than a bound, whatever the windows allow.
#[test]
fn bodies_wait_for_the_kernel_where_windows_do_not_end() {
    let (mut session, mut table, mut events) = (Session::new(100), table(1), Vec::new());
    session.request(0, Block::Once(&block(&[(":method", "POST")])), Some(vec![0; 8 << 20].into()));
    let wide = 0x3fff_ffff_u32.to_be_bytes();
    let list = [(SETTINGS, 0, 0, &[][..]), (WINDOW_UPDATE, 0, 0, &wide), (WINDOW_UPDATE, 0, 1, &wide)];
    session.feed(&frames(&list), &mut table, &mut events).expect("sound");
    session.fill(0);
    assert!((MOST_AHEAD..MOST_AHEAD + 2 * LONGEST_FRAME).contains(&session.out.len()), "{}", session.out.len());
    let before = session.out.len();
    session.fill(0);
    assert_eq!(session.out.len(), before);
    session.out.clear();
    session.fill(MOST_AHEAD / 2);
    assert!((MOST_AHEAD / 2..MOST_AHEAD).contains(&session.out.len()), "{}", session.out.len());
}

/// The first request that is the same for all is taught on a connection and named from then on; a server that takes its
/// table away is told once that we know, and gets the whole again.
#[test]
fn what_is_the_same_is_said_once() {
    let fixed = |path: &str| Arc::new(hpack::Fixed::new(block(&[(":method", "GET"), (":path", path)])));
    let (one, other) = (fixed("/one"), fixed("/other"));
    let mut session = Session::new(100);
    let sent = |session: &mut Session, fixed: &Arc<hpack::Fixed>| {
        session.out.clear();
        session.request(0, Block::Fixed(fixed), None);
        session.out[9..].to_vec()
    };
    let (first, again) = one.taught.clone().expect("small");
    assert_eq!(sent(&mut session, &one), first);
    assert_eq!(sent(&mut session, &one), again);
    assert_eq!(sent(&mut session, &other), other.plain);
    assert_eq!(again, [0x82, 0xbe]);
    let feed = |session: &mut Session, size: u32| {
        let setting = [&[0, 1][..], &size.to_be_bytes()].concat();
        session.feed(&frames(&[(SETTINGS, 0, 0, &setting)]), &mut table(1), &mut Vec::new()).expect("sound");
    };
    feed(&mut session, 65_536);
    assert_eq!(sent(&mut session, &one), again);
    feed(&mut session, 0);
    assert_eq!(sent(&mut session, &one), [&[0x20][..], &one.plain].concat());
    feed(&mut session, 4096);
    assert_eq!(sent(&mut session, &one), one.plain);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn mutated_frames_never_panic_and_pieces_do_not_matter(
        changes in proptest::collection::vec((0..1000_usize, any::<u8>()), 0..6), size in 1..60_usize,
    ) {
        let mut stream = answers();
        for (at, byte) in changes {
            let at = at % stream.len();
            stream[at] = byte;
        }
        let (whole, pieces) = (fed(&stream, stream.len()), fed(&stream, size));
        prop_assert_eq!((whole.0, whole.1), (pieces.0, pieces.1));
    }
}
