//! Messages of a rank with each other rank, and its waiting for it, by call site of MPI.

use serde::{Deserialize, Serialize};

use super::site_key::SiteKey;

/// Messages of one rank with another at one call site, and its waiting for it there.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Peer {
    /// The rank.
    pub rank: u32,
    /// The other one; both in `MPI_COMM_WORLD`.
    pub peer: u32,
    /// The call site of the rank.
    #[serde(flatten)]
    pub site: SiteKey,
    /// Point-to-point messages to the peer that its calls send, or start to.
    pub sent: Messages,
    /// Those from the peer that its calls receive, or start to, if their sender is known.
    pub received: Messages,
    /// Seconds of its calls that ended when the peer had come, the last of those they waited for; `null` if the waiting of the site is not
    /// known.
    pub waiting_s: Option<f64>,
}

/// How many messages, and their bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Messages {
    /// Messages.
    pub messages: u64,
    /// Bytes that they carry; `null` if that is not known of some.
    pub bytes: Option<u64>,
}

impl Messages {
    /// One more.
    pub fn add(&mut self, bytes: Option<u64>) {
        *self += Messages { messages: 1, bytes };
    }
}

impl std::ops::AddAssign for Messages {
    fn add_assign(&mut self, other: Messages) {
        self.bytes = match (self.messages, other.messages) {
            (0, _) => other.bytes,
            (_, 0) => self.bytes,
            _ => self.bytes.zip(other.bytes).map(|(a, b)| a + b),
        };
        self.messages += other.messages;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_of_some_messages_are_not_those_of_all() {
        let mut all = Messages::default();
        all.add(Some(8));
        all.add(Some(8));
        assert_eq!(all, Messages { messages: 2, bytes: Some(16) });
        all += Messages::default();
        assert_eq!(all.bytes, Some(16), "none was added");
        all.add(None);
        all.add(Some(8));
        assert_eq!(all, Messages { messages: 4, bytes: None });
    }
}
