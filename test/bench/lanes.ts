import { setTimeout as delay } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { RowWatch } from './row-watch.ts';
import { epochNow, load, percentiles, staged } from './staged.ts';

/**
 * `node test/bench/lanes.ts`: webhooks while a backfill uses the whole limit. A service of few requests per second, a
 * backfill of hundreds of pages under way; records change there without costing anything of the limit. First all of
 * them at once, then one per second. `--database postgres` as in `fresh.ts`. Prints how soon their rows followed, and what the backfill got meanwhile.
 */
const { values: options } = parseArgs({
  options: {
    rate: { type: 'string', default: '2' },
    webhooks: { type: 'string', default: '20' },
    records: { type: 'string', default: '50000' },
    database: { type: 'string', default: 'sqlite' },
  },
});
const BEFORE_S = 10;
const many = Number(options.webhooks);
const stage = await staged({
  sandbox: { generate: { content: Number(options.records) }, rate: Number(options.rate) },
  copied: false,
  database: options.database,
});
const watch = new RowWatch(stage.reader);
try {
  await stage.subscribe();
  const ids = await stage.sandbox.ids();
  const began = epochNow();
  await delay(BEFORE_S * 1_000);
  await told('the backfill alone', began);

  const allAtOnce = epochNow();
  // Of the pages that are not read yet, so that no page brings the change.
  const delays = await Promise.all(ids.slice(-2 * many, -many).map((id) => changed(id, 'at once')));
  await told(`${many} webhooks at once: to the row ${percentiles(delays)}`, allAtOnce);

  const oneByOne = epochNow();
  const later = ids.slice(-many).map(async (id, second) => {
    await delay(second * 1_000);
    return changed(id, 'one per second');
  });
  await told(`${many} webhooks, one per second: to the row ${percentiles(await Promise.all(later))}`, oneByOne);
  console.log(`${options.database}; ${load()}`);
} finally {
  await watch.close();
  await stage.close();
}

/** Milliseconds until a reader sees it. */
async function changed(id: string, title: string): Promise<number> {
  const seen = watch.seen(id, { title });
  const began = epochNow();
  await stage.sandbox.rename(id, title);
  return (await seen).at - began;
}

/** What was asked for since a moment, by who asked. */
async function told(what: string, since: number): Promise<void> {
  const seconds = (epochNow() - since) / 1_000;
  const requests = (await stage.sandbox.requests()).filter(({ at, method }) => at >= since && method === 'GET');
  const perSecond = (isWanted: (path: string) => boolean): string =>
    (requests.filter(({ path, status }) => status !== 429 && isWanted(path)).length / seconds).toFixed(2);
  const pages = perSecond((path) => /^\/v1\/content(\?|$)/.test(path));
  const items = perSecond((path) => path.startsWith('/v1/content/'));
  const limited = requests.filter(({ status }) => status === 429).length;
  console.log(
    `${what}\n  ${seconds.toFixed(1)} s: ${pages} pages/s, ${items} records/s of ${options.rate}/s; ${limited} times 429`,
  );
}
