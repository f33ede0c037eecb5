import { randomBytes } from 'node:crypto';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { Command } from 'commander';
import { sql } from 'kysely';
import type { Logger } from 'pino';
import type { App } from '../../app.ts';
import { SyncError } from '../../model/errors.ts';
import { countText, percentText, rateText } from '../../observe/figures.ts';
import { asStarted } from '../../observe/started-as.ts';
import { type Sandbox, startSandbox } from '../../sandbox/sandbox.ts';
import { filesText, readFileStatus } from '../../serve/status/stored.ts';
import type { SyncCommand } from '../../sync/plan.ts';
import type { CliContext } from '../command/context.ts';
import { EXIT_CODES } from '../command/exit-code.ts';
import { FIRST_STEPS } from '../command/first-steps.ts';
import { alignedLines } from '../command/output.ts';
import { summaryText } from '../command/run-summary.ts';
import { forEachSource } from '../command/sources.ts';
import { watchRun } from '../command/watch-run.ts';
import { withApp } from '../command/with-app.ts';
import { demoEditor, type DemoEditor } from './demo-editor.ts';
import { demoServe } from './demo-serve.ts';

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
    await demoServe(context, { config, source, warehouse, secret, editor, keep, say: (text) => say(context, text) });
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
