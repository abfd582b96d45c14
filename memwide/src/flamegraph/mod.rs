//! Call trees as a picture that stands alone, as folded lines, as JSON.

mod svg;

pub(crate) use svg::{Picture, svg};

use memwide_analysis::stacks::{Shown, Stacks};
use serde_json::{Value, json};

/// `{"name", "value", "self", "children"}`, as flame-graph libraries take it.
pub(crate) fn tree(stacks: &Stacks) -> Value {
    let mut open: Vec<(Value, usize)> = Vec::new();
    let close = |open: &mut Vec<(Value, usize)>, depth: usize| {
        while open.len() > 1 && open.last().is_some_and(|(_, at)| *at >= depth) {
            let Some((child, _)) = open.pop() else { break };
            if let Some(siblings) = open
                .last_mut()
                .and_then(|(parent, _)| parent.get_mut("children").and_then(Value::as_array_mut))
            {
                siblings.push(child);
            }
        }
    };
    for node in stacks.nodes() {
        close(&mut open, node.depth);
        open.push((one(&node), node.depth));
    }
    close(&mut open, 1);
    open.pop().map_or(Value::Null, |(root, _)| root)
}

fn one(node: &Shown<'_>) -> Value {
    json!({"name": node.name, "value": node.total, "self": node.own, "children": []})
}

#[cfg(test)]
mod tests {
    use super::*;
    use memwide_analysis::stacks::Frame;

    #[test]
    fn trees_nest() {
        let mut stacks = Stacks::default();
        let frames = |names: &str| names.split(' ').map(Frame::label).collect::<Vec<_>>();
        stacks.add(&frames("a b"), 2);
        stacks.add(&frames("a c"), 3);
        stacks.add(&frames("d"), 1);
        let tree = tree(&stacks);
        assert_eq!(tree["value"], 6);
        assert_eq!(tree["children"][0]["name"], "a");
        assert_eq!(tree["children"][0]["children"][1]["value"], 3);
        assert_eq!(tree["children"][1]["name"], "d");
    }
}
