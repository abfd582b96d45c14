"""Asks the statements of a cookbook through clickhouse-connect: `cookbook.py HOST PORT DATABASE COOKBOOK`.

Prints a line of JSON: rows of each statement, and what else the client found.
"""

import datetime
import json
import sys

import clickhouse_connect
from clickhouse_connect.driver.exceptions import DatabaseError

host, port, database, cookbook = sys.argv[1:]
with open(cookbook, encoding="utf-8") as file:
    statements = [block.split("```")[0] for block in file.read().split("```sql\n")[1:]]

client = clickhouse_connect.get_client(host=host, port=int(port), database=database)
params = {
    "since": datetime.datetime(2026, 11, 20, 10, tzinfo=datetime.timezone.utc),
    "until": datetime.datetime(2026, 11, 20, 12, tzinfo=datetime.timezone.utc),
}
found = {"version": client.server_version, "settings": len(client.server_settings), "rows": []}
for statement in statements:
    found["rows"].append(len(client.query(statement, parameters=params).result_rows))

# Blocks of rows as they come, a form instead of the URL, every way of packing, columns of other types.
with client.query_row_block_stream("SELECT number AS n FROM numbers(70000)") as stream:
    found["streamed"] = sum(row[0] for block in stream for row in block)
typed = "SELECT [1, NULL]::Array(Nullable(UInt8)), map('a', 1.5), ('x', 2)::Tuple(a String, b UInt8), toIPv4('10.0.0.1')"
found["typed"] = repr(client.query(typed).result_rows)
packed = "SELECT repeat('memwide', 1000) AS text FROM numbers(3)"
for compress in ("lz4", "zstd", "gzip", False):
    other = clickhouse_connect.get_client(
        host=host, port=int(port), compress=compress, form_encode_query_params=True, autogenerate_session_id=False
    )
    assert [len(row[0]) for row in other.query(packed).result_rows] == [7000] * 3, compress
    statement = "SELECT {text:String}, {number:UInt64}"
    given = {"text": "a'b\\c\td", "number": 2**64 - 1}
    assert other.query(statement, parameters=given).result_rows == [("a'b\\c\td", 2**64 - 1)], compress
    other.close()
found["raw"] = client.raw_query("SELECT 1 AS one", fmt="JSONEachRow").decode()
arrow = client.raw_query("SELECT 1 AS one", fmt="ArrowStream")
found["arrow"] = len(arrow)
found["columns"] = [column for column in client.query("SELECT * FROM samples LIMIT 0").column_names][:2]
found["summary"] = sorted(client.query("SELECT 1").summary)

refused = []
for statement in (
    "SELECT * FROM file('/etc/passwd', 'LineAsString')",
    "SELECT 1 SETTINGS readonly = 0",
    "SELECT nothing FROM samples",
):
    try:
        client.query(statement)
    except DatabaseError as error:
        refused.append([error.code, error.name])
found["refused"] = refused
try:
    client.insert("samples", [[1]], column_names=["batch"])
except Exception as error:  # whatever it is called: nothing may go in
    found["insert"] = type(error).__name__
print(json.dumps(found))
