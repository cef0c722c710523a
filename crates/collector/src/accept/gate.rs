//! What a connection must show: a certificate by TLS, or a user of this machine by the kernel's word.

use std::sync::Arc;

use throughline_daemon::Token;
use throughline_daemon::peer::{LocalUsers, user_of_loopback, user_of_unix};
use throughline_delivery::ServerTls;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio_rustls::TlsAcceptor;
use tonic::Status;

use super::Raw;
use super::connection::{Io, PREFACE, Proof};
use super::registry::{Refusal, SenderKey};
use crate::identity::{Crawlers, Identity};

/// Look-ups of loopback peers at once: each reads a file as long as the machine has connections.
const LOOKUPS_MAX: usize = 2;

/// Who gets through.
pub(crate) struct Gate {
    /// Certificates; without them all senders are on this machine.
    tls: Option<Arc<ServerTls>>,
    crawlers: Crawlers,
    users: LocalUsers,
    lookups: Arc<Semaphore>,
}

impl Gate {
    pub fn new(tls: Option<ServerTls>, crawlers: Crawlers, users: LocalUsers) -> Self {
        Self { tls: tls.map(Arc::new), crawlers, users, lookups: Arc::new(Semaphore::new(LOOKUPS_MAX)) }
    }

    /// Shakes hands and finds out who it is. Takes as long as the other side wants.
    pub async fn prove(&self, raw: Raw) -> Result<(Io, Proof), Refusal> {
        match (raw, &self.tls) {
            (Raw::Unix(mut stream), _) => {
                preface(&mut stream).await?;
                let proof = self.local(user_of_unix(&stream));
                Ok((Io::Unix(stream), proof))
            }
            (Raw::Tcp(mut stream), None) => {
                preface(&mut stream).await?;
                let proof = self.local(self.user_of(&stream).await);
                Ok((Io::Tcp(stream), proof))
            }
            (Raw::Tcp(stream), Some(tls)) => self.certified(stream, tls).await,
        }
    }

    async fn certified(&self, stream: TcpStream, tls: &Arc<ServerTls>) -> Result<(Io, Proof), Refusal> {
        // Who sends nothing costs nothing but its place.
        stream.peek(&mut [0]).await.map_err(|_| Refusal::Handshake)?;
        let files = tls.clone();
        let config = tokio::task::spawn_blocking(move || files.current()).await;
        let acceptor = TlsAcceptor::from(config.map_err(|_| Refusal::Handshake)?);
        let mut stream = acceptor.accept(stream).await.map_err(|error| {
            tracing::debug!(%error, "no TLS handshake");
            Refusal::Handshake
        })?;
        let identity = Identity::of(stream.get_ref().1.peer_certificates(), &self.crawlers);
        let identity = identity.map_err(|status| {
            tracing::warn!(status = status.message(), "a sender was refused");
            Refusal::Handshake
        })?;
        preface(&mut stream).await?;
        Ok((Io::Tls(Box::new(stream)), Proof::Is(identity)))
    }

    fn local(&self, uid: Option<u32>) -> Proof {
        match uid {
            Some(known) if self.users.contains(known) => Proof::Is(Identity::Local { uid }),
            _ => Proof::Needs { uid },
        }
    }

    async fn user_of(&self, stream: &TcpStream) -> Option<u32> {
        let (own, peer) = (stream.local_addr().ok()?, stream.peer_addr().ok()?);
        let turn = self.lookups.clone().acquire_owned().await.ok()?;
        let looked_up = tokio::task::spawn_blocking(move || {
            let user = user_of_loopback(own, peer);
            drop(turn);
            user
        });
        looked_up.await.ok().flatten()
    }

    /// Whose share of the connections it takes.
    pub fn key(&self, proof: &Proof) -> SenderKey {
        match proof {
            Proof::Is(Identity::Certified { names, .. }) => {
                SenderKey::Name(names.first().cloned().unwrap_or_default())
            }
            Proof::Is(Identity::Local { .. }) => SenderKey::Trusted,
            Proof::Needs { uid } => SenderKey::User(*uid),
        }
    }
}

/// Reads what each connection of HTTP/2 begins with.
async fn preface(stream: &mut (impl AsyncRead + Unpin)) -> Result<(), Refusal> {
    let mut bytes = [0; PREFACE.len()];
    stream.read_exact(&mut bytes).await.map_err(|_| Refusal::Handshake)?;
    if &bytes == PREFACE { Ok(()) } else { Err(Refusal::NotHttp2) }
}

/// The sender of a request: what its connection proved, or what its token proves.
///
/// # Errors
/// Neither does; the message says what would.
pub(crate) fn sender(
    proof: &Proof,
    authorization: Option<&str>,
    token: Option<&Token>,
) -> Result<Identity, Status> {
    let uid = match proof {
        Proof::Is(identity) => return Ok(identity.clone()),
        Proof::Needs { uid } => *uid,
    };
    match (authorization, token) {
        (Some(sent), Some(token)) if token.is_in(sent) => return Ok(Identity::Local { uid }),
        (Some(_), Some(_)) => {
            return Err(Status::unauthenticated(
                "the token is not the one of collect.token_file of the server's configuration",
            ));
        }
        _ => {}
    }
    let user =
        uid.map_or_else(|| "a user that the kernel does not name".to_owned(), |uid| format!("user {uid}"));
    Err(Status::permission_denied(format!(
        "{user} of this machine may not send batches: root, the server's own user and collect.local_users of its \
         configuration may; or set collect.token_file there and delivery.token_file here"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_stands_for_a_user_who_may_not_write() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        std::fs::write(&path, "0123456789abcdef0123").unwrap();
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
        let token = Token::read("collect.token_file", &path).unwrap();
        let stranger = Proof::Needs { uid: Some(4242) };
        let own = Proof::Is(Identity::Local { uid: Some(0) });
        assert!(sender(&own, None, None).is_ok());
        assert!(sender(&stranger, Some(&token.authorization()), Some(&token)).is_ok());
        let wrong = sender(&stranger, Some("Bearer 0123456789abcdef"), Some(&token)).unwrap_err();
        assert_eq!(wrong.code(), tonic::Code::Unauthenticated);
        for (sent, token) in [(None, None), (None, Some(&token)), (Some("Bearer x"), None)] {
            let refused = sender(&stranger, sent, token).unwrap_err();
            assert_eq!(refused.code(), tonic::Code::PermissionDenied);
            assert!(
                refused.message().contains("user 4242") && refused.message().contains("collect.local_users")
            );
        }
    }
}
