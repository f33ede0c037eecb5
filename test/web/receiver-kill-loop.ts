import { Agent, request } from 'node:http';
import { setTimeout as delay } from 'node:timers/promises';
import { startScript } from '../support/child-script.ts';
import { randomFrom, type Random } from '../support/random.ts';
import { asOther, tempFolder } from '../support/temp-warehouse.ts';
import { receivedSource, signed } from './receiver-stage.ts';

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

/** Sends to a receiver from many connections, kills it with SIGKILL at a random moment, and compares; again and again. */
export async function killReceiver({ kills, seed }: { kills: number; seed: number }): Promise<KillTally> {
  const random = randomFrom(seed);
  const source = receivedSource(tempFolder());
  const file = source.inbox.replace('sqlite:', '');
  const acked = new Set<string>();
  const tally: KillTally = { kills: 0, acked: 0, lost: [], midway: 0, faults: [] };
  for (; tally.kills < kills; tally.kills += 1) {
    const { child, ready, ended } = startScript(SCRIPT, [JSON.stringify(source)]);
    const port = Number((await Promise.race([ready, ended.then(({ stderr }) => stderr)])).trim());
    const agent = new Agent({ keepAlive: true });
    const stop = { now: false };
    const under = { way: 0 };
    const senders = Array.from({ length: SENDERS }, async (_, sender) => {
      for (let number = 0; !stop.now; number += 1) {
        const id = `msg_${seed}_${tally.kills}_${sender}_${number}`;
        under.way += 1;
        const status = await post(agent, port, signed(source, { id, body: body(random, id) }));
        under.way -= 1;
        if (status === 202) acked.add(id);
        else if (status !== 0 && status !== 503) tally.faults.push(`answered with ${status}`);
        else if (status === 0) return;
      }
    });
    await delay(random.whole(1, LONGEST_MS));
    if (under.way > 0) tally.midway += 1;
    child.kill('SIGKILL');
    stop.now = true;
    await Promise.all([...senders, ended]);
    agent.destroy();
    const stored = asOther(file, (db) => {
      tally.faults.push(
        ...db
          .prepare<[], string>('PRAGMA integrity_check')
          .pluck()
          .all()
          .filter((line) => line !== 'ok'),
      );
      return new Set(
        db.prepare<[], string>("SELECT delivery_id FROM _sync_deliveries WHERE state = 'waiting'").pluck().all(),
      );
    });
    tally.lost.push(...[...acked].filter((id) => !stored.has(id)));
  }
  tally.acked = acked.size;
  return tally;
}

function body(random: Random, id: string): string {
  return JSON.stringify({ type: 'content.updated', data: { id }, padding: 'x'.repeat(random.whole(0, 3_000)) });
}

/** The status; 0 where the connection broke before there was one. */
function post(agent: Agent, port: number, { path, headers, body }: ReturnType<typeof signed>): Promise<number> {
  const { promise, resolve } = Promise.withResolvers<number>();
  request({ agent, port, host: '127.0.0.1', method: 'POST', path, headers }, (response) => {
    response.resume().on('error', () => undefined);
    resolve(response.statusCode ?? 0);
  })
    .on('error', () => resolve(0))
    .end(body);
  return promise;
}
