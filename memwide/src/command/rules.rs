//! `memwide rules`: how the standing rules of a server are; a gate for releases.

use super::answer;
use crate::cli::RulesArgs;
use crate::client::Client;
use crate::failure::Failure;
use crate::output::{Column, Table};
use serde_json::Value;

pub(crate) fn run(args: &RulesArgs) -> Result<(), Failure> {
    let client = Client::new(&args.server.server);
    let found = client.get("rules", &[]).map_err(answer::failure)?;
    let rules = found["rules"].as_array().cloned().unwrap_or_default();
    table(&rules, found).print(args.format)?;
    if args.check {
        gate(&rules, &args.rule)?;
    }
    Ok(())
}

fn table(rules: &[Value], json: Value) -> Table {
    let names = ["rule", "state", "since", "asked", "rows", "judged"];
    let row = |rule: &Value| {
        let limit = |name: &str, sign: &str| Some(format!("{sign} {}", rule[name].as_f64()?));
        let limits = [limit("above", ">"), limit("below", "<")];
        let limits: Vec<String> = limits.into_iter().flatten().collect();
        let judged = match rule["column"].as_str().unwrap_or_default() {
            "" => "any row".to_owned(),
            column => format!("{column} {}", limits.join(" or ")),
        };
        let noise = if rule["beyond_noise"] == true {
            ", beyond noise"
        } else {
            ""
        };
        vec![
            rule["name"].clone(),
            rule["state"].clone(),
            rule["since"].clone(),
            rule["asked"].clone(),
            rule["rows"].as_array().map_or(0, Vec::len).into(),
            format!("{judged}{noise}").into(),
        ]
    };
    let problems = rules.iter().filter(|rule| rule["problem"] != "");
    let mut notes: Vec<String> = problems
        .map(|rule| {
            let text = |name: &str| rule[name].as_str().unwrap_or_default().to_owned();
            format!("{}: {}", text("name"), text("problem"))
        })
        .collect();
    if rules.is_empty() {
        notes.push("this server has no rules: they stand in the configuration of `memwide query` (deploy/config/query.toml)".to_owned());
    }
    Table {
        columns: names.map(|name| Column::new(name, "")).into(),
        rows: rules.iter().map(row).collect(),
        notes,
        json: Some(json),
    }
}

/// A failure unless all rules, or those of these names, are quiet.
fn gate(rules: &[Value], names: &[String]) -> Result<(), Failure> {
    let known = |name: &String| rules.iter().any(|rule| rule["name"] == name.as_str());
    if let Some(unknown) = names.iter().find(|name| !known(name)) {
        let wrong = anyhow::anyhow!("there is no rule `{unknown}`; `memwide rules` lists them");
        return Err(Failure::usage(wrong));
    }
    let is_asked =
        |rule: &&Value| names.is_empty() || names.iter().any(|name| rule["name"] == name.as_str());
    let loud = rules
        .iter()
        .filter(is_asked)
        .filter(|rule| rule["state"] != "quiet");
    let loud: Vec<String> = loud
        .map(|rule| {
            let text = |name: &str| rule[name].as_str().unwrap_or_default().to_owned();
            format!("{} ({})", text("name"), text("state"))
        })
        .collect();
    if loud.is_empty() {
        return Ok(());
    }
    Err(anyhow::anyhow!("not quiet: {}", loud.join(", ")).into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn only_quiet_rules_open_the_gate() {
        let rules = [
            json!({"name": "a", "state": "quiet", "rows": [], "column": "share", "above": 0.5, "beyond_noise": true, "problem": ""}),
            json!({"name": "b", "state": "failed", "rows": [], "column": "", "problem": "no column"}),
        ];
        assert!(gate(&rules, &["a".to_owned()]).is_ok());
        assert!(gate(&rules, &[]).is_err());
        assert!(gate(&rules, &["c".to_owned()]).is_err());
        let table = table(&rules, Value::Null);
        assert_eq!(table.rows[0][5], "share > 0.5, beyond noise");
        assert_eq!(table.notes, ["b: no column"]);
    }
}
