import { setTimeout as delay } from 'node:timers/promises';
import { startScript } from '../../support/child-script.ts';
import type { TestDatabase } from '../../support/databases.ts';
import { randomFrom, type Random } from '../../support/random.ts';
import type { ReceivedSource } from '../../../src/server/receiver/setup.ts';
import { receivedSource, rowsOf, signed } from './receiver-stage.ts';
import { sendUnderLoad } from './sending-load.ts';

const SCRIPT = new URL('receiving.ts', import.meta.url);
const SENDERS = 24;
/** About what it takes until all senders are at full speed. */
const LONGEST_MS = 600;

export interface KillTally {
  kills: number;
  /** Deliveries that were answered with a 2xx. */
  acked: number;
  /** Of these, what the inbox does not hold after the kill. */
  lost: string[];
  /** Kills that met at least one delivery under way. */
  midway: number;
  faults: string[];
}

interface KillPlan {
  database: TestDatabase;
  kills: number;
  seed: number;
}

/** Sends to a receiver from many connections, kills it with SIGKILL at a random moment, and compares; again and again. */
export async function killReceiver({ database, kills, seed }: KillPlan): Promise<KillTally> {
  const random = randomFrom(seed);
  const source = receivedSource(await database.address());
  const acked = new Set<string>();
  const tally: KillTally = { kills: 0, acked: 0, lost: [], midway: 0, faults: [] };
  for (; tally.kills < kills; tally.kills += 1) {
    const { child, ready, ended } = startScript(SCRIPT, [JSON.stringify([source])]);
    const port = Number((await Promise.race([ready, ended.then(({ stderr }) => stderr)])).trim());
    const load = sendUnderLoad({
      port: () => port,
      senders: SENDERS,
      delivery: (name) => signed(source, { id: `msg_${seed}_${tally.kills}_${name}`, body: body(random, name) }),
    });
    await delay(random.whole(1, LONGEST_MS));
    if (load.underWay() > 0) tally.midway += 1;
    child.kill('SIGKILL');
    const { ids, faults } = await load.stop();
    await ended;
    for (const id of ids) acked.add(id);
    tally.faults.push(...faults);
    const rows = await rowsOf(source, database);
    tally.faults.push(...(await damage(source, database)));
    const stored = new Set(rows.filter(({ state }) => state === 'waiting').map((row) => row.delivery_id));
    tally.lost.push(...[...acked].filter((id) => !stored.has(id)));
  }
  tally.acked = acked.size;
  return tally;
}

function body(random: Random, id: string): string {
  return JSON.stringify({ type: 'content.updated', data: { id }, padding: 'x'.repeat(random.whole(0, 3_000)) });
}

/** What SQLite's own check finds; Postgres looks after its files itself. */
async function damage({ inbox }: ReceivedSource, database: TestDatabase): Promise<string[]> {
  const lines = await database.read(inbox, (db) => db.prepare<[], string>('PRAGMA integrity_check').pluck().all());
  return lines.filter((line) => line !== 'ok');
}
