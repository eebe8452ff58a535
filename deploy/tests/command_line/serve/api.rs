//! The table of requests in the book, the description in OpenAPI and what is answered are the same.

use std::collections::BTreeSet;

use super::*;

const BOOK: &str = include_str!("../../../../docs/src/reference/api.md");

type Requests = BTreeSet<(String, String)>;

/// Method and path of every request that a table of the book names: `| `GET`, `PUT /a`, `/b` | ...`
fn in_the_book() -> Requests {
    let mut requests = Requests::new();
    for line in BOOK.lines().filter(|line| line.starts_with("| `")) {
        let cell = line.split(" | ").next().unwrap();
        let words: Vec<&str> = cell.split([' ', '`', ',', '|']).collect();
        let methods = words.iter().filter(|word| ["GET", "PUT", "POST"].contains(word));
        for method in methods {
            let paths = words.iter().filter(|word| word.starts_with('/'));
            requests.extend(paths.map(|path| ((*method).to_owned(), (*path).to_owned())));
        }
    }
    requests
}

fn described(openapi: &Value) -> Requests {
    let paths = openapi["paths"].as_object().unwrap();
    let methods = |(path, methods): (&String, &Value)| {
        let methods: Vec<_> =
            methods.as_object().unwrap().keys().map(|method| (method.to_uppercase(), path.clone())).collect();
        methods
    };
    paths.iter().flat_map(methods).collect()
}

#[test]
fn every_request_of_the_book_is_described_and_answered_and_no_other() {
    let dir = tempfile::tempdir().unwrap();
    let detector = Detector::new();
    let daemon = Daemon::start(&detector, dir.path(), &[]);
    let openapi = daemon.json("/api/v1/openapi.json");
    let (book, described) = (in_the_book(), described(&openapi));
    assert_eq!(book, described);
    assert!(book.contains(&("PUT".to_owned(), "/api/v1/series/{number}/geometry".to_owned())));
    let paths: BTreeSet<&str> = book.iter().map(|(_, path)| path.as_str()).collect();
    for path in paths {
        let asked = path.replace("{number}", "1").replace("{name}", "bf");
        for method in ["GET", "PUT", "POST", "DELETE"] {
            let (code, answer) = daemon.ask(method, &asked, "Content-Type: application/json\r\n", "[]");
            let is_there = book.contains(&(method.to_owned(), path.to_owned()));
            assert_eq!(code == 405, !is_there, "{method} {path}: {code}");
            let answer = String::from_utf8_lossy(&answer);
            let nothing = path != "/page/{name}" && answer.contains("there is no such page");
            assert!(!nothing, "{method} {path}: {answer}");
        }
    }
    for state in ["listening", "armed", "receiving", "reconstructing", "complete", "partial", "failed"] {
        assert!(BOOK.contains(&format!("`{state}`")), "{state}");
    }
}
