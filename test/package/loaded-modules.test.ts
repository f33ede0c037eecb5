import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { expect, it } from 'vitest';
import { servingStage, type ServingStage } from '../support/serving.ts';
import { SQLITE } from '../support/databases.ts';
import { longOrShort } from '../support/length.ts';
import { root } from './built.ts';

const RECORDER = new URL('loaded-modules.ts', import.meta.url).href;

/** Packages that only some commands, places or databases need. */
const RARE = ['@aws-sdk/client-s3', '@clack/prompts', 'hyparquet-writer', 'nodemailer', 'pg', 'pg-boss'];

/** The rare ones among what a command loads in its process, from the sources: a bundle has no packages. */
async function rareOf({ folder }: ServingStage, ...args: string[]): Promise<string[]> {
  const file = path.join(folder, `loaded-by-${args[0]}`);
  const command = [`--import=${RECORDER}`, path.join(root, 'src/main.ts'), ...args, '--config', 'content-sync.yaml'];
  const env = { ...process.env, LOADED: file };
  const [code] = await once(spawn(process.execPath, command, { cwd: folder, env, stdio: 'ignore' }), 'close');
  expect([args[0], code]).toEqual([args[0], 0]);
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
  for (const others of longOrShort([['status'], ['export', 'csv', 'sheets']], []))
    expect(await rareOf(stage, ...others)).toEqual([]);
  expect(await rareOf(stage, 'export', 'parquet', 'out')).toEqual(['hyparquet-writer']);
});
