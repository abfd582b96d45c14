//! The archive in a bucket: decoders put up what they have closed, and a day is decoded again from there.

use crate::{Archived, SOON, day_of, yesterday_ns};
use memwide_service::CancellationToken;
use memwide_simulator::Fleet;
use memwide_tests::s3::{BUCKET, S3, Trouble};
use memwide_tests::{memwide, until};
use std::process::{Command, Output};
use std::time::Duration;

/// Files become so old before they go up, in seconds.
const CLOSE_S: u64 = 1;

impl Archived {
    /// As [`Archived::start`], with decoders whose archive goes up.
    fn start_in(server: &S3) -> Self {
        let mut archived = Self::start(None);
        let url = format!("s3://{BUCKET}/archive");
        for decoder in ["decoder-1", "decoder-2"] {
            let variables = server.environment();
            archived.deployment.set_variables(decoder, &variables);
            let keys = format!("archive_url = '{url}'\narchive_close_s = {CLOSE_S}\n");
            archived.deployment.configure(decoder, &keys);
        }
        archived.url = Some((url, server.environment()));
        archived
    }

    /// Until all of it has gone up: streams end, and nobody writes any more.
    fn gone_up(&self) {
        until("nothing waits here", SOON, || {
            let files = self.files();
            !files
                .iter()
                .any(|file| file.extension().is_some_and(|end| end == "mwa"))
        });
    }
}

fn archive(server: &S3, args: &[&str]) -> Output {
    let mut command = Command::new(memwide());
    command.arg("archive").args(args).args(["--format", "json"]);
    command.envs(server.environment()).output().unwrap()
}

fn rows(output: &Output) -> serde_json::Value {
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn a_day_is_decoded_again_from_a_bucket_however_its_decoders_died() {
    if crate::skip() {
        return;
    }
    let server = S3::start();
    let mut archived = Archived::start_in(&server);
    let fleet = Fleet::new("killed", 2, &[], 300, 1);
    let endpoint = archived.deployment.endpoint("decoder-2");
    let sender = fleet.clone();
    let sending = std::thread::spawn(move || {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        runtime.block_on(async {
            let sending = sender.run_for(&endpoint, 15, CancellationToken::new());
            tokio::time::timeout(2 * SOON, sending).await
        })
    });
    // Killed while the store takes nothing, while its answers are lost, while all is well.
    for trouble in [Trouble::Busy, Trouble::AnswersLost, Trouble::None] {
        server.set(trouble);
        let before = server.puts();
        until("it puts", SOON, || server.puts() > before + 1);
        archived.deployment.kill("decoder-2");
        archived.deployment.run("decoder-2");
    }
    sending.join().unwrap().unwrap().unwrap();
    archived.sent.set(fleet.truth().samples(|_| true));
    archived.closed();
    archived.gone_up();
    let totals = archived.totals();
    let url = format!("s3://{BUCKET}/archive");
    let days = rows(&archive(&server, &["ls", &url]));
    let days: Vec<&str> = days
        .as_array()
        .unwrap()
        .iter()
        .map(|row| row["day"].as_str().unwrap())
        .collect();
    let checked = rows(&archive(&server, &["verify", &url]));
    for row in checked.as_array().unwrap() {
        assert_eq!(
            (&row["damaged"], &row["other_key"]),
            (&0.into(), &0.into()),
            "{row}"
        );
    }
    let (code, answer, said) = archived.redecode(&days, &[]);
    assert_eq!(code, Some(0), "{said}");
    let remade = answer.as_array().unwrap();
    assert!(
        remade.iter().all(|row| row["outcome"] == "replaced"),
        "{answer}"
    );
    assert_eq!(archived.totals(), totals);
    // Without the objects of a host its days stay as they are.
    server.remove("/killed-2-");
    let (code, _, said) = archived.redecode(&days, &[]);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("would not be what is stored"), "{said}");
    assert_eq!(archived.totals(), totals);
}

#[test]
fn who_is_not_let_into_the_bucket_is_told_what_to_set() {
    if crate::skip() {
        return;
    }
    let server = S3::start();
    let mut archived = Archived::start_in(&server);
    archived.send(
        "decoder-2",
        &Fleet::new("one", 1, &[], 200, 1),
        yesterday_ns(),
    );
    archived.gone_up();
    let remedy = "AWS_ACCESS_KEY_ID";
    let said = |output: &Output| String::from_utf8_lossy(&output.stderr).into_owned();
    let url = format!("s3://{BUCKET}/archive");
    let mut command = Command::new(memwide());
    command
        .args(["archive", "verify", &url])
        .envs(server.environment());
    let refused = command
        .env("AWS_ACCESS_KEY_ID", "another")
        .output()
        .unwrap();
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    assert!(
        said(&refused).contains(&url) && said(&refused).contains(remedy),
        "{refused:?}"
    );
    let nowhere = archive(&server, &["ls", "s3://elsewhere/archive"]);
    assert!(said(&nowhere).contains(remedy), "{nowhere:?}");
    // A decoder does not start with what cannot work.
    let wrong = [("AWS_ACCESS_KEY_ID", "another".to_owned())];
    archived.deployment.set_variables("decoder-2", &wrong);
    archived.deployment.run("decoder-2");
    until("it ends", SOON, || {
        archived.deployment.ended("decoder-2") == Some(false)
    });
    let words = archived.deployment.last_words("decoder-2");
    assert!(words.contains(remedy), "{words}");
    // The day is there for whoever is let in.
    std::thread::sleep(Duration::from_secs(CLOSE_S));
    let day = day_of(yesterday_ns());
    let (code, answer, said) = archived.redecode(&[&day], &[]);
    assert_eq!(
        (code, &answer[0]["outcome"]),
        (Some(0), &"replaced".into()),
        "{said}"
    );
}
