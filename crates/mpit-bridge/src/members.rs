//! Members of a group, as runs of world ranks: a group of 40,000 ranks is a few numbers. Pure.

use crate::sampled_calls::{GroupName, HASH_BEGIN, mix};
use crate::traffic_frame::{GroupPart, Run};

/// What a run takes in memory, with the number of the first member after it.
pub(crate) const RUN_BYTES: usize = size_of::<(Run, u32)>();

/// Runs of a group that people are shown.
const RUNS_DESCRIBED: usize = 4;

/// Ranks that have a communicator in common, as one of them sees it.
#[derive(Debug)]
pub(crate) struct Group {
    pub generation: u32,
    pub size: u32,
    /// Its own number in it; `None` in an intercommunicator.
    pub rank: Option<u32>,
    runs: Vec<(Run, u32)>,
    /// Of an intercommunicator: the group that the rank itself is in, as far as it is reported.
    own: Option<Box<Group>>,
    /// Made when it is first needed.
    name: Option<GroupName>,
}

impl Group {
    /// From its first part.
    pub fn new(part: &GroupPart) -> Self {
        let (generation, size, rank) = (part.generation, part.size, part.rank);
        let mut group = Self { generation, size, rank, runs: Vec::new(), own: None, name: None };
        group.extend(part);
        group
    }

    /// Adds the part that follows; any other one is left out.
    pub fn extend(&mut self, part: &GroupPart) {
        if part.first != self.known() {
            return;
        }
        for run in &part.runs {
            let end = self.known().saturating_add(run.count);
            self.runs.push((*run, end));
        }
    }

    /// Whether a part of its own group is the next one; those of an earlier report are none.
    pub fn is_next_of_own(&self, part: &GroupPart) -> bool {
        let known = self.own.as_ref().map_or(0, |own| own.known());
        self.rank.is_none() && part.first == known && known < part.size
    }

    /// Adds a part of its own group.
    pub fn extend_own(&mut self, part: &GroupPart) {
        match &mut self.own {
            Some(own) => own.extend(part),
            None => self.own = Some(Box::new(Self::new(part))),
        }
    }

    /// The own group of an intercommunicator, once all its members are known.
    pub fn own(&self) -> Option<&Self> {
        self.own.as_deref().filter(|own| own.is_complete())
    }

    /// Members that are known.
    fn known(&self) -> u32 {
        self.runs.last().map_or(0, |(_, end)| *end)
    }

    /// Whether all members are known.
    pub fn is_complete(&self) -> bool {
        self.known() == self.size
    }

    /// How its members are named beyond this process, once all are known; not of an intercommunicator.
    pub fn name(&mut self) -> Option<GroupName> {
        if !self.is_complete() || self.rank.is_none() {
            return None;
        }
        if self.name.is_none() {
            // Runs may be cut anywhere: the members themselves count.
            let worlds = (0..self.size).map(|member| self.world(member).unwrap_or(u32::MAX));
            let hash = worlds.fold(HASH_BEGIN, |hash, world| mix(hash, &world.to_le_bytes()));
            let members = self.described().into();
            self.name = Some(GroupName { hash: hash.cast_signed(), size: self.size, members });
        }
        self.name.clone()
    }

    /// World ranks for people: `0-7`, `0-14:2`, `3,5,7-9`; of many runs the first ones.
    fn described(&self) -> String {
        let one = |(run, _): &(Run, u32)| {
            let last = i64::from(run.start) + i64::from(run.count - 1) * i64::from(run.stride);
            match (run.start, run.count, run.stride) {
                (u32::MAX, ..) => "others".to_owned(),
                (start, 1, _) => start.to_string(),
                (start, _, 1) => format!("{start}-{last}"),
                (start, _, stride) => format!("{start}-{last}:{stride}"),
            }
        };
        let mut text: Vec<String> = self.runs.iter().take(RUNS_DESCRIBED).map(one).collect();
        if self.runs.len() > RUNS_DESCRIBED {
            text.push("…".to_owned());
        }
        text.join(",")
    }

    /// The world rank of a member; `None` for a process of another world.
    pub fn world(&self, member: u32) -> Option<u32> {
        let at = self.runs.partition_point(|(_, end)| *end <= member);
        let (run, end) = self.runs.get(at)?;
        if run.start == u32::MAX {
            return None;
        }
        let steps = i64::from(member - (end - run.count));
        u32::try_from(i64::from(run.start) + steps * i64::from(run.stride)).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_found_in_their_runs() {
        let run = |start, stride, count| Run { start, stride, count };
        let part = |first, runs| GroupPart { number: 0, generation: 1, size: 9, rank: Some(2), first, runs };
        let mut group = Group::new(&part(0, vec![run(10, -2, 4), run(u32::MAX, 0, 2)]));
        assert!(!group.is_complete());
        group.extend(&part(7, vec![run(0, 1, 2)])); // not the one that follows
        group.extend(&part(6, vec![run(40, 3, 3)]));
        assert!(group.is_complete());
        let all: Vec<_> = (0..10).map(|member| group.world(member)).collect();
        let some = |ranks: [u32; 3]| ranks.map(Some);
        assert_eq!(all[..4], [Some(10), Some(8), Some(6), Some(4)]);
        assert_eq!(all[4..6], [None, None]);
        assert_eq!(all[6..9], some([40, 43, 46]));
        assert_eq!(all[9], None);
    }

    #[test]
    fn equal_members_have_one_name_however_they_are_cut() {
        let run = |start, stride, count| Run { start, stride, count };
        let part = |first, runs| GroupPart { number: 0, generation: 1, size: 6, rank: Some(2), first, runs };
        let mut whole = Group::new(&part(0, vec![run(0, 2, 5), run(11, 0, 1)]));
        let mut cut = Group::new(&part(0, vec![run(0, 2, 3)]));
        assert!(cut.name().is_none(), "members are missing");
        cut.extend(&part(3, vec![run(6, 2, 2), run(11, 0, 1)]));
        let names = [whole.name().unwrap(), cut.name().unwrap()];
        assert_eq!((names[0].hash, names[0].size), (names[1].hash, 6));
        assert_eq!(names[0].members.as_ref(), "0-8:2,11");
        let mut other = Group::new(&part(0, vec![run(0, 1, 6)]));
        assert_ne!(other.name().unwrap().hash, names[0].hash);
        let mut inter = Group::new(&GroupPart { rank: None, ..part(0, vec![run(0, 1, 6)]) });
        assert!(inter.name().is_none());
    }

    #[test]
    fn an_own_group_comes_in_parts() {
        let part = |size, rank, first, start, count| {
            let runs = vec![Run { start, stride: 1, count }];
            GroupPart { number: 0, generation: 1, size, rank, first, runs }
        };
        let mut group = Group::new(&part(2, None, 0, 8, 2));
        let parts = [part(5, Some(4), 0, 10, 3), part(5, Some(4), 3, 0, 2)];
        for part in &parts {
            assert!(group.own().is_none() && group.is_next_of_own(part));
            group.extend_own(part);
            assert!(!group.is_next_of_own(part), "once more, after a reconnect");
        }
        assert!(!group.is_next_of_own(&parts[0]));
        let own = group.own().unwrap();
        assert_eq!((own.rank, own.world(4)), (Some(4), Some(1)));
        assert!(!Group::new(&part(2, Some(0), 0, 8, 2)).is_next_of_own(&parts[0]), "it has one group only");
    }

    #[test]
    fn ranks_below_none_are_none() {
        let runs = vec![Run { start: 1, stride: -1, count: 3 }];
        let group = Group::new(&GroupPart { number: 0, generation: 1, size: 3, rank: None, first: 0, runs });
        assert_eq!([0, 1, 2].map(|member| group.world(member)), [Some(1), Some(0), None]);
    }
}
