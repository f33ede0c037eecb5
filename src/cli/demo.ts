import { randomBytes } from 'node:crypto';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { Command } from 'commander';
import { type Kysely, sql } from 'kysely';
import type { Logger } from 'pino';
import { request } from 'undici';
import { filesText, readFileStatus } from '../server/status/stored.ts';
import type { App } from '../server/app.ts';
import { SyncError } from '../model/errors.ts';
import { untilAborted } from '../model/waiting.ts';
import { countText, percentText, rateText } from '../observe/figures.ts';
import { asStarted } from '../observe/started-as.ts';
import { type Sandbox, startSandbox } from '../sandbox/sandbox.ts';
import type { SyncCommand } from '../sync/plan.ts';
import { openWarehouse } from '../database/databases.ts';
import type { OwnTables } from '../database/own-tables.ts';
import type { CliContext } from './command/context.ts';
import { EXIT_CODES } from './command/exit-code.ts';
import { alignedLines, FIRST_STEPS } from './command/output.ts';
import { forEachSource } from './command/sources.ts';
import { summaryText, watchRun } from './command/watch-run.ts';
import { whileOpen, withApp } from './command/with-app.ts';
import { startServing } from './serve.ts';

const RECORDS = { content: 2_000, images: 150, analytics: 20_000 };
const RATE = { rate: 40, burst: 20 };

/** `content-sync demo`: the whole story on this machine, from an empty folder to an answered question. */
export function demoCommand(context: CliContext): Command {
  return new Command('demo')
    .option(
      '--data <folder>',
      'serve this folder (content.ndjson, images.ndjson, analytics.ndjson) instead of made-up records',
    )
    .option('--keep', 'leave it running, with its page, until Ctrl-C')
    .action(async (options: { data?: string; keep?: true }) => {
      const folder = await mkdtemp(path.join(tmpdir(), 'content-sync-demo-'));
      const records = options.data === undefined ? { generate: RECORDS } : { data: options.data };
      try {
        const sandbox = await startSandbox({ ...records, ...RATE });
        await tell(context, sandbox, folder, options.keep === true).finally(() => sandbox.close());
      } finally {
        // The copy is small and was only shown: a demo leaves nothing behind.
        await rm(folder, { recursive: true, force: true });
      }
    });
}

const NEXT_STEPS = `\nWhat to do next, with your own service:${FIRST_STEPS}`;

async function tell(context: CliContext, sandbox: Sandbox, folder: string, keep: boolean): Promise<void> {
  const secret = `whsec_${randomBytes(32).toString('base64')}`;
  const config = await writeConfig(folder, sandbox, secret);
  const editor = demoEditor(sandbox);
  say(context, `A content service listens on ${sandbox.url}; it allows ${RATE.rate} requests/s.`);
  await forEachSource(context, { config }, [], async (chosen) => {
    await withApp(context, chosen, (app) => story(context, { app, log: chosen.log }, editor));
    const { name: source, warehouse } = chosen.source;
    await demoServe(context, { config, source, warehouse, secret, editor, keep });
  });
  // Whoever ends what was to be kept until then has seen all of it.
  if (keep) context.exit(EXIT_CODES.ok);
  say(context, NEXT_STEPS);
}

type Scene = Readonly<{ app: App; log: Logger }>;

async function story(context: CliContext, source: Scene, editor: DemoEditor): Promise<void> {
  const { app } = source;
  say(context, '\nBackfill: every page of every resource into an empty SQLite file.');
  await run(context, source, 'backfill');
  const { resources } = await readFileStatus(app.warehouse.own);
  for (const [resource, files] of resources) say(context, `  ${resource}: ${filesText(files)}, each content once`);
  say(context, '\nBackfill again: the service has not changed, so nothing is written.');
  await run(context, source, 'backfill');
  say(context, '\nThree posts are renamed and one is added, through the API.');
  await editPosts(editor);
  say(context, 'Sync: only what changed since.');
  await run(context, source, 'sync');

  const { requests, limited, allowedPerSecond, shareUsed } = app.governor.figures();
  const allowed =
    allowedPerSecond === null ? '' : `; the service's headers allow ${rateText(allowedPerSecond)} requests/s`;
  const used = shareUsed === null ? '' : `, of which ${percentText(shareUsed)} was used`;
  say(context, `\nThe governor: ${countText(requests)} requests, ${limited} answers of 429${allowed}${used}.`);

  for (const { question, sql: text } of DEMO_QUESTIONS) {
    const { rows } = await sql.raw<Record<string, unknown>>(text).execute(app.warehouse.own);
    say(context, `\n${question}\n\n${indented(text)}\n\n${rowsText(rows)}`);
  }
}

async function editPosts(editor: DemoEditor): Promise<void> {
  for (const { id, title } of await editor.list(3)) await editor.change(id, { title: `${title} (revised)` });
  await editor.create({ title: 'Written in between', status: 'draft' });
}

async function run(context: CliContext, { app, log }: Scene, command: SyncCommand): Promise<void> {
  const { resources } = app.source;
  const watch = watchRun({ context, log, app, resources, live: true });
  const report = await app
    .sync({ command, resources, restart: false, signal: context.signal, watcher: watch.watcher, files: true })
    .finally(() => watch.finish());
  say(context, indented(summaryText(report).trimEnd()));
  context.signal.throwIfAborted();
  if (report.status !== 'ok') {
    throw new SyncError('demo_failed', `the ${command} ended as ${report.status}`, { recovery: 'stop' });
  }
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
    deletes: { max_part: 1 } # of a handful of posts, one is more than the usual tenth
`,
  );
  return file;
}

function rowsText(rows: readonly Record<string, unknown>[]): string {
  const names = Object.keys(rows[0] ?? {});
  const cells = [names, ...rows.map((row) => names.map((name) => short(String(row[name]))))];
  return alignedLines(cells)
    .map((line) => `    ${line}`)
    .join('\n');
}

function short(text: string): string {
  return text.length > 40 ? `${text.slice(0, 39)}…` : text;
}

function indented(text: string): string {
  return text.replaceAll(/^/gm, '  ');
}

function say(context: CliContext, text: string): void {
  context.stdout.write(`${asStarted(text)}\n`);
}

/** Questions of an analyst to the demo's tables, in SQL that runs in any SQLite client. */
const DEMO_QUESTIONS: readonly { question: string; sql: string }[] = [
  {
    question: 'Which tags are read most?',
    sql: `SELECT t.value AS tag, count(DISTINCT c.id) AS posts, sum(a.views) AS views
  FROM content c
  JOIN content_tags t ON t.content_id = c.id
  JOIN analytics a ON a.content_id = c.id
 GROUP BY t.value ORDER BY views DESC LIMIT 3`,
  },
  {
    question: 'Who wrote most, and how long are the texts?',
    sql: `SELECT w.handle AS author, count(*) AS posts, round(avg(c.word_count)) AS words
  FROM content c
  JOIN content_authors w ON w.content_id = c.id
 GROUP BY w.handle ORDER BY posts DESC, author LIMIT 3`,
  },
  {
    question: 'What was changed while we watched, and what did it say before?',
    sql: `SELECT v.id, json_extract(v.body, '$.title') AS title_before, c.title AS title_now
  FROM _sync_versions v
  JOIN content c ON c.id = v.id
 WHERE v.resource = 'content' AND v.valid_to IS NOT NULL ORDER BY v.id LIMIT 3`,
  },
];

/** The stage for the second half of the demo. */
interface ServeScene {
  config: string;
  source: string;
  /** Address of its warehouse. */
  warehouse: string;
  secret: string;
  editor: DemoEditor;
  /** True to go on until the process is told to stop. */
  keep: boolean;
}

/** Until a row is given up on: a demo that hangs explains nothing. */
const PATIENCE_MS = 20_000;
const LOOK_EVERY_MS = 5;
/** An editor's pace: of a record that changes all the time, readings are about a second apart. */
const BETWEEN_CHANGES_MS = 1_200;

/** Starts `serve`, subscribes it to the service's webhooks, changes records, and shows how soon their rows follow. */
async function demoServe(context: CliContext, scene: ServeScene): Promise<void> {
  const { config, source, secret, editor, keep } = scene;
  const serving = await startServing(context, { config, port: 0 });
  try {
    say(
      context,
      `\nServe: its page is at ${serving.url}/, and the service tells ${serving.url}/webhooks/${source} of changes.`,
    );
    await editor.subscribe(`${serving.url}/webhooks/${source}`, secret);
    await watchRows(context, scene);
    if (!keep) return;
    say(context, `\nIt goes on: ${serving.url}/ (Ctrl-C ends it).`);
    await untilAborted(context.signal);
  } finally {
    await serving.stop();
  }
}

/** One change in the service, and the row that a reader of the warehouse must see afterwards. */
interface Change {
  told: string;
  make: () => Promise<void>;
  isThere: (row: Row | undefined) => boolean;
}

interface Row {
  title: string | null;
  status: string | null;
  deleted_at: string | null;
}

async function watchRows(context: CliContext, { warehouse: address, editor }: ServeScene): Promise<void> {
  // A connection of its own, as every other reader has.
  await whileOpen(await openWarehouse(address, context.clock), async (warehouse) => {
    const { id } = await editor.create({ title: 'Written while you watch', status: 'draft' });
    for (const { told, make, isThere } of changesOf(editor, id)) {
      const began = context.clock.monotonic();
      await make();
      const ms = await until(context, began, async () => isThere(await rowOf(warehouse.own, id)));
      say(context, `  ${told.padEnd(20)} the row followed after ${String(Math.round(ms)).padStart(4)} ms`);
      await context.clock.sleep(BETWEEN_CHANGES_MS, context.signal);
    }
  });
}

function changesOf(editor: DemoEditor, id: string): Change[] {
  const renamed = 'Renamed while you watch';
  const restored = 'Restored while you watch';
  return [
    { told: 'a post was written', make: async () => undefined, isThere: (row) => row?.deleted_at === null },
    {
      told: 'it was renamed',
      make: () => editor.change(id, { title: renamed }),
      isThere: (row) => row?.title === renamed,
    },
    {
      told: 'it was published',
      make: () => editor.change(id, { status: 'published' }),
      isThere: (row) => row?.status === 'published',
    },
    {
      told: 'it was deleted',
      make: () => editor.remove(id),
      isThere: (row) => row !== undefined && row.deleted_at !== null,
    },
    {
      told: 'it was restored',
      make: async () => void (await editor.create({ id, title: restored, status: 'published' })),
      isThere: (row) => row?.deleted_at === null && row.title === restored,
    },
  ];
}

async function rowOf(own: Kysely<OwnTables>, id: string): Promise<Row | undefined> {
  const { rows } =
    await sql<Row>`SELECT title, status, _deleted_at AS deleted_at FROM content WHERE id = ${id}`.execute(own);
  return rows[0];
}

/** Milliseconds since `began` until it holds. */
async function until({ clock, signal }: CliContext, began: number, holds: () => Promise<boolean>): Promise<number> {
  while (!(await holds())) {
    if (clock.monotonic() - began > PATIENCE_MS) {
      throw new SyncError('demo_failed', 'the change did not reach the warehouse', { recovery: 'stop' });
    }
    await clock.sleep(LOOK_EVERY_MS, signal);
  }
  return clock.monotonic() - began;
}

/** A post, as far as the demo looks into it. */
export interface Post {
  id: string;
  title: string;
}

function pathOf(id: string): string {
  return `content/${encodeURIComponent(id)}`;
}

type DemoEditor = ReturnType<typeof demoEditor>;

/** The service as an editor's tool uses it: through its API, with the same key. */
function demoEditor({ url, apiKey }: Sandbox) {
  const headers = { authorization: `Bearer ${apiKey}`, 'content-type': 'application/json' };
  const ask = async (method: 'GET' | 'POST' | 'PATCH' | 'DELETE', path: string, record?: object): Promise<string> => {
    const body = record === undefined ? null : JSON.stringify(record);
    const answer = await request(`${url}/v1/${path}`, { method, headers, body });
    const text = await answer.body.text();
    if (answer.statusCode >= 300) throw new Error(`the sandbox answered ${answer.statusCode}: ${text}`);
    return text;
  };
  return {
    /** The first posts of the listing. */
    list: async (limit: number): Promise<Post[]> => JSON.parse(await ask('GET', `content?limit=${limit}`)).data,
    /** Returns the post that was made. */
    create: async (fields: Partial<Post> & { status: string }): Promise<Post> =>
      JSON.parse(await ask('POST', 'content', fields)),
    change: async (id: string, fields: object) => void (await ask('PATCH', pathOf(id), fields)),
    remove: async (id: string) => void (await ask('DELETE', pathOf(id))),
    /** Has the service send every change to an address. */
    subscribe: async (address: string, secret: string) =>
      void (await ask('POST', 'webhooks', { url: address, events: ['*'], secret })),
  };
}
