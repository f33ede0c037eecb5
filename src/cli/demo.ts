// `content-sync demo`: copies a content service that it starts on this machine, changes it, and queries the copy.
import { randomBytes } from 'node:crypto';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { Command } from 'commander';
import { sql } from 'kysely';
import { request } from 'undici';
import type { SourceSettings } from '../config/settings.ts';
import { openWarehouse } from '../database/databases.ts';
import { SyncError } from '../model/errors.ts';
import { untilAborted } from '../model/waiting.ts';
import { toTypableCommands } from '../observe/scrub.ts';
import { type Sandbox, startSandbox } from '../sandbox/sandbox.ts';
import { formatFilesStatus, readFileStatus } from '../server/status/read-stored-status.ts';
import type { SyncCommand } from '../sync/plan.ts';
import { alignedLines, type CliContext, EXIT_CODES, FIRST_STEPS } from './command/context.ts';
import { type ChosenSource, forEachSource, whileOpen, withApp } from './command/sources.ts';
import { summaryText, watchRun } from './command/watch-run.ts';
import { startServing } from './serve.ts';

const RECORDS = { content: 2_000, images: 150, analytics: 20_000 };
const RATE = { rate: 40, burst: 20 };

export function demoCommand(context: CliContext): Command {
  return new Command('demo')
    .option('--data <folder>', 'Serve content.ndjson, images.ndjson and analytics.ndjson of this folder')
    .option('--keep', 'Keep it running, with its page, until Ctrl-C')
    .action(async (options: { data?: string; keep?: true }) => {
      const folder = await mkdtemp(path.join(tmpdir(), 'content-sync-demo-'));
      const records = options.data === undefined ? { generate: RECORDS } : { data: options.data };
      try {
        const sandbox = await startSandbox({ ...records, ...RATE });
        await runDemo(context, sandbox, folder, options.keep === true).finally(() => sandbox.close());
      } finally {
        await rm(folder, { recursive: true, force: true });
      }
    });
}

async function runDemo(context: CliContext, sandbox: Sandbox, folder: string, keep: boolean): Promise<void> {
  const secret = `whsec_${randomBytes(32).toString('base64')}`;
  const config = await writeConfig(folder, sandbox, secret);
  const editor = demoEditor(sandbox);
  say(context, `A content service listens on ${sandbox.url}; it allows ${RATE.rate} requests/s.`);
  await forEachSource(context, { config }, [], async (chosen) => {
    await copyAndQuery(context, chosen, editor);
    const serving = await startServing(context, { config, port: 0 });
    try {
      const webhooks = `${serving.url}/webhooks/${chosen.source.name}`;
      say(context, `\nServe: its page is at ${serving.url}/, and the service reports changes to ${webhooks}.`);
      await editor.subscribe(webhooks, secret);
      await watchRows(context, chosen.source, editor);
      if (!keep) return;
      say(context, `\nStill running: ${serving.url}/ (Ctrl-C stops it).`);
      await untilAborted(context.signal);
    } finally {
      await serving.stop();
    }
  });
  if (keep) context.exit(EXIT_CODES.ok);
  say(context, `\nWhat to do next, with your own service:${FIRST_STEPS}`);
}

async function copyAndQuery(context: CliContext, chosen: ChosenSource, editor: DemoEditor): Promise<void> {
  await withApp(context, chosen, async (app) => {
    const run = async (command: SyncCommand): Promise<void> => {
      const { resources } = app.source;
      const { begin, watcher, finish } = watchRun(context, chosen.log, true);
      begin(resources, app.rateLimiter);
      const request = { command, resources, restart: false, signal: context.signal, watcher, files: true };
      const report = await app.sync(request).finally(finish);
      say(context, indented(summaryText(report)));
      context.signal.throwIfAborted();
      if (report.status === 'ok') return;
      throw new SyncError('demo_failed', `the ${command} ended as ${report.status}`, { recovery: 'stop' });
    };
    say(context, '\nBackfill: every page of every resource into an empty SQLite file.');
    await run('backfill');
    const { resources } = await readFileStatus(app.warehouse.own);
    for (const [resource, files] of resources)
      say(context, `  ${resource}: ${formatFilesStatus(files)}, each content once`);
    say(context, '\nThree posts are renamed and one is added, through the API.');
    for (const { id, title } of await editor.list(3)) await editor.change(id, { title: `${title} (revised)` });
    await editor.create({ title: 'Written in between', status: 'draft' });
    say(context, 'Sync: only what changed since.');
    await run('sync');
    for (const { question, query } of DEMO_QUESTIONS) {
      const { rows } = await sql.raw<Record<string, unknown>>(query).execute(app.warehouse.own);
      say(context, `\n${question}\n\n${indented(query)}\n\n${tableText(rows)}`);
    }
  });
}

async function writeConfig(folder: string, sandbox: Sandbox, secret: string): Promise<string> {
  const file = path.join(folder, 'content-sync.yaml');
  await writeFile(
    file,
    `warehouse: ${JSON.stringify(`sqlite:${folder}/{source}.db`)}
log: { level: warn }
sources:
  demo:
    base_url: ${sandbox.url}
    auth: { type: api_key, key: ${sandbox.apiKey} }
    profile: content-service
    files: { store: ${JSON.stringify(`disk:${folder}/pictures`)} }
    webhook: { secrets: ['${secret}'] }
    deletes: { max_part: 1 } # one of a handful of posts is more than the default tenth
`,
  );
  return file;
}

const MAX_CELL_LENGTH = 40;

function tableText(rows: readonly Record<string, unknown>[]): string {
  const cells = [Object.keys(rows[0] ?? {}), ...rows.map((row) => Object.values(row).map(shorten))];
  return indented(indented(alignedLines(cells).join('\n')));
}

function shorten(cell: unknown): string {
  const text = String(cell);
  return text.length > MAX_CELL_LENGTH ? `${text.slice(0, MAX_CELL_LENGTH - 1)}…` : text;
}

function indented(text: string): string {
  return text.replaceAll(/^/gm, '  ');
}

function say(context: CliContext, text: string): void {
  context.stdout.write(`${toTypableCommands(text)}\n`);
}

/** Questions of an analyst to the demo's tables, in SQL that runs in any SQLite client. */
const DEMO_QUESTIONS: readonly { question: string; query: string }[] = [
  {
    question: 'Which tags are read most?',
    query: `SELECT t.value AS tag, count(DISTINCT c.id) AS posts, sum(a.views) AS views
  FROM content c
  JOIN content_tags t ON t.content_id = c.id
  JOIN analytics a ON a.content_id = c.id
 GROUP BY t.value ORDER BY views DESC LIMIT 3`,
  },
  {
    question: 'What was changed, and what did it say before?',
    query: `SELECT v.id, json_extract(v.body, '$.title') AS title_before, c.title AS title_now
  FROM _sync_versions v
  JOIN content c ON c.id = v.id
 WHERE v.resource = 'content' AND v.valid_to IS NOT NULL ORDER BY v.id LIMIT 3`,
  },
];

const ROW_TIMEOUT_MS = 20_000;
const POLL_INTERVAL_MS = 5;
/** A record that changes all the time is fetched about once per second. */
const CHANGE_INTERVAL_MS = 1_200;

/** Changes records at the service, and shows how soon a reader of the warehouse sees each change. */
async function watchRows(
  context: CliContext,
  { warehouse: address }: SourceSettings,
  editor: DemoEditor,
): Promise<void> {
  const { clock, signal } = context;
  await whileOpen(await openWarehouse(address, clock), async ({ own }) => {
    const { id } = await editor.create({ title: 'Written while you watch', status: 'draft' });
    const title = 'Renamed while you watch';
    const changes: [about: string, change: () => Promise<void>, condition: string][] = [
      ['a post was written', async () => undefined, '_deleted_at IS NULL'],
      ['it was renamed', () => editor.change(id, { title }), `title = '${title}'`],
      ['it was deleted', () => editor.remove(id), '_deleted_at IS NOT NULL'],
    ];
    for (const [about, change, condition] of changes) {
      const query = sql`SELECT 1 FROM content WHERE id = ${id} AND ${sql.raw(condition)}`;
      const start = clock.monotonic();
      await change();
      while ((await query.execute(own)).rows.length === 0) {
        if (clock.monotonic() - start > ROW_TIMEOUT_MS) {
          throw new SyncError('demo_failed', 'the change did not reach the warehouse', { recovery: 'stop' });
        }
        await clock.sleep(POLL_INTERVAL_MS, signal);
      }
      const ms = String(Math.round(clock.monotonic() - start)).padStart(4);
      say(context, `  ${about.padEnd(20)} the row followed after ${ms} ms`);
      await clock.sleep(CHANGE_INTERVAL_MS, signal);
    }
  });
}

interface Post {
  id: string;
  title: string;
}

type DemoEditor = ReturnType<typeof demoEditor>;

/** The service as an editor's tool uses it: through its API, with the same key. */
function demoEditor({ url, apiKey }: Sandbox) {
  const headers = { authorization: `Bearer ${apiKey}`, 'content-type': 'application/json' };
  const send = async (method: 'GET' | 'POST' | 'PATCH' | 'DELETE', path: string, record?: object): Promise<string> => {
    const body = record === undefined ? null : JSON.stringify(record);
    const response = await request(`${url}/v1/${path}`, { method, headers, body });
    const text = await response.body.text();
    if (response.statusCode >= 300) throw new Error(`the sandbox responded ${response.statusCode}: ${text}`);
    return text;
  };
  return {
    list: async (limit: number): Promise<Post[]> => JSON.parse(await send('GET', `content?limit=${limit}`)).data,
    create: async (fields: Partial<Post> & { status: string }): Promise<Post> =>
      JSON.parse(await send('POST', 'content', fields)),
    change: async (id: string, fields: object) => void (await send('PATCH', `content/${id}`, fields)),
    remove: async (id: string) => void (await send('DELETE', `content/${id}`)),
    /** Has the service report every change to this address. */
    subscribe: async (address: string, secret: string) =>
      void (await send('POST', 'webhooks', { url: address, events: ['*'], secret })),
  };
}
