//! What translations decided, recorded and played again for addresses that are as likely to decide the same.
//!
//! Where each address is drawn independently of all before it, whether a TLB or a paging-structure cache holds its translation
//! depends on what went before and not on which address it is. So of a group of addresses the decisions are found by touching
//! every structure; the next groups take the same decisions in the same order, make the references that follow from these to
//! entries of their own, and touch no structure but the caches (systematic sampling with functional warming, after Wunderlich,
//! Wenisch, Falsafi & Hoe, "SMARTS", ISCA 2003). What is lost is the correlation between a page used lately and the caches
//! that hold its entries; `make bench-mmu` prints what that and the sampled lines miss together.

/// Addresses of a group.
const GROUP: u32 = 64;

/// The tape.
#[derive(Debug)]
pub(crate) struct Tape {
    decisions: Vec<u8>,
    next: usize,
    playing: bool,
    /// Addresses left in this group.
    left: u32,
    /// Groups left that play what was recorded.
    again: u32,
    repeats: u32,
}

impl Tape {
    /// Each recorded group is played `repeats` times.
    pub(crate) fn new(repeats: u32) -> Self {
        Tape { decisions: Vec::new(), next: 0, playing: false, left: GROUP, again: 0, repeats }
    }

    /// Goes on to the next address.
    #[inline]
    pub(crate) fn advance(&mut self) {
        if self.repeats > 0 {
            if self.left == 0 {
                self.turn();
            }
            self.left -= 1;
        }
    }

    fn turn(&mut self) {
        self.left = GROUP;
        self.next = 0;
        self.again = if self.playing { self.again - 1 } else { self.repeats };
        self.playing = self.again > 0;
        if !self.playing {
            self.decisions.clear();
        }
    }

    /// The next decision: what `live` finds, or what was recorded.
    #[inline]
    pub(crate) fn decide(&mut self, live: impl FnOnce() -> u8) -> u8 {
        if self.playing {
            let decision = self.decisions[self.next];
            self.next += 1;
            return decision;
        }
        let decision = live();
        if self.repeats > 0 {
            self.decisions.push(decision);
        }
        decision
    }
}
