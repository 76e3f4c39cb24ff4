//! JSON Web Tokens: which keys sign them, what they must say.

use std::{collections::HashMap, fs, path::Path, sync::Arc};

use jsonwebtoken::{
    Algorithm, DecodingKey, EncodingKey, Header, Validation, decode, decode_header,
    errors::ErrorKind,
    jwk::{AlgorithmParameters, EllipticCurve, Jwk, JwkSet, PublicKeyUse},
};
use parking_lot::RwLock;
use serde::{Deserialize, Serialize};

use super::{Caller, Role, RoomGlobs};
use crate::locking::{
    HolderKind, Timestamp,
    names::{MAX_NAME_BYTES, OwnerId, TenantId},
};

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    #[error("the token is not valid: {0}")]
    Invalid(String),
    #[error("the token has expired")]
    Expired,
}

#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    #[error("cannot read {path}: {reason}")]
    Unreadable { path: String, reason: String },
    #[error("{path} is not a JSON Web Key Set: {reason}")]
    NotJwks { path: String, reason: String },
    #[error("{path} has no RS256, ES256 or EdDSA key")]
    NoKey { path: String },
}

/// The claims of a token that doclock reads. Any others are ignored.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Claims {
    pub sub: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<HolderKind>,
    #[serde(default)]
    pub role: Role,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rooms: Option<Vec<String>>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub permissions: Vec<String>,
    /// Seconds since 1970. The standard allows fractions, so they are read; ours are written without.
    #[serde(serialize_with = "whole_seconds")]
    pub exp: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nbf: Option<f64>,
}

#[expect(clippy::cast_possible_truncation, reason = "the fraction is what is left out")]
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
fn whole_seconds<S: serde::Serializer>(seconds: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_i64(*seconds as i64)
}

impl Claims {
    /// Returns a token with these claims. Fails if [`Keys::verify`] would refuse them for anything but their times.
    pub fn sign(&self, secret: &[u8]) -> Result<String, TokenError> {
        caller(self.clone())?;
        jsonwebtoken::encode(&Header::new(Algorithm::HS256), self, &EncodingKey::from_secret(secret))
            .map_err(|error| TokenError::Invalid(error.to_string()))
    }
}

/// The keys that tokens may be signed with, and a cache of verified tokens.
pub struct Keys {
    keys: Vec<Key>,
    known: RwLock<HashMap<String, Known>>,
}

/// A verified token. A client sends the same token with every request, so only its times are checked again.
struct Known {
    caller: Arc<Caller>,
    valid: Validity,
}

/// How many verified tokens are cached. A full cache is emptied, which costs one verification per token.
const KNOWN_TOKENS: usize = 10_000;

struct Key {
    id: Option<String>,
    algorithm: Algorithm,
    material: DecodingKey,
}

/// Key material is never printed.
impl std::fmt::Debug for Keys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.keys.iter().map(|key| (&key.id, key.algorithm))).finish()
    }
}

impl Keys {
    pub fn new(secret: Option<&[u8]>, jwks_file: Option<&Path>) -> Result<Self, KeyError> {
        let secret = secret.map(|secret| Key {
            id: None,
            algorithm: Algorithm::HS256,
            material: DecodingKey::from_secret(secret),
        });
        let mut keys: Vec<_> = secret.into_iter().collect();
        if let Some(path) = jwks_file {
            keys.extend(read_jwks(path)?);
        }
        Ok(Self { keys, known: RwLock::default() })
    }

    /// Returns the caller that a token stands for. Fails if none of the keys has signed it, if it is not valid yet, or
    /// if it has expired.
    pub fn verify(&self, token: &str, now: Timestamp) -> Result<Arc<Caller>, TokenError> {
        if let Some(known) = self.known.read().get(token) {
            known.valid.check(now)?;
            return Ok(Arc::clone(&known.caller));
        }
        let claims = self.claims(token)?;
        let valid = Validity { from: claims.nbf, until: claims.exp };
        valid.check(now)?;
        let caller = Arc::new(caller(claims)?);
        let mut known = self.known.write();
        if known.len() >= KNOWN_TOKENS {
            known.clear();
        }
        known.insert(token.to_owned(), Known { caller: Arc::clone(&caller), valid });
        Ok(caller)
    }

    /// Returns the claims of a token. Fails if none of the keys has signed it.
    fn claims(&self, token: &str) -> Result<Claims, TokenError> {
        let header = decode_header(token).map_err(|error| TokenError::Invalid(error.to_string()))?;
        // A key is only ever used with its own algorithm: a public key cannot pass for a shared secret.
        let fits = |key: &&Key| {
            key.algorithm == header.alg && (key.id.is_none() || header.kid.is_none() || key.id == header.kid)
        };
        let mut problem = TokenError::Invalid("no key for its algorithm and key id".to_owned());
        for key in self.keys.iter().filter(fits) {
            match decode::<Claims>(token, &key.material, &validation(key.algorithm)) {
                Ok(token) => return Ok(token.claims),
                Err(error) => {
                    problem = TokenError::Invalid(match error.kind() {
                        ErrorKind::InvalidSignature => "its signature does not fit".to_owned(),
                        _ => error.to_string(),
                    });
                }
            }
        }
        Err(problem)
    }
}

/// Returns a check of the signature alone. `Validity` checks the times, against the given clock; the audience is not
/// checked.
fn validation(algorithm: Algorithm) -> Validation {
    let mut validation = Validation::new(algorithm);
    validation.required_spec_claims.clear();
    validation.validate_exp = false;
    validation.validate_aud = false;
    validation
}

/// When a token is good, in seconds since 1970.
struct Validity {
    from: Option<f64>,
    until: f64,
}

impl Validity {
    fn check(&self, now: Timestamp) -> Result<(), TokenError> {
        #[expect(clippy::cast_precision_loss, reason = "exact until the year 287396")]
        let seconds = now.millis() as f64 / 1000.0;
        if self.from.is_some_and(|from| from > seconds) {
            return Err(TokenError::Invalid("it is not valid yet".to_owned()));
        }
        if self.until <= seconds || self.until.is_nan() {
            return Err(TokenError::Expired);
        }
        Ok(())
    }
}

fn caller(claims: Claims) -> Result<Caller, TokenError> {
    let invalid = |claim: &str, reason: &dyn std::fmt::Display| TokenError::Invalid(format!("its `{claim}` {reason}"));
    let tenant = match &claims.tenant {
        Some(tenant) => TenantId::parse(tenant).map_err(|reason| invalid("tenant", &reason))?,
        None => TenantId::default_tenant(),
    };
    Ok(Caller {
        tenant,
        owner: OwnerId::parse(&claims.sub).map_err(|reason| invalid("sub", &reason))?,
        name: claims.name.as_deref().and_then(display_name),
        kind: claims.kind.unwrap_or_default(),
        role: claims.role,
        rooms: RoomGlobs::parse(claims.rooms).map_err(|reason| invalid("rooms", &reason))?,
        #[expect(clippy::cast_possible_truncation, reason = "beyond the range is as good as never")]
        expires_at: Timestamp::from_millis((claims.exp * 1000.0) as i64),
        may_take_over: claims.role == Role::Admin || claims.permissions.iter().any(|p| p == "takeover"),
    })
}

/// Returns the name without control characters, which could harm a log or a page, and cut to its maximum length. A name
/// is cleaned rather than refused, because people do not choose how their token spells it. `None` if nothing is left.
fn display_name(name: &str) -> Option<Arc<str>> {
    let mut name: String = name.chars().filter(|c| !c.is_control()).collect();
    name.truncate(name.floor_char_boundary(MAX_NAME_BYTES));
    (!name.trim().is_empty()).then(|| name.trim().into())
}

fn read_jwks(path: &Path) -> Result<Vec<Key>, KeyError> {
    let shown = path.display().to_string();
    let text = fs::read_to_string(path)
        .map_err(|error| KeyError::Unreadable { path: shown.clone(), reason: error.to_string() })?;
    let set: JwkSet = serde_json::from_str(&text)
        .map_err(|error| KeyError::NotJwks { path: shown.clone(), reason: error.to_string() })?;
    let keys: Vec<_> = set.keys.iter().filter_map(signing_key).collect();
    if keys.is_empty() { Err(KeyError::NoKey { path: shown }) } else { Ok(keys) }
}

/// Returns the key if it verifies signatures that doclock accepts. A set may hold keys for other uses; those are
/// skipped.
fn signing_key(jwk: &Jwk) -> Option<Key> {
    if jwk.common.public_key_use == Some(PublicKeyUse::Encryption) {
        return None;
    }
    let algorithm = match &jwk.algorithm {
        AlgorithmParameters::RSA(_) => Algorithm::RS256,
        AlgorithmParameters::EllipticCurve(key) if key.curve == EllipticCurve::P256 => Algorithm::ES256,
        AlgorithmParameters::OctetKeyPair(key) if key.curve == EllipticCurve::Ed25519 => Algorithm::EdDSA,
        _ => return None,
    };
    let declared = jwk.common.key_algorithm.map(|declared| declared.to_string());
    if declared.is_some_and(|declared| declared != format!("{algorithm:?}")) {
        return None;
    }
    Some(Key { id: jwk.common.key_id.clone(), algorithm, material: DecodingKey::from_jwk(jwk).ok()? })
}
