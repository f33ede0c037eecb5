import path from 'node:path';
import type { Client } from './client.ts';
import { npmFolder, reasonOf, runProgram } from './installing.ts';
import { readTypes } from './python-clients.ts';

let folder = '';

export const POSTGRAPHILE: Client = {
  name: 'PostGraphile',
  databases: ['postgres'],
  install: () =>
    reasonOf(async () => {
      folder = await npmFolder('postgraphile', ['postgraphile@5.1.5', 'graphql@16.11.0']);
    }),
  read: async ({ url, schema, tables }) => {
    const program = path.join(import.meta.dirname, 'programs/read-postgraphile.mjs');
    const wanted = Object.fromEntries(tables.map(({ name, columns }) => [name, columns.map((column) => column.name)]));
    return readTypes(await runProgram('node', [program, folder, url, schema, JSON.stringify(wanted)]));
  },
  words: () => ({
    boolean: /^Boolean/,
    integer: /^(BigInt|Int)/,
    double: /^Float/,
    numeric: /^BigFloat/,
    date: /^Date!?$/,
    timestamp: /^Datetime/,
    text: /^String/,
    json: /^JSON/,
  }),
};
