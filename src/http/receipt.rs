//! Answers that must arrive: the lock of a request that waited is given up if its client is gone before the answer is written.

use std::{
    convert::Infallible,
    pin::Pin,
    task::{Context, Poll},
};

use actix_web::{
    HttpResponse,
    body::{BodySize, BoxBody, MessageBody},
    http::header::ContentType,
};
use bytes::Bytes;
use serde::Serialize;

use crate::calls::wait::Receipt;

/// Writes the answer as JSON; the receipt is good once the connection has taken it.
pub fn answer(answer: &impl Serialize, receipt: Option<Receipt>) -> HttpResponse<BoxBody> {
    // Our own types can always be written.
    let json = Bytes::from(serde_json::to_vec(answer).unwrap_or_default());
    let mut response = HttpResponse::Ok();
    response.insert_header(ContentType::json());
    match receipt {
        Some(receipt) => response.body(Receipted { json, receipt: Some(receipt) }),
        None => response.body(json),
    }
}

struct Receipted {
    json: Bytes,
    receipt: Option<Receipt>,
}

impl MessageBody for Receipted {
    type Error = Infallible;

    fn size(&self) -> BodySize {
        BodySize::Sized(self.json.len() as u64)
    }

    fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Bytes, Infallible>>> {
        let Some(receipt) = self.receipt.take() else { return Poll::Ready(None) };
        receipt.is_written();
        Poll::Ready(Some(Ok(self.json.clone())))
    }
}
