//! A trial fitted to its site: what its arms name on this machine is brought or led there before the agent is told.
//!
//! Files that a program needs go into the agent's folder. The other end of a job that talks to another site is served by an
//! agent there, which lives as long as the run unless it is lost.

use crate::link::{AgentLink, LinkError};
use crate::provisioning::free_port;
use baremark_model::command;
use baremark_model::peer;
use baremark_model::site::Environment;
use baremark_model::spawned::{Spawn, SpawnLimits};
use baremark_model::value::Value;
use baremark_model::wire::TrialSpec;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::{Duration, Instant};

/// How long the other end may take to listen.
const LISTEN_LIMIT: Duration = Duration::from_secs(60);
const GLANCE: Duration = Duration::from_millis(20);
/// The other end's name as a program.
const NAME: &str = "peer";

/// The sites that serve other ends.
#[derive(Default)]
pub(crate) struct Peers<'i> {
    kept: BTreeMap<String, Peer<'i>>,
}

struct Peer<'i> {
    agent: AgentLink<'i>,
    /// Where this machine reaches it.
    address: SocketAddr,
}

/// The trial as the agent is told it.
pub(crate) fn fitted<'i>(
    spec: &TrialSpec,
    agent: &mut AgentLink<'_>,
    peers: &mut Peers<'i>,
    environments: &BTreeMap<String, Box<dyn Environment>>,
    interrupt: &'i AtomicBool,
) -> Result<TrialSpec, LinkError> {
    let mut spec = spec.clone();
    for member in Arc::make_mut(&mut spec.arms).iter_mut().flat_map(|arm| &mut arm.members) {
        if let Some(Value::Program(program)) = member.arm.parameters.get_mut(command::KIND) {
            for file in program.bring.values_mut() {
                *file = agent.bring(file)?;
            }
        }
        let Some(name) = peer::of_arm(&member.arm).map(str::to_owned) else { continue };
        let environment =
            environments.get(&name).ok_or_else(|| LinkError::OutOfTurn(format!("no environment {name}")))?;
        let address = peers.address(&name, &**environment, interrupt)?;
        let seen =
            if address.ip().is_loopback() { agent.offer(address.port())? } else { agent.site().sees(address)? };
        peer::settle(&mut member.arm, seen);
    }
    Ok(spec)
}

/// The trial with the files that its programs need at their own paths brought to the site, which is not this machine.
pub(crate) fn carried(mut spec: TrialSpec, agent: &mut AgentLink<'_>) -> Result<TrialSpec, LinkError> {
    for member in Arc::make_mut(&mut spec.arms).iter_mut().flat_map(|arm| &mut arm.members) {
        if let Some(Value::Program(program)) = member.arm.parameters.get_mut(command::KIND) {
            for (path, brought) in &mut program.carry {
                *brought = agent.bring(path)?;
            }
        }
    }
    Ok(spec)
}

impl<'i> Peers<'i> {
    /// Where this machine reaches the other end at a site of an environment, which is started when it does not exist.
    fn address(
        &mut self,
        name: &str,
        environment: &dyn Environment,
        interrupt: &'i AtomicBool,
    ) -> Result<SocketAddr, LinkError> {
        if let Some(mut peer) = self.kept.remove(name)
            && peer.agent.tell(NAME).is_ok_and(|told| told.ended.is_none())
        {
            let address = peer.address;
            self.kept.insert(name.to_owned(), peer);
            return Ok(address);
        }
        let mut agent = AgentLink::start(environment, interrupt)?;
        let there = listen(&mut agent)?;
        let here = free_port()?;
        let address = agent.site().reach(there, here)?;
        self.kept.insert(name.to_owned(), Peer { agent, address });
        Ok(address)
    }
}

/// Starts the other end; the port on which it listens there.
fn listen(agent: &mut AgentLink<'_>) -> Result<u16, LinkError> {
    let address = SocketAddr::from((agent.site().listens_on(), 0)).to_string();
    let program = Spawn {
        name: NAME.to_owned(),
        program: None,
        arguments: peer::SERVER.iter().map(|&word| word.to_owned()).chain([address]).collect(),
        environment: BTreeMap::new(),
        limits: SpawnLimits::default(),
    };
    let mut told = agent.spawn(&program)?;
    let deadline = Instant::now() + LISTEN_LIMIT;
    loop {
        let address = told.log.iter().find_map(|line| line.strip_prefix(peer::LISTENING)?.parse::<SocketAddr>().ok());
        if let Some(address) = address {
            return Ok(address.port());
        }
        if let Some(how) = &told.ended {
            let why = format!("{how}: {}", told.log.join(" | "));
            return Err(LinkError::Refused { what: "the other end".to_owned(), why });
        }
        if Instant::now() > deadline {
            let why = format!("it does not listen after {} s", LISTEN_LIMIT.as_secs());
            return Err(LinkError::Refused { what: "the other end".to_owned(), why });
        }
        thread::sleep(GLANCE);
        told = agent.tell(NAME)?;
    }
}
