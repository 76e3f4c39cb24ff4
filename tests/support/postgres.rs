//! Throw-away PostgreSQL: in a temporary folder, on a free port, gone when the process ends, however it ends.

use std::{
    fs,
    io::{BufRead, BufReader, Write},
    path::PathBuf,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    sync::{
        OnceLock,
        atomic::{AtomicU32, Ordering},
    },
};

/// The shell's standard input is a pipe from this process. What to do comes over it, line by line; when it closes, the
/// cluster is stopped and deleted.
const KEEPER: &str = r#"
set -eu
folder=$(mktemp -d)
as_user=""
if [ "$(id -u)" = 0 ]; then
  chown postgres "$folder"
  as_user="runuser -u postgres --"
fi
control() { $as_user "$programs/pg_ctl" -D "$folder/data" -w "$@" </dev/null >/dev/null 2>&1; }
start() {
  control -l "$folder/data/log" start -o "-p $1 -c listen_addresses=127.0.0.1 -c unix_socket_directories='' \
    -c fsync=off -c max_connections=$connections"
}
cleanup() { control -m immediate stop || true; rm -rf "$folder"; }
programs=$1
connections=$3
trap cleanup EXIT
cd "$folder"
$as_user "$programs/initdb" -D "$folder/data" -A trust -U postgres --no-sync -E UTF8 --locale=C >"$folder/log" 2>&1 ||
  { cat "$folder/log" >&2; exit 1; }
for port in $(seq "$2" 7 64000); do
  if start "$port"; then break; fi
done
echo "$port"
while read -r order; do
  case $order in
    stop) control -m fast stop ;;
    start) start "$port" ;;
  esac
  echo done
done
"#;

/// A new, empty database on a cluster that all tests of the process share.
#[allow(dead_code, reason = "not every test binary shares one")]
pub fn new_database() -> String {
    static SHARED: OnceLock<Cluster> = OnceLock::new();
    SHARED.get_or_init(|| Cluster::start(400)).new_database()
}

/// A cluster of one's own, to be stopped and started.
pub struct Cluster {
    port: u16,
    databases: AtomicU32,
    #[allow(dead_code, reason = "only held open by test binaries that never stop it")]
    keeper: Child,
    orders: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Cluster {
    pub fn start(connections: u32) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        // Clusters that start at the same moment begin to look for a port at different places.
        let own = std::process::id().wrapping_add(1000 * COUNT.fetch_add(1, Ordering::Relaxed));
        let mut keeper = Command::new("bash")
            .args(["-c", KEEPER, "keeper"])
            .arg(programs())
            .arg((20_000 + own % 20_000).to_string())
            .arg(connections.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let orders = keeper.stdin.take();
        let mut answers = BufReader::new(keeper.stdout.take().unwrap());
        let port = line(&mut answers).parse().expect("PostgreSQL did not start");
        Self { port, databases: AtomicU32::new(0), keeper, orders, answers }
    }

    /// A new, empty database.
    pub fn new_database(&self) -> String {
        let name = format!("test_{}", self.databases.fetch_add(1, Ordering::Relaxed));
        let created = Command::new(programs().join("createdb"))
            .args(["-h", "127.0.0.1", "-p", &self.port.to_string(), "-U", "postgres", &name])
            .output()
            .unwrap();
        assert!(created.status.success(), "{}", String::from_utf8_lossy(&created.stderr));
        format!("postgres://postgres@127.0.0.1:{}/{name}", self.port)
    }

    /// Answers when it has stopped or started.
    #[allow(dead_code, reason = "not every test binary stops one")]
    pub fn order(&mut self, order: &str) {
        writeln!(self.orders.as_mut().unwrap(), "{order}").unwrap();
        assert_eq!(line(&mut self.answers), "done", "{order}");
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.orders = None;
        let _ = self.keeper.wait();
    }
}

fn line(from: &mut impl BufRead) -> String {
    let mut line = String::new();
    from.read_line(&mut line).unwrap();
    line.trim().to_owned()
}

/// Where `initdb` and `pg_ctl` are: on the path, or where Debian keeps them.
fn programs() -> PathBuf {
    let on_path = std::env::var_os("PATH").unwrap_or_default();
    let debian =
        fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten().map(|version| version.path().join("bin"));
    let found = std::env::split_paths(&on_path).chain(debian).filter(|folder| folder.join("initdb").exists()).last();
    found.expect(
        "these tests need PostgreSQL's server programs: `apt-get install postgresql`, or put initdb on the PATH",
    )
}
