//! The communicators of a job: each rank knows how it made its own; together they say who is in one.
//!
//! A communicator is made by all ranks of its parent, in the same order. So the n-th of each rank belong together, and the ranks' colours
//! and keys say which are in one, and in which order (MPI 4.1, chapter 7).

use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

use rprof_profile::evidence::mpi::{Made, MpiCall};
use rprof_profile::mpi::RankCalls;

/// The ranks of `MPI_COMM_WORLD` that are in a communicator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// Of the communicator: the same for all of its ranks, 0 for `MPI_COMM_WORLD`.
    pub id: u32,
    /// By their rank in it.
    pub members: Rc<[u32]>,
}

/// For each rank, its communicators in the order of its evidence; `None`: not known.
pub type Groups = Vec<Vec<Option<Group>>>;

/// A communicator with known members, and the grid that they form.
struct Known {
    group: Group,
    dimensions: Vec<u32>,
}

/// The handle of a communicator: (rank, its index there).
type Handle = (u32, u32);

/// Finds the members of all communicators. `ranks` are all ranks of the job, by their number.
pub fn groups(ranks: &[RankCalls]) -> Groups {
    let mut found: Groups = ranks.iter().map(|rank| vec![None; rank.communicators.len().max(1)]).collect();
    let world = Group { id: 0, members: (0..ranks.len() as u32).collect() };
    let own = vec![0; ranks.len()];
    let made: Vec<HashMap<(u32, u32), u32>> = ranks.iter().map(children).collect();
    found.iter_mut().for_each(|of_rank| of_rank[0] = Some(world.clone()));
    let mut next_id = 1;
    let mut to_do = vec![(Known { group: world, dimensions: Vec::new() }, own)];
    while let Some((parent, own)) = to_do.pop() {
        for order in 0.. {
            let children: Option<Vec<Handle>> = parent
                .group
                .members
                .iter()
                .zip(&own)
                .map(|(&rank, &parent)| Some((rank, *made[rank as usize].get(&(parent, order))?)))
                .collect();
            let Some(children) = children else { break };
            for (members, dimensions) in parts(ranks, &parent, &children) {
                let handles: Vec<Handle> = members.iter().map(|&i| children[i]).collect();
                let group = Group { id: next_id, members: handles.iter().map(|(rank, _)| *rank).collect() };
                if !agrees(ranks, &handles) {
                    continue;
                }
                next_id += 1;
                for &(rank, index) in &handles {
                    found[rank as usize][index as usize] = Some(group.clone());
                }
                to_do.push((Known { group, dimensions }, handles.into_iter().map(|(_, index)| index).collect()));
            }
        }
    }
    found
}

/// The bytes that a call of rank `own` passes if only the job knows its root: its buffer if this rank is the root, else nothing. `None`:
/// not known.
pub fn bytes_of_root(call: &MpiCall, name: &str, group: &Group, own: u32) -> Option<u64> {
    let bytes = call.bytes_of_root?;
    let root = group.members.get(usize::try_from(call.root?).ok()?)?;
    let parts = if name.to_ascii_lowercase().contains("scatter") { group.members.len() as u64 } else { 1 };
    Some(if *root == own { bytes * parts } else { 0 })
}

/// The communicators that a rank made, by (index of the parent, how many were made from that before).
fn children(rank: &RankCalls) -> HashMap<(u32, u32), u32> {
    (1..).zip(rank.communicators.iter().skip(1)).map(|(i, known)| ((known.parent, known.order), i)).collect()
}

/// The communicators that one call of all ranks of `parent` makes: positions in `children` by rank in the new one, and its grid.
fn parts(ranks: &[RankCalls], parent: &Known, children: &[Handle]) -> Vec<(Vec<usize>, Vec<u32>)> {
    let made: Vec<&Made> =
        children.iter().map(|&(rank, index)| &ranks[rank as usize].communicators[index as usize].made).collect();
    let mut by_color: BTreeMap<(i64, &str), Vec<(i64, usize)>> = BTreeMap::new();
    let all = || (0..children.len()).collect::<Vec<usize>>();
    match made.first() {
        Some(Made::Same) if made.iter().all(|one| **one == Made::Same) => {
            return vec![(all(), parent.dimensions.clone())];
        }
        Some(Made::Grid { dimensions }) if made.iter().all(|one| *one == made[0]) => {
            let size = dimensions.iter().try_fold(1u32, |size, n| size.checked_mul(*n)).unwrap_or(0) as usize;
            let fits = size > 0 && size <= children.len();
            return fits.then(|| ((0..size).collect(), dimensions.clone())).into_iter().collect();
        }
        Some(Made::Subgrid { remains })
            if made.iter().all(|one| *one == made[0]) && remains.len() == parent.dimensions.len() =>
        {
            for i in all() {
                let (mut color, mut key) = (0i64, 0i64);
                for (coordinate, n, remains) in coordinates(i, &parent.dimensions, remains) {
                    let place = if remains { &mut key } else { &mut color };
                    *place = *place * i64::from(n) + coordinate;
                }
                by_color.entry((color, "")).or_default().push((key, i));
            }
            let left = |(n, remains): (&u32, &bool)| remains.then_some(*n);
            let dimensions: Vec<u32> = parent.dimensions.iter().zip(remains).filter_map(left).collect();
            return in_order(by_color).map(|members| (members, dimensions.clone())).collect();
        }
        _ => {}
    }
    for (i, (made, &(rank, _))) in made.iter().zip(children).enumerate() {
        match made {
            // A negative colour: in none.
            Made::Split { color, .. } if *color < 0 => {}
            Made::Split { color, key } => {
                by_color.entry((i64::from(*color), "")).or_default().push((i64::from(*key), i));
            }
            Made::SplitByHost { key } => {
                let host = ranks[rank as usize].host.as_str();
                by_color.entry((0, host)).or_default().push((i64::from(*key), i));
            }
            _ => return Vec::new(),
        }
    }
    in_order(by_color).map(|members| (members, Vec::new())).collect()
}

/// The coordinates of rank `i` in a grid: (coordinate, length, whether the dimension remains).
fn coordinates<'d>(
    i: usize,
    dimensions: &'d [u32],
    remains: &'d [bool],
) -> impl Iterator<Item = (i64, u32, bool)> + use<'d> {
    let mut below: i64 = dimensions.iter().map(|n| i64::from(*n)).product();
    let mut rest = i as i64;
    dimensions.iter().zip(remains).map(move |(&n, &remains)| {
        below /= i64::from(n);
        let coordinate = rest / below;
        rest %= below;
        (coordinate, n, remains)
    })
}

fn in_order<K: Ord>(by_color: BTreeMap<K, Vec<(i64, usize)>>) -> impl Iterator<Item = Vec<usize>> {
    by_color.into_values().map(|mut members| {
        members.sort_unstable();
        members.into_iter().map(|(_, i)| i).collect()
    })
}

/// Whether what the ranks asked about the communicator agrees with its members.
fn agrees(ranks: &[RankCalls], handles: &[Handle]) -> bool {
    handles.iter().enumerate().all(|(own, &(rank, index))| {
        let known = &ranks[rank as usize].communicators[index as usize];
        known.size.is_none_or(|size| size as usize == handles.len())
            && known.rank.is_none_or(|rank| rank as usize == own)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use rprof_profile::evidence::mpi::Communicator;

    /// Ranks that made communicators: (made, parent, order), after the world.
    fn job(ranks: Vec<Vec<(Made, u32, u32)>>) -> Vec<RankCalls> {
        let one = |(made, parent, order)| Communicator { made, parent, order, size: None, rank: None };
        let rank = |(number, made): (usize, Vec<_>)| RankCalls {
            rank: Some(number as u32),
            host: if number < 2 { "a".into() } else { "b".into() },
            communicators: std::iter::once((Made::World, 0, 0)).chain(made).map(one).collect(),
            ..RankCalls::default()
        };
        ranks.into_iter().enumerate().map(rank).collect()
    }

    fn members(groups: &Groups, index: usize) -> Vec<Vec<u32>> {
        let of = |rank: &Vec<Option<Group>>| rank[index].as_ref().map_or(Vec::new(), |group| group.members.to_vec());
        groups.iter().map(of).collect()
    }

    #[test]
    fn a_split_puts_colours_together_in_the_order_of_keys() {
        let split = |color, key| (Made::Split { color, key }, 0, 0);
        let found = groups(&job(vec![vec![split(1, 5)], vec![split(0, 0)], vec![split(1, 3)], vec![split(-32766, 0)]]));
        assert_eq!(members(&found, 1), [vec![2, 0], vec![1], vec![2, 0], vec![]]);
        assert_eq!(found[0][1].as_ref().map(|g| g.id), found[2][1].as_ref().map(|g| g.id));
        assert_ne!(found[0][1].as_ref().map(|g| g.id), found[1][1].as_ref().map(|g| g.id));
    }

    #[test]
    fn grids_have_rows_and_columns() {
        let rank = || {
            vec![
                (Made::Grid { dimensions: vec![2, 2] }, 0, 0),
                (Made::Subgrid { remains: vec![false, true] }, 1, 0),
                (Made::Subgrid { remains: vec![true, false] }, 1, 1),
            ]
        };
        let found = groups(&job(vec![rank(), rank(), rank(), rank()]));
        assert_eq!(members(&found, 2), [[0, 1], [0, 1], [2, 3], [2, 3]], "rows");
        assert_eq!(members(&found, 3), [[0, 2], [1, 3], [0, 2], [1, 3]], "columns");
    }

    #[test]
    fn parts_of_parts_and_of_hosts_are_found() {
        let rank = |key| vec![(Made::SplitByHost { key }, 0, 0), (Made::Same, 1, 0), (Made::Other, 0, 1)];
        let found = groups(&job(vec![rank(0), rank(-1), rank(0), rank(0)]));
        assert_eq!(members(&found, 2), [[1, 0], [1, 0], [2, 3], [2, 3]]);
        assert_eq!(members(&found, 3), [const { Vec::<u32>::new() }; 4]);
    }

    #[test]
    fn a_rank_that_knows_better_is_believed() {
        let split = || vec![(Made::Split { color: 0, key: 0 }, 0, 0)];
        let mut job = job(vec![split(), split()]);
        job[0].communicators[1].rank = Some(1);
        assert_eq!(members(&groups(&job), 1), [const { Vec::<u32>::new() }; 2]);
    }
}
