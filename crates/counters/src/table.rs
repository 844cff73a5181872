//! The content of an event table: the types of a TOML file in `events/`.
//!
//! A table states facts, with the document each comes from, and how sure it is of them. Nothing in it is believed before
//! the trust check.

use serde::{Deserialize, Serialize};

use rprof_isa::operation::{Precision, Width};

/// The events of one microarchitecture.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EventTable {
    /// CPUs that the table is for.
    pub cpu: CpuMatch,
    /// Core events.
    #[serde(default, rename = "event")]
    pub events: Vec<Event>,
    /// Memory-controller and fabric events.
    #[serde(default, rename = "uncore")]
    pub uncore: Vec<UncoreEvent>,
    /// Work that this microarchitecture cannot count, by role, with the reason.
    #[serde(default)]
    pub missing: Vec<Missing>,
}

/// The CPUs that a table is for.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CpuMatch {
    /// Microarchitecture as people call it.
    pub name: String,
    /// CPUID vendor string, or `ARM`.
    pub vendor: String,
    /// CPUID display family (x86) or implementer (Arm).
    pub family: u32,
    /// CPUID display models (x86) or part numbers (Arm).
    pub models: Vec<u32>,
    /// Name of the core PMU in `/sys/bus/event_source/devices`; the first that exists.
    pub pmu: Vec<String>,
    /// General-purpose counters per hardware thread.
    pub general_counters: u32,
    /// Cycles and instructions do not take a general-purpose counter.
    pub fixed_counters: bool,
    /// Whether the FLOP events count minima and maxima, which are no FLOPs here (docs/conventions.md, Operations).
    #[serde(default)]
    pub min_max: Treatment,
    /// Facts about the whole CPU that a user of these tables must know.
    #[serde(default)]
    pub notes: Vec<String>,
}

/// How an event treats instructions that its name does not settle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Treatment {
    /// They are counted.
    Counted,
    /// They are not.
    Skipped,
    /// No document says.
    #[default]
    Unknown,
}

/// The use of a count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    Flops,
    FpInstructions,
    SimdFpInstructions,
    X87,
    Fp16,
    L1Fill,
    L1Writeback,
    L2Fill,
    L2Writeback,
    LlcMiss,
    LlcAccess,
    DramReadLines,
    DramWriteLines,
    Loads,
    Stores,
    StallTotal,
    StallL1,
    StallL2,
    StallL3,
    StallStore,
    StallFrontend,
    QueueOccupancy,
    QueueFull,
    AmxBusy,
    PredicateInactive,
}

impl Role {
    /// As the tables write it.
    pub fn name(self) -> String {
        serde_json::to_value(self).ok().and_then(|v| v.as_str().map(str::to_owned)).unwrap_or_default()
    }

    /// The unit of a weighted count.
    pub fn unit(self) -> &'static str {
        match self {
            Role::Flops | Role::X87 => "flop",
            Role::FpInstructions | Role::SimdFpInstructions | Role::Fp16 | Role::Loads | Role::Stores => "instruction",
            Role::L1Fill
            | Role::L1Writeback
            | Role::L2Fill
            | Role::L2Writeback
            | Role::LlcMiss
            | Role::LlcAccess
            | Role::DramReadLines
            | Role::DramWriteLines => "line",
            Role::StallTotal
            | Role::StallL1
            | Role::StallL2
            | Role::StallL3
            | Role::StallStore
            | Role::StallFrontend
            | Role::QueueFull
            | Role::AmxBusy => "cycle",
            Role::QueueOccupancy | Role::PredicateInactive => "count",
        }
    }
}

/// How sure the table is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Confidence {
    /// A public vendor or kernel table says so.
    Table,
    /// Inferred, or reported by one tool only: not confirmed.
    Inference,
    /// Public sources contradict one another; `notes` names the reading that rprof uses.
    Disputed,
}

/// A core event.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Event {
    /// Name, lower case, dots.
    pub name: String,
    /// Its use.
    pub role: Role,
    /// Event select; the vendor's layout gives the position of bits 8 and up.
    pub event: u32,
    /// Unit mask.
    pub umask: u32,
    /// Counter mask.
    #[serde(default)]
    pub cmask: u32,
    /// Off-core response mask (`config1`).
    #[serde(default)]
    pub config1: u64,
    /// Weight of one count, in the event's unit: FLOPs, instructions, lines, cycles.
    pub weight: f64,
    /// Unit of one count, if it is not the role's unit.
    #[serde(default)]
    pub unit: Option<Unit>,
    /// FLOPs: the precision, if the event is specific to one.
    #[serde(default)]
    pub precision: Option<Precision>,
    /// FLOPs: the width, if the event is specific to one.
    #[serde(default)]
    pub width: Option<Width>,
    /// FLOPs: the precisions and widths that it counts together, if these are not all.
    #[serde(default)]
    pub kinds: Vec<Kind>,
    /// FLOPs: vectors of every width, but no scalars.
    #[serde(default)]
    pub packed: bool,
    /// How often the event counts a fused multiply-add (0: not applicable).
    #[serde(default)]
    pub fma_counts: u32,
    /// Whether lanes switched off by a mask are counted.
    #[serde(default)]
    pub masked_lanes: MaskedLanes,
    /// Counters it is restricted to; empty: any.
    #[serde(default)]
    pub counters: Vec<u32>,
    /// Number of counters that it takes (2 if the kernel pairs two).
    #[serde(default = "one")]
    pub takes: u32,
    /// Whether the headline figure is made of it (the others are detail or alternatives).
    #[serde(default)]
    pub headline: bool,
    /// How sure the table is.
    pub confidence: Confidence,
    /// The document.
    pub source: String,
    /// Errata, disagreements, limits.
    #[serde(default)]
    pub notes: Option<String>,
}

impl Event {
    /// Whether the FLOPs of `single`, of one precision and width, are among the kinds that it counts together.
    pub(super) fn counts_kind_of(&self, single: &Event) -> bool {
        self.kinds.iter().any(|k| (Some(k.precision), Some(k.width)) == (single.precision, single.width))
    }

    /// The unit of a weighted count.
    pub fn unit(&self) -> &'static str {
        match self.unit {
            None => self.role.unit(),
            Some(Unit::Uop) => "uop",
            Some(Unit::Instruction) => "instruction",
            Some(Unit::Slot) => "slot",
            Some(Unit::Count) => "count",
        }
    }
}

/// FLOPs of one precision and width.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Kind {
    /// The precision.
    pub precision: Precision,
    /// The width.
    pub width: Width,
}

/// The unit of an event that counts its role's work in another unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// Micro-operations.
    Uop,
    /// Instructions.
    Instruction,
    /// Places for a micro-operation to be dispatched; a cycle has several.
    Slot,
    /// Occurrences.
    Count,
}

/// Whether an event counts lanes that a mask switches off.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MaskedLanes {
    /// No masks, or no FLOPs.
    #[default]
    NotApplicable,
    /// Counted as if active: an upper bound.
    Counted,
    /// Not counted.
    Skipped,
    /// No document says.
    Unknown,
}

/// A memory-controller or fabric event.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UncoreEvent {
    /// Name, lower case, dots.
    pub name: String,
    /// `dram_read_lines`, `dram_write_lines` or others.
    pub role: Role,
    /// Reads and writes in one count.
    #[serde(default)]
    pub both_directions: bool,
    /// PMU name in sysfs without its number: every box `NAME_N` (or `NAME`) is opened once per socket.
    pub pmu: String,
    /// Raw config; with `channel_step`, of channel 0.
    pub config: u64,
    /// Second config word.
    #[serde(default)]
    pub config1: u64,
    /// Third config word.
    #[serde(default)]
    pub config2: u64,
    /// Config difference from one channel to the next on PMUs that hold all channels; 0: one box a channel.
    #[serde(default)]
    pub channel_step: u64,
    /// Channels to try.
    #[serde(default)]
    pub channels: u32,
    /// Configs of the other sub-channels of a box, if each has its own event: their counts are added.
    #[serde(default)]
    pub sub_channels: Vec<u64>,
    /// The memory behind the controller's port that it counts.
    #[serde(default)]
    pub medium: Medium,
    /// Bytes of one count.
    pub bytes: f64,
    /// Counters of one box.
    #[serde(default)]
    pub counters: u32,
    /// How sure the table is.
    pub confidence: Confidence,
    /// The document.
    pub source: String,
    /// Errata, disagreements, limits.
    #[serde(default)]
    pub notes: Option<String>,
}

/// The memory that a controller moves lines to and from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Medium {
    /// DRAM: every program's memory.
    #[default]
    Dram,
    /// High-bandwidth memory beside it, which a few parts have. The other counts do not include its traffic.
    HighBandwidth,
    /// Persistent memory modules beside it, which few hosts have.
    Persistent,
}

impl UncoreEvent {
    /// The events to open on each box: the channel's name with a dot before it (empty if there is but one), and its config.
    pub fn configs(&self) -> Vec<(String, u64)> {
        let configs: Vec<u64> = match self.channel_step {
            0 => std::iter::once(self.config).chain(self.sub_channels.iter().copied()).collect(),
            _ => (0..self.channels).map(|c| self.config_of_channel(c)).collect(),
        };
        let several = configs.len() > 1;
        let name = |n: usize| if several { format!(".{n}") } else { String::new() };
        configs.into_iter().enumerate().map(|(n, config)| (name(n), config)).collect()
    }

    /// The config of a channel. Event numbers have their low eight bits in bits 7:0 and the others from bit 32 on, so that
    /// the step from channel to channel may carry from one to the other.
    pub fn config_of_channel(&self, channel: u32) -> u64 {
        const LOW: u64 = 0xff;
        const HIGH: u64 = 0x3f;
        let number = (self.config & LOW) | ((self.config >> 32) & HIGH) << 8;
        let number = number + self.channel_step * u64::from(channel);
        self.config & !(LOW | HIGH << 32) | (number & LOW) | (number >> 8) << 32
    }
}

/// Something that a microarchitecture cannot count.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Missing {
    /// The role that cannot be counted.
    pub role: Role,
    /// Why, and which source replaces it.
    pub reason: String,
    /// An event that counts nothing if the program did none of it: then the other events of the role are complete.
    #[serde(default)]
    pub unless: Option<String>,
    /// Share of the role's sum that may be missing all the same.
    #[serde(default)]
    pub at_most: f64,
    /// FLOPs: no event shows whether a program did any of it, so that every sum of the others has this caveat.
    #[serde(default)]
    pub caveat: Option<String>,
}

impl EventTable {
    /// The events that a run asks for: those of the headline figures, and those that show the work that these leave out.
    pub fn asked_for(&self) -> impl Iterator<Item = &Event> {
        self.events.iter().filter(|e| e.headline || self.betrays(e).is_some())
    }

    /// The same with FLOP events that count several kinds together instead of those that count one each: fewer counters give
    /// the same FLOPs, but not their precisions. `None` if the table has none.
    pub fn merged(&self) -> Option<Vec<&Event>> {
        let merged: Vec<&Event> = self.events.iter().filter(|e| !e.headline && !e.kinds.is_empty()).collect();
        let replaced = |e: &Event| e.role == Role::Flops && merged.iter().any(|m| m.counts_kind_of(e));
        let rest = self.asked_for().filter(|e| !replaced(e));
        (!merged.is_empty()).then(|| merged.iter().copied().chain(rest).collect())
    }

    /// All events that a run may ask for.
    pub fn may_be_asked_for(&self) -> impl Iterator<Item = &Event> {
        let merged = self.merged().unwrap_or_default();
        self.events.iter().filter(move |e| e.headline || self.betrays(e).is_some() || merged.contains(e))
    }

    /// The work that the FLOP events leave out and `event` shows.
    pub fn betrays(&self, event: &Event) -> Option<&Missing> {
        self.missing.iter().find(|m| m.role == Role::Flops && m.unless.as_deref() == Some(event.name.as_str()))
    }

    /// Why the FLOPs of a program cannot be known from these events, whatever it does.
    pub fn no_flops(&self) -> impl Iterator<Item = &Missing> {
        self.missing.iter().filter(|m| m.role == Role::Flops && m.unless.is_none() && m.caveat.is_none())
    }

    /// How the FLOPs of `event` differ from those of docs/conventions.md; `None` if no difference is known.
    pub fn caveat(&self, event: &Event) -> Option<String> {
        let masked = match event.masked_lanes {
            MaskedLanes::Counted => Some("lanes that a mask switches off are counted"),
            MaskedLanes::Unknown => Some("lanes that a mask switches off may be counted"),
            MaskedLanes::NotApplicable | MaskedLanes::Skipped => None,
        };
        let min_max = match self.cpu.min_max {
            Treatment::Counted => Some("minima and maxima are counted"),
            Treatment::Unknown => Some("minima and maxima may be counted"),
            Treatment::Skipped => None,
        };
        let told = self.events.iter().any(|e| e.role == Role::X87 && self.betrays(e).is_some());
        let x87 = (self.cpu.vendor != "ARM" && !told).then_some("x87 is left out");
        let caveats = self.missing.iter().filter(|m| m.role == Role::Flops).filter_map(|m| m.caveat.as_deref());
        let differences: Vec<&str> = [masked, min_max, x87].into_iter().flatten().chain(caveats).collect();
        (event.role == Role::Flops && !differences.is_empty()).then(|| differences.join(", "))
    }
}

fn one() -> u32 {
    1
}
