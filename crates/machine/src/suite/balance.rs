//! Load imbalance (A.2): the remaining roof when only some of the threads have work.

use super::pipes::PRECISIONS;
use crate::suite::campaign::{Campaign, Label};

/// `imbalance.{2,4,…}`: the double-precision roof when 1/2, 1/4, … of the threads work; `{dp,sp}.imbalance.*`: the same by precision. The
/// plots show them below the roof (Figure A2), or scaled below `tlp` (Figure A3).
pub fn derive(campaign: &mut Campaign) {
    let most = campaign.most();
    for precision in PRECISIONS {
        let p = precision.name();
        let Some(roof) = campaign.found(&format!("{p}.fma"), most).cloned() else { continue };
        let mut part = 2;
        while part <= most {
            let busy = most.div_ceil(part);
            let source = campaign.found(&format!("{p}.fma"), busy).cloned();
            let value = match &source {
                Some(measured) => measured.value,
                None => roof.value.map(|v| v * busy as f64 / most as f64),
            };
            if let Some(value) = value {
                let label = Label::new(format!("{p}.imbalance.{part}"), "flop/s", most);
                let reason = format!("{p}.fma on {busy} of {most} threads");
                // Use the clock of a measurement with the same number of working threads.
                let conditions = source.as_ref().unwrap_or(&roof);
                campaign.derive(label, value, conditions, reason.clone());
                if p == "dp" {
                    campaign.derive(Label::new(format!("imbalance.{part}"), "flop/s", most), value, conditions, reason);
                }
            }
            part *= 2;
        }
    }
}
