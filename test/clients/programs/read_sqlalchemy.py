"""Prints the type of every column as SQLAlchemy reflects it and as pandas reads it, as JSON: {table: {column: words}}."""
import json, sys, warnings
import pandas, sqlalchemy
from sqlalchemy import MetaData, Table, create_engine, select, text

warnings.simplefilter("ignore")
url, schema, tables = sys.argv[1], sys.argv[2] or None, json.loads(sys.argv[3])
engine = create_engine(url)
found = {}
for name in tables:
    table = Table(name, MetaData(schema=schema), autoload_with=engine)
    with engine.connect() as connection:
        rows = connection.execute(select(table)).fetchall()
        frame = pandas.read_sql_query(select(table), connection)
    assert len(frame) == len(rows), name
    words = {}
    for at, column in enumerate(table.columns):
        values = {type(row[at]).__name__ for row in rows if row[at] is not None}
        words[column.name] = f"{column.type.__class__.__name__} {'/'.join(sorted(values)) or 'empty'} {frame.dtypes[at]}"
    found[name] = words
print(json.dumps(found))
