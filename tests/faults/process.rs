//! doclock as a child process. It dies with the test, by a panic too.

use std::{
    fs,
    io::{BufRead, BufReader, Read},
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    sync::{Arc, Mutex, mpsc},
    thread::{self, JoinHandle},
    time::Duration,
};

use doclock::auth::{Claims, Role};
use tempfile::TempDir;

use crate::caller::Caller;

const BINARY: &str = env!("CARGO_BIN_EXE_doclock");
const SECRET: &str = "a secret that only the tests of this process know";
/// The year 2096, which is later than any test, whatever its clock is set to.
const NEVER: f64 = 4_000_000_000.0;
/// Nothing here takes this long unless it hangs.
pub const DEADLINE: Duration = Duration::from_mins(1);

/// A folder with a database, and how doclock is started on it.
pub struct Home {
    folder: TempDir,
    environment: Vec<(String, String)>,
    ignores_file_limit: bool,
}

impl Home {
    pub fn new() -> Self {
        let secret = ("DOCLOCK_AUTH__SECRET".to_owned(), SECRET.to_owned());
        Self { environment: vec![secret], ..Self::with_own_secret() }
    }

    /// A home where doclock makes its own secret.
    pub fn with_own_secret() -> Self {
        Self { folder: tempfile::tempdir().unwrap(), environment: Vec::new(), ignores_file_limit: false }
    }

    pub fn set(mut self, name: &str, value: impl Into<String>) -> Self {
        self.environment.push((name.to_owned(), value.into()));
        self
    }

    /// Writing past the limit of [`Process::limit_file_size`] fails, as on a full disk, instead of killing.
    pub fn ignoring_file_limit(mut self) -> Self {
        self.ignores_file_limit = true;
        self
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    pub fn database(&self) -> PathBuf {
        self.path().join("data/doclock.db")
    }

    /// The database with its log and its index: what belongs together.
    pub fn files(&self) -> [PathBuf; 3] {
        ["", "-wal", "-shm"].map(|suffix| self.path().join(format!("data/doclock.db{suffix}")))
    }

    /// Builds the command `doclock` with these arguments, in the folder, with no environment but what was set.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = if self.ignores_file_limit {
            let mut shell = Command::new("bash");
            shell.args(["-c", r#"trap "" XFSZ; exec "$@""#, "bash", BINARY]);
            shell
        } else {
            Command::new(BINARY)
        };
        command.args(arguments).current_dir(self.path()).env_clear();
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        command
    }

    pub fn start(&self) -> Process {
        self.start_on("127.0.0.1:0")
    }

    pub fn start_on(&self, address: &str) -> Process {
        Process::start(self.command(&["--listen", address]))
    }

    /// Runs to its end and returns exit code, standard output and standard error.
    pub fn run(&self, arguments: &[&str]) -> (Option<i32>, String, String) {
        let output = self.command(arguments).output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (output.status.code(), text(output.stdout), text(output.stderr))
    }
}

pub struct Process {
    pub base: String,
    child: Child,
    output: Lines,
    log: Lines,
    readers: Vec<JoinHandle<()>>,
}

type Lines = Arc<Mutex<Vec<String>>>;

impl Process {
    fn start(mut command: Command) -> Self {
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let (sender, listens) = mpsc::channel();
        let (output, output_reader) = collect(child.stdout.take().unwrap(), Some(sender));
        let (log, log_reader) = collect(child.stderr.take().unwrap(), None);
        // In one piece before anything can fail, so that the child is killed if it does.
        let readers = vec![output_reader, log_reader];
        let mut process = Self { base: String::new(), child, output, log, readers };
        let Ok(line) = listens.recv_timeout(DEADLINE) else { panic!("does not listen: {:?}", process.log()) };
        line.split_whitespace().last().unwrap().clone_into(&mut process.base);
        process
    }

    /// Lines printed so far.
    pub fn output(&self) -> Vec<String> {
        self.output.lock().unwrap().clone()
    }

    /// Lines logged so far.
    pub fn log(&self) -> Vec<String> {
        self.log.lock().unwrap().clone()
    }

    pub fn editor(&self, sub: &str) -> Caller {
        self.caller(sub, Role::Editor)
    }

    pub fn admin(&self) -> Caller {
        self.caller("root", Role::Admin)
    }

    fn caller(&self, sub: &str, role: Role) -> Caller {
        Caller::new(&self.base, token(sub, role))
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    pub fn signal(&self, name: &str) {
        run("kill", &[&format!("-{name}"), &self.id().to_string()]);
    }

    /// Files of the process may not grow past this size; `None` lifts the limit.
    pub fn limit_file_size(&self, bytes: Option<u64>) {
        let soft = bytes.map_or("unlimited".to_owned(), |bytes| bytes.to_string());
        run("prlimit", &["--pid", &self.id().to_string(), &format!("--fsize={soft}:unlimited")]);
    }

    /// Kills the process with `kill -9` and waits until it is gone.
    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    pub fn is_running(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    /// Waits until it has ended and all its output has been read.
    pub fn wait(&mut self) -> ExitStatus {
        let status = self.child.wait().unwrap();
        self.readers.drain(..).for_each(|reader| reader.join().unwrap());
        status
    }

    /// Sends SIGTERM and checks that the process ends with code 0.
    pub fn stop(mut self) {
        self.signal("TERM");
        assert_eq!(self.wait().code(), Some(0), "{:?}", self.log());
    }
}

/// A token that every process started here accepts.
pub fn token(sub: &str, role: Role) -> String {
    let claims = Claims { sub: sub.to_owned(), role, exp: NEVER, ..Claims::default() };
    claims.sign(SECRET.as_bytes()).unwrap()
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Collects lines as they come; the first one is also sent.
fn collect(pipe: impl Read + Send + 'static, first: Option<mpsc::Sender<String>>) -> (Lines, JoinHandle<()>) {
    let lines = Lines::default();
    let collected = Arc::clone(&lines);
    let reader = thread::spawn(move || {
        let mut first = first;
        for line in BufReader::new(pipe).lines().map_while(Result::ok) {
            collected.lock().unwrap().push(line.clone());
            if let Some(first) = first.take() {
                let _ = first.send(line);
            }
        }
    });
    (lines, reader)
}

pub fn run(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output().unwrap_or_else(|error| panic!("{program}: {error}"));
    assert!(output.status.success(), "{program} {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Another program that holds the database's write lock until it is dropped.
pub fn write_lock(home: &Home) -> rusqlite::Connection {
    let connection = rusqlite::Connection::open(home.database()).unwrap();
    connection.busy_timeout(DEADLINE).unwrap();
    connection.execute_batch("BEGIN IMMEDIATE").unwrap();
    connection
}

pub fn size(path: &Path) -> u64 {
    fs::metadata(path).map_or(0, |metadata| metadata.len())
}
