//! Takes over what ranks left in files when they ended: of ranks that an earlier agent knew, of ranks whose goodbye did not
//! arrive, and of ranks that no agent ever knew.
//!
//! A file is removed some seconds after it was read, or after its rank's goodbye came by the socket: until the records are
//! in the spool, an agent that is killed leaves it to the next one. Reading it twice repeats sums and adds nothing.

use crate::frame::{Frame, Header, decode};
use crate::hello::Hello;
use crate::identity::{identify, local};
use crate::last_totals::{FileName, TotalsFile, TotalsFrames};
use crate::member::{Member, RankKey};
use crate::moment::Moment;
use crate::process::Process;
use crate::quota::{BYTES_OF_ROW, User};
use crate::rank::{Origin, Rank};
use crate::shared::{DueRemoval, End, ReceiverState};
use crate::status::{Malformed, add};
use crate::weigh::rows;
use nix::unistd::Uid;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};
use throughline_sample::admission::Rejection;
use throughline_sample::wire::Batch;
use tokio::task::{AbortHandle, JoinSet, spawn_blocking};
use tokio::time::{MissedTickBehavior, interval};

/// How long a file is left after its records were taken: they are in the spool after two seconds.
const STORED: Duration = Duration::from_secs(5);
/// From one look for files of ranks that nobody waits for to the next, and how old these are.
const SWEEP: Duration = Duration::from_secs(5);
/// A rank that no agent ever knew began at most so long ago: nobody else says that it ran at all.
const STRANGER_NANOSECONDS_MAX: i64 = 3_600_000_000_000;
/// Users whose ranks nobody waits for are taken at once: the others' in the next round.
const USERS_AT_ONCE: usize = 64;
/// Files whose removal is due at most; beyond, one is read again by the next agent, or after [`SWEEP`].
const DUE_MAX: usize = 8192;

impl ReceiverState {
    /// The file of a rank is of no more use in a while.
    pub(crate) fn remove_later(&self, name: FileName, uid: u32) {
        let mut due = self.due();
        if due.len() < DUE_MAX {
            due.push_back(DueRemoval { at: Instant::now() + STORED, file: TotalsFile { name, uid } });
        }
    }

    fn take_due(&self, now: Instant) -> Vec<TotalsFile> {
        let mut due = self.due();
        let over = due.iter().take_while(|due| due.at <= now).count();
        due.drain(..over).map(|due| due.file).collect()
    }

    /// What a file of a user's holds, frame by frame.
    async fn open_file(self: &Arc<Self>, file: TotalsFile) -> Option<TotalsFrames> {
        let shared = self.clone();
        let read = spawn_blocking(move || shared.last_totals.read(file.name, file.uid)).await;
        read.ok()?.unwrap_or_else(|error| {
            self.counters.malformed(Malformed::TooLong);
            tracing::debug!(uid = file.uid, %error, "what a rank left can't be read");
            None
        })
    }

    /// Takes over what a known rank has left, if it has left anything.
    pub(crate) async fn recover(self: &Arc<Self>, job_key: &str, key: &RankKey) -> Option<End> {
        let ((record, uid), status) = {
            let jobs = self.jobs();
            (jobs.rank(job_key, key)?, jobs.status(job_key, key)?)
        };
        let file = TotalsFile { name: FileName { epoch: key.epoch, rank: record.rank }, uid };
        let user = self.quotas.user(uid, Instant::now());
        let origin = Origin {
            job_key: job_key.to_owned(),
            rank: record.rank,
            world_size: record.world_size,
            start: record.start,
            process_start: Some(record.start),
            status,
        };
        // A task that waits holds neither file nor frame.
        let _turn = user.files.acquire().await;
        let end = self.feed(&user, &origin, self.open_file(file).await?).await;
        self.remove_later(file.name, uid);
        end
    }

    /// Has the frames of a file judged as those of a socket are. Gives the end, where the file is whole.
    async fn feed(
        self: &Arc<Self>,
        user: &Arc<User>,
        origin: &Origin,
        mut left: TotalsFrames,
    ) -> Option<End> {
        let job = user.job(&origin.job_key, &self.quotas.limits);
        let mut rank: Option<Rank> = None;
        loop {
            let _turns = user.pass(&job, || self.outbox.space(user)).await;
            let message;
            (left, message) = next_of(left).await?;
            let now = self.moment();
            let taken = self.take_one(&mut rank, user, origin, &message, now);
            let (batch, header) = taken.inspect_err(|why| self.counters.malformed(*why)).ok()?;
            user.charge(&job, rows(&batch).max(1 + message.len() / BYTES_OF_ROW));
            self.outbox.put(user, batch);
            if let Some(ending) = rank.as_ref().and_then(Rank::ended) {
                add(&self.counters.recovered, 1);
                let time = rank.as_ref().map_or(now.utc, |rank| rank.sent(header, now).min(now.utc));
                return Some(End { time, ending });
            }
        }
    }

    fn take_one(
        &self,
        rank: &mut Option<Rank>,
        user: &Arc<User>,
        origin: &Origin,
        message: &[u8],
        now: Moment,
    ) -> Result<(Batch, Header), Malformed> {
        let (header, frame) = decode(message)?;
        let batch = match (rank.as_mut(), frame) {
            (None, Frame::Hello(_)) => {
                *rank = Some(Rank::left(origin, header, now, self.judges(user)));
                Batch::default()
            }
            (None, _) => return Err(Malformed::NoHello),
            // Samples, which nobody leaves behind.
            (
                Some(_),
                Frame::Trace(_)
                | Frame::Clock(_)
                | Frame::Pvars(..)
                | Frame::Traffic(..)
                | Frame::Groups(_)
                | Frame::OwnGroups(_)
                | Frame::Collectives(..)
                | Frame::Open(..),
            ) => return Err(Malformed::Order),
            (Some(rank), frame) => rank.take(header, frame, now)?,
        };
        Ok((batch, header))
    }

    /// A rank that no agent knew: its file says all that there is, on its owner's account and as no process of this node.
    async fn introduce(self: &Arc<Self>, file: TotalsFile) {
        let user = self.quotas.user(file.uid, Instant::now());
        user.greet().await;
        let _turn = user.files.acquire().await;
        let Some(left) = self.open_file(file).await else { return };
        self.remove_later(file.name, file.uid);
        let Some((_, first)) = next_of(left).await else { return };
        let shared = self.clone();
        // Names of users may come over the network.
        let member = spawn_blocking(move || stranger(&shared, &first, file)).await;
        let mut member = match member.unwrap_or(Err(Malformed::Field)) {
            Ok(member) => member,
            Err(why) => return self.counters.malformed(why),
        };
        let now = self.moment().utc;
        if now.saturating_sub(member.hello.epoch) > STRANGER_NANOSECONDS_MAX {
            return self.counters.rejected(Rejection::TimePast, 1);
        }
        let number = self.next_connection();
        self.enter(&user, &mut member, number);
        let end = match self.open_file(file).await {
            Some(left) => self.feed(&user, &Origin::from(&member), left).await,
            None => None,
        };
        let End { time, ending } = end.unwrap_or(End { time: now, ending: "lost" });
        let left = self.jobs().leave(&member.identity.job_key, &member.key(), Some(number), time, ending);
        self.report(&user, left.unwrap_or_default());
    }

    /// Removes what is due, and takes what nobody waits for, of each user one file at a time. For ever.
    pub(crate) async fn sweep(self: &Arc<Self>) {
        let mut tick = interval(SWEEP);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (mut tasks, mut busy) = (JoinSet::new(), HashMap::<u32, AbortHandle>::new());
        loop {
            tick.tick().await;
            while tasks.try_join_next().is_some() {}
            busy.retain(|_, task| !task.is_finished());
            for (uid, files) in self.unclaimed().await {
                if busy.len() < USERS_AT_ONCE && !busy.contains_key(&uid) {
                    let shared = self.clone();
                    let one_by_one = async move {
                        for file in files {
                            shared.introduce(file).await;
                        }
                    };
                    busy.insert(uid, tasks.spawn(one_by_one));
                }
            }
        }
    }

    /// Files of users that neither are due nor of a rank that is known: the task that serves or watches a rank takes its file.
    async fn unclaimed(self: &Arc<Self>) -> HashMap<u32, Vec<TotalsFile>> {
        let shared = self.clone();
        let listed = spawn_blocking(move || {
            for file in shared.take_due(Instant::now()) {
                shared.last_totals.remove(file.name, file.uid);
            }
            shared.last_totals.list(SWEEP)
        });
        let (files, refused) = listed.await.unwrap_or_default();
        (0..refused).for_each(|_| self.counters.malformed(Malformed::TooLong));
        let due: HashSet<TotalsFile> = self.due().iter().map(|due| due.file).collect();
        let mut of_users = HashMap::<u32, Vec<TotalsFile>>::new();
        for file in files {
            if !due.contains(&file) && !self.jobs().knows(file.uid, file.name.epoch, file.name.rank) {
                of_users.entry(file.uid).or_default().push(file);
            }
        }
        of_users
    }
}

/// The next frame of a file, and the file; none at its end, or where it can't be read.
async fn next_of(mut left: TotalsFrames) -> Option<(TotalsFrames, Vec<u8>)> {
    let read = spawn_blocking(move || left.next().map(|frame| (left, frame))).await.ok()?;
    let (left, frame) =
        read.inspect_err(|error| tracing::debug!(%error, "what a rank left can't be read")).ok()?;
    Some((left, frame?))
}

/// Who a file is of, by its first frame and its owner.
fn stranger(
    shared: &ReceiverState,
    first: &[u8],
    TotalsFile { name, uid }: TotalsFile,
) -> Result<Member, Malformed> {
    let (_, Frame::Hello(fields)) = decode(first)? else { return Err(Malformed::NoHello) };
    let hello = Hello::read(&fields)?;
    if (FileName { epoch: hello.epoch, rank: hello.rank }) != name {
        return Err(Malformed::Field);
    }
    let now = shared.moment().utc;
    let user = nix::unistd::User::from_uid(Uid::from_raw(uid)).ok().flatten();
    let mut process = Process {
        uid,
        user: user.map(|user| user.name).unwrap_or_default(),
        age_nanoseconds: Some(now.saturating_sub(hello.epoch).clamp(0, STRANGER_NANOSECONDS_MAX)),
        // Of no process: a process that has its id now is another.
        ..Process::default()
    };
    let config = &shared.config;
    let identity = identify(&hello, &process, &config.node, &config.kernel);
    let identity = identity.unwrap_or_else(|_| local(&hello, &process, &config.node));
    process.pid = hello.pid;
    Ok(Member::new(identity, hello, process, &config.node, now))
}
