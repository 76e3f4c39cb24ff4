//! What may be asked about locks, with the fields, the rules and the answers of the HTTP calls.

use std::sync::Arc;

use actix_web::web;

use crate::{
    auth::Caller,
    calls::{
        extend, fields, lock,
        problem::{Code, Problem},
        unlock,
        view::{DoneView, Timed},
    },
    http::{
        Api,
        call::{Call, DocumentPath},
    },
    live::messages::Asked,
    locking::names::DocumentId,
};

pub async fn run(api: &web::Data<Api>, caller: &Arc<Caller>, mut asked: Asked) -> Result<Timed<DoneView>, Problem> {
    api.rates.admit(caller, api.clock.now())?;
    let call = Call { api: api.clone(), caller: Arc::clone(caller), idempotency_key: None };
    let kind = match asked.kind.as_str() {
        "lock" => Kind::Lock,
        "extend" => Kind::Extend,
        "unlock" => Kind::Unlock,
        kind => return Err(Problem::new(Code::BadRequest, format!("`{kind}` is not a type this server knows."))),
    };
    let room = asked.room()?;
    let document = asked.name("document")?.unwrap_or_else(DocumentId::main);
    let name = DocumentPath { room, document };
    match kind {
        Kind::Lock => lock::run(&call, name, fields::from_object(asked.fields)?).await,
        Kind::Extend => extend::run(&call, name, fields::from_object(asked.fields)?).await,
        Kind::Unlock => unlock::run(&call, name, fields::from_object(asked.fields)?).await,
    }
}

enum Kind {
    Lock,
    Extend,
    Unlock,
}
