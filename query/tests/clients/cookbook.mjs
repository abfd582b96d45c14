// Asks the statements of a cookbook through @clickhouse/client: `cookbook.mjs FOLDER URL DATABASE COOKBOOK`, where FOLDER
// has node_modules. Prints a line of JSON: rows of each statement, and what else the client found.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

const [folder, url, database, cookbook] = process.argv.slice(2);
const { createClient } = createRequire(`${folder}/`)("@clickhouse/client");
const blocks = readFileSync(cookbook, "utf8").split("```sql\n").slice(1);
const statements = blocks.map((block) => block.split("```")[0]);
const client = createClient({ url, database, session_id: "memwide" });
const rows = async (query, query_params, format = "JSONEachRow") => {
  const answer = await client.query({ query, query_params, format });
  return answer.json();
};

const found = { ping: (await client.ping()).success, rows: [] };
found.select = (await client.ping({ select: true })).success;
for (const statement of statements) {
  const since = new Date("2026-11-20T10:00:00Z");
  const until = new Date("2026-11-20T12:00:00Z");
  found.rows.push((await rows(statement, { since, until })).length);
}
found.bound = await rows("SELECT {text:String} AS t, {list:Array(UInt8)} AS l, {none:Nullable(UInt8)} AS n", {
  text: "a'b\\c\td",
  list: [1, 2],
  none: null,
});
// Long values go into a form instead of the URL.
const long = "x".repeat(20_000);
found.form = await rows("SELECT length({long:String}) AS n", { long });
const whole = await rows("SELECT 1 AS one", {}, "JSON");
found.whole = [whole.meta, whole.data];

for (const response of [true, { codec: "zstd" }, false]) {
  const zstd = response.codec === "zstd" && typeof process.versions.node === "string" && Number(process.versions.node.split(".")[0]) < 23;
  if (zstd) continue; // older runtimes cannot undo it
  const packed = createClient({ url, compression: { response } });
  const answer = await packed.query({ query: "SELECT number FROM numbers(1000)", format: "JSONCompactEachRow" });
  let count = 0;
  for await (const part of answer.stream()) count += part.length;
  if (count !== 1000) throw new Error(`${count} rows`);
  await packed.close();
}

found.limited = await client
  .query({ query: "SELECT number FROM numbers(100)", clickhouse_settings: { max_result_rows: "10" } })
  .then((answer) => answer.text(), (error) => error.code);
found.refused = [];
for (const query of ["SELECT * FROM url('http://127.0.0.1:1/', 'LineAsString')", "SELECT nothing FROM samples"]) {
  await rows(query).catch((error) => found.refused.push([error.code, error.type]));
}
found.command = await client.command({ query: "DROP TABLE samples" }).then(() => "done", (error) => error.code);
found.insert = await client
  .insert({ table: "samples", values: [{ batch: 1 }], format: "JSONEachRow" })
  .then(() => "done", (error) => error.code);
await client.close();
console.log(JSON.stringify(found));
