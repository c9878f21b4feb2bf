//! A program that does nothing, under any name: what it is called and started with is all that tests want
//! of it. It obeys lines on its input, of words with a tab between them, answers each with a line, and ends
//! with all that it has started when its input does, so that nothing outlives a test that fails.
//!
//! - `spawn PROGRAM NAME ARGUMENT...` starts another one; the answer is its pid.
//! - `secret TEXT` puts a variable API_KEY into the environment of those that it starts.
//! - `title TEXT` gives its thread another name, as setproctitle does.
//! - `join DIRECTORY` goes into a control group.
//! - `hog MIB` takes so much memory and writes to each page of it, over and over, until it ends.
//! - `read FILE MIB` writes a file of that size and reads it, over and over, until it ends.
//! - `of N WORD...` hands the rest on to the Nth that it has started.
//! - `end N` lets the Nth go, and `kill N` kills it; both wait until it is gone.

#![expect(clippy::disallowed_methods, reason = "starting programs is what it is for")]

use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

struct Started {
    process: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Started {
    fn start(words: &[&str], secret: Option<&str>) -> io::Result<Self> {
        let [program, name, arguments @ ..] = words else {
            return Err(io::Error::other("expected PROGRAM NAME"));
        };
        let mut command = Command::new(program);
        command.arg0(name).args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped());
        if let Some(secret) = secret {
            command.env("API_KEY", secret);
        }
        let mut process = command.spawn()?;
        let (input, output) = (process.stdin.take(), process.stdout.take());
        let output = output.ok_or_else(|| io::Error::other("no output"))?;
        Ok(Self { process, input, output: BufReader::new(output) })
    }

    fn tell(&mut self, words: &[&str]) -> io::Result<String> {
        let input = self.input.as_mut().ok_or_else(|| io::Error::other("it has ended"))?;
        writeln!(input, "{}", words.join("\t"))?;
        let mut answer = String::new();
        self.output.read_line(&mut answer)?;
        Ok(answer.trim_end().to_owned())
    }

    fn end(&mut self) -> io::Result<()> {
        self.input = None;
        self.process.wait().map(drop)
    }
}

#[derive(Default)]
struct Program {
    started: Vec<Started>,
    secret: Option<String>,
}

impl Program {
    fn obey(&mut self, words: &[&str]) -> io::Result<String> {
        let unknown = || io::Error::other(format!("{words:?}: no such order"));
        match words {
            ["spawn", rest @ ..] => {
                let started = Started::start(rest, self.secret.as_deref())?;
                let pid = started.process.id();
                self.started.push(started);
                Ok(pid.to_string())
            }
            ["secret", text] => {
                self.secret = Some((*text).to_owned());
                Ok("ok".to_owned())
            }
            ["title", text] => {
                std::fs::write("/proc/self/comm", text)?;
                Ok("ok".to_owned())
            }
            ["join", directory] => {
                let pid = std::process::id().to_string();
                std::fs::write(std::path::Path::new(directory).join("cgroup.procs"), pid)?;
                Ok("ok".to_owned())
            }
            ["hog", mib] => {
                let mib: usize = mib.parse().map_err(|_| unknown())?;
                std::thread::spawn(move || hog(mib << 20));
                Ok("ok".to_owned())
            }
            ["read", file, mib] => {
                let mib: usize = mib.parse().map_err(|_| unknown())?;
                // By whoever reads it: its pages are charged to whom they were first read by.
                let mut out = std::fs::File::create(file)?;
                let block = vec![0x5a; 1 << 20];
                (0..mib).try_for_each(|_| out.write_all(&block))?;
                out.sync_all()?;
                let file = (*file).to_owned();
                std::thread::spawn(move || while reads(&file).is_ok() {});
                Ok("ok".to_owned())
            }
            [order, number, rest @ ..] => {
                let number: usize = number.parse().map_err(|_| unknown())?;
                let one = self.started.get_mut(number).ok_or_else(unknown)?;
                match *order {
                    "of" => return one.tell(rest),
                    "end" => one.end()?,
                    "kill" => {
                        one.process.kill()?;
                        one.end()?;
                    }
                    _ => return Err(unknown()),
                }
                Ok("ok".to_owned())
            }
            _ => Err(unknown()),
        }
    }
}

/// Different each time, so that no page is like another or like the one before it.
fn hog(bytes: usize) {
    const PAGE: usize = 4096;
    let mut memory = vec![0_u8; bytes];
    let mut round = 0_u8;
    loop {
        round = round.wrapping_add(1);
        for page in (0..bytes).step_by(PAGE) {
            memory[page] = round;
        }
        std::hint::black_box(&mut memory);
    }
}

fn reads(file: &str) -> io::Result<()> {
    io::copy(&mut std::fs::File::open(file)?, &mut io::sink()).map(drop)
}

fn main() -> io::Result<()> {
    let mut program = Program::default();
    for line in io::stdin().lock().lines() {
        let line = line?;
        let words: Vec<&str> = line.split('\t').collect();
        let answer = program.obey(&words).unwrap_or_else(|error| format!("!{error}"));
        writeln!(io::stdout(), "{answer}")?;
        io::stdout().flush()?;
    }
    program.started.iter_mut().try_for_each(Started::end)
}
