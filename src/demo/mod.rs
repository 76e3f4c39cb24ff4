//! The demo: people who come without a token, and a small back end that does what everybody's own must do.
//!
//! 1. Whoever loads a document for editing claims its fencing token here first, then reads: from then on nobody with an older
//!    token can save.
//! 2. A save is one conditional write with the token: an older one is refused.
//! 3. What was saved is kept, in the order of the versions, so that anyone can see that no word was lost.
//!
//! It has a file of its own and knows of locks only what a back end of others would. Demo tokens are good for rooms `demo-*`.

mod store;

use std::{path::Path, sync::Arc};

use serde::{Deserialize, Serialize};

use crate::{
    auth::{Claims, Role, secret::Secret},
    calls::{Call, Code, DocumentName, Problem, view::Timed},
    locking::{DocumentKey, Timestamp, names::OwnerId},
};
pub use store::{SavedVersion, StoreError};
use store::{Store, Write};

/// Rooms that demo tokens are good for.
const ROOMS: &str = "demo-*";
const TOKEN_HOURS: i64 = 8;
/// The longest name a visitor may give itself.
const NAME_BYTES: usize = 60;

#[derive(Debug)]
pub struct Demo {
    store: Arc<Store>,
    secret: Secret,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SessionRequest {
    name: String,
}

#[derive(Debug, Serialize)]
pub struct SessionView {
    token: String,
    owner_id: OwnerId,
    name: String,
    expires_in_ms: i64,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LoadParams {
    /// To edit: claims the token before anything is read.
    #[serde(default, deserialize_with = "crate::calls::fields::number_text")]
    fencing_token: Option<i64>,
    /// What was saved, oldest first, instead of the text.
    history: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SaveRequest {
    fencing_token: i64,
    text: String,
}

/// A document as it is, or what was saved of it.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub enum LoadView {
    Text { text: String, document_version: String, fencing_token: i64 },
    History { items: Vec<SavedVersion> },
}

#[derive(Debug, Serialize)]
pub struct SaveView {
    document_version: String,
    fencing_token: i64,
}

impl Demo {
    /// `secret` signs the visitors' tokens.
    pub fn open(file: &Path, secret: Secret) -> Result<Self, StoreError> {
        Ok(Self { store: Arc::new(Store::open(file)?), secret })
    }

    /// Gives a visitor a token. `now` is the time of the world outside.
    pub fn session(&self, request: &SessionRequest, now: Timestamp) -> Result<SessionView, Problem> {
        let name: String = request.name.trim().chars().filter(|c| !c.is_control()).collect();
        if name.is_empty() || name.len() > NAME_BYTES {
            return Err(Problem::invalid("name", format!("must be 1 to {NAME_BYTES} bytes")));
        }
        let owner = format!("demo-{:08x}", getrandom::u32().unwrap_or_default());
        #[expect(clippy::cast_precision_loss, reason = "seconds of this century")]
        let exp = (now.millis() / 1000 + TOKEN_HOURS * 3600) as f64;
        let claims = Claims {
            sub: owner.clone(),
            name: Some(name.clone()),
            role: Role::Editor,
            rooms: Some(vec![ROOMS.to_owned()]),
            exp,
            ..Claims::default()
        };
        let token = claims.sign(&self.secret.bytes)?;
        let owner_id = OwnerId::from_stored(owner);
        Ok(SessionView { token, owner_id, name, expires_in_ms: TOKEN_HOURS * 3_600_000 })
    }

    pub async fn load(&self, call: &Call, name: DocumentName, params: LoadParams) -> Result<Timed<LoadView>, Problem> {
        let key = demo_key(call, Role::Viewer, name)?;
        if params.history.is_some() {
            let items = self.in_store(move |store| store.history(&key)).await?;
            return Ok(call.timed(LoadView::History { items }));
        }
        if let Some(token) = params.fencing_token {
            call.caller.require(Role::Editor)?;
            check_token(call, &key, token).await?;
            let claimed = key.clone();
            refuse_stale(&self.in_store(move |store| store.claim(&claimed, token)).await?)?;
        }
        let document = self.in_store(move |store| store.read(&key)).await?;
        let view = LoadView::Text {
            text: document.text,
            document_version: version(document.version),
            fencing_token: document.fencing_token,
        };
        Ok(call.timed(view))
    }

    pub async fn save(
        &self,
        call: &Call,
        name: DocumentName,
        request: SaveRequest,
    ) -> Result<Timed<SaveView>, Problem> {
        let key = demo_key(call, Role::Editor, name)?;
        let SaveRequest { fencing_token, text } = request;
        check_token(call, &key, fencing_token).await?;
        let by = call.caller.name.as_deref().unwrap_or(call.caller.owner.as_str()).to_owned();
        let now = call.now();
        let written = self.in_store(move |store| store.save(&key, fencing_token, &text, &by, now)).await?;
        let number = refuse_stale(&written)?;
        Ok(call.timed(SaveView { document_version: version(number), fencing_token }))
    }

    /// Off the threads that serve requests: the disk may take its time.
    async fn in_store<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Store) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, Problem> {
        let store = Arc::clone(&self.store);
        let failed = || Problem::new(Code::OutcomeUnknown, "The demo's file cannot be used.").retry_after_ms(1000);
        match tokio::task::spawn_blocking(move || work(&store)).await {
            Ok(Ok(done)) => Ok(done),
            Ok(Err(StoreError::Full)) => {
                Err(Problem::new(Code::LimitReached, "The demo has as many documents as it takes."))
            }
            Ok(Err(error @ StoreError::Sqlite(_))) => {
                tracing::warn!(%error, "the demo's file cannot be used");
                Err(failed())
            }
            Err(_) => Err(failed()),
        }
    }
}

fn version(number: i64) -> String {
    format!("v{number}")
}

fn demo_key(call: &Call, role: Role, name: DocumentName) -> Result<DocumentKey, Problem> {
    let key = call.key(role, name)?;
    if !key.room.as_str().starts_with("demo-") {
        return Err(Problem::new(Code::RoomForbidden, "The demo keeps the texts of rooms demo-* only."));
    }
    Ok(key)
}

/// A token that was never granted would lock out everyone whose token is real.
async fn check_token(call: &Call, key: &DocumentKey, token: i64) -> Result<(), Problem> {
    if !(1..=call.last_token(key).await?).contains(&token) {
        return Err(Problem::invalid("fencing_token", "was never granted on this document"));
    }
    Ok(())
}

fn refuse_stale(written: &Write) -> Result<i64, Problem> {
    match *written {
        Write::Done { version } => Ok(version),
        Write::Stale { current } => {
            let detail = "Somebody with a newer lock has loaded the document since. Nothing was written.";
            Err(Problem::new(Code::StaleToken, detail).with("current_token", current))
        }
    }
}
