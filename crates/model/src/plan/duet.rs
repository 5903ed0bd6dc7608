//! Both programs of a pair at the same time, on a CPU each that they swap: which studies can be run so, and on which CPUs.

use super::{Duet, Pair, PlannedArm, Resolver};
use crate::command::{self, CPU, USUAL, WALL};
use crate::environments;
use crate::observer::ObserveSpec;
use crate::placement::{Cpu, MemoryPolicy, Placement, Ranks, Topology};
use crate::problem::Problem;
use crate::protection::Settings;
use crate::tables;
use crate::value::Program;

/// The key of a study.
const KEY: &str = "design.duet";

impl Resolver<'_> {
    /// The CPUs of a duet: of two cores of one node where there are such, so that the programs share no core.
    pub(super) fn duet(&self) -> Option<Duet> {
        let flat = Topology::flat(&self.limits.cpus);
        let here = self.limits.topology.as_ref().unwrap_or(&flat);
        let first = *here.cpus.first().filter(|_| self.study.duet)?;
        let others = || here.cpus.iter().filter(|cpu| cpu.cpu != first.cpu);
        let of_another_core = |cpu: &&Cpu| cpu.core != first.core;
        let near = others().find(|cpu| of_another_core(cpu) && cpu.node == first.node);
        let second = near.or_else(|| others().find(of_another_core)).or_else(|| others().next())?;
        Some(Duet { cpus: [first.cpu, second.cpu], one_core: first.core == second.core })
    }

    /// What is observed: of a duet nothing, for activity of two programs that run at the same time is neither one's.
    pub(super) fn observed(&self) -> ObserveSpec {
        let asked = self.study.observe.clone();
        if self.study.duet { ObserveSpec { which: Vec::new(), ..asked } } else { asked }
    }

    /// Refuses a duet that this machine cannot run, or that would compare what two programs disturb in each other.
    pub(super) fn check_duet(&mut self, arms: &[PlannedArm], pairs: &[Pair]) {
        if !self.study.duet {
            return;
        }
        let line = self.study.line(KEY);
        self.check_metrics();
        if self.duet().is_none() {
            let what = "duet = true needs two CPUs, and this process may use one".to_owned();
            let remedy = "start it with an affinity mask that has two, or drop duet";
            self.problems.push(Problem::new(line, what, remedy).of_machine());
        }
        if let Some(quota) = self.limits.quota_millicpus.filter(|quota| *quota < 2000) {
            let cpus = f64::from(quota) / 1000.0;
            let what = format!("duet = true needs the time of two CPUs, and the CPU quota of this process is {cpus}");
            let remedy = "raise the quota (cpu.max of its control group) to 2 CPUs, or drop duet";
            self.problems.push(Problem::new(line, what, remedy).of_machine());
        }
        if self.study.design.quads == 0 {
            let what = "duet = true swaps the CPUs within a quad, and quads = 0 has no quad".to_owned();
            self.report(self.study.line("design.quads"), what, "write quads = 1 or more, or drop duet");
        }
        if self.study.layout.ratio_to.is_empty() && !self.mode.self_check {
            let what = "duet = true runs both programs of a pair, and the study requests no ratio".to_owned();
            self.report(line, what, "write ratio_to in [report], or drop duet");
        }
        let observed = self.study.line("observe.which");
        if observed > 0 {
            let what = "duet = true observes no system activity: two programs at the same time share it".to_owned();
            self.report(observed, what, "take 'which' out of [observe], or drop duet");
        }
        for arm in arms {
            self.check_duet_of(arm);
        }
        let of_hosts = |pair: &&Pair| {
            let both = [&arms[pair.numerator], &arms[pair.denominator]];
            pair.asked && !pair.interleaved && both.iter().all(|arm| arm.on_this_machine())
        };
        for pair in pairs.iter().filter(of_hosts) {
            let keys = tables::host_levels(&arms[pair.numerator].treatment).map(|(key, _)| key).collect::<Vec<_>>();
            let what = format!(
                "duet = true runs both programs of a pair at once, and {} has one level at a time",
                keys.join(", ")
            );
            self.report(line, what, "vary it in a study without duet");
        }
    }

    /// Refuses an arm that has no place next to another's on this machine.
    fn check_duet_of(&mut self, arm: &PlannedArm) {
        if !arm.on_this_machine() {
            let here = environments::names(|can| can.interleaves && can.runs_work()).join(" and ");
            let what = format!(
                "duet = true runs both programs from one agent, and environment '{}' has its own",
                arm.environment
            );
            let remedy = format!("take it out of [factors]: {here} can be compared so; or drop duet");
            self.report(self.study.line("factors.environment"), what, remedy);
        }
        if command::is_exitless(&arm.arm) {
            let what = "duet = true gives each program one CPU, and exitless = \"on\" needs another".to_owned();
            let line = self.study.line("factors.exitless").max(self.study.line("workload.exitless"));
            self.report(line, what, "write exitless = \"off\", or drop duet");
        }
        self.check_program(arm);
        let ranks = arm.arm.ranks.saturating_mul(arm.arm.parts);
        if ranks != 1 {
            let what = format!("duet = true gives each program one CPU, and {} were requested", Ranks(ranks));
            let remedy = "take ranks, provisioned and count out of [factors], or drop duet";
            let keys = ["factors.ranks", "factors.provisioned", "factors.count"];
            self.report(keys.map(|key| self.study.line(key)).into_iter().max().unwrap_or(0), what, remedy);
        }
    }

    /// Refuses what would run next to the other program, and what says where a program's one CPU is.
    fn check_program(&mut self, arm: &PlannedArm) {
        let alongside = |program: &&Program| !program.prepare.is_empty() || program.beside.is_some();
        if let Some(program) = command::of_arm(&arm.arm).filter(alongside) {
            let what = "duet = true runs both programs at the same time, and what prepares one program or runs alongside it would run next \
                        to the other"
                .to_owned();
            let keys =
                [format!("{}.{}", command::NAMED, program.name), "command.prepare".into(), "command.beside".into()];
            let line = keys.iter().map(|key| self.study.line(key)).max().unwrap_or(0);
            self.report(line, what, "take 'prepare' and 'beside' out, or drop duet");
        }
        if Settings::of(&arm.arm).is_ok_and(|of| of.epoch.is_some()) {
            let what = "duet = true gives each program one CPU, and protect copies its memory on others".to_owned();
            let line = self.line_of_parameter(command::KIND, command::PROTECT.key);
            self.report(line, what, "write protect = \"none\", or drop duet");
        }
        let (placement, memory) = (arm.arm.placement, arm.arm.memory);
        if (placement, memory) != (Placement::default(), MemoryPolicy::default()) {
            let what = format!(
                "duet = true chooses the CPU of each program, and placement = {placement}, memory = {memory} were requested"
            );
            let line = ["factors.placement", "factors.memory"].map(|key| self.study.line(key)).into_iter().max();
            self.report(line.unwrap_or(0), what, "take placement and memory out of [factors], or drop duet");
        }
    }

    /// Refuses work that is not a program, and metrics that show how long a program waited.
    fn check_metrics(&mut self) {
        let study = self.study;
        for chosen in &study.workloads {
            let kind = chosen.descriptor.kind;
            if kind != command::KIND {
                let what =
                    format!("duet = true runs two programs at the same time, and workload '{kind}' is not a program");
                self.report(study.line("workload.kind"), what, "write kind = \"command\" in [workload], or drop duet");
                continue;
            }
            if chosen.metric() != CPU.key {
                let what = format!("duet = true compares CPU time alone, and the metric is {}", chosen.metric());
                let remedy = format!("write metric = \"{}\" in [report] (--by {0}), or drop duet", CPU.key);
                let line = study.line("report.metric");
                self.report(if line > 0 { line } else { study.line(KEY) }, what, remedy);
            }
            let used = |key: &str| USUAL.iter().any(|metric| metric.key == key && metric.key != WALL.key);
            for key in chosen.also.iter().filter(|key| !used(key)) {
                let what = format!("duet = true compares what programs use, and 'also' has {key}");
                self.report(study.line("report.also"), what, format!("take {key} out of it, or drop duet"));
            }
        }
    }
}
