import { setTimeout as delay } from 'node:timers/promises';
import { expect } from 'vitest';
import { type Command, runCommand, startCommand } from '../support/command.ts';
import { POSTGRES } from '../support/databases.ts';
import { longOrShort } from '../support/length.ts';
import { eventBody, type Serving, servingStage, type ServingStage, until } from '../support/serving.ts';

/** How many workers there are beside two processes of `serve`, and how large their pages are. */
interface WorkersPlan {
  workers: number;
  pageSize: number;
}

const PAGES = longOrShort(20, 8);

interface Together {
  stage: ServingStage;
  workers: Command[];
  serves: [Serving, Serving];
}

/** Pages of content, half as many of analytics, and a few images. */
async function together({ workers: count, pageSize }: WorkersPlan, latency: number): Promise<Together> {
  const page = { size: pageSize };
  const stage = await servingStage({
    sandbox: {
      generate: { content: PAGES * pageSize, images: pageSize + 1, analytics: (PAGES / 2) * pageSize },
      latency,
    },
    profile: { resources: { content: { page }, images: { page }, analytics: { page } } },
    database: POSTGRES,
  });
  const workers = await Promise.all(Array.from({ length: count }, () => startWorker(stage)));
  // Of processes there are enough beside it.
  return { stage, workers, serves: await Promise.all([stage.serve({ isInside: true }), stage.serve()]) };
}

/** They do what the schedule asks for once, and no page twice; `then` may ask more of them before they are stopped. */
export async function walksOnce(
  plan: WorkersPlan,
  then: (together: Together) => Promise<void> = async () => undefined,
): Promise<void> {
  const all = await together(plan, 30);
  const { stage, workers, serves } = all;
  await stage.fresh(serves[0]);
  // Behind its rows a walk tries its filter.
  await until('at the end of all walks', async () =>
    (await walksOf(stage)).every(({ status }) => status !== 'running'),
  );
  expect(await walksOf(stage)).toEqual(FIRST_WALKS);
  expect(askedTwice(stage)).toEqual([]);
  await stage.settled();
  await then(all);
  for (const serving of serves) expect(await serving.stop()).toMatchObject({ code: 0 });
  for (const each of workers) each.kill('SIGTERM');
  for (const each of workers) expect(await each.ended).toMatchObject({ code: 0 });
}

/** A worker tells its health and what it does, and nothing else; its port is its own. */
export async function isSeen({ folder }: ServingStage, worker: Command): Promise<void> {
  const url = urlOf(worker);
  const statusOf = async (page: string): Promise<number> => (await fetch(`${url}${page}`)).status;
  const pages = ['/healthz', '/readyz', '/metrics', '/', '/status.json', '/webhooks/blog'];
  const expected = { '/healthz': 200, '/readyz': 200, '/metrics': 200 };
  for (const page of pages) expect([page, await statusOf(page)]).toEqual([page, { ...none(pages), ...expected }[page]]);
  const metrics = await metricsOnceAsked(url, folder);
  expect(metrics).toContain('content_sync_running{source="blog",resource="content"} 0');
  const config = ['--config', `${folder}/content-sync.yaml`];
  const { code, stderr } = await runCommand(['worker', ...config, '--port', new URL(url).port], folder);
  expect({ code, stderr }).toMatchObject({ code: 2, stderr: expect.stringContaining('[address_in_use]') });
  expect(stderr).toContain('worker.port');
}

/** Its metrics once it has done something: of the first walks the other processes may have taken each before it did. */
async function metricsOnceAsked(url: string, folder: string): Promise<string> {
  const command = ['backfill', 'images', '--config', `${folder}/content-sync.yaml`];
  for (let tries = 0; ; tries += 1) {
    const metrics = await (await fetch(`${url}/metrics`)).text();
    if (/^content_sync_(requests|pages)_total\{source="blog".*\} [1-9]/m.test(metrics)) return metrics;
    expect(tries).toBeLessThan(20);
    await runCommand(command, folder);
  }
}

function none(pages: readonly string[]): Record<string, number> {
  return Object.fromEntries(pages.map((page) => [page, 404]));
}

/** A delivery to either becomes a row, and each record is read once for it. */
export async function becomesRows(stage: ServingStage, [first, second]: readonly [Serving, Serving]): Promise<void> {
  for (const [n, { url }] of [first, second, first, second].entries()) {
    const title = `told ${n}`;
    stage.write('content', 'new', { title });
    const body = eventBody({ resource: 'content', id: 'new' });
    expect(await stage.deliver(url, { id: `msg_${n}`, body })).toBe(202);
    await until(title, () =>
      stage.read((db) => db.prepare('SELECT title FROM content WHERE id = ?').pluck().get('new') === title),
    );
  }
  await stage.settled();
  const readAlone = stage.sandbox.requests.entries().filter(({ path }) => path.startsWith('/v1/content/new'));
  expect(readAlone).toHaveLength(4);
  const { attention } = await second.status();
  expect(attention).toEqual([]);
}

/** One that is told to stop in the middle of a walk gives it to another, which goes on at the same page. */
export async function handsOver(plan: WorkersPlan): Promise<void> {
  const { stage, workers, serves } = await together(plan, 250);
  // Whichever of them walks: a serve does walks too, and who takes what is a matter of milliseconds.
  const commands = [...workers, ...serves.map(({ command }) => command)];
  const walking = async () => {
    const owners = await ownersIn(stage);
    return commands.find(({ pid }) => owners.some((owner) => owner.includes(`pid ${pid} `)));
  };
  await until('under way', async () => (await walking()) !== undefined);
  const doomed = await walking();
  await delay(300);
  doomed?.kill('SIGTERM');
  expect(await doomed?.ended).toMatchObject({ code: 0 });
  const left = serves.find(({ command }) => command !== doomed);
  if (left === undefined) throw new Error('both serves are gone');
  await stage.fresh(left);
  await stage.settled();
  expect((await walksOf(stage)).filter((walk) => !isWhole(walk))).not.toEqual([]);
  // What was on its way when it was told.
  expect(askedTwice(stage).length).toBeLessThan(8);
}

/** Starts a worker beside what the stage runs; resolves once it takes work. */
async function startWorker(stage: ServingStage, ...options: string[]): Promise<Command> {
  const config = ['--config', `${stage.folder}/content-sync.yaml`];
  const command = startCommand(['worker', ...config, '--port', '0', ...options], stage.folder);
  const hasEnded = command.ended.then(({ stderr }) => Promise.reject(new Error(`the worker ended: ${stderr}`)));
  hasEnded.catch(() => undefined);
  await Promise.race([until('working', () => command.logged().includes('"msg":"working"')), hasEnded]);
  return command;
}

/** Where a worker has its health and metrics, as its log says. */
function urlOf(worker: Command): string {
  return /"url":"([^"]+)"/.exec(worker.logged())?.[1] ?? '';
}

interface Walk {
  resource: string;
  mode: string;
  status: string;
}

/** All walks that were begun, in the order of their resources. */
const walksOf = (stage: ServingStage): Promise<Walk[]> =>
  stage.all<Walk>('SELECT resource, mode, status FROM _sync_runs ORDER BY resource, started_at');

const FIRST_WALKS: readonly Walk[] = ['analytics', 'content', 'images'].map((resource) => ({
  resource,
  mode: 'full',
  status: 'ok',
}));

const isWhole = ({ status }: Walk): boolean => status === 'ok';

/** Who holds leases just now. */
const ownersIn = (stage: ServingStage): Promise<string[]> =>
  stage.column<string>("SELECT owner FROM _sync_leases WHERE expires_at > '2000'");

/** Pages that were asked for more than once. */
function askedTwice({ sandbox }: ServingStage): string[] {
  const asked = sandbox.requests.entries().map(({ path }) => path);
  return asked.filter((path, at) => asked.indexOf(path) !== at);
}
