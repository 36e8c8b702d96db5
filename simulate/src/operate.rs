//! The operator of a cluster: starts jobs and commands, and carries out the planned faults.

use crate::{
    cluster::{Cluster, Fault, ProcessId},
    job::{Job, Rank},
    judge::Judge,
    leaks,
    lock::{locked, sleep},
    plan::{Plan, PlannedFault, Round, Step, Tool},
    rot::rot,
    tool::{Space, Started, Work},
};
use mainstay_engine::current_world;
use std::{
    fs,
    sync::{Arc, Mutex, atomic::AtomicUsize},
    time::Duration,
};

/// Runs the jobs of `plan`, one after the other. If the last one ends in order, another job runs on the copied space.
pub fn operate(cluster: &Arc<Cluster>, plan: &Plan, judge: &Arc<Mutex<Judge>>) -> Result<(), Fault> {
    for node in 0..plan.setting.nodes {
        for name in ["memory", "disk"] {
            fs::create_dir_all(cluster.node_folder(node).join(name)).map_err(|error| Fault(error.to_string()))?;
        }
    }
    fs::create_dir_all(cluster.shared_folder()).map_err(|error| Fault(error.to_string()))?;
    let space =
        Space { path: cluster.shared_folder(), judge: judge.clone(), openings: Arc::default(), models: Arc::default() };
    let copy =
        Space { path: cluster.copy_folder(), judge: Arc::default(), openings: Arc::default(), models: Arc::default() };
    let mut is_in_order = false;
    for (index, round) in (1..).zip(&plan.rounds) {
        is_in_order = operate_round(cluster, plan, round, index, &space, &copy)?;
    }
    // The copy is a space of its own, so a job can go on there.
    if is_in_order && copy.path.exists() {
        let last = plan.rounds.len() as u64 + 1;
        let steps = vec![Step::Save { bytes: 5_000, ticks: 0 }, Step::Wait, Step::Close];
        let seats = plan.rounds.last().map(|round| round.seats.clone()).unwrap_or_default();
        locked(&copy.judge).released(None);
        operate_round(cluster, plan, &Round { seats, steps, ..Round::default() }, last, &copy, &space)?;
    }
    Ok(())
}

/// One job on `space`, with its commands. Returns whether it has ended in order.
fn operate_round(
    cluster: &Arc<Cluster>,
    plan: &Plan,
    round: &Round,
    number: u64,
    space: &Space,
    copy: &Space,
) -> Result<bool, Fault> {
    let make = |round: &Round, number| {
        Arc::new(Job {
            cluster: cluster.clone(),
            setting: plan.setting.clone(),
            round: round.clone(),
            space: space.path.clone(),
            number,
            judge: space.judge.clone(),
            openings: space.openings.clone(),
            models: space.models.clone(),
            ranks: Mutex::default(),
            closed: AtomicUsize::new(0),
        })
    };
    let (job, rival) = (make(round, 2 * number), make(&round.of_rival(), 2 * number + 1));
    let start = |tool: &Tool| {
        let (cluster, setting, tool) = (cluster.clone(), plan.setting.clone(), tool.clone());
        Work { cluster, setting, tool, space: space.clone(), copy: copy.clone() }.start()
    };
    operate_job(cluster, &job, &rival, &start);
    leaks::check_after(&job, &rival)?;
    operate_after(cluster, &job, &start);
    leaks::check(cluster)?;
    Ok(job.has_closed())
}

/// Something that happens at a time of a job.
enum Event<'a> {
    Fault(PlannedFault),
    Tool(&'a Tool),
    Rival,
}

/// Starts a job, carries out its faults and commands, and waits for their end.
fn operate_job(cluster: &Arc<Cluster>, job: &Arc<Job>, rival: &Arc<Job>, start_tool: &dyn Fn(&Tool) -> Started) {
    let (round, start) = (&job.round, cluster.now());
    let world = current_world().expect("a thread of the cluster");
    job.start();
    let first: Vec<ProcessId> = locked(&job.ranks).iter().map(|rank| rank.process).collect();
    let is_over = || job.is_over();
    let (mut timed, mut beside) = (Vec::new(), Vec::new());
    for fault in &round.faults {
        match *fault {
            PlannedFault::DiesIn { rank, operation } => cluster.dies_in(first[rank], operation),
            PlannedFault::Fails { rank, operation, failure } => cluster.fails_in(first[rank], operation, failure),
            _ => timed.extend(fault.time().map(|time| (time, Event::Fault(*fault)))),
        }
    }
    timed.extend(round.tools.iter().filter_map(|tool| Some((tool.time?, Event::Tool(tool)))));
    timed.extend(round.rival.map(|time| (time, Event::Rival)));
    timed.sort_by_key(|(time, _)| *time);
    for (time, event) in timed {
        if world.wait("the job, or the time of an event", Some(start + time), &mut { is_over }) {
            break;
        }
        match event {
            Event::Rival => rival.start(),
            Event::Tool(tool) => beside.push(start_tool(tool)),
            Event::Fault(fault) => carry_out(cluster, job, &first, fault),
        }
    }
    // A launcher may end a job some time after one of its processes has died.
    if !round.is_healthy() && cluster.draw(|random| random.bool()) {
        let has_died = || locked(&job.ranks).iter().any(Rank::is_dead) || is_over();
        world.wait("a death, or the job", None, &mut { has_died });
        sleep(Duration::from_micros(cluster.draw(|random| random.u64(0..20_000))));
        job.kill_all();
    }
    world.wait("the job", None, &mut { is_over });
    world.wait("the commands beside the job", None, &mut || beside.iter().all(Started::is_gone));
    world.wait("the other job", None, &mut || rival.is_over());
    cluster.mend();
}

/// Carries out a fault whose time has come. `first`: the processes that the job began with.
fn carry_out(cluster: &Cluster, job: &Job, first: &[ProcessId], fault: PlannedFault) {
    match fault {
        PlannedFault::DiesAt { rank, .. } => cluster.kill(first[rank]),
        PlannedFault::Breaks { part, ailment, .. } => cluster.ails(part, ailment),
        PlannedFault::Stalls { rank, length, .. } => cluster.stall(first[rank], length),
        PlannedFault::NodeLost { node, with_disk, .. } => job.lose(&[(node, with_disk)]),
        PlannedFault::ClockJumps { by_seconds, .. } => cluster.jump_clock(by_seconds * 1_000_000_000),
        // The other faults happen in the ranks themselves.
        _ => {}
    }
}

/// After a job: nodes are lost, and commands run one by one, before or after that.
fn operate_after(cluster: &Arc<Cluster>, job: &Arc<Job>, start_tool: &dyn Fn(&Tool) -> Started) {
    let (round, world) = (&job.round, current_world().expect("a thread of the cluster"));
    if round.loses_first {
        job.lose(&round.lost);
    }
    let carry_out = |tool: &Tool| {
        let started = start_tool(tool);
        world.wait("a command", None, &mut || started.is_gone());
    };
    round.tools.iter().filter(|tool| tool.time.is_none()).for_each(carry_out);
    if !round.loses_first {
        job.lose(&round.lost);
    }
    if let Some((file, byte)) = round.rots {
        rot(cluster, job, file, byte);
    }
    if !locked(&job.judge).all_held().is_empty() {
        carry_out(&Tool::LOOK);
    }
}
