//! The one question that only CUDA can answer, asked in a process of its own.
//!
//! A CUDA context takes a few hundred MiB of the pool and the driver's full attention, so it is made only
//! when a person asks for it, only on a box with room where nobody else uses the GPU, and never in
//! this process: what hangs or crashes there is killed and costs nothing here.

use super::observed::Observed;
use super::outcome::{Judged, Outcome, need};
use super::{Check, Needs};
use crate::clock::Clock;
use crate::model::fields::Group;
use crate::model::memory::Meminfo;
use crate::model::reading::Missing;
use crate::model::sharing::{Basis, Hidden};
use crate::sources::gpu::{cuda, probe};
use crate::sources::{Roots, proc};
use crate::units::{Bytes, KIB};
use anyhow::{Context, anyhow};
use clap::Args;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

/// The CUDA driver's library.
pub(super) const LIBRARY: &str = "libcuda.so.1";
/// What must be available: boxes were lost with 2 to 6 GiB left, and a context needs well below 1 GiB.
const ROOM: Bytes = Bytes::from_gib(16);
/// Longest time for a context and a question. On a healthy box both take less than a second.
const DEADLINE: Duration = Duration::from_secs(20);
/// The kernel and CUDA are asked one after the other, and other programs go on meanwhile.
const WITHIN: Bytes = Bytes::from_mib(64);

pub(super) const CUDA: Check = Check {
    name: "cuda",
    expected: "cudaMemGetInfo: free is MemFree within 64 MiB, total is MemTotal",
    because: "shown by owners of two machines; what is called CUDA's free memory here rests on it",
    needs: Needs::Gpu,
    judge: |_| Err(Outcome::unknown("not asked")),
};

#[derive(Debug, Args)]
pub(in super::super) struct ProbeArgs {
    #[arg(long)]
    cuda_library: String,
    #[arg(long)]
    procfs: PathBuf,
}

/// Asks CUDA in a child, unless that is refused.
pub(super) fn ask(observed: &Observed, library: &str, procfs: &Path, clock: &dyn Clock) -> Judged {
    if let Some(refused) = CUDA.refused(observed) {
        return Err(refused);
    }
    if let Some(why) = danger(observed)? {
        return Err(Outcome::unknown(format!("refused: {why}")));
    }
    let program = std::env::current_exe().map_err(|e| Outcome::unknown(format!("refused: {e}")))?;
    let procfs = procfs.to_str().ok_or_else(|| Outcome::unknown("--path.procfs is not UTF-8"))?;
    let arguments = ["cuda-probe", "--cuda-library", library, "--procfs", procfs];
    let now = || clock.now().mono;
    let said = probe::run(&program, &arguments, DEADLINE, &now).map_err(Outcome::unknown)?;
    let numbers: Option<Vec<u64>> =
        said.split_ascii_whitespace().map(|word| word.parse().ok()).collect();
    match numbers.as_deref() {
        Some(&[free, total, before, after, mem_total]) => {
            let kernel = [Bytes(before.min(after)), Bytes(before.max(after))];
            Ok(compare(Bytes(free), Bytes(total), kernel, Bytes(mem_total)))
        }
        _ => Err(Outcome::unknown("the child did not say what it should")),
    }
}

/// Why CUDA is better left alone.
fn danger(observed: &Observed) -> Result<Option<String>, Outcome> {
    if observed.recorded {
        return Ok(Some("a recorded machine has no CUDA".to_owned()));
    }
    let frame = observed.last();
    let available = need("MemAvailable", frame.snapshot.meminfo.available)?;
    if available < ROOM {
        return Ok(Some(format!("{available} available, less than {ROOM}")));
    }
    // Of this moment: a reading from before a driver hung says nothing.
    let Some(gpu) = observed.gpu_now() else { return Ok(Some("the GPU is gone".to_owned())) };
    let listed = need("processes", gpu.processes.as_ref().map_err(|reason| *reason))?.len();
    if listed > 0 {
        return Ok(Some(format!("GPU processes listed: {listed}")));
    }
    let verdicts = need("GPUs", frame.verdicts.gpus.as_ref().map_err(|reason| *reason))?;
    let nobody = verdicts.iter().any(|gpu| gpu.basis == Basis::Gb10 && gpu.hidden == Hidden::No);
    Ok((!nobody).then(|| "the GPU may be in use by somebody who is not listed".to_owned()))
}

fn compare(free: Bytes, total: Bytes, kernel: [Bytes; 2], mem_total: Bytes) -> Outcome {
    let found = format!(
        "CUDA: {free} free ({} kB) of {} kB; kernel: MemFree {} to {} kB, MemTotal {} kB",
        free.0 / KIB,
        total.0 / KIB,
        kernel[0].0 / KIB,
        kernel[1].0 / KIB,
        mem_total.0 / KIB
    );
    let alike = (kernel[0].less(WITHIN)..=kernel[1].plus(WITHIN)).contains(&free);
    Outcome::of(alike && total == mem_total, found)
}

/// The child: prints CUDA's free and total, MemFree before and after, and MemTotal, in bytes. The kernel
/// is asked here, with the context in place, because the context itself takes memory.
pub(in super::super) fn probe(args: &ProbeArgs) -> anyhow::Result<ExitCode> {
    probe::die_with_parent();
    let kernel = || -> Result<(Bytes, Bytes), Missing> {
        let roots = Roots { procfs: args.procfs.clone(), ..Roots::default() };
        let mut info = Meminfo::absent(Missing::Pending);
        let _ = proc::meminfo::read(&roots, &mut info);
        Ok((info.free?, info.total?))
    };
    let context = cuda::Context::new(&args.cuda_library).map_err(|e| anyhow!(e))?;
    let failed = |reason: Missing| anyhow!("/proc/meminfo: {}", reason.as_str());
    let (before, total) = kernel().map_err(failed)?;
    let (cuda_free, cuda_total) = context.memory().map_err(|e| anyhow!(e))?;
    let (after, _) = kernel().map_err(failed)?;
    let line = format!("{cuda_free} {cuda_total} {} {} {}\n", before.0, after.0, total.0);
    super::super::print(line.as_bytes()).context("standard output")?;
    Ok(ExitCode::SUCCESS)
}
