//! The front end: three files that are part of the program.

use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};

const POLICY: &str =
    "default-src 'self'; img-src 'self' data:; frame-ancestors 'none'; base-uri 'none'; form-action 'self'";

/// Whoever has this version's file need not load it again.
fn file(headers: &HeaderMap, kind: &'static str, cache: &'static str, text: &'static str) -> Response {
    let digest = super::session::hash_of(text);
    let tag = format!("\"{}\"", crate::password::hex(&digest[..8]));
    let same = headers.get(header::IF_NONE_MATCH).is_some_and(|value| value.as_bytes() == tag.as_bytes());
    let mut response = if same {
        StatusCode::NOT_MODIFIED.into_response()
    } else {
        ([(header::CONTENT_TYPE, kind)], text).into_response()
    };
    let heads = response.headers_mut();
    heads.insert(header::CACHE_CONTROL, HeaderValue::from_static(cache));
    heads.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    if let Ok(tag) = HeaderValue::from_str(&tag) {
        heads.insert(header::ETAG, tag);
    }
    response
}

pub(crate) async fn home(headers: HeaderMap) -> Response {
    file(&headers, "text/html; charset=utf-8", "no-cache", include_str!("../../web/index.html"))
}

pub(crate) async fn style(headers: HeaderMap) -> Response {
    file(&headers, "text/css; charset=utf-8", "public, max-age=300", include_str!("../../web/app.css"))
}

pub(crate) async fn script(headers: HeaderMap) -> Response {
    file(&headers, "text/javascript; charset=utf-8", "public, max-age=300", include_str!("../../web/app.js"))
}

pub(crate) async fn interface(headers: HeaderMap) -> Response {
    file(&headers, "application/yaml", "public, max-age=300", include_str!("../../openapi.yaml"))
}
