//! A simulated game behind a machine, on a simulated clock.

use super::*;
use hailer_testkit::week::{WEEK, assert_limit};
use proptest::prelude::*;
use std::net::{IpAddr, Ipv4Addr};

/// Time that an answered poll takes.
const LATENCY: Duration = Duration::from_millis(100);
/// Time that an unanswered poll takes.
const TIMEOUT: Duration = Duration::from_secs(2);

const fn s(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Game {
    Off,
    /// Runs, and answers from this time on.
    Boots(Duration),
    Up,
    /// Runs, and answers nothing.
    Hung,
    /// No longer answers, and ends at this time.
    Closes(Duration),
}

/// The game, the machine and the time.
struct World {
    machine: Machine,
    zero: Instant,
    now: Duration,
    /// Minute of the local day at the start.
    minute: u16,
    game: Game,
    /// Players who came through the door.
    visits: u64,
    /// Players who came another way.
    others: u32,
    has_players: bool,
    /// Whether the control knows whether the game runs.
    has_control: bool,
    is_lost: bool,
    boot: Option<Duration>,
    closing: Duration,
    start_takes: Duration,
    start_result: Result<(), String>,
    stop_result: Result<(), String>,
    next_poll: Duration,
    /// The poll in flight: when it began, when it ends, its answer.
    poll: Option<(Duration, Duration, Option<GameAnswer>)>,
    operation: Option<(Operation, Duration)>,
    /// Reasons for a start, counted since the last start.
    joins: u32,
    wakes: u32,
    crashes: u32,
    /// When a poll that did not find 0 players began.
    seen: Duration,
    /// Whether the operator asked for the next stop.
    sleeps: u32,
    changes: Vec<(State, Trigger, State)>,
    held: u32,
    starts: u32,
    stops: u32,
}

impl World {
    fn new(config: MachineConfig) -> Self {
        let zero = Instant::now();
        Self {
            machine: Machine::new(config, DoorRecord::default(), zero),
            zero,
            now: Duration::ZERO,
            minute: 12 * 60,
            game: Game::Off,
            visits: 0,
            others: 0,
            has_players: true,
            has_control: false,
            is_lost: false,
            boot: Some(s(20)),
            closing: s(3),
            start_takes: s(1),
            start_result: Ok(()),
            stop_result: Ok(()),
            next_poll: Duration::ZERO,
            poll: None,
            operation: None,
            joins: 0,
            wakes: 0,
            crashes: 0,
            seen: Duration::ZERO,
            sleeps: 0,
            changes: Vec::new(),
            held: 0,
            starts: 0,
            stops: 0,
        }
    }

    fn local(&self) -> u16 {
        let minutes = self.now.as_secs() / 60 + u64::from(self.minute);
        (minutes % u64::from(DAY)) as u16
    }

    fn event(&mut self, event: Event) {
        let mut out = Vec::new();
        let now = Moment {
            at: self.zero + self.now,
            minute: self.local(),
        };
        let before = self.machine.state();
        self.machine.handle(now, event, &mut out);
        let mut was = before;
        for action in out {
            match action {
                Action::Start(cause) => self.start(&cause),
                Action::Stop(trigger) => self.stop(trigger),
                Action::Changed(change) => {
                    assert_eq!(change.from, was, "{change:?}");
                    was = change.to;
                    match (change.trigger, change.to) {
                        (Trigger::Gone, _) => self.crashes += 1,
                        // Restarts that fail are repeated.
                        (_, State::Failed | State::Starting) => {}
                        _ => self.crashes = 0,
                    }
                    self.changes.push((change.from, change.trigger, change.to));
                }
                Action::Held(..) => self.held += 1,
            }
        }
        assert_eq!(was, self.machine.state());
    }

    fn start(&mut self, cause: &Cause) {
        assert!(self.operation.is_none(), "two operations at a time");
        let asked = match cause {
            Cause::Join(_) => &mut self.joins,
            Cause::Operator => &mut self.wakes,
            Cause::Crash => {
                assert!(self.machine.config.restarts);
                &mut self.crashes
            }
        };
        assert!(*asked > 0, "a start without a reason: {cause:?}");
        if *cause != Cause::Crash {
            *asked = 0;
        }
        self.starts += 1;
        self.operation = Some((Operation::Start, self.now + self.start_takes));
    }

    fn stop(&mut self, trigger: Trigger) {
        assert!(self.operation.is_none(), "two operations at a time");
        if trigger == Trigger::Idle {
            let config = &self.machine.config;
            assert_eq!(self.visits, 0, "stopped with a player online");
            let idle = config.idle.unwrap();
            assert!(self.now >= self.seen + idle, "stopped before idle");
            let minute = self.local();
            assert!(!config.keep.iter().any(|keep| keep.contains(minute)));
        } else {
            assert!(self.sleeps > 0, "a stop without a reason: {trigger:?}");
        }
        self.stops += 1;
        self.operation = Some((Operation::Stop, self.now + s(1)));
    }

    /// Sends a join of the client with this number.
    fn join(&mut self, number: u32) {
        self.joins += 1;
        let ip = IpAddr::V4(Ipv4Addr::from(0x0A00_0000 + number));
        self.event(Event::Join(Visitor {
            source: (ip, 50_000).into(),
            attempt: JoinAttempt::default(),
        }));
    }

    fn wake(&mut self) {
        self.wakes += 1;
        self.event(Event::Wake);
    }

    fn sleep(&mut self) {
        self.sleeps += 1;
        self.event(Event::Sleep);
    }

    fn crash(&mut self) {
        self.game = Game::Off;
        self.visits = 0;
        self.others = 0;
    }

    fn poll_answer(&self) -> Option<GameAnswer> {
        let players = self.others + self.visits as u32;
        (self.game == Game::Up && !self.is_lost).then_some(GameAnswer {
            players: self.has_players.then_some(players),
        })
    }

    /// Lets time pass, with all polls and ends of operations in it.
    fn advance(&mut self, time: Duration) {
        let end = self.now + time;
        loop {
            let deadline = self.machine.deadline();
            let tick = deadline.map(|at| at.saturating_duration_since(self.zero).max(self.now));
            let game = match self.game {
                Game::Boots(at) | Game::Closes(at) => Some(at),
                _ => None,
            };
            let poll = self.poll.map_or(self.next_poll, |(_, at, _)| at);
            let operation = self.operation.map(|(_, at)| at);
            let next = [tick, game, operation, Some(poll)];
            let next = next.into_iter().flatten().min().unwrap();
            if next > end {
                break;
            }
            self.now = self.now.max(next);
            if game == Some(next) {
                self.game = match self.game {
                    Game::Boots(_) => Game::Up,
                    _ => Game::Off,
                };
            } else if operation == Some(next) {
                self.end_operation();
            } else if poll == next {
                self.poll();
            } else {
                self.event(Event::Tick);
                assert!(
                    self.machine
                        .deadline()
                        .is_none_or(|at| at > self.zero + self.now),
                    "a tick that changes nothing"
                );
            }
        }
        self.now = end;
    }

    fn end_operation(&mut self) {
        match self.operation.take() {
            Some((Operation::Start, _)) => {
                if self.start_result.is_ok() && self.game == Game::Off {
                    self.game = self
                        .boot
                        .map_or(Game::Off, |boot| Game::Boots(self.now + boot));
                }
                self.event(Event::StartEnded(self.start_result.clone()));
            }
            Some((Operation::Stop, _)) => {
                if self.stop_result.is_ok() && self.game != Game::Off {
                    self.game = Game::Closes(self.now + self.closing);
                    self.visits = 0;
                    self.others = 0;
                }
                self.event(Event::StopEnded(self.stop_result.clone()));
            }
            None => {}
        }
    }

    fn poll(&mut self) {
        let Some((asked, _, answer)) = self.poll.take() else {
            let answer = self.poll_answer();
            let takes = if answer.is_some() { LATENCY } else { TIMEOUT };
            self.poll = Some((self.now, self.now + takes, answer));
            return;
        };
        if answer.is_some_and(|answer| answer.players != Some(0)) || self.visits > 0 {
            self.seen = asked;
        }
        self.next_poll = self.now.max(asked + self.machine.config.every);
        let is_running = self.has_control.then_some(self.game != Game::Off);
        self.event(Event::Polled(Sample {
            asked: self.zero + asked,
            answer,
            is_running,
            visits: self.visits,
        }));
    }

    #[track_caller]
    fn expect(&self, state: State) {
        assert_eq!(self.machine.state(), state, "{:?}", self.changes);
    }

    /// Brings the game up by a join.
    fn up(config: MachineConfig) -> Self {
        let mut world = Self::new(config);
        world.advance(s(10));
        world.join(1);
        world.advance(s(40));
        world.expect(State::Running);
        world
    }
}

fn config() -> MachineConfig {
    MachineConfig {
        idle: Some(s(600)),
        ..MachineConfig::default()
    }
}

#[test]
fn a_join_starts_the_game_and_an_empty_game_sleeps_again() {
    let mut world = World::new(config());
    world.advance(s(3_600));
    world.expect(State::Asleep);
    assert_eq!(world.starts, 0);
    world.join(1);
    world.expect(State::Starting);
    // Others join while it starts. One start is enough.
    for number in 2..50 {
        world.join(number);
        world.advance(Duration::from_millis(100));
    }
    world.advance(s(30));
    world.expect(State::Running);
    assert_eq!(world.starts, 1);
    let took = world.machine.record(world.zero).last_start.unwrap();
    assert!((s(21)..s(27)).contains(&took), "{took:?}");
    world.visits = 1;
    world.advance(s(7_200));
    world.expect(State::Running);
    world.visits = 0;
    world.advance(s(590));
    world.expect(State::Running);
    world.advance(s(30));
    world.expect(State::Asleep);
    assert_eq!((world.starts, world.stops), (1, 1));
    let record = world.machine.record(world.zero + world.now);
    assert_eq!(
        (record.starts, record.idle_stops, record.crashes),
        (1, 1, 0)
    );
    assert!(record.asleep >= s(3_600), "{record:?}");
}

#[test]
fn a_running_game_is_found_at_the_start() {
    let mut world = World::new(config());
    world.game = Game::Up;
    // This join waits for the first poll.
    world.join(1);
    world.expect(State::Asleep);
    world.advance(s(1));
    world.expect(State::Running);
    assert_eq!(world.starts, 0);
}

#[test]
fn a_join_before_the_first_poll_starts_a_game_that_sleeps() {
    let mut world = World::new(config());
    world.join(1);
    assert_eq!(world.starts, 0);
    world.advance(s(3));
    world.expect(State::Starting);
    assert_eq!(world.starts, 1);
}

#[test]
fn a_game_that_boots_already_is_not_started_twice() {
    let mut world = World::new(config());
    world.has_control = true;
    world.game = Game::Boots(s(30));
    world.join(1);
    world.advance(s(3));
    world.expect(State::Starting);
    world.advance(s(40));
    world.expect(State::Running);
    assert_eq!(world.starts, 0);
}

#[test]
fn a_failed_start_has_a_reason_and_a_growing_pause() {
    let mut world = World::new(config());
    world.start_result = Err("no such unit".into());
    world.advance(s(10));
    let mut pauses = Vec::new();
    for number in 0..9 {
        world.join(number);
        world.advance(s(1));
        world.expect(State::Failed);
        assert_eq!(world.machine.reason(), Some("no such unit"));
        let pause = world.machine.pause(world.zero + world.now).unwrap();
        pauses.push(pause.as_secs());
        // Not before the end of the pause.
        let starts = world.starts;
        world.advance(pause - Duration::from_millis(1));
        world.join(100);
        assert_eq!(world.starts, starts);
        world.advance(Duration::from_millis(1));
    }
    assert_eq!(pauses, [10, 20, 40, 80, 160, 320, 600, 600, 600]);
    assert_eq!(world.held, 9);
    world.start_result = Ok(());
    world.join(1);
    world.advance(s(60));
    world.expect(State::Running);
    assert_eq!(world.machine.reason(), None);
    world.advance(s(900));
    world.expect(State::Asleep);
    // An orderly stop ends the growth.
    world.start_result = Err("again".into());
    world.join(1);
    world.advance(s(1));
    let pause = world.machine.pause(world.zero + world.now);
    assert_eq!(pause, Some(s(10)));
}

#[test]
fn a_start_that_takes_too_long_has_failed_until_the_game_answers() {
    let mut world = World::new(config());
    world.boot = Some(s(400));
    world.advance(s(10));
    world.join(1);
    world.advance(s(299));
    world.expect(State::Starting);
    world.advance(s(2));
    world.expect(State::Failed);
    let reason = world.machine.reason().unwrap();
    assert!(reason.contains("300 s"), "{reason}");
    world.advance(s(120));
    world.expect(State::Running);
    assert_eq!(world.stops, 0);
}

#[test]
fn an_immediate_end_is_an_early_failure() {
    let mut world = World::new(config());
    world.has_control = true;
    world.boot = None;
    world.advance(s(10));
    world.join(1);
    world.advance(s(40));
    world.expect(State::Failed);
    assert_eq!(world.machine.record(world.zero).failed_starts, 1);
}

#[test]
fn unknown_players_never_stop_the_game() {
    let mut world = World::up(config());
    world.has_players = false;
    world.advance(s(36_000));
    world.expect(State::Running);
    assert_eq!(world.stops, 0);
}

#[test]
fn a_visit_keeps_the_game_up_though_the_query_says_0() {
    let mut world = World::up(config());
    world.visits = 1;
    // The game counts only players that have finished the login.
    for _ in 0..2_000 {
        let asked = world.zero + world.now;
        world.now += s(5);
        world.event(Event::Polled(Sample {
            asked,
            answer: Some(GameAnswer { players: Some(0) }),
            is_running: None,
            visits: 1,
        }));
    }
    world.expect(State::Running);
}

#[test]
fn lost_polls_never_stop_the_game_and_restart_its_idle_time() {
    let mut world = World::up(config());
    world.others = 1;
    world.advance(s(60));
    world.others = 0;
    world.advance(s(500));
    world.is_lost = true;
    // Two lost polls, of 5 s each.
    world.advance(s(10));
    world.is_lost = false;
    world.advance(s(590));
    world.expect(State::Running);
    world.advance(s(30));
    world.expect(State::Asleep);
}

#[test]
fn a_suspended_machine_has_not_seen_an_empty_game() {
    let mut world = World::up(config());
    world.advance(s(300));
    world.now += s(8 * 3_600);
    world.next_poll = world.now;
    world.poll = None;
    world.advance(s(590));
    world.expect(State::Running);
    world.advance(s(30));
    world.expect(State::Asleep);
}

#[test]
fn an_old_answer_is_not_0() {
    let mut world = World::up(MachineConfig {
        idle: Some(s(40)),
        min_uptime: s(0),
        ..config()
    });
    for _ in 0..100 {
        // A slow answer: three polls old.
        let asked = world.zero + world.now;
        world.now += s(15);
        world.event(Event::Polled(Sample {
            asked,
            answer: Some(GameAnswer { players: Some(0) }),
            is_running: None,
            visits: 0,
        }));
    }
    world.expect(State::Running);
}

#[test]
fn the_first_minutes_and_keep_windows_are_kept() {
    let mut world = World::up(MachineConfig {
        idle: Some(s(10)),
        min_uptime: s(180),
        ..config()
    });
    world.advance(s(150));
    world.expect(State::Running);
    world.advance(s(30));
    world.expect(State::Asleep);

    let mut world = World::up(MachineConfig {
        idle: Some(s(10)),
        keep: vec!["11:50-12:30".parse().unwrap()],
        ..config()
    });
    world.advance(s(29 * 60));
    world.expect(State::Running);
    world.advance(s(60));
    world.expect(State::Asleep);
}

#[test]
fn a_keep_window_may_include_midnight() {
    let at = |text: &str, minute| text.parse::<KeepWindow>().unwrap().contains(minute);
    assert!(at("18:00-23:00", 18 * 60) && !at("18:00-23:00", 23 * 60));
    assert!(at("22:00-2:00", 0) && at("22:00-2:00", 23 * 60) && !at("22:00-2:00", 120));
    assert!(at("00:00-24:00", 0) && at("00:00-24:00", 1_439));
    for wrong in [
        "",
        "18-23",
        "18:00",
        "18:00-18:00",
        "24:00-01:00",
        "18:60-19:00",
        "18:00-25:00",
        "+1:00-2:00",
        "18:0-19:00",
        "18:00-24:01",
    ] {
        assert!(wrong.parse::<KeepWindow>().is_err(), "{wrong}");
    }
}

#[test]
fn a_crash_is_noticed_and_restarted_only_on_request() {
    for (restarts, has_control) in [(false, false), (false, true), (true, false), (true, true)] {
        let mut world = World::up(MachineConfig {
            restarts,
            ..config()
        });
        world.has_control = has_control;
        world.visits = 2;
        world.advance(s(60));
        world.crash();
        world.advance(s(20));
        world.expect(State::Failed);
        assert_eq!(world.machine.record(world.zero).crashes, 1);
        world.advance(s(60));
        world.expect(if restarts {
            State::Running
        } else {
            State::Failed
        });
        assert_eq!(world.starts, 1 + u32::from(restarts));
        if !restarts {
            world.join(2);
            world.advance(s(40));
            world.expect(State::Running);
        }
    }
}

#[test]
fn pauses_grow_with_each_crash() {
    let mut world = World::up(MachineConfig {
        restarts: true,
        ..config()
    });
    let mut times = Vec::new();
    for _ in 0..8 {
        world.crash();
        let starts = world.starts;
        let crashed = world.now;
        while world.starts == starts {
            world.advance(s(1));
        }
        times.push((world.now - crashed).as_secs());
        world.advance(s(60));
        world.expect(State::Running);
    }
    for (time, pause) in times.iter().zip([10, 20, 40, 80, 160, 320, 600, 600]) {
        assert!((pause..pause + 25).contains(time), "{times:?}");
    }
    world.others = 1;
    world.advance(s(700));
    world.crash();
    world.advance(s(60));
    world.expect(State::Running);
}

#[test]
fn a_silent_game_with_clients_has_time_before_it_is_a_crash() {
    let mut world = World::up(config());
    world.visits = 1;
    world.is_lost = true;
    world.advance(s(50));
    world.expect(State::Running);
    world.advance(s(30));
    world.expect(State::Failed);

    // Its control says that it runs.
    let mut world = World::up(config());
    world.has_control = true;
    world.game = Game::Hung;
    world.advance(s(290));
    world.expect(State::Running);
    world.advance(s(30));
    world.expect(State::Failed);
    let reason = world.machine.reason().unwrap();
    assert!(reason.contains("does not answer"), "{reason}");
    world.game = Game::Up;
    world.advance(s(10));
    world.expect(State::Running);
}

#[test]
fn a_join_while_it_stops_starts_it_again_afterwards() {
    let mut world = World::up(config());
    world.closing = s(60);
    world.has_control = true;
    world.sleep();
    world.expect(State::Stopping);
    world.advance(s(30));
    world.expect(State::Stopping);
    world.join(7);
    world.join(8);
    assert_eq!(world.starts, 1);
    world.advance(s(40));
    world.expect(State::Starting);
    world.advance(s(40));
    world.expect(State::Running);
    assert_eq!(world.starts, 2);
}

#[test]
fn a_failed_stop_leaves_the_game_running() {
    let mut world = World::up(config());
    world.stop_result = Err("permission denied".into());
    world.advance(s(630));
    world.expect(State::Running);
    assert_eq!(world.stops, 1);
    assert_eq!(world.machine.reason(), Some("permission denied"));
    world.stop_result = Ok(());
    world.advance(s(660));
    world.expect(State::Asleep);

    // The stop command fails, but the game is gone.
    let mut world = World::up(config());
    world.stop_result = Err("already stopped".into());
    world.sleep();
    world.crash();
    world.advance(s(20));
    world.expect(State::Asleep);
}

#[test]
fn a_stop_that_does_nothing_ends_after_5_minutes() {
    let mut world = World::up(config());
    world.sleep();
    world.operation = None;
    world.event(Event::StopEnded(Ok(())));
    world.advance(s(299));
    world.expect(State::Stopping);
    world.advance(s(10));
    world.expect(State::Running);

    let mut world = World::up(config());
    world.has_control = true;
    world.closing = s(400);
    world.sleep();
    world.advance(s(310));
    world.expect(State::Failed);
}

#[test]
fn a_client_that_gets_in_last_cancels_the_stop() {
    let mut world = World::up(config());
    world.advance(s(500));
    while world.stops == 0 {
        world.advance(Duration::from_millis(100));
    }
    world.operation = None;
    world.visits = 1;
    world.event(Event::Entered);
    world.expect(State::Running);
    world.advance(s(3_600));
    world.expect(State::Running);
}

#[test]
fn the_operator_wakes_and_puts_to_sleep_in_every_state() {
    let mut world = World::new(config());
    world.start_result = Err("broken".into());
    world.advance(s(10));
    world.wake();
    world.advance(s(2));
    world.expect(State::Failed);
    // No pause for the operator.
    world.start_result = Ok(());
    world.start_takes = s(10);
    world.wake();
    world.expect(State::Starting);
    // The stop waits for the end of the start.
    world.sleep();
    world.expect(State::Stopping);
    assert_eq!(world.stops, 0);
    world.advance(s(30));
    world.expect(State::Asleep);
    assert_eq!(world.stops, 1);
    world.wake();
    world.advance(s(60));
    world.expect(State::Running);
    world.visits = 1;
    world.sleep();
    world.expect(State::Stopping);
    world.wake();
    world.advance(s(60));
    world.expect(State::Running);
}

#[test]
fn a_changed_configuration_keeps_the_state() {
    let mut world = World::up(config());
    world.machine.configure(MachineConfig {
        idle: Some(s(60)),
        min_uptime: s(0),
        ..config()
    });
    world.expect(State::Running);
    world.advance(s(70));
    world.expect(State::Asleep);
}

#[test]
fn a_simulated_week() {
    // One source wakes the game as often as it can, another one once a day.
    let limits = DoorLimits {
        per_source: 6,
        total: 60,
    };
    let mut world = World::new(MachineConfig {
        idle: Some(s(10)),
        min_uptime: s(0),
        limits,
        ..config()
    });
    let minutes = WEEK.as_secs() / 60;
    let mut of_attacker = 0;
    let mut of_player = 0;
    for minute in 0..minutes {
        let starts = world.starts;
        if minute % 1_440 == 1_000 {
            // The game sleeps at this time of the minute.
            world.join(2);
            of_player += world.starts - starts;
        } else {
            world.join(1);
            of_attacker += world.starts - starts;
        }
        if minute == minutes / 2 {
            // The machine is suspended for the time of a stop.
            world.now += s(600);
            world.poll = None;
            world.next_poll = world.now;
        }
        world.advance(s(60));
        assert!(world.machine.starts.len() <= limits.total);
    }
    assert_eq!(of_player, 7);
    let time = WEEK + s(600);
    assert_limit(of_attacker.into(), 6.0 / 3_600.0, 6.0, time);
    let record = world.machine.record(world.zero + world.now);
    // Each start costs 21 s of starting and about 10 s of running, and most of the minute is over.
    let awake = time - record.asleep;
    let each = awake.as_secs_f64() / f64::from(world.starts);
    assert!((30.0..60.0).contains(&each), "{each} s awake per start");
    assert_eq!(record.crashes, 0);
}

/// A step of a random life.
#[derive(Clone, Debug)]
enum Step {
    Join(u32),
    Wake,
    Sleep,
    Enter,
    Leave,
    EnterElsewhere,
    Crash,
    Hang,
    Lose(bool),
    Boot(Option<u64>),
    StartTakes(u64),
    StartWorks(bool),
    StopWorks(bool),
    Control(bool),
    Clock(u16),
    Suspend(u64),
    Cancel,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0u32..20).prop_map(Step::Join),
        1 => Just(Step::Wake),
        1 => Just(Step::Sleep),
        3 => Just(Step::Enter),
        3 => Just(Step::Leave),
        1 => Just(Step::EnterElsewhere),
        2 => Just(Step::Crash),
        1 => Just(Step::Hang),
        2 => any::<bool>().prop_map(Step::Lose),
        1 => proptest::option::of(0u64..500).prop_map(Step::Boot),
        1 => (0u64..400).prop_map(Step::StartTakes),
        1 => any::<bool>().prop_map(Step::StartWorks),
        1 => any::<bool>().prop_map(Step::StopWorks),
        1 => any::<bool>().prop_map(Step::Control),
        1 => (0u16..DAY).prop_map(Step::Clock),
        1 => (0u64..100_000).prop_map(Step::Suspend),
        1 => Just(Step::Cancel),
    ]
}

impl World {
    fn take(&mut self, step: &Step) {
        match *step {
            Step::Join(number) => self.join(number),
            Step::Wake => self.wake(),
            Step::Sleep => self.sleep(),
            Step::Enter if self.machine.state() == State::Running && self.game == Game::Up => {
                self.visits += 1;
            }
            Step::Enter => {}
            Step::Leave => {
                self.visits = self.visits.saturating_sub(1);
                self.others = 0;
            }
            Step::EnterElsewhere => self.others += u32::from(self.game == Game::Up),
            Step::Crash => self.crash(),
            Step::Hang => {
                if self.game == Game::Up {
                    self.game = Game::Hung;
                }
            }
            Step::Lose(is_lost) => self.is_lost = is_lost,
            Step::Boot(boot) => self.boot = boot.map(s),
            Step::StartTakes(seconds) => self.start_takes = s(seconds),
            Step::StartWorks(works) => {
                self.start_result = if works { Ok(()) } else { Err("broken".into()) };
            }
            Step::StopWorks(works) => {
                self.stop_result = if works { Ok(()) } else { Err("broken".into()) };
            }
            Step::Control(has_control) => self.has_control = has_control,
            Step::Clock(minute) => self.minute = minute,
            Step::Suspend(seconds) => {
                self.now += s(seconds);
                if let Some((_, end, _)) = &mut self.poll {
                    *end = (*end).max(self.now);
                }
            }
            Step::Cancel => {
                if let Some((Operation::Stop, _)) = self.operation
                    && self.machine.state() == State::Stopping
                {
                    self.operation = None;
                    self.event(Event::Entered);
                    self.expect(State::Running);
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Starts and stops have a reason, operations never overlap (see [`World`]), and whatever
    /// happened before, a join then wakes the game, and it sleeps again.
    #[test]
    fn a_door_is_never_stuck_and_does_nothing_unasked(
        steps in proptest::collection::vec((step(), 0u64..900), 1..80),
        restarts in any::<bool>(),
    ) {
        let mut world = World::new(MachineConfig {
            restarts,
            idle: Some(s(120)),
            keep: vec!["18:00-23:00".parse().unwrap()],
            ..config()
        });
        for (step, seconds) in &steps {
            world.take(step);
            world.advance(s(*seconds));
            let state = world.machine.state();
            let has_end = world.machine.deadline().is_some();
            prop_assert!(has_end || !matches!(state, State::Starting | State::Stopping));
        }
        // The world is well again, outside the window.
        world.is_lost = false;
        world.boot = Some(s(20));
        world.start_takes = s(1);
        world.start_result = Ok(());
        world.stop_result = Ok(());
        world.visits = 0;
        world.others = 0;
        if world.game == Game::Hung {
            world.game = Game::Up;
        }
        world.advance(s(3_600));
        let minutes = world.now.as_secs() / 60 % u64::from(DAY);
        world.minute = ((u64::from(DAY) + 60 - minutes) % u64::from(DAY)) as u16;
        for number in 100..160 {
            if world.machine.state() == State::Running {
                break;
            }
            world.join(number);
            world.advance(s(60));
        }
        world.expect(State::Running);
        prop_assert_eq!(world.game, Game::Up);
        world.advance(s(900));
        world.expect(State::Asleep);
        prop_assert_eq!(world.game, Game::Off);
    }
}
