import { setTimeout as delay } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { isDrained, load, percentiles, staged, until } from './staged.ts';

/**
 * `node test/bench/fresh.ts`: how soon a change in the service is a row. A sandbox and a `serve` in processes of their
 * own, on SQLite or with `--database postgres` on a server of its own; records are changed through the API at a steady
 * rate, each once, whether or not the earlier changes have arrived. A reader with a connection of its own waits for each
 * row. Prints the time from just before the request of the change to the row.
 */
const { values: options } = parseArgs({
  options: {
    seconds: { type: 'string', default: '60' },
    rate: { type: 'string', default: '20' },
    records: { type: 'string', default: '5000' },
    database: { type: 'string', default: 'sqlite' },
  },
});
const WARM_SECONDS = 5;
const LOOK_EVERY_MS = 1;

/** Moments of changes whose rows are waited for, by the id of the record. */
const waiting = new Map<string, number>();
const delays: number[] = [];
const stage = await staged({
  sandbox: { generate: { content: Number(options.records) } },
  copied: true,
  database: options.database,
});
try {
  await stage.subscribe();
  const ids = await stage.sandbox.ids();
  const looking = { isOver: false };
  const looked = look(looking);
  await changesFor(WARM_SECONDS, ids);
  delays.length = 0;
  await changesFor(Number(options.seconds), ids);
  looking.isOver = true;
  await looked;
  await until(() => isDrained(stage), 'the inbox does not become empty');
  console.log(
    `${options.database}: ${delays.length} changes at ${options.rate}/s over ${options.records} records; ${load()}`,
  );
  console.log(`  from before the request to the row: ${percentiles(delays)}`);
  for (const line of stage.complaints) console.log(`  serve said: ${line}`);
} finally {
  await stage.close();
}

/** Resolves once a reader has seen the rows. */
async function changesFor(seconds: number, ids: string[]): Promise<void> {
  const total = seconds * Number(options.rate);
  const began = performance.now();
  const changes: Promise<void>[] = [];
  for (let n = 0; n < total; n += 1) {
    await delay(Math.max(0, began + (n * 1_000) / Number(options.rate) - performance.now()));
    const id = ids.pop();
    if (id === undefined) throw new Error('too few --records for so many changes');
    waiting.set(id, performance.now());
    changes.push(stage.api('PATCH', id, { title: `changed: ${id}` }));
  }
  await Promise.all(changes);
  await until(() => Promise.resolve(waiting.size === 0), 'a row did not follow');
}

/** Sees rows as a reader of the warehouse does. */
async function look(looking: { isOver: boolean }): Promise<void> {
  while (!looking.isOver) {
    await delay(LOOK_EVERY_MS);
    if (waiting.size === 0) continue;
    for (const { id, title } of await stage.reader.content([...waiting.keys()])) {
      const began = waiting.get(id);
      if (began === undefined || title !== `changed: ${id}`) continue;
      waiting.delete(id);
      delays.push(performance.now() - began);
    }
  }
}
