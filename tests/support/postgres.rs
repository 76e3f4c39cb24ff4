//! A throw-away PostgreSQL for the tests of one process: started on a free port in a temporary folder when the first
//! test needs it, gone when the process ends, however it ends.

use std::{
    fs,
    io::{BufRead, BufReader},
    path::PathBuf,
    process::{Command, Stdio},
    sync::{
        OnceLock,
        atomic::{AtomicU32, Ordering},
    },
};

/// The shell's standard input is a pipe from this process. When it closes, the cluster is stopped and deleted.
const KEEPER: &str = r#"
set -eu
folder=$(mktemp -d)
as_user=""
if [ "$(id -u)" = 0 ]; then
  chown postgres "$folder"
  as_user="runuser -u postgres --"
fi
cleanup() { $as_user "$1/pg_ctl" -D "$folder/data" -m immediate stop >/dev/null 2>&1 || true; rm -rf "$folder"; }
trap 'cleanup "$1"' EXIT
cd "$folder"
$as_user "$1/initdb" -D "$folder/data" -A trust -U postgres --no-sync -E UTF8 --locale=C >"$folder/log" 2>&1 || { cat "$folder/log" >&2; exit 1; }
for port in $(seq "$2" 7 64000); do
  if $as_user "$1/pg_ctl" -D "$folder/data" -w -l "$folder/data/log" start -o "-p $port -c listen_addresses=127.0.0.1 \
      -c unix_socket_directories='' -c fsync=off -c max_connections=400" >/dev/null 2>&1; then
    echo "$port"
    cat >/dev/null
    exit 0
  fi
done
exit 1
"#;

/// A new, empty database.
pub fn new_database() -> String {
    static PORT: OnceLock<u16> = OnceLock::new();
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let port = *PORT.get_or_init(start);
    let name = format!("test_{}", COUNT.fetch_add(1, Ordering::Relaxed));
    let created = Command::new(programs().join("createdb"))
        .args(["-h", "127.0.0.1", "-p", &port.to_string(), "-U", "postgres", &name])
        .output()
        .unwrap();
    assert!(created.status.success(), "{}", String::from_utf8_lossy(&created.stderr));
    format!("postgres://postgres@127.0.0.1:{port}/{name}")
}

fn start() -> u16 {
    // Processes that start at the same moment begin to look for a port at different places.
    let first = 20_000 + std::process::id() % 20_000;
    let mut keeper = Command::new("bash")
        .args(["-c", KEEPER, "keeper"])
        .arg(programs())
        .arg(first.to_string())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(keeper.stdout.take().unwrap()).read_line(&mut line).unwrap();
    // Never dropped before the process ends: its standard input must stay open.
    std::mem::forget(keeper);
    line.trim().parse().expect("PostgreSQL did not start")
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
