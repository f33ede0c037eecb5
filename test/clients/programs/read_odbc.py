"""Prints the Python type in which ODBC gives every column, as JSON: {table: {column: words}}."""
import json, sys
import pyodbc

connection, schema, tables = pyodbc.connect(sys.argv[1]), sys.argv[2], json.loads(sys.argv[3])
found = {}
for name in tables:
    cursor = connection.cursor()
    cursor.execute(f'SELECT * FROM "{schema}"."{name}"' if schema else f'SELECT * FROM "{name}"')
    words = {column[0]: column[1].__name__ for column in cursor.description}
    rows = cursor.fetchall()
    for at, column in enumerate(cursor.description):
        values = {type(row[at]).__name__ for row in rows if row[at] is not None}
        words[column[0]] += f" {'/'.join(sorted(values)) or 'empty'}"
    found[name] = words
print(json.dumps(found))
