//! The command line: `serve` (default), `token`, and what is in [`cli`].

mod cli;

use std::{
    io::{IsTerminal, Write},
    path::PathBuf,
    process::ExitCode,
};

use clap::{Args, Parser, Subcommand};
use doclock::{
    app::{App, Crash, Options, StartError},
    auth::{Claims, Role, secret},
    locking::{HolderKind, Timestamp},
    logging,
    settings::{Settings, Sources},
    time::clock::Clock,
};

/// Requests make many small allocations on several threads. mimalloc serves these faster than the system's allocator
/// (docs/benchmarks.md).
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Real-time document lock server.
#[derive(Debug, Parser)]
#[command(version)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    /// Settings file; config/default.toml shows what can be set.
    #[arg(long, global = true, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Where the database is, such as <sqlite://data/doclock.db>.
    #[arg(long, global = true, value_name = "URL")]
    database: Option<String>,
    /// Address and port to listen on.
    #[arg(long, global = true, value_name = "ADDRESS")]
    listen: Option<String>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the server (the default).
    Serve,
    /// Print a token, signed with the server's secret.
    Token(TokenArgs),
    /// Copy the SQLite database into a new file, while the server runs.
    Backup {
        #[arg(value_name = "FILE")]
        file: PathBuf,
    },
    /// After a restore or a lossy failover, with all servers stopped: end all locks and let fencing tokens jump.
    NewEpoch,
}

#[derive(Debug, Args)]
struct TokenArgs {
    /// Who it is for: the owner of the locks.
    #[arg(long, value_name = "USER")]
    sub: String,
    #[arg(long, value_enum, default_value = "viewer")]
    role: Role,
    /// A room it is good for, with * and ?; may be repeated. All rooms unless given.
    #[arg(long = "room", value_name = "GLOB")]
    rooms: Vec<String>,
    /// The name others see.
    #[arg(long)]
    name: Option<String>,
    #[arg(long)]
    tenant: Option<String>,
    /// Such as takeover; may be repeated.
    #[arg(long = "permission", value_name = "PERMISSION")]
    permissions: Vec<String>,
    /// What holds locks by it.
    #[arg(long, value_parser = ["person", "agent", "job"])]
    kind: Option<String>,
    /// How long it is good for: a number and s, m, h or d.
    #[arg(long, default_value = "8h", value_parser = seconds)]
    ttl: u32,
}

/// The exit code that tells a supervisor not to start the server again (`EX_DATAERR`).
const NEEDS_A_HAND: u8 = 65;

/// One line for the person who started it, and the exit code.
struct Failure(String, ExitCode);

impl From<String> for Failure {
    fn from(line: String) -> Self {
        Self(line, ExitCode::FAILURE)
    }
}

impl From<Crash> for Failure {
    fn from(crash: Crash) -> Self {
        let code = match crash {
            Crash::Worker(_) => ExitCode::FAILURE,
            Crash::NeedsAHand(_) => NEEDS_A_HAND.into(),
        };
        Self(crash.to_string(), code)
    }
}

#[tokio::main(worker_threads = 2)]
async fn main() -> ExitCode {
    let cli = Cli::parse();
    let sources = Sources {
        file: cli.config,
        environment: std::env::vars_os().map(|(name, value)| (name.to_string_lossy().into_owned(), value)).collect(),
        listen: cli.listen,
        database: cli.database,
    };
    let result = match Settings::load(&sources) {
        Err(error) => Err(error.to_string().into()),
        Ok(settings) => match cli.command.unwrap_or(Command::Serve) {
            Command::Serve => serve(settings).await,
            Command::Token(args) => token(&settings, args).map_err(Into::into),
            Command::Backup { file } => cli::backup(&settings, &file).map_err(Into::into),
            Command::NewEpoch => cli::new_epoch(&settings).await.map_err(Into::into),
        },
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure(line, code)) => {
            eprintln!("doclock: {line}");
            code
        }
    }
}

async fn serve(settings: Settings) -> Result<(), Failure> {
    logging::start(&settings.log)?;
    // Signals are listened for before the start, so that one that comes during it is not missed.
    let stop = stop_signal().map_err(|error| format!("cannot listen for signals: {error}"))?;
    let app = App::start(settings, Options::default()).await.map_err(|error: StartError| error.to_string())?;
    greet(&app);
    Ok(app.run(stop).await?)
}

/// Prints the address and the links. If nobody reads them any more, that is no reason to stop.
fn greet(app: &App) {
    let mut stdout = std::io::stdout();
    let _ = writeln!(stdout, "doclock {} listens on http://{}", env!("CARGO_PKG_VERSION"), app.address);
    // Tokens are for the person who started it, and must not end up in a journal.
    let is_terminal = stdout.is_terminal();
    for link in app.links.iter().filter(|link| is_terminal || !link.has_token) {
        let _ = writeln!(stdout, "  {}: {}", link.what, link.url);
    }
}

/// Resolves at SIGTERM or SIGINT.
fn stop_signal() -> std::io::Result<impl Future<Output = ()>> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
}

fn token(settings: &Settings, args: TokenArgs) -> Result<(), String> {
    let secret = secret::find_or_make(&settings.auth, &settings.database.url).map_err(|e| e.to_string())?;
    let secret = secret.ok_or("there is no secret to sign with: auth.jwks_file holds public keys only")?;
    let now = Clock::system(Timestamp::default()).wall();
    #[expect(clippy::cast_precision_loss, reason = "seconds of this century")]
    let exp = (now.millis() / 1000 + i64::from(args.ttl)) as f64;
    let claims = Claims {
        sub: args.sub,
        tenant: args.tenant,
        name: args.name,
        kind: args.kind.as_deref().map(|kind| HolderKind::from_stored(Some(kind))),
        role: args.role,
        rooms: (!args.rooms.is_empty()).then_some(args.rooms),
        permissions: args.permissions,
        exp,
        nbf: None,
    };
    println!("{}", claims.sign(&secret.bytes).map_err(|error| error.to_string())?);
    Ok(())
}

fn seconds(text: &str) -> Result<u32, String> {
    let unit = match text.chars().last() {
        Some('s') => 1,
        Some('m') => 60,
        Some('h') => 3600,
        Some('d') => 86_400,
        _ => return Err("must end with s, m, h or d".to_owned()),
    };
    let count: u32 = text[..text.len() - 1].parse().map_err(|_| "must be a number and s, m, h or d".to_owned())?;
    count.checked_mul(unit).filter(|seconds| *seconds > 0).ok_or_else(|| "is out of range".to_owned())
}
