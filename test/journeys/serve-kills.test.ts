import { expect, it } from 'vitest';
import { longOrShort } from '../support/length.ts';
import { freshSeed, type Random, randomFrom } from '../support/random.ts';
import { setTimeout as delay } from 'node:timers/promises';
import type Database from 'better-sqlite3';
import { eventBody, freePort, servingStage, type ServingStage, until } from '../support/serving.ts';

interface KillPlan {
  kills: number;
  seed: number;
}

/** What the loop saw. */
interface KillTally {
  /** Deliveries of our own that were answered with 202. */
  acked: number;
  /** Kills of a process that had begun to listen. */
  whileListening: number;
}

const RECORDS = longOrShort({ content: 240, images: 30, analytics: 120 }, { content: 80, images: 10, analytics: 40 });
const LANES = longOrShort(3, 2);
/** Between two deliveries of one, at most, and between two tries of the service itself. */
const [BETWEEN_MS, AGAIN_MS] = [longOrShort(20, 50), longOrShort(50, 200)];
const SETTLE_MS = 180_000;
/** What is sent by nobody else has ids of our own. */
const KINDS = ['content.updated', 'content.deleted', 'content.published', 'content.reindexed'];

/**
 * Keeps sending signed deliveries, with records changing all the time, while `serve` is killed with SIGKILL at random
 * moments and started again. After each kill every delivery that was ever acknowledged must be in the inbox; after the
 * last start all of them are worked on, and the copy is the service.
 */
async function killServe({ kills, seed }: KillPlan): Promise<KillTally> {
  const random = randomFrom(seed);
  // So many deletes as come together here are not to wait for a person.
  const source = { deletes: { max_part: 1, max_rows: 1_000_000 } };
  const stage = await servingStage({ sandbox: { generate: RECORDS, latency: 5, webhookRetry: AGAIN_MS }, source });
  const port = await freePort();
  const url = `http://127.0.0.1:${port}`;
  await stage.subscribe({ url });
  const sender = keepSending(stage, url, randomFrom(seed + 1));
  const tally: KillTally = { acked: 0, whileListening: 0 };
  try {
    for (let kill = 1; kill <= kills; kill += 1) {
      const told = `SEED=${seed}, kill ${kill}`;
      tally.whileListening += await startAndKill(stage, port, random, kill);
      const { lost, damaged } = await lookAt(stage, sender.acked);
      expect({ told, lost, damaged }).toEqual({ told, lost: [], damaged: [] });
    }
    const last = await stage.serve({ port, isInside: true });
    // Those before may have been killed before anything reached them.
    await until('acknowledged', () => sender.acked.size > 0);
    await sender.stop();
    await stage.fresh(last);
    // The service's own repeats are up to a minute apart by now.
    await stage.settled('blog', SETTLE_MS);
    const { lost, waiting, damaged } = await lookAt(stage, sender.acked);
    expect({ lost, waiting, damaged }).toEqual({ lost: [], waiting: 0, damaged: [] });
    expect(await last.stop()).toMatchObject({ code: 0 });
  } finally {
    await sender.stop();
  }
  return { ...tally, acked: sender.acked.size };
}

/** 1 where it had begun to listen, else 0. Every third one is killed while it starts. */
async function startAndKill(stage: ServingStage, port: number, random: Random, kill: number): Promise<number> {
  const command = stage.launch({ port });
  const isStarting = kill % 3 === 0;
  const hasEnded = command.ended.then(({ stderr }) => {
    throw new Error(`serve ended by itself: ${stderr}`);
  });
  hasEnded.catch(() => undefined);
  if (!isStarting) {
    await Promise.race([until('listening', () => command.logged().includes('"msg":"listening"')), hasEnded]);
  }
  await Promise.race([delay(random.spread(isStarting ? 100 : 1, 1_500)), hasEnded]);
  const listened = command.logged().includes('"msg":"listening"');
  command.kill('SIGKILL');
  await command.ended;
  return listened ? 1 : 0;
}

interface Look {
  /** Acknowledged, but not in the inbox. */
  lost: string[];
  waiting: number;
  /** Of both files. */
  damaged: string[];
}

async function lookAt(stage: ServingStage, acked: ReadonlySet<string>): Promise<Look> {
  const rows = await stage.readInbox((db) => {
    const hasTable = db.prepare("SELECT 1 FROM sqlite_schema WHERE name = '_sync_deliveries'").get() !== undefined;
    if (!hasTable) return [];
    return db
      .prepare<[], { delivery_id: string; state: string }>('SELECT delivery_id, state FROM _sync_deliveries')
      .all();
  });
  const stored = new Set(rows.map((row) => row.delivery_id));
  const damaged = [...(await stage.read(damageIn)), ...(await stage.readInbox(damageIn))];
  return {
    lost: [...acked].filter((id) => !stored.has(id)),
    waiting: rows.filter(({ state }) => state === 'waiting').length,
    damaged,
  };
}

function damageIn(db: Database.Database): string[] {
  const lines = db.prepare<[], string>('PRAGMA integrity_check').pluck().all();
  return lines.filter((line) => line !== 'ok');
}

/** Changes records and tells of them, and of records that did not change, until it is stopped. */
function keepSending(stage: ServingStage, url: string, random: Random) {
  const acked = new Set<string>();
  const ids = [...stage.sandbox.store.list('content')].map(({ id }) => id);
  const over = new AbortController();
  const lane = async (number: number): Promise<void> => {
    for (let n = 0; !over.signal.aborted; n += 1) {
      const record = random.pick(ids);
      change(stage, record, random);
      const id = `own_${number}_${n}`;
      const data = random.chance(0.95) ? { resource: 'content', id: random.pick(ids) } : { resource: 'menus' };
      const body = eventBody(data, random.pick(KINDS));
      const status = await stage.deliver(url, { id, body });
      if (status === 202) acked.add(id);
      // What is changed while nobody listens is repeated by the service until somebody does: not too much of it.
      await delay(status === 202 ? random.whole(0, BETWEEN_MS) : 150);
    }
  };
  const lanes = Promise.all(Array.from({ length: LANES }, (_, number) => lane(number)));
  return {
    acked,
    stop: async () => {
      over.abort();
      await lanes;
    },
  };
}

/** Mostly an edit, seldom a delete; the sandbox tells its subscriber of it and repeats that until it is heard. */
function change(stage: ServingStage, record: string, random: Random): void {
  const isThere = stage.sandbox.store.get('content', record) !== null;
  if (isThere && random.chance(0.01)) stage.sandbox.store.remove('content', record);
  else stage.write('content', record, { title: `change ${random.whole(1, 1_000_000)}` });
}

/** Up to six starts, on a machine that may be busy with everything else as well. */
const PATIENCE_MS = longOrShort(3_600_000, 240_000);

it(
  'F148 F177 serve loses nothing that it acknowledged when it is killed at random moments, and ends equal to the service',
  { timeout: PATIENCE_MS },
  async () => {
    const kills = longOrShort(100, 3);
    const { acked, whileListening } = await killServe({ kills, seed: freshSeed() });
    expect(acked).toBeGreaterThan(longOrShort(kills, 0));
    expect(whileListening).toBeGreaterThan(longOrShort(2, 1));
  },
);
