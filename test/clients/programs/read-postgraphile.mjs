// Prints the GraphQL type of every column, after all rows were asked for, as JSON: {table: {column: type}}.
import { createRequire } from 'node:module';

const [, , folder, url, schemaName, wanted] = process.argv;
const require = createRequire(`${folder}/package.json`);
const { makeSchema } = require('postgraphile');
const { PostGraphileAmberPreset } = require('postgraphile/presets/amber');
const { makePgService } = require('postgraphile/adaptors/pg');
const { grafast } = require('postgraphile/grafast');

const service = makePgService({ connectionString: url, schemas: [schemaName] });
const { schema, resolvedPreset } = await makeSchema({ extends: [PostGraphileAmberPreset], pgServices: [service] });
const plain = (name) => name.replaceAll('_', '').toLowerCase();
const bare = (type) => (type.ofType ? bare(type.ofType) : type);
const lists = Object.values(schema.getQueryType().getFields()).flatMap((field) => {
  const nodes = bare(field.type).getFields?.().nodes;
  return nodes ? [[plain(bare(nodes.type).name), field.name, bare(nodes.type)]] : [];
});
const found = {};
for (const [table, columns] of Object.entries(JSON.parse(wanted))) {
  const names = new Set([plain(table), plain(table).replace(/s$/, '')]);
  const list = lists.find(([name]) => names.has(name));
  if (list === undefined) continue;
  const [, query, type] = list;
  const fields = Object.values(type.getFields());
  // The name `id` is that of the node itself.
  const same = (column) => (field) => plain(field.name) === (column === 'id' ? 'rowid' : plain(column));
  const shown = columns.flatMap((column) => {
    const field = fields.find(same(column)) ?? fields.find(({ name }) => name === column);
    return field === undefined ? [] : [[column, field.name, String(field.type)]];
  });
  found[table] = Object.fromEntries(shown.map(([column, , word]) => [column, word]));
  const source = `{ ${query} { nodes { ${shown.map(([, name]) => name).join(' ')} } } }`;
  const { errors } = await grafast({ schema, source, resolvedPreset, requestContext: {} });
  if (errors) throw new Error(`${table}: ${errors[0].message}`);
}
await service.release?.();
console.log(JSON.stringify(found));
process.exit(0);
