//! Whether rows are beyond a rule's threshold. Pure.

use serde_json::Value as Json;

use super::Rule;

/// Rows of an answer in JSON (`columns`, `rows`) that fire, each as an object.
pub(super) fn firing(rule: &Rule, answer: &Json) -> Result<Vec<Json>, String> {
    let columns = answer["columns"].as_array().into_iter().flatten();
    let names: Vec<&str> = columns
        .filter_map(|column| column["name"].as_str())
        .collect();
    let rows = answer["rows"].as_array().into_iter().flatten();
    let object = |row: &Json| -> Json {
        let cells = row.as_array().cloned().unwrap_or_default();
        let names = names.iter().map(|name| (*name).to_owned());
        Json::Object(names.zip(cells).collect())
    };
    let rows: Vec<Json> = rows.map(object).collect();
    if rule.column.is_empty() {
        return Ok(rows);
    }
    let has = |name: &str| names.contains(&name);
    if !has(&rule.column) {
        return Err(format!(
            "the answer has no column `{}`; it has {}",
            rule.column,
            names.join(", ")
        ));
    }
    let bounds = ["low", "high"].map(|end| format!("{}_{end}", rule.column));
    let [low, high] = &bounds;
    if rule.beyond_noise && !(has(low) && has(high)) {
        return Err(format!(
            "`{}` has no interval ({low}, {high}), so nobody can tell noise: judge another column, or set beyond_noise = false",
            rule.column
        ));
    }
    // The end of the interval that is nearest to the threshold.
    let [above, below] = if rule.beyond_noise {
        [low.as_str(), high.as_str()]
    } else {
        [rule.column.as_str(); 2]
    };
    // Where nothing can be compared nobody knows whether it is beyond the threshold.
    if rows.is_empty() {
        return Err("the answer has no rows: nothing was judged".to_owned());
    }
    let is_judged = |row: &Json| row[above].is_number() || row[below].is_number();
    if !rows.iter().any(is_judged) {
        return Err(format!(
            "no row has a number in `{above}`: nothing was judged"
        ));
    }
    let fires = |row: &Json| {
        let is_over = |limit| row[above].as_f64().is_some_and(|value| value > limit);
        let is_under = |limit| row[below].as_f64().is_some_and(|value| value < limit);
        let changed = !rule.beyond_noise || !has("changed") || row["changed"] == "yes";
        changed && (rule.above.is_some_and(is_over) || rule.below.is_some_and(is_under))
    };
    let judged = rows.len();
    let rows: Vec<Json> = rows.into_iter().filter(fires).collect();
    let cut = answer["other"]["rows"].as_u64().unwrap_or(0);
    if rows.is_empty() && cut > 0 {
        return Err(format!(
            "none of the first {judged} rows fires, and {cut} more were not judged: ask for fewer, by a filter"
        ));
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn only_what_is_beyond_noise_fires_where_that_is_asked_for() {
        let answer = json!({
            "columns": [{"name": "function"}, {"name": "change"}, {"name": "change_low"}, {"name": "change_high"}, {"name": "changed"}],
            "rows": [["f", 0.2, 0.1, 0.3, "yes"], ["g", 0.2, 0.01, 0.4, "yes"], ["h", 0.2, 0.15, 0.25, "no"],
                     ["i", -0.2, -0.3, -0.1, "yes"], ["j", null, null, null, "cannot tell"]],
        });
        let rule = |beyond_noise, above, below| Rule {
            column: "change".to_owned(),
            above,
            below,
            beyond_noise,
            ..Rule::default()
        };
        let names = |rule: &Rule| -> Vec<String> {
            let rows = firing(rule, &answer).unwrap();
            rows.iter()
                .map(|row| row["function"].as_str().unwrap().to_owned())
                .collect()
        };
        assert_eq!(names(&rule(true, Some(0.05), None)), ["f"]);
        assert_eq!(names(&rule(false, Some(0.05), None)), ["f", "g", "h"]);
        assert_eq!(names(&rule(true, Some(0.05), Some(-0.05))), ["f", "i"]);
        let no_interval = Rule {
            column: "changed".to_owned(),
            ..rule(true, Some(1.0), None)
        };
        assert!(
            firing(&no_interval, &answer)
                .unwrap_err()
                .contains("beyond_noise = false")
        );
        let no_column = Rule {
            column: "nothing".to_owned(),
            ..rule(true, Some(1.0), None)
        };
        assert!(
            firing(&no_column, &answer)
                .unwrap_err()
                .contains("no column `nothing`")
        );
        assert_eq!(firing(&Rule::default(), &answer).unwrap().len(), 5);
        let why = |rule: &Rule, answer: &Json| firing(rule, answer).unwrap_err();
        let text = Rule {
            column: "changed".to_owned(),
            ..rule(false, Some(1.0), None)
        };
        assert!(why(&text, &answer).contains("no row has a number"));
        let mut none = answer.clone();
        none["rows"] = json!([]);
        assert!(why(&rule(true, Some(0.05), None), &none).contains("no rows"));
        let mut cut = answer.clone();
        cut["other"] = json!({ "rows": 7, "samples": 9 });
        assert!(why(&rule(true, Some(0.5), None), &cut).contains("7 more were not judged"));
        assert_eq!(names(&rule(true, Some(0.05), None)), ["f"]);
    }
}
