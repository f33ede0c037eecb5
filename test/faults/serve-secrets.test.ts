import { randomBytes } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, it } from 'vitest';
import { rowsIn, tempFolder } from '../support/temp-warehouse.ts';
import { leakFinder } from './canaries.ts';
import { startServe, writeYaml } from './serve-stage.ts';
import {
  askWithSecrets,
  deliverSecrets,
  firstRuns,
  leaksBeyondContent,
  page,
  runCommands,
  secretsStage,
  signed,
  troubled,
  type SecretsStage,
} from './serve-secrets-story.ts';

const WHSEC = `whsec_${randomBytes(30).toString('base64')}`;
const OLD = `whsec_${randomBytes(30).toString('base64')}`;

describe('F211 a service that runs for long keeps its secrets', () => {
  it('G25 in all that it writes and answers, whatever services and senders do with them', async () => {
    const stage = await secretsStage();
    await firstRuns(stage);
    expect(await deliverSecrets(stage)).toEqual([202]);
    await askWithSecrets(stage);
    await troubled(stage);
    const pages = ['/', '/status.json', '/metrics', '/readyz', '/healthz'];
    for (const path of pages) expect((await page(stage, path)).status).toBe(200);
    await runCommands(stage);
    expect(stage.serve.written()).toContain('1 of 3 webhook secrets have expired');
    expect(stage.service.tokens.length).toBeGreaterThan(1);
    expect(leaksBeyondContent(stage)).toEqual([]);
    expect(await stage.serve.stop()).toEqual({ code: 0, signal: null });
    expect(leaksBeyondContent(stage)).toEqual([]);
    expect(whereContentTells(stage)).toEqual(['_sync_rejects.body', '_sync_versions.body', '_sync_versions.id']);
  });

  it('F152 and says why it ends after an uncaught error, without the secret in the error', async () => {
    const folder = servable();
    const serve = await startServe(folder, { env: { WH_TEXT: WHSEC, NODE_OPTIONS: BREAKING } });
    writeFileSync(path.join(folder, 'break'), '');
    expect(await serve.ended).toEqual({ code: 1, signal: null });
    expect(serve.written()).toMatch(/bug with \*\*\*/);
    expect(leakFinder({ WHSEC })('', serve.written())).toEqual([]);
  });
});

describe('F214 secrets of webhooks', () => {
  it('are read from files without what editors and platforms add; those that have run out are told at the start', async () => {
    const folder = servable();
    writeFileSync(path.join(folder, 'mounted'), `\uFEFF${WHSEC}\r\n\n`);
    const secrets = [`\${file:${folder}/mounted}`, { value: OLD, until: '2021-02-03T04:05:06Z' }];
    const serve = await startServe(servable(folder, { blog: { secrets }, closed: { secrets: secrets.slice(1) } }), {
      isHere: true,
    });
    const post = async (source: string, secret: string) =>
      (await serve.ask(signed('standard-webhooks', secret, source, '{}', 'm'))).status;
    expect([await post('blog', WHSEC), await post('blog', OLD)]).toEqual([202, 401]);
    // Where all have run out, no delivery is believed.
    expect([await post('closed', WHSEC), await post('closed', OLD)]).toEqual([401, 401]);
    expect(warnings(serve.written())).toEqual([
      { source: 'blog', message: expect.stringMatching(/^1 of 2 webhook secrets .*2021-02-03T04:05:06/) },
      { source: 'closed', message: expect.stringContaining('every delivery is refused') },
    ]);
  });
});

/** Columns of the product's own tables in which the content stands that equals a secret, once it is sure to be copied. */
function whereContentTells({ folder, secrets: { whOld } }: SecretsStage): string[] {
  const file = path.join(folder, 'blog.db');
  const copied = rowsIn(file, 'SELECT count(*) AS n FROM content WHERE title = ? OR id = ?', whOld, whOld);
  expect(copied).toEqual([{ n: 2n }]);
  const find = leakFinder({ whOld });
  const tables = rowsIn(file, `SELECT name FROM sqlite_schema WHERE type = 'table' AND name GLOB '_sync*'`);
  const cells = tables.flatMap(({ name }) =>
    rowsIn(file, `SELECT * FROM "${String(name)}"`).flatMap((row) =>
      Object.entries(row).map(([column, value]) => [`${String(name)}.${column}`, String(value)] as const),
    ),
  );
  return [...new Set(cells.filter(([, text]) => find('', text).length > 0).map(([place]) => place))].toSorted();
}

/** Options of Node with which the process fails by an uncaught error once there is a file `break`. */
const BREAKING = `--import=data:text/javascript,${encodeURIComponent(`import { existsSync } from 'node:fs';
  const fail = () => { const key = process.env.WH_TEXT; Promise.reject(new Error('bug with ' + key, { cause: { key } })); };
  const timer = setInterval(() => { if (existsSync('break')) fail(clearInterval(timer)); }, 20);`)}`;

/** A folder with the config of sources that nobody answers for, by name with what they say of webhooks. */
function servable(
  folder = tempFolder(),
  webhooks: Record<string, object> = { blog: { secrets: ['${WH_TEXT:-}'] } },
): string {
  const auth = { type: 'api_key', key: 'k'.repeat(20) };
  const schedule = { incremental: null, full: null };
  const source = { base_url: 'http://127.0.0.1:1', auth, profile: 'content-service', schedule };
  const sources = Object.fromEntries(Object.entries(webhooks).map(([name, webhook]) => [name, { ...source, webhook }]));
  writeYaml(folder, { config: { warehouse: 'sqlite:{source}.db', sources, serve: { port: 0 } } });
  return folder;
}

/** What the log says as warnings about the settings. */
function warnings(written: string): object[] {
  const lines = written
    .trim()
    .split('\n')
    .map((line): Record<string, unknown> => JSON.parse(line));
  return lines
    .filter(({ level, msg }) => level === 'warn' && String(msg).includes('webhook secret'))
    .map(({ source, msg }) => ({ source, message: msg }));
}
