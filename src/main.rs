//! The command line: `serve` (default), `token`, and what is in [`cli`].

mod cli;

use std::{
    io::{IsTerminal, Write},
    path::PathBuf,
    process::ExitCode,
    time::Duration,
};

use clap::{Args, CommandFactory as _, Parser, Subcommand};
use cli::{Connection, EventsArgs, Failure, LockArgs, LocksArgs, UnlockArgs};
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

/// Real-time document lock server, and its tools.
///
/// `lock`, `locks`, `unlock`, `events` and `health` ask a server: that of `DOCLOCK_URL`, with the token in `DOCLOCK_TOKEN`. Without
/// these they ask the one that runs here, by its settings, with a token signed with its secret.
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
    /// The server to ask, instead of that of `DOCLOCK_URL`.
    #[arg(long, global = true, value_name = "URL")]
    url: Option<String>,
    /// Print JSON, one object per line.
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the server (the default).
    Serve,
    /// Print a token, signed with the server's secret.
    Token(TokenArgs),
    /// Run a command while holding a lock.
    Lock(LockArgs),
    /// Show who holds what.
    Locks(LocksArgs),
    /// End locks of others.
    Unlock(UnlockArgs),
    /// Show the audit trail.
    Events(EventsArgs),
    /// Say whether settings, database, token and server are well, and if not, why.
    Check,
    /// Ask a server whether it can serve requests: exit code 0 or 1.
    Health,
    /// Print a completion script, such as for `/etc/bash_completion.d/doclock`.
    Completions { shell: clap_complete::Shell },
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
    #[arg(long, default_value = "8h", value_parser = cli::duration)]
    ttl: Duration,
}

/// The exit code that tells a supervisor not to start the server again (`EX_DATAERR`).
const NEEDS_A_HAND: u8 = 65;

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
    match run(cli.command.unwrap_or(Command::Serve), cli.url, cli.json, &sources).await {
        Ok(code) => code,
        Err(Failure(line, code)) => {
            eprintln!("doclock: {line}");
            code
        }
    }
}

async fn run(command: Command, url: Option<String>, as_json: bool, sources: &Sources) -> Result<ExitCode, Failure> {
    // Those who ask a server elsewhere need no settings.
    let settings = || Settings::load(sources).map_err(|error| error.to_string());
    let connection = Connection::new(url, sources);
    match command {
        Command::Serve => serve(settings()?).await?,
        Command::Token(args) => token(&settings()?, args)?,
        Command::Backup { file } => cli::backup(&settings()?, &file)?,
        Command::NewEpoch => cli::new_epoch(&settings()?).await?,
        Command::Completions { shell } => {
            clap_complete::generate(shell, &mut Cli::command(), "doclock", &mut std::io::stdout());
        }
        Command::Lock(args) => return cli::lock(&connection, args).await,
        Command::Locks(args) => return cli::locks(&connection, args, as_json).await,
        Command::Unlock(args) => return cli::unlock(&connection, args, as_json).await,
        Command::Events(args) => return cli::events(&connection, args, as_json).await,
        Command::Check => return cli::check(&connection, as_json).await,
        Command::Health => return cli::health(&connection, as_json).await,
    }
    Ok(ExitCode::SUCCESS)
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
    let exp = (now.millis() / 1000) as f64 + args.ttl.as_secs_f64();
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
