//! `hailer join`: joins a game and prints what happens.
//!
//! In: arguments, lines of standard input. Out: events as text or JSON, a map, a recording.
//!
//! May import: `crate::args`, `crate::command::secrets`, `crate::exit`, `crate::files`,
//! `crate::print`, `crate::service`, `hailer`.

use super::secrets;
use crate::args::Join as Args;
use crate::exit::{Exit, as_known, usage};
use crate::files::{create_private, folder_of};
use crate::print::game::{End, EventPrinter};
use crate::print::{columns, stderr};
use anstream::ColorChoice;
use anyhow::{Context, anyhow};
use hailer::Target;
use hailer::minecraft::game::client::{ClientEvent, GameClientConfig, chat_lines};
use hailer::minecraft::game::map::{self, Area, AsciiView, MapStyle};
use hailer::minecraft::proxy::{SessionSecret, Side};
use hailer::minecraft::{Join, JoinError, JoinSession, Recorder, join};
use hailer::proto::Transport;
use std::collections::VecDeque;
use std::fs::File;
use std::io::{BufRead, BufWriter, ErrorKind, Write};
use std::path::Path;
use std::time::{Duration, SystemTime};
use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior};

/// Minimum time between two lines of chat. Servers kick faster clients for spam.
const CHAT_INTERVAL: Duration = Duration::from_secs(1);
/// Height of a map on the terminal, in lines.
const MAP_LINES: u16 = 32;

/// A line from standard input or from `--say`.
#[derive(Clone, Debug, PartialEq)]
enum Input {
    /// Lines of chat. Commands of the server, such as `/help`, are chat too.
    Say(Vec<String>),
    /// `/walk X Z`.
    Walk(f64, f64),
    /// `/look YAW PITCH`.
    Look(f32, f32),
    /// `/follow NAME`.
    Follow(String),
    /// `/stop`: ends walking and following.
    Stop,
    /// `/quit`.
    Quit,
}

impl Input {
    /// Parses a line.
    ///
    /// # Errors
    /// One of our commands has invalid arguments. The error names the valid ones.
    fn parse(text: &str) -> Result<Self, String> {
        fn two<T: std::str::FromStr>(arguments: &[&str]) -> Option<(T, T)> {
            match arguments {
                [first, second] => Some((first.parse().ok()?, second.parse().ok()?)),
                _ => None,
            }
        }
        let words: Vec<&str> = text.split_whitespace().collect();
        let (command, arguments) = match words.split_first() {
            Some((command, arguments)) => (*command, arguments),
            None => ("", &[][..]),
        };
        match (command, arguments) {
            ("/quit", _) => Ok(Self::Quit),
            ("/stop", []) => Ok(Self::Stop),
            ("/walk", _) => two(arguments)
                .filter(|(x, z): &(f64, f64)| x.is_finite() && z.is_finite())
                .map(|(x, z)| Self::Walk(x, z))
                .ok_or_else(|| "/walk takes x and z in blocks, such as /walk 100 -20".into()),
            ("/look", _) => two(arguments)
                .filter(|(yaw, pitch): &(f32, f32)| yaw.is_finite() && pitch.is_finite())
                .map(|(yaw, pitch)| Self::Look(yaw, pitch))
                .ok_or_else(|| {
                    "/look takes yaw and pitch in degrees, such as /look 90 0 for west".into()
                }),
            ("/follow", [name]) => Ok(Self::Follow((*name).into())),
            ("/follow", _) => {
                Err("/follow takes the name of a player, such as /follow Notch".into())
            }
            _ => Ok(Self::Say(chat_lines(text))),
        }
    }
}

pub(crate) async fn run(args: Args) -> anyhow::Result<Exit> {
    let target = target(&args.target)?;
    let inputs = inputs(&args.say)?;
    if let Some(path) = &args.map {
        has_folder(path)?;
    }
    let mut secrets = args.secrets.as_deref().map(secrets::append).transpose()?;
    let mut record = args.record.as_deref().map(create).transpose()?;
    let mut show = EventPrinter::new(&args);
    let mut interrupted = std::pin::pin!(crate::service::interrupted());
    let connected = tokio::select! {
        () = &mut interrupted => Err(None),
        connected = join(&target, config(&args)) => connected.map_err(Some),
    };
    if let (Err(_), Some(path)) = (&connected, &args.record) {
        // The file was created by this run and is empty.
        let _ = std::fs::remove_file(path);
    }
    let mut session = match connected {
        Ok(session) => session,
        Err(Some(error)) => return finish(&args, &show, None, End::Failed(error)),
        Err(None) => return Ok(Exit::Partial),
    };
    if let Some(file) = record.take() {
        let recorder = Recorder::start(
            Box::new(BufWriter::new(file)) as Box<dyn Write + Send>,
            args.build,
        )?;
        session.record(recorder);
    }
    let played = tokio::select! {
        () = &mut interrupted => Ok(End::Left),
        played = play(&args, inputs, &mut session, &mut show, &mut secrets) => played,
    };
    keep_secret(&mut secrets, &session)?;
    show.ended(session.elapsed());
    let left = session.leave().await;
    let end = match (played, left) {
        (Err(error), _) => return as_known(Err(error), Exit::Success),
        (Ok(End::Left), Err(error)) => End::Failed(error),
        (Ok(end), _) => end,
    };
    if let (End::Failed(error), Some(path)) = (&end, &args.record)
        && error.kind() == "version"
    {
        // The file contains only the error, and would prevent the next attempt.
        let _ = std::fs::remove_file(path);
    }
    finish(&args, &show, Some(&session), end)
}

/// Parses the texts of `--say`.
fn inputs(texts: &[String]) -> anyhow::Result<VecDeque<Input>> {
    let mut inputs = VecDeque::new();
    for text in texts {
        match Input::parse(text) {
            Ok(Input::Say(lines)) => {
                inputs.extend(lines.into_iter().map(|line| Input::Say(vec![line])));
            }
            Ok(input) => inputs.push_back(input),
            Err(error) => usage!("--say {text:?}: {error}"),
        }
    }
    Ok(inputs)
}

/// Parses a host with an optional port.
fn target(text: &str) -> anyhow::Result<Target> {
    match text.parse::<Target>() {
        Ok(Target {
            protocol: Some(protocol),
            ..
        }) if protocol.info().transport != Transport::Stream => {
            let id = protocol.info().id;
            usage!("{text}: {id} is not the protocol of the game; omit {id}://");
        }
        Ok(target) => Ok(target),
        Err(error) => usage!("{error}"),
    }
}

fn config(args: &Args) -> Join {
    let mut join = Join {
        timeout: args.timeout,
        name_server: args.name_server,
        ..Join::default()
    };
    let build = args.build;
    let name = args.name.clone();
    let respawn = !args.no_respawn;
    let has_packet_log = args.record.is_some();
    join.client = GameClientConfig {
        build,
        name,
        can_respawn: respawn,
        has_packet_log,
        ..join.client
    };
    join
}

/// Creates the recording before connecting, so that an invalid path fails early. Only the owner can
/// read the file. It never replaces another, since a session cannot be repeated.
fn create(path: &Path) -> anyhow::Result<File> {
    match create_private(path) {
        Ok(file) => Ok(file),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            usage!(
                "--record {}: exists; remove it, or name another file",
                path.display()
            )
        }
        Err(error) => usage!("--record {}: {error}", path.display()),
    }
}

/// Fails early if the folder of the map does not exist.
fn has_folder(path: &Path) -> anyhow::Result<()> {
    let folder = folder_of(path);
    if !folder.is_dir() {
        usage!(
            "--map {}: there is no folder {}",
            path.display(),
            folder.display()
        );
    }
    if path.is_dir() {
        usage!("--map {}: this is a folder; give a file", path.display());
    }
    Ok(())
}

/// Plays until the user, the time limit or the server ends the session.
async fn play(
    args: &Args,
    mut inputs: VecDeque<Input>,
    session: &mut JoinSession,
    show: &mut EventPrinter,
    secrets: &mut Option<File>,
) -> anyhow::Result<End> {
    let mut typed = typed();
    let mut typing = true;
    let mut pace = tokio::time::interval(CHAT_INTERVAL);
    pace.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut end = None;
    loop {
        let playing = session.joined().is_some();
        tokio::select! {
            event = session.next() => match event {
                Ok(event) => {
                    if matches!(event, ClientEvent::Joined { .. }) {
                        // Write the secret early, so that it is saved however the session ends.
                        keep_secret(secrets, session)?;
                        end = end.or(args.r#for.map(|time| Instant::now() + time));
                    }
                    show.event(session.elapsed(), &event)?;
                }
                Err(error) => return Ok(End::Failed(error)),
            },
            _ = pace.tick(), if playing && !inputs.is_empty() => {
                if let Some(input) = inputs.pop_front() {
                    if input == Input::Quit {
                        return Ok(End::Left);
                    }
                    act(session, input);
                }
            },
            line = typed.recv(), if playing && typing && inputs.is_empty() => match line.map(|line| Input::parse(&line)) {
                Some(Ok(Input::Quit)) => return Ok(End::Left),
                Some(Ok(Input::Say(lines))) => {
                    inputs.extend(lines.into_iter().map(|line| Input::Say(vec![line])));
                }
                Some(Ok(input)) => act(session, input),
                Some(Err(error)) => stderr!("{error}"),
                None => typing = false,
            },
            () = tokio::time::sleep_until(end.unwrap_or_else(Instant::now)), if end.is_some() => return Ok(End::Left),
        }
    }
}

/// Executes an input. If the session has ended, the next event reports it.
fn act(session: &mut JoinSession, input: Input) {
    let client = session.client_mut();
    match input {
        Input::Say(lines) => {
            for line in lines {
                let _ = client.say(&line);
            }
        }
        Input::Walk(x, z) => client.walk_to(x, z),
        Input::Look(yaw, pitch) => client.look(yaw, pitch),
        Input::Follow(name) => client.follow(&name),
        Input::Stop | Input::Quit => client.stop(),
    }
}

/// Writes the secret of the connection as soon as it is known.
fn keep_secret(secrets: &mut Option<File>, session: &JoinSession) -> anyhow::Result<()> {
    let Some(secret) = session.client().secret() else {
        return Ok(());
    };
    let Some(mut file) = secrets.take() else {
        return Ok(());
    };
    let client = session.local_address();
    let server = session.address();
    let build = session.client().build();
    secrets::write(
        &mut file,
        SystemTime::now(),
        &SessionSecret {
            side: Side::Server,
            client,
            server,
            build,
            secret,
        },
    )?;
    Ok(())
}

/// Returns lines from standard input. Its end does not end the session.
fn typed() -> mpsc::Receiver<String> {
    let (sender, receiver) = mpsc::channel(1);
    // A thread, since reading from a terminal cannot be canceled. It does not keep the process
    // alive.
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().split(b'\n').map_while(Result::ok) {
            if sender
                .blocking_send(String::from_utf8_lossy(&line).into_owned())
                .is_err()
            {
                break;
            }
        }
    });
    receiver
}

/// Draws the requested maps.
fn draw(args: &Args, session: &JoinSession) -> anyhow::Result<()> {
    let game = session.client().game();
    let world = game.map_world();
    if session.joined().is_none() || args.map.is_none() && !args.ascii {
        return Ok(());
    }
    if world.is_empty() {
        stderr!("no map: the server sent no columns of blocks");
        return Ok(());
    }
    let area = Area::of(world);
    if let Some(path) = &args.map {
        save(path, &map::render(world, area, MapStyle::Paper))
            .with_context(|| format!("--map {}", path.display()))?;
    }
    if args.ascii {
        let middle = |from: i32, length: u32| from.saturating_add_unsigned(length / 2);
        let width = columns().unwrap_or(80).min(240) as u16;
        // Show everything, unless columns are more than 16 screens apart.
        let scale = area
            .width
            .div_ceil(width.into())
            .max(area.height.div_ceil(2 * u32::from(MAP_LINES)))
            .clamp(1, 16);
        let fits =
            |length: u32, scale: u32, most: u16| length.div_ceil(scale).min(most.into()) as u16;
        let view = AsciiView {
            center: (middle(area.x, area.width), middle(area.z, area.height)),
            width: fits(area.width, scale, width),
            height: fits(area.height, 2 * scale, MAP_LINES),
            scale: scale as u16,
            has_color: anstream::AutoStream::choice(&std::io::stdout()) != ColorChoice::Never,
        };
        let mut out = crate::print::stdout();
        write!(out, "\n{}", map::ascii(world, &view))?;
        let legend = if view.has_color {
            String::new()
        } else {
            format!("; {}", map::legend())
        };
        let blocks = if scale == 1 {
            "a block".into()
        } else {
            format!("{scale} blocks")
        };
        writeln!(out, "north is up, {blocks} a character{legend}")?;
    }
    Ok(())
}

fn save(path: &Path, image: &map::MapImage) -> anyhow::Result<()> {
    let mut encoder = png::Encoder::new(
        BufWriter::new(File::create(path)?),
        image.width,
        image.height,
    );
    encoder.set_color(png::ColorType::Rgba);
    encoder.set_depth(png::BitDepth::Eight);
    let mut writer = encoder.write_header()?;
    writer.write_image_data(&image.rgba)?;
    Ok(writer.finish()?)
}

fn finish(
    args: &Args,
    show: &EventPrinter,
    session: Option<&JoinSession>,
    end: End,
) -> anyhow::Result<Exit> {
    let exit = if matches!(end, End::Left) {
        Exit::Success
    } else {
        Exit::Partial
    };
    // Print the map last, so that it stays visible.
    let shown = show
        .summary(session, &end)
        .and_then(|()| session.map_or(Ok(()), |session| draw(args, session)));
    match end {
        End::Failed(error) if !args.json => shown.and(Err(in_words(error))),
        _ => as_known(shown, exit),
    }
}

/// Appends the option to try to the error message.
fn in_words(error: JoinError) -> anyhow::Error {
    match error.try_builds().first() {
        Some(build) => anyhow!("{error}: --build {build}"),
        None => error.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_have_arguments() {
        let parse = |text: &str| Input::parse(text);
        assert_eq!(parse("/walk 100 -20.5"), Ok(Input::Walk(100.0, -20.5)));
        assert_eq!(parse(" /look  90 0"), Ok(Input::Look(90.0, 0.0)));
        assert_eq!(parse("/follow Alex"), Ok(Input::Follow("Alex".into())));
        assert_eq!(parse("/stop"), Ok(Input::Stop));
        assert_eq!(parse("/quit"), Ok(Input::Quit));
        assert_eq!(parse("/help"), Ok(Input::Say(vec!["/help".into()])));
        assert_eq!(parse("walk 1 2"), Ok(Input::Say(vec!["walk 1 2".into()])));
        assert_eq!(parse("  "), Ok(Input::Say(vec![])));
        for (text, hint) in [
            ("/walk", "/walk 100 -20"),
            ("/walk 1", "/walk 100 -20"),
            ("/walk a b", "/walk 100 -20"),
            ("/walk nan 1", "/walk 100 -20"),
            ("/look 1 2 3", "/look 90 0"),
            ("/follow", "/follow Notch"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(hint), "{text}: {error}");
        }
    }
}
