//! `hailer join`: takes part in a game, and shows what happens.

use super::secrets;
use crate::args::Join as Args;
use crate::exit::{Exit, as_known, usage};
use crate::print::game::{End, Show};
use crate::print::{columns, tell};
use anstream::ColorChoice;
use anyhow::{Context, anyhow};
use hailer::Target;
use hailer::game::client::{ClientEvent, GameClientConfig};
use hailer::game::map::{self, Area, AsciiView, MapStyle};
use hailer::minecraft::proxy::{SessionSecret, Side};
use hailer::minecraft::{Join, JoinError, JoinSession, Recorder, join};
use hailer::proto::Transport;
use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufWriter, ErrorKind, Write};
use std::path::Path;
use std::time::{Duration, SystemTime};
use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior};

/// From one line of chat to the next: faster ones are thrown out as spam.
const PACE: Duration = Duration::from_secs(1);
/// Said, it means to leave.
const QUIT: &str = "/quit";
/// Lines of a map on the terminal.
const MAP_LINES: u16 = 32;

pub(crate) async fn run(args: Args) -> anyhow::Result<Exit> {
    let target = target(&args.target)?;
    if let Some(path) = &args.map {
        has_folder(path)?;
    }
    let mut secrets = args.secrets.as_deref().map(secrets::append).transpose()?;
    let mut record = args.record.as_deref().map(create).transpose()?;
    let mut show = Show::new(&args);
    let mut interrupted = std::pin::pin!(super::serve::interrupted());
    let connected = tokio::select! {
        () = &mut interrupted => Err(None),
        connected = join(&target, settings(&args)) => connected.map_err(Some),
    };
    if let (Err(_), Some(path)) = (&connected, &args.record) {
        // We made it, and there is nothing in it.
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
        played = play(&args, &mut session, &mut show, &mut secrets) => played,
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
        // Two packets that the error tells as well, and in the way of the next try.
        let _ = std::fs::remove_file(path);
    }
    finish(&args, &show, Some(&session), end)
}

/// A host, and perhaps a port.
fn target(text: &str) -> anyhow::Result<Target> {
    match text.parse::<Target>() {
        Ok(Target {
            protocol: Some(protocol),
            ..
        }) if protocol.info().transport != Transport::Stream => {
            let id = protocol.info().id;
            usage!("{text}: the game has a protocol of its own; leave out {id}://");
        }
        Ok(target) => Ok(target),
        Err(error) => usage!("{error}"),
    }
}

fn settings(args: &Args) -> Join {
    let mut join = Join {
        timeout: args.timeout,
        name_server: args.name_server,
        ..Join::default()
    };
    let (build, name) = (args.build, args.name.clone());
    let (respawn, keep_packets) = (!args.no_respawn, args.record.is_some());
    join.client = GameClientConfig {
        build,
        name,
        respawn,
        keep_packets,
        ..join.client
    };
    join
}

/// The recording is made before anything else, so that nothing is lost for want of a folder. For who runs this only, and
/// never in the place of another: what is said in a game cannot be had again.
fn create(path: &Path) -> anyhow::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    match options.open(path) {
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

/// The map is drawn at the end. What is sure to stop it then is said now.
fn has_folder(path: &Path) -> anyhow::Result<()> {
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty())
        .unwrap_or(Path::new("."));
    if !folder.is_dir() {
        usage!(
            "--map {}: there is no folder {}",
            path.display(),
            folder.display()
        );
    }
    if path.is_dir() {
        usage!("--map {}: is a folder; name a file in it", path.display());
    }
    Ok(())
}

/// Plays until we want to leave or have to.
async fn play(
    args: &Args,
    session: &mut JoinSession,
    show: &mut Show,
    secrets: &mut Option<File>,
) -> anyhow::Result<End> {
    let mut say = VecDeque::from(args.say.clone());
    let mut typed = typed();
    let mut typing = true;
    let mut pace = tokio::time::interval(PACE);
    pace.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut end = None;
    loop {
        let playing = session.joined().is_some();
        tokio::select! {
            event = session.next() => match event {
                Ok(event) => {
                    if matches!(event, ClientEvent::Joined { .. }) {
                        // Now, so that it is there whatever becomes of us, and its time is that of the connection.
                        keep_secret(secrets, session)?;
                        end = end.or(args.r#for.map(|time| Instant::now() + time));
                    }
                    show.event(session.elapsed(), &event)?;
                }
                Err(error) => return Ok(End::Failed(error)),
            },
            _ = pace.tick(), if playing && !say.is_empty() => {
                // The next event tells what became of a game that is over.
                let _ = session.client_mut().say(&say.pop_front().unwrap_or_default());
            }
            line = typed.recv(), if playing && typing && say.is_empty() => match line {
                Some(line) if line.trim() == QUIT => return Ok(End::Left),
                Some(line) => say.push_back(line),
                None => typing = false,
            },
            () = tokio::time::sleep_until(end.unwrap_or_else(Instant::now)), if end.is_some() => return Ok(End::Left),
        }
    }
}

/// Writes the secret of the connection, once there is one.
fn keep_secret(secrets: &mut Option<File>, session: &JoinSession) -> anyhow::Result<()> {
    let Some(secret) = session.client().secret() else {
        return Ok(());
    };
    let Some(mut file) = secrets.take() else {
        return Ok(());
    };
    let (client, server, build) = (
        session.local_address(),
        session.address(),
        session.client().build(),
    );
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

/// Lines from standard input. Its end ends nothing.
fn typed() -> mpsc::Receiver<String> {
    let (sender, receiver) = mpsc::channel(1);
    // A thread of its own: reading from a terminal cannot be called off, and the process ends all the same.
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

/// The maps asked for.
fn draw(args: &Args, session: &JoinSession) -> anyhow::Result<()> {
    let game = session.client().game();
    let world = game.world();
    if session.joined().is_none() || args.map.is_none() && !args.ascii {
        return Ok(());
    }
    if world.is_empty() {
        tell!("no columns of blocks came, so there is no map");
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
        // Wide enough for all of it, if it is not absurdly far apart.
        let scale = area
            .width
            .div_ceil(width.into())
            .max(area.height.div_ceil(2 * u32::from(MAP_LINES)))
            .clamp(1, 16);
        let fits =
            |length: u32, scale: u32, most: u16| length.div_ceil(scale).min(most.into()) as u16;
        let view = AsciiView {
            centre: (middle(area.x, area.width), middle(area.z, area.height)),
            width: fits(area.width, scale, width),
            height: fits(area.height, 2 * scale, MAP_LINES),
            scale: scale as u16,
            colour: anstream::AutoStream::choice(&std::io::stdout()) != ColorChoice::Never,
        };
        let mut out = anstream::stdout();
        write!(out, "\n{}", map::ascii(world, &view))?;
        let legend = if view.colour {
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
    show: &Show,
    session: Option<&JoinSession>,
    end: End,
) -> anyhow::Result<Exit> {
    let exit = if matches!(end, End::Left) {
        Exit::Success
    } else {
        Exit::Partial
    };
    // The map comes last, where it stays in view.
    let shown = show
        .summary(session, &end)
        .and_then(|()| session.map_or(Ok(()), |session| draw(args, session)));
    match end {
        End::Failed(error) if !args.json => shown.and(Err(in_words(error))),
        _ => as_known(shown, exit),
    }
}

/// The error, and what to type instead.
fn in_words(error: JoinError) -> anyhow::Error {
    match error.try_builds().first() {
        Some(build) => anyhow!("{error}: --build {build}"),
        None => error.into(),
    }
}
