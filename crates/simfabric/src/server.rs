//! The event loop: clients on a Unix socket, MADs into the world and answers out of it at once, each with the time
//! at which it is to arrive. One thread, no waiting but in `poll`.

use crate::commands;
use crate::model::End;
use crate::sa;
use crate::scenario;
use crate::world::{CLASS_DIRECTED, CLASS_PERFORMANCE, Delivery, World};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use throughline_crawler::transport::wire::{
    self, CLASS_NONE, Frame, Hello, Kind, MadHead, Malformed, SendHead, Welcome,
};

/// Bytes read from a socket at once.
const READ_BYTES: usize = 64 << 10;
/// Bytes that may wait for a client to read them; then its MADs are dropped, as a full receive queue would.
const MAX_UNREAD_BYTES: usize = 4 << 20;
/// Clients at once; a crawler has three.
const MAX_CLIENTS: usize = 64;
/// A MAD that took longer to get here was held up by its client, not by the way: a millisecond, in
/// nanoseconds, is more than passing the socket takes on a machine that is not overloaded.
const MAX_BACKDATING: u64 = 1_000_000;

/// One connection.
struct Client {
    stream: UnixStream,
    inbox: Vec<u8>,
    outbox: Vec<u8>,
    /// Class and place, once it said hello.
    agent: Option<(u8, Option<End>)>,
    is_closing: bool,
}

pub(crate) struct Server {
    listener: UnixListener,
    world: World,
    clients: Vec<Client>,
    /// When it began, on the clock that it shares with its clients.
    began: u64,
    buffer: Vec<u8>,
    scratch: Vec<Delivery>,
}

impl Server {
    pub fn new(listener: UnixListener, world: World) -> std::io::Result<Server> {
        listener.set_nonblocking(true)?;
        Ok(Server {
            listener,
            world,
            clients: Vec::new(),
            began: wire::monotonic(),
            buffer: vec![0; READ_BYTES],
            scratch: Vec::new(),
        })
    }

    fn now(&self) -> u64 {
        wire::monotonic().saturating_sub(self.began)
    }

    /// Works until `stop` can be read.
    pub fn run(mut self, stop: BorrowedFd<'_>) -> std::io::Result<()> {
        loop {
            self.flush();
            let ready = self.wait(stop)?;
            if ready.stop {
                return Ok(());
            }
            if ready.listener {
                self.accept();
            }
            for index in ready.clients {
                self.read(index);
            }
            self.clients.retain(|client| !client.is_closing || !client.outbox.is_empty());
        }
    }

    fn flush(&mut self) {
        for client in &mut self.clients {
            while !client.outbox.is_empty() {
                match client.stream.write(&client.outbox) {
                    Ok(count) => {
                        client.outbox.drain(..count);
                    }
                    Err(error) if error.kind() == ErrorKind::Interrupted => {}
                    Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                    Err(_) => {
                        // The client is gone.
                        client.is_closing = true;
                        client.outbox.clear();
                    }
                }
            }
        }
    }

    fn wait(&self, stop: BorrowedFd<'_>) -> std::io::Result<ReadyDescriptors> {
        let mut polled =
            vec![PollFd::new(stop, PollFlags::POLLIN), PollFd::new(self.listener.as_fd(), PollFlags::POLLIN)];
        for client in &self.clients {
            let events = if client.outbox.is_empty() {
                PollFlags::POLLIN
            } else {
                PollFlags::POLLIN | PollFlags::POLLOUT
            };
            polled.push(PollFd::new(client.stream.as_fd(), events));
        }
        match poll(&mut polled, PollTimeout::NONE) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
        let is_ready =
            |fd: &PollFd<'_>| fd.revents().is_some_and(|events| !(events - PollFlags::POLLOUT).is_empty());
        Ok(ReadyDescriptors {
            stop: is_ready(&polled[0]),
            listener: is_ready(&polled[1]),
            clients: polled[2..]
                .iter()
                .enumerate()
                .filter(|(_, fd)| is_ready(fd))
                .map(|(index, _)| index)
                .collect(),
        })
    }

    fn accept(&mut self) {
        while let Ok((stream, _)) = self.listener.accept() {
            if self.clients.len() >= MAX_CLIENTS || stream.set_nonblocking(true).is_err() {
                tracing::warn!("a client was turned away: {MAX_CLIENTS} are connected");
                continue;
            }
            let (inbox, outbox) = (Vec::new(), Vec::new());
            self.clients.push(Client { stream, inbox, outbox, agent: None, is_closing: false });
        }
    }

    fn read(&mut self, index: usize) {
        let client = &mut self.clients[index];
        let count = match client.stream.read(&mut self.buffer) {
            Ok(0) => {
                client.is_closing = true;
                client.outbox.clear();
                0
            }
            Ok(count) => count,
            Err(error) if matches!(error.kind(), ErrorKind::Interrupted | ErrorKind::WouldBlock) => 0,
            Err(_) => {
                client.is_closing = true;
                client.outbox.clear();
                0
            }
        };
        client.inbox.extend_from_slice(&self.buffer[..count]);
        let inbox = std::mem::take(&mut client.inbox);
        let mut taken = 0;
        let now = self.now();
        while !self.clients[index].is_closing {
            match wire::take(&inbox[taken..]) {
                Ok(None) => break,
                Ok(Some(frame)) => {
                    taken += frame.bytes;
                    self.frame(index, &frame, now);
                }
                Err(error) => self.refuse(index, &error.to_string()),
            }
        }
        self.clients[index].inbox = inbox;
        self.clients[index].inbox.drain(..taken);
    }

    fn refuse(&mut self, index: usize, reason: &str) {
        tracing::warn!(reason, "a client was refused");
        let client = &mut self.clients[index];
        wire::put(&mut client.outbox, Kind::Refused, &[reason.as_bytes()]);
        client.is_closing = true;
    }

    fn frame(&mut self, index: usize, frame: &Frame<'_>, now: u64) {
        match (frame.kind, self.clients[index].agent) {
            (Kind::Hello, None) => match self.hello(frame.body) {
                Ok((class, end, welcome)) => {
                    self.clients[index].agent = Some((class, end));
                    welcome.put(&mut self.clients[index].outbox);
                }
                Err(reason) => self.refuse(index, &reason),
            },
            (Kind::Send, Some((class, Some(end)))) if class != CLASS_NONE => {
                self.send(index, class, end, frame.body, now);
            }
            (Kind::Control, Some(_)) => self.control(index, frame.body, now),
            _ => self.refuse(index, &Malformed::Body.to_string()),
        }
    }

    fn hello(&mut self, body: &[u8]) -> Result<(u8, Option<End>, Welcome), String> {
        let hello = Hello::decode(body).map_err(|error| error.to_string())?;
        if ![CLASS_NONE, CLASS_DIRECTED, CLASS_PERFORMANCE, sa::CLASS].contains(&hello.class) {
            return Err(format!("management class {:#04x} is not simulated", hello.class));
        }
        let end = self.attach(&hello)?;
        let fabric = &self.world.fabric;
        let port = fabric.port(end).ok_or("the node has no such port")?;
        let manager = fabric.manager.and_then(|end| fabric.port(end)).map_or(0, |port| port.lid);
        let welcome = Welcome {
            port: end.port,
            state: port.state,
            service_level: 0,
            lid: port.lid,
            manager_lid: manager,
            port_guid: port.guid,
            subnet_prefix: fabric.prefix,
            node: format!("{:#018x}", fabric.nodes[end.node].guid),
        };
        Ok((hello.class, Some(end), welcome))
    }

    fn attach(&self, hello: &Hello) -> Result<End, String> {
        let fabric = &self.world.fabric;
        let default = scenario::default_end(fabric);
        let node = match hello.node.as_str() {
            "" => default.ok_or("the fabric has no node")?.node,
            name => fabric.find(name).ok_or_else(|| format!("there is no node `{name}`"))?,
        };
        let mut ends = fabric.nodes[node].end_ports().map(|port| End { node, port: port as u8 });
        match hello.port {
            0 => {
                let first = End { node, port: fabric.nodes[node].end_ports().start as u8 };
                Ok(ends.find(|end| fabric.across(*end).is_some()).unwrap_or(first))
            }
            port => {
                let end = ends.find(|end| end.port == port);
                end.ok_or_else(|| format!("`{}` has no port {port}", fabric.nodes[node].description))
            }
        }
    }

    fn send(&mut self, index: usize, class: u8, end: End, body: &[u8], now: u64) {
        let Ok((head, mad)) = SendHead::decode(body) else {
            return self.refuse(index, &Malformed::Body.to_string());
        };
        // The round trip began when the client sent; what it says of that is believed within reason.
        let sent = head.sent.saturating_sub(self.began).clamp(now.saturating_sub(MAX_BACKDATING), now);
        let mut out = std::mem::take(&mut self.scratch);
        self.world.receive(end, class, head.lid, mad, sent, &mut out);
        let client = &mut self.clients[index];
        for delivery in out.drain(..) {
            hand_over(client, &delivery, self.began);
        }
        self.scratch = out;
    }

    /// Reports go to the administrator's clients at the port that subscribed.
    fn report(&mut self) {
        let fabric = &self.world.fabric;
        let lid = fabric.manager.and_then(|end| fabric.port(end)).map_or(0, |port| port.lid);
        for (end, mad) in self.world.notices.reports(fabric) {
            let delivery = Delivery { due: 0, lid, mad, message: None };
            for client in self.clients.iter_mut().filter(|c| c.agent == Some((sa::CLASS, Some(end)))) {
                hand_over(client, &delivery, self.began);
            }
        }
    }

    fn control(&mut self, index: usize, body: &[u8], now: u64) {
        let mut said = String::new();
        let mut failed = false;
        match std::str::from_utf8(body) {
            Err(_) => (said, failed) = ("commands are UTF-8".to_owned(), true),
            Ok(text) => {
                for line in text.lines() {
                    match commands::run(&mut self.world, line, now) {
                        Ok(output) => said.push_str(&output),
                        Err(reason) => {
                            said.push_str(&format!("{line}: {reason}"));
                            failed = true;
                            break;
                        }
                    }
                }
            }
        }
        self.report();
        wire::put(&mut self.clients[index].outbox, Kind::Done, &[&[u8::from(failed)], said.as_bytes()]);
    }
}

/// What `ppoll` found.
struct ReadyDescriptors {
    stop: bool,
    listener: bool,
    clients: Vec<usize>,
}

/// `began` is the beginning of the time that deliveries are due in.
fn hand_over(client: &mut Client, delivery: &Delivery, began: u64) {
    if client.outbox.len() < MAX_UNREAD_BYTES && !client.is_closing {
        let bytes = delivery.message.as_deref().unwrap_or(&delivery.mad);
        let head = MadHead { lid: delivery.lid, service_level: 0, arrives: began + delivery.due };
        head.put(&mut client.outbox, Kind::Mad, bytes);
    }
}
