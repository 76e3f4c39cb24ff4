//! The command line beside a server.

use std::{
    fs,
    process::{Child, Command, Output, Stdio},
};

use doclock::auth::Role;

use crate::{
    caller::{Caller, eventually},
    process::{Home, Process, run, token},
};

pub struct Shell {
    pub home: Home,
    pub process: Process,
    pub admin: Caller,
}

impl Shell {
    pub fn new() -> Self {
        let home = Home::new();
        let process = home.start();
        Self { admin: process.admin(), process, home }
    }

    /// doclock with these arguments, as an editor of this server.
    pub fn command(&self, arguments: &[&str]) -> Command {
        self.command_as(Role::Editor, arguments)
    }

    pub fn command_as(&self, role: Role, arguments: &[&str]) -> Command {
        let mut command = self.home.command(arguments);
        command.env("DOCLOCK_URL", &self.process.base).env("DOCLOCK_TOKEN", token("job", role));
        command.stdin(Stdio::null());
        command
    }

    pub fn run(&self, arguments: &[&str]) -> Ran {
        self.command(arguments).output().unwrap().into()
    }

    pub fn run_as_admin(&self, arguments: &[&str]) -> Ran {
        self.command_as(Role::Admin, arguments).output().unwrap().into()
    }

    /// Starts `doclock lock … -- sh -c script`, and returns when the script has made the file `ready`.
    pub async fn hold(&self, arguments: &[&str], script: &str) -> Background {
        let ready = self.home.path().join("ready");
        let _ = fs::remove_file(&ready);
        let arguments: Vec<_> = ["lock"].iter().chain(arguments).chain(&["--", "sh", "-c", script]).copied().collect();
        let child = self.command(&arguments).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let background = Background(child);
        eventually("the script runs", async || ready.exists().then_some(())).await;
        background
    }

    /// What a script has written into a file of the home.
    pub fn written(&self, file: &str) -> String {
        fs::read_to_string(self.home.path().join(file)).unwrap_or_default()
    }
}

/// How a program ended.
#[derive(Debug)]
pub struct Ran {
    pub code: Option<i32>,
    pub output: String,
    pub error: String,
}

impl From<Output> for Ran {
    fn from(output: Output) -> Self {
        let text = |bytes| String::from_utf8(bytes).unwrap();
        Self { code: output.status.code(), output: text(output.stdout), error: text(output.stderr) }
    }
}

impl Ran {
    #[track_caller]
    pub fn ok(self) -> String {
        assert_eq!(self.code, Some(0), "{}{}", self.output, self.error);
        self.output
    }
}

/// A program that is killed when the test ends.
pub struct Background(Child);

impl Background {
    pub fn signal(&self, name: &str) {
        run("kill", &[&format!("-{name}"), &self.0.id().to_string()]);
    }

    pub async fn end(mut self) -> Ran {
        eventually("it ends", async || self.0.try_wait().unwrap()).await;
        let mut error = String::new();
        if let Some(mut pipe) = self.0.stderr.take() {
            std::io::Read::read_to_string(&mut pipe, &mut error).unwrap();
        }
        Ran { code: self.0.wait().unwrap().code(), output: String::new(), error }
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
