//! The certificates of this host's counters: as they were kept, or made now by running known work.

use std::path::{Path, PathBuf};

use crate::counters::collect::plan;
use crate::counters::cpu;
use crate::counters::group::nmi_watchdog;
use crate::counters::listing::{self, Listing};
use crate::counters::pmu::{self, Pmu};
use crate::counters::store::{self, Key};
use crate::counters::table::EventTable;
use crate::counters::tables;
use crate::counters::trust::Certificate;
use crate::machine;
use crate::profile::run::Warning;

use super::error::SessionError;

/// The place of the certificates.
#[derive(Debug)]
pub struct Kept {
    directory: PathBuf,
    key: Key,
}

impl Kept {
    /// For this host's `tables` and `pmus`; `None` without a home.
    pub fn of_host(tables: &[EventTable], pmus: &[Pmu]) -> Option<Kept> {
        let cpu = cpu::identify(Path::new("/sys"));
        let key = Key::of(cpu.as_ref(), tables, pmus, Path::new("/proc"));
        Some(Kept { directory: machine::store::directory()?, key })
    }

    fn load(&self) -> Vec<Certificate> {
        store::load(&self.directory, &self.key)
    }

    fn keep(&self, certificates: &[Certificate]) -> Option<Warning> {
        store::keep(&self.directory, &self.key, certificates).err().map(|error| {
            Warning::new(
                "certificates-not-kept",
                error.to_string(),
                "the trust check of hardware counters runs again each time",
                "make the folder writable, or set XDG_CACHE_HOME",
            )
        })
    }

    /// Has everything checked again at the next run.
    pub fn forget(&self) {
        // A user who cannot remove it cannot write it either, and has had a warning.
        let _ = store::forget(&self.directory, &self.key);
    }
}

/// Certificates of the events that a run asks for and the memory controllers of `tables`. Does not check kept ones again.
pub fn of_tables(
    tables: &[EventTable],
    pmus: &[Pmu],
    kept: Option<&Kept>,
    warnings: &mut Vec<Warning>,
) -> Vec<Certificate> {
    let known = kept.map(Kept::load).unwrap_or_default();
    let asked_for = tables.iter().map(|t| EventTable { events: t.may_be_asked_for().cloned().collect(), ..t.clone() });
    let present = asked_for.filter(|t| plan::core_pmu(&t.cpu, pmus).is_some() || has_controller(t, pmus));
    let certificates: Vec<Certificate> = present.flat_map(|t| certify(&t, pmus, &known)).collect();
    if certificates != known {
        warnings.extend(kept.and_then(|k| k.keep(&certificates)));
    }
    certificates
}

fn has_controller(table: &EventTable, pmus: &[Pmu]) -> bool {
    table.uncore.iter().any(|u| pmus.iter().any(|p| p.is_box_of(&u.pmu)))
}

/// The host with the events to list and check: this host, or a folder that represents one.
pub struct Subject {
    cpu: String,
    tables: Vec<EventTable>,
    pmus: Vec<Pmu>,
    /// Certificates of a folder are not kept.
    of_host: bool,
}

impl Subject {
    /// This host, or the tables and the `sysfs` of `folder` instead.
    ///
    /// # Errors
    /// The folder's tables cannot be used.
    pub fn of(folder: Option<&Path>) -> Result<Subject, SessionError> {
        if let Some(folder) = folder {
            let tables = tables::from_folder(folder).map_err(|e| SessionError::Events(e.to_string()))?;
            let pmus = pmu::list(&folder.join("sysfs"));
            return Ok(Subject { cpu: folder.display().to_string(), tables, pmus, of_host: false });
        }
        let sysfs = Path::new("/sys");
        let cpu = cpu::identify(sysfs);
        let all = tables::all().unwrap_or_default();
        let tables = cpu.as_ref().map(|c| plan::tables_of(&all, c)).unwrap_or_default();
        let cpu = cpu.map_or_else(|| "unknown CPU".into(), |c| c.name);
        Ok(Subject { cpu, tables, pmus: pmu::list(sysfs), of_host: true })
    }

    /// Its events.
    pub fn listing(&self) -> Listing {
        listing::of_tables(self.cpu.clone(), &self.tables, &self.pmus)
    }

    /// Checks every event anew, keeps the results and adds them to `listing`. The caller must check whether any event was
    /// refuted.
    pub fn check(&self, listing: &mut Listing) -> Vec<Certificate> {
        let present = plan::present(&self.tables, &self.pmus);
        let certificates: Vec<Certificate> = present.flat_map(|t| certify(t, &self.pmus, &[])).collect();
        if let Some(kept) = Kept::of_host(&self.tables, &self.pmus).filter(|_| self.of_host) {
            // The next run repeats the checks with results that could not be kept, and says why.
            let _ = kept.keep(&certificates);
        }
        for event in &mut listing.events {
            event.certificate =
                certificates.iter().find(|c| c.event == event.name && (event.pmu == c.pmu || !event.present)).cloned();
        }
        certificates
    }
}

#[cfg(target_arch = "x86_64")]
fn certify(table: &EventTable, pmus: &[Pmu], known: &[Certificate]) -> Vec<Certificate> {
    use crate::counters::{check, group::Free, kernel::Linux};
    let caches = machine::topology(Path::new("/sys")).caches;
    let free = Free::of(&table.cpu, nmi_watchdog(Path::new("/proc")));
    check::certify(&Linux, pmus, table, free, &mut super::known_work::kernels(&caches), known)
}

#[cfg(not(target_arch = "x86_64"))]
fn certify(_: &EventTable, _: &[Pmu], _: &[Certificate]) -> Vec<Certificate> {
    Vec::new()
}
