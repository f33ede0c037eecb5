import { spawnSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { configJsonSchema, profileJsonSchema } from './support/json-schemas.ts';
import { updateTables } from './support/generated-tables.ts';
import { PAGES } from './support/readme.ts';

/** `npm run docs`: writes the JSON Schemas for editors and the generated tables of the pages. */
const root = path.join(import.meta.dirname, '..');
const schemas = { 'content-sync': configJsonSchema(), profile: profileJsonSchema() };
for (const [name, schema] of Object.entries(schemas)) {
  writeFileSync(path.join(root, 'config', `${name}.schema.json`), JSON.stringify(schema, null, 2));
}
for (const name of PAGES) {
  const file = path.join(root, name);
  writeFileSync(file, updateTables(readFileSync(file, 'utf8')));
}
const { status } = spawnSync('oxfmt', ['-c', 'test/oxfmt.json', 'config', '!config/deploy/**', ...PAGES], {
  cwd: root,
  stdio: 'inherit',
});
process.exitCode = status ?? 1;
