//! Trials of two sites that share no process and take turns phase by phase.

use crate::conduct::WORKLOAD;
use crate::played::{Answer, Memory, Played, conduct, in_turns, run, soon};
use baremark_lab::analysis::document;
use baremark_lab::conduct::Ending;
use baremark_lab::trials::Finished;
use baremark_model::event::{Event, TrialStatus};
use baremark_model::observer::ObserveSpec;
use baremark_model::plan::Plan;
use baremark_model::units::Nanos;
use baremark_model::wire::{Idle, Series, TrialSpec};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

static NEVER: AtomicBool = AtomicBool::new(false);
const QUIET: Idle = Idle { ns: 1_000_000, cpu_ns: 1000 };

/// Turns in the order in which they were had: whose, and how many phases of the other side went before.
type Had = Arc<Mutex<Vec<(usize, u32)>>>;

/// Agents of one value that note their turns.
fn noting(value: f64, had: &Had) -> Played {
    let had = Arc::clone(had);
    Played::new(move |_| Answer::Values(vec![value])).in_turns(QUIET, move |arm, others| {
        had.lock().unwrap().push((arm, others));
        true
    })
}

/// So many trials, of 3 quads each. Nobody waits for phases that are played, and a trial is cut after twice as many as it has: in hours.
fn of_trials(trials: u64) -> Plan {
    let mut plan = in_turns();
    plan.design.quads = 3;
    plan.design.phase = Nanos(3_600_000_000_000);
    (plan.design.least_blocks, plan.design.most_blocks) = (trials, trials);
    plan
}

/// The schedule and how many phases of the other side went before each of its phases, since the arm's own last.
fn expected(schedule: &[usize]) -> Vec<(usize, u32)> {
    let mut others = [0, 0];
    let turn = |&arm: &usize| {
        let before = std::mem::take(&mut others[arm]);
        others[1 - arm] += 1;
        (arm, before)
    };
    schedule.iter().map(turn).collect()
}

#[test]
fn two_sites_are_started_once_and_have_their_phases_in_the_order_of_the_schedule() {
    let (plan, had) = (of_trials(4), Had::default());
    let starts: Arc<Mutex<Vec<&str>>> = Arc::default();
    let place = |name: &'static str, value| {
        let starts = Arc::clone(&starts);
        let played = noting(value, &had).starting(move |_, _| {
            starts.lock().unwrap().push(name);
            Ok(())
        });
        (name, played)
    };
    let mut memory = Memory::default();
    let (ending, events) = conduct(&plan, vec![place("native", 1.0), place("container", 0.9)], &mut memory, &NEVER);
    assert!(matches!(ending, Ok(Ending::Complete(_))), "{ending:?}");
    assert_eq!(*starts.lock().unwrap(), ["native", "container"].repeat(4), "each once a trial");
    let mut had = had.lock().unwrap().clone().into_iter();
    for trial in &memory.trials {
        assert_eq!((&trial.status, trial.spec.schedule.len()), (&TrialStatus::Ok, 12));
        for quad in trial.spec.schedule.chunks(4) {
            assert!([[0, 1, 1, 0], [1, 0, 0, 1]].iter().any(|order| order == quad), "{quad:?}");
        }
        assert_eq!(had.by_ref().take(12).collect::<Vec<_>>(), expected(&trial.spec.schedule));
        let result = trial.result.as_ref().unwrap();
        let order: Vec<(usize, usize)> = result.series.iter().map(|phase| (phase.phase, phase.arm)).collect();
        assert_eq!(order, trial.spec.schedule.iter().copied().enumerate().collect::<Vec<_>>());
        assert!(result.series.windows(2).all(|two| two[0].end_ns <= two[1].begin_ns), "{:?}", result.series);
        // 2,000,000 ticks of 2 GHz, set on one clock from where the phase began; the same repetitions at both sides.
        for phase in &result.series {
            let time = &phase.runs[0].times[0];
            assert_eq!(
                (time.start_ticks, time.end_ticks - time.start_ticks, phase.reps),
                (phase.begin_ns, 1_000_000, 6)
            );
        }
        for (arm, [place, partner]) in result.arms.iter().zip([["native", "container"], ["container", "native"]]) {
            assert_eq!((arm.counters["idle_ns"], arm.counters["idle_cpu_ns"]), (QUIET.ns, QUIET.cpu_ns));
            let notes = ["place", "in turns with", "while it waited"].map(|name| arm.executor.notes[name].as_str());
            assert_eq!(notes, [place, partner, "0.10 % of a CPU"]);
        }
        assert_eq!(trial.quads(0, 1, "gups").len(), 3);
    }
    assert_eq!(had.next(), None);
    let told = events.iter().filter(|event| matches!(event, Event::Phase { of: 12, .. })).count();
    assert_eq!(told, 4 * 12);
    let document = document(&run(&plan, &memory), &[&WORKLOAD]);
    let ratio = &document.ratios[0];
    assert_eq!((ratio.blocks, document.estimates.len()), (4, 2));
    assert!(ratio.ratio.is_some_and(|found| (found - 0.9).abs() < 1e-9), "{ratio:?}");
}

/// The client of an engine worked on for 10 ms after each message, in phases of 5 ms, so that a container lost 6 % of a kernel's rate.
#[test]
fn where_messages_are_passed_on_both_sides_rest_before_longer_phases() {
    let (mut plan, mut memory) = (of_trials(1), Memory::default());
    plan.design.phase = Nanos(50_000_000);
    let place = |relay| Played::new(|_| Answer::Values(vec![1.0])).relayed(Duration::from_millis(relay));
    let (native, container) = (place(0), place(12));
    let rests = [native.rests(), container.rests()];
    conduct(&plan, vec![("native", native), ("container", container)], &mut memory, &NEVER).0.unwrap();
    let (own_ns, rest_ns) = (memory.trials[0].spec.phase_ns, 12_000_000);
    assert!(own_ns < 10 * rest_ns, "{own_ns}");
    // Longer ones where messages are slow, too: of a busy machine nobody knows how slow.
    let [native, container] = rests.map(|of| of.lock().unwrap().clone());
    let &[[rest, phase_ns]] = native.as_slice() else { panic!("{native:?}") };
    assert!(rest == rest_ns && phase_ns >= 120_000_000 && container == native, "{native:?} {container:?}");
    let rested = |memory: &Memory| {
        let arms = &memory.trials[0].result.as_ref().unwrap().arms;
        arms.iter().filter_map(|arm| arm.executor.notes.get("rest before each phase").cloned()).collect::<Vec<_>>()
    };
    assert_eq!(rested(&memory), ["12 ms", "12 ms"]);
    let series = &memory.trials[0].result.as_ref().unwrap().series;
    let apart = |two: &[Series]| two[1].begin_ns - two[0].end_ns >= rest_ns;
    assert!(series.windows(2).all(apart), "a phase begins after its rest: {series:?}");
    let place = || Played::new(|_| Answer::Values(vec![1.0]));
    let (native, mut memory) = (place(), Memory::default());
    let rests = native.rests();
    conduct(&plan, vec![("native", native), ("container", place())], &mut memory, &NEVER).0.unwrap();
    assert_eq!((rests.lock().unwrap()[0][0], rested(&memory).len()), (0, 0), "nobody between them");
}

#[test]
fn each_side_is_told_its_own_arm_alone() {
    let told: Arc<Mutex<Vec<TrialSpec>>> = Arc::default();
    let place = || {
        let told = Arc::clone(&told);
        Played::new(move |spec| {
            told.lock().unwrap().push(spec.clone());
            Answer::Values(vec![1.0])
        })
    };
    let (plan, mut memory) = (of_trials(1), Memory::default());
    conduct(&plan, vec![("native", place()), ("container", place())], &mut memory, &NEVER).0.unwrap();
    let (mut told, whole) = (told.lock().unwrap(), &memory.trials[0].spec);
    assert_eq!((told.len(), whole.arms.len(), whole.most_ns.is_some()), (2, 2, true));
    if whole.allocation_order == [1, 0] {
        told.reverse();
    }
    for (arm, own) in told.iter().enumerate() {
        assert_eq!(*own.arms, [whole.arms[arm].clone()]);
        assert_eq!((own.schedule.as_slice(), own.seed, own.most_ns), (&[0; 6][..], whole.seed, None));
    }
    assert_eq!(
        (&told[0].cpus, &told[1].cpus),
        (&vec![0], &Vec::new()),
        "elsewhere the agent takes those that it finds"
    );
}

/// What was prepared last may be the faster, such as a file that a cache below still has: it was always the second arm's.
#[test]
fn which_side_is_prepared_first_is_drawn() {
    let prepared: Arc<Mutex<Vec<usize>>> = Arc::default();
    let place = |arm| {
        let prepared = Arc::clone(&prepared);
        Played::new(move |_| {
            prepared.lock().unwrap().push(arm);
            Answer::Values(vec![1.0])
        })
    };
    let (plan, mut memory) = (of_trials(12), Memory::default());
    conduct(&plan, vec![("native", place(0)), ("container", place(1))], &mut memory, &NEVER).0.unwrap();
    let drawn: Vec<usize> = memory.trials.iter().flat_map(|trial| trial.spec.allocation_order.clone()).collect();
    assert_eq!(*prepared.lock().unwrap(), drawn);
    assert!(drawn.chunks(2).any(|order| order == [0, 1]) && drawn.chunks(2).any(|order| order == [1, 0]), "{drawn:?}");
}

/// The third agent of the container dies in its second turn, or says that it cannot.
fn third_fails(dies: bool) -> (Vec<Finished>, usize) {
    let (started, turns) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (count, at_start, in_turn) = (Arc::clone(&started), Arc::clone(&started), Arc::clone(&started));
    let first = Arc::clone(&turns);
    let container = Played::new(move |_| match at_start.load(Ordering::SeqCst) {
        3 if !dies => Answer::Failed("no memory"),
        _ => Answer::Values(vec![0.9]),
    })
    .starting(move |_, _| {
        first.store(0, Ordering::SeqCst);
        count.fetch_add(1, Ordering::SeqCst);
        Ok(())
    })
    .in_turns(QUIET, move |_, _| turns.fetch_add(1, Ordering::SeqCst) != 1 || in_turn.load(Ordering::SeqCst) != 3);
    let native = Played::new(|_| Answer::Values(vec![1.0]));
    let there = [native.there(), container.there()];
    let (plan, mut memory) = (of_trials(4), Memory::default());
    conduct(&plan, vec![("native", native), ("container", container)], &mut memory, &NEVER).0.unwrap();
    assert!(soon(|| there.iter().all(|there| there.load(Ordering::SeqCst) == 0)), "sites are left");
    (memory.trials, started.load(Ordering::SeqCst))
}

#[test]
fn a_side_that_is_lost_in_a_phase_fails_the_trial_and_the_next_starts_both_anew() {
    for (dies, why) in [(true, "at container: the agent is lost: "), (false, "at container: a trial failed: no memory")]
    {
        let (trials, started) = third_fails(dies);
        assert_eq!((trials.len(), started), (4, 4));
        for (index, trial) in trials.iter().enumerate() {
            match &trial.status {
                TrialStatus::Failed { reason } => assert!(index == 2 && reason.starts_with(why), "{index}: {reason}"),
                status => assert!(index != 2 && *status == TrialStatus::Ok, "{index}: {status:?}"),
            }
        }
    }
}

#[test]
fn a_side_that_works_on_while_the_other_has_its_turns_voids_the_trial() {
    // So long that hearing of a turn takes next to nothing of it, however busy the machine is.
    let busy = Idle { ns: 1_000_000_000_000_000, cpu_ns: 25_000_000_000_000 };
    let native = Played::new(|_| Answer::Values(vec![1.0]));
    let container = Played::new(|_| Answer::Values(vec![0.9])).in_turns(busy, |_, _| true);
    let (plan, mut memory) = (of_trials(4), Memory::default());
    conduct(&plan, vec![("native", native), ("container", container)], &mut memory, &NEVER).0.unwrap();
    let TrialStatus::Void { reasons } = &memory.trials[0].status else { panic!("{:?}", memory.trials[0].status) };
    let why = "at container: it used 2.5 % of a CPU while the other side had its turns, more than 1 %";
    assert_eq!(reasons, &[why]);
}

/// What a guest's agent knows of itself is not what the guest and its hypervisor use of this machine.
#[test]
fn a_hypervisor_that_works_while_its_side_waits_is_recorded_and_flagged() {
    let trial = |used_ns: u64| {
        let native = Played::new(|_| Answer::Values(vec![1.0]));
        let guest = Played::new(|_| Answer::Values(vec![0.9])).with_hypervisor(used_ns);
        let (plan, mut memory) = (of_trials(4), Memory::default());
        conduct(&plan, vec![("native", native), ("container", guest)], &mut memory, &NEVER).0.unwrap();
        assert_eq!(memory.trials[0].status, TrialStatus::Ok);
        memory.trials.swap_remove(0).result.unwrap()
    };
    let (note, counter) = ("its hypervisor, while it waited", "idle_hypervisor_cpu_ns");
    let idle = trial(0);
    assert_eq!((idle.arms[1].executor.notes[note].as_str(), idle.arms[1].counters[counter]), ("0.00 % of a CPU", 0));
    assert!(!idle.arms[0].executor.notes.contains_key(note) && !idle.arms[0].counters.contains_key(counter));
    let flag = "the hypervisor of one side used more than 1 % of a CPU while that side waited for its turns";
    assert!(!idle.flags.iter().any(|found| found == flag), "{:?}", idle.flags);
    // More than any machine has in the time of the test: in each of the other side's 6 turns.
    let busy = trial(1_000_000_000_000);
    assert_eq!(busy.arms[1].counters[counter], 6_000_000_000_000);
    assert!(busy.flags.iter().any(|found| found == flag), "{:?}", busy.flags);
}

#[test]
fn an_agent_of_a_version_without_turns_is_refused_with_the_remedy() {
    let place = || Played::new(|_| Answer::Values(vec![1.0]));
    let (plan, mut memory) = (of_trials(4), Memory::default());
    let agents = vec![("native", place()), ("container", place().of_one_place())];
    let (ending, _) = conduct(&plan, agents, &mut memory, &NEVER);
    let why = "at container: the agent does not fit: it cannot take turns with another site; use this version";
    assert!(matches!(&ending, Ok(Ending::Failed(found)) if found.starts_with(why)), "{ending:?}");
}

/// This machine is observed by the side that runs on it; by an agent of its own where neither does.
#[test]
fn this_machine_is_observed_once() {
    let observed = |places: [&'static str; 2]| {
        let mut plan = of_trials(1);
        plan.observe = ObserveSpec { which: vec!["cpu".to_owned()], ..ObserveSpec::default() };
        for (arm, place) in plan.arms.iter_mut().zip(places) {
            arm.environment = place.to_owned();
            arm.treatment.insert("environment".to_owned(), place.to_owned());
        }
        let starts = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&starts);
        let native = Played::new(|_| Answer::Values(vec![1.0])).starting(move |_, _| {
            count.fetch_add(1, Ordering::SeqCst);
            Ok(())
        });
        let other = || Played::new(|_| Answer::Values(vec![1.0]));
        let mut memory = Memory::default();
        let agents = vec![("native", native), ("container", other()), ("sandbox", other())];
        conduct(&plan, agents, &mut memory, &NEVER).0.unwrap();
        let places = memory.trials[0].result.as_ref().unwrap().observations.iter().map(|seen| seen.place.clone());
        (starts.load(Ordering::SeqCst), places.collect::<Vec<_>>())
    };
    assert_eq!(observed(["native", "container"]), (1, Vec::new()), "a played agent observes nothing in its trial");
    assert_eq!(observed(["container", "sandbox"]), (1, vec!["this machine".to_owned()]));
}

/// A container against itself, at two sites, which are kept for the whole run where the study wants that.
#[test]
fn a_place_against_itself_takes_turns_at_two_sites_of_it() {
    use baremark_model::plan::{Contrast, Pair};
    use baremark_model::value::Value;
    for (fresh, starts) in [("trial", 8), ("run", 2)] {
        let (mut plan, had) = (of_trials(4), Had::default());
        let pair = plan.pairs[0];
        plan.pairs = vec![Pair { denominator: pair.numerator, contrast: Contrast::SelfCheck, ..pair }];
        plan.apart = vec![0];
        let settings = [("fresh".to_owned(), Value::Choice(fresh.to_owned()))];
        plan.environments.insert("container".to_owned(), settings.into());
        let started = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&started);
        let container = noting(0.9, &had).starting(move |_, _| {
            count.fetch_add(1, Ordering::SeqCst);
            Ok(())
        });
        let mut memory = Memory::default();
        conduct(&plan, vec![("container", container)], &mut memory, &NEVER).0.unwrap();
        assert_eq!((memory.trials.len(), started.load(Ordering::SeqCst)), (4, starts), "{fresh}");
        let mut had = had.lock().unwrap().clone().into_iter();
        for trial in &memory.trials {
            assert_eq!((&trial.status, trial.spec.arms.len()), (&TrialStatus::Ok, 2));
            assert_eq!(had.by_ref().take(12).collect::<Vec<_>>(), expected(&trial.spec.schedule));
            assert_eq!(trial.quads(0, 1, "gups"), [0.0; 3]);
        }
        let ratio = &document(&run(&plan, &memory), &[&WORKLOAD]).ratios[0];
        assert!(ratio.ratio.is_some_and(|found| (found - 1.0).abs() < 1e-12) && ratio.blocks == 4, "{ratio:?}");
    }
}
