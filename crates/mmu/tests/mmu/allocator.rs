//! In which order a page allocator of Linux 2.6.18 keeps its free memory, which the placement prior of A2 rests on.
//!
//! Only what decides the order is here: blocks of 4 MiB on one list; the block at its head is handed out in batches of 31
//! pages to CPUs that touch their arrays side by side; freed pages wait in a list of each CPU, go back oldest first, and a block
//! whose pages are all back goes to the head (`mm/page_alloc.c`: `buffered_rmqueue`, `free_pages_bulk`, `__free_one_page`).

use baremark_mmu::random::Random;
use std::collections::VecDeque;

const CPUS: usize = 4;
const BATCH: usize = 31;
const HELD: usize = 186;
const BLOCK: usize = 1024;
/// Blocks of the shortest run that counts.
const LEAST: usize = 4;

struct Allocator {
    list: VecDeque<usize>,
    open: Vec<usize>,
    free: Vec<usize>,
}

/// The blocks of an array's pages in the order of its addresses, by CPU.
type Arrays = Vec<Vec<usize>>;

impl Allocator {
    fn fresh(blocks: usize) -> Self {
        Allocator { list: (0..blocks).rev().collect(), open: Vec::new(), free: vec![BLOCK; blocks] }
    }

    fn batch(&mut self) -> Vec<usize> {
        let mut taken = Vec::new();
        while taken.len() < BATCH {
            let block = match self.open.pop() {
                Some(page) => page,
                None => {
                    let block = self.list.pop_front().expect("memory is large enough");
                    self.open = vec![block; BLOCK];
                    continue;
                }
            };
            self.free[block] -= 1;
            taken.push(block);
        }
        taken
    }

    /// Every CPU touches an array of so many pages: clearing them is what takes time, so the CPUs keep pace but for some batches.
    fn touch(&mut self, pages: usize, random: &mut Random) -> Arrays {
        let mut arrays: Arrays = vec![Vec::new(); CPUS];
        while arrays.iter().any(|array| array.len() < pages) {
            let cpu = random.below(CPUS as u64) as usize;
            let times = 1 + random.below(4);
            for _ in 0..times {
                if arrays[cpu].len() < pages {
                    let batch = self.batch();
                    arrays[cpu].extend(batch);
                }
            }
        }
        arrays
    }

    /// Every CPU gives its array back in the order of its addresses, at a pace of its own that changes.
    fn give_back(&mut self, arrays: &Arrays, random: &mut Random) {
        let mut at = [0; CPUS];
        let mut held: [VecDeque<usize>; CPUS] = Default::default();
        while (0..CPUS).any(|cpu| at[cpu] < arrays[cpu].len()) {
            let cpu = random.below(CPUS as u64) as usize;
            for _ in 0..random.below(5000) {
                let Some(block) = arrays[cpu].get(at[cpu]) else { break };
                at[cpu] += 1;
                held[cpu].push_back(*block);
                if held[cpu].len() > HELD {
                    held[cpu].drain(..BATCH).for_each(|block| self.page_is_back(block));
                }
            }
        }
        // What is still held is taken first by the next one who asks: as good as free here.
        held.into_iter().flatten().for_each(|block| self.page_is_back(block));
    }

    fn page_is_back(&mut self, block: usize) {
        self.free[block] += 1;
        if self.free[block] == BLOCK {
            // What was not yet handed out of it is part of the whole again.
            self.open.retain(|open| *open != block);
            self.list.push_front(block);
        }
    }

    /// The share, of the first `most` blocks, of those in runs of at least `least` in which each lies so near to the last one.
    fn in_runs(&self, least: usize, most: usize) -> f64 {
        let blocks: Vec<usize> = self.list.iter().copied().take(most).collect();
        let runs = blocks.chunk_by(|a, b| a.abs_diff(*b) <= least);
        let long: usize = runs.map(<[usize]>::len).filter(|run| *run >= least).sum();
        long as f64 / blocks.len() as f64
    }
}

#[test]
fn arrays_that_processes_free_side_by_side_leave_memory_in_long_runs() {
    let mut random = Random::new(2618);
    // An eighth of the published sizes: 22 GiB of memory, tables of 2 GiB, other arrays of a third of 3.2 GB.
    let mut allocator = Allocator::fresh(22 * 256 / 8);
    let (table, third) = ((2 << 18) / 8, 260_000 / 8);
    let span = 4 * table / BLOCK;
    for round in 0..6 {
        let arrays = allocator.touch(table, &mut random);
        allocator.give_back(&arrays, &mut random);
        let tables = allocator.in_runs(LEAST, span);
        let several: Vec<Arrays> = (0..3).map(|_| allocator.touch(third, &mut random)).collect();
        several.iter().for_each(|arrays| allocator.give_back(arrays, &mut random));
        let others = allocator.in_runs(LEAST, span);
        println!("round {round}, in runs of 16 MiB and more: {tables:.2} after tables, {others:.2} after three arrays");
        assert!(tables > 0.6 && others > 0.6, "round {round}: {tables} after tables, {others} after three arrays");
    }
    // The measure can fail: in no order, next to nothing lies in runs.
    for at in (1..allocator.list.len()).rev() {
        allocator.list.swap(at, random.below(at as u64 + 1) as usize);
    }
    assert!(allocator.in_runs(LEAST, span) < 0.2, "shuffled: {}", allocator.in_runs(LEAST, span));
}
