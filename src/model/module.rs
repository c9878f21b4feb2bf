//! What the module's own power controller measures, keeps to and counts.
//!
//! Known only where the optional, out-of-tree hwmon driver `spbm` is loaded. NVML knows of none of it:
//! a module that has sat at its limit for 75 seconds showed every event reason not active.

use super::reading::{Missing, Reading};
use crate::units::{Count, Joules, Watts};

states! {
    /// A power rail, by the driver's label. Rails contain one another: the system the package, the
    /// package CPU and GPU.
    Rail {
        /// The whole system; peaks at 168 to 171 W.
        SysTotal = "sys_total",
        /// The SoC package.
        SocPkg = "soc_pkg",
        /// CPU and GPU together.
        CpuGpu = "cpu_gpu",
        /// The performance cores.
        CpuP = "cpu_p",
        /// The efficiency cores.
        CpuE = "cpu_e",
        /// What the driver calls vcore, without saying of what.
        Vcore = "vcore",
        /// The input from the supply.
        DcInput = "dc_input",
        /// The GPU, as the firmware measures it; NVML's figure has been 18 to 44 % lower.
        Gpu = "gpu",
        /// What the driver calls prereg, without saying before which regulator.
        Prereg = "prereg",
        /// The deep learning accelerator.
        Dla = "dla",
    }
}

states! {
    /// A power limit that the firmware's controller keeps to.
    Limit {
        /// The module's first limit, 140 W on a well box; about 20 W where it has not agreed with its
        /// supply.
        Pl1 = "pl1",
        /// The module's second limit, by custom the one for short peaks.
        Pl2 = "pl2",
        /// The whole system's first limit, 231 W on a well box; about 30 W where it has not agreed
        /// with its supply.
        Syspl1 = "syspl1",
        /// The system's second limit, by custom the one for short peaks.
        Syspl2 = "syspl2",
    }
}

states! {
    /// What the firmware counts energy of, by the driver's label. The package contains the others.
    EnergyRail {
        /// The SoC package.
        Pkg = "pkg",
        /// The efficiency cores.
        CpuE = "cpu_e",
        /// The performance cores.
        CpuP = "cpu_p",
        /// The GPU.
        Gpu = "gpu",
    }
}

/// Everything that the driver tells, by its own labels.
#[derive(Clone, Debug, PartialEq)]
pub struct Module {
    /// Power now, by [`Rail`] in the order of `Rail::ALL`. It swings with the firmware's controller,
    /// which acts every 100 ms.
    pub power: [Reading<Watts>; Rail::ALL.len()],
    /// What counts against each limit now, by [`Limit`] in the order of `Limit::ALL`.
    pub budget: [Reading<Watts>; Limit::ALL.len()],
    /// The limits, in the same order. One that reads 0 is not set, and missing.
    pub limit: [Reading<Watts>; Limit::ALL.len()],
    /// Energy since the first reading, which never falls, by [`EnergyRail`] in the order of `EnergyRail::ALL`.
    pub energy: [Reading<Joules>; EnergyRail::ALL.len()],
    /// Whether the processor hot signal holds, by which the board has the SoC slow down.
    pub prochot: Reading<bool>,
    /// The controller's level of limiting, a bare number of the driver.
    pub level: Reading<Count>,
}

impl Module {
    /// With every reading missing for one reason.
    #[must_use]
    pub const fn absent(reason: Missing) -> Self {
        Self {
            power: [Err(reason); Rail::ALL.len()],
            budget: [Err(reason); Limit::ALL.len()],
            limit: [Err(reason); Limit::ALL.len()],
            energy: [Err(reason); EnergyRail::ALL.len()],
            prochot: Err(reason),
            level: Err(reason),
        }
    }

    /// Power of a rail.
    #[must_use]
    pub const fn power(&self, rail: Rail) -> Reading<Watts> {
        self.power[rail as usize]
    }

    /// What counts against a limit.
    #[must_use]
    pub const fn budget(&self, limit: Limit) -> Reading<Watts> {
        self.budget[limit as usize]
    }

    /// A limit.
    #[must_use]
    pub const fn limit(&self, limit: Limit) -> Reading<Watts> {
        self.limit[limit as usize]
    }

    /// Energy of a rail.
    #[must_use]
    pub const fn energy(&self, rail: EnergyRail) -> Reading<Joules> {
        self.energy[rail as usize]
    }

    /// Whether anything of it is known: most boxes do not have the driver.
    #[must_use]
    pub fn known(&self) -> bool {
        let watts = [self.power.as_slice(), &self.budget, &self.limit];
        watts.into_iter().flatten().any(Result::is_ok)
            || self.energy.iter().any(Result::is_ok)
            || self.prochot.is_ok()
            || self.level.is_ok()
    }
}
