//! Requests of a scenario file: what is sent, what is expected, and what is taken from the answer.

use super::keys::{DELAY, EXTRACT, METHODS, PART, REQUEST};
use super::table::{LONGEST_BODY_MIB, Reader, Value};
use crate::bounded_file;
use crate::json::JsonPath;
use crate::scenario::{Delay, Extract, Pick, Piece, Request, Since, Source, Stream};
use crate::template::{Escape, Template};
use baremark_model::config::Section;
use baremark_model::problem::nearest;
use baremark_model::units::Bytes;
use regex_lite::Regex;
use std::error::Error;
use std::sync::Arc;
use toml::Spanned;
use toml::de::DeValue;

impl Reader<'_> {
    pub(super) fn request(&mut self, table: &Section<'_>) -> Request {
        self.known(table, &REQUEST);
        let methods: Vec<&str> = METHODS.into_iter().filter(|method| table.has(method)).collect();
        let [method] = methods[..] else {
            self.wrong(table.line(), "a request needs exactly one method", "write such as get = \"/path\"");
            return Request::new(0, "GET", Template::default());
        };
        let (path, line) = self.text(table, method).unwrap_or(("/", table.line()));
        if !path.starts_with('/') && !path.starts_with('{') {
            self.wrong(line, format!("the path '{path}' does not start at the root"), "write such as get = \"/path\"");
        }
        let path = self.template(path, line);
        let origin = self.text(table, "origin").map_or(0, |(name, line)| self.request_origin(name, line));
        let mut request = Request::new(origin, &method.to_ascii_uppercase(), path);
        self.headers(table, &mut request);
        self.body(table, &mut request);
        request.expect = self.statuses(table);
        request.extract = self.typed.sections(table, "extract").iter().map(|one| self.extract(one)).collect();
        let events = self.count(table, "events", 1_000_000_000);
        let lasting = self.typed.quantity(table, "events_for");
        if events.is_some() || lasting.is_some() {
            request.events = Some(Stream { most: events.map_or(u64::MAX, u64::from), lasting });
        }
        let delay = self.typed.section(table, "delay");
        request.delay = table.has("delay").then(|| self.delay(&delay));
        request.tells = self.tells(table);
        request.timeout = self.typed.quantity(table, "timeout");
        let most = self.count(table, "at_most", 10_000).unwrap_or(10_000) as usize;
        request.each = self.text(table, "each").map(|(text, line)| (self.variable(text, line), most));
        request
    }

    pub(super) fn request_origin(&mut self, name: &str, line: usize) -> usize {
        if let Some(index) = self.names.origins.iter().position(|(known, _)| known == name) {
            return index;
        }
        let known: Vec<&str> = self.names.origins.iter().map(|(known, _)| known.as_str()).collect();
        let remedy = nearest(name, &known);
        self.wrong(line, format!("no origin is '{name}'"), remedy);
        0
    }

    pub(super) fn headers(&mut self, table: &Section<'_>, request: &mut Request) {
        let headers = self.typed.section(table, "headers");
        for (name, ..) in headers.entries() {
            let Some((text, line)) = self.text(&headers, name) else { continue };
            let token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
            if name.is_empty() || !name.bytes().all(token) {
                self.wrong(line, format!("invalid header name '{name}'"), "write such as accept = \"text/html\"");
            }
            let value = self.template(text, line);
            request.headers.push((name.to_owned(), value));
        }
        if let Some((token, line)) = self.text(table, "bearer") {
            let value = self.template(&format!("Bearer {token}"), line);
            request.headers.push(("Authorization".to_owned(), value));
        }
    }

    pub(super) fn statuses(&mut self, table: &Section<'_>) -> Vec<u16> {
        let statuses = self.typed.counts(table, "expect", (200, 999)).unwrap_or_default();
        statuses.into_iter().filter_map(|status| u16::try_from(status).ok()).collect()
    }

    pub(super) fn body(&mut self, table: &Section<'_>, request: &mut Request) {
        let kinds: Vec<&str> =
            ["body", "form", "json", "multipart"].into_iter().filter(|kind| table.has(kind)).collect();
        if kinds.len() > 1 {
            self.wrong(
                table.line(),
                format!("a request can have one body, not {}", kinds.len()),
                "keep one of body, form, json, multipart",
            );
        }
        let mut pieces = Vec::new();
        let default = match kinds.first() {
            Some(&"body") => {
                if let Some((text, line)) = self.text(table, "body") {
                    pieces.push(Piece::Text(self.template(text, line), Escape::None));
                }
                "text/plain; charset=utf-8"
            }
            Some(&"form") => {
                let form = self.typed.section(table, "form");
                for (index, (name, ..)) in form.entries().into_iter().enumerate() {
                    let mut key = Vec::new();
                    Escape::Form.append(name, &mut key);
                    let key = String::from_utf8_lossy(&key).into_owned();
                    pieces.push(plain(&format!("{}{key}=", if index > 0 { "&" } else { "" })));
                    if let Some((text, line)) = self.text(&form, name) {
                        let value = self.template(text, line).escaped(Escape::Form);
                        pieces.push(Piece::Text(value, Escape::Form));
                    }
                }
                "application/x-www-form-urlencoded"
            }
            Some(&"json") => {
                if let Some(value) = table.get("json") {
                    self.json(value, &mut pieces);
                }
                "application/json"
            }
            Some(_) => {
                self.multipart(table, &mut pieces);
                "multipart/form-data; boundary=baremark-7f3b9c1e5a2d4860"
            }
            None if ["POST", "PUT", "PATCH"].contains(&request.method.as_str()) => {
                // A request of these methods says that it has none.
                request.body = Some(Vec::new());
                return;
            }
            None => return,
        };
        request.content_type = Some(self.text(table, "content_type").map_or(default, |(text, _)| text).to_owned());
        request.body = Some(pieces);
    }

    pub(super) fn json(&mut self, value: Value<'_>, pieces: &mut Vec<Piece>) {
        let line = self.line(value);
        match value.get_ref() {
            DeValue::String(text) => {
                pieces.push(plain("\""));
                pieces.push(Piece::Text(self.template(text, line).escaped(Escape::Json), Escape::Json));
                pieces.push(plain("\""));
            }
            DeValue::Integer(number) => pieces.push(plain(number.as_str())),
            DeValue::Float(number) => pieces.push(plain(number.as_str())),
            DeValue::Boolean(on) => pieces.push(plain(if *on { "true" } else { "false" })),
            DeValue::Datetime(moment) => pieces.push(plain(&format!("\"{moment}\""))),
            DeValue::Array(list) => {
                for (index, value) in list.iter().enumerate() {
                    pieces.push(plain(if index == 0 { "[" } else { "," }));
                    self.json(value, pieces);
                }
                pieces.push(plain(if list.is_empty() { "[]" } else { "]" }));
            }
            DeValue::Table(entries) => {
                let single = entries.len() == 1;
                if let Some(DeValue::String(text)) = entries.get("number").map(Spanned::get_ref).filter(|_| single) {
                    // { number = "{amount}" }: a variable's value without quotation marks.
                    pieces.push(Piece::Text(self.template(text, line), Escape::None));
                    return;
                }
                for (index, (key, value)) in entries.iter().enumerate() {
                    let mut name = Vec::new();
                    Escape::Json.append(key.get_ref(), &mut name);
                    let name = String::from_utf8_lossy(&name).into_owned();
                    pieces.push(plain(&format!("{}\"{name}\":", if index == 0 { "{" } else { "," })));
                    self.json(value, pieces);
                }
                pieces.push(plain(if entries.is_empty() { "{}" } else { "}" }));
            }
        }
    }

    pub(super) fn multipart(&mut self, table: &Section<'_>, pieces: &mut Vec<Piece>) {
        const BOUNDARY: &str = "baremark-7f3b9c1e5a2d4860";
        for part in &self.typed.sections(table, "multipart") {
            self.known(part, &PART);
            let (name, line) = self.text(part, "name").unwrap_or(("", part.line()));
            if name.is_empty() || name.contains(['"', '\r', '\n']) {
                self.wrong(line, "a part must have a name", "add name = \"FIELD\"");
            }
            let mut head = format!("--{BOUNDARY}\r\nContent-Disposition: form-data; name=\"{name}\"");
            if let Some((filename, _)) = self.text(part, "filename") {
                head.push_str(&format!("; filename=\"{}\"", filename.replace(['"', '\r', '\n'], "_")));
            }
            if let Some((kind, _)) = self.text(part, "content_type") {
                head.push_str(&format!("\r\nContent-Type: {}", kind.replace(['\r', '\n'], " ")));
            }
            pieces.push(plain(&format!("{head}\r\n\r\n")));
            if let Some((text, line)) = self.text(part, "text") {
                pieces.push(Piece::Text(self.template(text, line), Escape::None));
            } else if let Some((file, line)) = self.text(part, "file") {
                pieces.push(self.upload(file, line));
            } else if let Some(size) = self.typed.quantity::<Bytes>(part, "size") {
                let most = LONGEST_BODY_MIB << 20;
                if size.0 > most {
                    self.wrong(part.line(), format!("a part of {size}"), "write at most 64 MiB");
                }
                pieces.push(Piece::Bytes(filler(size.0.min(most)).into()));
            } else {
                self.wrong(part.line(), format!("the part '{name}' is empty"), "add text, file or size");
            }
            pieces.push(plain("\r\n"));
        }
        pieces.push(plain(&format!("--{BOUNDARY}--\r\n")));
    }

    pub(super) fn upload(&mut self, file: &str, line: usize) -> Piece {
        match bounded_file::read(&self.folder.join(file), LONGEST_BODY_MIB) {
            Ok(bytes) => Piece::Bytes(bytes.into()),
            Err(why) => {
                let what = match why.source() {
                    Some(cause) => format!("{why}: {cause}"),
                    None => why.to_string(),
                };
                self.wrong(line, what, "paths are relative to the scenario file");
                Piece::Bytes(Arc::from([]))
            }
        }
    }

    pub(super) fn extract(&mut self, table: &Section<'_>) -> Extract {
        self.known(table, &EXTRACT);
        let variable = self.named_variable(table, "into");
        let json = self.text(table, "json").map(|(text, line)| (JsonPath::parse(text), text, line));
        let source = if let Some((path, text, line)) = json {
            if path.is_none() {
                self.wrong(line, format!("invalid JSON path '{text}'"), "write such as items[*].id or user.name");
            }
            path.map(Source::Json)
        } else if let Some((text, line)) = self.text(table, "regex") {
            match Regex::new(text) {
                Ok(regex) => Some(Source::Regex(regex)),
                Err(why) => {
                    self.wrong(line, format!("invalid regular expression '{text}': {why}"), "fix it");
                    None
                }
            }
        } else if let Some((text, _)) = self.text(table, "header") {
            Some(Source::Header(text.to_owned()))
        } else {
            self.wrong(table.line(), "an extract has no source", "add json, regex or header");
            None
        };
        let picks = [
            ("first", Pick::First),
            ("last", Pick::Last),
            ("random", Pick::Random),
            ("all", Pick::All),
            ("count", Pick::Count),
        ];
        let chosen = self.typed.choices(table, "pick", &picks.map(|(name, _)| name));
        let pick = chosen.first().map_or(Pick::First, |at| picks[*at].1);
        let optional = self.typed.switch(table, "optional").unwrap_or(false);
        let source = source.unwrap_or_else(|| Source::Header(String::new()));
        Extract { variable, source, pick, optional }
    }

    fn tells(&mut self, table: &Section<'_>) -> Option<JsonPath> {
        let (text, line) = self.text(table, "tells")?;
        let path = JsonPath::parse(text).filter(|_| !text.is_empty());
        if path.is_none() {
            self.wrong(line, format!("invalid JSON path '{text}'"), "write such as tells = \"bid_id\"");
        }
        path
    }

    pub(super) fn delay(&mut self, table: &Section<'_>) -> Delay {
        self.known(table, &DELAY);
        let (text, line) = self.text(table, "json").unwrap_or(("", table.line()));
        let path = JsonPath::parse(text).filter(|_| !text.is_empty());
        if path.is_none() {
            self.wrong(line, "a delay needs the path of a time", "add json = \"placed_at\"");
        }
        let units = [("s", 1e9), ("ms", 1e6), ("us", 1e3), ("ns", 1.0)];
        let unit = self.text(table, "unit").map_or("ms", |(text, _)| text);
        let found = units.iter().find(|(name, _)| *name == unit);
        if found.is_none() {
            self.wrong(table.line(), format!("unit = '{unit}' is not known"), "write s, ms, us or ns since 1970");
        }
        let path = path.unwrap_or_default();
        let since = match self.text(table, "since") {
            Some(("told", _)) => Since::Told,
            Some((other, line)) => {
                self.wrong(line, format!("since = '{other}' is not known"), "write since = \"told\", or a unit");
                Since::Told
            }
            None => Since::Clock(found.map_or(1e6, |(_, ns)| *ns)),
        };
        Delay { path, since, limit: self.typed.quantity(table, "limit") }
    }
}

fn plain(text: &str) -> Piece {
    Piece::Text(Template::plain(text), Escape::None)
}

/// Bytes that do not compress: what an image would be.
fn filler(size: u64) -> Vec<u8> {
    let mut rng = crate::rng::Rng::stream(size, 0);
    let words = usize::try_from(size.div_ceil(8)).unwrap_or(0);
    let mut bytes: Vec<u8> = (0..words).flat_map(|_| rng.next().to_le_bytes()).collect();
    bytes.truncate(usize::try_from(size).unwrap_or(0));
    bytes
}
