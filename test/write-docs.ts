import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { GENERATED } from './support/generated-tables.ts';

/** `npm run docs`: brings the tables of the READMEs that are written from the code up to date. */
for (const [name, upToDate] of Object.entries(GENERATED)) {
  const file = path.join(import.meta.dirname, '..', name);
  writeFileSync(file, upToDate(readFileSync(file, 'utf8')));
}
