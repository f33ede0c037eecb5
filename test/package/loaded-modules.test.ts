import { readFileSync } from 'node:fs';
import path from 'node:path';
import { expect, it } from 'vitest';
import { servingStage, type ServingStage } from '../support/serving.ts';
import { SQLITE } from '../support/databases.ts';
import { startCommand } from '../support/command.ts';

const RECORDER = new URL('loaded-modules.ts', import.meta.url).href;

/** Packages that only some commands, places or databases need. */
const RARE = ['@clack/prompts', 'aws4fetch', 'hyparquet-writer', 'nodemailer', 'pg', 'pg-boss', 'pg-copy-streams'];

/** The rare ones among what a command loads in its process. */
async function rareOf({ folder }: ServingStage, ...args: string[]): Promise<string[]> {
  const file = path.join(folder, `loaded-by-${args[0]}`);
  const env = { LOADED: file, NODE_OPTIONS: `--import=${RECORDER}` };
  const { code, stderr } = await startCommand([...args, '--config', 'content-sync.yaml'], folder, env).ended;
  expect([args[0], code, stderr.includes('"error"')]).toEqual([args[0], 0, false]);
  const loaded = new Set(readFileSync(file, 'utf8').split('\n'));
  // What every command loads: else the list would be of another process.
  expect([loaded.has('commander'), loaded.has('better-sqlite3')]).toEqual([true, true]);
  return RARE.filter((name) => loaded.has(name));
}

it('a copy in a file loads no client of a server, and what exports, alerts and questions need only with those', async () => {
  const stage = await servingStage({
    sandbox: { generate: { content: 5, images: 1, analytics: 1 } },
    database: SQLITE,
  });
  expect(await rareOf(stage, 'sync')).toEqual([]);
  expect(await rareOf(stage, 'status')).toEqual([]);
  expect(await rareOf(stage, 'export', 'csv', 'sheets')).toEqual([]);
  expect(await rareOf(stage, 'export', 'parquet', 'out')).toEqual(['hyparquet-writer']);
});
