//! The module's own power controller, where the optional driver tells of it.

use super::{flag, metric, rows};
use crate::model::module::{EnergyRail, Limit, Rail};
use crate::units::{Joules, Watts};

fn watts(Watts(watts): Watts) -> f64 {
    watts
}

rows![
    MODULE_POWER_WATTS = metric!(
        "gb10_module_power_watts",
        Gauge,
        Watts,
        ["rail"],
        [Hwmon],
        Experimental,
        "spbm power1 to power10",
        "Power of a rail, by the label of the optional out-of-tree driver spbm, whose interface is in flux. Rails contain one another: never add them up. It swings with the firmware's controller, which acts every 100 ms: prefer gb10_module_energy_joules_total where there is one. The GPU's rail and NVML's figure (gb10_gpu_power_watts) differ, by 18 to 44 % in one measurement: name the source wherever you show one. Absent without the driver.",
        |f, out| for &rail in Rail::ALL {
            out.each([rail.as_str().into()], f.verdicts.module.power(rail), watts);
        }
    ),
    MODULE_BUDGET_USED_WATTS = metric!(
        "gb10_module_budget_used_watts",
        Gauge,
        Watts,
        ["limit"],
        [Hwmon],
        Experimental,
        "spbm power11 to power14",
        "What counts against a power limit of the firmware's controller now; to be compared with gb10_module_power_limit_watts of the same limit. At the limit the module is slowed down while NVML shows no reason. Absent without the driver spbm.",
        |f, out| for &limit in Limit::ALL {
            out.each([limit.as_str().into()], f.verdicts.module.budget(limit), watts);
        }
    ),
    MODULE_POWER_LIMIT_WATTS = metric!(
        "gb10_module_power_limit_watts",
        Gauge,
        Watts,
        ["limit"],
        [Hwmon],
        Experimental,
        "spbm power11_cap to power14_cap",
        "A power limit of the firmware's controller: pl1 is 140 and syspl1 231 on a well box, about 20 and 30 where the box has not agreed with its supply. Absent where it is not set and without the driver spbm.",
        |f, out| for &limit in Limit::ALL {
            out.each([limit.as_str().into()], f.verdicts.module.limit(limit), watts);
        }
    ),
    MODULE_ENERGY_JOULES_TOTAL = metric!(
        "gb10_module_energy_joules_total",
        Counter,
        Joules,
        ["rail"],
        [Hwmon],
        Experimental,
        "spbm energy1 to energy4, continued across the registers' wrap",
        "Energy of a rail since the exporter first read it, as the firmware counts it, by the label of the optional driver spbm. Its rate is the mean power, without the controller's swings. The package contains the others. The registers wrap every 4.29 MJ (half a day at 100 W), and this does not. Absent without the driver.",
        |f, out| for &rail in EnergyRail::ALL {
            out.each([rail.as_str().into()], f.verdicts.module.energy(rail), |Joules(joules)| {
                joules
            });
        }
    ),
    MODULE_PROCHOT = metric!(
        "gb10_module_prochot",
        Gauge,
        None,
        [],
        [Hwmon],
        Experimental,
        "spbm prochot",
        "1 while the processor hot signal holds, by which the board slows the SoC down. Boxes at 611 MHz have been seen with it. Absent without the driver spbm.",
        |f, out| out.one(f.verdicts.module.prochot, flag)
    ),
];
