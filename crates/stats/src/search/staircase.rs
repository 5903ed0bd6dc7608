//! Where to measure next: up after a pass, down after a failure, in steps that halve at every turn.
//!
//! The one-up one-down staircase (Dixon & Mood 1948) gathers its windows around the level sought and reaches it from
//! both sides. Pure: visits in, next level out, so that a recorded search can be replayed.

/// What a window said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Response {
    /// All operations within their shares.
    Pass,
    /// Some operation beyond its share.
    Fail,
    /// Too few samples: measured again, and never a pass.
    Insufficient,
}

/// One window of a search.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Visit {
    /// The level measured.
    pub level: f64,
    /// What it said.
    pub response: Response,
}

/// What to do next.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Next {
    /// Measure a window at this level.
    Measure {
        /// The level.
        level: f64,
        /// The last window was overloaded: let queues and caches drain first.
        drain: bool,
    },
    /// The search is over.
    Done(End),
}

/// How a search ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// Enough turns at the finest step: fit the windows.
    Turned,
    /// Even the highest level passes: the maximum lies beyond.
    PassesAll,
    /// Even the lowest level fails.
    FailsAll,
    /// A level gave too few samples three times in succession.
    Insufficient,
}

/// The plan of a search.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Staircase {
    /// Lowest level that may be tried.
    pub lowest: f64,
    /// Where the search begins.
    pub start: f64,
    /// Highest level that may be tried.
    pub highest: f64,
    /// The first step.
    pub step: f64,
    /// The step at which the search ends.
    pub finest: f64,
    /// Windows to spend at the finest step.
    pub windows: usize,
}

/// So many times the windows at the finest step are spent where there is no level between them.
const MOST: usize = 2;

impl Staircase {
    /// The next step after these visits, in order.
    pub fn next(&self, visits: &[Visit]) -> Next {
        let walk = self.walk(visits);
        if let Some(end) = walk.end {
            return Next::Done(end);
        }
        // There is a level between windows only where the lowest of them passed and the highest failed.
        let between = walk.fine_ends.is_some_and(|[lowest, highest]| lowest.1 && highest.1);
        if walk.fine >= self.windows && between || walk.fine >= MOST * self.windows {
            return Next::Done(End::Turned);
        }
        let drain = visits.last().is_some_and(|visit| visit.response == Response::Fail);
        Next::Measure { level: walk.level, drain }
    }

    /// Position of the first visit made at the finest step: the windows from here on are fitted. `None` if there is
    /// none.
    pub fn fine_from(&self, visits: &[Visit]) -> Option<usize> {
        let walk = self.walk(visits);
        (walk.fine > 0).then_some(walk.fine_from)
    }

    fn walk(&self, visits: &[Visit]) -> Walk {
        let mut walk = Walk {
            level: self.start.clamp(self.lowest, self.highest),
            step: self.step.max(self.finest),
            last: None,
            same: 0,
            fine: 0,
            fine_from: 0,
            fine_ends: None,
            end: None,
        };
        for (position, visit) in visits.iter().enumerate() {
            self.advance(&mut walk, visit.response, position);
        }
        walk
    }

    fn advance(&self, walk: &mut Walk, response: Response, position: usize) {
        walk.same = if walk.last == Some(response) && walk.stuck(self, response) { walk.same + 1 } else { 1 };
        let turned = matches!(
            (walk.last, response),
            (Some(Response::Pass), Response::Fail) | (Some(Response::Fail), Response::Pass)
        );
        if walk.step <= self.finest && response != Response::Insufficient {
            walk.fine_from = if walk.fine == 0 { position } else { walk.fine_from };
            walk.fine += 1;
            walk.end_at(response);
        }
        if turned {
            walk.step = (0.5 * walk.step).max(self.finest);
        }
        if walk.same >= 3 && walk.stuck(self, response) {
            walk.end = Some(match response {
                Response::Pass => End::PassesAll,
                Response::Fail => End::FailsAll,
                Response::Insufficient => End::Insufficient,
            });
        }
        walk.level = match response {
            Response::Pass => (walk.level + walk.step).min(self.highest),
            Response::Fail => (walk.level - walk.step).max(self.lowest),
            Response::Insufficient => walk.level,
        };
        walk.last = Some(response);
    }
}

/// Where the staircase stands.
struct Walk {
    level: f64,
    step: f64,
    last: Option<Response>,
    /// Equal responses in succession that could not move the level.
    same: usize,
    fine: usize,
    fine_from: usize,
    /// Of those at the finest step the lowest level and whether it passed once, and the highest and whether it failed once.
    fine_ends: Option<[(f64, bool); 2]>,
    end: Option<End>,
}

impl Walk {
    /// Takes a visit at the finest step for one of the ends, where it is one.
    fn end_at(&mut self, response: Response) {
        let level = self.level;
        let [lowest, highest] = self.fine_ends.unwrap_or([(level, false); 2]);
        let (lower, higher) = (level < lowest.0, level > highest.0);
        let passed = level <= lowest.0 && response == Response::Pass || !lower && lowest.1;
        let failed = level >= highest.0 && response == Response::Fail || !higher && highest.1;
        self.fine_ends = Some([(level.min(lowest.0), passed), (level.max(highest.0), failed)]);
    }

    /// Whether the response leaves the level where it is.
    fn stuck(&self, plan: &Staircase, response: Response) -> bool {
        match response {
            Response::Pass => self.level >= plan.highest,
            Response::Fail => self.level <= plan.lowest,
            Response::Insufficient => true,
        }
    }
}
