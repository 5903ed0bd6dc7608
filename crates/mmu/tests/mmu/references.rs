//! References of walks, counted exactly.

use baremark_mmu::counts::Counts;
use baremark_mmu::page::Page::{self, Huge, Large, Small};
use baremark_mmu::predict::{REPEATS, THINNING, drive};
use baremark_mmu::scheme::{Scheme, Setup};
use baremark_mmu::sets::{Geometry, Replacement};
use baremark_mmu::simulator::{MOST_LEVELS, Part, SetupError, Simulator};
use baremark_mmu::stream::{RandomAccess, Stream};
use baremark_mmu::tables::Placement;

pub fn lru(entries: u32, ways: u32) -> Geometry {
    Geometry { entries, ways, replacement: Replacement::Lru }
}

/// TLBs and data caches, and nothing that shortens a walk.
pub fn bare() -> Part {
    Part {
        pages: vec![Small, Large, Huge],
        levels: 5,
        first: [Some(lru(64, 4)), Some(lru(32, 4)), Some(lru(4, 4))],
        second: [Some(lru(512, 4)), None, None],
        walk_caches: [None; MOST_LEVELS + 1],
        nested_walk_caches: [None; MOST_LEVELS + 1],
        nested_tlb: None,
        combined: true,
        caches: vec![lru(512, 8), lru(4096, 8), lru(32768, 16)],
        walker_enters: 0,
    }
}

fn native(page: Page) -> Scheme {
    Scheme::Native { page }
}

fn nested(guest_page: Page, host_backing: Page) -> Scheme {
    Scheme::Nested { guest_page, host_backing }
}

fn shadow(guest_page: Page, host_backing: Page) -> Scheme {
    Scheme::Shadow { guest_page, host_backing }
}

fn counted(part: &Part, setup: Setup, addresses: &[u64]) -> Counts {
    let mut simulator = Simulator::new(part, setup).unwrap();
    simulator.run(addresses);
    simulator.counts()
}

#[test]
fn a_cold_walk_makes_the_references_of_the_architecture() {
    let expected = [
        (native(Small), 4, 4),
        (native(Large), 4, 3),
        (native(Huge), 4, 2),
        (native(Small), 5, 5),
        (nested(Large, Large), 4, 15),
        (nested(Small, Large), 4, 19),
        (nested(Large, Small), 4, 19),
        (nested(Small, Small), 4, 24),
        (nested(Small, Small), 5, 35),
        (shadow(Small, Large), 4, 4),
        (shadow(Large, Small), 4, 4),
        (shadow(Large, Large), 4, 3),
    ];
    for (scheme, levels, references) in expected {
        for placement in [Placement::Contiguous, Placement::Scattered { span: 1 << 34 }] {
            let mut setup = Setup { levels, ..Setup::new(scheme) };
            (setup.data, setup.tables, setup.host_tables) = (placement, placement, placement);
            let counts = counted(&bare(), setup, &[0x7f12_3456_7890]);
            assert_eq!(counts.walk_references(), references, "{scheme}, {levels} levels, {placement:?}");
            assert_eq!(scheme.cold_references(levels) as u64, references, "the formula, {scheme}");
            assert_eq!((counts.walks, counts.translations), (1, 1));
        }
    }
}

#[test]
fn the_second_access_to_a_page_walks_no_more() {
    let counts = counted(&bare(), Setup::new(nested(Small, Large)), &[4096, 4096 + 8, 8191]);
    assert_eq!((counts.walks, counts.first_hits), (1, 2));
    let next_page = counted(&bare(), Setup::new(nested(Small, Large)), &[4096, 8192]);
    assert_eq!(next_page.walks, 2);
    let one_large = counted(&bare(), Setup::new(nested(Large, Large)), &[4096, 8192]);
    assert_eq!(one_large.walks, 1, "a large page on large memory is one translation");
    let splintered = counted(&bare(), Setup::new(nested(Large, Small)), &[4096, 8192]);
    assert_eq!(splintered.walks, 2, "small memory splinters a guest's large page");
}

#[test]
fn a_paging_structure_cache_leaves_the_entries_below_it() {
    let mut part = bare();
    part.walk_caches[2] = Some(lru(32, 4));
    let warm = |setup| counted(&part, setup, &[0, 4096]) - counted(&part, setup, &[0]);
    assert_eq!(warm(Setup::new(native(Small))).walk_references(), 1, "only the page table's entry");
    // Combined entries name the guest's page table at once: its entry, and three of the second table for the data.
    assert_eq!(warm(Setup::new(nested(Small, Large))).walk_references(), 4);
    let mut separate = part.clone();
    separate.combined = false;
    let setup = Setup::new(nested(Small, Large));
    let references = counted(&separate, setup, &[0, 4096]).walk_references() - 19;
    assert_eq!(references, 7, "the guest's page table has to be translated, too");
}

#[test]
fn a_nested_tlb_saves_the_second_table() {
    let mut part = bare();
    part.nested_tlb = Some(lru(16, 16));
    let counts = counted(&part, Setup::new(nested(Small, Large)), &[0]);
    // Tables of levels 4 to 2 share one large page here, the page table has another, the data a third.
    assert_eq!((counts.nested_translations, counts.nested_hits), (5, 2));
    assert_eq!(counts.walk_references(), 4 + 3 * 3);
}

#[test]
fn entries_of_tables_are_found_in_the_caches_that_data_left() {
    // 8 entries share a line: of 8 neighbouring pages one walk misses the caches, the other seven find the line in L1.
    let mut part = bare();
    part.walk_caches[2] = Some(lru(32, 4));
    let pages: Vec<u64> = (0..8).map(|page| page << 12).collect();
    let counts = counted(&part, Setup { data_in_caches: false, ..Setup::new(native(Small)) }, &pages);
    assert_eq!(counts.table, [7, 0, 0, 4]);
    assert_eq!(counts.data, [0; 4], "the data stayed out");
    part.walker_enters = 1;
    let counts = counted(&part, Setup { data_in_caches: false, ..Setup::new(native(Small)) }, &pages);
    assert_eq!(counts.table, [0, 7, 0, 4], "a walker that reads through L2 finds nothing in L1");
}

#[test]
fn data_drives_entries_out_of_a_small_cache() {
    let mut part = bare();
    part.caches = vec![lru(8, 8)];
    part.walk_caches[2] = Some(lru(32, 4));
    let mut addresses: Vec<u64> = vec![0];
    addresses.extend((0..16).map(|line| line * 64));
    addresses.push(4096);
    let last = |data_in_caches| {
        let setup = Setup { data_in_caches, ..Setup::new(native(Small)) };
        let before = counted(&part, setup, &addresses[..17]);
        (counted(&part, setup, &addresses) - before).table
    };
    assert_eq!(last(false), [1, 0, 0, 0]);
    assert_eq!(last(true), [0, 0, 0, 1]);
}

#[test]
fn what_a_processor_lacks_is_refused() {
    let mut part = bare();
    part.pages = vec![Small, Large];
    part.levels = 4;
    let refusal = |setup| Simulator::new(&part, setup).err().unwrap();
    let huge = refusal(Setup::new(native(Huge)));
    assert_eq!(huge.to_string(), "1g pages are not among those of this processor (4k, 2m); choose one of them");
    assert!(matches!(refusal(Setup::new(nested(Small, Huge))), SetupError::Page { page: Huge, .. }));
    let five = refusal(Setup { levels: 5, ..Setup::new(native(Small)) });
    assert_eq!(five.to_string(), "tables of 5 levels; this processor supports 4 to 4");
    part.caches.clear();
    assert_eq!(Simulator::new(&part, Setup::new(native(Small))).err(), Some(SetupError::Caches(0)));
    part.caches = vec![lru(24, 5)];
    let odd = Simulator::new(&part, Setup::new(native(Small))).err().unwrap();
    assert!(odd.to_string().starts_with("24 entries of 5 ways; ways"), "{odd}");
}

#[test]
fn a_sample_of_cache_lines_stands_for_all_of_them() {
    let mut random = baremark_mmu::random::Random::new(3);
    for key in ["nehalem-x5570", "cascade-lake", "zen-4"] {
        let drawn = baremark_mmu::machine::known(key).unwrap().draw(&mut random);
        for scheme in [native(Small), native(Large), nested(Small, Large), nested(Small, Small)] {
            let run = |thinning| {
                let mut simulator = Simulator::new(&drawn.part, Setup { thinning, ..Setup::new(scheme) }).unwrap();
                let mut stream = RandomAccess::new(1 << 29).unwrap();
                drive(&mut simulator, &mut stream, 600_000);
                simulator.forget();
                drive(&mut simulator, &mut stream, 200_000);
                simulator.counts()
            };
            let (all, sampled) = (run(0), run(THINNING));
            assert_eq!(all.walks, sampled.walks, "translations are never sampled");
            assert_eq!(all.walk_references(), sampled.walk_references(), "nor are references' numbers");
            assert_eq!(all.data.iter().sum::<u64>(), sampled.data.iter().sum::<u64>());
            for place in 0..4 {
                let per = |counts: &Counts, of: [u64; 4]| counts.per_translation(of[place]);
                for (exact, rough) in [
                    (per(&all, all.table), per(&sampled, sampled.table)),
                    (per(&all, all.nested), per(&sampled, sampled.nested)),
                    (per(&all, all.data), per(&sampled, sampled.data)),
                ] {
                    assert!((exact - rough).abs() < 0.03 + 0.05 * exact, "{key} {scheme} {place}: {exact} {rough}");
                }
            }
        }
    }
}

#[test]
fn a_sample_of_translations_stands_for_all_where_addresses_are_independent() {
    let mut random = baremark_mmu::random::Random::new(3);
    for key in ["nehalem-x5570", "cascade-lake", "zen-4"] {
        let drawn = baremark_mmu::machine::known(key).unwrap().draw(&mut random);
        for scheme in [native(Small), native(Large), nested(Small, Large), nested(Small, Small)] {
            // Pages that TLBs hold partly, and many more than they hold.
            for bytes in [1 << 24, 1 << 29] {
                let run = |repeats| {
                    let mut simulator = Simulator::new(&drawn.part, Setup { repeats, ..Setup::new(scheme) }).unwrap();
                    let mut stream = RandomAccess::new(bytes).unwrap();
                    assert!(stream.is_independent());
                    drive(&mut simulator, &mut stream, 300_000);
                    simulator.forget();
                    drive(&mut simulator, &mut stream, 200_000);
                    simulator.counts()
                };
                let (all, sampled) = (run(0), run(REPEATS));
                assert_eq!((sampled.translations, sampled.data.iter().sum::<u64>()), (200_000, 200_000));
                let share = |counts: &Counts, of: u64| counts.per_translation(of);
                for (exact, rough) in [
                    (share(&all, all.first_hits), share(&sampled, sampled.first_hits)),
                    (share(&all, all.second_hits), share(&sampled, sampled.second_hits)),
                    (share(&all, all.walks), share(&sampled, sampled.walks)),
                    (share(&all, all.nested_hits), share(&sampled, sampled.nested_hits)),
                ] {
                    assert!((exact - rough).abs() < 0.01 + 0.01 * exact, "{key} {scheme} {bytes}: {exact} {rough}");
                }
                for place in 0..4 {
                    for (exact, rough) in [
                        (share(&all, all.table[place]), share(&sampled, sampled.table[place])),
                        (share(&all, all.nested[place]), share(&sampled, sampled.nested[place])),
                    ] {
                        assert!(
                            (exact - rough).abs() < 0.02 + 0.03 * exact,
                            "{key} {scheme} {bytes} {place}: {exact} {rough}"
                        );
                    }
                }
            }
        }
    }
}

#[test]
fn repeated_groups_count_what_the_first_one_decided() {
    // 64 addresses in 8 pages: 8 walks, whose decisions the next 7 groups take, whatever their addresses.
    let group: Vec<u64> = (0..64).map(|access| (access % 8) << 12).collect();
    let others: Vec<u64> = (0..7 * 64).map(|access| (100 + access) << 12).collect();
    let setup = Setup { repeats: 7, ..Setup::new(nested(Small, Large)) };
    let once = counted(&bare(), Setup { repeats: 0, ..setup }, &group);
    let all = counted(&bare(), setup, &[group.clone(), others.clone()].concat());
    assert_eq!((once.walks, once.first_hits), (8, 56));
    assert_eq!((all.walks, all.first_hits, all.translations), (8 * 8, 8 * 56, 8 * 64));
    assert_eq!(all.walk_references(), 8 * once.walk_references());
    // Then a group decides anew: its pages are in the TLB.
    let anew = counted(&bare(), setup, &[group.clone(), others, group].concat());
    assert_eq!((anew - all).walks, 0);
}

#[test]
fn a_stride_that_avoids_the_sample_is_found_out() {
    let fair = |first: u64| {
        let mut simulator = Simulator::new(&bare(), Setup { thinning: THINNING, ..Setup::new(native(Small)) }).unwrap();
        simulator.run(&(0..20_000).map(|at| first + 512 * at).collect::<Vec<_>>());
        simulator.is_fair()
    };
    assert!(fair(0) && !fair(64));
    let every = Simulator::new(&bare(), Setup::new(native(Small))).map(|mut simulator| {
        simulator.run(&(0..20_000).map(|at| 64 + 512 * at).collect::<Vec<_>>());
        simulator.is_fair()
    });
    assert_eq!(every, Ok(true));
}
