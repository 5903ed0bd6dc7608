//! The pages of a site that is served: made one at a time, each once for what the store has, and shared by all who request it.
//!
//! Memory is bounded whatever is requested and however slowly it is read: one document is in memory at a time, of each run only its part of
//! the index is kept, and pages that are kept or still being sent are counted. Whoever would exceed that is refused.

use super::changes;
use crate::context::Context;
use crate::exit::Refusal;
use crate::watch::say;
use crate::{record, sides};
use baremark_lab::history::Recorded;
use baremark_report::html;
use baremark_report::site::feed::ChangePoint;
use baremark_report::site::{About, Entry, FEED, INDEX, is_shard, render};
use baremark_store::{RunId, RunState, RunSummary};
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// Bytes of reports that are kept for the next request, and of all pages that are kept or being sent.
const KEPT: usize = 32 << 20;
const IN_MEMORY: usize = 256 << 20;
/// How long a request waits for runs that have not been read; what is left is read between requests ([`Pages::read_on`]).
pub const READING: Duration = Duration::from_millis(300);

/// Media types.
const HTML: &str = "text/html; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const ATOM: &str = "application/atom+xml; charset=utf-8";

/// The runs of a store.
pub trait Runs: Send {
    /// All of them.
    fn list(&self) -> Result<Vec<RunSummary>, Refusal>;
    /// What the index needs of a run.
    fn part(&self, run: &RunSummary) -> Result<Part, Refusal>;
    /// The report of a run, as a page.
    fn report(&self, run: &RunSummary) -> Result<String, Refusal>;
}

/// What the index has of a run.
pub struct Part {
    entry: Entry,
    /// `None` of a run that has not finished: it has no place in a history yet.
    recorded: Option<Recorded>,
}

impl Runs for Context {
    fn list(&self) -> Result<Vec<RunSummary>, Refusal> {
        record::open_existing(self)?.runs().map_err(Refusal::failure)
    }

    fn part(&self, run: &RunSummary) -> Result<Part, Refusal> {
        let document = sides::stored(&record::open_existing(self)?, run.id.as_str())?;
        let page = format!("{}.html", run.id);
        let entry = Entry::of(&document, &page, run.state.word(), run.state == RunState::Live);
        let recorded = (run.state == RunState::Finished).then(|| Recorded::of(&document));
        Ok(Part { entry, recorded })
    }

    fn report(&self, run: &RunSummary) -> Result<String, Refusal> {
        Ok(html::render_in_site(&sides::stored(&record::open_existing(self)?, run.id.as_str())?))
    }
}

/// A page as it is sent.
#[derive(Debug)]
pub struct Page {
    /// HTML, a script or a feed.
    pub text: String,
    /// Its media type.
    pub media: &'static str,
    /// Whether what it shows is still being measured, or read.
    pub live: bool,
}

/// Which page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// The index, what it loads, or the feed, by the name of the file.
    Site(String),
    /// The report of the run of this name.
    Report(String),
}

impl Address {
    /// Of a file's name; none of any other.
    pub fn of(name: &str) -> Option<Address> {
        match name {
            "" => Some(Address::Site(INDEX.to_owned())),
            INDEX | FEED => Some(Address::Site(name.to_owned())),
            shard if is_shard(shard) => Some(Address::Site(shard.to_owned())),
            report => Some(Address::Report(report.strip_suffix(".html")?.to_owned())),
        }
    }
}

/// What a request comes to.
#[derive(Debug)]
pub enum Answer {
    /// The page.
    Page(Arc<Page>),
    /// The store has no such run.
    Missing,
    /// As many pages as allowed are in memory.
    Busy,
}

/// The index and all that belongs to it.
struct Made {
    /// What it is of, and how many of these runs were unread.
    list: Vec<RunSummary>,
    unread: usize,
    /// By the names of files.
    files: BTreeMap<String, Arc<Page>>,
}

/// The pages, to be asked by one at a time.
pub struct Pages {
    runs: Box<dyn Runs>,
    in_memory: usize,
    list: Vec<RunSummary>,
    /// The last request that was there before the list was read.
    listed_for: u64,
    /// Of each run as it was then; `None` where it cannot be shown.
    parts: BTreeMap<RunId, (RunSummary, Option<Part>)>,
    site: Option<Made>,
    /// The changes over these runs, as they were then: one that is extended keeps its name.
    changes: (Vec<RunSummary>, Vec<ChangePoint>),
    /// How long a request waits for runs that have not been read.
    reading: Duration,
    /// Reports of runs as they were then, the latest request last.
    reports: VecDeque<(RunSummary, Arc<Page>)>,
    made: Vec<Weak<Page>>,
}

impl Pages {
    /// None yet.
    pub fn of(runs: Box<dyn Runs>) -> Pages {
        Pages {
            runs,
            in_memory: IN_MEMORY,
            list: Vec::new(),
            listed_for: 0,
            parts: BTreeMap::new(),
            site: None,
            changes: Default::default(),
            reading: READING,
            reports: VecDeque::new(),
            made: Vec::new(),
        }
    }

    /// The page that request number `request`, from 1, is for; `requests` counts those that have come. Requests that waited while another
    /// was answered share one reading of the store.
    pub fn answer(&mut self, address: &Address, request: u64, requests: &AtomicU64) -> Result<Answer, Refusal> {
        if self.listed_for < request {
            let come = requests.load(Ordering::SeqCst);
            self.list = self.runs.list()?;
            self.listed_for = come;
        }
        match address {
            Address::Site(name) => Ok(self.file(name)),
            Address::Report(name) => self.report(name),
        }
    }

    /// A file of the site. While its index is out of date, whoever asks for the index gets another, and whoever asks for what belongs to it
    /// gets what belongs to the one that they have.
    fn file(&mut self, name: &str) -> Answer {
        let whole = name == INDEX || name == FEED;
        let unread = if whole || self.site.is_none() { self.read_some(self.reading) } else { 0 };
        let is_current = |made: &Made| made.list == self.list && made.unread == unread;
        if self.site.is_none() || whole && !self.site.as_ref().is_some_and(is_current) {
            // One that is out of date is kept by those alone to whom it is still being sent.
            self.site = None;
            if self.is_full() {
                return Answer::Busy;
            }
            let files = self.made_site(unread);
            self.made.extend(files.values().map(Arc::downgrade));
            self.site = Some(Made { list: self.list.clone(), unread, files });
        }
        let found = self.site.as_ref().and_then(|made| made.files.get(name));
        found.map_or(Answer::Missing, |page| Answer::Page(Arc::clone(page)))
    }

    fn made_site(&mut self, unread: usize) -> BTreeMap<String, Arc<Page>> {
        let parts: Vec<&Part> = self.list.iter().filter_map(|run| self.parts.get(&run.id)?.1.as_ref()).collect();
        let entries: Vec<&Entry> = parts.iter().map(|part| &part.entry).collect();
        // Changes take the longest of all, and are the same until another run has finished.
        let finished = |run: &&RunSummary| run.state == RunState::Finished;
        let of: Vec<RunSummary> = self.list.iter().filter(finished).cloned().collect();
        if unread == 0 && of != self.changes.0 {
            let recorded: Vec<&Recorded> = parts.iter().filter_map(|part| part.recorded.as_ref()).collect();
            self.changes = (of, changes::points(&recorded, |run| Some(format!("{run}.html"))));
        }
        let follow = unread > 0 || self.list.iter().any(|run| run.state == RunState::Live);
        let uuid = changes::site(self.list.iter().map(|run| run.id.as_str()));
        let about = About { uuid, changes: self.changes.1.clone(), unread, follow };
        let site = render(&entries, &about);
        // The index loads itself again; only reports are loaded again by a header.
        let page = |text, media| Arc::new(Page { text, media, live: false });
        let mut files: BTreeMap<String, Arc<Page>> =
            site.shards.into_iter().map(|(name, text)| (name, page(text, SCRIPT))).collect();
        files.insert(INDEX.to_owned(), page(site.index, HTML));
        files.insert(FEED.to_owned(), page(site.feed, ATOM));
        files
    }

    /// Reads runs ahead of requests, for this long; whether some are left.
    pub fn read_on(&mut self, most: Duration) -> Result<bool, Refusal> {
        if self.listed_for == 0 {
            self.list = self.runs.list()?;
        }
        Ok(self.read_some(most) > 0)
    }

    /// Reads the runs that have changed, one after the other and at least one, the latest first; how many are left after this long. A run that
    /// cannot be shown is named once, and left out.
    fn read_some(&mut self, most: Duration) -> usize {
        let begun = Instant::now();
        let mut before = std::mem::take(&mut self.parts);
        let (mut left, mut any) = (0, false);
        for run in &self.list {
            let known = before.remove(&run.id);
            let is_current = known.as_ref().is_some_and(|(of, _)| of == run);
            let is_over = any && begun.elapsed() >= most;
            let part = match known {
                // What is known of a run that goes on is shown until there is time for more.
                Some(known) if is_current || is_over => {
                    left += usize::from(!is_current);
                    known
                }
                None if is_over => {
                    left += 1;
                    continue;
                }
                _ => {
                    any = true;
                    let read = self.runs.part(run).inspect_err(|why| say(format_args!("error: {}", why.message)));
                    (run.clone(), read.ok())
                }
            };
            self.parts.insert(run.id.clone(), part);
        }
        left
    }

    fn report(&mut self, name: &str) -> Result<Answer, Refusal> {
        let Some(run) = self.list.iter().find(|run| run.id.as_str() == name).cloned() else {
            return Ok(Answer::Missing);
        };
        let kept = self.reports.iter().position(|(of, _)| of.id == run.id).and_then(|at| self.reports.remove(at));
        let page = match kept.filter(|(of, _)| *of == run) {
            Some((_, page)) => page,
            None if self.is_full() => return Ok(Answer::Busy),
            None => {
                let live = run.state == RunState::Live;
                let page = Arc::new(Page { text: self.runs.report(&run)?, media: HTML, live });
                self.made.push(Arc::downgrade(&page));
                page
            }
        };
        self.reports.push_back((run, Arc::clone(&page)));
        // The last one stays, however large: whoever waits for it shares it.
        while self.reports.len() > 1 && self.reports.iter().map(|(_, page)| page.text.len()).sum::<usize>() > KEPT {
            self.reports.pop_front();
        }
        Ok(Answer::Page(page))
    }

    /// Whether the pages that are kept or being sent leave no memory for another.
    fn is_full(&mut self) -> bool {
        let bytes =
            |made: &[Weak<Page>]| made.iter().filter_map(Weak::upgrade).map(|page| page.text.len()).sum::<usize>();
        self.made.retain(|page| page.strong_count() > 0);
        while bytes(&self.made) >= self.in_memory && self.reports.pop_front().is_some() {}
        bytes(&self.made) >= self.in_memory
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
pub mod tests {
    use super::*;
    use baremark_model::units::UnixTime;
    use std::sync::Mutex;
    use std::sync::atomic::Ordering::SeqCst;

    /// A store that is played: its runs, and how often each thing was read.
    #[derive(Clone, Default)]
    pub struct Played {
        pub runs: Arc<Mutex<Vec<RunSummary>>>,
        pub listed: Arc<AtomicU64>,
        pub read: Arc<AtomicU64>,
        pub rendered: Arc<AtomicU64>,
        /// Bytes of a report.
        pub bytes: usize,
    }

    impl Played {
        pub fn with(runs: u64) -> Played {
            let played = Played::default();
            *played.runs.lock().unwrap() = (0..runs).map(|number| run(number, RunState::Finished)).collect();
            played
        }

        /// Its pages, for which a request waits as long as it takes: how fast runs are read is the machine's business.
        pub fn pages(&self) -> Pages {
            Pages { reading: Duration::MAX, ..Pages::of(Box::new(self.clone())) }
        }
    }

    impl Runs for Played {
        fn list(&self) -> Result<Vec<RunSummary>, Refusal> {
            self.listed.fetch_add(1, SeqCst);
            Ok(self.runs.lock().unwrap().clone())
        }

        fn part(&self, run: &RunSummary) -> Result<Part, Refusal> {
            self.read.fetch_add(1, SeqCst);
            match run.title.as_str() {
                "damaged" => Err(Refusal::failure("run is damaged")),
                _ => Ok(Part { entry: Entry::default(), recorded: Some(Recorded::default()) }),
            }
        }

        fn report(&self, run: &RunSummary) -> Result<String, Refusal> {
            self.rendered.fetch_add(1, SeqCst);
            Ok(run.id.to_string() + &" ".repeat(self.bytes))
        }
    }

    pub fn run(number: u64, state: RunState) -> RunSummary {
        RunSummary {
            id: format!("20261126-0405-{number:04x}").parse().unwrap(),
            title: "a study".to_owned(),
            study_file: "study.toml".to_owned(),
            started: UnixTime(number),
            ended: None,
            stop_reason: None,
            trials: 0,
            blocks: 0,
            contents: 0,
            state,
        }
    }

    fn address(number: u64) -> Address {
        Address::Report(run(number, RunState::Finished).id.to_string())
    }

    fn index() -> Address {
        Address::of("").unwrap()
    }

    /// A request that comes when all before it have been answered.
    fn next(pages: &mut Pages, address: &Address) -> Answer {
        let request = pages.listed_for + 1;
        pages.answer(address, request, &AtomicU64::new(request)).unwrap()
    }

    fn page(answer: Answer) -> Arc<Page> {
        match answer {
            Answer::Page(page) => page,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_page_is_made_once_and_the_same_one_is_given_to_all() {
        let played = Played::with(20);
        let mut pages = played.pages();
        let first = page(next(&mut pages, &index()));
        let report = page(next(&mut pages, &address(3)));
        for _ in 0..50 {
            assert!(Arc::ptr_eq(&page(next(&mut pages, &index())), &first));
            assert!(Arc::ptr_eq(&page(next(&mut pages, &address(3))), &report));
        }
        assert_eq!((played.read.load(SeqCst), played.rendered.load(SeqCst)), (20, 1));
        assert!(matches!(next(&mut pages, &address(99)), Answer::Missing));
    }

    #[test]
    fn only_runs_that_have_changed_are_read_again() {
        let played = Played::with(20);
        played.runs.lock().unwrap().push(run(20, RunState::Live));
        let mut pages = played.pages();
        let first = page(next(&mut pages, &index()));
        let report = page(next(&mut pages, &address(20)));
        assert!(first.text.contains("location.reload") && report.live);
        played.runs.lock().unwrap()[20].contents = 7;
        assert!(!Arc::ptr_eq(&page(next(&mut pages, &index())), &first));
        assert!(!Arc::ptr_eq(&page(next(&mut pages, &address(20))), &report));
        assert_eq!((played.read.load(SeqCst), played.rendered.load(SeqCst)), (22, 2));
        played.runs.lock().unwrap()[20].state = RunState::Finished;
        assert!(!page(next(&mut pages, &index())).text.contains("location.reload"));
        played.runs.lock().unwrap().clear();
        page(next(&mut pages, &index()));
        assert!(pages.parts.is_empty(), "of a run that is gone nothing is kept");
    }

    #[test]
    fn a_run_that_cannot_be_shown_is_left_out_and_read_once() {
        let played = Played::with(2);
        played.runs.lock().unwrap()[0].title = "damaged".to_owned();
        let mut pages = played.pages();
        assert!(page(next(&mut pages, &index())).text.contains("<h1>1 run</h1>"));
        played.runs.lock().unwrap()[1].contents = 7;
        page(next(&mut pages, &index()));
        assert_eq!(played.read.load(SeqCst), 3);
    }

    /// The index does not wait for ten thousand runs: it has those that were read, says how many are left, and is another when they are there.
    #[test]
    fn what_was_not_read_in_time_is_counted_and_follows() {
        let played = Played::with(3);
        let mut pages = Pages { reading: Duration::ZERO, ..played.pages() };
        for (read, left) in [(1, "2 runs still to be read"), (2, "1 run still to be read")] {
            let early = page(next(&mut pages, &index()));
            assert!(early.text.contains("location.reload") && early.text.contains(left), "{}", early.text);
            assert_eq!(played.read.load(SeqCst), read, "one for each request");
        }
        assert!(!pages.read_on(Duration::ZERO).unwrap());
        let whole = page(next(&mut pages, &index()));
        assert!(
            !whole.text.contains("location.reload")
                && whole.text.contains("<h1>3 runs</h1>")
                && !whole.text.contains("still to be read")
        );
        assert_eq!(played.read.load(SeqCst), 3);
    }

    #[test]
    fn files_of_the_site_are_found_by_their_names() {
        let mut pages = Pages::of(Box::new(Played::with(2)));
        for (name, begins) in [(INDEX, "<!doctype html>"), (FEED, "<?xml"), ("runs-0.js", "baremark.runs(")] {
            let found = page(next(&mut pages, &Address::of(name).unwrap()));
            assert!(found.text.starts_with(begins), "{name}: {:.80}", found.text);
        }
        assert!(matches!(next(&mut pages, &Address::of("runs-9.js").unwrap()), Answer::Missing));
        assert_eq!(
            ["runs-.js", "x.js", "", "changes.xml"].map(|name| Address::of(name).is_some()),
            [false, false, true, false]
        );
    }

    /// Requests that came while another was answered are covered by the next reading, one that comes later is not.
    #[test]
    fn requests_that_waited_share_a_reading_of_the_store() {
        let played = Played::with(1);
        let mut pages = played.pages();
        let requests = AtomicU64::new(50);
        for request in 1..=50 {
            page(pages.answer(&index(), request, &requests).unwrap());
        }
        assert_eq!(played.listed.load(SeqCst), 1);
        requests.store(51, SeqCst);
        page(pages.answer(&index(), 51, &requests).unwrap());
        assert_eq!(played.listed.load(SeqCst), 2);
    }

    #[test]
    fn pages_that_are_kept_or_being_sent_are_bounded() {
        let played = Played { bytes: 1000, ..Played::with(50) };
        let mut pages = Pages { in_memory: 10_000, ..played.pages() };
        let sending: Vec<Arc<Page>> = (0..10).map(|number| page(next(&mut pages, &address(number)))).collect();
        assert!(matches!(next(&mut pages, &address(10)), Answer::Busy));
        assert!(matches!(next(&mut pages, &index()), Answer::Busy));
        drop(sending);
        page(next(&mut pages, &address(11)));
        assert_eq!(played.rendered.load(SeqCst), 11, "nothing is made for who is refused");

        let large = Played { bytes: KEPT + 1, ..Played::with(2) };
        let mut pages = Pages::of(Box::new(large.clone()));
        let first = page(next(&mut pages, &address(0)));
        assert!(Arc::ptr_eq(&first, &page(next(&mut pages, &address(0)))), "whoever waits for it shares it");
        drop(first);
        page(next(&mut pages, &address(1)));
        assert_eq!((large.rendered.load(SeqCst), pages.reports.len()), (2, 1));
    }
}
