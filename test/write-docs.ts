import { spawnSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { configJsonSchema, profileJsonSchema } from '../src/cli/config.ts';
import { GENERATED } from './support/generated-tables.ts';

/** `npm run docs`: writes what is made from the code, the JSON Schemas for editors and tables of the READMEs. */
const root = path.join(import.meta.dirname, '..');
const schemas = { 'content-sync': configJsonSchema(), profile: profileJsonSchema() };
for (const [name, schema] of Object.entries(schemas)) {
  writeFileSync(path.join(root, 'config', `${name}.schema.json`), JSON.stringify(schema, null, 2));
}
for (const [name, upToDate] of Object.entries(GENERATED)) {
  const file = path.join(root, name);
  writeFileSync(file, upToDate(readFileSync(file, 'utf8')));
}
const { status } = spawnSync(
  'oxfmt',
  ['-c', 'test/oxfmt.json', 'config', '!config/deploy/**', ...Object.keys(GENERATED)],
  {
    cwd: root,
    stdio: 'inherit',
  },
);
process.exitCode = status ?? 1;
