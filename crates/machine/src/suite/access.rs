//! Loads and stores per second by width and register file: T_access.

use crate::error::MachineError;
use crate::kernels::x86_64::access::{Data, access};
use crate::suite::campaign::{Campaign, Effort, Label};

/// `l1.access.{load,store,load2store1,load1store1}.{int,fp.scalar,fp.128,fp.256,fp.512}` in access/s.
pub fn measure(campaign: &mut Campaign) -> Result<(), MachineError> {
    let mut kinds = vec![Data::General];
    kinds.extend(campaign.features.widths().into_iter().map(Data::Vector));
    let patterns = [("load", 1, 0), ("store", 0, 1), ("load2store1", 2, 1), ("load1store1", 1, 1)];
    let counts = if campaign.effort == Effort::Full { campaign.counts.clone() } else { campaign.ends() };
    for threads in counts {
        for data in &kinds {
            for (name, loads, stores) in patterns {
                let label = Label::new(format!("l1.access.{name}.{}", data.name()), "access/s", threads);
                // Fetch and op cache favour now the shorter, now the longer body.
                let kernel = |body: &u64, features| access(*data, loads, stores, *body, features);
                campaign.best_of(label, &[16, 64], kernel, |k| k.work.payload as f64)?;
            }
        }
    }
    Ok(())
}
